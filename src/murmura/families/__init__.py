"""Exponential families: the statistic xi(s), its support, its sensitivity, its parameter.

family = murmura.families.LogNormal1p(sigma=1.0)
family.statistic(signals)          # xi(s) = log(1 + s)
family.sensitivity(radius=1.0)     # log 2, and why
family.parameter(mean)             # {"mu": ...}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from murmura._lazy import lazily

if TYPE_CHECKING:
    from murmura.families.base import Family, Interval, Sensitivity
    from murmura.families.counts import Bernoulli, Geometric, Poisson
    from murmura.families.custom import Custom
    from murmura.families.location import LogNormal, LogNormal1p, Normal
    from murmura.families.positive import (
        Exponential,
        GammaKnownRate,
        GammaKnownShape,
        Laplace,
        Pareto,
        Weibull,
    )
    from murmura.families.registry import Description, describe, get, names
    from murmura.families.support import Support
    from murmura.families.vectors import Categorical, MultivariateNormal, NormalBoth

_WHERE = {
    "Bernoulli": "counts",
    "Categorical": "vectors",
    "Custom": "custom",
    "Description": "registry",
    "Exponential": "positive",
    "Family": "base",
    "GammaKnownRate": "positive",
    "GammaKnownShape": "positive",
    "Geometric": "counts",
    "Interval": "base",
    "Laplace": "positive",
    "LogNormal": "location",
    "LogNormal1p": "location",
    "MultivariateNormal": "vectors",
    "Normal": "location",
    "NormalBoth": "vectors",
    "Pareto": "positive",
    "Poisson": "counts",
    "Sensitivity": "base",
    "Support": "support",
    "Weibull": "positive",
    "describe": "registry",
    "get": "registry",
    "names": "registry",
}

__all__ = [
    "Bernoulli",
    "Categorical",
    "Custom",
    "Description",
    "Exponential",
    "Family",
    "GammaKnownRate",
    "GammaKnownShape",
    "Geometric",
    "Interval",
    "Laplace",
    "LogNormal",
    "LogNormal1p",
    "MultivariateNormal",
    "Normal",
    "NormalBoth",
    "Pareto",
    "Poisson",
    "Sensitivity",
    "Support",
    "Weibull",
    "describe",
    "get",
    "names",
]

__getattr__ = lazily(__name__, _WHERE)


def __dir__() -> list[str]:
    return sorted(__all__)
