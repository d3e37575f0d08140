"""Which distributions a requirement brings, from the metadata of those that are installed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def closure(roots: Iterable[Requirement], *, everywhere: bool = False) -> dict[str, set[str]]:
    """Follow requirements to the end.

    Parameters
    ----------
    roots
        Where to start: requirements with their extras.
    everywhere
        Also what other systems and Pythons need. What is not installed here ends its branch.

    Returns
    -------
    dict
        Every distribution by its canonical name, with the names that it requires directly.
    """
    found: dict[str, set[str]] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [one for one in roots if _holds(one, "", everywhere)]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        edges = found.setdefault(name, set())
        for extra in {"", *requirement.extras}:
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            for inner in _requirements(name):
                if _holds(inner, extra, everywhere):
                    edges.add(canonicalize_name(inner.name))
                    waiting.append(inner)
    return found


def _requirements(name: str) -> list[Requirement]:
    try:
        return list(map(Requirement, distribution(name).requires or []))
    except PackageNotFoundError:  # of another system or Python
        return []


def _holds(requirement: Requirement, extra: str, everywhere: bool) -> bool:
    """Whether a requirement counts, given the extra that was asked for."""
    if requirement.marker is None:
        return True
    if not everywhere:
        return requirement.marker.evaluate({"extra": extra})
    named = re.findall(r'extra == "([^"]+)"', str(requirement.marker))
    return not named or canonicalize_name(extra) in map(canonicalize_name, named)
