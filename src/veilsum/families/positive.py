"""Distributions of one positive parameter: waiting times, sizes, distances, tails."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from veilsum import _validate
from veilsum._statistic import Statistic
from veilsum.errors import FamilyError
from veilsum.families import moduli
from veilsum.families.base import Array, Size, Specimen
from veilsum.families.scalar import POSITIVE, REAL, Identity, ScalarFamily, stats
from veilsum.families.special import digamma, trigamma
from veilsum.families.support import Support

NON_NEGATIVE = Support(low=0.0)


@dataclass(frozen=True)
class _Positive(ScalarFamily):
    """theta > 0 and E xi > 0."""

    domain: ClassVar[Support] = POSITIVE
    mean_domain: ClassVar[tuple[float, float]] = (0.0, math.inf)  # at 0 theta is 0 or inf

    @property
    def variance_in_mean(self) -> tuple[float, float, float]:
        """Var xi = m^2."""
        return (0.0, 0.0, 1.0)


@dataclass(frozen=True)
class _WaitingTime(_Positive, Identity):
    """s ~ Gamma(k, rate), k known:  xi(s) = s,  E xi = k/rate,  Var xi = k/rate^2."""

    parameters: ClassVar[tuple[str, ...]] = ("rate",)
    natural_support: ClassVar[Support] = NON_NEGATIVE

    @property
    @abstractmethod
    def _k(self) -> float: ...

    @property
    def variance_in_mean(self) -> tuple[float, float, float]:
        """Var xi = m^2/k."""
        return (0.0, 0.0, 1 / self._k)

    def _expectation(self, theta: Array) -> Array:
        return self._k / theta

    def _inverse(self, m: Array) -> Array:
        return self._k / m

    def _draw(self, rng: np.random.Generator, size: Size, theta: Array) -> Array:
        return rng.gamma(self._k, 1 / theta, size)

    def _marginals(self, rate: Array) -> list[Any]:  # type: ignore[override]
        return [stats().gamma(self._k, scale=1 / rate)]


@dataclass(frozen=True)
class Exponential(_WaitingTime):
    """s ~ Exponential(rate):  xi(s) = s,  E xi = 1/rate,  Var xi = 1/rate^2.

    Parameters
    ----------
    bounds : (float or None, float or None), optional
        Public bounds on a signal.

    Examples
    --------
    >>> from veilsum import families
    >>> families.Exponential().mean(rate=0.5)
    array([2.])
    """

    name: ClassVar[str] = "exponential"
    _proved: ClassVar[bool] = True
    _k: ClassVar[float] = 1.0


@dataclass(frozen=True)
class GammaKnownShape(_WaitingTime):
    """s ~ Gamma(shape, rate), shape k known:  xi(s) = s,  E xi = k/rate,  Var xi = k/rate^2.

    Parameters
    ----------
    shape : float
        k.
    bounds : (float or None, float or None), optional
        Public bounds on a signal.

    Examples
    --------
    >>> from veilsum import families
    >>> families.GammaKnownShape(shape=2.0).mean(rate=0.5)
    array([4.])
    """

    shape: float

    name: ClassVar[str] = "gamma-known-shape"
    _proved: ClassVar[bool] = True
    _positive: ClassVar[tuple[str, ...]] = ("shape",)
    example: ClassVar[Specimen] = ({"shape": 2.2}, {"rate": 0.6})

    @property
    def _k(self) -> float:
        return self.shape


@dataclass(frozen=True)
class GammaKnownRate(ScalarFamily):
    """s ~ Gamma(shape, rate), rate known:  xi(s) = log s.

    E xi = digamma(shape) - log(rate),  Var xi = trigamma(shape).

    Parameters
    ----------
    rate : float
        The known rate.
    bounds : (float or None, float or None), optional
        Public bounds on a signal.

    Examples
    --------
    >>> from veilsum import families
    >>> families.GammaKnownRate(rate=1.0).mean(shape=1.0).round(4)
    array([-0.5772])
    """

    rate: float

    name: ClassVar[str] = "gamma-known-rate"
    _proved: ClassVar[bool] = True
    parameters: ClassVar[tuple[str, ...]] = ("shape",)
    formula: ClassVar[str] = "log s"
    statistic_is_log: ClassVar[bool] = True
    modulus: ClassVar[str] = "min(log(1 + radius/low), log(high/low)), infinite without a floor"
    natural_support: ClassVar[Support] = POSITIVE
    domain: ClassVar[Support] = POSITIVE
    _positive: ClassVar[tuple[str, ...]] = ("rate",)
    example: ClassVar[Specimen] = ({"rate": 1.7}, {"shape": 1.3})

    @property
    def remedy(self) -> str:
        """The floor that log s needs."""
        if self.support.open_low:
            return "give the family bounds=(floor, None) and signals.clip(floor, None)"
        return super().remedy

    def _xi(self, s: Array) -> Array:
        return np.log(s)

    def _expectation(self, theta: Array) -> Array:
        return np.asarray(digamma(theta) - math.log(self.rate))

    def _variance(self, theta: Array) -> Array:
        return trigamma(theta)

    def _inverse(self, m: Array) -> Array:
        return inverse_digamma(m + math.log(self.rate))

    def _moves(self, radius: float) -> Statistic:
        return self._increasing(moduli.log(self.support, radius, instead=""))

    def _draw(self, rng: np.random.Generator, size: Size, theta: Array) -> Array:
        """A tiny shape underflows to 0, which is no gamma: the least float stands for it."""
        return np.maximum(rng.gamma(theta, 1 / self.rate, size), np.finfo(np.float64).tiny)

    def _marginals(self, shape: Array) -> list[Any]:  # type: ignore[override]
        return [stats().gamma(shape, scale=1 / self.rate)]


@dataclass(frozen=True)
class Pareto(_Positive):
    """P(s > x) = (minimum/x)^alpha:  xi(s) = log(s/minimum),  E xi = 1/alpha = sqrt(Var xi).

    Parameters
    ----------
    minimum : float
        The smallest signal, above 0.
    bounds : (float or None, float or None), optional
        Public bounds on a signal.

    Examples
    --------
    >>> from veilsum import families
    >>> round(families.Pareto(minimum=1.0).moves(radius=1.0).l1, 6)
    0.693147
    """

    minimum: float

    name: ClassVar[str] = "pareto"
    _proved: ClassVar[bool] = True
    parameters: ClassVar[tuple[str, ...]] = ("alpha",)
    formula: ClassVar[str] = "log(s/minimum)"
    statistic_is_log: ClassVar[bool] = True
    modulus: ClassVar[str] = "min(log(1 + radius/low), log(high/low)), low >= minimum"
    _positive: ClassVar[tuple[str, ...]] = ("minimum",)
    example: ClassVar[Specimen] = ({"minimum": 2.0}, {"alpha": 1.8})

    @property
    def natural_support(self) -> Support:
        """s >= minimum."""
        return Support(low=self.minimum)

    def _xi(self, s: Array) -> Array:
        return np.log1p((s - self.minimum) / self.minimum)  # each operation errs relatively

    def _expectation(self, theta: Array) -> Array:
        return 1 / theta

    def _inverse(self, m: Array) -> Array:
        return 1 / m

    def _moves(self, radius: float) -> Statistic:
        return self._increasing(moduli.log(self.support, radius, instead=""))

    def _draw(self, rng: np.random.Generator, size: Size, theta: Array) -> Array:
        return self.minimum * np.exp(rng.exponential(1 / theta, size))

    def _marginals(self, alpha: Array) -> list[Any]:  # type: ignore[override]
        return [stats().pareto(alpha, scale=self.minimum)]


@dataclass(frozen=True)
class Weibull(_Positive):
    """P(s > x) = exp(-(x/scale)^k), shape k known:  xi(s) = s^k,  E xi = scale^k = sqrt(Var xi).

    For k <= 1 the sensitivity is finite (radius^k, at s = 0) though the derivative is not.

    Parameters
    ----------
    shape : float
        k.
    bounds : (float or None, float or None), optional
        Public bounds on a signal.

    Examples
    --------
    >>> from veilsum import families
    >>> round(families.Weibull(shape=0.5).moves(radius=4.0).l1, 6)
    2.0
    """

    shape: float

    name: ClassVar[str] = "weibull"
    _proved: ClassVar[bool] = True
    parameters: ClassVar[tuple[str, ...]] = ("scale",)
    formula: ClassVar[str] = "s^shape"
    modulus: ClassVar[str] = (
        "(low + radius)^shape - low^shape if shape <= 1, else high^shape - (high - radius)^shape"
    )
    natural_support: ClassVar[Support] = NON_NEGATIVE
    _positive: ClassVar[tuple[str, ...]] = ("shape",)
    example: ClassVar[Specimen] = ({"shape": 0.6}, {"scale": 3.0})

    def _xi(self, s: Array) -> Array:
        return np.power(s, self.shape)

    def _expectation(self, theta: Array) -> Array:
        return np.power(theta, self.shape)

    def _inverse(self, m: Array) -> Array:
        return np.power(m, 1 / self.shape)

    def _moves(self, radius: float) -> Statistic:
        return self._increasing(moduli.power(self.support, radius, self.shape))

    def _draw(self, rng: np.random.Generator, size: Size, theta: Array) -> Array:
        return theta * rng.weibull(self.shape, size)

    def _marginals(self, scale: Array) -> list[Any]:  # type: ignore[override]
        return [stats().weibull_min(self.shape, scale=scale)]


@dataclass(frozen=True)
class Laplace(_Positive):
    """s ~ Laplace(location, scale), location known:  xi(s) = |s - location|,  E xi = scale.

    Parameters
    ----------
    location : float
        The known location.
    bounds : (float or None, float or None), optional
        Public bounds on a signal.

    Examples
    --------
    >>> from veilsum import families
    >>> families.Laplace(location=0.0).parameter(2.0)
    {'scale': array(2.)}
    """

    location: float

    name: ClassVar[str] = "laplace"
    _proved: ClassVar[bool] = True
    parameters: ClassVar[tuple[str, ...]] = ("scale",)
    formula: ClassVar[str] = "|s - location|"
    modulus: ClassVar[str] = "min(radius, largest - smallest |s - location|)"
    natural_support: ClassVar[Support] = REAL
    example: ClassVar[Specimen] = ({"location": 0.5}, {"scale": 1.2})

    def __post_init__(self) -> None:
        """Refuse a location that is not a number."""
        super().__post_init__()
        if not math.isfinite(_validate.as_float(self.location)):
            raise FamilyError(
                f"location must be a finite number; found {_validate.found(self.location)}"
            )

    def _xi(self, s: Array) -> Array:
        return np.abs(s - self.location)

    def _moves(self, radius: float) -> Statistic:
        return moduli.distance(self.support, radius, self.location)

    def _draw(self, rng: np.random.Generator, size: Size, theta: Array) -> Array:
        return rng.laplace(self.location, theta, size)

    def _marginals(self, scale: Array) -> list[Any]:  # type: ignore[override]
        return [stats().laplace(self.location, scale)]


def inverse_digamma(y: Array) -> Array:
    """x > 0 with digamma(x) = y, by Newton from the start of Minka (2000), appendix C.

    digamma is concave, so that after one step Newton climbs to the root from the left.
    """
    y = np.clip(np.asarray(y, dtype=np.float64), -1e300, 700.0)
    x = np.where(y >= -2.22, np.exp(y) + 0.5, -1.0 / np.minimum(y - digamma(np.ones(())), -1e-9))
    for _ in range(8):
        x = x - (digamma(x) - y) / trigamma(x)
    return np.asarray(x)
