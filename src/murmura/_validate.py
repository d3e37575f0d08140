"""Checks at the edge of the API: `positive(epsilon=epsilon)` returns nothing or raises."""

from __future__ import annotations

import math
from collections.abc import Iterable

from murmura.errors import MurmuraError


def positive(error: type[MurmuraError], **values: float) -> None:
    """Raise unless every value is a finite number above 0."""
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise error(f"{name} must be a finite number above 0; found {value}")


def probability(error: type[MurmuraError], **values: float) -> None:
    """Raise unless every value lies in [0, 1)."""
    for name, value in values.items():
        if not 0 <= value < 1:
            raise error(f"{name} must be a probability in [0, 1); found {value}")


def at_least(error: type[MurmuraError], least: int, **values: int) -> None:
    """Raise unless every value is a whole number of at least `least`."""
    for name, value in values.items():
        if isinstance(value, bool) or int(value) != value or value < least:
            raise error(f"{name} must be a whole number of at least {least}; found {value}")


def one_of(error: type[MurmuraError], allowed: Iterable[str], **values: str) -> None:
    """Raise unless every value is one of the allowed words."""
    words = list(allowed)
    for name, value in values.items():
        if value not in words:
            raise error(f"{name} must be one of {', '.join(words)}; found {value!r}")
