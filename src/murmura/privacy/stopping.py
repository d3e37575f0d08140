"""Whether agents may agree on when to stop: what the messages that do so give away.

To stop within a tolerance, agents exchange the least and largest estimate within 0, 1, 2, ... hops.
Those are values of estimates as they are, without fresh noise. Where signals are protected they are
computed from releases, and cost nothing. Network DP protects the estimates themselves: the range
that one neighbour passes on to another is the estimate it was meant to hide.
"""

from __future__ import annotations

from murmura.errors import PrivacyError
from murmura.privacy.want import NetworkDP

ADVICE = (
    "the messages that agree on when to stop carry neighbours' estimates without noise, which "
    "Network DP promises to hide; leave tolerance out and run all rounds, or protect the signal"
)


def stopping_conflict(protect: str, tolerance: float) -> str:
    """Why stopping within a tolerance breaks what is protected; empty where it does not."""
    return ADVICE if protect == NetworkDP.protects and tolerance != 0 else ""


def check_stopping(protect: str, tolerance: float, error: type[Exception] = PrivacyError) -> None:
    """Raise `error` unless agents may stop within this tolerance."""
    conflict = stopping_conflict(protect, tolerance)
    if conflict:
        raise error(f"tolerance = {tolerance:g} with protection of the network: {conflict}")
