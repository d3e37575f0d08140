"""How far a statistic can move when a signal does: global, smooth, network.

sensitivity.from_family(family, radius)                   # exact modulus, proved
sensitivity.smooth_log(0.1, 50.0, smoothing=gamma)        # closed form, proved
sensitivity.smooth(xi, Support(0, 9), smoothing=gamma)    # any statistic
sensitivity.as_published(epsilon, delta)                  # the paper's, not smooth (erratum 2)
sensitivity.network(mixing.largest_neighbour_weight, signal)

`veilsum.auditing` estimates sensitivities from samples and gradients.
"""

from __future__ import annotations

from veilsum.privacy.sensitivity.base import (
    SensitivityBound,
    SensitivityOrigin,
    from_family,
    network,
)
from veilsum.privacy.sensitivity.smooth_sensitivity import (
    as_published,
    envelope,
    smooth,
    smooth_log,
    smoothing,
)

__all__ = [
    "SensitivityBound",
    "SensitivityOrigin",
    "as_published",
    "envelope",
    "from_family",
    "network",
    "smooth",
    "smooth_log",
    "smoothing",
]
