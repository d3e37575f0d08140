"""Who computes what: the agents in an order that keeps neighbours together, cut into runs.

    Partition.order[k] = the agent at place k,    rank r owns places starts[r] .. starts[r + 1] - 1

A run's work is its stored weights, so the cuts balance those. METIS, where pymetis is installed,
finds parts with fewer links between them; they become runs of an order as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura._validate import one_of
from murmura.errors import MissingExtraError, MurmuraError

Places = NDArray[np.int64]
METHODS = ("auto", "order", "metis")


@dataclass(frozen=True, eq=False)
class Partition:
    """Runs of places, one for each rank; without `order`, place k is agent k."""

    starts: Places  # (ranks + 1,)
    order: Places | None = None

    def __post_init__(self) -> None:
        """Refuse a rank without agents: it would wait for others and do nothing."""
        if np.any(np.diff(self.starts) < 1):
            raise MurmuraError(
                f"{self.size} agents are too few for {self.ranks} ranks, which need one each; "
                f"start fewer, e.g. mpiexec -n {max(1, min(self.size, self.ranks - 1))}"
            )

    @property
    def ranks(self) -> int:
        """How many runs there are."""
        return len(self.starts) - 1

    @property
    def size(self) -> int:
        """How many agents there are."""
        return int(self.starts[-1])

    def bounds(self, rank: int) -> tuple[int, int]:
        """The first place of a rank and the one after its last."""
        return int(self.starts[rank]), int(self.starts[rank + 1])

    def owners(self, places: NDArray[Any]) -> Places:
        """The rank that owns each place."""
        return np.searchsorted(self.starts, places, side="right") - 1

    def agents(self, places: NDArray[Any]) -> Places:
        """The agent at each place."""
        return places if self.order is None else self.order[places]

    def places(self) -> Places:
        """(n,): the place of each agent."""
        if self.order is None:
            return np.arange(self.size, dtype=np.int64)
        out = np.empty(self.size, dtype=np.int64)
        out[self.order] = np.arange(self.size)
        return out


def cut(work: NDArray[Any], ranks: int) -> Places:
    """(ranks + 1,): where to cut so that each run has about the same sum of `work`, and an item."""
    done = np.cumsum(work, dtype=np.float64)
    goals = done[-1] * np.arange(1, ranks) / ranks
    inner = np.searchsorted(done, goals, side="left") + 1
    least = np.arange(1, ranks)
    inner = np.maximum.accumulate(np.maximum(inner, least) - least) + least  # one item at least
    inner = np.minimum(inner, len(work) - ranks + least)
    return np.concatenate([[0], inner, [len(work)]]).astype(np.int64)


def divide(network: Any, ranks: int, method: str = "auto") -> Partition:
    """Divide a network's agents among ranks; the numbers of a run do not depend on it."""
    one_of(MurmuraError, METHODS, method=method)
    if ranks == 1 and method != "metis":
        return Partition(np.array([0, network.size]), _order(network))
    if method != "order" and network.kind == "doubly-stochastic":  # METIS takes symmetric graphs
        member = _metis(network.at(1), ranks, needed=method == "metis")
        if member is not None:
            return _by_member(member, ranks, network)
    order = _order(network)
    lengths = np.diff(network.at(1).indptr)
    return Partition(cut(lengths if order is None else lengths[order], ranks), order)


def _order(network: Any) -> Places | None:
    """The order in which one machine computes, or one like it where that keeps the agents' own."""
    from murmura.engine.layout import arranged
    from murmura.network.order import arrange

    found = arranged(network)
    if found is not None:
        return found[0]
    graph = network.graph
    positions = None if graph is None else graph.positions
    return arrange(network.at(1), positions, window=1)  # no sorting by length: places matter more


def _by_member(member: Places, ranks: int, network: Any) -> Partition:
    """Parts as runs: by part, then as in the usual order."""
    order = _order(network)
    usual = np.arange(network.size) if order is None else order
    placed = usual[np.argsort(member[usual], kind="stable")]
    counts = np.bincount(member, minlength=ranks)
    return Partition(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), placed)


def _metis(matrix: Any, ranks: int, needed: bool) -> Places | None:
    try:
        import pymetis
    except ImportError:
        if needed:
            raise MissingExtraError(
                'method "metis" needs pymetis; try: pip install pymetis, or method="order"'
            ) from None
        return None
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    apart = rows != matrix.indices
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows[apart], minlength=matrix.shape[0]))])
    _, member = pymetis.part_graph(
        ranks, xadj=starts, adjncy=matrix.indices[apart], vweights=np.diff(matrix.indptr)
    )
    found = np.asarray(member, dtype=np.int64)
    return found if len(np.unique(found)) == ranks else None
