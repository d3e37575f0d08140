"""Things that register themselves: names, near names, discovery, threads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from veilsum._registry import Registry, did_you_mean
from veilsum.errors import AlgorithmError

PACKAGE = "registry_specimen"
BASE = f"""
from veilsum._registry import Registry
from veilsum.errors import AlgorithmError
SHAPES = Registry("shape", "{PACKAGE}", AlgorithmError)
class Shape:
    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        SHAPES.enlist(cls)
"""


def shape(name: str) -> str:
    return f"from {PACKAGE}.base import Shape\nclass {name.title()}(Shape):\n    name = {name!r}\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with a base, two shapes in files of their own and a helper that states no name."""
    folder = tmp_path / PACKAGE
    folder.mkdir()
    helper = f"from {PACKAGE}.base import Shape\nclass Rounded(Shape): ...\n"
    texts = {"__init__": "", "base": BASE, "square": shape("square"), "circle": shape("circle")}
    for name, text in {**texts, "helper": helper}.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def shapes() -> tuple[Registry[Any], Any]:
    from registry_specimen.base import SHAPES, Shape  # type: ignore[import-not-found]

    return SHAPES, Shape


def test_every_module_of_the_package_is_found_at_the_first_question(package: Path) -> None:
    (package / "dodecagon.py").write_text(shape("dodecagon"), encoding="utf-8")
    known, _ = shapes()
    assert f"{PACKAGE}.dodecagon" not in sys.modules  # importing the base imports nothing else
    assert known.names() == ["circle", "dodecagon", "square"] == list(known)
    assert [thing.__name__ for thing in known.values()] == ["Circle", "Dodecagon", "Square"]
    assert dict(known.items())["circle"] is known["circle"]
    assert len(known) == 3


@pytest.mark.usefixtures("package")
def test_a_name_that_is_known_imports_nothing_else() -> None:
    known, _ = shapes()
    __import__(f"{PACKAGE}.square")
    assert known.get("Square").name == "square"
    assert f"{PACKAGE}.circle" not in sys.modules


@pytest.mark.usefixtures("package")
def test_only_classes_of_the_package_that_state_a_name_are_listed_unasked() -> None:
    known, base = shapes()
    mine = type("Mine", (base,), {"name": "mine"})
    __import__(f"{PACKAGE}.square")
    type("Inherits", (known["square"],), {"__module__": f"{PACKAGE}.square"})
    assert known.names() == ["circle", "square"]
    known.add("mine", mine)
    assert "mine" in known
    known.remove("mine")
    known.remove("mine")
    assert "mine" not in known


@pytest.mark.usefixtures("package")
def test_threads_that_ask_first_all_get_the_whole_listing() -> None:
    known, _ = shapes()
    with ThreadPoolExecutor(8) as pool:
        listings = list(pool.map(lambda _: known.names(), range(32)))
    assert set(map(tuple, listings)) == {("circle", "square")}


def test_a_second_thing_of_a_name_is_refused_and_both_are_named() -> None:
    known: Registry[Any] = Registry("shape", "", AlgorithmError)
    first, other = type("First", (), {}), type("Other", (), {})
    known.add("oval", first)
    known.add("oval", type("First", (), {}))  # a definition that is loaded again
    with pytest.raises(AlgorithmError, match=r"'Oval' belongs to another shape, .*First; .*Other"):
        known.add("Oval", other)
    assert known["oval"].__name__ == "First"


def test_the_error_of_an_unknown_name_gives_the_nearest_and_all_known() -> None:
    known: Registry[int] = Registry("shape", "", AlgorithmError)
    known.add("dark-square", 1)
    known.add("circle", 2)
    assert known.get("Dark Square") == known.get("dark_square") == 1
    with pytest.raises(AlgorithmError) as near:
        known.get("cirle")
    assert str(near.value) == (
        "no shape is called 'cirle'; did you mean circle? known: circle, dark-square"
    )
    with pytest.raises(AlgorithmError, match=r"'x'; known: circle"):
        known.get("x")
    with pytest.raises(AlgorithmError, match="must be text"):
        known.add("", 3)
    assert not did_you_mean("zzz", known)
    assert 3 not in known
