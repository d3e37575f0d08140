"""The cumulative distribution (CDF) of a column between public bounds, in B public bins, with a band.

    F_i = P_i/n,    P_i: how many records lie below edge i, by least squares over a tree of counts (`_tree`)

The band is simultaneous: with 95% confidence all F_i of these records lie in it. With V_i and a_i the exact
variance and the share of the total of prefix i (`Tree.prefixes`), N the total and D its variance (0 where n
is public), and c the 95% quantile of the largest |error|/deviation of all prefixes, by simulated noise,

    {f: (P_i - f N)^2 <= c^2 (V_i + (a_i - f)^2 D)},

a quadratic in f (Fieller's), each made narrower by its neighbours: F rises. What is drawn between is F with
no count below 0 (`Tree.filled`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from veilsum.questions._order import BINS, edge_labels
from veilsum.questions.base import Decoded, Forecast, NoisedVector, Question
from veilsum.questions.columns import Floats, Number
from veilsum.questions.intervals import NORMAL
from veilsum.questions.noise import GridNoise
from veilsum.questions.quantile import TreePath, TreeQuestion

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 20  # thresholds of the answer; the whole curve stands behind it
NO_BAND = 1.358  # the 95% quantile of sqrt(n) sup |F_n - F| (Kolmogorov's), for a population


@dataclass(frozen=True, kw_only=True)
class Cdf(TreeQuestion):
    """The share of records below each of many thresholds.

    Parameters
    ----------
    column : Number
        With its public bounds.
    bins : int
        Between them.

    Examples
    --------
    >>> import veilsum as vs
    >>> vs.questions.cdf("kwh", between=(0, 40)).tree
    Tree(bins=1024, branching=11)
    """

    name: ClassVar[str] = "cdf"
    about: ClassVar[str] = "the share of records below every threshold, with a band"

    @classmethod
    def make(cls, column: str, *, between: tuple[float, float], bins: int = BINS) -> Self:
        """The distribution of `column`, to `bins` equal bins."""
        return cls(column=Number(column, *between), bins=bins)

    @classmethod
    def examples(cls) -> tuple[Question, ...]:
        """Of all records and of some."""
        one = cls.make("x", between=(0.0, 4.0), bins=30)
        return one, one.within()

    @property
    def inner(self) -> Floats:
        """The thresholds between the bounds."""
        return self.edges[1:-1]

    @property
    def shown(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Which of them the answer has: at most 20, evenly spaced."""
        count = min(SHOWN - 1, self.bins - 1)
        return np.unique(
            np.rint(np.arange(1, count + 1) / (count + 1) * self.bins).astype(np.int64)
        )

    def decode(self, released: NoisedVector) -> tuple[Decoded, ...]:
        """Shares below some thresholds, and below all of them."""
        path = self.path(released)
        if path.few:
            value = low = high = np.full(self.bins + 1, math.nan)
        else:
            value, low, high = self._curve(path, released.population)
        return (
            self._finding(value, low, high, self.shown, False),
            *path.number(released),
            self._finding(value, low, high, np.arange(1, self.bins), True),
        )

    def _curve(self, path: TreePath, population: bool) -> tuple[Floats, Floats, Floats]:
        """F and its band at all edges."""
        low, high = band(path)
        if population:
            more = NO_BAND / math.sqrt(path.total)
            low, high = np.maximum(low - more, 0), np.minimum(high + more, 1)
        value = path.filled().counts / path.total
        return np.clip(value, low, high), low, high

    def _finding(
        self, value: Floats, low: Floats, high: Floats, at: np.ndarray[tuple[int], np.dtype[np.int64]],
        all_of_it: bool,
    ) -> Decoded:  # fmt: skip
        name, edges = self.column.name, self.edges[at]
        half = float(np.max(high[at] - low[at])) / 2
        sentence = f"Too few records have a {name} to say shares."
        if not math.isnan(half):
            sentence = (
                f"The band holds the share of records below every threshold at once with 95% confidence, to "
                f"{100 * half:.2g} percentage points or less."
            )
        labels = edge_labels(edges, self.column.width / self.bins)
        return Decoded(
            f"{'all shares' if all_of_it else 'share'} of {name} below", value[at], low[at], high[at],
            labels, sentence, axis=edges, detail=all_of_it, together=True,
        )  # fmt: skip

    def forecast(self, records: int, noise: GridNoise) -> Forecast:
        """Of a threshold in the middle."""
        sd = noise.sd * self.tree.rms()
        return Forecast(
            NORMAL * sd / records, NORMAL * 0.5 / math.sqrt(records), of="a share below",
            scale=1.0, fewer="fewer bins",
        )  # fmt: skip

    def draw(self, findings: Sequence[Decoded], ax: Axes) -> None:
        """The curve with its band."""
        found = findings[-1]
        if found.axis is None:
            super().draw(findings, ax)
            return
        ax.fill_between(found.axis, found.low, found.high, step="mid", color="C0", alpha=0.25, lw=0)
        ax.step(found.axis, found.value, where="mid", color="C0")
        ax.set_xlim(self.column.low, self.column.high)
        ax.set_ylim(0, 1)
        ax.set_xlabel(self.column.name)
        ax.set_ylabel("share of records below")


def band(path: TreePath) -> tuple[Floats, Floats]:
    """The simultaneous band of F at all edges."""
    v, a = (x.copy() for x in path.tree.prefixes)
    c = path.reach.all * path.sd
    d = 0.0 if path.public else path.tree.top
    p, n = path.counts, path.total
    square = n**2 - c**2 * d
    if square <= 0:
        return np.zeros(len(p)), np.ones(len(p))
    middle = p * n - c**2 * a * d
    root = np.sqrt(np.maximum(middle**2 - square * (p**2 - c**2 * (v + a**2 * d)), 0.0))
    low = np.clip((middle - root) / square, 0.0, 1.0)
    high = np.clip((middle + root) / square, 0.0, 1.0)
    low[0], high[0], low[-1], high[-1] = 0.0, 0.0, 1.0, 1.0
    low, high = np.maximum.accumulate(low), np.minimum.accumulate(high[::-1])[::-1]
    return np.minimum(low, high), np.maximum(low, high)
