"""How runs lie in memory: streams in lanes, epsilons in groups, agents in an order of their own.

`Columns` says which runs there are; a `Layout` says where the kernel keeps them. The number of
lanes is the least power of two, at most 8, that holds all streams; what is left over in the last
block of lanes is computed and thrown away. Results are taken out in the order of `Columns`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from murmura.engine.problem import Columns, Problem

Floats = NDArray[np.float64]
Order = NDArray[np.int64]

LANES = (1, 2, 4, 8)
ALIGNED = 64  # bytes: a vector that straddles two lines of the cache costs twice
ARRANGED = 50_000  # agents from which on they are put in an order that keeps neighbours together

_arranged: WeakKeyDictionary[Any, tuple[Order, Any]] = WeakKeyDictionary()


def aligned(*shape: int) -> Floats:
    """An array of zeros whose first number starts a line of the cache."""
    count = int(np.prod(shape))
    raw = np.zeros(count * 8 + ALIGNED, dtype=np.uint8)
    start = -raw.ctypes.data % ALIGNED
    return raw[start : start + count * 8].view(np.float64).reshape(shape)


def arranged(network: Any) -> tuple[Order, Any] | None:
    """The order of a large network's agents and its weights in that order, worked out once.

    None for small networks, which fit the cache in any order, and for dynamic ones, whose weights
    would have to be put in order in every round.
    """
    if network.size < ARRANGED or network.dynamic:
        return None
    if network not in _arranged:
        from murmura.network.order import arrange, permuted

        weights, graph = network.at(1), network.graph
        order = arrange(weights, None if graph is None else graph.positions)
        _arranged[network] = order, permuted(weights, order)
    return _arranged[network]


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the columns of a problem are kept."""

    columns: Columns
    streams: int
    groups: int  # the clean run and one for each epsilon
    lanes: int

    @staticmethod
    def of(problem: Problem, columns: Columns) -> Layout:
        """Lay out the runs of a problem."""
        streams = columns.streams.size or columns.clean
        lanes = next((w for w in LANES if w >= streams), LANES[-1])
        return Layout(columns, streams, 1 + len(problem.budgets), lanes)

    @property
    def like(self) -> tuple[float, ...]:
        """What tells the kernel the number of lanes."""
        return (0.0,) * self.lanes

    @property
    def stacks(self) -> int:
        """How many blocks of lanes hold all streams."""
        return -(-self.streams // self.lanes)

    @property
    def padded(self) -> int:
        """Streams, with those that are thrown away."""
        return self.stacks * self.lanes

    @property
    def stack_width(self) -> int:
        """Columns of one block of lanes."""
        return self.groups * self.lanes

    def place(self, stream: NDArray[Any], group: NDArray[Any]) -> NDArray[Any]:
        """The column of a stream and a group."""
        stack, lane = np.divmod(stream, self.lanes)
        return np.asarray((stack * self.groups + group) * self.lanes + lane)

    @property
    def kept(self) -> NDArray[Any]:
        """Where the columns of `Columns` are: clean ones, then epsilon by replica by component."""
        clean = self.place(np.arange(self.columns.clean), np.zeros(1, int))
        group, stream = np.divmod(np.arange(self.columns.private), max(self.streams, 1))
        return np.concatenate([clean, self.place(stream, group + 1)])

    def by_stream(self, values: Floats, order: Order | None, out: Floats) -> None:
        """Put what has one column per stream, or per component for all replicas, into lanes."""
        moved = values if order is None else values[order]
        times = -(-self.streams // moved.shape[1])
        out[:, : self.streams] = (
            np.tile(moved, (1, times))[:, : self.streams] if times > 1 else moved
        )

    def by_column(self, values: Floats, order: Order | None, out: Floats) -> None:
        """Put what has one column per private run where the kernel keeps that run."""
        out[:, self.kept[self.columns.clean :]] = values if order is None else values[order]
