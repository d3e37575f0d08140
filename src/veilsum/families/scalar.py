"""Families with one statistic and one unknown parameter: normal distributions with a known spread
(of the signal, of its logarithm, of log(1 + s)) and whole-number distributions.

`ScalarFamily` handles the axes once, for these and for those of `positive`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from veilsum import _extras, _validate
from veilsum._statistic import Statistic
from veilsum.errors import FamilyError
from veilsum.families import moduli
from veilsum.families.base import Array, Example, ExponentialFamily, Interval, Size, Specimen
from veilsum.families.special import erfcx
from veilsum.families.support import Support

POSITIVE = Support(low=0.0, open_low=True)
REAL = Support()
_TAIL = 8.0
_NEWTON_STEPS = 60


@dataclass(frozen=True)
class ScalarFamily(ExponentialFamily):
    """xi(s) is a number, theta is a number, and E xi = f(theta) with f monotone.

    A subclass defines `_xi`, `_moves` and `_draw`; `_expectation` f and its `_inverse`, if f is not the
    identity; `variance_in_mean`, or `_variance` where Var xi is no polynomial of E xi. `domain` is where
    theta may lie.
    """

    domain: ClassVar[Support] = REAL

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Of `example`; without it a family without options, at a parameter inside its domain."""
        if cls.example is not None or any(f.init and f.default is MISSING for f in fields(cls)):
            return super().examples()
        low, high, family = cls.domain.low, cls.domain.high, cls()
        inside = low + 0.3 * min(high - low, 9.0) if math.isfinite(low) else min(-0.7, high - 2.7)
        return (Example(family, {family.parameters[0]: inside}),)

    def _expectation(self, theta: Array) -> Array:
        return theta.copy()

    def _inverse(self, m: Array) -> Array:
        return m

    def _variance(self, theta: Array) -> Array:
        """a + b m + c m^2 at m = E xi."""
        if self.variance_in_mean is None:
            raise FamilyError(f"{self.name} states neither variance_in_mean nor _variance")
        a, b, c = self.variance_in_mean
        m = self._expectation(theta)
        return a + (b + c * m) * m

    @abstractmethod
    def _draw(self, rng: np.random.Generator, size: Size, theta: Array) -> Array: ...

    def sample(self, rng: np.random.Generator, size: Size, **parameters: ArrayLike) -> Array:
        """Signals of shape `size` from the distribution without bounds."""
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

    def _increasing(self, moved: Statistic) -> Statistic:
        """Between xi at both ends of the support, for a statistic that increases."""
        with np.errstate(divide="ignore", over="ignore"):
            low, high = (self._xi(np.array([end])) for end in (self.support.low, self.support.high))
        return moved.between(low, high)

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


@dataclass(frozen=True)
class Identity(ScalarFamily):
    """xi(s) = s."""

    formula: ClassVar[str] = "s"
    statistic_is_exact: ClassVar[bool] = True
    modulus: ClassVar[str] = "min(radius, high - low)"

    def _xi(self, s: Array) -> Array:
        return s.copy()

    def _moves(self, radius: float) -> Statistic:
        return self._increasing(moduli.linear(self.support, radius))


@dataclass(frozen=True)
class Normal(Identity):
    """s ~ N(mu, sigma^2), sigma known:  xi(s) = s,  E xi = mu,  Var xi = sigma^2.

    Parameters
    ----------
    sigma : float, optional
        The known standard deviation: needed to draw signals and to plan, not for measured ones.
    bounds : (float or None, float or None), optional
        Public bounds on a signal.

    Examples
    --------
    >>> from veilsum import families
    >>> families.Normal(sigma=1.0, bounds=(0.0, 5.0)).moves(radius=1.0).l1
    1.0
    """

    sigma: float | None = None

    name: ClassVar[str] = "normal"
    _proved: ClassVar[bool] = True
    parameters: ClassVar[tuple[str, ...]] = ("mu",)
    natural_support: ClassVar[Support] = REAL
    example: ClassVar[Specimen] = ({"sigma": 1.5}, {"mu": -0.7})

    def __post_init__(self) -> None:
        """Refuse a spread that is not positive."""
        super().__post_init__()
        if self.sigma is not None:
            _validate.positive(FamilyError, sigma=self.sigma)

    @property
    def variance_in_mean(self) -> tuple[float, float, float] | None:
        """Var xi = sigma^2, if it is known."""
        return None if self.sigma is None else (self.sigma**2, 0.0, 0.0)

    @property
    def spread(self) -> float:
        """Sigma, where something depends on it."""
        if self.sigma is None:
            raise FamilyError(
                f"{self.name} has no sigma, which this needs: give the standard deviation of "
                f"{self.formula}, such as sigma = 1.0"
            )
        return self.sigma

    def _variance(self, theta: Array) -> Array:
        return self.spread**2 + 0 * theta

    def _draw(self, rng: np.random.Generator, size: Size, theta: Array) -> Array:
        return rng.normal(theta, self.spread, size)

    def _marginals(self, mu: Array) -> list[Any]:  # type: ignore[override]
        return [stats().norm(mu, self.spread)]


