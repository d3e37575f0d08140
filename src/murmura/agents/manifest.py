"""The manifest: what all agents of a network must agree on before they exchange anything.

Two agents compare hashes on connecting; if they differ, each reports the first field that differs.
The manifest holds no signal and nothing derived from one.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from murmura import _validate, algorithms
from murmura.agents import conservation
from murmura.agents.views import ViewGraph
from murmura.algorithms.base import Algorithm
from murmura.algorithms.batched import batched
from murmura.errors import AgentError
from murmura.privacy import (
    Batches,
    PrivacyRequest,
    Protects,
    calibrate,
    check_stopping,
    mechanism_name,
)
from murmura.privacy.batches import LARGEST_GROWTH, LEAST_GROWTH
from murmura.simulation import Problem

WEIGHT_BITS = 53  # a weight is a whole number of 2^-53: exactly the float
FINER = 24  # a unit is this many bits below the grid of the finest release
TAIL = 700.0  # scales beyond which a release lies with probability e^-700
GRID = 40  # bits between a release's scale and its grid
WITHOUT_NOISE = 40  # bits below 1 where nothing sets a scale

GATHERING, LOST_AFTER, DAY = 600.0, 3600.0, 86_400.0  # seconds
_FLOATS = (
    "epsilon", "delta", "radius", "tolerance", "gathering", "lost_after", "every", "grace",
    "batch_growth", "largest",
)  # fmt: skip

WeightedLink = tuple[str, str, float]  # (from, to, weight)


@dataclass(frozen=True)
class Manifest:
    """The terms of one network in one epoch; its fields are compared in order.

    Parameters
    ----------
    name : str
        Name of the network.
    epoch : int
        Counts changes of membership.
    algorithm : str
        Name of the algorithm.
    options : tuple
        Options of the algorithm as (name, value).
    asynchronous : bool
        Readings enter when they come; there are no common rounds.
    family : str
        The family, as its repr.
    dimension : int
        Components of the statistic.
    protect, sensitivity : str
        The privacy request.
    mechanism : str
        Name of the mechanism; "best" is resolved.
    epsilon, delta, radius : float
        The privacy request.
    rounds : int
        0 if open-ended.
    tolerance : float
        Stop when estimates are this close; 0 to stop only after the last round.
    quorum : int
        Members whose readings a result needs.
    gathering : float
        Seconds to wait for members that were never heard, if the quorum allows to go without them.
    lost_after : float
        Seconds of silence after which a neighbour counts as lost.
    every, grace : float
        Seconds of a slot of the reading schedule, and how much later a reading may come; 0: none.
    batch_growth : float
        By what factor batches of readings grow; 1: each reading is released by itself.
    longest_batch : int
        Readings of the longest batch; 0: no limit.
    diameter : int
        Hops within which a range report reaches every agent.
    unit : int
        Numbers are in units of 2^-unit.
    largest : float
        No release is larger in absolute value; inf if unknown.
    weights : str
        Name of the weights.
    members : tuple
        (label, name on its certificate) of every agent.
    links : tuple
        (from, to, weight pushed), in both directions.

    Raises
    ------
    AgentError
        If a term is invalid, or the tolerance contradicts the guarantee.

    Examples
    --------
    >>> from murmura.agents import Manifest
    >>> from murmura.scenario import Scenario
    >>> scenario = Scenario.parse('''
    ... network = {graph = "ring:4", weights = "lazy-metropolis"}
    ... family = {name = "normal", sigma = 1.0, bounds = [0.0, 1.0]}
    ... signals = {draw = {mu = 0.5}}
    ... privacy = {protect = "signal", epsilon = 1.0}
    ... algorithm = {name = "average", rounds = 20}
    ... ''')
    >>> manifest = Manifest.of(scenario.build().problem, "ring")
    >>> manifest.diameter, len(manifest.links), sorted(manifest.link_weights("0"))
    (2, 8, ['1', '3'])
    >>> Manifest.from_json(manifest.to_json()).digest == manifest.digest
    True
    """

    name: str
    epoch: int
    algorithm: str
    options: tuple[tuple[str, float | int | str], ...]
    asynchronous: bool
    family: str
    dimension: int
    protect: str
    sensitivity: str
    mechanism: str
    epsilon: float
    delta: float
    radius: float
    rounds: int
    tolerance: float
    quorum: int
    gathering: float
    lost_after: float
    every: float
    grace: float
    batch_growth: float
    longest_batch: int
    diameter: int
    unit: int
    largest: float
    weights: str
    members: tuple[tuple[str, str], ...]
    links: tuple[WeightedLink, ...]

    FIELDS: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        """Raise for terms that contradict their own guarantee, however the manifest was made."""
        if not 0 <= self.tolerance < math.inf:
            raise AgentError(
                f"tolerance must be a finite number of at least 0; found {self.tolerance:g}"
            )
        check_stopping(self.protect, self.tolerance, AgentError)
        _validate.at_least(AgentError, 1, quorum=self.quorum)
        _validate.at_most(AgentError, len(self.members), quorum=self.quorum)
        _validate.positive(AgentError, gathering=self.gathering, lost_after=self.lost_after)
        if not 0 <= self.every < math.inf or not 0 <= self.grace < math.inf:
            raise AgentError(
                "every and grace must be finite numbers of seconds of at least 0; "
                f"found {self.every:g} and {self.grace:g}"
            )
        if self.batch_growth != 1 and not LEAST_GROWTH <= self.batch_growth <= LARGEST_GROWTH:
            raise AgentError(
                f"batch_growth must be 1, or a number from {LEAST_GROWTH:g} to {LARGEST_GROWTH:g}; "
                f"found {self.batch_growth:g}"
            )
        _validate.at_least(AgentError, 0, longest_batch=self.longest_batch)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of all members, in order."""
        return tuple(label for label, _ in self.members)

    @cached_property
    def graph(self) -> ViewGraph:
        """The links, numbered: bit k of a view stands for the k-th of `graph.pairs`."""
        return ViewGraph(self.labels, self.links)

    @property
    def waits(self) -> bool:
        """Whether a result is of a stated set of members: common rounds, and a last one."""
        return self.rounds > 0 and not self.asynchronous

    @cached_property
    def digest(self) -> bytes:
        """sha256 of the whole manifest in canonical JSON."""
        return hashlib.sha256(_canonical(asdict(self))).digest()

    @cached_property
    def field_digests(self) -> tuple[bytes, ...]:
        """8 bytes of sha256 for each field: enough to find the first that differs."""
        values = ({name: getattr(self, name)} for name in self.FIELDS)
        return tuple(hashlib.sha256(_canonical(value)).digest()[:8] for value in values)

    def first_difference(self, theirs: tuple[bytes, ...]) -> str:
        """The first field in which a neighbour's manifest differs from this one."""
        for name, own, other in zip(self.FIELDS, self.field_digests, theirs, strict=False):
            if own != other:
                return name
        return "the number of fields (another version of murmura)"

    @cached_property
    def certificates(self) -> dict[str, str]:
        """The name on each member's certificate, by label."""
        return dict(self.members)

    def lasting_name(self, label: str) -> str:
        """Identifies a member in all epochs: its certificate, with the label if several share it."""
        name = self.certificates[label]
        shared = sum(other == name for _, other in self.members) > 1
        return f"{name}/{label}" if shared else name

    @cached_property
    def made_algorithm(self) -> Algorithm:
        """The algorithm as an object."""
        return algorithms.ALGORITHMS[self.algorithm](**dict(self.options))

    @cached_property
    def _weights(self) -> dict[str, dict[str, int]]:
        weights: dict[str, dict[str, int]] = {label: {} for label, _ in self.members}
        for source, to, weight in self.links:
            weights[source][to] = round(weight * 2**WEIGHT_BITS)
            weights[to].setdefault(source, 0)
        return weights

    def link_weights(self, label: str) -> dict[str, int]:
        """The weight that the agent pushes to each neighbour, in units of 2^-53.

        Parameters
        ----------
        label : str
            Label of the agent.

        Returns
        -------
        dict of str to int
            By neighbour; 0 for one that the agent only receives from.

        Raises
        ------
        AgentError
            If there is no such member.
        """
        if label not in self._weights:
            raise AgentError(
                f"no member of {self.name} is called {label!r}; "
                f"its {len(self.members)} members are {_some([m for m, _ in self.members])}"
            )
        return self._weights[label]

    @property
    def hides_neighbours(self) -> bool:
        """Whether noise must enter in every round (Network DP)."""
        return self.protect == Protects.NETWORK

    @property
    def adds_noise(self) -> bool:
        """Whether anything is protected."""
        return self.protect != Protects.NOTHING

    def to_json(self) -> str:
        """The JSON that is hashed."""
        return _canonical(asdict(self)).decode()

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Read what `to_json` wrote."""
        data = json.loads(text)
        for name in ("options", "members", "links"):
            data[name] = tuple(tuple(entry) for entry in data[name])
        for name in _FLOATS:
            data[name] = float(data[name])
        return cls(**data)

    @classmethod
    def of(
        cls,
        problem: Problem,
        name: str = "murmura",
        *,
        epoch: int = 1,
        certificates: Mapping[str, str] | None = None,
        asynchronous: bool = False,
        rounds: int | None = None,
        tolerance: float = 0.0,
        quorum: int | None = None,
        gathering: float = GATHERING,
        lost_after: float = LOST_AFTER,
        every: float = 0.0,
        grace: float = 0.0,
        batch_growth: float = 1.0,
        longest_batch: int = 0,
    ) -> Manifest:
        """The terms for running a problem with one agent for each of its network's labels.

        Parameters
        ----------
        problem : Problem
            Network, algorithm, family and privacy request.
        name : str
            Name of the network.
        epoch : int
            Counts changes of membership.
        certificates : mapping of str to str, optional
            The name on a member's certificate where it is not its label.
        asynchronous : bool
            Readings enter when they come.
        rounds : int, optional
            The problem's by default; 0 is open-ended.
        tolerance : float
            Stop when estimates are this close; 0 to stop only after the last round.
        quorum : int, optional
            Members whose readings a result needs; all by default.
        gathering, lost_after, every, grace
            As in the manifest.
        batch_growth, longest_batch
            As in the manifest, where the problem's privacy request has no batches; without a
            longest one it is a day of readings, if `every` is known.

        Returns
        -------
        Manifest
            Valid.

        Raises
        ------
        AgentError
            If agents cannot run the problem.
        """
        algorithm = batched(problem.algorithm, None)  # the batches are terms of their own
        conservation.check(algorithm, max(problem.rounds, 2))
        if problem.network.dynamic:
            raise AgentError(
                "a dynamic network simulates links that fail; agents have real links, "
                "so leave link_failures and asleep out"
            )
        labels = [str(label) for label in problem.network.labels]
        if len(set(labels)) < len(labels):
            raise AgentError("agents need labels that differ as text; rename those that do not")
        least, most = _scales(problem)
        privacy = problem.privacy
        batches = _batches(privacy.batches or Batches(batch_growth, longest_batch), every)
        asked = privacy.at(problem.run_epsilons[0]) if problem.run_epsilons else privacy
        return cls(
            name=name,
            epoch=epoch,
            algorithm=problem.algorithm.name,
            options=tuple(sorted(_options(algorithm).items())),
            asynchronous=asynchronous,
            family=repr(problem.family),
            dimension=problem.family.dimension,
            protect=privacy.protects.value,
            sensitivity=str(privacy.sensitivity) if privacy.adds_noise else "none",
            mechanism=_mechanism(asked, problem.family),
            epsilon=asked.epsilon,
            delta=privacy.delta,
            radius=privacy.radius,
            rounds=problem.rounds if rounds is None else rounds,
            tolerance=tolerance,
            quorum=len(labels) if quorum is None else quorum,
            gathering=gathering,
            lost_after=lost_after,
            every=every,
            grace=grace,
            batch_growth=batches.growth,
            longest_batch=batches.longest,
            diameter=_hops(problem.network),
            unit=_bits(least) + FINER,
            largest=_largest(problem, most),
            weights=problem.network.scheme,
            members=tuple((label, (certificates or {}).get(label, label)) for label in labels),
            links=tuple(_links(problem.network, labels)),
        )


Manifest.FIELDS = tuple(field.name for field in fields(Manifest))


def _canonical(value: Any) -> bytes:
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=float
    ).encode()


def _batches(asked: Batches, every: float) -> Batches:
    """The batches of a network: the longest is a day where a schedule says what that is."""
    if asked.trivial or asked.longest or not every:
        return asked
    if every > DAY / 2:
        raise AgentError(
            f"a longest batch of a day is less than two readings every {every:g} s; say how many "
            "readings a batch may wait for: batches = {growth = 2.0, longest = 4}"
        )
    return Batches(asked.growth, int(DAY // every))


def _options(algorithm: Algorithm) -> dict[str, Any]:
    return {field.name: getattr(algorithm, field.name) for field in fields(algorithm)}


def _links(network: Any, labels: list[str]) -> list[WeightedLink]:
    """(from, to, weight): agent j pushes a_ij of its mass to i."""
    matrix = network.at(1).tocoo()
    return sorted(
        (labels[j], labels[i], float(a))
        for i, j, a in zip(matrix.row.tolist(), matrix.col.tolist(), matrix.data, strict=True)
        if i != j and a > 0
    )


def _hops(network: Any) -> int:
    """The diameter, with links taken as undirected; an upper bound above 2,000 agents."""
    from scipy.sparse.csgraph import breadth_first_order, shortest_path

    links = network.at(1)
    if network.size <= 2000:
        return int(np.max(shortest_path(links, directed=False, unweighted=True)))
    order, before = breadth_first_order(links, 0, directed=False)
    depth = np.zeros(network.size, dtype=np.int64)
    for node in order[1:]:
        depth[node] = depth[before[node]] + 1
    return 2 * int(depth.max())


def _scales(problem: Problem) -> tuple[float, float]:
    """The least and largest scale of any release, 0 without noise; computed for a signal of 1."""
    last = max(problem.rounds, 1)
    noise = calibrate(problem.privacy, problem.algorithm, problem.family, problem.network, last)
    if not problem.privacy.adds_noise:
        return 0.0, 0.0
    signals, epsilon = np.ones((problem.network.size, 1)), problem.run_epsilons[0]
    rounds = (1, last) if problem.algorithm.online else (0,)
    scales = np.array([noise.scale(signals, epsilon, t) for t in rounds])
    tail = noise.sensitivity / epsilon if noise.perturbs_input else 0.0
    return float(scales.min()), max(float(scales.max()), tail)


def _mechanism(privacy: PrivacyRequest, family: Any) -> str:
    """The name of the mechanism: Laplace noise has one name whatever its sensitivity."""
    return privacy.mechanism if privacy.reads_signals else mechanism_name(privacy, family)


def _bits(scale: float) -> int:
    """Bits below 1 at which the finest release's grid lies."""
    return WITHOUT_NOISE if scale == 0 else GRID - math.floor(math.log2(scale)) + 1


def _largest(problem: Problem, scale: float) -> float:
    """max |xi| over the bounds, plus a negligible tail of noise; inf without bounds."""
    family = problem.family
    ends = np.array([family.support.low, family.support.high], dtype=np.float64)
    if family.signal_shape or not np.isfinite(ends).all():
        return math.inf
    return float(np.max(np.abs(family.columns(ends)))) + TAIL * scale


def _some(labels: list[str], most: int = 8) -> str:
    return ", ".join(labels[:most]) + (", ..." if len(labels) > most else "")
