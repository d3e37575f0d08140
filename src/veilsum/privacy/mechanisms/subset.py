"""Subset selection (Ye and Barg 2018; Wang et al. 2016): a random set of w categories."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from veilsum.privacy.exact.coins import bernoulli, uniform_below
from veilsum.privacy.exact.entropy import Entropy
from veilsum.privacy.mechanisms.base import Array
from veilsum.privacy.mechanisms.category import CategoryMechanism


@dataclass(frozen=True)
class SubsetMechanism(CategoryMechanism):
    """S has w categories, the own one with odds w e^eps/(k - w); the rest is uniform.

    p = w e^eps/(w e^eps + k - w). Any other category is in S with chance
    q = p (w - 1)/(k - 1) + (1 - p) w/(k - 1) = (w - p)/(k - 1). A set with the own category has
    probability p/C(k-1, w-1), one without it (1 - p)/C(k-1, w), whichever the own one is, so

        P(S | a)/P(S | b) <= p C(k-1, w)/((1 - p) C(k-1, w-1)) = p (k - w)/((1 - p) w) = e^eps,

    with E for e^eps in a release. w = 1 is k-ary randomised response, of which no more is needed.
    w is the one of floor and ceiling of k/(e^eps + 1) with less variance over all components.

    Examples
    --------
    >>> mechanism = SubsetMechanism(epsilon=1.0, categories=20)
    >>> mechanism.size, mechanism.variance([0.0, 1.0]).round(4).tolist()
    (5, [3.2238, 4.4315])
    >>> mechanism.release(np.eye(20)).shape
    (20, 20)
    """

    name: ClassVar[str] = "subset"

    @cached_property
    def size(self) -> int:
        """w."""
        near = self.categories / (math.exp(self.epsilon) + 1)
        most = self.categories - 1
        tried = {min(max(w, 1), most) for w in (math.floor(near), math.ceil(near))}
        return min(sorted(tried), key=self._total_variance)

    def _total_variance(self, w: int) -> float:
        p, q, apart = self._chances(w)
        return (p * (1 - p) + (self.categories - 1) * q * (1 - q)) / apart**2

    def _chances(self, w: int) -> tuple[float, float, float]:
        """p - q = w (k - w) (e^eps - 1)/((k - 1) (w e^eps + k - w)), without cancellation."""
        k, E = self.categories, math.exp(self.epsilon)
        total = w * E + k - w
        p = w * E / total
        return p, (w - p) / (k - 1), w * (k - w) * math.expm1(self.epsilon) / ((k - 1) * total)

    @property
    def chances(self) -> tuple[float, float, float]:
        """p, q and p - q."""
        return self._chances(self.size)

    @property
    def exact_chances(self) -> tuple[Fraction, Fraction]:
        """p = w E/(w E + k - w) and (w - p)/(k - 1)."""
        k, w, E = self.categories, self.size, self.ratio
        p = w * E / (w * E + k - w)
        return p, (w - p) / (k - 1)

    def pmf(self, c: int) -> dict[tuple[int, ...], Fraction]:
        """p/C(k-1, w-1) with c, (1 - p)/C(k-1, w) without."""
        k, w, p = self.categories, self.size, self.exact_chances[0]
        own, other = p / math.comb(k - 1, w - 1), (1 - p) / math.comb(k - 1, w)
        return {S: own if c in S else other for S in combinations(range(k), w)}

    def _chosen(self, own: NDArray[np.bool_], u: Array) -> NDArray[np.bool_]:
        """The w least numbers, of which the own one is first or last of all."""
        inside = u < self.chances[0]
        order = np.argsort(np.where(own, np.where(inside, -1.0, 2.0), u), axis=-1)
        found = np.zeros(own.shape, dtype=bool)
        np.put_along_axis(found, order[..., : self.size], True, axis=-1)
        return found

    def _draw(self, c: int, entropy: Entropy) -> list[int]:
        """A coin for c, then the rest without replacement: the start of a shuffle, by integers."""
        inside = bernoulli(self.exact_chances[0], entropy)
        others = [j for j in range(self.categories) if j != c]
        wanted = self.size - inside
        for place in range(wanted):
            other = place + uniform_below(len(others) - place, entropy)
            others[place], others[other] = others[other], others[place]
        return others[:wanted] + [c] * inside
