"""Families by name, for scenarios and the command line."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from veilsum.errors import FamilyError
from veilsum.families.base import FAMILIES, ExponentialFamily


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
    >>> families.describe()[0].support
    'whole numbers 0 or 1'
    """

    name: str
    statistic: str
    parameters: tuple[str, ...]
    options: tuple[str, ...]
    support: str
    sensitivity: str


def names() -> tuple[str, ...]:
    """The names that `get` knows, sorted. `Custom` has none: it is built from functions.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> from veilsum import families
    >>> families.names()[:3]
    ('bernoulli', 'categorical', 'exponential')
    """
    return tuple(FAMILIES)


def get(name: str, **options: Any) -> ExponentialFamily:
    """The family of that name.

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
    cls: Any = FAMILIES[name]
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
    return _options_of(FAMILIES[name])


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
    return tuple(_describe(name, cls) for name, cls in FAMILIES.items())


def _describe(name: str, cls: type[ExponentialFamily]) -> Description:
    examples = cls.examples()
    if not examples:
        raise FamilyError(
            f"{name} has no example to describe; give {cls.__name__} example = (options of a family, "
            "parameters to draw signals with)"
        )
    family = examples[0].family
    return Description(
        name=name,
        statistic=family.formula,
        parameters=family.parameters,
        options=tuple(_options_of(cls)),
        support=family.support.describe(),
        sensitivity=family.modulus,
    )


def _options_of(cls: type[ExponentialFamily]) -> dict[str, bool]:
    """Constructor option -> whether it must be given."""
    fields = [f for f in dataclasses.fields(cls) if f.init]
    needed = {f.name: f.default is dataclasses.MISSING for f in fields}
    return dict(sorted(needed.items(), key=lambda item: not item[1]))
