"""The evidence of refunds in a ledger: signed withdrawals, and what `verify` checks of them.

Who the members are and what their keys are is in the manifest, which a ledger has the digest of: the
agent checks signatures and roster before it refunds, and this check does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from veilsum.agents.ledger.records import REFUND, REINSTATED, LedgerChange, LedgerEntry
from veilsum.agents.ledger.session_rows import SessionRow
from veilsum.agents.masked.rules import count_withdrawals
from veilsum.errors import AgentError

if TYPE_CHECKING:
    from veilsum.agents.masked.records import SignedRecord


def evidence_of(change: LedgerChange) -> tuple[SignedRecord, ...]:
    """The withdrawals that a refund rests on."""
    from veilsum.agents.masked.records import decode_record  # loads cryptography

    return tuple(decode_record(bytes.fromhex(text)) for text in json.loads(change.now))


def check_refunds(
    changes: Sequence[LedgerChange], sent: Iterable[LedgerEntry], sessions: Sequence[SessionRow]
) -> list[str]:
    """Refunds without the withdrawals that they need, or of what was not charged.

    Parameters
    ----------
    changes : sequence of LedgerChange
        All of them, in order.
    sent : iterable of LedgerEntry
        The masked values that were sent.
    sessions : sequence of SessionRow
        All sessions.

    Returns
    -------
    list of str
        Problems.
    """
    found = [change for change in changes if change.kind in (REFUND, REINSTATED)]
    if not found:
        return []
    places = {one.seq: (one.reading, one.attempt - 1) for one in sent if one.attempt}
    rows = {(row.query, row.attempt): row for row in sessions if row.stage == "sent"}
    problems: list[str] = []
    gone: set[int] = set()
    for change in found:
        release = json.loads(change.before)["release"]
        row = rows.get(places.get(release, (0, 0)))
        if row is None or (change.kind == REFUND) == (release in gone):
            problems.append(
                f"change {change.number} takes a charge back or again that is not there"
            )
        elif change.kind == REFUND and not _is_proved(change, row):
            problems.append(f"change {change.number} is a refund without enough withdrawals")
        gone ^= {release}
    return problems


def _is_proved(change: LedgerChange, row: SessionRow) -> bool:
    try:
        withdraws = evidence_of(change)
    except (ValueError, AgentError):
        return False
    needed = int(json.loads(change.before)["needed"])
    others = [one for one in withdraws if one.record.label != change.by]
    return count_withdrawals(others, row.sid, row.rho) >= needed >= 2
