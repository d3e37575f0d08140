"""Every public function and class has numpydoc sections that name its parameters, and an example.

What is public is what docs/api.md lists. Exceptions, enumerations and protocols are described by
their members; everything else that takes parameters says what they are.
"""

import doctest
import enum
import importlib
import inspect
import pkgutil
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docs.generate import PACKAGES

import veilsum

OWN = ("self", "cls")
LISTENS = "starts MPI, which opens listening ports"
NO_EXAMPLE = {  # all other sections are required of them
    "simulation.mpi.communicator.world": LISTENS,
    "simulation.mpi.network.load_slices": LISTENS,
    "simulation.mpi.runner.simulate": LISTENS,
}


def public() -> Iterator[Any]:
    """Every documented function and class, once, by where it is defined."""
    seen: dict[str, Any] = {}
    for module in map(importlib.import_module, PACKAGES):
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if inspect.isfunction(thing) or inspect.isclass(thing):
                seen.setdefault(f"{thing.__module__}.{thing.__qualname__}", thing)
    for where, thing in sorted(seen.items()):
        yield pytest.param(thing, id=where.removeprefix("veilsum."))


def test_names_without_an_example_are_public_and_start_mpi() -> None:
    assert set(NO_EXAMPLE) <= {param.id for param in public()}
    assert all(name.startswith("simulation.mpi.") for name in NO_EXAMPLE)


def is_exempt(thing: Any) -> bool:
    if not inspect.isclass(thing):
        return False
    return issubclass(thing, BaseException | enum.Enum) or getattr(thing, "_is_protocol", False)


def sections(text: str) -> dict[str, str]:
    """The numpydoc sections of a docstring."""
    parts = re.split(r"(?m)^([A-Z][A-Za-z ]+)\n-{3,}\n", inspect.cleandoc(text))
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def parameters(thing: Any) -> list[str]:
    try:
        signature = inspect.signature(thing)
    except ValueError:
        return []
    return [name for name in signature.parameters if name not in OWN and not name.startswith("_")]


def described(section: str) -> set[str]:
    """The names before a colon, or alone on a line, at the margin of a section."""
    names: set[str] = set()
    for line in section.splitlines():
        if line and not line[0].isspace():
            names |= {name.strip().lstrip("*") for name in line.partition(" :")[0].split(",")}
    return names


@pytest.mark.parametrize("thing", list(public()))
def test_public_names_have_numpydoc_sections_and_an_example(thing: Any) -> None:
    if is_exempt(thing):
        return
    text = thing.__doc__ or ""
    found = sections(text)
    expected = parameters(thing)
    if expected:
        named = described(found.get("Parameters", "") + "\n" + found.get("Attributes", ""))
        missing = [name for name in expected if name not in named]
        assert not missing, f"the section Parameters does not describe {missing}"
    if inspect.isfunction(thing) and thing.__annotations__.get("return") not in ("None", None):
        assert "Returns" in found or "Yields" in found, "the section Returns is missing"
    assert "+SKIP" not in text, "an example that is skipped may be wrong"
    if f"{thing.__module__}.{thing.__qualname__}".removeprefix("veilsum.") in NO_EXAMPLE:
        assert "Examples" in found, "the section Examples is missing"
        assert ">>>" not in text, "an example must not start MPI"
    else:
        assert ">>>" in found.get("Examples", ""), "the section Examples is missing"


def modules() -> list[str]:
    found = pkgutil.walk_packages(veilsum.__path__, "veilsum.")
    return [module.name for module in found if not module.name.endswith("__main__")]


@pytest.mark.parametrize("name", modules())
def test_examples_run(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = importlib.import_module(name)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        notebook = {"__name__": "__main__"}  # what an example defines is no part of veilsum
        flags = doctest.NORMALIZE_WHITESPACE
        outcome = doctest.testmod(module, extraglobs=notebook, optionflags=flags)
    assert outcome.failed == 0, f"{outcome.failed} of {outcome.attempted} examples failed"
