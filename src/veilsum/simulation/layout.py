"""How the runs of a problem lie in memory: streams in lanes, epsilons in groups, agents in order.

The number of lanes is the least power of two, at most 8, that holds all streams; what is left over
in the last block of lanes is computed and discarded. Results are taken out in the order of
`ColumnLayout.columns`: noiseless runs first, then epsilon by replica by component.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from veilsum._types import Floats, Network

if TYPE_CHECKING:
    from veilsum.simulation.problem import Problem
    from veilsum.simulation.tiles import Reach

Order = NDArray[np.int64]

LANES = (1, 2, 4, 8)
ALIGNED = 64  # bytes: a vector that straddles two lines of the cache costs twice
ARRANGED = 50_000  # agents from which on they are put in an order that keeps neighbours together

_arranged: WeakKeyDictionary[Any, dict[bool, Arranged]] = WeakKeyDictionary()


def aligned(*shape: int) -> Floats:
    """An array of zeros whose first number starts a line of the cache."""
    count = int(np.prod(shape))
    raw = np.zeros(count * 8 + ALIGNED, dtype=np.uint8)
    start = -raw.ctypes.data % ALIGNED
    return raw[start : start + count * 8].view(np.float64).reshape(shape)


class Arranged(NamedTuple):
    """The agents of a large network in an order that keeps neighbours together."""

    order: Order  # the agent at each row
    weights: Any  # csr, in that order
    reach: Reach  # how far apart rows lie that read each other
    sliced: bool = False  # whether the weights are as `slices` reads them


def arranged(network: Network, sliced: bool = False) -> Arranged | None:
    """The order of a large network's agents and its weights in that order, computed once.

    None for small networks, which fit the cache in any order, and for dynamic ones, whose weights
    would have to be reordered in every round. `sliced` moves the weights as `slices` reads them, where
    neighbours lie close together: eight rows that read all over memory are slower than one.
    """
    if network.size < ARRANGED or network.dynamic:
        return None
    forms = _arranged.setdefault(network, {})
    if sliced not in forms:
        other = forms.get(not sliced)
        made = other or _arrange(network)
        if other is not None and other.reach.short:  # else both forms are one
            made = _again(network, other)
        if sliced and made.reach.short:
            from veilsum.simulation.slices import slice_rows  # loading the compiler takes a while

            slice_rows(made.weights)
            made = made._replace(sliced=True)
        forms[sliced] = made
    return forms[sliced]


def _arrange(network: Network) -> Arranged:
    """In strips where places are known, else Cuthill-McKee, if several rounds a pass are possible so.

    If not, along a Morton curve where places are known: it keeps most neighbours closer.
    """
    from veilsum.networks.order import arrange, permuted, strips
    from veilsum.simulation.tiles import reach_of

    weights, graph = network.at(1), network.graph
    positions = None if graph is None else graph.positions
    if positions is not None and not np.isfinite(positions).all():
        positions = None
    tries: list[Callable[[], Order]] = [partial(arrange, weights)]
    if positions is not None:
        along = partial(strips, weights, positions)
        tries = [along, *tries, partial(arrange, weights, positions)]
    for attempt in tries:
        order = attempt()
        moved = permuted(weights, order)
        reach = reach_of(moved.indptr, moved.indices)
        if reach.short:
            break
    return Arranged(order, moved, reach)


def _again(network: Network, known: Arranged) -> Arranged:
    """The same order, with a copy of the weights of its own."""
    from veilsum.networks.order import permuted

    return known._replace(weights=permuted(network.at(1), known.order), sliced=False)


@dataclass(frozen=True, eq=False)
class ColumnLayout:
    """Which column is which run, and where the kernel stores it.

    Every private column is compared with the noiseless run of the same signals. All epsilons share
    the noise streams of a replica: what differs between them is the scale alone, so curves over
    epsilon are smooth, a run does not depend on which others it is swept with, and many epsilons
    follow from one perturbation (`linear`). Measured signals are run one epsilon at a time
    (`Problem.independent_runs`), each with independent noise.
    """

    components: int
    noiseless: int  # columns without noise: replicas with different signals, times components
    private: int  # columns with noise: epsilons, times replicas, times components
    epsilons: Floats  # (private,): the epsilon of each private column
    streams: int
    groups: int  # the noiseless run and one for each epsilon
    lanes: int
    narrower: int = 0  # lanes that the last block goes without

    @staticmethod
    def of(problem: Problem) -> ColumnLayout:
        """Lay out the runs of a problem."""
        d = problem.family.dimension
        noiseless = d * (problem.replicas if problem.source.varies else 1)
        epsilons = np.repeat(np.array(problem.run_epsilons), problem.replicas * d)
        streams = problem.replicas * d if epsilons.size else noiseless
        lanes = next((w for w in LANES if w >= streams), LANES[-1])
        groups = 1 + len(problem.run_epsilons)
        return ColumnLayout(d, noiseless, epsilons.size, epsilons, streams, groups, lanes)

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
        """The number of streams, with those that are discarded."""
        return self.stacks * self.lanes - self.narrower

    @property
    def stack_width(self) -> int:
        """Columns of one block of lanes."""
        return self.groups * self.lanes

    @property
    def width(self) -> int:
        """Columns of all blocks of lanes."""
        return self.stacks * self.stack_width

    def place(self, stream: NDArray[Any], group: NDArray[Any]) -> NDArray[Any]:
        """The column of a stream and a group."""
        stack, lane = np.divmod(stream, self.lanes)
        return np.asarray((stack * self.groups + group) * self.lanes + lane)

    @cached_property
    def columns(self) -> NDArray[Any]:
        """The column of each run: noiseless ones, then epsilon by replica by component."""
        noiseless = self.place(np.arange(self.noiseless), np.zeros(1, int))
        group, stream = np.divmod(np.arange(self.private), max(self.streams, 1))
        return np.concatenate([noiseless, self.place(stream, group + 1)])

    def by_stream(self, values: Floats, order: Order | None, out: Floats) -> None:
        """Store what has one column per stream, or per component for all replicas, in lanes."""
        moved = values if order is None else values[order]
        times = -(-self.streams // moved.shape[1])
        out[:, : self.streams] = (
            np.tile(moved, (1, times))[:, : self.streams] if times > 1 else moved
        )

    def by_column(self, values: Floats, order: Order | None, out: Floats) -> None:
        """Store what has one column per private run in the column of that run."""
        out[:, self.columns[self.noiseless :]] = values if order is None else values[order]


def takes_rounds(problem: Problem) -> bool:
    """Whether several rounds can be computed in one call, as far as the algorithm is concerned.

    Not where weights change, nor where a ratio or the noise of links is prepared for every round.
    """
    algorithm = problem.algorithm
    links = algorithm.perturbs_messages or any(
        algorithm.at(t).link_noise for t in range(problem.rounds + 1)
    )
    return not (problem.network.dynamic or algorithm.ratio or links)


def takes_slices(problem: Problem) -> bool:
    """Whether eight rows are computed at a time: runs with a single stream (`slices`)."""
    return ColumnLayout.of(problem).lanes == 1 and takes_rounds(problem)
