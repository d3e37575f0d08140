"""The masked sum: how much noise each member adds, and what it guarantees against colluders.

n members draw GDL(1/h, t) each, t = Delta/eps in grid steps, h = n - c - d: whichever d are absent and
whichever c of the others collude, at least h draws in the sum of a roster are unknown to the
adversary, and h of them are one discrete Laplace of scale t. The mean over a roster F has the noise
variance

    |F| Var(GDL(1/h, t))/|F|^2 = Var(DL(t))/(h |F|),

|F|/h times that of a trusted server.

Fewer unknown draws than h
    Let beta = (unknown draws)/h < 1. The noise is GDL(beta, t), with probabilities f. Cauchy's formula,
    with the contour drawn around the cut [1/r, infinity), gives for k >= 0

        f(k) = C int_0^infinity e^(-k (1+s)/t) (e^(s/t) - 1)^(-beta) (1 - e^(-(2+s)/t))^(-beta) ds,

    a mixture of geometric sequences with positive weights for 0 < beta < 1. So f falls with |k|, and is
    log-convex for k >= 0: f(x)/f(x + D) is largest at x = 0. The loss of a move by D steps is exactly

        log f(0)/f(D),

    attained at the output that is the input itself; far out it falls to D/t. For beta > 1/2 it has a
    limit as the grid becomes finer. For beta <= 1/2 it has none: it grows with (1 - 2 beta) log D, at
    beta = 1/2 with log log D, because f(0) then stays above a power of the step.

    log f(0)/f(D) is concave in D. A vector whose l1 norm moves by D therefore loses most if all of its
    components move alike: at most d log f(0)/f(ceil(D/d)). For beta >= 1 all of this is D/t.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from veilsum import _validate
from veilsum._numbers import upward
from veilsum._types import Floats
from veilsum.errors import PrivacyError
from veilsum.privacy.accounting import PrivacyEvent
from veilsum.privacy.accounting.events import DISCRETE_LAPLACE
from veilsum.privacy.exact.discrete import Integers
from veilsum.privacy.exact.entropy import Entropy
from veilsum.privacy.exact.shares import LARGEST_SCALE, SMALLEST_SCALE, GeneralizedDiscreteLaplace
from veilsum.privacy.quadrature import integral

MODULUS_BITS = 64
MOST_COMPONENTS = 1024  # of a statistic: what one message of an agent has room for
TAIL = 2.0**-60  # probability that the noise of a sum is larger than the modulus has room for
NOTHING_LEFT = 50.0  # e^-50 of a sum is below its last digit
COMPUTATIONAL = "computational"


class IntegerNoise(Protocol):
    """Noise on the integers, as members of a masked sum draw it."""

    @property
    def variance(self) -> float | Fraction:
        """In grid steps squared."""

    def shrunk(self, part: float) -> IntegerNoise:
        """The same law with that part of its deviation."""

    def log_characteristic(self, u: Floats) -> Floats:
        """log E e^(iuX)."""

    def tail(self, probability: float) -> int:
        """x with P(|X| >= x) <= probability, in grid steps."""

    def draw(self, count: int, entropy: Entropy = ...) -> Integers:
        """Draw exactly, for agents."""

    def sample(self, size: int | tuple[int, ...], rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw quickly, for simulations."""


