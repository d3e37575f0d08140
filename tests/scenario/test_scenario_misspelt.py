"""Whatever is misspelt, the answer is a ScenarioError: never another exception, never silence."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scenario.scenario_texts import BASE
from veilsum._toml import lines
from veilsum.errors import ScenarioError
from veilsum.scenario import Scenario

TEXT = BASE + '\n[[variant]]\nname = "a"\nalgorithm.rounds = 4\n[[variant]]\nname = "b"\n'
KEYS = sorted({str(key) for path in lines(TEXT) for key in path if isinstance(key, str)})
LETTERS = st.text("abcdefghijklmnopqrstuvwxyz_-", min_size=1, max_size=2)


@st.composite
def misspelt(draw: Any) -> Any:
    """One key of the text with a letter added, taken away or changed."""
    numbered = [
        (number, key)
        for number, line in enumerate(TEXT.split("\n"))
        for key in KEYS
        if key in line.split("=")[0].replace(".", " ").strip("[] ").split()
    ]
    number, key = draw(st.sampled_from(numbered))
    at = draw(st.integers(0, len(key)))
    cut = draw(st.integers(at, min(at + 1, len(key))))
    wrong = key[:at] + draw(st.just("") | LETTERS) + key[cut:]
    rows = TEXT.split("\n")
    head, sign, rest = rows[number].partition("=")
    rows[number] = head.replace(key, wrong, 1) + sign + rest
    return key, wrong, "\n".join(rows)


@given(misspelt())
def test_misspelt_keys_are_scenario_errors(case: Any) -> None:
    key, wrong, text = case
    if wrong == key:
        return
    with pytest.raises(ScenarioError) as caught:
        Scenario.parse(text, "t.toml")
    assert str(caught.value).startswith("t.toml, line ")


PUBLISHED = st.characters(exclude_characters="'", exclude_categories=["Cc", "Cs"])
VALUES = st.one_of(
    st.sampled_from(["nan", "-inf", "{}", "[]", "[[]]", "1979-05-27", "true", "''", "1e400", "-1"]),
    st.integers(-(10**30), 10**30).map(str),
    st.text(PUBLISHED).map("'{}'".format),
)  # fmt: skip


@given(st.sampled_from([row for row in TEXT.split("\n") if "=" in row]), VALUES)
def test_strange_values_never_escape_as_other_errors(row: Any, value: Any) -> None:
    text = TEXT.replace(row, f"{row.split('=')[0]}= {value}")
    try:
        scenario = Scenario.parse(text, "t.toml")
    except ScenarioError:
        return
    assert len(scenario.variants) == 2


@given(st.text(max_size=60))
def test_any_text_at_all(text: Any) -> None:
    with pytest.raises(ScenarioError):
        Scenario.parse(text)
