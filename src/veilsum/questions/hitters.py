"""Heavy hitters: which of K public candidates occur, so that none that nobody has is named.

    x = 1{candidate}, or 1{other},    l1 = 2, l2 = sqrt 2, however many candidates there are

A candidate is named if its noised count is at least t, the least whole number with

    P(X >= t) <= 1 - 0.95^(1/K):    P(max of K draws >= t) <= 5%, the noise of candidates being independent

A record with another value than these is one of "other", so that every record is in a cell and their number
stays what it is. The intervals hold all at once: each has confidence 0.95^(1/(K + 1)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from veilsum._statistic import Statistic
from veilsum.questions.base import Decoded, Encoded, Forecast, NoisedVector, Question, counted
from veilsum.questions.columns import Candidates, Rows
from veilsum.questions.intervals import CONFIDENCE, NORMAL
from veilsum.questions.noise import GridNoise

OTHER = "any other"


@dataclass(frozen=True, kw_only=True)
class HeavyHitters(Question):
    """Which public candidates occur in records, and how often.

    Parameters
    ----------
    column : Candidates
        With the public candidates.

    Examples
    --------
    >>> import veilsum as vs
    >>> apps = vs.questions.heavy_hitters("app", candidates=["mail", "maps", "chess"])
    >>> apps.statistic.l1
    2.0
    """

    column: Candidates

    name: ClassVar[str] = "heavy-hitters"
    about: ClassVar[str] = "which of many public candidates occur, and how often"

    @classmethod
    def make(cls, column: str, *, candidates: Sequence[str]) -> Self:
        """Of public candidates; records with another value count as that."""
        return cls(column=Candidates(column, candidates))

    @classmethod
    def examples(cls) -> tuple[Question, ...]:
        """Of all records, and of some."""
        hitters = cls.make("c", candidates=("a", "b", "c", "d"))
        return hitters, hitters.within()

    @property
    def cells(self) -> int:
        """K + 1."""
        return self.column.places

    @property
    def whole(self) -> Statistic:
        """From one candidate to another."""
        return counted(2.0, math.sqrt(2), self.cells, "one record has one value")

    @property
    def size(self) -> tuple[float, float]:
        """1."""
        return 1.0, 1.0

    def encode(self, rows: Rows) -> Encoded:
        """The candidate of each record."""
        return Encoded(rows[self.column.name])

    def threshold(self, noise: GridNoise) -> float:
        """t: noise reaches it at one of K candidates with 5% at most."""
        false = -math.expm1(math.log(CONFIDENCE) / len(self.column.values))
        return float((noise.law.quantile(1 - 2 * false) + 1) * noise.step)

    def reach(self, noise: GridNoise) -> float:
        """How far the noise of any of the K + 1 counts is from 0, with 95%."""
        return float(noise.law.quantile(CONFIDENCE ** (1 / self.cells)) * noise.step)

    def decode(self, released: NoisedVector) -> tuple[Decoded, ...]:
        """Those named, the most frequent first; behind them all counts, and the threshold."""
        counts, half = released.values, self.reach(released.noise)
        threshold = self.threshold(released.noise)
        labels = (*self.column.values, OTHER)
        order = [
            k for k in np.argsort(-counts[:-1], kind="stable").tolist() if counts[k] >= threshold
        ]
        named = tuple(labels[k] for k in order)
        sentence = (
            f"{len(named)} of {len(labels) - 1} candidates occur more often than noise explains"
            f"{': ' + ', '.join(named[:10]) if named else ''}{' and others' if len(named) > 10 else ''}. "
            "With 95% confidence, none of them is named that nobody has."
        )
        most = math.inf if released.table is None else float(released.table)
        value, low, high = (np.clip(x, 0.0, most) for x in (counts, counts - half, counts + half))
        quantity = f"records with {self.column.name}"
        return (
            Decoded(quantity, value[order], low[order], high[order], named, sentence, together=True),
            Decoded(
                f"all {quantity}", value, low, high, labels, "All counts, those that are only noise too.",
                detail=True, together=True,
            ),
            Decoded(
                "least count that is named", threshold, threshold, threshold, detail=True,
                sentence=f"A candidate is named from a noised count of {math.ceil(threshold):,} on.",
            ),
        )  # fmt: skip

    def forecast(self, records: int, noise: GridNoise) -> Forecast:
        """Of a count at the threshold; sampling: of a share of 1 in K, at least of 1 in 20."""
        p = max(1 / len(self.column.values), 0.05)
        return Forecast(
            self.reach(noise), NORMAL * math.sqrt(records * p * (1 - p)),
            of="the count of a candidate", scale=float(records), fewer="fewer candidates",
        )  # fmt: skip
