"""What all agents of a network must agree on, word for word, before they exchange anything.

Two agents compare hashes on connecting; if they differ, each names the first field that does. The
manifest holds no signal and nothing that was read off one.
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

from murmura import laws
from murmura.agent import sums
from murmura.engine import Problem
from murmura.errors import AgentError
from murmura.laws.base import Law
from murmura.privacy import NetworkDP, NoPrivacy, calibrate, check_stopping

SHARE = 53  # a weight is a whole number of 2^-53: exactly the float
FINER = 24  # a unit is this many bits below the grid of the finest release
TAIL = 700.0  # scales beyond which a release lies with probability e^-700
GRID = 40  # bits between a release's scale and its grid
WITHOUT_NOISE = 40  # bits below 1 where nothing sets a scale

Link = tuple[str, str, float]


@dataclass(frozen=True)
class Manifest:
    """The terms of one network in one epoch; `FIELDS` in their order are compared."""

    name: str
    epoch: int  # counts changes of membership
    law: str
    options: tuple[tuple[str, float | int | str], ...]
    asynchronous: bool  # readings enter when they come; no rounds in common
    family: str
    dimension: int
    protect: str
    sensitivity: str
    epsilon: float
    delta: float
    radius: float
    rounds: int  # 0: open-ended
    tolerance: float  # 0: no stopping before the last round
    diameter: int  # hops within which extremes reach everybody
    unit: int  # numbers are in units of 2^-unit
    largest: float  # no release is beyond this in size; inf: not known
    weights: str
    members: tuple[tuple[str, str], ...]  # label, name on its certificate
    links: tuple[Link, ...]  # (from, to, share pushed), both directions

    FIELDS: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        """Refuse terms that break their own promise, however the manifest was made."""
        if not 0 <= self.tolerance < math.inf:
            raise AgentError(
                f"tolerance must be a finite number of at least 0; found {self.tolerance:g}"
            )
        check_stopping(self.protect, self.tolerance, AgentError)

    @cached_property
    def digest(self) -> bytes:
        """sha256 of the whole, in canonical JSON."""
        return hashlib.sha256(_canonical(asdict(self))).digest()

    @cached_property
    def field_digests(self) -> tuple[bytes, ...]:
        """8 bytes of sha256 for each of FIELDS: enough to name the first that differs."""
        values = ({name: getattr(self, name)} for name in self.FIELDS)
        return tuple(hashlib.sha256(_canonical(value)).digest()[:8] for value in values)

    def first_difference(self, theirs: tuple[bytes, ...]) -> str:
        """Name the first field in which a neighbour's manifest differs from this one."""
        for name, own, other in zip(self.FIELDS, self.field_digests, theirs, strict=False):
            if own != other:
                return name
        return "the number of fields (another version of murmura)"

    @cached_property
    def certificates(self) -> dict[str, str]:
        """The name on each member's certificate, by label."""
        return dict(self.members)

    def lasting_name(self, label: str) -> str:
        """What a member is known by in all epochs: its certificate, with the label if shared."""
        name = self.certificates[label]
        shared = sum(other == name for _, other in self.members) > 1
        return f"{name}/{label}" if shared else name

    @cached_property
    def made_law(self) -> Law:
        """The law itself."""
        return laws.LAWS[self.law](**dict(self.options))

    @cached_property
    def _around(self) -> dict[str, dict[str, int]]:
        around: dict[str, dict[str, int]] = {label: {} for label, _ in self.members}
        for source, to, share in self.links:
            around[source][to] = round(share * 2**SHARE)
            around[to].setdefault(source, 0)
        return around

    def shares(self, label: str) -> dict[str, int]:
        """What the agent pushes to each neighbour, in units of 2^-53; 0 where it only hears."""
        if label not in self._around:
            raise AgentError(
                f"no member of {self.name} is called {label!r}; "
                f"its {len(self.members)} members are {_some([m for m, _ in self.members])}"
            )
        return self._around[label]

    @property
    def hides_neighbours(self) -> bool:
        """Whether noise must enter in every round (Network DP)."""
        return self.protect == NetworkDP.protects

    def to_json(self) -> str:
        """Write it as it is hashed."""
        return _canonical(asdict(self)).decode()

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Read what `to_json` wrote."""
        data = json.loads(text)
        for name in ("options", "members", "links"):
            data[name] = tuple(tuple(entry) for entry in data[name])
        for name in ("epsilon", "delta", "radius", "tolerance", "largest"):
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
    ) -> Manifest:
        """The terms for running a problem with one agent for each of its network's labels.

        `certificates` gives the name on a member's certificate where it is not its label;
        `rounds` = 0 is open-ended.
        """
        sums.check(problem.law, max(problem.rounds, 2))
        if problem.network.dynamic:
            raise AgentError(
                "a dynamic network is a simulation of links that fail; agents have real links, "
                "so leave link_failures and asleep out"
            )
        labels = [str(label) for label in problem.network.labels]
        if len(set(labels)) < len(labels):
            raise AgentError("agents need labels that differ as text")
        least, most = _scales(problem)
        want = problem.want
        protected = not isinstance(want, NoPrivacy)
        return cls(
            name=name,
            epoch=epoch,
            law=problem.law.name,
            options=tuple(sorted(_options(problem.law).items())),
            asynchronous=asynchronous,
            family=repr(problem.family),
            dimension=problem.family.dimension,
            protect=want.protects if protected else "nothing",
            sensitivity=getattr(want, "sensitivity", "none"),
            epsilon=problem.budgets[0] if protected else math.inf,
            delta=getattr(want, "delta", 0.0),
            radius=getattr(want, "radius", 0.0),
            rounds=problem.rounds if rounds is None else rounds,
            tolerance=tolerance,
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


def _options(law: Law) -> dict[str, Any]:
    return {field.name: getattr(law, field.name) for field in fields(law)}


def _links(network: Any, labels: list[str]) -> list[Link]:
    """(from, to, share): agent j pushes a_ij of what it holds to i."""
    matrix = network.at(1).tocoo()
    return sorted(
        (labels[j], labels[i], float(a))
        for i, j, a in zip(matrix.row.tolist(), matrix.col.tolist(), matrix.data, strict=True)
        if i != j and a > 0
    )


def _hops(network: Any) -> int:
    """The diameter, counted both ways over every link; an upper bound above 2,000 agents."""
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
    """The least and largest scale of any release, 0 without noise; 1 stands in for a signal."""
    last = max(problem.rounds, 1)
    noise = calibrate(problem.want, problem.law, problem.family, problem.network, last)
    if noise is None:
        return 0.0, 0.0
    signals, epsilon = np.ones((problem.network.size, 1)), problem.budgets[0]
    rounds = (1, last) if problem.law.online else (0,)
    scales = np.array([noise.scale(signals, epsilon, t) for t in rounds])
    return float(scales.min()), float(scales.max())


def _bits(scale: float) -> int:
    """Bits below 1 at which the finest release's grid lies."""
    return WITHOUT_NOISE if scale == 0 else GRID - math.floor(math.log2(scale)) + 1


def _largest(problem: Problem, scale: float) -> float:
    """max |xi| over the bounds, and a tail of noise that is never seen; inf without bounds."""
    family = problem.family
    ends = np.array([family.support.low, family.support.high], dtype=np.float64)
    if family.signal_shape or not np.isfinite(ends).all():
        return math.inf
    return float(np.max(np.abs(family.columns(ends)))) + TAIL * scale


def _some(labels: list[str], most: int = 8) -> str:
    return ", ".join(labels[:most]) + (", ..." if len(labels) > most else "")
