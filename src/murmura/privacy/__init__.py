"""Protections a user can ask for, the noise they need, and the promise that results."""

from __future__ import annotations

from murmura.privacy.calibration import Calibration, calibrate, printed_smoothing
from murmura.privacy.guarantee import Guarantee, promise
from murmura.privacy.want import NetworkDP, NoPrivacy, Protection, SignalDP, Want

__all__ = [
    "Calibration",
    "Guarantee",
    "NetworkDP",
    "NoPrivacy",
    "Protection",
    "SignalDP",
    "Want",
    "calibrate",
    "printed_smoothing",
    "promise",
]