@dataclass(frozen=True)
class LogNormal(Normal):
    """log s ~ N(mu, sigma^2), sigma known:  xi(s) = log s,  E xi = mu,  Var xi = sigma^2.

    The sensitivity is infinite without a floor: a reading of 0 is -inf, and near 0 the logarithm
    moves without limit. Real meters send zeros: give `bounds=(floor, None)`, or use LogNormal1p.

    Parameters
    ----------
    sigma : float, optional
        The known standard deviation of log s, as for `Normal`.
    bounds : (float or None, float or None), optional
        Public bounds on a signal.

    Examples
    --------
    >>> from veilsum import families
    >>> families.LogNormal(sigma=1.0).moves(radius=1.0).finite
    False
    >>> round(families.LogNormal(sigma=1.0, bounds=(1.0, None)).moves(radius=1.0).l1, 6)
    0.693147
    """

    name: ClassVar[str] = "log-normal"
    _proved: ClassVar[bool] = True
    formula: ClassVar[str] = "log s"
    statistic_is_exact: ClassVar[bool] = False
    statistic_is_log: ClassVar[bool] = True
    modulus: ClassVar[str] = "min(log(1 + radius/low), log(high/low)), infinite without a floor"
    natural_support: ClassVar[Support] = POSITIVE

    @property
    def remedy(self) -> str:
        """The floor that log s needs, or the family that needs none."""
        if self.support.open_low:
            return (
                "use LogNormal1p (log(1 + s)), or bounds=(floor, None) on the family with "
                "signals.clip(floor, None)"
            )
        return super().remedy

    def _xi(self, s: Array) -> Array:
        return np.log(s)

    def _moves(self, radius: float) -> Statistic:
        return self._increasing(
            moduli.log(self.support, radius, instead=", or use LogNormal1p (log(1 + s))")
        )

    def _draw(self, rng: np.random.Generator, size: Size, theta: Array) -> Array:
        return rng.lognormal(theta, self.spread, size)

    def _marginals(self, mu: Array) -> list[Any]:  # type: ignore[override]
        return [stats().lognorm(self.spread, scale=np.exp(mu))]


