"""The sum of a column between public bounds.

All records in, their number n public: x = s, the share of the range (l1 = 1).

    sum = n low + width (sum s + X)

Records may be out, and count as 0: x = v/c with c = max(|low|, |high|), in [-1, 1].

    sum = c (sum v/c + X)        l1 = max(width/c, 1)

The noise is that of one value moving by its whole range, or leaving. The interval is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from veilsum._statistic import Statistic, Status
from veilsum.questions.answers import spoken
from veilsum.questions.base import Decoded, Encoded, Forecast, NoisedVector, Question
from veilsum.questions.columns import Number, Rows
from veilsum.questions.intervals import NORMAL, bounded
from veilsum.questions.noise import GridNoise


@dataclass(frozen=True, kw_only=True)
class Sum(Question):
    """The sum of a column.

    Parameters
    ----------
    column : Number
        With its public bounds.

    Examples
    --------
    >>> import veilsum as vs
    >>> vs.questions.sum("kwh", between=(-10, 40)).within().statistic.l1
    1.25
    """

    column: Number

    name: ClassVar[str] = "sum"
    measured: ClassVar[bool] = True
    about: ClassVar[str] = "the sum of a column between public bounds"
    adds_rows: ClassVar[bool] = True

    @classmethod
    def make(cls, column: str, *, between: tuple[float, float]) -> Self:
        """The sum of `column`, values beyond `between` counting as its ends."""
        return cls(column=Number(column, *between))

    @classmethod
    def examples(cls) -> tuple[Question, ...]:
        """Of all records, and of some."""
        mixed, above = cls.make("x", between=(-2.0, 6.0)), cls.make("y", between=(3.0, 4.0))
        return mixed, above, mixed.within(), above.within()

    @property
    def whole(self) -> Statistic:
        """s in [0, 1]."""
        return Statistic(1.0, low=0.0, high=1.0, status=Status.PROVED, reason="a share of a range")

    @property
    def unit(self) -> float:
        """What a released 1 stands for."""
        return self.column.width

    def encode(self, rows: Rows) -> Encoded:
        """s."""
        return Encoded(parts=rows[self.column.name][:, None])

    def within(self) -> Question:
        """With records that are out counting as 0."""
        return SumOfSome(column=self.column, partial=True)

    def decode(self, released: NoisedVector) -> tuple[Decoded, ...]:
        """n low + width v, between n low and n high."""
        n = float(released.records or 0)
        ends = (n * self.column.low, n * self.column.high)
        value = ends[0] + self.unit * float(released.values[0])
        half = self.unit * released.half()
        return (self._finding(*bounded(value, half, *ends)),)

    def _finding(self, value: float, low: float, high: float) -> Decoded:
        return Decoded(
            f"sum of {self.column.name}", value, low, high,
            sentence=f"The sum of {self.column.name} is about {spoken(value)}, and between {spoken(low)} and "
            f"{spoken(high)} with 95% confidence.",
        )  # fmt: skip

    def forecast(self, records: int, noise: GridNoise) -> Forecast:
        """Sampling: of values spread evenly over the range."""
        half = NoisedVector(np.zeros(1), noise).half() * self.unit
        sampling = NORMAL * self.column.width * math.sqrt(records / 12)
        return Forecast(
            half, sampling, of=f"the sum of {self.column.name}", scale=records * self.column.width
        )


@dataclass(frozen=True, kw_only=True)
class SumOfSome(Sum):
    """The sum of the records that are in; the others count as 0."""

    @property
    def unit(self) -> float:
        """c."""
        return max(abs(self.column.low), abs(self.column.high))

    @property
    def whole(self) -> Statistic:
        """From one bound to the other."""
        low, high = self.column.low / self.unit, self.column.high / self.unit
        reason = "a value over the larger bound"
        return Statistic(high - low, low=low, high=high, status=Status.PROVED, reason=reason)

    @property
    def size(self) -> tuple[float, float]:
        """1."""
        return 1.0, 1.0

    def encode(self, rows: Rows) -> Encoded:
        """v/c."""
        v = self.column.low + self.column.width * rows[self.column.name]
        return Encoded(parts=np.clip(v / self.unit, -1.0, 1.0)[:, None])

    def decode(self, released: NoisedVector) -> tuple[Decoded, ...]:
        """c v, between what all records of the table could add up to."""
        value = self.unit * float(released.values[0])
        half = self.unit * released.half()
        n = math.inf if released.table is None else float(released.table)
        low = n * self.column.low if self.column.low < 0 else 0.0
        high = n * self.column.high if self.column.high > 0 else 0.0
        return (self._finding(*bounded(value, half, low, high)),)
