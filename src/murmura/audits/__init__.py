"""Attacks on what murmura itself runs: laws and scenarios through the simulator."""

from __future__ import annotations

from murmura.audits.ball import Ball, ball
from murmura.audits.message import message
from murmura.audits.pairs import adjacent
from murmura.audits.scenario import audit_neighbour, audit_problem
from murmura.audits.transcript import Planted, transcript

__all__ = [
    "Ball",
    "Planted",
    "adjacent",
    "audit_neighbour",
    "audit_problem",
    "ball",
    "message",
    "transcript",
]
