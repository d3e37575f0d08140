"""Where the unit of the signals belongs: behind numbers that are means of signals, and nowhere else.

The statistic of a family need not have the unit of its signals: log(1 + s) has none, s^2 another. A
number has it if the statistic is the signal itself, and a parameter if it is the mean of that.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from veilsum.errors import VeilsumError
from veilsum.families.base import SIGNAL

if TYPE_CHECKING:
    from veilsum._types import Family
    from veilsum.results.result import Result

MOST_PLAIN, LEAST_PLAIN = 1e7, 1e-9  # values and widths that are written without an exponent
PROBES = (0.375, 0.5)  # means in the domain of every such family


def of_family(unit: str, family: Family) -> str:
    """The unit of means of a family's statistic, for signals in `unit`; empty if it is another."""
    return unit if family.formula in SIGNAL else ""


def of_statistic(result: Result) -> str:
    """The unit of estimates and errors; empty if the statistic is not the signal."""
    return of_family(result.unit, result.problem.family)


def of_parameter(result: Result, name: str) -> str:
    """The unit of a parameter; empty if it is not the mean of the signals."""
    unit = of_statistic(result)
    return unit if unit and _is_mean(result.problem.family, name) else ""


def _is_mean(family: Family, name: str) -> bool:
    """Whether a parameter is E xi itself, at two means."""
    try:
        found = [family.parameter(np.full(family.dimension, mean))[name] for mean in PROBES]
    except (VeilsumError, ArithmeticError, LookupError, TypeError, ValueError):
        return False
    return all(np.all(np.asarray(v) == m) for v, m in zip(found, PROBES, strict=True))


def rounded(value: float, width: float) -> str:
    """A number with as many digits as an interval of this width supports: two of the width.

    9.9986 with a width of 0.0026 is 9.9986, and not 10.
    """
    plain = math.isfinite(value) and math.isfinite(width) and width > 0
    if not plain or abs(value) >= MOST_PLAIN or width < LEAST_PLAIN:
        return f"{value:.4g}"
    return f"{value:.{max(0, 1 - math.floor(math.log10(width)))}f}"


def interval(low: float, high: float) -> str:
    """Both ends of an interval, with the digits that it supports."""
    return f"{rounded(low, high - low)} to {rounded(high, high - low)}"


def behind(text: str, unit: str) -> str:
    """A number with its unit."""
    return f"{text} {unit}" if unit else text


def in_sentence(sentence: str, unit: str) -> str:
    """The sentence of a guarantee with the unit in place of "its own units"."""
    return sentence.replace(" in its own units", f" {unit}") if unit else sentence


def in_figure(unit: str) -> str:
    """A unit as matplotlib draws it literally: a dollar sign would begin a formula."""
    return unit.replace("$", r"\$")


def in_brackets(label: str, unit: str) -> str:
    """The label of an axis with its unit."""
    return f"{label} ({in_figure(unit)})" if unit else label
