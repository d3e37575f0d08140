"""Between floating-point numbers and grid points k g, g = 2^exponent, without an error on the way.

    to_grid(x) = floor(x/g + 1/2),        from_grid(k) = the float nearest to k g.

What rounding to the grid does to a sensitivity, for one coordinate: with d = |x - x'|/g,

    |to_grid(x) - to_grid(x')| <= ceil d,  as floor(u + d) <= floor(u + ceil d) = floor(u) + ceil d.

(Ties to even would make it floor(d) + 1: 0.5 -> 0 and 1.5 -> 2 are one apart and land two apart.)
For n coordinates, sum_c ceil(d_c) < sum_c d_c + n, and the left is whole, so it is at most
ceil(sum_c d_c) + n - 1: that is `paid_steps`. The bound holds for the numbers themselves, so each
function here must be exact, also for inputs that are huge or tiny next to g.

`from_grid` looks at k alone, so it is post-processing: it is exact for |k| <= 2^53, gives the
nearest float beyond, and the largest float where k g exceeds it.
"""

from __future__ import annotations

import math
import sys
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilsum.errors import PrivacyError

Floats = NDArray[np.float64]
Integers = NDArray[Any]  # int64, or Python integers (dtype object) where 64 bits do not suffice

EXACT = 2**53  # whole numbers up to here are floats
ROOM = 2**62  # int64 draws stay below, so that a draw and a grid point add up in 64 bits
SMALL = 2.0**61  # grid points below, plus a draw of 62 bits, add up in 64 bits
LARGEST = sys.float_info.max
INEXACT = "exceeds 2^53 and has no exact float"
HIDDEN = "(its value is not shown)"


def floor_log2(x: Fraction) -> int:
    """The whole number e with 2^e <= x < 2^(e+1), for x > 0."""
    guess = x.numerator.bit_length() - x.denominator.bit_length()
    return guess if x >= Fraction(2) ** guess else guess - 1


def paid_steps(distance: Fraction, dimension: int) -> int:
    """ceil(distance) + dimension - 1, the distance being in grid steps."""
    return math.ceil(distance) + dimension - 1


def integers(values: list[int]) -> Integers:
    """Hold whole numbers as int64 if all lie within +-2^62, else as Python integers."""
    fits = all(-ROOM <= value <= ROOM for value in values)
    return np.array(values, dtype=np.int64 if fits else object)


def to_grid(values: Floats, exponent: int) -> Integers:
    """floor(x/g + 1/2) for each x of a flat array.

    v = x/g only shifts the exponent. v + 1/2 may round, so the fraction v - floor(v) is compared
    with 1/2 instead: it is exact, except for -1/2 < v < 0, where it rounds within [1/2, 1]. Should
    v underflow, 0 is right all the same; should it overflow, the integers below take over.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        v = np.ldexp(values, -exponent)
        whole = np.floor(v)
        steps = whole + (v - whole >= 0.5)
    if np.all(np.abs(steps) < SMALL):
        return steps.astype(np.int64)
    g = Fraction(2) ** exponent
    return _objects([math.floor(Fraction(float(x)) / g + Fraction(1, 2)) for x in values])


def from_grid(points: Integers, exponent: int) -> Floats:
    """The float nearest to k g for each k of a flat array, within the largest float."""
    if points.dtype != object:
        with np.errstate(over="ignore"):
            return np.clip(np.ldexp(points.astype(np.float64), exponent), -LARGEST, LARGEST)
    g = Fraction(2) ** exponent
    return np.array([_nearest(k * g) for k in points], dtype=np.float64)


def _nearest(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return LARGEST if value > 0 else -LARGEST


def saturate(points: Integers) -> NDArray[np.int64]:
    """Each k of a flat array as int64; those beyond become the largest of their sign."""
    if points.dtype != object:
        return points
    limit = 2**63 - 1
    return np.array([max(-limit, min(limit, k)) for k in points], dtype=np.int64)


def finite_floats(values: ArrayLike) -> Floats:
    """Take numbers as float64, provided that this changes none of them and all are finite."""
    array = _numbers(values)
    if array.dtype.kind != "f":
        _refuse((array > EXACT) | (array < -EXACT), INEXACT)
    elif array.dtype.itemsize > 8:
        raise PrivacyError(
            f"values must convert to float64 exactly; found {array.dtype}; round them first"
        )
    _refuse(~np.isfinite(array), "is not a finite number")
    return array.astype(np.float64)


def whole_numbers(values: ArrayLike) -> Integers:
    """Take whole numbers, given as integers or as floats, as exact integers in a flat array."""
    array = _numbers(values)
    if array.dtype.kind == "f":
        _refuse(~(array == np.floor(array)) | ~np.isfinite(array), "is not a whole number")
    flat = array.ravel()
    if np.all((flat > -SMALL) & (flat < SMALL)):
        return flat.astype(np.int64)
    return _objects([int(value) for value in flat])


def _numbers(values: ArrayLike) -> NDArray[Any]:
    """Make an array of whatever can be one, without quoting what cannot."""
    array = None
    with suppress(TypeError, ValueError, OverflowError):  # whose messages may show a value
        array = np.asarray(values)
    if array is None or array.dtype.kind not in "fiub":
        raise PrivacyError("values must be an array of real numbers; nothing was released")
    if not hasattr(values, "dtype") and array.dtype.kind == "f" and np.any(np.abs(array) > EXACT):
        given = np.asarray(values, dtype=object)  # a list's integers, before numpy rounded them
        _refuse(np.vectorize(_rounds, otypes=[bool])(given), INEXACT)
    return array


def _rounds(value: object) -> bool:
    return isinstance(value, int) and abs(value) > EXACT


def _refuse(bad: NDArray[np.bool_], problem: str) -> None:
    """Name the first offender by its index: an error message is a release too."""
    if np.any(bad):
        index = ", ".join(str(i) for i in np.argwhere(bad)[0])
        name = f"values[{index}]" if index else "the value"
        raise PrivacyError(f"{name} {problem} {HIDDEN}; nothing was released")


def _objects(values: list[int]) -> Integers:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found
