"""Exact samplers: the stated distribution itself, from the operating system's entropy.

The laws that are drawn are in `veilsum.privacy.laws`; here are the `coins` under them, the grid that a
release lies on, and `Entropy`, where the bits come from. `veilsum.auditing.support_attack` is the attack
that floating-point noise fails and exact noise survives.
"""

from __future__ import annotations

from veilsum.privacy.exact.entropy import SYSTEM, Entropy

__all__ = [
    "SYSTEM",
    "Entropy",
]
