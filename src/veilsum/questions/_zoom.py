"""Few quantiles in three releases: a rough tree, then histograms whose cells are where they may be.

    stage 1    a tree over the B bins
    stage 2    counts of K cells, l1 = 2, that cut the places where quantiles may be by stage 1
    stage 3    the same by stage 2

Windows. Where quantiles may be is the union of their intervals by the stage before, half as wide again
(99.7% instead of 95%). Cells outside are wide, and those inside hold equally many records as far as is
known.
A quantile that lies outside all the same is in a wide cell: its interval is wide, and right.

K. With M records in the windows an interval is about z sigma sqrt(K) + M/K wide, noise and one cell: least at
K = (2 M/(z sigma))^(2/3).

Edges and K follow from what was released, so they cost nothing; that a record is in one cell of any K moves a
vector by 2, whatever was released before. Tree and last stage both say the score of an edge; weighted by 1/v
they have the variance 1/(1/v + 1/v') together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from veilsum._statistic import Statistic
from veilsum.questions._monotone import isotonic
from veilsum.questions._order import OrderQuestion, Path, finding, sampled, unknown
from veilsum.questions._tree import Tree, reach
from veilsum.questions.base import Decoded, Encoded, Forecast, Ints, NoisedVector, Question, counted
from veilsum.questions.columns import Floats, Number, Rows
from veilsum.questions.histograms import binned
from veilsum.questions.intervals import NORMAL
from veilsum.questions.noise import GridNoise
from veilsum.questions.quantile import Quantiles, TreePath, drawn, quantile_forecast

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHARES = (2 / 16, 4 / 16, 10 / 16)  # of epsilon
FEW = 3  # quantiles, whose ranks and intervals this finds better than one tree
FEWEST = 4  # cells
WIDER = 1.5  # than an interval of 95%
EVEN = 0.9  # of the records count as spread evenly between edges: a rough tree knows little more
OUTSIDE = 0.02  # of the cells that records outside the windows would have inside


@dataclass(frozen=True, kw_only=True)
class ZoomedQuantiles(OrderQuestion):
    """Quantiles in several releases.

    Parameters
    ----------
    at : tuple of float
        Their levels.
    """

    at: tuple[float, ...]

    measured: ClassVar[bool] = True

    @property
    def name(self) -> str:  # type: ignore[override]
        """Of the question."""
        return Quantiles.name

    @classmethod
    def examples(cls) -> tuple[Question, ...]:
        """A median of all records, and of some."""
        one = cls(column=Number("x", 0.0, 4.0), bins=40, at=(0.5,))
        return one, one.within()

    def at_once(self) -> Quantiles:
        """By a tree alone."""
        return Quantiles(column=self.column, bins=self.bins, at=self.at, partial=self.partial)

    @property
    def whole(self) -> Statistic:
        """Of the first stage."""
        return self.at_once().whole

    def encode(self, rows: Rows) -> Encoded:
        """Of the first stage."""
        return self.at_once().encode(rows)

    @property
    def stages(self) -> tuple[float, ...]:
        """A rough look, and two fine ones."""
        return SHARES

    @property
    def stage_statistics(self) -> tuple[Statistic, ...]:
        """Of the tree, and of cells."""
        cells = self._cells((0, self.bins)).statistic
        return self.at_once().statistic, *[cells] * (len(self.stages) - 1)

    def stage(self, k: int, before: Sequence[NoisedVector]) -> Question:
        """The tree; then cells, by what was released."""
        return self.at_once() if k == 0 else self._cells(self._edges(before[:k]))

    def terms(self) -> dict[str, Any]:
        """With the tree, and the shares of the stages."""
        return super().terms() | {
            "branching": self.at_once().branching, "shares": list(self.stages)
        }  # fmt: skip

    def _cells(self, edges: tuple[int, ...]) -> BinRuns:
        return BinRuns(column=self.column, bins=self.bins, partial=self.partial, places=edges)

    def _paths(self, released: Sequence[NoisedVector]) -> list[TreePath]:
        """What each stage says."""
        found = [self.at_once().path(released[0])]
        later = range(1, len(released))
        found += [self._cells(self._edges(released[:k])).path(released[k]) for k in later]
        return found

    def _edges(self, before: Sequence[NoisedVector]) -> tuple[int, ...]:
        """Of the next stage's cells, from the released vectors alone."""
        paths = self._paths(before)
        last, k = paths[-1], len(paths)
        if last.total < 1:
            return (0, self.bins)
        sigma = before[-1].sd / last.tree.height * self.stages[k - 1] / self.stages[k]
        rising = last.rising()
        inside = np.zeros(self.bins, dtype=np.bool_)
        for q in self.at:
            low, high = (int(x) for x in rising.interval(q, WIDER * last.half(q)))
            inside[low:high] = True
        mass = np.diff(spread_over(rising, shape(paths[0])))
        cells = cells_for(float(mass[inside].sum()), sigma, self.bins)
        weight = np.append(0.0, np.cumsum(np.where(inside, mass, OUTSIDE * mass)))
        inner = np.interp(
            np.arange(1, cells) / cells * weight[-1], weight, np.arange(self.bins + 1.0)
        )
        ends = np.flatnonzero(np.diff(inside)) + 1
        found = np.rint(np.concatenate([inner, ends, [0, self.bins]])).astype(np.int64)
        return tuple(np.unique(found).tolist())

    def decode(self, released: NoisedVector) -> tuple[Decoded, ...]:
        """What the tree says alone."""
        return self.at_once().decode(released)

    def conclude(self, released: Sequence[NoisedVector]) -> tuple[Decoded, ...]:
        """What the tree and the last stage say."""
        paths = self._paths(released)
        rough, fine = paths[0], paths[-1]
        if rough.few and fine.few:
            return (unknown(self, self.at), *fine.number(released[-1]))
        form = shape(rough)
        ends = []
        for q in self.at:
            path, half = together(rough, fine, q)
            low, high = path.interval(q, sampled(half, q, released[-1], path.total))
            everywhere = Path(rough.edges, spread_over(path, form), path.total)
            ends.append((min(max(everywhere.quantile(q), low), high), low, high))
        return (finding(self, self.at, ends), *fine.number(released[-1]))

    def forecast(self, records: int, noise: GridNoise) -> Forecast:
        """Where values are spread evenly: noise and half a cell of the last stage."""
        tree, shares = self.at_once().tree, self.stages
        inside, off = float(records), noise.sd * tree.rms()
        for share in shares[1:]:
            inside = min(inside, 2 * WIDER * NORMAL * off * len(self.at))
            sigma = noise.sd / tree.height * shares[0] / share
            cells = cells_for(inside, sigma, self.bins)
            off = sigma * math.sqrt(cells) / 2
            width = NORMAL * off + inside / cells / 2
        q = min(self.at, key=lambda q: abs(q - 0.5))
        return quantile_forecast(self, q, width, records, NORMAL * sigma * math.sqrt(cells))

    def draw(self, findings: Sequence[Decoded], ax: Axes) -> None:
        """Levels over values, with intervals."""
        drawn(self, findings[0], ax)


