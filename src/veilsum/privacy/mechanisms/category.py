"""Local mechanisms for one of k categories: a random set of them is released, decoded linearly.

A record is e_c, 1 at its own category c and 0 elsewhere; any two are adjacent. The release is a random
set S, in which the own category is with chance p and every other with chance q, decoded by component:

    z_j = (1{j in S} - q)/(p - q),    E z = e_c,    Var z_j = p (1 - p)/(p - q)^2 at j = c, else
                                                              q (1 - q)/(p - q)^2.

So z is unbiased and linear: releases may be averaged and gossiped as they are. A change of category moves
two coordinates by 1, for which additive noise pays twice (8/eps^2 for Laplace noise); here
it is paid once.

    unary     every category by a coin of its own: p = 1/2, q = 1/(e^eps + 1)
    subset    sets of one size w, about k/(e^eps + 1); w = 1 is k-ary randomised response

Exact releases. e^eps is replaced by a rational number E, a little below it, so that p and q are rational
and every draw is a comparison of integers: the proofs in the classes hold for E, without a tolerance. The
two values of z_j are rounded to a grid of 2^-40 of their distance, a function of S alone; the mean of a
release is e_c within half a step.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilsum import _validate
from veilsum._statistic import Statistic
from veilsum.errors import PrivacyError, SignalError
from veilsum.privacy.exact.coins import below_exp
from veilsum.privacy.exact.entropy import SYSTEM, Entropy, checked
from veilsum.privacy.exact.grid import finite_floats, floor_log2
from veilsum.privacy.mechanisms.base import Array, Mechanism, Pair, check_epsilon, computable
from veilsum.privacy.noise_quantile import bounded_and_normal

GRID = 40  # bits between the distance of the two values and the grid of a release


@dataclass(frozen=True)
class CategoryMechanism(Mechanism):
    """An unbiased release of e_c, a vector of k components; any two categories are adjacent.

    Parameters
    ----------
    epsilon
        The privacy loss between any two categories.
    categories
        k, at least 2: the length of the last axis of every input.
    """

    categories: int = 2

    adds: ClassVar[bool] = False
    uniforms: ClassVar[int] = 1
    suitable: ClassVar[Statistic] = Statistic(2.0, 2**0.5, 2, 0.0, 1.0, step=1.0, mass=1.0)

    def __post_init__(self) -> None:
        """Refuse an epsilon whose exponential is not computed, and fewer than two categories."""
        check_epsilon(self.epsilon)
        _validate.at_least(PrivacyError, 2, categories=self.categories)

    @classmethod
    def misfit(cls, statistic: Statistic, epsilon: float, delta: float = 0.0) -> str:
        """For one of k categories, at an epsilon whose exponential is computed."""
        why = super().misfit(statistic, epsilon, delta) or computable(epsilon)
        if not why and not (statistic.one_of_k and statistic.dimension > 1):
            return "is for one of k categories: components 0 or 1, of which exactly one is 1"
        return why

    @classmethod
    def _fitted(cls, statistic: Statistic, epsilon: float, delta: float, error: float) -> Self:
        return cls(epsilon, int(statistic.dimension))

    @classmethod
    def examples(cls) -> tuple[Mechanism, ...]:
        """Of three categories, and of eight."""
        return cls(1.0, 3), cls(1.0, 8)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Two categories: all pairs are alike but for their places."""
        first, *_, last = np.eye(self.categories).tolist()
        return ((tuple(first), tuple(last)),)

    @property
    @abstractmethod
    def chances(self) -> tuple[float, float, float]:
        """p, q and p - q, of the ideal distribution."""

    @property
    @abstractmethod
    def exact_chances(self) -> tuple[Fraction, Fraction]:
        """p and q of a release."""

    @cached_property
    def ratio(self) -> Fraction:
        """E, a rational number a little below e^eps."""
        return below_exp(Fraction(float(self.epsilon)))

    @property
    def worst_variance(self) -> float:
        """The larger of both, of one component."""
        return float(self.variance([0.0, 1.0]).max())

    def variance(self, x: ArrayLike) -> Array:
        """p (1 - p)/(p - q)^2 where x is 1, q (1 - q)/(p - q)^2 where it is 0."""
        p, q, apart = self.chances
        own = np.asarray(x, dtype=np.float64) == 1
        return np.where(own, p * (1 - p), q * (1 - q)) / apart**2

    def sum_quantile(
        self, weights: Array, times: Array, confidence: float, normal_variance: float = 0.0
    ) -> float:
        """Bernstein's inequality for the worst component; z is on a lattice of 1/(p - q)."""
        p, q, apart = self.chances
        return bounded_and_normal(
            max(p, 1 - q) / apart, self.worst_variance, weights, times, confidence,
            normal_variance, 1 / apart,
        )  # fmt: skip

    def from_uniforms(self, x: Array, u: Array) -> Array:
        """The decoded set, of one uniform number for each component."""
        _, q, apart = self.chances
        return np.where(self._chosen(self._own(x), u[0]), (1 - q) / apart, -q / apart)

    def release(self, values: ArrayLike, *, entropy: Entropy = SYSTEM) -> Array:
        """One exact set for each vector, decoded on the grid: a new release each time."""
        checked(entropy)
        own = self._own(finite_floats(values))
        low, high = (float(value) for value in self.values)
        drawn = np.full((own[..., 0].size, self.categories), low)
        for row, c in zip(drawn, own.reshape(drawn.shape).argmax(axis=-1).tolist(), strict=True):
            row[self._draw(c, entropy)] = high
        return drawn.reshape(own.shape)

    @cached_property
    def exponent(self) -> int:
        """2^-40 of the distance between the two values."""
        p, q = self.exact_chances
        return floor_log2(1 / (p - q)) - GRID

    @cached_property
    def values(self) -> tuple[Fraction, Fraction]:
        """z_j outside of the set and in it, on the grid."""
        (p, q), g = self.exact_chances, Fraction(2) ** self.exponent
        return round(-q / (p - q) / g) * g, round((1 - q) / (p - q) / g) * g

    def privacy_loss(self, x: ArrayLike, other: ArrayLike) -> float:
        """Epsilon between two categories, 0 from one to itself: inputs are vectors."""
        return 0.0 if np.array_equal(x, other) else float(self.epsilon)

    def loss_between(self, x: Array, other: Array) -> float:
        """Of the whole vector at once."""
        return self.privacy_loss(x, other)

    def _own(self, x: Array) -> NDArray[np.bool_]:
        """Where x is 1; raise unless every vector is one of the categories."""
        if x.ndim == 0 or x.shape[-1] != self.categories:
            raise SignalError(
                f"mechanism {self.name} takes vectors of {self.categories} components; found shape "
                f"{x.shape}"
            )
        wrong = ~(((x == 0) | (x == 1)).all(axis=-1) & (x.sum(axis=-1) == 1))
        if wrong.any():
            first = tuple(int(k) for k in np.argwhere(wrong)[0])
            raise SignalError(
                f"{int(wrong.sum())} of {wrong.size} vectors are not one of {self.categories} "
                f"categories (a single 1, and 0 elsewhere), the first at index {first}"
            )
        return np.asarray(x == 1)

    @abstractmethod
    def pmf(self, c: int) -> dict[tuple[int, ...], Fraction]:
        """The exact probability of every set of a release at category c: for tests with few."""

    @abstractmethod
    def _chosen(self, own: NDArray[np.bool_], u: Array) -> NDArray[np.bool_]:
        """The set, by component, from uniform numbers."""

    @abstractmethod
    def _draw(self, c: int, entropy: Entropy) -> list[int]:
        """The set of an exact release at category c."""
