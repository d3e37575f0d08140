"""A histogram: how many records lie in each of k public cells, and their shares.

    x = 1{cell},    l1 = 2 (from one cell to another), l2 = sqrt(2)

The noise of a share is that of a count over n. Where records may be out, the cells add up to their number,
which is private: shares are of the noised sum. Bins are [low, edge), ..., [edge, high]; a value beyond the
bounds counts in the bin at that end. Categories are cells as well. Two cells of which n is public are one
count, which costs half: ask a proportion.

The shares are projected on the simplex {p >= 0, sum p = 1}, which is nearer to the truth than what was
released (it is convex); the intervals are of the counts themselves, cut at 0 and 1.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from veilsum._statistic import Statistic
from veilsum.errors import QuestionError
from veilsum.questions.base import (
    Decoded,
    Encoded,
    Forecast,
    Ints,
    NoisedVector,
    Question,
    counted,
    too_few,
    uncertain,
)
from veilsum.questions.columns import Category, Floats, Number, Rows
from veilsum.questions.intervals import NORMAL, fiellers
from veilsum.questions.noise import GridNoise

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, kw_only=True)
class Shares(Question):
    """The share of records in each of k public cells; abstract."""

    fewer: ClassVar[str] = "fewer bins"  # what makes it cheaper

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """Of the cells."""

    @property
    @abstractmethod
    def quantity(self) -> str:
        """What is shown."""

    @property
    def axis(self) -> Floats | None:
        """The ends of cells that lie on a line."""
        return None

    @property
    def whole(self) -> Statistic:
        """From one cell to another."""
        return counted(2.0, math.sqrt(2), self.cells, "one record is in one cell")

    @property
    def size(self) -> tuple[float, float]:
        """1."""
        return 1.0, 1.0

    def of_population(self) -> Question:
        """Itself: sampling follows from the shares."""
        return self

    def decode(self, released: NoisedVector) -> tuple[Decoded, ...]:
        """Shares of all records."""
        counts = released.values
        n = float(counts.sum()) if released.records is None else float(released.records)
        known = released.records is not None
        sure = 0.0 if known else released.half(np.ones(len(counts)))
        if n <= sure:
            return (too_few(self.quantity, "shares", self.labels),)
        if known and not released.population:
            half = released.half()
            low, high = (counts - half) / n, (counts + half) / n
        else:
            others = None if known else len(counts) - 1
            sampled = n if released.population else 0.0
            low, high = fiellers(released, counts, n, others, sampled)
        value = projected(counts / n)
        low, high = np.clip(np.minimum(low, value), 0, 1), np.clip(np.maximum(high, value), 0, 1)
        return (
            Decoded(
                self.quantity, value, low, high, self.labels, self.sentence(value, low, high),
                axis=self.axis, counts=counts,
            ),
        )  # fmt: skip

    def sentence(self, value: Floats, low: Floats, high: Floats) -> str:
        """The largest share, and how well it is known."""
        most = int(np.argmax(value))
        return (
            f"The largest share is {self.labels[most]}: about {100 * value[most]:.3g}%, and between "
            f"{100 * low[most]:.3g}% and {100 * high[most]:.3g}% with 95% confidence."
        )

    def forecast(self, records: int, noise: GridNoise) -> Forecast:
        """Of cells that are equally full."""
        p, zeros = 1 / self.cells, NoisedVector(np.zeros(1), noise)
        half = zeros.half() / records
        if self.partial:
            half = uncertain(half, records, zeros.half(np.ones(self.cells)))
        return Forecast(
            half,
            NORMAL * math.sqrt(p * (1 - p) / records), of="a share", scale=1.0, fewer=self.fewer,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Histogram(Shares):
    """The share of records in each bin.

    Parameters
    ----------
    column : Number or Category
        Between bounds, with a number of bins; or with its categories.
    bins : int
        Of a number.

    Examples
    --------
    >>> import veilsum as vs
    >>> vs.questions.histogram("kwh", between=(0, 40), bins=8).statistic.steps(1)[0]
    2
    """

    column: Number | Category
    bins: int = 0

    name: ClassVar[str] = "histogram"
    about: ClassVar[str] = "the share of records in public bins, or of each category"

    @classmethod
    def make(
        cls,
        column: str,
        *,
        between: tuple[float, float] | None = None,
        bins: int | None = None,
        categories: Sequence[str] | None = None,
    ) -> Self:
        """Of `bins` equal bins from low to high, or of public categories."""
        if (between is None) == (categories is None):
            raise QuestionError(
                "a histogram has bounds and a number of bins (--between 0 40 --bins 8), or categories "
                "(--categories north,south)"
            )
        if between is None:
            values = Category(column, tuple(categories or ()))
            return cls(column=values, bins=len(values.values))
        if not (isinstance(bins, int) and 2 <= bins <= 100_000):
            raise QuestionError(f"a histogram has 2 to 100,000 bins (--bins 8); found {bins}")
        return cls(column=Number(column, *between), bins=bins)

    @classmethod
    def examples(cls) -> tuple[Question, ...]:
        """Of numbers and of categories."""
        numbers = cls.make("x", between=(0.0, 8.0), bins=5)
        return numbers, cls.make("c", categories=("a", "b", "c")), numbers.within()

    @property
    def cells(self) -> int:
        """k."""
        return self.bins

    @property
    def edges(self) -> Floats | None:
        """The ends of the bins; None for categories."""
        if isinstance(self.column, Category):
            return None
        return np.linspace(self.column.low, self.column.high, self.bins + 1)

    @property
    def labels(self) -> tuple[str, ...]:
        """Of the bins."""
        if self.edges is None or isinstance(self.column, Category):
            return tuple(self.column.values)  # type: ignore[union-attr]
        ends = [f"{edge:g}" for edge in self.edges]
        return tuple(f"{a} to {b}" for a, b in pairwise(ends))

    def encode(self, rows: Rows) -> Encoded:
        """The bin of each record."""
        found = rows[self.column.name]
        if isinstance(self.column, Category):
            return Encoded(found)
        return Encoded(binned(found, self.bins))

    @property
    def axis(self) -> Floats | None:
        """The edges."""
        return self.edges

    @property
    def quantity(self) -> str:
        """What is shown."""
        return f"share by {self.column.name}"

    def draw(self, findings: Sequence[Decoded], ax: Axes) -> None:
        """Bars over the bins, with intervals."""
        found = findings[0]
        if found.axis is None:
            super().draw(findings, ax)
            return
        middle, width = (found.axis[1:] + found.axis[:-1]) / 2, np.diff(found.axis)
        ax.bar(middle, found.value, width * 0.94, color="C0", alpha=0.6)
        ax.errorbar(
            middle, found.value,
            yerr=[np.maximum(found.value - found.low, 0), np.maximum(found.high - found.value, 0)],
            fmt="none", color="0.2", capsize=2,
        )  # fmt: skip
        ax.set_xlabel(self.column.name)
        ax.set_ylabel("share")


def binned(shares: Floats, bins: int) -> Ints:
    """Which of equal bins each share of a range lies in; the last one has its upper end, too."""
    return np.minimum((shares * bins).astype(np.int64), bins - 1)


def projected(shares: Floats) -> Floats:
    """The nearest point of the simplex, row by row: max(p - t, 0), t such that they add up to 1."""
    p = np.sort(shares, axis=-1)[..., ::-1]
    t = (np.cumsum(p, axis=-1) - 1) / np.arange(1, p.shape[-1] + 1)
    last = np.maximum((p > t).sum(axis=-1, keepdims=True) - 1, 0)
    return np.asarray(np.maximum(shares - np.take_along_axis(t, last, axis=-1), 0.0))
