"""What an agent has said: again after a restart, and whether its ledger knows what others heard.

Everything durable is written before it is said. An own record that the ledger does not know was said
by this agent after the ledger's present state was copied, or by another process with its key.
"""

from __future__ import annotations

from veilsum.agents.masked.entries import SessionEntry, Stage
from veilsum.agents.masked.records import (
    COUNT,
    HASH,
    Commit,
    Masked,
    Present,
    Ready,
    Record,
    Roster,
    Withdraw,
)
from veilsum.agents.masked.terms import MaskedTerms

NO_ROSTER = bytes(32)  # of a Withdraw: the key was lost before anything was prepared


def present_of(present: Present) -> bytes:
    """What a ledger remembers of a Present."""
    return present.key + present.readings.to_bytes(COUNT, "big")


def said_again(entry: SessionEntry, terms: MaskedTerms, label: str, query: int) -> list[Record]:
    """What an agent says again of a view after a restart: the same bytes, if it prepared a value.

    Present and Roster are among them: if everybody restarted, nobody else could say them again, and
    the sum could not be checked against its roster.

    Parameters
    ----------
    entry : SessionEntry
        What the ledger has of the view.
    terms : MaskedTerms
        What all members agree on.
    label : str
        Which member this is.
    query : int
        Which query.

    Returns
    -------
    list of Record
        Only a Withdraw if the value is gone, or the key was lost before there was one; nothing if a
        backup does not say which.
    """
    sid, prepared = entry.sid, entry.prepared
    if is_lost_value(entry):
        return []
    if prepared is None:
        return [Withdraw(sid, label, entry.rho or NO_ROSTER)]
    found: list[Record] = []
    if entry.present:
        readings = int.from_bytes(entry.present[HASH:], "big")
        found.append(Present(sid, label, entry.present[:HASH], readings))
    if terms.proposer(query, entry.attempt, entry.view) == label:
        found.append(Roster(sid, label, prepared.rho, prepared.members))
    found.append(Commit(sid, label, prepared.rho, prepared.commitment))
    if entry.gamma:
        found.append(Ready(sid, label, prepared.rho, entry.gamma))
    if entry.sent:
        words = prepared.words
        found.append(Masked(sid, label, prepared.rho, entry.gamma, prepared.salt, words))
    return found


def is_unknown(record: Record, entries: tuple[SessionEntry, ...]) -> bool:
    """Whether the ledger should know of an own record and does not: it was rolled back.

    Parameters
    ----------
    record : Record
        Signed by this agent.
    entries : tuple of SessionEntry
        What its ledger has of the query, in order.

    Returns
    -------
    bool
        True if the agent must stop.
    """
    entry = next((one for one in entries if one.sid == record.sid), None)
    if entry is None:
        return True
    if isinstance(record, Present):  # not in the set after a crash that lost its key
        return bool(entry.present) and present_of(record) != entry.present
    if isinstance(record, Roster):  # one that was proposed and not prepared for is in no ledger
        return bool(entry.rho) and record.rho != entry.rho
    if isinstance(record, Commit):
        return record.commitment != entry.commitment
    if isinstance(record, Ready):
        return record.gamma != entry.gamma
    if isinstance(record, Masked):
        return not entry.sent or entry.prepared is None or entry.prepared.words != record.words
    if isinstance(record, Withdraw):
        if record.rho == NO_ROSTER:  # said on leaving a view, so it is not the last one
            return entry.stage is not Stage.OPENED or entry is entries[-1]
        return entry.stage is not Stage.WITHDRAWN or record.rho != entry.rho
    return False


def is_lost_value(entry: SessionEntry) -> bool:
    """Whether a backup was restored that knows of a commitment only.

    Its value may have been sent since, so the agent must not say that it withdrew.
    """
    return bool(entry.commitment) and entry.prepared is None and entry.stage is not Stage.WITHDRAWN
