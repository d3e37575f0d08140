"""The share of records below, inside and above the bounds that another question counts them between.

    x = (1{v < low}, 1{low <= v <= high}, 1{v > high}),    l1 = 2

A value beyond a bound counts as the bound, so that an answer between bounds is of clipped records. These
shares say how much that can matter, at the price of one more histogram of three cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from veilsum.questions.base import Encoded, Question
from veilsum.questions.columns import Floats, Rows, Sides
from veilsum.questions.histograms import Shares


@dataclass(frozen=True, kw_only=True)
class ClippedShare(Shares):
    """The share of records beyond public bounds.

    Parameters
    ----------
    column : Sides
        With the bounds.

    Examples
    --------
    >>> import veilsum as vs
    >>> vs.questions.clipped("kwh", between=(0, 40)).labels
    ('below 0', '0 to 40', 'above 40')
    """

    column: Sides

    name: ClassVar[str] = "clipped"
    about: ClassVar[str] = "the share of records below, inside and above public bounds"
    fewer: ClassVar[str] = ""

    @classmethod
    def make(cls, column: str, *, between: tuple[float, float]) -> Self:
        """Of values below, inside and above `between`, whose ends are inside."""
        return cls(column=Sides(column, *between))

    @classmethod
    def examples(cls) -> tuple[Question, ...]:
        """Of all records, and of some."""
        clipped = cls.make("x", between=(-2.0, 6.0))
        return clipped, clipped.within()

    @property
    def cells(self) -> int:
        """3."""
        return 3

    @property
    def labels(self) -> tuple[str, ...]:
        """Of the sides."""
        low, high = self.column.low, self.column.high
        return f"below {low:g}", f"{low:g} to {high:g}", f"above {high:g}"

    @property
    def quantity(self) -> str:
        """What is shown."""
        return f"share of {self.column.name} beyond its bounds"

    def encode(self, rows: Rows) -> Encoded:
        """The side of each record."""
        return Encoded(rows[self.column.name])

    def sentence(self, value: Floats, low: Floats, high: Floats) -> str:
        """How many are beyond either bound."""
        below, above = self.column.low, self.column.high
        return (
            f"About {100 * value[0]:.2g}% of {self.column.name} lie below {below:g} (at most "
            f"{100 * high[0]:.2g}%), and {100 * value[2]:.2g}% above {above:g} (at most "
            f"{100 * high[2]:.2g}%); where bounds are {below:g} and {above:g}, they count as those."
        )
