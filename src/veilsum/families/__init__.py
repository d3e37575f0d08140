"""Exponential families: the statistic xi(s), its support, its sensitivity, its parameter.

family = veilsum.families.LogNormal1p(sigma=1.0)
family.statistic(signals)          # xi(s) = log(1 + s)
family.moves(radius=1.0)           # a Statistic: l1 = log 2, and why
family.parameter(mean)             # {"mu": ...}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from veilsum._lazy import lazily

if TYPE_CHECKING:
    from veilsum._types import Family
    from veilsum.families.base import ExponentialFamily, Interval
    from veilsum.families.custom import Custom
    from veilsum.families.positive import (
        Exponential,
        GammaKnownRate,
        GammaKnownShape,
        Laplace,
        Pareto,
        Weibull,
    )
    from veilsum.families.registry import Description, describe, get, names, options
    from veilsum.families.scalar import (
        Bernoulli,
        Geometric,
        LogNormal,
        LogNormal1p,
        Normal,
        Poisson,
    )
    from veilsum.families.support import Support
    from veilsum.families.vectors import Categorical, MultivariateNormal, NormalBoth

_HOMES = {
    "Bernoulli": "scalar",
    "Categorical": "vectors",
    "Custom": "custom",
    "Description": "registry",
    "Exponential": "positive",
    "ExponentialFamily": "base",
    "Family": "veilsum._types",
    "GammaKnownRate": "positive",
    "GammaKnownShape": "positive",
    "Geometric": "scalar",
    "Interval": "base",
    "Laplace": "positive",
    "LogNormal": "scalar",
    "LogNormal1p": "scalar",
    "MultivariateNormal": "vectors",
    "Normal": "scalar",
    "NormalBoth": "vectors",
    "Pareto": "positive",
    "Poisson": "scalar",
    "Support": "support",
    "Weibull": "positive",
    "describe": "registry",
    "get": "registry",
    "names": "registry",
    "options": "registry",
}

__all__ = [
    "Bernoulli",
    "Categorical",
    "Custom",
    "Description",
    "Exponential",
    "ExponentialFamily",
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
    "Support",
    "Weibull",
    "describe",
    "get",
    "names",
    "options",
]

__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
