"""A sum over a roster on a graph: who is in it, how long it takes.

A query is a number of floods one after the other, each over the diameter of the graph; every agent then
has the same sum over the roster F. Deadlines come on top.

The weights A play no part: xi_t and d_t stand for their means over F. d_i is what member i draws, a
part of noise that many honest members make up together (`veilsum.privacy.secure`).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from veilsum import _validate
from veilsum._types import Floats, Network
from veilsum.algorithms.base import Algorithm, Coefficients, Sensitivities
from veilsum.errors import AlgorithmError

CROSSINGS = 2  # a flooded record crosses a link at most once in each direction


@dataclass(frozen=True)
class SummedAlgorithm(Algorithm):
    """An algorithm of sums over a roster; abstract.

    Parameters
    ----------
    members : int
        n, the members of the network.
    hops : int
        The diameter of the graph: how many rounds a flood takes.
    missing : int
        Members that are not in the roster: the last ones in the order of the network.

    Examples
    --------
    >>> from veilsum import algorithms, networks
    >>> made = algorithms.get("secure-learn", networks.metropolis("ring:9"), missing=1)
    >>> isinstance(made, algorithms.SummedAlgorithm), made.session.roster, made.session_rounds
    (True, 8, 12)
    """

    members: int
    hops: int
    missing: int = 0

    start = Coefficients()
    static_only = fitted = summed = True
    what: ClassVar[str] = "secure sum"
    flooded: ClassVar[int]  # floods of one query

    def __post_init__(self) -> None:
        """Check that there is somebody to add up."""
        _validate.at_least(AlgorithmError, 2, members=self.members)
        _validate.at_least(AlgorithmError, 1, hops=self.hops)
        _validate.at_least(AlgorithmError, 0, missing=self.missing)
        if self.missing >= self.members:
            raise AlgorithmError(
                f"missing must be below members = {self.members}; found {self.missing}"
            )

    @classmethod
    def for_network(cls, network: Network, **options: Any) -> Self:
        """Read the members and the diameter off the network."""
        options.setdefault("members", network.size)
        if "hops" not in options:
            found = getattr(network, "diameter", None)
            if found is None:
                raise AlgorithmError(
                    "the diameter of this network is not known; state it as hops=..."
                )
            options["hops"] = max(int(found), 1)
        made = cls(**options)
        least = getattr(network, "least_diameter", 0)
        if made.hops < least:
            raise AlgorithmError(
                f"hops = {made.hops} is less than the diameter of this network, {least}: floods "
                "would not reach everybody; leave hops out, or state at least as many"
            )
        return made

    @property
    def session(self) -> SummedAlgorithm:
        """Itself."""
        return self

    @property
    @abstractmethod
    def floods(self) -> str:
        """The floods of a query, in words."""

    @property
    def session_rounds(self) -> int:
        """Rounds of flooding that a query takes."""
        return self.flooded * self.hops

    @property
    @abstractmethod
    def arrival(self) -> int:
        """The first round with a result: before it, there is no estimate."""

    def check_rounds(self, rounds: int) -> None:
        """Raise if the rounds end before the first result."""
        if rounds < self.arrival:
            after = f"a delay of {self.arrival - 1} rounds" if self.online else f"{self.hops} hops"
            raise AlgorithmError(
                f"a {self.what} over {after} has no result before round {self.arrival}, and rounds = "
                f"{rounds}; run at least as many"
            )

    @property
    def roster(self) -> int:
        """|F|, the members that are added up."""
        return self.members - self.missing

    @property
    def mass(self) -> Floats:
        """(members,): the weight of each member's signal, 1/|F| or 0."""
        present = np.arange(self.members) < self.roster
        return np.asarray(present / self.roster)

    @abstractmethod
    def bytes_per_link(
        self, dimension: int = 1, colluders: int | None = None, absent: int | None = None
    ) -> int:
        """What a query sends over one link at most, both directions together."""

    def sensitivities(self, t: int) -> Sensitivities:  # noqa: ARG002 - the same in every round
        """1 per unit of a member's statistic, and nothing of a neighbour's estimate."""
        return Sensitivities(signal=1.0, network=0.0)
