"""Every claim of a page with its status and the place of its proof; its words are in sign/claims.html."""

from __future__ import annotations

from typing import NamedTuple

from veilsum.privacy import Noise, Status
from veilsum.reports.terms import SUMS, Mode, SignOffTerms


class StatedClaim(NamedTuple):
    """The name of a claim, its status, and where its proof is: a page of docs/ and its heading."""

    name: str
    status: str
    page: str
    heading: str
    tests: str


PROOFS = {
    Mode.LOCAL: ("privacy.md", "The guarantee", "tests/attacks"),
    Mode.NETWORK: ("privacy.md", "What Network DP costs later", "tests/attacks"),
    Mode.SECURE: ("privacy.md", "Secure sums", "tests/privacy"),
    Mode.MASKED: ("masked-sum.md", "The guarantee", "tests/agents/masked"),
    Mode.NOTHING: ("privacy.md", "The guarantee", "tests/attacks"),
}
SENSITIVITY = ("families.md", "Families and signals", "tests/families")
EXACT = ("privacy.md", "Exact noise", "tests/privacy")
COMPOSITION = ("privacy.md", "Accounting", "tests/privacy")
BUDGET = ("privacy.md", "Budgets of a stream", "tests/agents/ledger")
SENT = ("threat-model.md", "What leaves a site", "tests/agents")
COLLUDERS = {
    Mode.SECURE: ("privacy.md", "Secure sums", "tests/privacy"),
    Mode.MASKED: ("masked-sum.md", "What a wrong number of colluders costs", "tests/privacy"),
}


def claims(terms: SignOffTerms) -> list[StatedClaim]:
    """The claims of a page, each with its status; the guarantee first."""
    proofs, proved = PROOFS[terms.mode], Status.PROVED.value
    found = [StatedClaim("signal", terms.signals.status.value, *proofs)]
    if terms.mode is Mode.NOTHING:
        return found
    if terms.mode is Mode.NETWORK:
        found.append(StatedClaim("neighbours", terms.guarantee.status.value, *proofs))
    known = terms.problem.family.moves(terms.problem.privacy.reach).status
    found.append(StatedClaim("sensitivity", known.value, *SENSITIVITY))
    if terms.guarantee.noise is Noise.EXACT:
        found.append(StatedClaim("exact noise", proved, *EXACT))
    else:
        found.append(StatedClaim("ideal noise", "assumed", *EXACT))
    found.append(StatedClaim("sums", proved, *COMPOSITION))
    if terms.budget is not None:
        found.append(StatedClaim("budget", "tested", *BUDGET))
    found.append(StatedClaim("sent", "tested", *SENT))
    if terms.mode in SUMS:
        found.append(StatedClaim("colluders", "assumed", *COLLUDERS[terms.mode]))
    return found
