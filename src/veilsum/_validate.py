"""Argument checks: `positive(PrivacyError, epsilon=epsilon)` returns None or raises."""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from veilsum.errors import VeilsumError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LONGEST = 40  # digits or characters of a value in a message
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhdw])")
SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}  # in a unit of time
HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\s\[\]/@]+):([0-9]{1,5})")
DURATION = 'a time such as "90s", "10m", "1h", "1d" or "2w", or a number of seconds'


def positive(error: type[VeilsumError], **values: float) -> None:
    """Raise unless every value is a finite number above 0."""
    for name, value in values.items():
        if not 0 < as_float(value) < math.inf:
            raise error(f"{name} must be a finite number above 0; found {found(value)}")


def probability(error: type[VeilsumError], **values: float) -> None:
    """Raise unless every value lies in [0, 1)."""
    for name, value in values.items():
        if not 0 <= as_float(value) < 1:
            raise error(f"{name} must be a probability in [0, 1); found {found(value)}")


def at_least(error: type[VeilsumError], least: int, **values: int) -> None:
    """Raise unless every value is a whole number of at least `least`; 5.0 is not one, 5 is."""
    for name, value in values.items():
        whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        if not whole or value < least:
            near = not whole and least <= as_float(value) < 1e15 and as_float(value) % 1 == 0
            raise error(
                f"{name} must be a whole number of at least {least}; found {found(value)}"
                f"{f'; write {value:.0f}' if near else ''}"
            )


def at_most(error: type[VeilsumError], most: int, **values: int) -> None:
    """Raise if a value is above `most`."""
    for name, value in values.items():
        if value > most:
            raise error(f"{name} must be at most {most}; found {found(value)}; ask for less")


def one_of(error: type[VeilsumError], allowed: Iterable[str], **values: str) -> None:
    """Raise unless every value is one of the allowed strings."""
    names = list(allowed)
    for name, value in values.items():
        if not isinstance(value, str) or value not in names:
            raise error(f"{name} must be one of {', '.join(names)}; found {found(value)}")


def duration(error: type[VeilsumError], **values: Any) -> float:
    """Return the one value in seconds: "90s", "10m", "1h", "1d", "2w", or a number of seconds."""
    ((name, value),) = values.items()
    seconds = as_float(value)
    if isinstance(value, str) and (text := _DURATION.fullmatch(value)):
        seconds = float(text[1]) * SECONDS[text[2]]
    if not 0 <= seconds < math.inf:
        raise error(f"{name} must be {DURATION}; found {found(value)}")
    return seconds


def real_array(error: type[VeilsumError], **values: Any) -> NDArray[np.float64]:
    """Return the one value as an array of floats; raise if an entry is not a real number."""
    import numpy as np

    others = (str, bytes, complex, np.complexfloating, np.datetime64, np.timedelta64)
    ((name, value),) = values.items()
    try:
        array = np.asarray(value)
        wrong = array.dtype.kind in "mMcSUV" or (
            array.dtype.kind == "O" and any(isinstance(x, others) for x in array.flat)
        )
        if not wrong:
            return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    raise error(
        f"{name} must be real numbers, in rows of equal length; found {_kind(value)}; convert them "
        "to floats first"
    )


def as_float(value: Any) -> float:
    """Return the number as a float, infinite beyond the range of floats; NaN if it is no number."""
    plain = _plain(value)
    if isinstance(plain, bool) or not isinstance(plain, numbers.Real):
        return math.nan
    try:
        return float(plain)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def found(value: Any) -> str:
    """Format a value for a message: a number, a short string, or else only the type."""
    plain = _plain(value)
    if isinstance(plain, numbers.Integral) and abs(plain) >= 10**_LONGEST:
        return f"a whole number of more than {_LONGEST} digits"
    if plain is None or isinstance(plain, numbers.Number):
        return str(plain)
    if isinstance(plain, str):
        return repr(plain if len(plain) <= _LONGEST else f"{plain[:_LONGEST]}...")
    return f"a value of type {type(value).__name__}"


def _kind(value: Any) -> str:
    """Return the type of a value, and of its entries if it is an array; never the entries."""
    entries = getattr(value, "dtype", None)
    return f"{type(value).__name__}{'' if entries is None else f' of {entries}'}"


def _plain(value: Any) -> Any:
    """Return a numpy scalar, or an array without axes, as a Python number."""
    return value.item() if getattr(value, "ndim", None) == 0 else value
