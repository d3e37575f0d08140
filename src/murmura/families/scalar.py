"""The families with one statistic and one unknown parameter: the axes are handled here once."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from murmura import _validate
from murmura.errors import FamilyError
from murmura.families.base import Array, Family, Interval, Size
from murmura.families.support import Support

POSITIVE = Support(low=0.0, open_low=True)
REAL = Support()


@dataclass(frozen=True)
class ScalarFamily(Family):
    """xi(s) is a number, theta is a number, and E xi = f(theta) with f monotone.

    A family says `_xi`, `_expectation` f, `_variance`, `_inverse` of f and `_draw`; `domain` is
    where theta may lie.
    """

    domain: ClassVar[Support] = REAL

    @abstractmethod
    def _expectation(self, theta: Array) -> Array: ...

    @abstractmethod
    def _variance(self, theta: Array) -> Array: ...

    @abstractmethod
    def _inverse(self, m: Array) -> Array: ...

    @abstractmethod
    def _draw(self, rng: np.random.Generator, size: Size, theta: Array) -> Array: ...

    def sample(self, rng: np.random.Generator, size: Size, **parameters: ArrayLike) -> Array:
        """Signals of shape `size` from the law without bounds."""
        return np.asarray(self._draw(rng, size, self._theta(parameters)), dtype=np.float64)

    def mean(self, **parameters: ArrayLike) -> Array:
        """E xi = f(theta), of shape (..., 1)."""
        return np.asarray(self._expectation(self._theta(parameters, edges=True)))[..., None]

    def covariance(self, **parameters: ArrayLike) -> Array:
        """Var xi, of shape (..., 1, 1)."""
        theta = self._theta(parameters, edges=True)
        return np.broadcast_to(self._variance(theta), theta.shape)[..., None, None].copy()

    def parameter(self, mean: ArrayLike) -> dict[str, Array]:
        """theta = f^{-1}(m), m clipped to the domain of E xi first."""
        return {self.parameters[0]: self._solve(self._means(mean)[..., 0])}

    def interval(
        self, mean: ArrayLike, covariance: ArrayLike, confidence: float = 0.95
    ) -> dict[str, Interval]:
        """f^{-1}(m -+ z sd), sorted: exact for a monotone f, no linearisation.

        m is first moved into the domain of E xi: no value there gets further away, and an estimate
        far outside keeps an interval with a width.
        """
        m = np.clip(self._means(mean)[..., 0], *self.mean_domain)
        margin = self._margins(covariance, confidence)[..., 0]
        value, one, two = (self._solve(x) for x in (m + 0 * margin, m - margin, m + margin))
        return {self.parameters[0]: Interval(value, np.minimum(one, two), np.maximum(one, two))}

    def _solve(self, m: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(self._inverse(np.clip(m, *self.mean_domain)))

    def _theta(self, parameters: dict[str, ArrayLike], edges: bool = False) -> Array:
        """The parameter, in its domain, or with `edges` what `parameter` gives at the edges."""
        self._check_names(parameters)
        (name,) = self.parameters
        theta = _validate.real_array(FamilyError, **{name: parameters[name]})
        outside = self.domain.violations(theta)
        if edges and outside.any():
            ends = np.array([end for end in self.mean_domain if np.isfinite(end)])
            outside &= ~np.isin(theta, self._solve(ends))
        if outside.any():
            raise FamilyError(
                f"{self.name} needs {self.domain.describe(name)}; "
                f"found {name}={theta[outside].ravel()[0]}"
            )
        return theta
