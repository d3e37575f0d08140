"""Which values a signal may take: an interval, open or closed, of reals or of whole numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilsum._validate import as_float, found, real_array
from veilsum.errors import FamilyError, SignalError

Bounds = tuple[float | None, float | None]


class Metric(StrEnum):
    """The distance between two signals, which defines adjacency."""

    ABSOLUTE = "absolute"  # |s - s'|
    L1 = "l1"  # the sum of |s_k - s'_k| over the components of a vector
    DISCRETE = "discrete"  # any two values are adjacent: categories have no distance


def number(value: float) -> str:
    """A number in its short form: 1, 0.1, 1000317."""
    return f"{value:.10g}"


@dataclass(frozen=True)
class Support:
    """{s : low <= s <= high}, an end left out where it is open, whole numbers where `integer`.

    Parameters
    ----------
    low, high : float
        The ends; infinite for none.
    open_low, open_high : bool
        Whether an end is left out.
    integer : bool
        Whether signals are whole numbers.

    Raises
    ------
    FamilyError
        For fewer than two points.

    Examples
    --------
    >>> from veilsum import families
    >>> families.Support(low=0.0, open_low=True).describe()
    's > 0'
    """

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    integer: bool = False

    def __post_init__(self) -> None:
        """Move the ends of whole numbers inwards; raise for fewer than two points."""
        for name, end in (("low", self.low), ("high", self.high)):
            if math.isnan(as_float(end)):
                raise FamilyError(f"{name} of a support must be a number; found {found(end)}")
        if self.integer:
            low, high = _inwards(self.low, self.high)
            object.__setattr__(self, "low", low)
            object.__setattr__(self, "high", high)
        if not self.low < self.high:
            raise FamilyError(
                f"a support needs low < high; found low={number(self.low)}, "
                f"high={number(self.high)}; a signal that cannot move needs no privacy"
            )

    def violations(self, signals: ArrayLike) -> NDArray[np.bool_]:
        """True where a signal is outside the support; NaN and infinities always are."""
        s = real_array(SignalError, signals=signals)
        above = s > self.low if self.open_low else s >= self.low
        below = s < self.high if self.open_high else s <= self.high
        inside = above & below & np.isfinite(s)
        if self.integer:
            inside &= s == np.floor(s)
        return np.asarray(~inside)

    def contains(self, signals: NDArray[np.float64]) -> bool:
        """Whether no signal is outside the support: seen from the least and the largest of many."""
        if self.integer or not signals.size:
            return not self.violations(signals).any()
        with np.errstate(invalid="ignore"):  # NaN is the least and the largest
            ends = np.array([signals.min(), signals.max()])
        return not self.violations(ends).any()

    def within(self, bounds: Bounds | None) -> Support:
        """The intersection with closed bounds, rounded inwards to whole numbers if `integer`."""
        if bounds is None:
            return self
        low, high = _ends(bounds)
        if self.integer:
            low, high = _inwards(low, high)
        if max(low, self.low) >= min(high, self.high):
            raise FamilyError(
                f"bounds must leave two values or more of the support ({self.describe()}); "
                f"found bounds=({_end(bounds[0])}, {_end(bounds[1])})"
            )
        return replace(
            self,
            low=max(low, self.low),
            high=min(high, self.high),
            open_low=self.open_low and self.low >= low,
            open_high=self.open_high and self.high <= high,
        )

    def clip(self, signals: ArrayLike) -> NDArray[np.float64]:
        """min(max(s, low), high); NaN stays NaN. An open end has no nearest value: an error."""
        if (self.open_low and math.isfinite(self.low)) or (
            self.open_high and math.isfinite(self.high)
        ):
            raise FamilyError(
                f"cannot clip to {self.describe()}: the end is not part of it; "
                "give the family bounds, e.g. bounds=(0.1, None)"
            )
        return np.clip(np.asarray(signals, dtype=np.float64), self.low, self.high)

    def describe(self, symbol: str = "s") -> str:
        """The support in words: "s > 0", "0 <= s <= 5", "whole numbers 0, 1, 2, ..."."""
        return self._whole_numbers() if self.integer else self._reals(symbol)

    def _reals(self, s: str) -> str:
        low, high = math.isfinite(self.low), math.isfinite(self.high)
        less, more = "<" if self.open_high else "<=", ">" if self.open_low else ">="
        if low and high:
            left = "<" if self.open_low else "<="
            return f"{number(self.low)} {left} {s} {less} {number(self.high)}"
        if low:
            return f"{s} {more} {number(self.low)}"
        return f"{s} {less} {number(self.high)}" if high else f"any real {s}"

    def _whole_numbers(self) -> str:
        low, high = math.isfinite(self.low), math.isfinite(self.high)
        if low and high:
            word = "or" if self.high - self.low == 1 else "to"
            return f"whole numbers {number(self.low)} {word} {number(self.high)}"
        if low:
            return f"whole numbers {', '.join(number(self.low + k) for k in range(3))}, ..."
        return f"whole numbers up to {number(self.high)}" if high else "whole numbers"


def _ends(bounds: Bounds) -> tuple[float, float]:
    low, high = bounds
    ends = (-math.inf if low is None else float(low), math.inf if high is None else float(high))
    if not ends[0] < ends[1]:
        raise FamilyError(f"bounds need low < high; found ({_end(low)}, {_end(high)})")
    return ends


def _inwards(low: float, high: float) -> tuple[float, float]:
    whole_low = math.ceil(low) if math.isfinite(low) else low
    whole_high = math.floor(high) if math.isfinite(high) else high
    return float(whole_low), float(whole_high)


def _end(value: float | None) -> str:
    return "None" if value is None else number(value)
