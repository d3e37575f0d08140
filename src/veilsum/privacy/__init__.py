"""Privacy requests, the noise that they need, and the guarantee that results.

request + statistic + algorithm ── plan() ──> Plan ──> Mechanism ── release ──> Release(event, readings)
   what is asked   what moves      refuses or      draws                │
                                   promises                  account / guarantee / report: spent()

Names of mechanisms are in `MECHANISMS`; smooth sensitivities in `veilsum.privacy.sensitivity`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from veilsum._lazy import lazily

if TYPE_CHECKING:
    from veilsum._statistic import ScaleRule, Statistic, Status
    from veilsum.privacy.accounting import (
        Accountant,
        Budget,
        BudgetExceeded,
        Composition,
        EventKind,
        PrivacyEvent,
        Release,
        ReleaseEvent,
        Span,
        compose,
        spent,
    )
    from veilsum.privacy.batches import Batches
    from veilsum.privacy.guarantee import Adversary, Guarantee, Noise, Sees, Unit
    from veilsum.privacy.laws import DiscreteLaplace, Law, Skellam
    from veilsum.privacy.masked import MaskedParameters
    from veilsum.privacy.mechanisms import MECHANISMS, Choice, LaplaceMechanism, Mechanism, best
    from veilsum.privacy.planning import Plan, plan
    from veilsum.privacy.proofs import guarantee_of, network_cost
    from veilsum.privacy.requests import (
        MaskedDP,
        NetworkDP,
        NoPrivacy,
        PrivacyRequest,
        SecureSumDP,
        SignalDP,
    )
    from veilsum.privacy.secure import SecureParameters

_WHERE = {
    "Accountant": "accounting",
    "Adversary": "guarantee",
    "Batches": "batches",
    "Budget": "accounting",
    "BudgetExceeded": "accounting",
    "Choice": "mechanisms",
    "Composition": "accounting",
    "DiscreteLaplace": "laws",
    "EventKind": "accounting",
    "Guarantee": "guarantee",
    "LaplaceMechanism": "mechanisms",
    "Law": "laws",
    "MECHANISMS": "mechanisms",
    "MaskedDP": "requests",
    "MaskedParameters": "masked",
    "Mechanism": "mechanisms",
    "NetworkDP": "requests",
    "NoPrivacy": "requests",
    "Noise": "guarantee",
    "Plan": "planning",
    "PrivacyEvent": "accounting",
    "PrivacyRequest": "requests",
    "Release": "accounting",
    "ReleaseEvent": "accounting",
    "ScaleRule": "veilsum._statistic",
    "SecureParameters": "secure",
    "SecureSumDP": "requests",
    "Sees": "guarantee",
    "SignalDP": "requests",
    "Skellam": "laws",
    "Span": "accounting",
    "Statistic": "veilsum._statistic",
    "Status": "veilsum._statistic",
    "Unit": "guarantee",
    "best": "mechanisms",
    "compose": "accounting",
    "guarantee_of": "proofs",
    "network_cost": "proofs",
    "plan": "planning",
    "spent": "accounting",
}

__all__ = [
    "MECHANISMS",
    "Accountant",
    "Adversary",
    "Batches",
    "Budget",
    "BudgetExceeded",
    "Choice",
    "Composition",
    "DiscreteLaplace",
    "EventKind",
    "Guarantee",
    "LaplaceMechanism",
    "Law",
    "MaskedDP",
    "MaskedParameters",
    "Mechanism",
    "NetworkDP",
    "NoPrivacy",
    "Noise",
    "Plan",
    "PrivacyEvent",
    "PrivacyRequest",
    "Release",
    "ReleaseEvent",
    "ScaleRule",
    "SecureParameters",
    "SecureSumDP",
    "Sees",
    "SignalDP",
    "Skellam",
    "Span",
    "Statistic",
    "Status",
    "Unit",
    "best",
    "compose",
    "guarantee_of",
    "network_cost",
    "plan",
    "spent",
]

__getattr__ = lazily(__name__, _WHERE)
