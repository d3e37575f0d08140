"""masked-sum: the mean of all members, from a sum that masks hide (no server, no mixing).

    nu_t = 0 before round R,    nu_t = mean over F of (xi + d) from round R on

A session floods five kinds of signed records one after the other (Present, Roster, Commit, Ready,
Masked), each over the diameter of the graph, and every agent then has the same sum over the roster
F; deadlines of real agents come on top. Before that, agents have no estimate, which is 0 here. A
session that fails after members have sent is repeated, with new noise and at the same cost.

The weights A play no part: xi_t and d_t stand for their means over F (`aggregates`). d_i is what
member i draws, a part of discrete Laplace noise that many honest members make up together
(`murmura.privacy.masked`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from murmura import _validate
from murmura._types import Floats, Network
from murmura.algorithms.base import Algorithm, Coefficients, Sensitivities
from murmura.errors import AlgorithmError

FLOODS = 5  # Present, Roster, Commit, Ready, Masked
RECORD_BYTES = 405  # of a member's records of a session over one link, about, for one number
COMPONENT_BYTES = 8  # of each further component, once


@dataclass(frozen=True)
class MaskedSum(Algorithm):
    """nu_t = mean over F of (xi + d) once the session is over, 0 before.

    Parameters
    ----------
    members : int
        n, the members of the network.
    hops : int
        The diameter of the graph: how many rounds a flood takes.
    missing : int
        Members that are not in the roster: the last ones in the order of the network.
    restarts : int
        Sessions that failed after members had sent; each costs as much as one that succeeds.

    Raises
    ------
    AlgorithmError
        If a number is out of range.

    Examples
    --------
    >>> from murmura import algorithms, networks
    >>> made = algorithms.get("masked-sum", networks.metropolis("ring:9"))
    >>> made.members, made.hops, made.arrival, made.at(made.arrival).innovation
    (9, 4, 20, 1.0)
    """

    members: int
    hops: int
    missing: int = 0
    restarts: int = 0

    name: ClassVar[str] = "masked-sum"
    reference: ClassVar[str] = "secure aggregation without a server, noise in parts"
    formula: ClassVar[str] = "nu_t = mean over F of (xi + d) from round 5 diameter on, 0 before"
    start: ClassVar[Coefficients] = Coefficients()
    static_only: ClassVar[bool] = True
    aggregates: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check that there is somebody to add up."""
        _validate.at_least(AlgorithmError, 2, members=self.members)
        _validate.at_least(AlgorithmError, 1, hops=self.hops)
        _validate.at_least(AlgorithmError, 0, missing=self.missing, restarts=self.restarts)
        if self.missing >= self.members:
            raise AlgorithmError(
                f"missing must be below members = {self.members}; found {self.missing}"
            )

    @classmethod
    def for_network(cls, network: Network, **options: Any) -> MaskedSum:
        """Read the members and the diameter off the network."""
        options.setdefault("members", network.size)
        if "hops" not in options:
            found = getattr(network, "diameter", None)
            if found is None:
                raise AlgorithmError(
                    "the diameter of this network is not known; state it as hops=..."
                )
            options["hops"] = max(int(found), 1)
        return cls(**options)

    @property
    def arrival(self) -> int:
        """R, the round from which on every agent has the result."""
        return (self.restarts + 1) * FLOODS * self.hops

    @property
    def roster(self) -> int:
        """|F|, the members that are added up."""
        return self.members - self.missing

    @property
    def mass(self) -> Floats:
        """(members,): the weight of each member's signal, 1/|F| or 0."""
        present = np.arange(self.members) < self.roster
        return np.asarray(present / self.roster)

    def bytes_per_link(self, dimension: int = 1) -> int:
        """What all sessions send over one link: every record crosses it once."""
        one = RECORD_BYTES + COMPONENT_BYTES * (dimension - 1)
        return (self.restarts + 1) * self.roster * one

    def coefficients(self, t: int) -> Coefficients:
        """Keep what there is; in round R, take the result."""
        if t == self.arrival:
            return Coefficients(innovation=1.0, noise=1.0)
        return Coefficients(own=1.0)

    def sensitivities(self, t: int) -> Sensitivities:  # noqa: ARG002 - the same in every round
        """1 per unit of a member's statistic, and nothing of a neighbour's estimate."""
        return Sensitivities(signal=1.0, network=0.0)
