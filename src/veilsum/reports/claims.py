"""Every claim of a page with its status and the place of its proof or evidence."""

from __future__ import annotations

from typing import NamedTuple

from veilsum._html import Markup, badge, element, table
from veilsum.privacy import Noise, Status
from veilsum.privacy.odds import upward
from veilsum.reports.audits import AuditedClaim
from veilsum.reports.terms import Mode, SignOffTerms
from veilsum.results import units


class StatedClaim(NamedTuple):
    """A claim, its status, and where its proof is: a page of docs/ and its heading."""

    claim: str
    status: str
    page: str
    heading: str
    tests: str


PROOFS = {
    Mode.LOCAL: ("privacy.md", "The guarantee", "tests/attacks"),
    Mode.NETWORK: ("privacy.md", "What Network DP costs later", "tests/attacks"),
    Mode.MASKED: ("masked-sum.md", "The guarantee", "tests/agents/masked"),
    Mode.NOTHING: ("privacy.md", "The guarantee", "tests/attacks"),
}
SENSITIVITY = ("families.md", "Families and signals", "tests/families")
EXACT = ("privacy.md", "Exact noise", "tests/privacy")
COMPOSITION = ("privacy.md", "Accounting", "tests/privacy")
BUDGET = ("privacy.md", "Budgets of a stream", "tests/agents/ledger")
SENT = ("threat-model.md", "What leaves a site", "tests/agents")
OUTSIDE = (
    "Nobody outside the project has read these proofs yet. The tests attack what they claim; that is "
    "no substitute."
)
COLLUDERS = ("masked-sum.md", "What a wrong number of colluders costs", "tests/privacy")


def claims(terms: SignOffTerms) -> list[StatedClaim]:
    """The claims of a page, each with its status.

    Parameters
    ----------
    terms
        The public terms.

    Returns
    -------
    list of StatedClaim
        The guarantee first.
    """
    family, proved = terms.problem.family, Status.PROVED.value
    found = [
        StatedClaim(
            "Epsilon for a member's signal", terms.signals.status.value, *PROOFS[terms.mode]
        )
    ]
    if terms.mode is Mode.NOTHING:
        return found
    if terms.mode is Mode.NETWORK:
        claim = "Epsilon for neighbours' estimates, all messages of an agent"
        found.append(StatedClaim(claim, terms.guarantee.status.value, *PROOFS[terms.mode]))
    sensitivity = proved if family.sensitivity_is_proved else Status.CLAIMED.value
    found.append(
        StatedClaim(f"How far a reading moves {family.formula}", sensitivity, *SENSITIVITY)
    )
    exact = terms.guarantee.noise is Noise.EXACT
    noise = "The noise that leaves a site is drawn exactly" if exact else "The noise is ideal"
    found.append(StatedClaim(noise, proved if exact else "assumed", *EXACT))
    found.append(StatedClaim("Readings and runs add up", proved, *COMPOSITION))
    if terms.budget is not None:
        found.append(StatedClaim("The ledger refuses what exceeds the budget", "tested", *BUDGET))
    found.append(StatedClaim("Nothing else is sent", "tested", *SENT))
    if terms.mode is Mode.MASKED:
        found.append(StatedClaim("The number of colluders", "assumed", *COLLUDERS))
    return found


def claim_table(terms: SignOffTerms) -> list[Markup]:
    """The claims as a table, and the reason of the guarantee in full."""
    rows = [
        (c.claim, _mark(c.status), f"docs/{c.page}, “{c.heading}”", c.tests) for c in claims(terms)
    ]
    made = table(("claim", "status", "proof", "tests"), rows, stacked=True)
    erratum = terms.guarantee.erratum
    see = f" See docs/errata.md, erratum {erratum}." if erratum else ""
    full = units.in_sentence(str(terms.guarantee), terms.job.unit)
    return [
        made,
        element("p", OUTSIDE, class_="missing"),
        element("p", f"In full: {full}{see}", class_="faint"),
    ]


def _mark(status: str) -> Markup:
    if status in ("tested", "assumed"):
        return element("span", status, class_="badge mend")
    return badge(status)


def audit_table(audited: list[AuditedClaim] | None) -> list[Markup]:
    """What attacks found, or that none was made."""
    if audited is None:
        text = (
            "Not run. `veilsum report --audit` attacks the mechanism and states the epsilon that it "
            "proves at least."
        )
        return [element("p", text, class_="missing")]
    if not audited:
        return [element("p", "Nothing is guaranteed: there is nothing to audit.", class_="stop")]
    rows = [
        (
            report.name,
            _verdict(report.refuted),
            upward(report.epsilon),
            f"{max(report.lower_bound, 0.0):.4g}" if report.trials else "-",
            "-" if report.exact is None else f"{report.exact:.4g}",
            f"{report.trials:,}" if report.trials else "-",
        )
        for report, _ in audited
    ]
    heads = ("attack on", "verdict", "claimed", "at least", "exactly", "runs a side")
    sure = max((r.confidence for r, _ in audited if r.trials), default=0.0)
    text = (
        "`At least` is the epsilon that samples prove to be spent, with confidence "
        f"1 - {1 - sure:.0e}; `exactly` follows from the likelihoods. An attack can refute a claim; "
        "one that does not is no proof. A masked sum is attacked session by session."
    )
    return [table(heads, rows, stacked=True), element("p", text, class_="faint")]


def _verdict(refuted: bool) -> Markup:
    if refuted:
        return element("span", "refuted", class_="badge bad")
    return element("span", "not refuted", class_="badge good")
