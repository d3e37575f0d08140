"""Families with a vector statistic: mean and spread at once, a probability per category, a vector."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from veilsum import _validate
from veilsum._statistic import Statistic
from veilsum.errors import FamilyError
from veilsum.families import moduli
from veilsum.families.base import Array, ExponentialFamily, Interval, Size, Specimen
from veilsum.families.scalar import REAL, stats
from veilsum.families.support import Metric, Support


@dataclass(frozen=True)
class NormalBoth(ExponentialFamily):
    """s ~ N(mu, sigma^2), both unknown:  xi(s) = (s - c, (s - c)^2/w).

    c is the middle and w the width of the bounds; without both of them c = 0 and w = 1. With d = mu - c
    and v = sigma^2, E xi = (d, (d^2 + v)/w) and Cov xi = [[v, 2 d v/w], [2 d v/w, (4 d^2 v + 2 v^2)/w^2]].

    The square about the middle moves where s does not, and the other way round: between the bounds both
    together move by w in l1 norm, as s alone does, so that the mean costs what it costs by itself. About 0
    they move by w + |high^2 - low^2|: 876 on [30, 42], where it is 12 now.

    Parameters
    ----------
    bounds : (float or None, float or None), optional
        Public bounds on a signal.

    Examples
    --------
    >>> from veilsum import families
    >>> both = families.NormalBoth(bounds=(30.0, 42.0))
    >>> both.moves(radius=float("inf")).l1
    12.0
    >>> both.parameter([1.0, 5.0 / 12.0])
    {'mu': array(37.), 'sigma': array(2.)}
    """

    name: ClassVar[str] = "normal-both"
    _proved: ClassVar[bool] = True
    parameters: ClassVar[tuple[str, ...]] = ("mu", "sigma")
    formula: ClassVar[str] = "(s - c, (s - c)^2/w), c the middle and w the width of the bounds"
    modulus: ClassVar[str] = "2 t - t^2/w, t = min(radius, w), infinite without bounds"
    natural_support: ClassVar[Support] = REAL
    dimension: ClassVar[int] = 2
    example: ClassVar[Specimen] = ({}, {"mu": -1.1, "sigma": 0.7})

    def sample(self, rng: np.random.Generator, size: Size, **parameters: ArrayLike) -> Array:
        """Signals of shape `size` from N(mu, sigma^2)."""
        return rng.normal(*self._theta(parameters), size)

    def mean(self, **parameters: ArrayLike) -> Array:
        """E xi = (d, (d^2 + v)/w)."""
        (mu, sigma), (c, w) = self._theta(parameters), self._scale
        return np.stack([mu - c, ((mu - c) ** 2 + sigma**2) / w], axis=-1)

    def covariance(self, **parameters: ArrayLike) -> Array:
        """Cov xi = [[v, 2 d v/w], [2 d v/w, (4 d^2 v + 2 v^2)/w^2]]."""
        (mu, sigma), (c, w) = self._theta(parameters), self._scale
        d, v = mu - c, sigma**2
        rows = [[v, 2 * d * v / w], [2 * d * v / w, (4 * d**2 * v + 2 * v**2) / w**2]]
        return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)

    def parameter(self, mean: ArrayLike) -> dict[str, Array]:
        """mu = c + m_1,  sigma = sqrt(w m_2 - m_1^2), 0 where noise makes that negative."""
        m, (c, w) = self._means(mean), self._scale
        return {"mu": np.asarray(c + m[..., 0]), "sigma": _root(w * m[..., 1] - m[..., 0] ** 2)}

    def interval(
        self, mean: ArrayLike, covariance: ArrayLike, confidence: float = 0.95
    ) -> dict[str, Interval]:
        """mu = c + m_1 -+ z sd;  sigma = sqrt(v -+ z sd(v)),  v = w m_2 - m_1^2.

        The delta method is used for v, with the Jacobian dv = (-2 m_1, w), and the root taken
        after: the Jacobian of sigma itself, (-m_1/sigma, w/(2 sigma)), explodes at sigma = 0.
        """
        m, C, (c, w) = self._means(mean), self._covariances(covariance), self._scale
        v, slope = w * m[..., 1] - m[..., 0] ** 2, -2 * m[..., 0]
        variance = slope**2 * C[..., 0, 0] + 2 * slope * w * C[..., 0, 1] + w**2 * C[..., 1, 1]
        diagonal = np.stack([C[..., 0, 0] + 0 * v, np.maximum(variance, 0)], axis=-1)
        margins = self._margins(diagonal[..., None] * np.eye(2), confidence)
        mu, spread = c + m[..., 0] + 0 * margins[..., 0], v + 0 * margins[..., 1]
        return {
            "mu": Interval(mu, mu - margins[..., 0], mu + margins[..., 0]),
            "sigma": Interval(
                _root(spread), _root(spread - margins[..., 1]), _root(spread + margins[..., 1])
            ),
        }

    @property
    def _scale(self) -> tuple[float, float]:
        """c and w."""
        return moduli.centre_and_width(self.support)

    def _xi(self, s: Array) -> Array:
        return moduli.squared_about(s, *self._scale)

    def _moves(self, radius: float) -> Statistic:
        return moduli.centred_and_squared(self.support, radius)

    def _theta(self, parameters: dict[str, ArrayLike]) -> tuple[Array, Array]:
        self._check_names(parameters)
        mu, sigma = (
            _validate.real_array(FamilyError, **{name: parameters[name]})
            for name in self.parameters
        )
        if not (np.isfinite(mu).all() and np.isfinite(sigma).all() and (sigma >= 0).all()):
            raise FamilyError(f"normal-both needs mu finite and sigma >= 0; found {mu}, {sigma}")
        mu, sigma = np.broadcast_arrays(mu, sigma)
        return mu, sigma

    def _marginals(self, mu: Array, sigma: Array) -> list[Any]:  # type: ignore[override]
        return [stats().norm(mu, sigma)]


@dataclass(frozen=True)
class Categorical(ExponentialFamily):
    """P(s = j) = p_j for j = 0 .. categories - 1:  xi(s) = e_s (one-hot),  E xi = p.

    Cov xi = diag(p) - p p^T. Any change of s moves two coordinates by 1: the l1 sensitivity is 2
    whatever the radius, for categories have no distance. Any two values are adjacent.

    Parameters
    ----------
    categories : int
        The number of categories, at least 2.
    bounds : None
        Refused: categories have no order.

    Examples
    --------
    >>> from veilsum import families
    >>> families.Categorical(categories=3).statistic([0, 2])
    array([[1., 0., 0.],
           [0., 0., 1.]])
    """

    categories: int

    name: ClassVar[str] = "categorical"
    _proved: ClassVar[bool] = True
    parameters: ClassVar[tuple[str, ...]] = ("p",)
    formula: ClassVar[str] = "one-hot(s)"
    statistic_is_exact: ClassVar[bool] = True
    modulus: ClassVar[str] = "2, whatever the radius: any two categories"
    metric: ClassVar[Metric] = Metric.DISCRETE
    mean_domain: ClassVar[tuple[float, float]] = (0.0, 1.0)
    variance_in_mean: ClassVar[tuple[float, float, float]] = (0.0, 1.0, -1.0)
    example: ClassVar[Specimen] = ({"categories": 4}, {"p": (0.1, 0.2, 0.3, 0.4)})

    def __post_init__(self) -> None:
        """Refuse fewer than two categories, and bounds."""
        _validate.at_least(FamilyError, 2, categories=self.categories)
        if self.bounds is not None:
            raise FamilyError("categorical takes no bounds: its categories have no order")

    @property
    def natural_support(self) -> Support:
        """The numbers of the categories."""
        return Support(low=0.0, high=self.categories - 1.0, integer=True)

    @property
    def dimension(self) -> int:
        """One coordinate per category."""
        return self.categories

    def sample(self, rng: np.random.Generator, size: Size, **parameters: ArrayLike) -> Array:
        """s = #{j : u >= p_0 + ... + p_j} with u uniform."""
        edges = np.cumsum(self._theta(parameters), axis=-1)[..., :-1]
        u = np.asarray(rng.random(size))
        return np.asarray((u[..., None] >= edges).sum(axis=-1), dtype=np.float64)

    def mean(self, **parameters: ArrayLike) -> Array:
        """E xi = p."""
        return self._theta(parameters).copy()

    def covariance(self, **parameters: ArrayLike) -> Array:
        """Cov xi = diag(p) - p p^T."""
        p = self._theta(parameters)
        return p[..., None] * np.eye(self.categories) - p[..., :, None] * p[..., None, :]

    def parameter(self, mean: ArrayLike) -> dict[str, Array]:
        """p = the nearest point of the simplex: never further from the truth than `mean` is."""
        return {"p": _simplex(self._means(mean))}

    def interval(
        self, mean: ArrayLike, covariance: ArrayLike, confidence: float = 0.95
    ) -> dict[str, Interval]:
        """p_j = m_j -+ z sd_j clipped to [0, 1], one coordinate at a time, widened to hold p_j."""
        m, margin = self._means(mean), self._margins(covariance, confidence)
        p = _simplex(m) + 0 * margin
        inside = np.clip(m, 0.0, 1.0)  # no probability gets further away, and the width stays
        low, high = (np.clip(edge, 0.0, 1.0) for edge in (inside - margin, inside + margin))
        return {"p": Interval(p, np.minimum(low, p), np.maximum(high, p))}

    def _xi(self, s: Array) -> Array:
        return np.asarray(s[..., None] == np.arange(self.categories), dtype=np.float64)

    def _moves(self, radius: float) -> Statistic:
        """||e_j - e_k||_1 = 2, ||e_j - e_k||_2 = sqrt 2: categories have no distance."""
        del radius
        why = "a change of category moves two coordinates by 1 each"
        l2 = moduli.root(Fraction(2))
        return Statistic(2.0, l2, self.categories, 0.0, 1.0, reason=why, mass=1.0)

    def _theta(self, parameters: dict[str, ArrayLike]) -> Array:
        self._check_names(parameters)
        p = _validate.real_array(FamilyError, p=parameters["p"])
        right = p.ndim > 0 and p.shape[-1] == self.categories
        if not right or not (p >= 0).all() or not np.allclose(p.sum(axis=-1), 1, atol=1e-9):
            raise FamilyError(
                f"p must be {self.categories} probabilities that add up to 1; found {p.tolist()}"
            )
        return p


