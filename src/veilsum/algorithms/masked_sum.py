"""masked-sum: the mean of all members, from a sum that masks hide (no server, no mixing).

    nu_t = 0 before round R,    nu_t = mean over F of (xi + d) from round R on

R is five times the diameter, and as often again as a session is restarted (`masked_session`).
Before that, agents have no estimate, which is 0 here.
"""

from __future__ import annotations

from dataclasses import dataclass

from veilsum.algorithms.masked_session import MaskedAlgorithm
from veilsum.algorithms.secure_sum import SecureSum


@dataclass(frozen=True)
class MaskedSum(MaskedAlgorithm, SecureSum):
    """nu_t = mean over F of (xi + d) once the session is over, 0 before.

    Parameters
    ----------
    members, hops, missing, restarts : int
        Of the session, as for `MaskedAlgorithm`.

    Examples
    --------
    >>> from veilsum import algorithms, networks
    >>> made = algorithms.get("masked-sum", networks.metropolis("ring:9"))
    >>> made.members, made.hops, made.arrival, made.at(made.arrival).innovation
    (9, 4, 20, 1.0)
    """

    name = "masked-sum"
    reference = "secure aggregation without a server, noise in parts"
    formula = "nu_t = mean over F of (xi + d) from round 5 diameter on, 0 before"
