"""The rules that privacy rests on, where each is enforced, and R1, R5 and R6 as functions.

A function has the sessions of a query before and after a step, or raises `LedgerError`.

A ledger keeps the sessions and asks here what may follow; on which medium it keeps them is its own
matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from veilsum.agents.masked.entries import Prepared, SessionEntry, Stage
from veilsum.errors import LedgerError

if TYPE_CHECKING:
    from veilsum.agents.masked.records import SignedRecord

Entries = tuple[SessionEntry, ...]

_STEPS, _SESSION = "agents.masked.rules:", "agents.masked.session:Session"
_LEDGER = "agents.ledger.sessions:DiskSessionLedger"
RULES: tuple[tuple[str, str, tuple[str, ...]], ...] = (  # what it asks for, and where enforced
    (
        "R1",
        "at most one sent value for each query and attempt, for ever; PREPARED, SENT and WITHDRAWN "
        "are durable before Commit, Masked and Withdraw",
        (f"{_STEPS}sent", f"{_STEPS}withdrawn", f"{_LEDGER}.send", f"{_LEDGER}.withdraw"),
    ),
    (
        "R2",
        "a roster is a set of members of the manifest with at least n - d of them, this agent among "
        "them with its present key",
        ("agents.masked.roster:objection",),
    ),
    (
        "R3",
        "ephemeral keys are signed by the signing keys that the manifest pins",
        ("agents.masked.pool:RecordPool.verify", "agents.masked.records:is_valid"),
    ),
    (
        "R4",
        "a fresh ephemeral key, in memory only, and fresh noise for every session; masks are bound "
        "to session and roster",
        (f"{_SESSION}._enter", "agents.masked.masks:pair_info"),
    ),
    (
        "R5",
        "at most A attempts for a query, one open at a time, and only if A epsilon are left; later "
        "rosters leave out whoever fell silent",
        (f"{_LEDGER}.begin_query", f"{_STEPS}opened", "agents.masked.roster:missing_members"),
    ),
    (
        "R6",
        "one Commit and one Ready for a session; nothing visible depends on statistic, noise or masks",
        (f"{_STEPS}prepared", f"{_STEPS}ready"),
    ),
)


def opened(query: int, attempts: int, entries: Entries, entry: SessionEntry) -> Entries:
    """R5: attempts in order and at most A, one open at a time; a view is never used twice."""
    if not 0 <= entry.attempt < attempts:
        raise LedgerError(f"attempt {entry.attempt + 1} of query {query}, which has {attempts}")
    if entries:
        last = entries[-1]
        if (entry.attempt, entry.view) <= (last.attempt, last.view):
            raise LedgerError(f"view {entry.view} of query {query} was used before")
        if last.stage is Stage.PREPARED:
            raise LedgerError("a prepared session is open; withdraw it first")
        if entry.attempt == last.attempt and last.sent:
            raise LedgerError("this attempt has sent its value; begin the next attempt")
    fresh = SessionEntry(entry.attempt, entry.view, entry.sid, present=entry.present)
    return (*entries, fresh)


def prepared(query: int, entries: Entries, value: Prepared) -> Entries:
    """R6: one Commit per session."""
    last = _last(query, entries, Stage.OPENED)
    if value.sid != last.sid:
        raise LedgerError("the prepared value is of another session")
    if last.commitment:  # of a backup, which has no masked value
        raise LedgerError("this session has committed to a value that is lost; wait for its end")
    hashes = replace(last, commitment=value.commitment, rho=value.rho)
    return (*entries[:-1], replace(hashes, stage=Stage.PREPARED, prepared=value))


def ready(query: int, entries: Entries, gamma: bytes) -> Entries:
    """R6: one Ready per session."""
    last = _last(query, entries, Stage.PREPARED)
    if last.gamma not in (b"", gamma):
        raise LedgerError("this session was ready for other commitments")
    return (*entries[:-1], replace(last, gamma=gamma))


def sent(query: int, entries: Entries) -> Entries:
    """R1: the one masked value of this attempt; a second one has no way here."""
    last = _last(query, entries, Stage.PREPARED)
    if not last.gamma or last.prepared is None:
        raise LedgerError("a value is sent only after Ready")
    if any(entry.attempt == last.attempt and entry.sent for entry in entries):
        raise LedgerError(f"attempt {last.attempt + 1} of query {query} has sent a value")
    return (*entries[:-1], replace(last, stage=Stage.SENT))


def withdrawn(query: int, entries: Entries) -> Entries:
    """R1: what is withdrawn is gone."""
    last = _last(query, entries, Stage.PREPARED)
    return (*entries[:-1], replace(last, stage=Stage.WITHDRAWN, prepared=None))


def refunded(
    query: int, entries: Entries, attempt: int, withdraws: Sequence[SignedRecord], needed: int = 1
) -> Entries:
    """Of what was sent, with so many members' withdrawals; the attempt stays used (R1, R5)."""
    found = [e for e in entries if e.attempt == attempt and e.stage is Stage.SENT]
    if len(found) != 1 or count_withdrawals(withdraws, found[0].sid, found[0].rho) < needed:
        raise LedgerError(
            f"attempt {attempt + 1} of query {query} has nothing charged, or a refund without the "
            "withdrawals of enough members from its roster"
        )
    return _replaced(entries, found[0], Stage.REFUNDED)


def reinstated(query: int, entries: Entries, attempt: int) -> Entries:
    """Of what was refunded: it counts as sent and charged again."""
    found = [e for e in entries if e.attempt == attempt and e.stage is Stage.REFUNDED]
    if len(found) != 1:
        raise LedgerError(f"attempt {attempt + 1} of query {query} was not refunded")
    return _replaced(entries, found[0], Stage.SENT)


def count_withdrawals(withdraws: Iterable[SignedRecord], sid: bytes, rho: bytes) -> int:
    """How many members withdrew from this roster, by these records."""
    from veilsum.agents.masked.records import Withdraw  # loads cryptography

    found = (one.record for one in withdraws)
    return len({r.label for r in found if isinstance(r, Withdraw) and (r.sid, r.rho) == (sid, rho)})


def _replaced(entries: Entries, found: SessionEntry, stage: Stage) -> Entries:
    changed = replace(found, stage=stage)
    return tuple(changed if entry is found else entry for entry in entries)


def _last(query: int, entries: Entries, stage: Stage) -> SessionEntry:
    if not entries or entries[-1].stage is not stage:
        found = entries[-1].stage.value if entries else "nothing"
        raise LedgerError(f"query {query} is {found}, expected {stage.value}")
    return entries[-1]
