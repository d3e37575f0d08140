"""What a mechanism is: something that goes in, noise, and a number whose law hides what went in.

    |log density(z | x) - log density(z | x')| <= eps    for all outputs z and adjacent x, x'

What goes in is the statistic for additive noise of a fixed scale, a value of [low, high] for the
local mechanisms, and the signal itself where the scale is read off it (smooth sensitivity).

Two claims must be kept apart. `ideal_status` speaks of the law above: real numbers. `status` speaks
of what `release` gives, which is for simulation: numpy's floating-point noise is fast, and not
private (its holes tell x from x', `privacy.exact.leak`). What an agent releases is drawn exactly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmura import _validate
from murmura.errors import PrivacyError
from murmura.privacy.guarantee import Status

Array = NDArray[np.float64]

PURE = "the log density moves by at most epsilon between adjacent inputs"
FLOATING = (
    "release() draws noise in floating point, whose holes tell inputs apart; it is for simulation, "
    "and privacy.exact draws what may be released"
)


@runtime_checkable
class Mechanism(Protocol):
    """Noise with a promise, a mean and a variance."""

    @property
    def name(self) -> str:
        """The name in a table, such as "staircase"."""

    @property
    def epsilon(self) -> float:
        """The privacy loss that is never exceeded, save with probability `delta`."""

    @property
    def delta(self) -> float:
        """0 for a pure mechanism."""

    @property
    def ideal_status(self) -> Status:
        """The status of the promise for ideal noise: proved, claimed, estimated or refuted."""

    @property
    def reason(self) -> str:
        """Why `ideal_status` is what it is."""

    @property
    def status(self) -> Status:
        """The status of the promise for the bits that `release` gives: none, in floating point."""

    @property
    def worst_variance(self) -> float:
        """The largest variance over all inputs."""

    def mean(self, x: ArrayLike) -> Array:
        """E release(x): all mechanisms here are unbiased."""

    def variance(self, x: ArrayLike) -> Array:
        """Var release(x) for every input."""

    def release(self, values: ArrayLike, rng: np.random.Generator) -> Array:
        """One noised number for each value. Simulation only."""

    def privacy_loss(self, x: float, other: float) -> float:
        """sup_z |log density(z | x) - log density(z | other)|: at most epsilon if adjacent."""


@dataclass(frozen=True)
class AdditiveNoise(ABC):
    """release(x) = x + noise, symmetric, of a law that does not depend on x.

    x is a statistic, adjacent to x' when |x - x'| <= sensitivity.
    """

    epsilon: float
    sensitivity: float

    name: ClassVar[str]
    delta: ClassVar[float] = 0.0
    ideal_status: ClassVar[Status] = Status.PROVED
    reason: ClassVar[str] = PURE
    status: ClassVar[Status] = Status.NONE  # FLOATING

    def __post_init__(self) -> None:
        """Refuse an epsilon or a sensitivity that no noise can serve."""
        _validate.positive(PrivacyError, epsilon=self.epsilon, sensitivity=self.sensitivity)

    @property
    @abstractmethod
    def worst_variance(self) -> float:
        """The variance of the noise, whatever the input."""

    @abstractmethod
    def noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Independent draws of the noise."""

    @abstractmethod
    def log_density(self, noise: ArrayLike) -> Array:
        """The log density (or log probability) of the noise."""

    @abstractmethod
    def cdf(self, noise: ArrayLike) -> Array:
        """P(noise <= z)."""

    def mean(self, x: ArrayLike) -> Array:
        """E release(x) = x."""
        return np.array(x, dtype=np.float64)

    def variance(self, x: ArrayLike) -> Array:
        """The same for every x."""
        return np.full(np.shape(x), self.worst_variance)

    def release(self, values: ArrayLike, rng: np.random.Generator) -> Array:
        """x + noise, for every value. Simulation only."""
        x = np.asarray(values, dtype=np.float64)
        return x + self.noise(x.shape, rng)

    def privacy_loss(self, x: float, other: float) -> float:
        """eps |x - x'|/sensitivity, for noise whose log density falls at a constant rate."""
        return self.epsilon * abs(x - other) / self.sensitivity
