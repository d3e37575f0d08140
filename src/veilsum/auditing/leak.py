"""The attack on floating-point noise (Mironov 2012): read the input off the holes in its support.

A sampler that adds scale * log(w) to x in floating point reaches only some floats, and which ones
depends on x. So one output y may be possible under x_0 and impossible under x_1, and then it
names the input, whatever epsilon was guaranteed:

    E_0 = {y possible under x_0, impossible under x_1},    E_1 the other way round.

Pure epsilon-DP demands P(E_0 | x_0) <= e^eps P(E_0 | x_1) and the same of E_1: outputs that cannot
be are outputs that identify. `support_attack` counts both events and bounds epsilon from below.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum import _extras, _validate
from veilsum.errors import PrivacyError

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Release = Callable[[Floats], Floats]  # one fresh output for each input
Support = Callable[[Floats, float], Mask]  # which outputs are possible under an input
Magnitude = Callable[
    [NDArray[np.int64], Mask], Floats
]  # |noise| of scale 1 for an index and a side

WINDOW = 64  # more candidates than this, and an output counts as possible


@dataclass(frozen=True)
class SupportReport:
    """How often the events E_0 and E_1 occurred, rightly and wrongly, in `trials` of each input.

    Attributes
    ----------
    trials
        How often each input was released.
    right
        How often E_0 occurred under x_0, and E_1 under x_1.
    wrong
        How often E_0 occurred under x_1, and E_1 under x_0.

    Examples
    --------
    >>> report = SupportReport(trials=1000, right=(600, 700), wrong=(0, 0))
    >>> report.identified, round(report.epsilon_at_least(), 2), report.refutes(1.0)
    (0.65, 3.72, True)
    """

    trials: int
    right: tuple[int, int]
    wrong: tuple[int, int]

    @property
    def identified(self) -> float:
        """The fraction of outputs that name their own input."""
        return sum(self.right) / (2 * self.trials)

    @property
    def mistaken(self) -> float:
        """The fraction of outputs that name the other input."""
        return sum(self.wrong) / (2 * self.trials)

    @property
    def advantage(self) -> float:
        """identified - mistaken; pure epsilon-DP keeps its mean below tanh(eps/2)."""
        return self.identified - self.mistaken

    def epsilon_at_least(self, confidence: float = 0.999999) -> float:
        """The larger of log P(E_i | x_i)/P(E_i | x_{1-i}), bounded from below.

        Four one-sided Clopper-Pearson bounds share the error 1 - confidence evenly.
        """
        _validate.probability(PrivacyError, confidence=confidence)
        error = (1 - confidence) / 4
        return max(
            0.0,
            *(self._log_ratio(r, w, error) for r, w in zip(self.right, self.wrong, strict=True)),
        )

    def refutes(self, epsilon: float, confidence: float = 0.999999) -> bool:
        """Whether the counts rule out pure epsilon-DP."""
        return self.epsilon_at_least(confidence) > epsilon

    def _log_ratio(self, right: int, wrong: int, error: float) -> float:
        beta = _extras.load("scipy.stats").beta  # slow to load, and needed by audits only
        if right == 0:
            return -math.inf
        low = float(beta.ppf(error, right, self.trials - right + 1))
        high = float(beta.isf(error, wrong + 1, self.trials - wrong)) if wrong < self.trials else 1
        return math.log(low / high)


def support_attack(
    release: Release, x0: float, x1: float, trials: int, possible: Support
) -> SupportReport:
    """Release x0 and x1 `trials` times each and count the outputs that name an input.

    Parameters
    ----------
    release
        The mechanism: takes an array of equal inputs, returns a fresh output for each.
    x0, x1
        The two inputs, which must differ.
    trials
        How often each is released.
    possible
        What the attacker knows about the support: `possible(outputs, x)` says for each output
        whether it can come from x.

    Returns
    -------
    SupportReport
        The counts; `refutes(epsilon)` judges them.

    Raises
    ------
    PrivacyError
        If the inputs are equal, or there are no trials.

    Examples
    --------
    >>> from veilsum.privacy import LaplaceMechanism
    >>> rng = np.random.default_rng(1)
    >>> floats = support_attack(lambda x: rng.laplace(x, 1.0), 0.0, 1.0, 1000, numpy_support(1.0))
    >>> floats.identified > 0.7, floats.wrong, floats.refutes(1.0)
    (True, (0, 0), True)
    >>> exact = LaplaceMechanism(epsilon=1.0, sensitivity=1.0)
    >>> known = grid_support(exact.granularity)
    >>> support_attack(exact.release, 0.0, 1.0, 1000, known).right
    (0, 0)
    """
    _validate.at_least(PrivacyError, 1, trials=trials)
    if x0 == x1:
        raise PrivacyError("x0 and x1 must differ: there is nothing to tell apart")
    named = []
    for x in (x0, x1):
        outputs = release(np.full(trials, x))
        under0, under1 = possible(outputs, x0), possible(outputs, x1)
        named.append((int(np.sum(under0 & ~under1)), int(np.sum(under1 & ~under0))))
    (right0, wrong1), (wrong0, right1) = named
    return SupportReport(trials, (right0, right1), (wrong0, wrong1))


def float_sum_support(outputs: Floats, x: float) -> Mask:
    """[some float n has fl(x + n) = y]: what any sampler that adds a float to x must satisfy.

    It needs no knowledge of the sampler. Where y is small next to x the exact difference y - x
    has more bits than a float; then only its neighbours could round to y, and often none does.

    Parameters
    ----------
    outputs
        The outputs y.
    x
        The input.

    Returns
    -------
    ndarray of bool
        For each output whether it can come from x.

    Examples
    --------
    >>> float_sum_support(np.array([1.0, 2.0**-60]), 1.0).tolist()
    [True, False]
    """
    nearest = outputs - x
    tried = (np.nextafter(nearest, -np.inf), nearest, np.nextafter(nearest, np.inf))
    found: Mask = np.any([x + n == outputs for n in tried], axis=0)
    return found


def grid_support(granularity: float) -> Support:
    """[y is a multiple of g], whatever x was: the support of exact noise, which has no holes.

    Parameters
    ----------
    granularity
        g, such as `LaplaceMechanism.granularity`.

    Returns
    -------
    callable
        `possible(outputs, x)`, for `support_attack`.

    Examples
    --------
    >>> grid_support(0.25)(np.array([0.5, 0.3]), 1.0).tolist()
    [True, False]
    """

    def possible(outputs: Floats, _: float) -> Mask:
        on_grid: Mask = np.fmod(outputs, granularity) == 0
        return on_grid

    return possible


def inversion_support(magnitude: Magnitude, bits: int, scale: float) -> Support:
    """Support of y = fl(x +- fl(scale * magnitude(k))), magnitude(k) close to -log(k/2^bits).

    `magnitude(k, above)` is the sampler's own arithmetic for whole k in [0, 2^bits], on the side
    above x or below it, and NaN where the sampler has no such k. Inverting, k is about
    2^bits exp(-|y - x|/scale); rounding hides |y - x| by an ulp or so of the largest of |x|, |y|
    and |y - x|, which moves k by less than `reach`, and every k within it is tried forwards.
    Where that would be too many, y counts as possible: the attack does not guess.

    Parameters
    ----------
    magnitude
        The sampler's arithmetic for scale 1.
    bits
        How many bits the sampler draws.
    scale
        The scale of the noise.

    Returns
    -------
    callable
        `possible(outputs, x)`, for `support_attack`.

    Examples
    --------
    >>> def magnitude(k, above):
    ...     return -np.log(np.maximum(k, 1) / 4)
    >>> possible = inversion_support(magnitude, bits=2, scale=1.0)
    >>> reached = magnitude(np.array([3]), above=True)[0]
    >>> possible(np.array([reached, 0.5]), 0.0).tolist()
    [True, False]
    """

    def possible(outputs: Floats, x: float) -> Mask:
        gap = outputs - x
        centre = 2.0**bits * np.exp(-np.abs(gap) / scale)
        size = np.maximum(np.maximum(np.abs(outputs), abs(x)), np.abs(gap))
        reach = 3 + np.ceil(centre * 2.0**-51 * size / scale)
        found: Mask = (reach > WINDOW) | (gap == 0)
        middle = np.rint(centre).astype(np.int64)
        for offset in range(-WINDOW, WINDOW + 1):
            tried = np.flatnonzero(~found & (reach >= abs(offset)))
            above = gap[tried] > 0
            n = scale * magnitude(np.clip(middle[tried] + offset, 0, 2**bits), above)
            found[tried] = np.where(above, x + n, x - n) == outputs[tried]
        return found

    return possible


def numpy_support(scale: float) -> Support:
    """Support of `numpy.random.Generator.laplace(x, scale)`: all it can return, and no more.

    numpy draws U = j/2^53 and returns x + scale log(U + U) below 1/2, x - scale log(2 - U - U)
    above. So w = k/2^53 with k even below x. Above it, 2 - U has one bit too many when j is odd and
    rounds to a multiple of 2^-51, so that k = 2^54 - 2j or, for odd j, one next to it: the
    remainders 0, 1, 4 and 7 modulo 8. The logarithm is the C library's, as in `math.log`; `np.log`
    has vector code of its own that may differ in the last bit.

    Parameters
    ----------
    scale
        The scale of the noise.

    Returns
    -------
    callable
        `possible(outputs, x)`, for `support_attack`.

    Examples
    --------
    >>> outputs = np.random.default_rng(1).laplace(0.0, 1.0, 1000)
    >>> possible = numpy_support(1.0)
    >>> int(possible(outputs, 0.0).sum()), bool(possible(outputs, 1.0).sum() < 500)
    (1000, True)
    """
    log: Any = np.frompyfunc(math.log, 1, 1)

    def magnitude(k: NDArray[np.int64], above: Mask) -> Floats:
        reached = (k > 0) & np.where(above, np.isin(k % 8, (0, 1, 4, 7)), k % 2 == 0)
        w = np.ldexp(np.where(reached, k, 2**53).astype(np.float64), -53)
        return np.where(reached, -np.asarray(log(w), dtype=np.float64), np.nan)

    return inversion_support(magnitude, 53, scale)