@dataclass(frozen=True)
class LogNormal1p(Normal):
    """log(1 + s) ~ N(mu, sigma^2) truncated to [0, inf), sigma known:  xi(s) = log(1 + s).

    E xi = mu + sigma h(a) = sigma g(a),  Var xi = sigma^2 (1 - h(a) g(a)),  a = -mu/sigma,
    with h(a) = phi(a)/Phi(-a) and g(a) = h(a) - a.

    Truncated because s >= 0 means log(1 + s) >= 0; it stays an exponential family in mu with the
    statistic xi. The derivative of xi is at most 1, so that a zero costs nothing (erratum 2).
    mu is the location before truncation: it may be negative, and falls to -inf as E xi nears 0.

    Parameters
    ----------
    sigma : float
        The known standard deviation of log(1 + s) before truncation.
    bounds : (float or None, float or None), optional
        Public bounds on a signal.

    Examples
    --------
    >>> from veilsum import families
    >>> round(families.LogNormal1p(sigma=1.0).moves(radius=1.0).l1, 6)
    0.693147
    """

    sigma: float = field()  # needed here, as it is not for `Normal`

    name: ClassVar[str] = "log-normal-1p"
    _proved: ClassVar[bool] = True
    formula: ClassVar[str] = "log(1 + s)"
    statistic_is_exact: ClassVar[bool] = False
    modulus: ClassVar[str] = "log(1 + min(radius, high - low)/(1 + low)), low >= 0"
    natural_support: ClassVar[Support] = Support(low=0.0)
    mean_domain: ClassVar[tuple[float, float]] = (0.0, math.inf)
    variance_in_mean: ClassVar[None] = None  # Var xi is no polynomial of E xi

    def __post_init__(self) -> None:
        """Refuse to go without sigma: mu is the location before truncation, and depends on it."""
        super().__post_init__()
        _ = self.spread

    def _xi(self, s: Array) -> Array:
        return np.log1p(s)

    def _expectation(self, theta: Array) -> Array:
        return self.spread * excess(-theta / self.spread)[0]

    def _variance(self, theta: Array) -> Array:
        return self.spread**2 * excess(-theta / self.spread)[1]

    def _inverse(self, m: Array) -> Array:
        return np.where(m == 0, -math.inf, -self.spread * inverse_excess(m / self.spread))

    def _moves(self, radius: float) -> Statistic:
        return self._increasing(moduli.log1p(self.support, radius))

    def _draw(self, rng: np.random.Generator, size: Size, theta: Array) -> Array:
        """expm1(mu - sigma Phi^{-1}(u Phi(mu/sigma))), in logarithms so that no tail underflows."""
        special = _extras.load("scipy.special")
        log_u = np.log1p(-rng.random(size))
        log_p = log_u + special.log_ndtr(theta / self.spread)
        x = theta - self.spread * special.ndtri_exp(log_p)
        return np.asarray(np.expm1(np.maximum(x, 0.0)))

    def _marginals(self, mu: Array) -> list[Any]:  # type: ignore[override]
        return [_Expm1(stats().truncnorm(-mu / self.spread, np.inf, loc=mu, scale=self.spread))]


@dataclass(frozen=True)
class _Count(Identity):
    """xi(s) = s on whole numbers:  sensitivity = min(floor(radius), high - low)."""

    modulus: ClassVar[str] = "min(floor(radius), high - low)"


@dataclass(frozen=True)
class Bernoulli(_Count):
    """s = 1 with probability p, else 0:  xi(s) = s,  E xi = p,  Var xi = p(1 - p).

    Parameters
    ----------
    bounds : (float or None, float or None), optional
        Public bounds on a signal.

    Examples
    --------
    >>> from veilsum import families
    >>> families.Bernoulli().parameter(0.3)
    {'p': array(0.3)}
    """

    name: ClassVar[str] = "bernoulli"
    _proved: ClassVar[bool] = True
    parameters: ClassVar[tuple[str, ...]] = ("p",)
    natural_support: ClassVar[Support] = Support(low=0.0, high=1.0, integer=True)
    domain: ClassVar[Support] = Support(low=0.0, high=1.0)
    mean_domain: ClassVar[tuple[float, float]] = (0.0, 1.0)
    variance_in_mean: ClassVar[tuple[float, float, float]] = (0.0, 1.0, -1.0)

    def _draw(self, rng: np.random.Generator, size: Size, theta: Array) -> Array:
        return (rng.random(size) < theta).astype(np.float64)

    def _marginals(self, p: Array) -> list[Any]:  # type: ignore[override]
        return [stats().bernoulli(p)]


@dataclass(frozen=True)
class Poisson(_Count):
    """s ~ Poisson(rate):  xi(s) = s,  E xi = Var xi = rate.

    Parameters
    ----------
    bounds : (float or None, float or None), optional
        Public bounds on a signal.

    Examples
    --------
    >>> from veilsum import families
    >>> families.Poisson(bounds=(0, 5)).moves(radius=1.0).l1
    1.0
    """

    name: ClassVar[str] = "poisson"
    _proved: ClassVar[bool] = True
    parameters: ClassVar[tuple[str, ...]] = ("rate",)
    natural_support: ClassVar[Support] = Support(low=0.0, integer=True)
    domain: ClassVar[Support] = Support(low=0.0)
    mean_domain: ClassVar[tuple[float, float]] = (0.0, math.inf)
    variance_in_mean: ClassVar[tuple[float, float, float]] = (0.0, 1.0, 0.0)

    def _draw(self, rng: np.random.Generator, size: Size, theta: Array) -> Array:
        return rng.poisson(theta, size).astype(np.float64)

    def _marginals(self, rate: Array) -> list[Any]:  # type: ignore[override]
        return [stats().poisson(rate)]


