"""Attacks on what veilsum runs, by samples and likelihoods, and sensitivities estimated from samples."""

from __future__ import annotations

from veilsum.auditing.exact import (
    Messages,
    Move,
    Transcript,
    adjacent,
    estimate_moves,
    estimate_off,
    exact_loss,
    signal_moves,
)
from veilsum.auditing.leak import (
    SupportReport,
    float_sum_support,
    grid_support,
    inversion_support,
    numpy_support,
    support_attack,
)
from veilsum.auditing.lipschitz import (
    ReverseWeibull,
    column_sums,
    estimate,
    fit_reverse_weibull,
    gradient,
    upper_end,
)
from veilsum.auditing.lower_bound import FAULT, runs_for, smallest_fault
from veilsum.auditing.mechanism import AuditReport, audit
from veilsum.auditing.problem import (
    audit_likelihoods,
    audit_neighbour,
    audit_problem,
    best_connected,
    worst_neighbours,
)
from veilsum.auditing.sums import audit_sum, sum_likelihoods
from veilsum.auditing.transcripts import (
    Ball,
    PlantedSignal,
    ball,
    message_mechanism,
    transcript_mechanism,
    view_mechanism,
)

__all__ = [
    "FAULT",
    "AuditReport",
    "Ball",
    "Messages",
    "Move",
    "PlantedSignal",
    "ReverseWeibull",
    "SupportReport",
    "Transcript",
    "adjacent",
    "audit",
    "audit_likelihoods",
    "audit_neighbour",
    "audit_problem",
    "audit_sum",
    "ball",
    "best_connected",
    "column_sums",
    "estimate",
    "estimate_moves",
    "estimate_off",
    "exact_loss",
    "fit_reverse_weibull",
    "float_sum_support",
    "gradient",
    "grid_support",
    "inversion_support",
    "message_mechanism",
    "numpy_support",
    "runs_for",
    "signal_moves",
    "smallest_fault",
    "sum_likelihoods",
    "support_attack",
    "transcript_mechanism",
    "upper_end",
    "view_mechanism",
    "worst_neighbours",
]
