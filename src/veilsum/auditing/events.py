"""Events that distinguish two inputs, learnt from samples.

An event is a union of bins of a score. A score is one coordinate of the output, the linear
discriminant of all of them, or a function that is given (the exact log-likelihood ratio, where the
noise is known); its bins are quantiles of both samples together. Candidates are tails of the score,
and the bins that occur more often under one input in order of how much more: a likelihood-ratio
test that needs no likelihood.

A test is an event E that favours the first input, an event F that favours the second, or both: if
P[E] <= e^epsilon Q[E] + delta and Q[F] <= e^epsilon P[F] + delta, then so is their sum,

    P[E] + Q[F] <= e^epsilon (Q[E] + P[F]) + 2 delta,

which counts every run twice where the mechanism is symmetric. Events are fitted on one half of the
samples, and the test that certifies the most on the other half is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veilsum.auditing.lower_bound import LowerBound

Floats = NDArray[np.float64]
Score = Callable[[Floats], Floats]

BINS = 256
MOST_OUTPUTS = 12  # tried as scores of their own: those whose means differ most


class Counts(NamedTuple):
    """Hits under the input that a test favours and under the other, with the runs of each."""

    hits: int
    trials: int
    other: int
    others: int

    def plus(self, more: Counts) -> Counts:
        """Add the counts of other runs, or of another event."""
        return Counts(*(a + b for a, b in zip(self, more, strict=True)))

    def certify(self, bound: LowerBound, pooled: bool) -> float:
        """Return the lower bound that they certify.

        Clopper and Pearson's bounds hold for a sum of independent hits of unequal probabilities as
        well, which is the more concentrated (Hoeffding 1956, Theorem 4), save for a single hit or a
        single miss, which are not counted then.
        """
        hits = 0 if pooled and self.hits == 1 else self.hits
        other = self.others if pooled and self.other == self.others - 1 else self.other
        return float(bound(hits, self.trials, other, self.others))


NOTHING = Counts(0, 0, 0, 0)


@dataclass(frozen=True, eq=False)
class OutputEvent:
    """Outputs whose score falls into one of the chosen bins."""

    name: str
    score: Score
    edges: Floats
    chosen: NDArray[np.bool_]
    kind: int  # lower tail, upper tail or likelihood-ratio set

    def contains(self, outputs: Floats) -> NDArray[np.bool_]:
        """Return for each row of outputs whether it belongs to the event."""
        return self.chosen[np.searchsorted(self.edges, self.score(outputs), side="right")]

    def counts(self, first: Floats, second: Floats) -> Counts:
        """Count the event in both samples, of which it favours the first."""
        hits, other = int(self.contains(first).sum()), int(self.contains(second).sum())
        return Counts(hits, len(first), other, len(second))


@dataclass(frozen=True, eq=False)
class DistinguishingTest:
    """Events that favour the first input, the second, or one of each."""

    favour_first: OutputEvent | None
    favour_second: OutputEvent | None

    @property
    def name(self) -> str:
        """The names of the scores."""
        named = dict.fromkeys(e.name for e in (self.favour_first, self.favour_second) if e)
        return " and ".join(named)

    @property
    def pooled(self) -> bool:
        """Whether two events are counted together."""
        return self.favour_first is not None and self.favour_second is not None

    def counts(self, first: Floats, second: Floats) -> Counts:
        """Count its events in both samples."""
        E, F = self.favour_first, self.favour_second
        return (E.counts(first, second) if E else NOTHING).plus(
            F.counts(second, first) if F else NOTHING
        )

    def certify(self, first: Floats, second: Floats, bound: LowerBound) -> float:
        """Return the lower bound that its counts in both samples certify."""
        return self.counts(first, second).certify(bound, self.pooled)

    def refitted(self, first: Floats, second: Floats, bound: LowerBound) -> DistinguishingTest:
        """Choose the bins of the same kinds of events again, from more samples."""
        E, F = self.favour_first, self.favour_second
        return DistinguishingTest(
            E and _events(E.name, E.score, first, second, bound)[E.kind],
            F and _events(F.name, F.score, second, first, bound)[F.kind],
        )


def learn(
    first: Floats,
    second: Floats,
    bound: LowerBound,
    scores: Sequence[Score] = (),
    alone: bool = False,
) -> DistinguishingTest:
    """Find the test that certifies the most; `scores` are tried beside the outputs, or `alone`."""
    half = len(first) // 2
    fit, check = (first[:half], second[:half]), (first[half:], second[half:])
    candidates = [
        (counts.certify(bound, test.pooled), test)
        for name, score in _scores(*fit, scores, alone)
        for test, counts in _tests(name, score, fit, check, bound)
    ]
    best = max(candidates, key=lambda found: found[0])[1]
    return best.refitted(first, second, bound)


def _tests(
    name: str,
    score: Score,
    fit: tuple[Floats, Floats],
    check: tuple[Floats, Floats],
    bound: LowerBound,
) -> Iterator[tuple[DistinguishingTest, Counts]]:
    """Every event of a score alone, and every pair of two that favour different inputs."""
    first, second = check
    one = [(e, e.counts(first, second)) for e in _events(name, score, *fit, bound)]
    two = [(e, e.counts(second, first)) for e in _events(name, score, *fit[::-1], bound)]
    yield from ((DistinguishingTest(e, None), n) for e, n in one)
    yield from ((DistinguishingTest(None, f), n) for f, n in two)
    yield from ((DistinguishingTest(e, f), n.plus(m)) for e, n in one for f, m in two)


def _scores(
    first: Floats, second: Floats, given: Sequence[Score], alone: bool
) -> Iterator[tuple[str, Score]]:
    """The outputs that differ most, their linear discriminant if there are several, the given."""
    for score in given:
        yield "the likelihood ratio", score
    if alone:
        return
    width = first.shape[1]
    gap = first.mean(axis=0) - second.mean(axis=0)
    spread = np.cov(np.concatenate([first, second]).T).reshape(width, width)
    distance = np.abs(gap) / np.sqrt(np.maximum(np.diagonal(spread), 1e-300))
    for k in np.sort(np.argsort(-distance, kind="stable")[:MOST_OUTPUTS]):
        yield f"output {k}", _linear(np.eye(width)[k])
    if width > 1:
        ridge = 1e-9 * np.trace(spread) / width + 1e-300
        direction = np.linalg.solve(spread + ridge * np.eye(width), gap)
        yield "a linear combination of outputs", _linear(direction)


def _linear(direction: Floats) -> Score:
    return lambda outputs: np.asarray(outputs @ direction)


def _events(
    name: str, score: Score, first: Floats, second: Floats, bound: LowerBound
) -> list[OutputEvent]:
    """The best lower tail, upper tail and likelihood-ratio set of one score."""
    a, b = score(first), score(second)
    edges = np.unique(np.quantile(np.concatenate([a, b]), np.linspace(0, 1, BINS + 1)[1:-1]))
    mine, other = (
        np.bincount(np.searchsorted(edges, side, side="right"), minlength=len(edges) + 1)
        for side in (a, b)
    )
    ramp = np.arange(len(edges) + 1)
    ratio = np.argsort(-(mine + 0.5) / (other + 0.5), kind="stable")
    events = []
    for kind, order in enumerate((ramp, ramp[::-1], ratio)):
        hits, misses = np.cumsum(mine[order]), np.cumsum(other[order])
        certified = bound(hits, len(a), misses, len(b))
        chosen = np.zeros(len(edges) + 1, dtype=bool)
        chosen[order[: int(np.argmax(certified)) + 1]] = True
        events.append(OutputEvent(name, score, edges, chosen, kind))
    return events
