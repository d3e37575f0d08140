"""What floats do to a release, bounded by public numbers alone.

An identity or a one-hot code is exact. Any other statistic here (log, log(1 + s), log(s/m),
powers, |s - m|) is at most two operations, each within 4 units in the last place, so that
|error| <= 2^-49 max |xi| over the public support; the noise covers twice that (`ExactLaplace`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from murmura.errors import AgentError
from murmura.privacy import Calibration
from murmura.privacy.want import SMOOTH_PRINTED

EXACT = ("s", "s, a vector", "one-hot(s)")
RELATIVE = 2.0**-49
MOST_ERROR = 2.0**-20  # of the sensitivity; beyond, the error would swell the noise
LARGEST = float(np.finfo(np.float64).max)


def input_error(family: Any, sensitivity: float) -> float:
    """How far a computed statistic can be from the true one: 2^-49 max |xi| on the support.

    The largest |xi| lies at an end of the support, since every such statistic here is monotone on
    either side of where it is 0. A family of one's own is taken at its author's word in this too.
    """
    if family.formula in EXACT or not family.sensitivity_is_proved:
        return 0.0
    support = family.support
    low = math.nextafter(support.low, math.inf) if support.open_low else support.low
    high = math.nextafter(support.high, -math.inf) if support.open_high else support.high
    ends = np.clip(np.array([low, high]), -LARGEST, LARGEST)
    with np.errstate(over="ignore"):
        found = RELATIVE * float(np.max(np.abs(family.columns(ends))))
    if not found <= MOST_ERROR * sensitivity:
        raise AgentError(
            f"the statistic {family.formula} of {family.name} has no bound on how far floats are "
            f"from it ({support.describe()}); give the family bounds"
        )
    return found


def least_scale(noise: Calibration, epsilon: float) -> float:
    """A public lower bound on the scale under smooth sensitivity, from the bounds alone.

    log s moves by at least log(1 + r/high) where a whole radius fits on either side, and else by
    log(high/low)/2; the smooth sensitivity is no less. As printed it is r/s >= r/high.
    """
    low, high = noise.bounds
    if not math.isfinite(high):
        raise AgentError(
            "a scale that is read off the signal has no least value without an upper bound, and "
            "a grid made from the scale itself would show it; give the family bounds=(low, high)"
        )
    step = math.log1p(noise.want.radius / high)
    if noise.want.sensitivity != SMOOTH_PRINTED:
        step = min(step, math.log(high / low) / 2)
    return step / epsilon