@dataclass(frozen=True)
class Geometric(_Count):
    """s = trials up to the first success:  xi(s) = s,  E xi = 1/p,  Var xi = (1 - p)/p^2.

    Parameters
    ----------
    bounds : (float or None, float or None), optional
        Public bounds on a signal.

    Examples
    --------
    >>> from veilsum import families
    >>> families.Geometric().mean(p=0.25)
    array([4.])
    """

    name: ClassVar[str] = "geometric"
    _proved: ClassVar[bool] = True
    parameters: ClassVar[tuple[str, ...]] = ("p",)
    natural_support: ClassVar[Support] = Support(low=1.0, integer=True)
    domain: ClassVar[Support] = Support(low=0.0, high=1.0, open_low=True)
    mean_domain: ClassVar[tuple[float, float]] = (1.0, math.inf)
    variance_in_mean: ClassVar[tuple[float, float, float]] = (0.0, -1.0, 1.0)

    def _expectation(self, theta: Array) -> Array:
        return 1 / theta

    def _variance(self, theta: Array) -> Array:
        return (1 - theta) / theta**2  # m^2 - m cancels near p = 1

    def _inverse(self, m: Array) -> Array:
        return 1 / m

    def _draw(self, rng: np.random.Generator, size: Size, theta: Array) -> Array:
        return rng.geometric(theta, size).astype(np.float64)

    def _marginals(self, p: Array) -> list[Any]:  # type: ignore[override]
        return [stats().geom(p)]


def stats() -> Any:
    """scipy.stats, loaded where a distribution is asked for."""
    return _extras.load("scipy.stats")


@dataclass(frozen=True, eq=False)
class _Expm1:
    """s = e^x - 1 for x of a given distribution."""

    x: Any

    def cdf(self, s: Any) -> Any:
        return self.x.cdf(np.log1p(s))

    def sf(self, s: Any) -> Any:
        return self.x.sf(np.log1p(s))

    def ppf(self, p: Any) -> Any:
        return np.expm1(self.x.ppf(p))

    def isf(self, p: Any) -> Any:
        return np.expm1(self.x.isf(p))


def excess(a: Array) -> tuple[Array, Array]:
    """g(a) = h(a) - a with h(a) = phi(a)/Phi(-a), and its slope -g'(a) = 1 - h(a) g(a).

    h(a) = sqrt(2/pi)/erfcx(a/sqrt(2)). Far out h(a) - a cancels, and the continued fraction
    g(a) = 1/(a + q), q = 2/(a + 3/(a + 4/(a + ...))) takes over, where -g' = g (q - g).
    """
    near, x, q = np.minimum(a, _TAIL), np.maximum(a, _TAIL), np.zeros_like(a)
    for k in range(40, 1, -1):
        q = k / (x + q)
    tail = 1 / (x + q)
    g = np.where(a > _TAIL, tail, np.sqrt(2 / np.pi) / erfcx(near / np.sqrt(2)) - near)
    return g, np.where(a > _TAIL, tail * (q - tail), 1 - g * (near + g))


def inverse_excess(y: Array) -> Array:
    """a with g(a) = y > 0, by Newton from the left: g is convex and decreasing.

    Both g(a) > -a and, for a > -1, g(a) > (sqrt(a^2 + 8) - a)/4 (Sampford 1953), so that
    a_0 = max(-y, 1/y - 2y) lies left of the root and every step stays there.
    """
    y = np.clip(np.asarray(y, dtype=np.float64), 1e-100, 1e300)
    a = np.maximum(-y, 1 / y - 2 * y)
    for _ in range(_NEWTON_STEPS):
        g, slope = excess(a)
        step = (g - y) / slope
        a = a + step
        if np.all(np.abs(step) <= 1e-15 * (1 + np.abs(a))):
            break
    return np.asarray(a)
