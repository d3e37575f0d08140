"""secure-sum: the mean of all members, from shares that keepers add up (no server, no mixing).

    nu_t = 0 before round R,    nu_t = mean over F of (xi + d) from round R on

Three floods: the deals of all members, the roster F, the answers of the keepers. R is three times the
diameter. Before that, agents have no estimate, which is 0 here. There are no further attempts: a member
may vanish after its deal, and `Keepers.silent` keepers may never answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from veilsum.algorithms.base import Coefficients
from veilsum.algorithms.keepers import Keepers
from veilsum.algorithms.summed import CROSSINGS, SummedAlgorithm


@dataclass(frozen=True)
class SecureSum(SummedAlgorithm):
    """nu_t = mean over F of (xi + d) once the keepers have answered, 0 before.

    Parameters
    ----------
    members, hops, missing : int
        Of the query, as for `SummedAlgorithm`.

    Examples
    --------
    >>> from veilsum import algorithms, networks
    >>> made = algorithms.get("secure-sum", networks.metropolis("ring:9"))
    >>> made.members, made.hops, made.arrival, made.at(made.arrival).innovation
    (9, 4, 12, 1.0)
    """

    name = "secure-sum"
    reference = "shares dealt to keepers, one post a site, noise in parts"
    formula = "nu_t = mean over F of (xi + d) from round 3 diameter on, 0 before"
    flooded = 3

    @property
    def floods(self) -> str:
        """Of what."""
        return "three floods (deals, roster, answers)"

    @property
    def arrival(self) -> int:
        """R, the round from which on every agent has the result."""
        return self.session_rounds

    def coefficients(self, t: int) -> Coefficients:
        """Keep what there is; in round R, take the result."""
        if t == self.arrival:
            return Coefficients(innovation=1.0, noise=1.0)
        return Coefficients(own=1.0)

    def bytes_per_link(
        self, dimension: int = 1, colluders: int | None = None, absent: int | None = None
    ) -> int:
        """2 (|F| deals + the roster + k answers)."""
        keepers = Keepers.usual(self.members, colluders, absent)
        deals = self.roster * keepers.deal_bytes(dimension)
        answers = keepers.count * keepers.answer_bytes(dimension)
        return CROSSINGS * (deals + keepers.roster_bytes(self.roster) + answers)
