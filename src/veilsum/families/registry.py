"""Families by name, for scenarios and the command line."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
from dataclasses import dataclass
from typing import Any

from veilsum.errors import FamilyError
from veilsum.families.base import ExponentialFamily

_TABLE: dict[str, tuple[str, str, dict[str, Any]]] = {
    "normal": ("scalar", "Normal", {"sigma": 1.0}),
    "log-normal": ("scalar", "LogNormal", {"sigma": 1.0}),
    "log-normal-1p": ("scalar", "LogNormal1p", {"sigma": 1.0}),
    "bernoulli": ("scalar", "Bernoulli", {}),
    "poisson": ("scalar", "Poisson", {}),
    "geometric": ("scalar", "Geometric", {}),
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
"""Name -> module, class, and options of the example that `describe` lists."""


@dataclass(frozen=True)
class Description:
    """One row of the table of families. Support and numbers are those of an example.

    Attributes
    ----------
    name : str
        As `get` knows it.
    statistic : str
        xi(s).
    parameters : tuple of str
        The unknown parameters.
    options : tuple of str
        What `get` takes.
    support : str
        Where signals may lie.
    sensitivity : str
        The modulus of continuity of xi, in `radius`, `low` and `high`.

    Examples
    --------
    >>> from veilsum import families
    >>> families.describe()[3].support
    'whole numbers 0 or 1'
    """

    name: str
    statistic: str
    parameters: tuple[str, ...]
    options: tuple[str, ...]
    support: str
    sensitivity: str


def names() -> tuple[str, ...]:
    """The names that `get` knows. `Custom` has none: it is built from functions.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> from veilsum import families
    >>> families.names()[:3]
    ('normal', 'log-normal', 'log-normal-1p')
    """
    return tuple(_TABLE)


def get(name: str, **options: Any) -> ExponentialFamily:
    """The family of that name. No other family is built or imported for it.

    Parameters
    ----------
    name : str
        Case, spaces, hyphens and underscores do not matter: "LogNormal" and "log_normal" will do.
    **options
        Fields of the family, such as sigma and bounds.

    Returns
    -------
    ExponentialFamily

    Raises
    ------
    FamilyError
        For an unknown name, or options that are unknown or missing.

    Examples
    --------
    >>> from veilsum import families
    >>> families.get("log-normal", sigma=1.0, bounds=(0.1, None))
    LogNormal(bounds=(0.1, None), sigma=1.0)
    """
    cls = _class(_closest(name))
    known = _options_of(cls)
    unknown = [key for key in options if key not in known]
    missing = [key for key, needed in known.items() if needed and key not in options]
    if unknown or missing:
        raise FamilyError(
            f"{cls.name} takes the options {', '.join(known)}"
            + (f"; it has no {', '.join(unknown)}" if unknown else "")
            + (f"; it needs {', '.join(missing)}" if missing else "")
        )
    family: ExponentialFamily = cls(**options)
    return family


def options(name: str) -> dict[str, bool]:
    """The options of the family of that name, and which of them must be given.

    Parameters
    ----------
    name : str
        As for `get`.

    Returns
    -------
    dict of str to bool

    Examples
    --------
    >>> from veilsum import families
    >>> families.options("log-normal-1p")
    {'sigma': True, 'bounds': False}
    """
    return _options_of(_class(_closest(name)))


def describe() -> tuple[Description, ...]:
    """A row for every family: name, statistic, unknown parameters, support, sensitivity.

    Returns
    -------
    tuple of Description

    Examples
    --------
    >>> from veilsum import families
    >>> families.describe()[0].statistic
    's'
    """
    return tuple(_describe(name) for name in names())


def _describe(name: str) -> Description:
    cls = _class(name)
    example = cls(**_TABLE[name][2])
    return Description(
        name=name,
        statistic=example.formula,
        parameters=example.parameters,
        options=tuple(_options_of(cls)),
        support=example.support.describe(),
        sensitivity=example.modulus,
    )


def _class(name: str) -> Any:
    module, cls, _ = _TABLE[name]
    return getattr(importlib.import_module(f"veilsum.families.{module}"), cls)


def _options_of(cls: type[ExponentialFamily]) -> dict[str, bool]:
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
