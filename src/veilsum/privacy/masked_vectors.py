"""The masked sum of vectors with Skellam noise: (epsilon, delta), by the l2 norm of a move.

n members draw Sk(v/h) for each component, h = n - c - d, so that the h of them that the adversary
does not know make up Sk(v) (`skellam`). v is the least with which one session costs (epsilon, delta).
It follows the l2 norm of a move, where pure noise follows the l1 norm: for d components that all move,
v is about 2 log(1/delta) d Delta^2/eps^2 in place of 2 d^2 Delta^2/eps^2. Where few of them move, or there
are few, pure noise is smaller, and a request with delta is refused.

If fewer draws are unknown, the noise is Sk(beta v): no cliff, epsilon grows by about 1/sqrt(beta).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from veilsum import _validate
from veilsum.errors import PrivacyError
from veilsum.privacy.accounting import PrivacyEvent
from veilsum.privacy.masked import MaskedParameters
from veilsum.privacy.skellam import Skellam, SkellamCost, skellam_variance


@dataclass(frozen=True)
class SkellamParameters(MaskedParameters):
    """The public numbers of a masked sum of vectors with Skellam noise.

    Parameters
    ----------
    n, colluders, absent, epsilon, sensitivity_steps, attempts, largest_steps, dimension
        As of `MaskedParameters`.
    longest_batch, range_steps
        Likewise.
    delta : float
        What one session costs beside epsilon, above 0.
    l2_steps : float
        By how many grid steps a statistic may move in l2 norm, rounding included.

    Raises
    ------
    PrivacyError
        As `MaskedParameters`; if delta or l2_steps is out of range.

    Examples
    --------
    >>> terms = SkellamParameters(
    ...     100, 20, 10, epsilon=1.0, sensitivity_steps=6400, dimension=64, delta=1e-6, l2_steps=800.0
    ... )
    >>> terms.noise.draw(64).shape, terms.event.delta
    ((64,), 1e-06)
    >>> pure = MaskedParameters(100, 20, 10, epsilon=1.0, sensitivity_steps=6400, dimension=64)
    >>> round((pure.mean_variance(100) / terms.mean_variance(100)) ** 0.5, 2)  # times less noise
    2.5
    >>> round(terms.epsilon_against(55), 2)  # half of the noise known
    1.45
    """

    delta: float = 0.0
    l2_steps: float = 0.0

    def __post_init__(self) -> None:
        """Check delta and the norms, then what any masked sum needs."""
        _validate.probability(PrivacyError, delta=self.delta)
        _validate.positive(PrivacyError, delta=self.delta, l2_steps=self.l2_steps)
        super().__post_init__()

    @cached_property
    def sum_variance(self) -> Fraction:
        """v, of h draws together, in grid steps squared."""
        return _variance(self.epsilon, self.delta, float(self.sensitivity_steps), self.l2_steps)

    @property
    def cost(self) -> SkellamCost:
        """What h draws together guarantee: zCDP, and (epsilon, delta) at any delta."""
        return SkellamCost(float(self.sum_variance), float(self.sensitivity_steps), self.l2_steps)

    def noise_of(self, draws: int) -> Skellam:
        """Sk(v draws/h): that many members' noise together."""
        return Skellam(self.sum_variance * Fraction(draws, self.honest))

    @property
    def noise_name(self) -> str:
        """The distribution, for a sentence."""
        return "Skellam"

    def epsilon_against(self, colluders: int) -> float:
        """What one session costs, at the same delta, if that many of the other members collude."""
        _validate.at_least(PrivacyError, 0, colluders=colluders)
        unknown = max(1, self.smallest_roster - colluders)
        if unknown >= self.honest:
            return self.epsilon
        return self.cost.with_part(unknown / self.honest).epsilon(self.delta)

    @property
    def event(self) -> PrivacyEvent:
        """(epsilon, delta) of one session, and the noise by which several compose."""
        return self.cost.event(self.delta, self.epsilon)


@lru_cache(maxsize=256)
def _variance(epsilon: float, delta: float, l1: float, l2: float) -> Fraction:
    return skellam_variance(epsilon, delta, l1, min(l1, l2))
