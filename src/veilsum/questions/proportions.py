"""The proportion of records with a value: one of some categories, or a number beyond a threshold.

All records in, their number n public: x = 1{has it}, one count.

    p = (A + X)/n        l1 = 1, half of what a histogram with 2 bins would pay

Records may be out: x = (1{has it}, 1{has it not}), of mass one.

    p = A/(A + B)        l1 = 2, Fieller's interval

Of a population: {p: |A - p n| <= reach of the noise and of a normal number of variance n p (1 - p)}.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from veilsum._statistic import Statistic
from veilsum.errors import QuestionError
from veilsum.questions.base import (
    Decoded,
    Encoded,
    Forecast,
    NoisedVector,
    Question,
    counted,
    fieller,
    too_few,
    uncertain,
)
from veilsum.questions.columns import Candidates, Category, Rows, Sides, text_of
from veilsum.questions.intervals import NORMAL, bounded
from veilsum.questions.noise import GridNoise


@dataclass(frozen=True, kw_only=True)
class Proportion(Question):
    """The proportion of records with a value.

    Parameters
    ----------
    column : Category or Sides
        Public places of a value.
    places : tuple of int
        Those that count.

    Examples
    --------
    >>> import veilsum as vs
    >>> vs.questions.proportion("kwh", above=20).about_what
    'kwh above 20'
    >>> vs.questions.proportion("heating", values=["oil", "gas"]).statistic.l1
    1.0
    """

    column: Category | Sides
    places: tuple[int, ...]

    name: ClassVar[str] = "proportion"
    about: ClassVar[str] = "the share of records with one of some values, or beyond a threshold"

    @classmethod
    def make(
        cls,
        column: str,
        *,
        values: str | Sequence[str] | None = None,
        categories: Sequence[str] | None = None,
        above: float | None = None,
        below: float | None = None,
        between: tuple[float, float] | None = None,
    ) -> Self:
        """Of `values`, among `categories` or any; or of numbers above, below or between public numbers.

        The ends of `between` are in it; `above` and `below` are strict.
        """
        given = [name for name, x in (("values", values), ("above", above), ("below", below),
                                      ("between", between)) if x is not None]  # fmt: skip
        if len(given) != 1 or (categories is not None and values is None):
            raise QuestionError(
                "a proportion is of values (among categories), or of numbers above, below or between "
                f"public numbers, one of these; found {', '.join(given) or 'none'}"
            )
        if above is not None:
            return cls(column=Sides(column, high=above), places=(2,))
        if below is not None:
            return cls(column=Sides(column, low=below), places=(0,))
        if between is not None:
            return cls(column=Sides(column, *between), places=(1,))
        counted_values = [values] if isinstance(values, str) else list(values or ())
        wanted = [text_of(value) for value in counted_values]
        if categories is None:
            return cls(column=Candidates(column, wanted), places=tuple(range(len(wanted))))
        among = Category(column, categories)
        strange = [value for value in wanted if value not in among.values]
        if strange or not wanted:
            raise QuestionError(
                f"values are some of the categories {', '.join(among.values)}; found "
                f"{', '.join(strange) or 'none'}"
            )
        return cls(column=among, places=tuple(sorted({among.values.index(v) for v in wanted})))

    @classmethod
    def examples(cls) -> tuple[Question, ...]:
        """Of categories and of numbers; of some records."""
        among = cls.make("c", values=("a", "b"), categories=("a", "b", "c", "d"))
        return among, cls.make("x", above=2.0), among.within()

    @property
    def whole(self) -> Statistic:
        """One count."""
        return counted(1.0, 1.0, 1, "one record has it or not")

    @property
    def about_what(self) -> str:
        """What records have, such as "kwh above 20"."""
        column = self.column
        if isinstance(column, Category):
            return f"{column.name} {' or '.join(column.values[k] for k in self.places)}"
        (place,) = self.places
        text = (
            f"below {column.low:g}",
            f"from {column.low:g} to {column.high:g}",
            f"above {column.high:g}",
        )
        return f"{column.name} {text[place]}"

    def has(self, rows: Rows) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which records have it."""
        chosen = np.zeros(self.column.places, dtype=np.bool_)
        chosen[list(self.places)] = True
        return np.asarray(chosen[rows[self.column.name]])

    def encode(self, rows: Rows) -> Encoded:
        """Cell 0 for those that have it."""
        return Encoded(np.where(self.has(rows), 0, -1))

    def within(self) -> Question:
        """With the number of records in the vector."""
        return ProportionOfSome(column=self.column, places=self.places, partial=True)

    def of_population(self) -> Question:
        """Itself: sampling follows from the proportion."""
        return self

    def decode(self, released: NoisedVector) -> tuple[Decoded, ...]:
        """v/n."""
        n = released.records
        if not n:
            return (too_few(self.quantity, "a proportion"),)
        top = float(released.values[0])
        if released.population:
            ends = fieller(released, top, n, None, n)
            return (self._finding(top / n, *ends, "a population like these records"),)
        half = released.half()
        return (self._finding(*bounded(top / n, half / n, 0.0, 1.0)),)

    @property
    def quantity(self) -> str:
        """What is shown."""
        return f"proportion with {self.about_what}"

    def _finding(self, share: float, low: float, high: float, whom: str = "the records") -> Decoded:
        value, lower, upper = (min(max(x, 0.0), 1.0) for x in (share, low, high))
        return Decoded(
            self.quantity, value, lower, upper,
            sentence=f"About {100 * value:.3g}% of {whom} have {self.about_what}, and between "
            f"{100 * lower:.3g}% and {100 * upper:.3g}% with 95% confidence.",
        )  # fmt: skip

    def forecast(self, records: int, noise: GridNoise) -> Forecast:
        """At one half."""
        half = NoisedVector(np.zeros(1), noise).half() / records
        return Forecast(half, NORMAL / (2 * math.sqrt(records)), of="the proportion", scale=1.0)


@dataclass(frozen=True, kw_only=True)
class ProportionOfSome(Proportion):
    """The proportion of the records that are in, whose number is private."""

    @property
    def cells(self) -> int:
        """2."""
        return 2

    @property
    def whole(self) -> Statistic:
        """From one to the other."""
        return counted(2.0, math.sqrt(2), 2, "one record has it or not")

    @property
    def size(self) -> tuple[float, float]:
        """1."""
        return 1.0, 1.0

    def encode(self, rows: Rows) -> Encoded:
        """Cell 0 for those that have it, 1 for the others."""
        return Encoded(np.where(self.has(rows), 0, 1))

    def decode(self, released: NoisedVector) -> tuple[Decoded, ...]:
        """A/(A + B), and how many records it is of; nothing if that may be none."""
        a, b = (float(x) for x in released.values)
        n, half = a + b, released.half([1.0, 1.0])
        if n <= half:
            return too_few(self.quantity, "a proportion"), released.number(n, half)
        ends = fieller(released, a, n, 1, n if released.population else 0.0)
        whom = "a population like these records" if released.population else "the records"
        return self._finding(a / n, *ends, whom), released.number(n, half)

    def forecast(self, records: int, noise: GridNoise) -> Forecast:
        """At one half."""
        zeros = NoisedVector(np.zeros(2), noise)
        half = uncertain(zeros.half([0.5, 0.5]) / records, records, zeros.half([1.0, 1.0]))
        return Forecast(half, NORMAL / (2 * math.sqrt(records)), of="the proportion", scale=1.0)
