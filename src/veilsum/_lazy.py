"""Packages whose public names are imported on first access (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from veilsum import _extras


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Make a package's `__getattr__` from a table of name -> module that defines it.

    A module is a submodule of the package, such as "graph", or a full name, such as
    "veilsum._types".
    """

    def getter(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(_extras.load(home(package, homes[name])), name)

    return getter


def home(package: str, module: str) -> str:
    """The full name of a module in a table of `lazily`."""
    return module if module.startswith("veilsum.") else f"{package}.{module}"
