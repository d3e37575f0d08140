"""How far a statistic can move when a signal does: global, smooth, estimated, network, gradient.

sensitivity.from_family(family, radius)                   # exact modulus, proved
sensitivity.smooth_log(0.1, 50.0, smoothing=gamma)        # closed form, proved
sensitivity.smooth(xi, Support(0, 9), smoothing=gamma)    # any statistic
sensitivity.as_published(epsilon, delta)                  # the paper's, not smooth (erratum 2)
sensitivity.estimate(xi, 0.0, 9.0, rng)                   # from samples, estimated
sensitivity.network(mixing.largest_neighbour_weight, signal)
sensitivity.gradient(jacobian, low, high)                 # several dimensions
"""

from __future__ import annotations

from veilsum.privacy.sensitivity.base import (
    SensitivityBound,
    SensitivityOrigin,
    from_family,
    network,
)
from veilsum.privacy.sensitivity.lipschitz import (
    ReverseWeibull,
    column_sums,
    estimate,
    fit_reverse_weibull,
    gradient,
    upper_end,
)
from veilsum.privacy.sensitivity.smooth_sensitivity import (
    as_published,
    envelope,
    smooth,
    smooth_log,
    smoothing,
)

__all__ = [
    "ReverseWeibull",
    "SensitivityBound",
    "SensitivityOrigin",
    "as_published",
    "column_sums",
    "envelope",
    "estimate",
    "fit_reverse_weibull",
    "from_family",
    "gradient",
    "network",
    "smooth",
    "smooth_log",
    "smoothing",
    "upper_end",
]
