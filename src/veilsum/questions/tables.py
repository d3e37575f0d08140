"""A two-way table: the share of records in each of k1 x k2 public cells.

x = 1{row, column},    l1 = 2 (from one cell to another), l2 = sqrt(2), however many cells there are
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from veilsum.questions.base import Decoded, Encoded, Question
from veilsum.questions.columns import Category, Rows
from veilsum.questions.histograms import Shares

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, kw_only=True)
class TwoWayTable(Shares):
    """The share of records in each pair of categories of two columns.

    Parameters
    ----------
    down, across : Category
        The columns of which the categories are the table's rows and columns.

    Examples
    --------
    >>> import veilsum as vs
    >>> table = vs.questions.table("region", "heating", categories=(["north", "south"], ["gas", "oil"]))
    >>> table.labels
    ('north, gas', 'north, oil', 'south, gas', 'south, oil')
    """

    down: Category
    across: Category

    name: ClassVar[str] = "table"
    about: ClassVar[str] = "the share of records in each pair of categories of two columns"
    fewer: ClassVar[str] = "fewer categories"

    @classmethod
    def make(
        cls,
        down: str,
        across: str,
        *,
        categories: tuple[Sequence[str], Sequence[str]] | Mapping[str, Sequence[str]],
    ) -> Self:
        """Of the categories of two columns, in their order or by name."""
        if isinstance(categories, Mapping):
            categories = categories[down], categories[across]
        first, second = categories
        return cls(down=Category(down, first), across=Category(across, second))

    @classmethod
    def examples(cls) -> tuple[Question, ...]:
        """Two by three, of all records and of some."""
        table = cls.make("c", "d", categories=(("a", "b"), ("u", "v", "w")))
        return table, table.within()

    @property
    def cells(self) -> int:
        """k1 k2."""
        return self.down.places * self.across.places

    @property
    def labels(self) -> tuple[str, ...]:
        """Row by row."""
        return tuple(f"{a}, {b}" for a in self.down.values for b in self.across.values)

    @property
    def quantity(self) -> str:
        """What is shown."""
        return f"share by {self.down.name} and {self.across.name}"

    def encode(self, rows: Rows) -> Encoded:
        """The cell of each record."""
        return Encoded(rows[self.down.name] * self.across.places + rows[self.across.name])

    def draw(self, findings: Sequence[Decoded], ax: Axes) -> None:
        """A map of the cells, with the percentage in each."""
        released = np.reshape(findings[0].value, (self.down.places, self.across.places))
        share = np.nan_to_num(released)
        ax.imshow(share, cmap="Blues", vmin=0.0, aspect="auto")
        middle = float(share.max()) / 2
        for (row, column), value in np.ndenumerate(released):
            colour = "white" if value > middle else "black"
            text = "?" if np.isnan(value) else f"{100 * value:.3g}%"
            ax.text(column, row, text, ha="center", va="center", color=colour)
        ax.set_xticks(range(self.across.places), self.across.values)
        ax.set_yticks(range(self.down.places), self.down.values)
        ax.set_xlabel(self.across.name)
        ax.set_ylabel(self.down.name)
