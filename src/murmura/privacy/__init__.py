"""Protections a user can ask for, the noise they need, the promise that results, and its audit."""

from __future__ import annotations

from murmura.privacy.accounting import (
    Accountant,
    Budget,
    BudgetExceeded,
    Composition,
    Loss,
    Release,
    compose,
)
from murmura.privacy.auditing import AuditReport, audit
from murmura.privacy.calibration import Calibration, calibrate, refusal
from murmura.privacy.exact import ExactDiscreteLaplace, ExactLaplace, support_attack
from murmura.privacy.guarantee import Adversary, Guarantee, Noise, Sees, Span, Status, Unit
from murmura.privacy.mechanisms import (
    BoundedSignal,
    Choice,
    IntegerStatistic,
    Mechanism,
    RealStatistic,
    best,
)
from murmura.privacy.network_cost import network_cost
from murmura.privacy.promise import announce, promise
from murmura.privacy.sensitivity import SensitivityBound
from murmura.privacy.stopping import check_stopping, stopping_conflict
from murmura.privacy.want import NetworkDP, NoPrivacy, Protection, SignalDP, Want

__all__ = [
    "Accountant",
    "Adversary",
    "AuditReport",
    "BoundedSignal",
    "Budget",
    "BudgetExceeded",
    "Calibration",
    "Choice",
    "Composition",
    "ExactDiscreteLaplace",
    "ExactLaplace",
    "Guarantee",
    "IntegerStatistic",
    "Loss",
    "Mechanism",
    "NetworkDP",
    "NoPrivacy",
    "Noise",
    "Protection",
    "RealStatistic",
    "Release",
    "Sees",
    "SensitivityBound",
    "SignalDP",
    "Span",
    "Status",
    "Unit",
    "Want",
    "announce",
    "audit",
    "best",
    "calibrate",
    "check_stopping",
    "compose",
    "network_cost",
    "promise",
    "refusal",
    "stopping_conflict",
    "support_attack",
]
