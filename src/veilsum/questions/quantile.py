"""Quantiles of a column between public bounds, in B public bins.

Many are read off one tree of counts (`_tree`), released once:

    x = 1{bin} on each of h levels,    l1 = 2 h,  l2 = sqrt(2 h);      by being out h, sqrt h

Few are zoomed in on, by a rough tree and two histograms of cells where they may be (`_zoom`); by group, or
where one release must do, they are read off a tree, too. At n = 969, epsilon = 1 and B = 1,024 ranks are off
by 0.9% (the median, zoomed in on), 1.4% (19 quantiles of one tree). Branching, cells and the way to ask are
chosen by exact variances, from public numbers.

Where records may be out, their number is private: it is what the noised counts add up to, and the score
P_i - q n has the exact variance of both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from veilsum._statistic import Statistic
from veilsum.questions._monotone import isotonic
from veilsum.questions._order import (
    BINS,
    HIDDEN,
    OFTEN,
    OrderQuestion,
    Path,
    finding,
    levels,
    sampled,
    unknown,
)
from veilsum.questions._tree import PrefixReach, Tree, best_tree, reach
from veilsum.questions.base import Decoded, Encoded, Forecast, Ints, NoisedVector, Question, counted
from veilsum.questions.columns import Floats, Number, Rows
from veilsum.questions.histograms import binned
from veilsum.questions.intervals import NORMAL
from veilsum.questions.noise import GridNoise, priced

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, kw_only=True)
class TreeQuestion(OrderQuestion):
    """A question that is answered by a tree of counts in one release; abstract.

    Parameters
    ----------
    branching : int
        Of the tree.
    """

    branching: int = 0

    def __post_init__(self) -> None:
        """Take the best branching for noise by the l1 norm, unless there is one."""
        super().__post_init__()
        if not self.branching:
            object.__setattr__(self, "branching", best_tree(self.bins).branching)

    @property
    def tree(self) -> Tree:
        """Of the bins."""
        return Tree(self.bins, self.branching)

    @property
    def cells(self) -> int:
        """B."""
        return self.bins

    @property
    def whole(self) -> Statistic:
        """From one bin to another, on every level."""
        h = self.tree.height
        reason = f"one record is in one bin on each of {h} levels"
        return counted(2.0 * h, math.sqrt(2 * h), self.tree.dimension, reason)

    @property
    def size(self) -> tuple[float, float]:
        """h and sqrt(h)."""
        return float(self.tree.height), math.sqrt(self.tree.height)

    def encode(self, rows: Rows) -> Encoded:
        """The bin of each record."""
        return Encoded(binned(rows[self.column.name], self.bins))

    def expand(self, totals: Ints) -> Ints:
        """The sums of all levels."""
        return self.tree.expand(totals)

    def tuned(self, epsilon: float, delta: float = 0.0) -> Question:
        """With the branching that is best for the noise of that price: Laplace's, or Gauss's."""

        def off(tree: Tree) -> float:
            one = replace(self, branching=tree.branching)
            return tree.rms() * priced([one.statistic], [1.0], epsilon, delta).parts[0].sd

        trees = (best_tree(self.bins), best_tree(self.bins, gaussian=True))
        return replace(self, branching=min(trees, key=off).branching)

    def path(self, released: NoisedVector) -> TreePath:
        """Counts below all edges."""
        public = released.records is not None
        leaves = self.tree.leaves(released.values, released.records)
        counts = np.append(0.0, np.cumsum(leaves))
        return TreePath(
            np.arange(self.bins + 1.0), counts, float(released.records or counts[-1]),
            released.values, self.tree, public, released.sd, reach(self.tree, released.noise.law, public),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class TreePath:
    """The least squares estimate of the counts below all edges, and how far its noise reaches.

    Parameters
    ----------
    edges, counts, total
        As of `Path`; the counts may fall yet.
    nodes : array
        As released.
    tree : Tree
        Of which they are.
    public : bool
        Whether the total is.
    sd : float
        Of the noise of a node.
    reach : PrefixReach
        Of the noise of the counts.
    """

    edges: Floats
    counts: Floats
    total: float
    nodes: Floats
    tree: Tree
    public: bool
    sd: float
    reach: PrefixReach

    @property
    def few(self) -> bool:
        """Whether there may be no record at all."""
        return bool(self.total <= self.spread)

    @property
    def spread(self) -> float:
        """How far the total may be off, with 95%."""
        return 0.0 if self.public else NORMAL * self.sd * math.sqrt(self.tree.top)

    def number(self, released: NoisedVector) -> tuple[Decoded, ...]:
        """How many records there are, where that is not public."""
        return () if self.public else (released.number(self.total, self.spread),)

    def rising(self) -> Path:
        """The nearest nondecreasing counts from 0 to the total."""
        inner = np.clip(isotonic(self.counts), 0.0, self.total)
        return Path(self.edges, np.append(np.append(0.0, inner[1:-1]), self.total), self.total)

    def filled(self) -> Path:
        """Of counts that are none below 0."""
        if self.total <= 0:
            return self.rising()
        counts = np.append(0.0, np.cumsum(self.tree.filled(self.nodes, self.total)))
        return Path(self.edges, counts, self.total)

    def half(self, q: float | Floats) -> Floats:
        """How far the score of each edge may be off, with 95%."""
        return self.reach.each * self.deviation(q)

    def deviation(self, q: float | Floats) -> Floats:
        """Of the score of each edge."""
        return np.asarray(self.sd * np.sqrt(self.tree.variances(self.public, q)))


@dataclass(frozen=True, kw_only=True)
class Quantiles(TreeQuestion):
    """Quantiles of a column, in one release.

    Parameters
    ----------
    at : tuple of float
        Their levels, between 0 and 1.

    Examples
    --------
    >>> import veilsum as vs
    >>> median = vs.questions.quantiles("kwh", at=0.5, between=(0, 40))
    >>> len(median.stages), median.at_once().statistic.l1
    (3, 6.0)
    >>> nine = [k / 10 for k in range(1, 10)]
    >>> vs.questions.quantiles("kwh", at=nine, between=(0, 40)).statistic.l1
    6.0
    """

    at: tuple[float, ...] = (0.5,)

    name: ClassVar[str] = "quantiles"
    measured: ClassVar[bool] = True
    about: ClassVar[str] = "the median, or any quantiles, of a column between public bounds"

    @staticmethod
    def make(
        column: str,
        *,
        between: tuple[float, float],
        at: float | Sequence[float] = 0.5,
        bins: int = BINS,
    ) -> Question:
        """The quantiles of `column` at these levels, few in three releases, many in one."""
        from veilsum.questions._zoom import FEW, ZoomedQuantiles

        asked = levels(at)
        kind = ZoomedQuantiles if len(asked) <= FEW else Quantiles
        return kind(column=Number(column, *between), bins=bins, at=asked)

    @classmethod
    def examples(cls) -> tuple[Question, ...]:
        """In one release and in three, of all records and of some."""
        from veilsum.questions._zoom import ZoomedQuantiles

        one = cls(column=Number("x", 0.0, 4.0), bins=40, at=(0.25, 0.5, 0.9))
        return one, one.within(), *ZoomedQuantiles.examples()

    def decode(self, released: NoisedVector) -> tuple[Decoded, ...]:
        """Where the counts reach each level."""
        path = self.path(released)
        if path.few:
            return (unknown(self, self.at), *path.number(released))
        rising, filled = path.rising(), path.filled()
        ends = []
        for q in self.at:
            low, high = rising.interval(q, sampled(path.half(q), q, released, path.total))
            place = filled.quantile(q, float(path.deviation(q).max()))
            ends.append((min(max(place, low), high), low, high))
        return (finding(self, self.at, ends), *path.number(released))

    def forecast(self, records: int, noise: GridNoise) -> Forecast:
        """Of the level whose score is furthest off, where values are spread evenly."""
        q = min(self.at, key=lambda q: abs(q - 0.5))
        edge = round(q * self.bins)
        sd = noise.sd * math.sqrt(self.tree.variances(not self.partial, q)[edge])
        spread = NORMAL * noise.sd * math.sqrt(self.tree.top)
        return quantile_forecast(self, q, NORMAL * sd, records, spread)

    def draw(self, findings: Sequence[Decoded], ax: Axes) -> None:
        """Levels over values, with intervals."""
        drawn(self, findings[0], ax)


def quantile_forecast(
    question: OrderQuestion, q: float, half: float, records: int, spread: float
) -> Forecast:
    """From how far a score is off, where values are spread evenly.

    Parameters
    ----------
    half
        Of the score, in records.
    spread
        How far the number of records may be off, where it is private: at `records` nothing is said.
    """
    width = question.column.width
    sampling = NORMAL * math.sqrt(q * (1 - q) / records)
    hidden = HIDDEN * sampling if question.partial and OFTEN * spread >= records else 0.0
    return Forecast(
        width * max(1 / question.bins, half / records, hidden), width * sampling,
        of=f"a quantile of {question.column.name}", scale=width,
    )  # fmt: skip


def drawn(question: OrderQuestion, found: Decoded, ax: Axes) -> None:
    """Quantiles with their intervals, levels upwards."""
    value, low, high = (
        np.ravel(np.asarray(x, dtype=float)) for x in (found.value, found.low, found.high)
    )
    at = np.array([0.5]) if found.axis is None else found.axis
    spread = [np.maximum(value - low, 0), np.maximum(high - value, 0)]
    ax.errorbar(value, at, xerr=spread, fmt="o", color="C0", ecolor="0.2", capsize=2)
    if found.axis is not None:
        ax.set_ylim(0, 1)
        ax.set_ylabel("share of records below")
    else:
        ax.set_yticks([])
    ax.set_xlim(question.column.low, question.column.high)
    ax.set_xlabel(question.column.name)
