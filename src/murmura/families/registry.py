"""Families by name, for scenarios and the command line."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
from dataclasses import dataclass
from typing import Any

from murmura.errors import FamilyError
from murmura.families.base import Family

_TABLE: dict[str, tuple[str, str, dict[str, Any]]] = {
    "normal": ("location", "Normal", {"sigma": 1.0}),
    "log-normal": ("location", "LogNormal", {"sigma": 1.0}),
    "log-normal-1p": ("location", "LogNormal1p", {"sigma": 1.0}),
    "bernoulli": ("counts", "Bernoulli", {}),
    "poisson": ("counts", "Poisson", {}),
    "geometric": ("counts", "Geometric", {}),
    "exponential": ("positive", "Exponential", {}),
    "gamma-known-shape": ("positive", "GammaKnownShape", {"shape": 2.0}),
    "gamma-known-rate": ("positive", "GammaKnownRate", {"rate": 1.0}),
    "pareto": ("positive", "Pareto", {"minimum": 1.0}),
    "weibull": ("positive", "Weibull", {"shape": 0.5}),
    "laplace": ("positive", "Laplace", {"location": 0.0}),
    "categorical": ("vectors", "Categorical", {"categories": 3}),
    "normal-both": ("vectors", "NormalBoth", {}),
    "multivariate-normal": ("vectors", "MultivariateNormal", {"sigma": ((1.0, 0.0), (0.0, 1.0))}),
}
"""Name -> module, class, and options of a specimen that `describe` shows."""


@dataclass(frozen=True)
class Description:
    """One row of the table of families. Support and numbers are those of a specimen."""

    name: str
    statistic: str
    parameters: tuple[str, ...]
    options: tuple[str, ...]
    support: str
    sensitivity: str


def names() -> tuple[str, ...]:
    """The names that `get` knows. `Custom` has none: it is built from functions."""
    return tuple(_TABLE)


def get(name: str, **options: Any) -> Family:
    """The family of that name: get("log-normal", sigma=1.0, bounds=(0.1, None)).

    Case, spaces, hyphens and underscores do not matter: "LogNormal" and "log_normal" will do.
    """
    cls = _class(_closest(name))
    known = _options(cls)
    unknown = [key for key in options if key not in known]
    missing = [key for key, needed in known.items() if needed and key not in options]
    if unknown or missing:
        raise FamilyError(
            f"{cls.name} takes the options {', '.join(known)}"
            + (f"; it has no {', '.join(unknown)}" if unknown else "")
            + (f"; it needs {', '.join(missing)}" if missing else "")
        )
    family: Family = cls(**options)
    return family


def describe() -> tuple[Description, ...]:
    """A row for every family: name, statistic, unknown parameters, support, sensitivity."""
    return tuple(_describe(name) for name in names())


def _describe(name: str) -> Description:
    cls = _class(name)
    specimen = cls(**_TABLE[name][2])
    return Description(
        name=name,
        statistic=specimen.formula,
        parameters=specimen.parameters,
        options=tuple(_options(cls)),
        support=specimen.support.describe(),
        sensitivity=specimen.modulus,
    )


def _class(name: str) -> Any:
    module, cls, _ = _TABLE[name]
    return getattr(importlib.import_module(f"murmura.families.{module}"), cls)


def _options(cls: type[Family]) -> dict[str, bool]:
    """Constructor option -> whether it must be given."""
    fields = [f for f in dataclasses.fields(cls) if f.init]
    needed = {f.name: f.default is dataclasses.MISSING for f in fields}
    return dict(sorted(needed.items(), key=lambda item: not item[1]))


def _closest(name: str) -> str:
    known = {_plain(key): key for key in _TABLE}
    if _plain(name) in known:
        return known[_plain(name)]
    near = difflib.get_close_matches(_plain(name), known, n=1, cutoff=0.5)
    hint = f"did you mean {known[near[0]]}?" if near else f"known: {', '.join(_TABLE)}"
    raise FamilyError(f"there is no family {name!r}; {hint}")


def _plain(name: str) -> str:
    return str(name).lower().translate(str.maketrans("", "", " -_"))