@dataclass(frozen=True, kw_only=True)
class BinRuns(OrderQuestion):
    """How many records lie in each of some runs of bins; the vector has room for B of them.

    Parameters
    ----------
    places : tuple of int
        Edges of the runs, 0 and B among them.
    """

    places: tuple[int, ...]

    @property
    def name(self) -> str:  # type: ignore[override]
        """Of the question whose later stage it is."""
        return Quantiles.name

    @property
    def cells(self) -> int:
        """K."""
        return len(self.places) - 1

    @property
    def whole(self) -> Statistic:
        """From one cell to another."""
        return counted(2.0, math.sqrt(2), self.bins, "one record is in one cell")

    @property
    def size(self) -> tuple[float, float]:
        """1."""
        return 1.0, 1.0

    def encode(self, rows: Rows) -> Encoded:
        """The cell of each record."""
        found = binned(rows[self.column.name], self.bins)
        return Encoded(np.searchsorted(np.array(self.places), found, side="right") - 1)

    def expand(self, totals: Ints) -> Ints:
        """With zeros for the cells that are not there."""
        room = [(0, 0)] * (totals.ndim - 1) + [(0, self.bins - totals.shape[-1])]
        return np.pad(totals, room)

    def path(self, released: NoisedVector) -> TreePath:
        """Counts below the edges of the cells."""
        public = released.records is not None
        flat = Tree(self.cells, self.cells)
        leaves = flat.leaves(released.values[: self.cells], released.records)
        counts = np.append(0.0, np.cumsum(leaves))
        return TreePath(
            np.array(self.places, dtype=np.float64), counts, float(released.records or counts[-1]),
            released.values[: self.cells], flat, public, released.sd,
            reach(flat, released.noise.law, public),
        )  # fmt: skip

    def decode(self, released: NoisedVector) -> tuple[Decoded, ...]:
        """Counts of the cells."""
        counts, half = released.values[: self.cells], released.half()
        return (Decoded("records by cell", counts, counts - half, counts + half),)

    def forecast(self, records: int, noise: GridNoise) -> Forecast:
        """Of a count."""
        return Forecast(
            NoisedVector(np.zeros(1), noise).half(), NORMAL * math.sqrt(records / self.cells),
            of="a count", scale=float(records),
        )  # fmt: skip


def cells_for(inside: float, sigma: float, bins: int) -> int:
    """K = (2 M/(z sigma))^(2/3), at most B."""
    if NORMAL * sigma * bins**1.5 <= 2 * inside:
        return bins
    best = round(math.pow(2 * inside / (NORMAL * sigma), 2 / 3))
    return min(max(best, FEWEST), bins)


def shape(rough: TreePath) -> Floats:
    """How records are spread over the bins as far as the tree says, rising at every edge."""
    even: Floats = rough.edges / rough.edges[-1]
    if rough.total < 1:
        return even
    return np.asarray((1 - EVEN) * rough.rising().counts / rough.total + EVEN * even)


def spread_over(path: Path, form: Floats) -> Floats:
    """Counts at all B + 1 edges, those of each cell spread as in `form`."""
    return np.asarray(np.interp(form, form[path.edges.astype(np.int64)], path.counts))


def together(rough: TreePath, fine: TreePath, q: float) -> tuple[Path, Floats]:
    """The path of the cells' edges by both, such that q of its total is where the score is 0."""
    at = fine.edges.astype(np.int64)
    first, second = _weights(rough.deviation(q)[at]), _weights(fine.deviation(q))
    whole = first + second
    w = np.divide(second, whole, out=np.ones(len(at)), where=whole > 0)
    score = w * (fine.counts - q * fine.total) + (1 - w) * (rough.counts[at] - q * rough.total)
    total = max(fine.total if fine.public else float(score[-1] / (1 - q)), 0.0)
    counts = np.clip(isotonic(score + q * total), 0.0, total)
    return Path(fine.edges, counts, total), fine.half(q) * np.sqrt(w)


def _weights(deviation: Floats) -> Floats:
    """1/v, 0 where nothing is to be said."""
    v = deviation**2
    return np.divide(1.0, v, out=np.zeros(len(v)), where=v > 0)