@dataclass(frozen=True)
class MultivariateNormal(ExponentialFamily):
    """s ~ N(mu, Sigma) in R^d, Sigma known:  xi(s) = s,  E xi = mu,  Cov xi = Sigma.

    Bounds apply to each coordinate; the radius is an l1 distance between vectors.

    Parameters
    ----------
    sigma : array_like, shape (d, d)
        The known covariance; stored as tuples, so that the family can be compared.
    bounds : (float or None, float or None), optional
        Public bounds on a signal.

    Examples
    --------
    >>> from veilsum import families
    >>> families.MultivariateNormal(sigma=[[1.0, 0.5], [0.5, 1.0]]).dimension
    2
    """

    sigma: ArrayLike

    name: ClassVar[str] = "multivariate-normal"
    _proved: ClassVar[bool] = True
    parameters: ClassVar[tuple[str, ...]] = ("mu",)
    formula: ClassVar[str] = "s, a vector"
    statistic_is_exact: ClassVar[bool] = True
    modulus: ClassVar[str] = "min(radius, d (high - low)), radius in l1"
    natural_support: ClassVar[Support] = REAL
    example: ClassVar[Specimen] = (
        {"sigma": ((2.0, 0.5, 0.0), (0.5, 1.0, -0.2), (0.0, -0.2, 0.5))},
        {"mu": (1.0, -2.0, 0.5)},
    )

    def __post_init__(self) -> None:
        """Refuse a matrix that is not a covariance."""
        super().__post_init__()
        S = _validate.real_array(FamilyError, sigma=self.sigma)
        if S.ndim != 2 or S.shape[0] != S.shape[1] or S.size == 0:
            raise FamilyError(f"sigma must be a d x d covariance matrix; found shape {S.shape}")
        if not np.isfinite(S).all() or not np.allclose(S, S.T, rtol=1e-9, atol=0):
            raise FamilyError("sigma must be finite and symmetric; use (S + S.T)/2")
        least = float(np.linalg.eigvalsh(S)[0])
        if least <= 0:
            raise FamilyError(f"sigma must be positive definite; its least eigenvalue is {least}")
        object.__setattr__(self, "sigma", tuple(map(tuple, S.tolist())))

    @property
    def dimension(self) -> int:
        """d."""
        return int(self._matrix.shape[0])

    @property
    def signal_shape(self) -> tuple[int, ...]:
        """(d,)."""
        return (self.dimension,)

    @property
    def _matrix(self) -> Array:
        return np.asarray(self.sigma, dtype=np.float64)

    def sample(self, rng: np.random.Generator, size: Size, **parameters: ArrayLike) -> Array:
        """mu + L z with L L^T = Sigma, of shape size + (d,)."""
        mu, L = self._theta(parameters), np.linalg.cholesky(self._matrix)
        outer = size if isinstance(size, tuple) else (size,)
        return np.asarray(mu + rng.standard_normal((*outer, self.dimension)) @ L.T)

    def mean(self, **parameters: ArrayLike) -> Array:
        """E xi = mu."""
        return self._theta(parameters).copy()

    def covariance(self, **parameters: ArrayLike) -> Array:
        """Cov xi = Sigma."""
        mu = self._theta(parameters)
        return np.broadcast_to(self._matrix, (*mu.shape, self.dimension)).copy()

    def parameter(self, mean: ArrayLike) -> dict[str, Array]:
        """mu = m."""
        return {"mu": self._means(mean).copy()}

    def interval(
        self, mean: ArrayLike, covariance: ArrayLike, confidence: float = 0.95
    ) -> dict[str, Interval]:
        """mu_j = m_j -+ z sd_j, one coordinate at a time."""
        margin = self._margins(covariance, confidence)
        mu = self._means(mean) + 0 * margin
        return {"mu": Interval(mu, mu - margin, mu + margin)}

    def _xi(self, s: Array) -> Array:
        return s.copy()

    def _moves(self, radius: float) -> Statistic:
        return moduli.box(self.support, radius, self.dimension)

    def _theta(self, parameters: dict[str, ArrayLike]) -> Array:
        self._check_names(parameters)
        mu = _validate.real_array(FamilyError, mu=parameters["mu"])
        if mu.ndim == 0 or mu.shape[-1] != self.dimension or not np.isfinite(mu).all():
            raise FamilyError(f"mu must be {self.dimension} finite numbers; found {mu.tolist()}")
        return mu

    def _marginals(self, mu: Array) -> list[Any]:  # type: ignore[override]
        spreads = np.sqrt(np.diagonal(self._matrix))
        return [stats().norm(m, spread) for m, spread in zip(mu, spreads, strict=True)]


def _root(v: Array) -> Array:
    return np.asarray(np.sqrt(np.maximum(v, 0.0)))


def _simplex(m: Array) -> Array:
    """max(m - t, 0) with t such that it adds up to 1: the Euclidean projection."""
    u = -np.sort(-m, axis=-1)
    over = (np.cumsum(u, axis=-1) - 1) / np.arange(1, m.shape[-1] + 1)
    last = np.maximum((u > over).sum(axis=-1, keepdims=True) - 1, 0)
    return np.asarray(np.maximum(m - np.take_along_axis(over, last, axis=-1), 0.0))
