"""Attacks on what murmura itself runs: laws and scenarios, by samples and by likelihoods."""

from __future__ import annotations

from murmura.audits.ball import Ball, ball
from murmura.audits.exact import (
    Messages,
    Move,
    Transcript,
    estimate_moves,
    estimate_off,
    exact_loss,
    signal_moves,
)
from murmura.audits.observed import message, observed
from murmura.audits.pairs import adjacent
from murmura.audits.scenario import audit_neighbour, audit_problem
from murmura.audits.search import worst_neighbours
from murmura.audits.transcript import Planted, transcript

__all__ = [
    "Ball",
    "Messages",
    "Move",
    "Planted",
    "Transcript",
    "adjacent",
    "audit_neighbour",
    "audit_problem",
    "ball",
    "estimate_moves",
    "estimate_off",
    "exact_loss",
    "message",
    "observed",
    "signal_moves",
    "transcript",
    "worst_neighbours",
]
