"""Normal and log-normal numbers of NumPy's generator SFC64, bit for bit, in a compiled loop.

NumPy draws a normal number by the ziggurat method (Marsaglia and Tsang, 2000) through a call for
every random word. Here the words of SFC64 are made in the same loop, in a third of the time. The
tables of the method are those that numba has for NumPy's generators; without them, or for arguments
that are arrays, NumPy draws the same numbers itself.
"""

# What is compiled is typed by the compiler, from the arrays it is given.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,call-arg,type-var,var-annotated"
# mypy: disable-error-code="assignment"

from __future__ import annotations

import importlib
import math
from typing import Any, cast

import numba
import numpy as np

from veilsum._types import Floats

TABLES = "numba.np.random._constants"  # not public: see `_tables`
FEW = 512  # numbers up to which NumPy is as quick: its state is read and set around a loop
_U = np.uint64
_UNIT = 2.0**-53
_MANTISSA = _U(0x000FFFFFFFFFFFFF)


@numba.njit
def _next(a, b, c, count):
    """One word of SFC64 (Doty-Humphrey), and its next state."""
    word = a + b + count
    c_next = ((c << _U(24)) | (c >> _U(40))) + word
    return word, b ^ (b >> _U(11)), c + (c << _U(3)), c_next, count + _U(1)


@numba.njit
def _unit(word):
    """Of [0, 1)."""
    return float(np.int64(word >> _U(11))) * _UNIT


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _fill(out, state, tables, mean, deviation, exponential):
    whole, widths, heights, edge, inverse = tables
    a, b, c, count = state[0], state[1], state[2], state[3]
    for n in range(out.size):
        x = 0.0
        while True:
            word, a, b, c, count = _next(a, b, c, count)
            layer, rest = word & _U(0xFF), (word >> _U(9)) & _MANTISSA
            x = float(np.int64(rest)) * widths[layer]
            if (word >> _U(8)) & _U(1):
                x = -x
            if rest < whole[layer]:  # inside the rectangle: nearly always
                break
            if layer == _U(0):  # the tail
                while True:
                    word, a, b, c, count = _next(a, b, c, count)
                    beyond = -inverse * math.log1p(-_unit(word))
                    word, a, b, c, count = _next(a, b, c, count)
                    y = -math.log1p(-_unit(word))
                    if y + y > beyond * beyond:
                        break
                x = -(edge + beyond) if (rest >> _U(8)) & _U(1) else edge + beyond
                break
            word, a, b, c, count = _next(a, b, c, count)
            drop = heights[layer - _U(1)] - heights[layer]
            if drop * _unit(word) + heights[layer] < math.exp(-0.5 * x * x):
                break
        out[n] = mean + deviation * x
    if exponential:  # not above: a call there costs the words their registers
        for n in range(out.size):
            out[n] = math.exp(out[n])
    state[0], state[1], state[2], state[3] = a, b, c, count


def _tables() -> tuple[Any, ...] | None:
    """ki, wi and fi of NumPy's ziggurat, its edge and one over it; None if numba has moved them."""
    try:
        found: Any = importlib.import_module(TABLES)
        return (
            found.ki_double, found.wi_double, found.fi_double,
            float(found.ziggurat_nor_r), float(found.ziggurat_nor_inv_r),
        )  # fmt: skip
    except (ImportError, AttributeError):
        return None


class Normals(np.random.Generator):
    """A generator whose normal and log-normal numbers come out of the compiled loop.

    Parameters
    ----------
    seed
        Of SFC64.
    """

    tables = _tables()

    def __init__(self, seed: np.random.SeedSequence) -> None:
        """Start where NumPy's generator of this seed starts."""
        super().__init__(np.random.SFC64(seed))

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """As NumPy's."""
        out = self._filled(loc, scale, size, False)
        return super().normal(loc, scale, size) if out is None else out

    def lognormal(self, mean: Any = 0.0, sigma: Any = 1.0, size: Any = None) -> Any:
        """As NumPy's."""
        out = self._filled(mean, sigma, size, True)
        return super().lognormal(mean, sigma, size) if out is None else out

    def _filled(self, mean: Any, deviation: Any, size: Any, exponential: bool) -> Floats | None:
        """An array of draws; None where NumPy is to draw it."""
        if (
            exponential and cast(Any, numba.config).USING_SVML
        ):  # its exponential has other last bits
            return None
        if self.tables is None or size is None or math.prod(np.atleast_1d(size)) <= FEW:
            return None
        if np.ndim(mean) or np.ndim(deviation) or not deviation >= 0:
            return None
        out = np.empty(size)
        about: Any = self.bit_generator.state
        state = about["state"]["state"]
        cast(Any, _fill)(
            out.reshape(-1), state, self.tables, float(mean), float(deviation), exponential
        )
        self.bit_generator.state = about
        return out
