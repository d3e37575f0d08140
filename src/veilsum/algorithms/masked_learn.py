"""masked-learn: the mean of a stream, from a masked sum for every reading or batch of readings.

    nu_t = (t-1)/t nu_{t-1} + 1/t mean over F of (xi_t + d_t)

As secure-learn, with sessions of 5 diameter hops of flooding.
"""

from __future__ import annotations

from dataclasses import dataclass

from veilsum.algorithms.masked_session import MaskedAlgorithm
from veilsum.algorithms.secure_learn import SecureLearn


@dataclass(frozen=True)
class MaskedLearn(MaskedAlgorithm, SecureLearn):
    """nu_t = (t-1)/t nu_{t-1} + 1/t mean over F of (xi_t + d_t).

    Parameters
    ----------
    members, hops, missing, restarts : int
        Of every session, as for `MaskedAlgorithm`.
    delay : int
        Rounds between a reading and the round in which its session is over.

    Examples
    --------
    >>> from veilsum import algorithms, networks
    >>> made = algorithms.get("masked-learn", networks.metropolis("ring:9"), delay=2)
    >>> made.at(2).innovation, made.at(3).innovation, made.at(4).own, made.latest(4)
    (0.0, 1.0, 0.5, 2)
    """

    name = "masked-learn"
    reference = "a masked sum for every batch of a stream"
    formula = "nu_t = (t-1)/t nu_{t-1} + 1/t mean over F of (xi_t + d_t)"
