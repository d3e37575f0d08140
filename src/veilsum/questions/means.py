"""The mean of a column between public bounds.

All records in, their number n public: x = s, the share of the range (l1 = 1).

    mean = low + width (sum s + X)/n

Records may be out: x = (s, 1 - s), of mass one, so that the released vector (A, B) has their number, too:

    mean = low + width A/(A + B)        l1 = 1 if the record stays in, and so 2 at s = 0 against s = 1

The interval is exact: of X for the first, Fieller's for the second: all m with |A - m (A + B)| at most the
quantile of (1 - m) X_A - m X_B.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from veilsum._statistic import Statistic, Status
from veilsum.questions.base import (
    Decoded,
    Encoded,
    Forecast,
    NoisedVector,
    Question,
    fieller,
    too_few,
    uncertain,
)
from veilsum.questions.columns import Number, Rows
from veilsum.questions.intervals import bounded
from veilsum.questions.noise import GridNoise
from veilsum.questions.variances import PopulationMean, mean_forecast, mean_of


@dataclass(frozen=True, kw_only=True)
class Mean(Question):
    """The mean of a column.

    Parameters
    ----------
    column : Number
        With its public bounds.

    Examples
    --------
    >>> import veilsum as vs
    >>> vs.questions.mean("kwh", between=(0, 40)).statistic.l1
    1.0
    """

    column: Number

    name: ClassVar[str] = "mean"
    measured: ClassVar[bool] = True
    about: ClassVar[str] = "the mean of a column between public bounds"

    @classmethod
    def make(cls, column: str, *, between: tuple[float, float]) -> Self:
        """The mean of `column`, values beyond `between` counting as its ends."""
        return cls(column=Number(column, *between))

    @classmethod
    def examples(cls) -> tuple[Question, ...]:
        """Of all records, and of some."""
        mean = cls.make("x", between=(-2.0, 6.0))
        return mean, mean.within()

    @property
    def whole(self) -> Statistic:
        """s in [0, 1]."""
        return Statistic(1.0, low=0.0, high=1.0, status=Status.PROVED, reason="a share of a range")

    def encode(self, rows: Rows) -> Encoded:
        """s."""
        return Encoded(parts=rows[self.column.name][:, None])

    def within(self) -> Question:
        """With the number of records in the vector."""
        return MeanOfSome(column=self.column, partial=True)

    def of_population(self) -> Question:
        """The mean with the variance, which sampling is read off."""
        return PopulationMean(column=self.column, partial=self.partial)

    def decode(self, released: NoisedVector) -> tuple[Decoded, ...]:
        """low + width v/n."""
        n = released.records
        if not n:
            return (too_few(f"mean of {self.column.name}", "a mean"),)
        value = float(released.values[0]) / n
        half = released.half() / n
        return (mean_of(self.column, *bounded(value, half, 0.0, 1.0)),)

    def forecast(self, records: int, noise: GridNoise) -> Forecast:
        """Sampling: of values spread evenly over the range."""
        half = NoisedVector(np.zeros(1), noise).half() / records
        return mean_forecast(self.column, half, records)


@dataclass(frozen=True, kw_only=True)
class MeanOfSome(Mean):
    """The mean of the records that are in, whose number is private."""

    @property
    def parts(self) -> int:
        """2."""
        return 2

    @property
    def whole(self) -> Statistic:
        """Mass one: (s, 1 - s)."""
        reason = "two parts of one record, of mass one"
        return Statistic(
            2.0, math.sqrt(2), 2, low=0.0, high=1.0, status=Status.PROVED, reason=reason
        )

    @property
    def size(self) -> tuple[float, float]:
        """1."""
        return 1.0, 1.0

    def encode(self, rows: Rows) -> Encoded:
        """(s, 1 - s)."""
        s = rows[self.column.name]
        return Encoded(parts=np.stack([s, 1 - s], axis=1))

    def decode(self, released: NoisedVector) -> tuple[Decoded, ...]:
        """A/(A + B), and how many records it is of; nothing if that may be none."""
        a, b = (float(x) for x in released.values)
        n, half = a + b, released.half([1.0, 1.0])
        count = released.number(n, half)
        if n <= half:
            return too_few(f"mean of {self.column.name}", "a mean"), count
        return mean_of(self.column, a / n, *fieller(released, a, n)), count

    def forecast(self, records: int, noise: GridNoise) -> Forecast:
        """At the middle of the range."""
        zeros = NoisedVector(np.zeros(2), noise)
        half = uncertain(zeros.half([0.5, 0.5]) / records, records, zeros.half([1.0, 1.0]))
        return mean_forecast(self.column, half, records)
