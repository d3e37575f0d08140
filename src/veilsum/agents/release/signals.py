"""A reading that is fit for a release: a number of the right shape, within the public bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum.errors import FamilyError, SignalError

Floats = NDArray[np.float64]


def checked_signal(family: Any, label: str, reading: int, signal: Any) -> Floats:
    """The reading within public bounds; refused outside the support, by number only.

    Parameters
    ----------
    family : Family
        Of the readings.
    label : str
        The agent, for the message.
    reading : int
        Its number, for the message.
    signal
        The reading itself.

    Returns
    -------
    ndarray
        Of the family's shape.

    Raises
    ------
    SignalError
        If it is not a number, has another shape or is outside the support.

    Examples
    --------
    >>> from veilsum import families
    >>> checked_signal(families.Normal(1.0, bounds=(0.0, 1.0)), "north", 1, 1.5).tolist()
    1.0
    """
    problem = f"reading {reading} of agent {label}"
    try:
        value = np.asarray(signal, dtype=np.float64)
    except (TypeError, ValueError):
        raise SignalError(f"{problem} is not a number; nothing was released") from None
    if value.shape != family.signal_shape:
        raise SignalError(
            f"{problem} has shape {value.shape}, and {family.name} takes {family.signal_shape}; "
            "nothing was released"
        )
    if not np.isfinite(value).all():
        raise SignalError(f"{problem} is not a finite number; nothing was released")
    support = family.support
    if family.bounds is not None:
        try:
            value = support.clip(value)
        except FamilyError:
            value = np.asarray(value)  # an end that is open: judged as it is
    if support.violations(value).any():
        raise SignalError(
            f"{problem} lies outside the support of {family.name} ({support.describe()}); nothing "
            f"was released; {family.remedy}"
        )
    return value
