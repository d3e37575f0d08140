"""A histogram: how many records lie in each of k public bins, and their shares.

    x = 1{bin},    l1 = 2 (from one bin to another), l2 = sqrt(2);    k = 2 with n public: one count, l1 = 1

The noise of a share is that of a count over n. Where records may be out, the bins add up to their number,
which is private: shares are of the noised sum. Bins are [low, edge), ..., [edge, high]; a value beyond the
bounds counts in the bin at that end. Categories are bins as well.

The shares are projected on the simplex {p >= 0, sum p = 1}, which is nearer to the truth than what was
released (it is convex); the intervals are of the counts themselves, cut at 0 and 1.
"""

from __future__ import annotations

import math
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
    fieller,
)
from veilsum.questions.columns import Category, Column, Floats, Number, Rows
from veilsum.questions.noise import GridNoise

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, kw_only=True)
class Histogram(Question):
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
            raise QuestionError("a histogram has bounds and a number of bins, or categories")
        if between is None:
            values = Category(column, tuple(categories or ()))
            return cls(column=values, bins=len(values.values))
        if not (isinstance(bins, int) and 2 <= bins <= 100_000):
            raise QuestionError(f"a histogram has 2 to 100,000 bins; found {bins}")
        return cls(column=Number(column, *between), bins=bins)

    @classmethod
    def examples(cls) -> tuple[Question, ...]:
        """Of numbers and of categories."""
        numbers = cls.make("x", between=(0.0, 8.0), bins=5)
        return numbers, cls.make("c", categories=("a", "b", "c")), numbers.within()

    @property
    def columns(self) -> tuple[Column, ...]:
        """The column."""
        return (self.column,)

    @property
    def cells(self) -> int:
        """k."""
        return self.bins

    @property
    def whole(self) -> Statistic:
        """From one bin to another."""
        return counted(2.0, math.sqrt(2), self.bins, "one record is in one bin")

    @property
    def size(self) -> tuple[float, float]:
        """1."""
        return 1.0, 1.0

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

    def decode(self, released: NoisedVector) -> tuple[Decoded, ...]:
        """Shares of all records."""
        counts = released.values
        half = released.half()
        if released.records:
            n: float = released.records
            low, high = (counts - half) / n, (counts + half) / n
        else:
            n = float(counts.sum())
            if n <= released.half(np.ones(self.bins)):
                nan = np.full(self.bins, math.nan)
                return (Decoded(self.quantity, nan, nan, nan, self.labels, "Too few records."),)
            ends = [fieller(released, count, n, self.bins - 1) for count in counts]
            low, high = np.array(ends).T
        value = projected(counts / n)
        most = int(np.argmax(value))
        sentence = (
            f"The largest share, {100 * value[most]:.3g}%, is {self.labels[most]}; each share is exact "
            f"to about {100 * half / n:.2g} percentage points."
        )
        return (
            Decoded(
                self.quantity, value, np.clip(low, 0, 1), np.clip(high, 0, 1), self.labels, sentence,
                axis=self.edges,
            ),
        )  # fmt: skip

    @property
    def quantity(self) -> str:
        """What is shown."""
        return f"share by {self.column.name}"

    def forecast(self, records: int, noise: GridNoise) -> Forecast:
        """Of bins that are equally full."""
        p = 1 / self.bins
        return Forecast(
            NoisedVector(np.zeros(1), noise).half() / records, 1.96 * math.sqrt(p * (1 - p) / records),
            of="a share", scale=1.0, fewer="fewer bins",
        )  # fmt: skip

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
