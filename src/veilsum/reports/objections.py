"""Reasons not to sign, whatever the numbers are; their words are in sign/objections.html."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

from veilsum._numbers import upward
from veilsum.front.page import templates
from veilsum.privacy import Status
from veilsum.privacy.accounting import repeated
from veilsum.privacy.guarantee import MOST_USEFUL
from veilsum.reports.audits import AuditedClaim
from veilsum.reports.terms import Mode, SignOffTerms


class Objection(StrEnum):
    """A reason, by the name that its words have in the template."""

    NOT_PROVED = "not proved"
    MORE_NOT_PROVED = "more not proved"
    NOT_USEFUL = "not useful"
    REFUTED = "refuted by attack"
    AGENTS_REFUSE = "agents refuse"
    ONLY_SIMULATED = "only simulated"
    SEED = "seed"
    REPLICAS = "replicas"


def objections(terms: SignOffTerms, audited: Sequence[AuditedClaim] = ()) -> list[str]:
    """What speaks against a signature, a sentence or two each; empty if nothing does."""
    said = templates().get_template("sign/objections.html")
    values = {
        "terms": terms,
        "signals": terms.signals,
        "guarantee": terms.guarantee,
        "whole": terms.signals.for_whole_value() if terms.holds else terms.signals,
        "of_replicas": repeated(terms.signals.cost, terms.spec.replicas) if terms.holds else None,
        "most_useful": f"{MOST_USEFUL:g}",
        "upward": upward,
    }
    return [" ".join(said.render(why=why, **values).split()) for why in _found(terms, audited)]


def _found(terms: SignOffTerms, audited: Sequence[AuditedClaim]) -> Iterator[Objection]:
    if terms.signals.status is not Status.PROVED:
        yield Objection.NOT_PROVED
    elif terms.guarantee.status is not Status.PROVED:
        yield Objection.MORE_NOT_PROVED
    if terms.holds and not terms.signals.useful and not terms.reason:
        yield Objection.NOT_USEFUL
    if any(report.refuted for report, _ in audited):
        yield Objection.REFUTED
    if terms.refused and terms.mode is Mode.NETWORK:
        yield Objection.AGENTS_REFUSE
    elif terms.measured and terms.refused and terms.mode is not Mode.NOTHING:
        yield Objection.ONLY_SIMULATED
    if terms.measured and terms.spec.seed is not None:
        yield Objection.SEED
    if terms.measured and terms.spec.replicas > 1:
        yield Objection.REPLICAS
