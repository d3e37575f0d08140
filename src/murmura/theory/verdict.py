"""How a statement stands against the mathematics and the numbers: one vocabulary for all."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """How a statement stands: it holds, it holds once put right, or it does not hold."""

    CONFIRMED = "confirmed"
    CORRECTED = "corrected"  # true once something in it is put right, or only in part
    REFUTED = "refuted"
