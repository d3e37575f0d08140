from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilsum._toml import lines

TEXT = '''a = 1
b.c = "x # ] y" # a comment
"d e".f = [1, [2,
  3], {g = 1, "h" = 'z', i.j = []},
]
[t]
m = """
many ] lines " "" \\" """
n = {}
[[v]]
p.q = 1979-05-27T07:32:00Z
[v.sub]
k = 1
[[v]]
[[v.w]]
z = \'\'\'a''b\'\'\'
[[v.w]]
z = [ ] # empty
y = { a = { b = [ 1 ] } , c = 2 }
[x.y]
[x]
'''


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(item, (*path, key))


def test_every_path_that_tomllib_finds_has_a_line_and_no_other() -> None:
    assert set(lines(TEXT)) == set(paths(tomllib.loads(TEXT)))


def test_lines_are_those_of_the_text() -> None:
    found = lines(TEXT)
    assert found["b", "c"] == 2
    assert found["d e", "f", 1, 1] == 4
    assert found["t", "n"] == 9
    assert found["v", 0, "sub", "k"] == 13
    assert found["v", 1, "w", 1, "y", "a", "b"] == 19
    assert found["x", "y"] == 20
    assert found["x",] == 21


def test_windows_line_ends_count_the_same() -> None:
    assert lines(TEXT.replace("\n", "\r\n")) == lines(TEXT)


KEYS = st.text("ab-_1", min_size=1, max_size=3) | st.sampled_from(['"q.r"', "'s t'", '"\\u0041"'])
SCALARS = st.sampled_from(
    ["1", "-2.5e3", "inf", "true", '"x"', "'#'", '"""\n"\n"""', "'''a\n'b'''", "2020-01-01"]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda xs: "[\n" + ", # c\n".join(xs) + "\n]")
        | st.dictionaries(KEYS, inner.filter(lambda x: "# c" not in x), max_size=3).map(
            lambda d: "{ " + ", ".join(f"{k} = {v}" for k, v in d.items()) + " }"
        )
    ),
    max_leaves=8,
)
PAIRS = st.lists(st.tuples(st.lists(KEYS, min_size=1, max_size=2), VALUES), max_size=3)
HEADERS = st.sampled_from(["[", "[["])
TABLES = st.lists(st.tuples(HEADERS, st.lists(KEYS, min_size=1, max_size=2), PAIRS), max_size=4)


def write(pairs: Any) -> str:
    return "".join(f"{' . '.join(keys)} = {value}\n" for keys, value in pairs)


@pytest.mark.thorough
@given(PAIRS, TABLES)
def test_random_texts_agree_with_tomllib(first: Any, tables: Any) -> None:
    text = write(first)
    for bracket, keys, pairs in tables:
        text += f"\n# table\n{bracket} {'.'.join(keys)} {']' * len(bracket)}\n{write(pairs)}"
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    found = lines(text)
    assert set(found) == set(paths(data))
    assert all(1 <= line <= text.count("\n") + 1 for line in found.values())
