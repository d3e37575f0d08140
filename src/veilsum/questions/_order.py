"""What questions of order share: a column in B public bins, and how a path of counts is read.

    P_i    how many records lie below edge i of B + 1,    0 = P_0 <= ... <= P_B = n
    S_i    P_i - q n, the score of edge i: the q-quantile is in the first bin at whose end S is not below 0

A quantile is where the path, made nondecreasing, reaches q n: the mean of where it reaches the ranks within
one deviation of that, which are as likely. Within a bin records count as spread evenly. The interval is by
inversion: bin j cannot be refused while the score at its lower end may be below 0 and that at its upper end
may be 0 or more,

    S_j <= h_j   and   S_(j+1) >= -h_(j+1),      h: how far the noise of a score reaches with 95%

so each end is an edge. Of both errors together at most 5% of answers make one; fewer where a bin holds
many records against the noise, or so few that pooling takes noise away. So an interval covers 95% or more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from veilsum.errors import QuestionError
from veilsum.questions.answers import spoken
from veilsum.questions.base import Decoded, NoisedVector, Question
from veilsum.questions.columns import Floats, Number
from veilsum.questions.intervals import NORMAL

BINS = 1024
HIDDEN = 4.0  # times sampling, for the forecast of an answer that will be none
OFTEN = 1.84  # times how far a number may be off: above it, it is refused in less than 5% of cases
AVERAGED = 21  # ranks, of a quantile


@dataclass(frozen=True, kw_only=True)
class OrderQuestion(Question):
    """A question of the order of a column's values; abstract.

    Parameters
    ----------
    column : Number
        With its public bounds.
    bins : int
        Equal ones between them: how fine an answer is.
    """

    column: Number
    bins: int = BINS

    def __post_init__(self) -> None:
        """Refuse bins that are none."""
        if not (isinstance(self.bins, int) and 2 <= self.bins <= 2**20):
            raise QuestionError(f"bins must be a whole number from 2 to 2^20; found {self.bins!r}")

    def of_population(self) -> Question:
        """Itself: sampling adds to how far a score may be off."""
        return self

    @property
    def edges(self) -> Floats:
        """The B + 1 ends of the bins."""
        return np.linspace(self.column.low, self.column.high, self.bins + 1)

    def at_edge(self, place: float) -> float:
        """A value, from a place between 0 and B."""
        return self.column.low + self.column.width * place / self.bins


def levels(at: float | Sequence[float]) -> tuple[float, ...]:
    """The levels of quantiles, between 0 and 1, rising."""
    try:
        found = tuple(float(q) for q in (at if isinstance(at, tuple | list) else (at,)))
    except (TypeError, ValueError):
        found = ()
    if not found or not all(0 < q < 1 for q in found) or list(found) != sorted(set(found)):
        raise QuestionError(
            f"levels of quantiles lie between 0 and 1 and rise, such as (0.1, 0.5, 0.9); found {at!r}"
        )
    return found


def edge_labels(edges: Floats, width: float) -> tuple[str, ...]:
    """Edges of bins of that width as texts, to a tenth of a bin: no two are alike."""
    places = max(0, 1 - math.floor(math.log10(width)))
    return tuple(f"{round(float(edge), places):.15g}" for edge in edges)


def called(q: float) -> str:
    """A level, for people."""
    return "median" if q == 0.5 else f"{100 * q:.4g}%"


@dataclass(frozen=True, eq=False)
class Path:
    """Nondecreasing counts below some edges, and how far their scores may be off.

    Parameters
    ----------
    edges : array
        (m,): places from 0 to B, the first one 0 and the last one B.
    counts : array
        (m,): how many records lie below.
    total : float
        How many records there are.
    """

    edges: Floats
    counts: Floats
    total: float

    def quantile(self, q: float, off: float = 0.0) -> float:
        """Where the counts reach q of the total: the mean of where they reach what is within `off` of it."""
        reach = min(off, q * self.total, (1 - q) * self.total)
        ranks = q * self.total + np.linspace(-reach, reach, AVERAGED)
        k = np.clip(np.searchsorted(self.counts, ranks, side="left"), 1, len(self.edges) - 1)
        low, rise = self.counts[k - 1], self.counts[k] - self.counts[k - 1]
        part = np.divide(ranks - low, rise, out=np.full(len(k), 0.5), where=rise > 0)
        gap = self.edges[k] - self.edges[k - 1]
        return float((self.edges[k - 1] + gap * np.clip(part, 0.0, 1.0)).mean())

    def interval(self, q: float, half: Floats) -> tuple[float, float]:
        """Between which edges the quantile lies, where scores may be off by `half`, (m,)."""
        score = self.counts - q * self.total
        least = np.flatnonzero(score[1:] >= -half[1:])
        most = np.flatnonzero(score[:-1] <= half[:-1])
        low = int(least[0]) if least.size else len(score) - 2
        high = int(most[-1]) if most.size else 0
        return float(self.edges[min(low, high)]), float(self.edges[max(low, high) + 1])


def sampled(half: Floats, q: float, released: NoisedVector, total: float) -> Floats:
    """With what sampling adds to a score, where the answer is of a population."""
    if not released.population:
        return half
    return np.sqrt(half**2 + NORMAL**2 * q * (1 - q) * total)


def finding(
    question: OrderQuestion, at: tuple[float, ...], ends: list[tuple[float, float, float]]
) -> Decoded:
    """Quantiles, from their places and intervals; one number if there is one level."""
    found = np.array([[question.at_edge(place) for place in each] for each in ends]).T
    name = question.column.name
    value, low, high = found
    middle = int(np.argmin(np.abs(np.array(at) - 0.5)))
    share = "Half" if at[middle] == 0.5 else f"{100 * at[middle]:.4g}%"
    if math.isnan(value[middle]):
        sentence = f"Too few records have a {name} to say a quantile."
    else:
        sentence = (
            f"{share} of the records have a {name} below about {spoken(value[middle])} "
            f"({spoken(low[middle])} to {spoken(high[middle])} with at least 95% confidence; these "
            "are edges of bins)."
        )
    if len(at) == 1:
        one = (
            f"{called(at[0])} of {name}" if at[0] == 0.5 else f"{called(at[0])} quantile of {name}"
        )
        return Decoded(one, float(value[0]), float(low[0]), float(high[0]), sentence=sentence)
    labels = tuple(called(q) for q in at)
    return Decoded(f"quantiles of {name}", value, low, high, labels, sentence, axis=np.array(at))


def unknown(question: OrderQuestion, at: tuple[float, ...]) -> Decoded:
    """Of too few."""
    return finding(question, at, [(math.nan, math.nan, math.nan)] * len(at))
