"""secure-learn: the mean of a stream, from a secure sum for every reading or batch of readings.

    nu_t = (t-1)/t nu_{t-1} + 1/t mean over F of (xi_t + d_t)

A round is a reading, and the query of round t, 3 diameter hops of flooding, fits before the next one;
where it does not, its result enters `delay` rounds later. With batches (`Batched`) there is a query where
a batch closes, of the sums of its readings: the noise of one query in place of as many as there are
readings. All agents have the same estimate, so that what remains beside the noise is sampling: the error
against E xi is sqrt(n) sigma/sqrt(|F| t).
"""

from __future__ import annotations

from dataclasses import dataclass

from veilsum import _validate
from veilsum.algorithms.base import Coefficients
from veilsum.algorithms.secure_sum import SecureSum
from veilsum.errors import AlgorithmError


@dataclass(frozen=True)
class SecureLearn(SecureSum):
    """nu_t = (t-1)/t nu_{t-1} + 1/t mean over F of (xi_t + d_t).

    Parameters
    ----------
    members, hops, missing : int
        Of every query, as for `SummedAlgorithm`.
    delay : int
        Rounds between a reading and the round in which its query is answered.

    Examples
    --------
    >>> from veilsum import algorithms, networks
    >>> made = algorithms.get("secure-learn", networks.metropolis("ring:9"), delay=2)
    >>> made.at(2).innovation, made.at(3).innovation, made.at(4).own, made.latest(4)
    (0.0, 1.0, 0.5, 2)
    """

    delay: int = 0

    name = "secure-learn"
    reference = "a secure sum for every batch of a stream"
    formula = "nu_t = (t-1)/t nu_{t-1} + 1/t mean over F of (xi_t + d_t)"
    online = True

    def __post_init__(self) -> None:
        """Check the members and the delay."""
        super().__post_init__()
        _validate.at_least(AlgorithmError, 0, delay=self.delay)

    @property
    def arrival(self) -> int:
        """The round in which the query of the first reading, a batch by itself, is answered."""
        return self.enters(1)

    def latest(self, t: int) -> int:
        """Reading t - delay, or none."""
        return max(t - self.delay, 0)

    def readings(self, t: int) -> int:
        """One, once there is a result."""
        return 1 if self.latest(t) else 0

    def enters(self, reading: int) -> int:
        """After the delay."""
        return reading + self.delay

    def coefficients(self, t: int) -> Coefficients:
        """(t-1)/t of what there is and 1/t of the mean, t counted from the first result."""
        s = self.latest(t)
        if not s:
            return Coefficients(own=1.0)
        return Coefficients(own=(s - 1) / s, innovation=1 / s, noise=1 / s)
