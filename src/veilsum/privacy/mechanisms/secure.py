"""What a member of a secure sum adds to its statistic, and what the sum hides.

A statistic is rounded to a grid, of a power of two for real numbers and of 1 for whole ones, and
gets GDL(1/h, t) grid steps of noise, or Skellam noise where delta > 0. By itself that is nearly
nothing: it leaves a site only in shares, of which fewer than t say nothing, so there is no `release`.
The sum over at least h honest members hides each of them with epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilsum.errors import PrivacyError
from veilsum.privacy.accounting.events import PrivacyEvent
from veilsum.privacy.exact.entropy import SYSTEM, Entropy
from veilsum.privacy.mechanisms.base import Array, Mechanism
from veilsum.privacy.secure import SecureParameters

ROUNDING = 1 / 12  # variance of rounding to whole steps


@dataclass(frozen=True)
class SecureMechanism(Mechanism):
    """floor(x/step + 1/2) + GDL(1/h, t), in grid steps; the sum over a roster is what is seen.

    Examples
    --------
    >>> terms = SecureParameters(100, 20, 10, epsilon=1.0, sensitivity_steps=4097)
    >>> made = SecureMechanism(1.0, 1.0, 2.0**-12, terms)
    >>> round(made.worst_variance * 70, 2)  # of 70 members together: 2/eps^2
    2.0
    """

    sensitivity: float
    step: float
    terms: SecureParameters
    whole: bool = False

    name: ClassVar[str] = "secure-sum"
    requested: ClassVar[bool] = False

    @property
    def reason(self) -> str:
        """Why the sum hides a member."""
        return self.terms.reason

    @property
    def worst_variance(self) -> float:
        """Of one member's noise, rounding included: of |F| members, |F| times as much."""
        rounding = 0.0 if self.whole else ROUNDING
        return float(self.step**2 * (float(self.terms.noise.variance) + rounding))

    def variance(self, x: ArrayLike) -> Array:
        """The same for every x."""
        return np.full(np.shape(x), self.worst_variance)

    def on_grid(self, x: ArrayLike) -> Array:
        """floor(x/step + 1/2): whole numbers of steps."""
        return np.asarray(np.floor(np.asarray(x, dtype=np.float64) / self.step + 0.5))

    def mean_of_steps(self, total: Array, members: int, noise: Array) -> Array:
        """The mean over a roster, from the sum in grid steps, whole numbers that add up without error."""
        return np.asarray((total + noise) * self.step / members)

    def sum_noise(self, members: int, rng: np.random.Generator, size: int = 1) -> NDArray[Any]:
        """The noise of the sum in grid steps, in floating point: for simulation only."""
        return self.terms.sum_noise(members).sample(size, rng)

    def half_width(self, draws: int, readings: int, confidence: float) -> float:
        """How far noise and rounding move a component of a mean, with that probability at most."""
        steps = self.terms.noise_of(draws).quantile(confidence)
        return steps * self.step / readings + (0.0 if self.whole else self.step / 2)

    def sample(self, values: ArrayLike, rng: np.random.Generator) -> Array:
        """One member's rounded value and its own draw: for simulation only."""
        steps = self.on_grid(values)
        return np.asarray((steps + self.terms.noise.sample(steps.shape, rng)) * self.step)

    def release(self, values: ArrayLike, *, entropy: Entropy = SYSTEM) -> NDArray[Any]:
        """Refuse: by itself it hides nearly nothing."""
        raise PrivacyError(
            "a member's value of a secure sum never leaves by itself; a fleet deals it in shares"
        )

    def privacy_loss(self, x: float, other: float) -> float:
        """Of the sum over honest members: steps moved over t; no bound where there is a delta."""
        if self.terms.event.delta:
            return math.inf
        moved = abs(float(self.on_grid(x) - self.on_grid(other)))
        return moved / float(self.terms.scale)

    def event(self, released: bool = False) -> PrivacyEvent:
        """The cost of one query."""
        return self.terms.event


def grid_step(sensitivity: float, steps: int) -> float:
    """The largest power of two of which at least `steps` make up the sensitivity."""
    return 2.0 ** math.floor(math.log2(sensitivity / steps))
