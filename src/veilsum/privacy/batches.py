"""Growing batches: readings of a stream that are added up and released together, once.

Batch k is (growth - 1) times as long as all batches before it together, at least 1 and at most
`longest` readings:

    L_k = min(max(1, floor((growth - 1) (L_1 + ... + L_{k-1}))), longest).

Event level. Every reading is in one batch, so a reading that moves by at most `radius` moves one
released sum, by at most the sensitivity Delta of its statistic. One draw of Lap(Delta/eps) a batch
gives every reading epsilon, as a draw for each reading does.

Noise. The sum of the first T readings has the noise of k(T) draws in place of T: its standard
deviation is sqrt(2 k(T)) Delta/eps, and k(T) grows like log T/log growth until batches are
`longest`, then like T/longest.

Freshness. What an estimate of round t lacks are the readings of the open batch: fewer than
`longest`, and fewer than max(1, (growth - 1) t).

Groups. Readings that move together move a batch's sum by Delta each: w consecutive readings, of
which m_1, ..., m_j are in j batches, cost m_1 eps, ..., m_j eps, composed. The sum is w eps, as
with fresh noise; at a delta above 0 it is more than w releases of eps each, because a few large
costs compose worse than many small ones. Where all w are in one batch nothing is gained at all.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from veilsum import _validate
from veilsum.errors import PrivacyError

LEAST_GROWTH, LARGEST_GROWTH = 1.01, 1000.0  # batches of less growth begin after 200 readings
MOST_READINGS = 10**15  # of a stream
MOST_STARTS = 100_000  # of windows that are looked at


@dataclass(frozen=True)
class Batches:
    """A public schedule of batches; round t has reading t, and a batch closes with its last one.

    Parameters
    ----------
    growth : float
        The total after a batch over the total before it: 2 doubles, 1.25 adds a quarter, and with
        1 every reading is a batch of its own.
    longest : int
        The most readings in a batch; 0: no limit.

    Raises
    ------
    PrivacyError
        If growth is neither 1 nor from 1.01 to 1000, or longest is negative. The methods raise it
        for rounds and readings that are not whole numbers in their range.

    Examples
    --------
    >>> Batches(growth=2.0).lengths(100)
    (1, 1, 2, 4, 8, 16, 32, 36)
    >>> Batches(growth=2.0, longest=24).lengths(100)
    (1, 1, 2, 4, 8, 16, 24, 24, 20)
    >>> [Batches().closes(t) for t in range(1, 9)]
    [1, 1, 0, 2, 0, 0, 0, 4]
    """

    growth: float = 2.0
    longest: int = 0

    def __post_init__(self) -> None:
        """Check both numbers."""
        growth = _validate.as_float(self.growth)
        if growth != 1 and not LEAST_GROWTH <= growth <= LARGEST_GROWTH:
            raise PrivacyError(
                f"growth of batches must be a number from 1 (no batches) or {LEAST_GROWTH:g} to "
                f"{LARGEST_GROWTH:g}, such as 2.0; found {_validate.found(self.growth)}"
            )
        _validate.at_least(PrivacyError, 0, longest=self.longest)
        object.__setattr__(self, "growth", float(self.growth))
        object.__setattr__(self, "longest", int(self.longest))

    def __str__(self) -> str:
        """Growth and the longest batch, in words."""
        limit = f"at most {self.longest} readings" if self.longest else "no longest"
        return f"batches of growth {self.growth:g}, {limit}"

    @property
    def trivial(self) -> bool:
        """Whether every reading is a batch of its own."""
        return self.growth == 1 or self.longest == 1

    def closes(self, t: int) -> int:
        """Return how many readings are in the batch that closes with round t, or 0.

        Parameters
        ----------
        t : int
            The round, 1, 2, ...
        """
        _check(0, t=t)
        return self._closed(t)[1] - self._closed(t - 1)[1]

    def released(self, t: int) -> int:
        """Return N_t, the readings in all batches that are closed after round t.

        Parameters
        ----------
        t : int
            The round; nothing is released in round 0.
        """
        _check(0, t=t)
        return self._closed(t)[1]

    def count(self, readings: int) -> int:
        """Return k(T), how many batches the first T readings are in, the open one included.

        Parameters
        ----------
        readings : int
            T.
        """
        _check(0, readings=readings)
        closed, inside = self._closed(readings)
        return closed + (inside < readings)

    def lengths(self, readings: int) -> tuple[int, ...]:
        """Return how many of the first `readings` readings are in each batch; the last may be open.

        Parameters
        ----------
        readings : int
            T; the lengths add up to it.
        """
        closed, rest = self.count(readings), readings - self._closed(readings)[1]
        ends, steady = _ends(self.growth, self.longest, max(readings, 64).bit_length())
        whole = closed - (rest > 0)
        grown = tuple(b - a for a, b in pairwise((0, *ends[:whole])))
        return (*grown, *(steady,) * (whole - len(grown)), *(rest,) * (rest > 0))

    def parts(self, first: int, readings: int) -> tuple[int, ...]:
        """Return m_1, ..., m_j: how many of these consecutive readings are in each batch.

        Parameters
        ----------
        first : int
            The first of the readings, 1, 2, ...
        readings : int
            How many.

        Examples
        --------
        >>> Batches(growth=2.0).parts(first=4, readings=7)
        (1, 4, 2)
        """
        _check(1, first=first, readings=readings)
        found, at, last = [], first, first + readings - 1
        while at <= last:
            end = min(self.closing(at), last)
            found.append(end - at + 1)
            at = end + 1
        return tuple(found)

    def most_together(self, readings: int, from_start: bool = False) -> int:
        """Return how many of w consecutive readings can be in one batch.

        Parameters
        ----------
        readings : int
            w.
        from_start : bool
            Whether they are the first of the stream.

        Examples
        --------
        >>> hourly = Batches(growth=2.0, longest=24)
        >>> hourly.most_together(7), hourly.most_together(365), hourly.most_together(7, True)
        (7, 24, 3)
        """
        _check(1, readings=readings)
        if from_start:
            return max(self.lengths(readings))
        if self.trivial:
            return 1
        return min(readings, self.longest) if self.longest else readings

    def closing(self, reading: int) -> int:
        """Return the round in which the batch of a reading closes.

        Parameters
        ----------
        reading : int
            The reading of round 1, 2, ...
        """
        _check(1, reading=reading)
        before = self._closed(reading - 1)[1]
        return before + self._length(before)

    def first_of_several(self, last: int) -> int:
        """Return the first round up to `last` that closes a batch of several readings, or `last`.

        Parameters
        ----------
        last : int
            Where the search ends.
        """
        _check(1, last=last)
        if self.trivial:
            return last
        at = 1
        while at < last and self.closing(at) == at:
            at += 1
        return min(self.closing(at), last)

    def stalest(self, rounds: int) -> int:
        """Return the most readings that an estimate of any round 1..rounds lacks.

        Parameters
        ----------
        rounds : int
            The last round.

        Examples
        --------
        >>> Batches(growth=2.0).stalest(127), Batches(growth=2.0, longest=24).stalest(10_000)
        (63, 23)
        """
        inside = self.released(rounds)  # lengths never fall: the last closed batch is the longest
        return max(self.closes(inside) - 1, rounds - inside)

    def deviation(self, readings: int) -> float:
        """Return sqrt(2 k(T)): noise of the sum of T readings, in units of Delta/eps.

        Parameters
        ----------
        readings : int
            T; the batch of the last reading counts as released.

        Examples
        --------
        >>> round(Batches(growth=2.0).deviation(10_000), 1)  # with fresh noise: 141.4
        5.5
        """
        return math.sqrt(2 * self.count(readings))

    def _length(self, before: int) -> int:
        """The length of the batch that follows `before` readings."""
        return _length(self.growth, self.longest, before)

    def _closed(self, t: int) -> tuple[int, int]:
        """(batches closed after round t, the readings in them)."""
        return _closed(self.growth, self.longest, t)


def window_starts(
    schedules: Collection[Batches], readings: int, most: int = 64
) -> tuple[int, ...] | None:
    """Return where windows of w consecutive readings start that differ in their parts.

    Every window has the same parts as one of them, in each of the schedules at once, apart from the
    order of the parts.

    Examples
    --------
    >>> batches = Batches(growth=2.0, longest=4)
    >>> [batches.parts(first, 5) for first in window_starts([batches], 5)]
    [(1, 1, 2, 1), (1, 2, 2), (2, 3), (1, 4)]
    """
    _check(1, readings=readings)
    _validate.at_least(PrivacyError, 1, most=most)
    grouped = [batches for batches in schedules if not batches.trivial]
    if any(not batches.longest or batches.longest >= readings for batches in grouped):
        return None
    steady = [_ends(batches.growth, batches.longest, 64)[0][-1] for batches in grouped]
    last = max(steady, default=0) + math.lcm(*(batches.longest for batches in grouped))
    if last > MOST_STARTS:
        return None
    found: dict[tuple[tuple[int, ...], ...], int] = {}
    for first in range(1, last + 1):
        kind = tuple(tuple(sorted(batches.parts(first, readings))) for batches in grouped)
        found.setdefault(kind, first)
        if len(found) > most:
            return None
    return tuple(found.values())


def _check(least: int, **values: int) -> None:
    _validate.at_least(PrivacyError, least, **values)
    _validate.at_most(PrivacyError, MOST_READINGS, **values)


def _length(growth: float, longest: int, before: int) -> int:
    # the decimal as it is written: 1.2 of 10 readings is 2 and not 1, on every machine
    length = max(1, math.floor((Fraction(repr(growth)) - 1) * before))
    return min(length, longest) if longest else length


@lru_cache(maxsize=2**16)
def _closed(growth: float, longest: int, t: int) -> tuple[int, int]:
    """(batches closed after round t, the readings in them)."""
    if t < 1:
        return 0, 0
    ends, steady = _ends(growth, longest, max(t, 64).bit_length())
    if t > ends[-1]:
        more = (t - ends[-1]) // steady if steady else 0
        return len(ends) + more, ends[-1] + more * steady
    k = bisect_left(ends, t + 1)
    return k, ends[k - 1] if k else 0


@lru_cache(maxsize=256)
def _ends(growth: float, longest: int, bits: int) -> tuple[tuple[int, ...], int]:
    """Rounds in which batches close, up to 2^bits or the first of those of equal length.

    The second number is that length, 0 where the batches keep growing.
    """
    ends, total = [], 0
    steady = 1 if growth == 1 else longest
    while total < 2**bits:
        length = _length(growth, longest, total)
        total += length
        ends.append(total)
        if length == steady:
            return tuple(ends), steady
    return tuple(ends), 0
