"""What public bounds say of a statistic: the one function that plans, checks and results ask."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

GRID = 257  # values of a signal at which the statistic is looked up

Floats = NDArray[np.float64]


def statistic_bounds(family: Any) -> tuple[Floats, Floats]:
    """The least and largest value of each component of the statistic; infinite where unknown.

    Parameters
    ----------
    family : Family
        With public bounds, or a support that is bounded by itself.

    Returns
    -------
    (ndarray, ndarray)
        What the mean of any signals lies between, by component.

    Examples
    --------
    >>> from veilsum import families
    >>> low, high = families.statistic_bounds(families.Normal(1.0, bounds=(-2.0, 3.0)))
    >>> float(low[0]), float(high[0])
    (-2.0, 3.0)
    """
    mean_low, mean_high = family.mean_domain
    low = np.full(family.dimension, float(mean_low))
    high = np.full(family.dimension, float(mean_high))
    support = family.support
    if not family.sensitivity_is_proved or not math.isfinite(support.high - support.low):
        return low, high  # the statistic of a custom family may be largest anywhere
    turns = (0.0, float(getattr(family, "location", 0.0)))  # where one is not monotone
    inside = [x for x in turns if support.low < x < support.high]
    values = np.unique([*np.linspace(support.low, support.high, GRID), *inside])
    if support.integer:
        values = np.unique(np.round(values))
    shape = (len(values), *family.signal_shape)
    signals = np.broadcast_to(values.reshape((-1,) + (1,) * len(family.signal_shape)), shape)
    with np.errstate(all="ignore"):
        found = family.raw_columns(np.array(signals, dtype=np.float64))
    return np.maximum(low, found.min(axis=0)), np.minimum(high, found.max(axis=0))
