"""Exponential families: the statistic xi(s), its support, its sensitivity, its parameter.

family = veilsum.families.LogNormal1p(sigma=1.0)
family.statistic(signals)          # xi(s) = log(1 + s)
family.moves(radius=1.0)           # a Statistic: l1 = log 2, and why
family.parameter(mean)             # {"mu": ...}

A family is a class in a file of this package. It registers itself (`FAMILIES`), and its class is a name
of the package; the imports below tell type checkers what they cannot ask the registry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from veilsum._lazy import lazily

if TYPE_CHECKING:
    from veilsum._types import Family as Family
    from veilsum.families.base import FAMILIES as FAMILIES
    from veilsum.families.base import Example as Example
    from veilsum.families.base import ExponentialFamily as ExponentialFamily
    from veilsum.families.base import Interval as Interval
    from veilsum.families.custom import Custom as Custom
    from veilsum.families.positive import Exponential as Exponential
    from veilsum.families.positive import GammaKnownRate as GammaKnownRate
    from veilsum.families.positive import GammaKnownShape as GammaKnownShape
    from veilsum.families.positive import Laplace as Laplace
    from veilsum.families.positive import Pareto as Pareto
    from veilsum.families.positive import Weibull as Weibull
    from veilsum.families.registry import Description as Description
    from veilsum.families.registry import describe as describe
    from veilsum.families.registry import get as get
    from veilsum.families.registry import names as names
    from veilsum.families.registry import options as options
    from veilsum.families.scalar import Bernoulli as Bernoulli
    from veilsum.families.scalar import Geometric as Geometric
    from veilsum.families.scalar import LogNormal as LogNormal
    from veilsum.families.scalar import LogNormal1p as LogNormal1p
    from veilsum.families.scalar import Normal as Normal
    from veilsum.families.scalar import Poisson as Poisson
    from veilsum.families.support import Support as Support
    from veilsum.families.vectors import Categorical as Categorical
    from veilsum.families.vectors import MultivariateNormal as MultivariateNormal
    from veilsum.families.vectors import NormalBoth as NormalBoth

_HOMES = {
    "Custom": "custom",
    "Description": "registry",
    "Example": "base",
    "ExponentialFamily": "base",
    "FAMILIES": "base",
    "Family": "veilsum._types",
    "Interval": "base",
    "Support": "support",
    "describe": "registry",
    "get": "registry",
    "names": "registry",
    "options": "registry",
}
_helper = lazily(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted({*_HOMES, *_classes()})
    if name in _HOMES or not name[:1].isupper():  # an import asks for a submodule here first
        return _helper(name)
    return _classes().get(name) or _helper(name)


def __dir__() -> list[str]:
    return sorted({*_HOMES, *_classes()})


def _classes() -> dict[str, Any]:
    """The package's families by the names of their classes; all its modules are imported."""
    from veilsum.families.base import FAMILIES

    own = (cls for cls in FAMILIES.values() if cls.__module__.startswith(f"{__name__}."))
    return {cls.__name__: cls for cls in own}
