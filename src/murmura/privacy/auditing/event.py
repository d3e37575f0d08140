"""Events that tell two inputs apart, learnt from samples.

An event is a union of bins of a score. A score is one coordinate of the output or the linear
discriminant of all of them; its bins are quantiles of both samples together. Candidates are tails
of the score, and the bins that occur more often under the first input in order of how much more: a
likelihood-ratio test that needs no likelihood. They are fitted on one half of the samples, and the
one that certifies the most on the other half is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from murmura.privacy.auditing.bound import Measure

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BINS = 256


@dataclass(frozen=True, eq=False)
class Event:
    """Outputs y whose score direction . y falls into one of the chosen bins."""

    name: str
    direction: Floats
    edges: Floats
    chosen: NDArray[np.bool_]

    def contains(self, outputs: Floats) -> NDArray[np.bool_]:
        """Tell for each row of outputs whether it belongs to the event."""
        return self.chosen[np.searchsorted(self.edges, outputs @ self.direction, side="right")]

    def certify(self, first: Floats, second: Floats, measure: Measure) -> float:
        """Count the event in both samples and say what that certifies."""
        hits, other = int(self.contains(first).sum()), int(self.contains(second).sum())
        return float(measure(hits, len(first), other, len(second)))


def learn(first: Floats, second: Floats, measure: Measure) -> Event:
    """Find the event that certifies the most of `first` against `second`."""
    half = len(first) // 2
    candidates = [
        event
        for name, direction in _scores(first[:half], second[:half])
        for event in _of_score(name, direction, first[:half], second[:half], measure)
    ]
    return max(candidates, key=lambda e: e.certify(first[half:], second[half:], measure))


def _scores(first: Floats, second: Floats) -> Iterator[tuple[str, Floats]]:
    """Every coordinate, and the linear discriminant S^-1 (mean difference) if there are several."""
    width = first.shape[1]
    for k in range(width):
        yield f"output {k}", np.eye(width)[k]
    if width > 1:
        spread = np.cov(np.concatenate([first, second]).T)
        ridge = 1e-9 * np.trace(spread) / width + 1e-300
        gap = first.mean(axis=0) - second.mean(axis=0)
        yield (
            "a linear combination of outputs",
            np.linalg.solve(spread + ridge * np.eye(width), gap),
        )


def _of_score(
    name: str, direction: Floats, first: Floats, second: Floats, measure: Measure
) -> Iterator[Event]:
    """The best lower tail, upper tail and likelihood-ratio set of one score."""
    a, b = first @ direction, second @ direction
    edges = np.unique(np.quantile(np.concatenate([a, b]), np.linspace(0, 1, BINS + 1)[1:-1]))
    mine, other = (
        np.bincount(np.searchsorted(edges, side, side="right"), minlength=len(edges) + 1)
        for side in (a, b)
    )
    ramp = np.arange(len(edges) + 1)
    ratio = np.argsort(-(mine + 0.5) / (other + 0.5), kind="stable")
    for order in (ramp, ramp[::-1], ratio):
        hits, misses = np.cumsum(mine[order]), np.cumsum(other[order])
        certified = measure(hits, len(a), misses, len(b))
        chosen = np.zeros(len(edges) + 1, dtype=bool)
        chosen[order[: int(np.argmax(certified)) + 1]] = True
        yield Event(name, direction, edges, chosen)
