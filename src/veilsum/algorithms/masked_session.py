"""A session of a masked sum on a graph: who is in it, how long it takes, what it sends.

A session floods five kinds of signed records one after the other (Present, Roster, Commit, Ready,
Masked). One that fails after members have sent is repeated, with new noise and at the same cost.
"""

from __future__ import annotations

from dataclasses import dataclass

from veilsum import _validate
from veilsum.algorithms.summed import CROSSINGS, SummedAlgorithm
from veilsum.errors import AlgorithmError

FLOODS = 5  # Present, Roster, Commit, Ready, Masked
RECORD_BYTES = 700  # of a member's Present, Commit, Ready and Masked, with a label of 3 bytes
COMPONENT_BYTES = 8  # of each further component, once


@dataclass(frozen=True)
class MaskedAlgorithm(SummedAlgorithm):
    """An algorithm of masked sums; abstract.

    Parameters
    ----------
    members, hops, missing : int
        As for `SummedAlgorithm`.
    restarts : int
        Sessions of a query that failed after members had sent; each costs as much as one that
        succeeds.

    Examples
    --------
    >>> from veilsum import algorithms, networks
    >>> made = algorithms.get("masked-learn", networks.metropolis("ring:9"), missing=1)
    >>> isinstance(made, algorithms.MaskedAlgorithm), made.session.roster, made.session_rounds
    (True, 8, 20)
    """

    restarts: int = 0

    masked = True
    what = "masked sum"
    flooded = FLOODS

    def __post_init__(self) -> None:
        """Check the restarts too."""
        super().__post_init__()
        _validate.at_least(AlgorithmError, 0, restarts=self.restarts)

    @property
    def floods(self) -> str:
        """How many floods a query takes, in words."""
        again = f"{self.restarts + 1} sessions of " if self.restarts else ""
        return f"{again}five floods"

    @property
    def session_rounds(self) -> int:
        """Rounds of flooding that a query takes, those of its restarts included."""
        return (self.restarts + 1) * super().session_rounds

    def bytes_per_link(
        self,
        dimension: int = 1,
        colluders: int | None = None,  # noqa: ARG002 - the same whatever is covered
        absent: int | None = None,  # noqa: ARG002
    ) -> int:
        """What all sessions of a query send over one link at most, both directions together."""
        one = RECORD_BYTES + COMPONENT_BYTES * (dimension - 1)
        return (self.restarts + 1) * self.roster * CROSSINGS * one
