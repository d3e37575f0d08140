"""The secure sum: how much noise each member adds, and what it guarantees against colluders.

n members draw `law.part(1/h)` each, h = n - c' - d: whichever d are absent and whichever c' of the others
collude, at least h draws in the sum of a roster are unknown to the adversary, and h of them are one
draw of the law. The mean over a roster F has the noise variance

    |F| Var(law.part(1/h))/|F|^2 = Var(law)/(h |F|),

|F|/h times that of a trusted server.

Which law is a choice: pure (discrete Laplace of scale t = Delta/eps, by the l1 norm of a move), or with
a delta Skellam noise Sk(v), by the l2 norm, v the least with which one query costs (epsilon, delta).
For d components that all move v is about 2 log(1/delta) d Delta^2/eps^2 in place of 2 d^2 Delta^2/eps^2;
where few of them move, or there are few, pure noise is smaller, and a request with delta is refused.

If only the fraction beta = (unknown draws)/h of the noise is unknown, what is left is `law.part(beta)`,
and what it costs is the law's own answer (`laws.shares`: a cliff at beta = 1/2; `laws.skellam`: none).
Beyond c keepers nothing is left at all: t of them read every value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from veilsum import _validate
from veilsum._numbers import upward
from veilsum.algorithms.keepers import Keepers
from veilsum.errors import PrivacyError
from veilsum.privacy.accounting import PrivacyEvent
from veilsum.privacy.laws import DiscreteLaplace, Law, Skellam, skellam_variance
from veilsum.privacy.laws.shares import LARGEST_SCALE, SMALLEST_SCALE

ROOM_BITS = 60  # of a sum in the field of p = 2^61 - 1, centred
SLACK_BITS = 2  # of these, left to the noise
TAIL = 2.0**-60  # probability that the noise of a sum is larger than there is room for
COMPUTATIONAL = "computational"


@dataclass(frozen=True)
class SecureParameters:
    """The public numbers of a secure sum.

    Parameters
    ----------
    n : int
        Members.
    colluders : int
        c', how many of the other members may collude.
    absent : int
        d, how many members a roster may lack.
    epsilon : float
        What one query costs.
    sensitivity_steps : int
        Delta, by how many grid steps a statistic may move (l1 norm, rounding included).
    largest_steps : int, optional
        The largest component of one reading's statistic in grid steps, absolute; Delta if left out.
    dimension : int
        Components of the statistic.
    longest_batch : int
        The most readings that a member adds up in one query.
    range_steps : (int, int), optional
        The least and the largest component of one reading's statistic, between which a sum must lie
        but for the noise; -largest_steps and largest_steps if left out.
    delta : float
        What one query costs beside epsilon: 0 for pure noise, above it for Skellam noise.
    l2_steps : float, optional
        By how many grid steps a statistic may move in l2 norm; Delta if left out.

    Raises
    ------
    PrivacyError
        If n - c' - d < 1, t is outside 1/1000 .. 2^40, or the sum does not fit the field.

    Examples
    --------
    >>> terms = SecureParameters(50, colluders=10, absent=5, epsilon=1.0, sensitivity_steps=4096)
    >>> terms.honest, terms.scale, terms.attempts, round(terms.error_factor(50), 3)
    (35, Fraction(4096, 1), 1, 1.195)
    >>> round(terms.epsilon_against(17), 2)  # beta = 0.8
    1.44
    """

    n: int
    colluders: int
    absent: int
    epsilon: float
    sensitivity_steps: int
    largest_steps: int | None = None
    dimension: int = 1
    longest_batch: int = 1
    range_steps: tuple[int, int] | None = None
    delta: float = 0.0
    l2_steps: float | None = None

    def __post_init__(self) -> None:
        """Check every requirement that privacy or the result rests on."""
        _validate.at_least(PrivacyError, 2, n=self.n)
        _validate.at_least(PrivacyError, 0, colluders=self.colluders, absent=self.absent)
        _validate.at_least(
            PrivacyError, 1, sensitivity_steps=self.sensitivity_steps, dimension=self.dimension,
            longest_batch=self.longest_batch,
        )  # fmt: skip
        _validate.positive(PrivacyError, epsilon=self.epsilon)
        _validate.probability(PrivacyError, delta=self.delta)
        _validate.positive(PrivacyError, l2_steps=self._l2)
        if self.largest_steps is None:
            object.__setattr__(self, "largest_steps", self.sensitivity_steps)
        _validate.at_least(PrivacyError, 1, attempts=self.attempts, largest_steps=self._largest)
        low, high = self._range
        if not -self._largest <= low <= high <= self._largest:
            raise PrivacyError(
                "range_steps must be a least and a largest number within ±largest_steps = "
                f"{self._largest}; found {low} and {high}"
            )
        self._check_members()
        if not SMALLEST_SCALE <= self.scale <= LARGEST_SCALE:
            raise PrivacyError(
                f"sensitivity_steps/epsilon must lie in 1/1000 .. 2^40; found {float(self.scale):g}; "
                f"use {'a finer grid (more' if self.scale < 1 else 'a coarser grid (fewer'} steps) or "
                f"a {'smaller' if self.scale < 1 else 'larger'} epsilon"
            )
        self._check_room()

    def _check_members(self) -> None:
        _ = self.keepers

    def _check_room(self) -> None:
        """log2|F| + log2(range) + 2 <= 60, and the noise's tail of 2^-60 fits too."""
        low, high = self._range
        needed = self.n * self.longest_batch * (high - low) << SLACK_BITS
        if max(needed, self.largest_sum) > 2**ROOM_BITS:
            raise PrivacyError(
                f"a sum of {self.n} times {self.longest_batch} statistics of up to {self._largest} "
                f"steps and its noise exceed 2^{ROOM_BITS}; use a coarser grid (fewer steps) or shorter "
                "batches"
            )

    @property
    def _l2(self) -> float:
        l1 = float(self.sensitivity_steps)
        return l1 if self.l2_steps is None else min(self.l2_steps, l1)

    @property
    def _largest(self) -> int:
        return self.largest_steps or 0

    @property
    def _range(self) -> tuple[int, int]:
        return self.range_steps or (-self._largest, self._largest)

    @cached_property
    def keepers(self) -> Keepers:
        """Who adds up: all members up to n = 500, and 200 that are drawn beyond."""
        return Keepers(self.n, self.colluders, self.absent)

    @property
    def honest(self) -> int:
        """h = n - c' - d, the draws that make up one discrete Laplace."""
        return self.n - self.colluders - self.absent

    @property
    def smallest_roster(self) -> int:
        """n - d."""
        return self.n - self.absent

    @property
    def scale(self) -> Fraction:
        """t = Delta/eps, exactly."""
        return self.sensitivity_steps / Fraction(self.epsilon)

    @cached_property
    def law(self) -> Law:
        """The noise of h draws together, which nobody may know less of."""
        if self.delta:
            l1 = float(self.sensitivity_steps)
            return Skellam(skellam_variance(self.epsilon, self.delta, l1, self._l2))
        return DiscreteLaplace(self.scale)

    def noise_of(self, draws: int) -> Law:
        """That many members' noise together."""
        return self.law.part(Fraction(draws, self.honest))

    @cached_property
    def noise(self) -> Law:
        """What each member draws, for each component."""
        return self.noise_of(1)

    def sum_noise(self, members: int) -> Law:
        """The noise of the sum over a roster."""
        self._check_roster(members)
        return self.noise_of(members)

    def mean_variance(self, members: int) -> float:
        """Var(law)/(h |F|): of each component of the mean over a roster, in steps squared."""
        return float(self.sum_noise(members).variance) / members**2

    def error_factor(self, members: int) -> float:
        """sqrt(|F|/h): the noise's standard deviation over that of a trusted server."""
        self._check_roster(members)
        return math.sqrt(members / self.honest)

    def noise_tail(self, members: int, probability: float = TAIL) -> int:
        """Steps that a component of the sum's noise reaches with at most that probability."""
        return self.sum_noise(members).tail(probability)

    @property
    def largest_sum(self) -> int:
        """Steps that a component of a sum exceeds with probability 2^-60 at most."""
        return self.n * self.longest_batch * self._largest + self.noise_tail(self.n)

    def plausible(self, total: int, readings: Sequence[int]) -> bool:
        """Whether a component of a sum lies within its bounds plus the noise's tail.

        Parameters
        ----------
        total : int
            In grid steps.
        readings : sequence of int
            How many readings each member of the roster contributed.
        """
        if not all(1 <= one <= self.longest_batch for one in readings):
            return False
        low, high = (sum(readings) * end for end in self._range)
        tail = self.noise_tail(len(readings))
        return low - tail <= total <= high + tail

    def epsilon_against(self, colluders: int) -> float:
        """What one query costs, at the same delta, if that many of the other members collude.

        No more than c of them are keepers: t keepers read every value.

        Parameters
        ----------
        colluders : int
            Members that collude, or omit their noise.
        """
        _validate.at_least(PrivacyError, 0, colluders=colluders)
        unknown = max(1, self.smallest_roster - colluders)  # the agent's own draw is one
        if unknown >= self.honest:
            return float(self.epsilon)
        return self.noise_of(unknown).epsilon(
            self.sensitivity_steps, self._l2, self.dimension, self.delta
        )

    @property
    def event(self) -> PrivacyEvent:
        """The cost of one query, for an accountant."""
        return self.law.event(
            self.epsilon, self.sensitivity_steps, self._l2, self.dimension, self.delta
        )

    @property
    def attempts(self) -> int:
        """One: a query has no second roster."""
        return 1

    @property
    def assumes(self) -> str:
        """`COMPUTATIONAL`: an adversary that cannot break the cryptography."""
        return COMPUTATIONAL

    @property
    def noise_cost(self) -> Fraction:
        """eps, exactly: what one query costs."""
        return Fraction(self.epsilon)

    @property
    def reason(self) -> str:
        """Why the sum hides a member."""
        return (
            f"shares hide all but the sum over a roster, in which the noise of at least {self.honest} "
            f"honest members is one full {self.law.name} draw"
        )

    @property
    def per_query(self) -> str:
        """How often a query is paid for."""
        return "one post and one roster, without further attempts and without a refund"

    @property
    def caveat(self) -> str:
        """What epsilon becomes beyond the colluders that are covered, for a guarantee's sentence."""
        k = self.keepers
        twice = min(max(2 * self.colluders, 1), self.n - 1)
        return (
            f"beyond {k.colluding} of the {k.count} keepers is a cliff: {k.needed} of them read every "
            f"value, nearly raw; if {twice} members colluded whose keepers are no more than that, epsilon "
            f"would be {upward(self.epsilon_against(twice), 3)} a query; a member that omits its noise "
            "counts as a colluder"
        )

    def _check_roster(self, members: int) -> None:
        if not self.smallest_roster <= members <= self.n:
            raise PrivacyError(
                f"a roster has {self.smallest_roster} to {self.n} members; found {members}"
            )
