"""Optimised unary encoding (Wang, Blocki, Li and Jha 2017): a coin for every category."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from veilsum.privacy.exact.coins import bernoulli
from veilsum.privacy.exact.entropy import Entropy
from veilsum.privacy.mechanisms.base import Array
from veilsum.privacy.mechanisms.category import CategoryMechanism

HALF = Fraction(1, 2)


@dataclass(frozen=True)
class UnaryMechanism(CategoryMechanism):
    """j in S with chance p = 1/2 at the own category, q = 1/(e^eps + 1) elsewhere, independently.

    Two categories a and b differ in the coins of a and b alone, so for any set S

        P(S | a)/P(S | b) <= p (1 - q)/(q (1 - p)) = (1 - q)/q = e^eps,

    attained where a is in S and b is not; with E for e^eps in a release. Var z_j is 4 e^eps/(e^eps - 1)^2,
    and 1 more at the own category, whatever k is.

    Examples
    --------
    >>> mechanism = UnaryMechanism(epsilon=1.0, categories=20)
    >>> mechanism.variance([0.0, 1.0]).round(4).tolist()
    [3.6827, 4.6827]
    >>> mechanism.release(np.eye(20)).shape
    (20, 20)
    """

    name: ClassVar[str] = "unary"

    @property
    def chances(self) -> tuple[float, float, float]:
        """1/2, 1/(e^eps + 1) and tanh(eps/2)/2."""
        return 0.5, 1 / (math.exp(self.epsilon) + 1), math.tanh(self.epsilon / 2) / 2

    @property
    def exact_chances(self) -> tuple[Fraction, Fraction]:
        """1/2 and 1/(E + 1)."""
        return HALF, 1 / (self.ratio + 1)

    def pmf(self, c: int) -> dict[tuple[int, ...], Fraction]:
        """The product over the coins."""
        p, q = self.exact_chances
        found = {}
        for bits in product((0, 1), repeat=self.categories):
            each = ((p if j == c else q, bit) for j, bit in enumerate(bits))
            chance = math.prod((a if bit else 1 - a for a, bit in each), start=Fraction(1))
            found[tuple(np.flatnonzero(bits).tolist())] = chance
        return found

    def _chosen(self, own: NDArray[np.bool_], u: Array) -> NDArray[np.bool_]:
        p, q, _ = self.chances
        return np.asarray(u < np.where(own, p, q))

    def _draw(self, c: int, entropy: Entropy) -> list[int]:
        p, q = self.exact_chances
        return [j for j in range(self.categories) if bernoulli(p if j == c else q, entropy)]
