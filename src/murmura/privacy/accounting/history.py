"""What one agent has released, by round, and the dearest stretch of rounds in it.

A promise for w rounds (w-event: Kellaris, Papadopoulos, Xiao and Papadias 2014) must hold for every
window of w consecutive rounds. Its price is the largest over windows,

    max_t  sum_{t <= r < t + w} eps_r,

with w = 1 for one event (all releases that speak of one round's reading) and w = infinity for the
whole stream. Only windows that start at a round with a release can be largest (among those that
contain a given round, also the one that starts there). Sums are kept as exact fractions, so that
the order in which releases were charged cannot matter.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

from murmura.privacy.accounting.composition import BASIC, Composition, compose_counts
from murmura.privacy.accounting.losses import Loss

Span = tuple[int, int]  # a stretch of `History.rounds`, as a slice


@dataclass(frozen=True)
class Spent:
    """Exact sums over some releases."""

    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    count: int = 0

    def plus(self, other: Spent) -> Spent:
        """Both together."""
        return Spent(
            self.epsilon + other.epsilon, self.delta + other.delta, self.count + other.count
        )

    def minus(self, other: Spent) -> Spent:
        """The one without the other."""
        return Spent(
            self.epsilon - other.epsilon, self.delta - other.delta, self.count - other.count
        )


class History:
    """One agent's losses by round."""

    def __init__(self) -> None:
        """Start with nothing released."""
        self.rounds: list[int] = []
        self._losses: dict[int, Counter[Loss]] = {}
        self._sums: dict[int, Spent] = {}
        self._all = Spent()

    def add(self, at: int, loss: Loss) -> None:
        """Record a loss."""
        if at not in self._losses:
            insort(self.rounds, at)
            self._losses[at] = Counter()
        one = _spent(loss)
        self._losses[at][loss] += 1
        self._sums[at] = self._sums.get(at, Spent()).plus(one)
        self._all = self._all.plus(one)

    def remove(self, at: int, loss: Loss) -> None:
        """Undo `add` of the same loss, exactly."""
        one = _spent(loss)
        self._losses[at] -= Counter([loss])  # drops what is down to 0
        self._sums[at] = self._sums[at].minus(one)
        self._all = self._all.minus(one)
        if not self._losses[at]:
            self.rounds.remove(at)
            del self._losses[at], self._sums[at]

    def basic(self, width: int | None, around: int | None = None) -> Composition:
        """The largest sum of epsilons and of deltas over any `width` rounds (None: over all).

        With `around`, over windows that contain that round.
        """
        sums = [self._all] if width is None else self._window_sums(width, around)
        dearest = max(sums, key=lambda one: one.epsilon, default=Spent())
        delta = max((one.delta for one in sums), default=Fraction(0))
        return Composition(float(dearest.epsilon), float(delta), BASIC, dearest.count)

    def best(self, width: int | None, delta: float, around: int | None = None) -> Composition:
        """The largest epsilon at `delta` over any `width` rounds, each as `compose` finds it."""
        near = self.rounds if width is None else self._near(width, around)
        spans = [(0, len(near))] if width is None else _spans(near, width, around)
        found = (
            compose_counts(sum((self._losses[r] for r in near[i:j]), Counter()), delta)
            for i, j in spans
        )
        return max(found, key=lambda one: one.epsilon, default=Composition(0.0, delta, BASIC, 0))

    def _window_sums(self, width: int, around: int | None) -> list[Spent]:
        near = self._near(width, around)
        until = list(accumulate((self._sums[r] for r in near), Spent.plus, initial=Spent()))
        return [until[j].minus(until[i]) for i, j in _spans(near, width, around)]

    def _near(self, width: int, around: int | None) -> list[int]:
        if around is None:
            return self.rounds
        first = bisect_left(self.rounds, around - width + 1)
        return self.rounds[first : bisect_right(self.rounds, around + width - 1)]


def _spent(loss: Loss) -> Spent:
    return Spent(Fraction(loss.epsilon), Fraction(loss.delta), 1)


def _spans(rounds: list[int], width: int, around: int | None) -> Iterator[Span]:
    """Every window that can be largest, as a slice: it starts with a release, or at `around`."""
    starts = rounds if around is None else [r for r in rounds if around - width < r <= around]
    if around is not None and around not in starts:
        starts = [*starts, around]
    for start in starts:
        yield bisect_left(rounds, start), bisect_left(rounds, start + width)