def effective_epsilon(
    epsilon: float, beta: float, sensitivity_steps: int, dimension: int = 1
) -> float:
    """What epsilon becomes if only the fraction beta of the noise is unknown to the adversary.

    Parameters
    ----------
    epsilon : float
        What holds with all of the noise.
    beta : float
        Draws unknown to the adversary, over h; above 0.
    sensitivity_steps : int
        Delta, by how many grid steps a statistic may move (l1 norm).
    dimension : int
        Components of the statistic.

    Returns
    -------
    float
        An upper bound: the exact value for one component, the quadrature's error added.

    Raises
    ------
    PrivacyError
        If a number is outside its range.

    Examples
    --------
    >>> [round(effective_epsilon(1.0, beta, 2**12), 2) for beta in (1.0, 0.9, 0.5)]
    [1.0, 1.19, 3.21]
    """
    _validate.positive(PrivacyError, epsilon=epsilon, beta=beta)
    _validate.at_least(PrivacyError, 1, sensitivity_steps=sensitivity_steps, dimension=dimension)
    if beta >= 1:
        return float(epsilon)
    parts = min(dimension, sensitivity_steps)
    move = -(-sensitivity_steps // parts)
    return parts * _loss(float(beta), move, sensitivity_steps / epsilon)


@lru_cache(maxsize=4096)
def _loss(beta: float, steps: int, t: float) -> float:
    """log f(0)/f(steps), rounded up."""
    (here, off), (there, off_there) = _weight(beta, 0, t), _weight(beta, steps, t)
    return steps / t + math.log((here + off) / (there - off_there))


def _weight(beta: float, k: int, t: float) -> tuple[float, float]:
    """int_0^infinity of the module's text without e^(-k/t), and its largest error.

    Up to `near` the value at 0 is integrated exactly and the rest over s = near e^(-z); beyond,
    s = e^y.
    """
    near = min(1.0, t, t / max(k, 1))
    far = min(800 * t / beta, 800 * t / max(k, 1e-300)) if k else 800 * t / beta

    def regular(s: Floats) -> Floats:
        x = s / t
        rising = -beta * np.log(np.expm1(x) / x)
        return np.exp(rising - beta * np.log(-np.expm1(-(2 + s) / t)) - k * x)

    def lower(z: Floats) -> Floats:
        """What s = near e^(-z) adds beyond the value at 0."""
        return np.exp(-(1 - beta) * z) * (regular(near * np.exp(-z)) - origin)

    def logarithmic(y: Floats) -> Floats:
        s = np.exp(y)
        rising = s / t + np.log(-np.expm1(-s / t))  # log(e^(s/t) - 1), without overflow
        falling = np.log(-np.expm1(-(2 + s) / t))
        return np.exp(y - beta * (rising + falling) - k * s / t)

    origin = math.exp(-beta * math.log(-math.expm1(-2 / t)))  # regular(0)
    whole = origin / (1 - beta)
    first, error = integral(lower, 0.0, NOTHING_LEFT, least=1e-13 * whole)
    weight = near ** (1 - beta) * t**beta  # of int ds/s^beta, and of (e^(s/t) - 1)/s at 0
    rest, beyond = integral(logarithmic, math.log(near), math.log(far), parts=8)
    total = weight * (whole + first) + rest
    return total, weight * error + beyond + 1e-12 * total


@dataclass(frozen=True)
class MaskedParameters:
    """The public numbers of a masked sum.

    Parameters
    ----------
    n : int
        Members.
    colluders : int
        c, how many of the other members may collude.
    absent : int
        d, how many members a roster may lack.
    epsilon : float
        What one session costs.
    sensitivity_steps : int
        Delta, by how many grid steps a statistic may move (l1 norm, rounding included).
    attempts : int
        A, sessions per query.
    largest_steps : int, optional
        The largest component of one reading's statistic in grid steps, absolute; Delta if left out.
    dimension : int
        Components of the statistic.
    longest_batch : int
        The most readings that a member adds up in one query.
    range_steps : (int, int), optional
        The least and the largest component of one reading's statistic, between which a sum must lie
        but for the noise; -largest_steps and largest_steps if left out.

    Raises
    ------
    PrivacyError
        If n - c - 2d < 2, there are more than d + 1 attempts, t is outside 1/1000 .. 2^40, there
        are more than 1,024 components, or the sum does not fit the modulus.

    Examples
    --------
    >>> terms = MaskedParameters(1000, colluders=200, absent=100, epsilon=1.0, sensitivity_steps=4096)
    >>> terms.honest, terms.scale, terms.attempts, round(terms.error_factor(1000), 2)
    (700, Fraction(4096, 1), 1, 1.2)
    >>> round(terms.epsilon_against(400), 2)
    1.74
    """

    n: int
    colluders: int
    absent: int
    epsilon: float
    sensitivity_steps: int
    attempts: int = 1
    largest_steps: int | None = None
    dimension: int = 1
    longest_batch: int = 1
    range_steps: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        """Check every requirement that privacy or the result rests on."""
        _validate.at_least(PrivacyError, 2, n=self.n)
        _validate.at_least(PrivacyError, 0, colluders=self.colluders, absent=self.absent)
        _validate.at_least(
            PrivacyError, 1, sensitivity_steps=self.sensitivity_steps, dimension=self.dimension,
            longest_batch=self.longest_batch,
        )  # fmt: skip
        _validate.positive(PrivacyError, epsilon=self.epsilon)
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
        if self.dimension > MOST_COMPONENTS:
            raise PrivacyError(
                f"a masked sum has at most {MOST_COMPONENTS:,} components, which one message has "
                f"room for; found {self.dimension:,}; sum fewer, or parts with an epsilon of their own"
            )
        if not SMALLEST_SCALE <= self.scale <= LARGEST_SCALE:
            raise PrivacyError(
                f"sensitivity_steps/epsilon must lie in 1/1000 .. 2^40; found {float(self.scale):g}; "
                f"use {'a finer grid (more' if self.scale < 1 else 'a coarser grid (fewer'} steps) or "
                f"a {'smaller' if self.scale < 1 else 'larger'} epsilon"
            )
        self._check_room()

    def _check_members(self) -> None:
        left = self.n - self.colluders - 2 * self.absent
        if left < 2:
            raise PrivacyError(
                f"n - colluders - 2 absent must be at least 2; found {self.n} - {self.colluders} - "
                f"2 x {self.absent} = {left}; two rosters must have two honest members in common, or "
                "a restored ledger can leak; cover fewer colluders or absentees"
            )
        if self.attempts > self.absent + 1:
            raise PrivacyError(
                f"attempts must be at most absent + 1 = {self.absent + 1}; found {self.attempts}; each "
                "further attempt leaves out at least one member"
            )

    def _check_room(self) -> None:
        """|sum| <= n longest largest + noise < 2^63, the noise up to a probability of 2^-60."""
        if self.largest_sum >= 2 ** (MODULUS_BITS - 1):
            raise PrivacyError(
                f"a sum of {self.n} times {self.longest_batch} statistics of up to {self._largest} "
                "steps and its noise exceed 2^63; use a coarser grid (fewer steps) or shorter batches"
            )

    @property
    def _largest(self) -> int:
        return self.largest_steps or 0

    @property
    def _range(self) -> tuple[int, int]:
        return self.range_steps or (-self._largest, self._largest)

    @property
    def honest(self) -> int:
        """h = n - c - d, the draws that make up one discrete Laplace."""
        return self.n - self.colluders - self.absent

    @property
    def smallest_roster(self) -> int:
        """n - d."""
        return self.n - self.absent

    @property
    def scale(self) -> Fraction:
        """t = Delta/eps, exactly."""
        return self.sensitivity_steps / Fraction(self.epsilon)

    def noise_of(self, draws: int) -> IntegerNoise:
        """GDL(draws/h, t): that many members' noise together."""
        return GeneralizedDiscreteLaplace(Fraction(draws, self.honest), self.scale)

    @cached_property
    def noise(self) -> IntegerNoise:
        """GDL(1/h, t): what each member draws, for each component."""
        return self.noise_of(1)

    @property
    def noise_name(self) -> str:
        """The distribution of h draws together, for a sentence."""
        return "discrete Laplace"

    def sum_noise(self, members: int) -> IntegerNoise:
        """GDL(|F|/h, t): the noise of the sum over a roster."""
        self._check_roster(members)
        return self.noise_of(members)

    def mean_variance(self, members: int) -> float:
        """Var(DL(t))/(h |F|): of each component of the mean over a roster, in steps squared."""
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

        Returns
        -------
        bool
            False also if a batch is longer than the longest.
        """
        if not all(1 <= one <= self.longest_batch for one in readings):
            return False
        low, high = (sum(readings) * end for end in self._range)
        tail = self.noise_tail(len(readings))
        return low - tail <= total <= high + tail

    def epsilon_against(self, colluders: int) -> float:
        """What one session costs if that many of the other members collude.

        Parameters
        ----------
        colluders : int
            Members that collude, or omit their noise.

        Returns
        -------
        float
            epsilon up to c, `effective_epsilon` beyond.
        """
        _validate.at_least(PrivacyError, 0, colluders=colluders)
        unknown = max(1, self.smallest_roster - colluders)  # the agent's own draw is one
        return effective_epsilon(
            self.epsilon, unknown / self.honest, self.sensitivity_steps, self.dimension
        )

    @property
    def event(self) -> PrivacyEvent:
        """The cost of one session, for an accountant."""
        if self.dimension > 1:
            return PrivacyEvent(self.epsilon)
        return PrivacyEvent(self.epsilon, 0.0, DISCRETE_LAPLACE, float(self.sensitivity_steps))

    @property
    def noise_cost(self) -> Fraction:
        """eps, exactly: what one session costs."""
        return Fraction(self.epsilon)

    @property
    def assumes(self) -> str:
        """`COMPUTATIONAL`: an adversary that cannot break X25519, HKDF, ChaCha20 or Ed25519."""
        return COMPUTATIONAL

    @property
    def caveat(self) -> str:
        """What epsilon becomes if twice as many collude, for a guarantee's sentence."""
        twice = min(max(2 * self.colluders, 1), self.n - 1)
        who = str(twice) if twice < self.n - 1 else f"all {twice} others"
        more = f"if {who} colluded" if self.colluders else "against any one of the other members"
        return (
            f"{more}, epsilon would be {upward(self.epsilon_against(twice), 3)} a session; a "
            "member that omits its noise counts as a colluder"
        )

    def _check_roster(self, members: int) -> None:
        if not self.smallest_roster <= members <= self.n:
            raise PrivacyError(
                f"a roster has {self.smallest_roster} to {self.n} members; found {members}"
            )
