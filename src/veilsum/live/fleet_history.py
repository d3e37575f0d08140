"""The estimates of all sites by round, bounded: what the fan and the disagreement are drawn from.

A row summarises one round over the sites that have reached it; a site that reported before and after
that round, and not in it, counts with the estimate before. When there are more than `MOST_ROUNDS`
rows, every other one of the later ones is dropped: `is_kept` says which stay, besides the last round.
The first rounds change most, so that they stay.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_ROUNDS = 600  # rows that are kept
MOST_LINES = 60  # sites that have a line each; beyond, the fan is drawn as bands
EARLY = 36  # doublings of the rounds that have as many rows each as fit; the rest is even
BANDS = (0.1, 0.25, 0.5, 0.75, 0.9)  # quantiles of a row

Floats = NDArray[np.float64]


class RoundHistory:
    """Estimates by site and round.

    Parameters
    ----------
    labels : iterable of str
        The sites, in order.
    most : int
        Rows that are kept, at least 2.

    Attributes
    ----------
    rounds : list of int
        The rounds that have a row, ascending.
    stride : int
        Rounds between two later rows, a power of two.
    detail : int
        Rows that each doubling of the rounds keeps at least.

    Examples
    --------
    >>> history = RoundHistory(["a", "b"])
    >>> history.record(1, {"a": 4.0, "b": 6.0})
    >>> history.record(2, {"a": 5.0})
    >>> [(row["round"], row["least"], row["most"], row["count"]) for row in history.rows()]
    [(1, 4.0, 6.0, 2), (2, 5.0, 5.0, 1)]
    """

    def __init__(self, labels: Iterable[str], most: int = MOST_ROUNDS) -> None:
        """Without any round."""
        self.most = max(most, 2)
        self.rounds: list[int] = []
        self.stride = 1
        self.detail = self.most // EARLY
        self._place = {label: k for k, label in enumerate(labels)}
        self._columns: list[Floats] = []  # of the rounds: an estimate for each site, or nan
        self._widths: list[Floats] = []  # half widths likewise
        self._last = np.full(len(self._place), -1, dtype=np.int64)  # round of each site
        self._value = np.full(len(self._place), np.nan)  # its estimate then
        self._changed: set[int] = set()
        self._dropped: set[int] = set()  # rounds that had a row
        self._cleared = False  # whether a row may have no estimate left

    def record(
        self,
        round: int,
        estimates: Mapping[str, float],
        half_widths: Mapping[str, float] | None = None,
    ) -> None:
        """Take the estimates of some sites after a round.

        Parameters
        ----------
        round : int
            Their round; a site that is back at an earlier one has begun anew.
        estimates : mapping of str to float
            By label.
        half_widths : mapping of str to float, optional
            Of their intervals, where they are known.
        """
        if not estimates:
            return
        at = self._row_of(round)
        for label, value in estimates.items():
            place = self._place[label]
            self._align(place, round, at, value)
            self._columns[at][place] = value
            width = (half_widths or {}).get(label)
            if width is not None:
                self._widths[at][place] = width
        self._changed.add(round)
        self._thin()

    def changes(self) -> dict[str, Any]:
        """What has changed since the last call, for `snapshot` to be brought up to date."""
        changed = sorted(self._changed | self._dropped)
        self._changed.clear()
        self._dropped.clear()
        return {
            "stride": self.stride,
            "detail": self.detail,
            "rounds": [self._row(round) for round in changed],
            "fan": self._fan(changed),
        }

    def snapshot(self) -> dict[str, Any]:
        """All rows, and the lines of the fan if there are few sites."""
        return {
            "stride": self.stride,
            "detail": self.detail,
            "rounds": self.rows(),
            "fan": self._fan(self.rounds),
        }

    def rows(self) -> list[dict[str, Any]]:
        """A summary of each round."""
        return [self._row(round) for round in self.rounds]

    def _fan(self, rounds: list[int]) -> dict[str, list[float | None]] | None:
        """By round, the estimate of each site in order; None beyond `MOST_LINES` sites."""
        if len(self._place) > MOST_LINES:
            return None
        found = {}
        for round in rounds:
            at = self._index(round)
            if at is not None:
                found[str(round)] = [brief(value) for value in self._columns[at]]
        return found

    def _row(self, round: int) -> dict[str, Any]:
        at = self._index(round)
        known = np.empty(0) if at is None else self._columns[at][~np.isnan(self._columns[at])]
        if at is None or not len(known):
            return {"round": round, "count": 0}
        widths = self._widths[at][~np.isnan(self._widths[at])]
        return {
            "round": round,
            "least": brief(known.min()),
            "most": brief(known.max()),
            "mean": brief(known.mean()),
            "half_width": brief(np.median(widths)) if len(widths) else None,
            "count": len(known),
            "bands": [brief(value) for value in np.quantile(known, BANDS)],
        }

    def _index(self, round: int) -> int | None:
        at = bisect_left(self.rounds, round)
        return at if at < len(self.rounds) and self.rounds[at] == round else None

    def _row_of(self, round: int) -> int:
        """The place of a round, made where it is new: sites that are beyond it have the one before."""
        at = bisect_left(self.rounds, round)
        if at < len(self.rounds) and self.rounds[at] == round:
            return at
        nothing = np.full(len(self._place), np.nan)
        before = self._columns[at - 1] if at else nothing
        self.rounds.insert(at, round)
        self._columns.insert(at, np.where(self._last > round, before, np.nan))
        self._widths.insert(at, nothing.copy())
        return at

    def _align(self, place: int, round: int, at: int, value: float) -> None:
        """Fill the rounds that a site went past without a report, or clear those it goes through anew."""
        last = int(self._last[place])
        if round < last:
            for k in range(at + 1, len(self.rounds)):
                if not np.isnan(self._columns[k][place]):
                    self._columns[k][place] = self._widths[k][place] = np.nan
                    self._cleared = True
                    self._changed.add(self.rounds[k])
        else:
            for k in range(bisect_right(self.rounds, last), at):
                self._columns[k][place] = self._value[place]
                self._changed.add(self.rounds[k])
        self._last[place], self._value[place] = round, value

    def _thin(self) -> None:
        """Keep the rows that `is_kept` says, and the last; double the stride where that is too many."""
        known = list(range(len(self.rounds)))
        if self._cleared:
            known = [k for k in known if not np.isnan(self._columns[k]).all()]
            self._cleared = False
        while True:
            kept = [
                k
                for k in known
                if is_kept(self.rounds[k], self.stride, self.detail) or k == known[-1]
            ]
            if len(kept) <= self.most:
                break
            self.stride *= 2
            if self.stride > self.rounds[-1]:  # rounds that no run has: only their number counts
                self.detail = 0
        if len(kept) < len(self.rounds):
            before = set(self.rounds)
            for name in ("rounds", "_columns", "_widths"):
                setattr(self, name, [getattr(self, name)[k] for k in kept])
            self._changed &= set(self.rounds)
            self._dropped |= before - set(self.rounds)


def is_kept(round: int, stride: int, detail: int) -> bool:
    """Whether a round has a row: a multiple of the stride, or of a smaller power of two early on.

    Parameters
    ----------
    round : int
        The round.
    stride : int
        Of later rounds, a power of two.
    detail : int
        Each doubling of the rounds before has at least as many rows.

    Returns
    -------
    bool
        As `isKept` of fleet_data.js finds it.

    Examples
    --------
    >>> [t for t in range(1, 41) if is_kept(t, 8, 4)]
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40]
    """
    step = stride
    while step > 1 and round < detail * step:
        step //= 2
    return round % step == 0


def brief(value: Any) -> float | None:
    """Nine significant digits, enough to see estimates close; None where there is no number."""
    found = float(value)
    return float(f"{found:.9g}") if np.isfinite(found) else None
