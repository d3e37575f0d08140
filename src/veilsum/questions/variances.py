"""The variance of a column between public bounds, with its standard deviation and its mean.

    (m, v) of the share s of the range (`moments`):    mean = low + width m,    variance = width^2 v

Both come from one vector, in which the noise of the mean is at most 1.125 times that of a mean alone. The
variance is that of these records, over n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from veilsum._statistic import Statistic
from veilsum.questions.answers import spoken
from veilsum.questions.base import (
    Decoded,
    Encoded,
    Forecast,
    NoisedVector,
    Question,
    too_few,
    uncertain,
)
from veilsum.questions.columns import Floats, Number, Rows
from veilsum.questions.intervals import NORMAL
from veilsum.questions.moments import MomentCode, Moments, code_of
from veilsum.questions.noise import GridNoise


@dataclass(frozen=True, kw_only=True)
class Variance(Question):
    """The variance and the mean of a column.

    Parameters
    ----------
    column : Number
        With its public bounds.

    Examples
    --------
    >>> import veilsum as vs
    >>> variance = vs.questions.variance("kwh", between=(0, 40))
    >>> variance.statistic.l1, variance.within().statistic.l1
    (2.25, 2.0)
    """

    column: Number

    name: ClassVar[str] = "variance"
    about: ClassVar[str] = "the variance of a column between public bounds, with its mean"

    @classmethod
    def make(cls, column: str, *, between: tuple[float, float]) -> Self:
        """Of `column`, values beyond `between` counting as its ends."""
        return cls(column=Number(column, *between))

    @classmethod
    def examples(cls) -> tuple[Question, ...]:
        """Of all records, and of some."""
        variance = cls.make("x", between=(-2.0, 6.0))
        return variance, variance.within()

    @property
    def code(self) -> MomentCode:
        """How a record is encoded."""
        return code_of(self.partial)

    @property
    def parts(self) -> int:
        """Of the code."""
        return self.code.whole.dimension

    @property
    def whole(self) -> Statistic:
        """Of the code."""
        return self.code.whole

    @property
    def size(self) -> tuple[float, float]:
        """Of the code."""
        return self.code.size

    def encode(self, rows: Rows) -> Encoded:
        """By the code."""
        return Encoded(parts=self.code.parts(rows[self.column.name]))

    def decode(self, released: NoisedVector) -> tuple[Decoded, ...]:
        """Variance; standard deviation and mean behind it, and how many records, where released."""
        found = self.code.read(released)
        if found is None:
            whats = ("variance", "standard deviation", "mean")
            findings = [too_few(f"{what} of {self.column.name}", f"a {what}") for what in whats]
        else:
            findings = [*self.spreads(found), self.mean(released, found)]
        return (*findings, *self.count(released))

    def count(self, released: NoisedVector) -> tuple[Decoded, ...]:
        """How many records, where that was released."""
        if released.records is not None:
            return ()
        return (released.number(float(released.values.sum()), released.half(np.ones(self.parts))),)

    def spreads(self, found: Moments) -> tuple[Decoded, Decoded]:
        """Variance and standard deviation."""
        name, width = self.column.name, self.column.width
        v, low, high = (width**2 * x for x in (found.variance, found.low, found.high))
        sentence = (
            f"The variance of {name} is about {spoken(v)}, and between {spoken(low)} and {spoken(high)} "
            "with 95% confidence."
        )
        root, least, most = math.sqrt(v), math.sqrt(low), math.sqrt(high)
        deviation = (
            f"The standard deviation of {name} is about {spoken(root)}, and between {spoken(least)} and "
            f"{spoken(most)} with 95% confidence."
        )
        return (
            Decoded(f"variance of {name}", v, low, high, sentence=sentence),
            Decoded(
                f"standard deviation of {name}", root, least, most, sentence=deviation, detail=True
            ),
        )

    def mean(self, released: NoisedVector, found: Moments) -> Decoded:
        """The mean of these records."""
        ends = self.code.mean_interval(released, 0.0)
        return replace(mean_of(self.column, found.mean, *ends), detail=True)

    def noise_half(self, weights: Floats, records: int, noise: GridNoise) -> float:
        """Half the interval of a moment over the number of records."""
        zeros = NoisedVector(np.zeros(self.parts), noise)
        half = zeros.half(weights) / records
        return uncertain(half, records, zeros.half(np.ones(self.parts))) if self.partial else half

    def forecast(self, records: int, noise: GridNoise) -> Forecast:
        """Of values spread evenly over the range: v = 1/12 and m = 1/2, where E s^2 - m^2 moves by
        X_square - 2 m X_mean."""
        weights = np.array(self.code.square) - np.array(self.code.middle)
        half = self.noise_half(weights, records, noise) * self.column.width**2
        sampling = NORMAL * self.column.width**2 * math.sqrt(1 / 180 / records)
        return Forecast(
            half, sampling, of=f"the variance of {self.column.name}", scale=self.column.width**2 / 4
        )


@dataclass(frozen=True, kw_only=True)
class PopulationMean(Variance):
    """The mean of the population that records were drawn from, by their released variance."""

    @property
    def name(self) -> str:  # type: ignore[override]
        """What was asked."""
        return "mean"

    def terms(self) -> dict[str, Any]:
        """Those of the variance, of which the vector is."""
        return super().terms() | {"question": Variance.name}

    def decode(self, released: NoisedVector) -> tuple[Decoded, ...]:
        """Mean; standard deviation behind it, and how many records, where released."""
        found, name = self.code.read(released), self.column.name
        if found is None:
            whats = ("mean", "standard deviation")
            few = [too_few(f"{what} of {name}", f"a {what}") for what in whats]
            return (*few, *self.count(released))
        return (self.mean(released, found), self.spreads(found)[1], *self.count(released))

    def mean(self, released: NoisedVector, found: Moments) -> Decoded:
        """The mean, with sampling."""
        ends = self.code.population_mean(released, found)
        whom = " in the population that these records were drawn from"
        return mean_of(self.column, found.mean, *ends, whom)

    def of_population(self) -> Question:
        """Itself."""
        return self

    def forecast(self, records: int, noise: GridNoise) -> Forecast:
        """Of values spread evenly over the range."""
        half = self.noise_half(np.array(self.code.middle), records, noise)
        return mean_forecast(self.column, half, records)


def mean_of(column: Number, share: float, low: float, high: float, whom: str = "") -> Decoded:
    """The mean of a column, from that of shares of its range."""
    value, lower, upper = map(column.at, (share, low, high))
    return Decoded(
        f"mean of {column.name}", value, lower, upper,
        sentence=f"The mean of {column.name}{whom} is about {spoken(value)}, and between "
        f"{spoken(lower)} and {spoken(upper)} with 95% confidence.",
    )  # fmt: skip


def mean_forecast(column: Number, half: float, records: int) -> Forecast:
    """Of values spread evenly over the range, of which noise moves the mean by a share `half`."""
    return Forecast(
        half * column.width, NORMAL * column.width / math.sqrt(12 * records),
        of=f"the mean of {column.name}", scale=column.width,
    )  # fmt: skip
