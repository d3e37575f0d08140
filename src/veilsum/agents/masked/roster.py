"""R2: which rosters an agent accepts, and which one a proposer proposes.

A roster is a set of members of the manifest, at least n - d of them, this agent among them with its
own present key, every one present once, and with a batch that the terms allow.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from veilsum.agents.masked import masks
from veilsum.agents.masked.flooding import Agreement, RecordSet
from veilsum.agents.masked.pool import opened_by
from veilsum.agents.masked.records import Masked, Present, Roster, SignedRecord
from veilsum.agents.masked.terms import MaskedTerms

Participants = dict[str, masks.Participant]


def objection(
    terms: MaskedTerms,
    records: RecordSet,
    sid: bytes,
    roster: Roster,
    own: tuple[str, masks.Participant | None],
    left: AbstractSet[str] = frozenset(),
    silent: AbstractSet[int] = frozenset(),
) -> str:
    """Why a roster is not accepted, or empty; it may become acceptable as records arrive.

    Parameters
    ----------
    terms : MaskedTerms
        What all members agree on.
    records : RecordSet
        What this agent has heard.
    sid : bytes
        The session.
    roster : Roster
        What its proposer proposes.
    own : (str, Participant or None)
        Which member this is, with its present key; None if it has none.
    left : set of str
        Members that have left the view.
    silent : set of int
        Members that fell silent in an earlier attempt.

    Returns
    -------
    str
        What is wrong.
    """
    label, participant = own
    numbers = terms.parameters
    if roster.members[-1] >= numbers.n:
        return "a number of no member"
    if len(roster.members) < numbers.smallest_roster:
        return f"{len(roster.members)} members, expected {numbers.smallest_roster} at least"
    if terms.numbers[label] not in roster.members:
        return "without this agent"
    if participant is None:
        return "this agent has no key"
    found = participants(terms, records, sid, roster.members, left)
    if found is None:
        return "a member that is not present, has left, has two keys, or too many readings"
    if found[label] != participant:
        return "another key of this agent"
    if roster_digest(terms, records, sid, roster.members, found) != roster.rho:
        return "rho of other keys or readings"
    if not silent.isdisjoint(roster.members):
        return "a member that fell silent in an earlier attempt"
    return ""


def participants(
    terms: MaskedTerms,
    records: RecordSet,
    sid: bytes,
    members: tuple[int, ...],
    left: AbstractSet[str] = frozenset(),
) -> Participants | None:
    """Keys and readings of a roster; None unless each member is present, once, and has not left."""
    if records.count(sid, "Present") < len(members):
        return None
    labels = terms.labels_of(members)
    present = records.gather(sid, "Present", labels)
    if present is None:
        return None
    if left and not left.isdisjoint(labels):
        return None
    found: Participants = records.derived(
        sid, ("participants", labels), lambda: dict(map(_participant, present))
    )
    longest = terms.parameters.longest_batch
    return found if all(one.readings <= longest for one in found.values()) else None


def _participant(signed: SignedRecord) -> tuple[str, masks.Participant]:
    record = signed.record
    assert isinstance(record, Present)
    return record.label, masks.Participant(record.key, record.readings)


def roster_digest(
    terms: MaskedTerms,
    records: RecordSet,
    sid: bytes,
    members: tuple[int, ...],
    found: Participants,
) -> bytes:
    """rho of what `participants` found, computed once per process."""
    labels = terms.labels_of(members)
    rho: Any = records.derived(
        sid, ("rho", labels), lambda: masks.roster_digest(terms.manifest, sid, found)
    )
    return bytes(rho)


class Missing(NamedTuple):
    """Members that have not opened their commitment although all were ready (R5).

    Parameters
    ----------
    silent : frozenset of int
        Those that have not withdrawn either, or opened something else: they are in no later roster.
    withdrawn : frozenset of int
        Those that withdrew: an honest one did not hear in time that all were ready. A proposer
        leaves them out if n - d members remain.
    """

    silent: frozenset[int] = frozenset()
    withdrawn: frozenset[int] = frozenset()


def missing_members(
    terms: MaskedTerms,
    records: RecordSet,
    sent: Iterable[tuple[bytes, bytes, tuple[int, ...]]],
    label: str,
) -> Missing:
    """Who is missing in sessions whose values were sent.

    Parameters
    ----------
    terms : MaskedTerms
        What all members agree on.
    records : RecordSet
        What this agent has heard.
    sent : iterable of (bytes, bytes, tuple of int)
        Each session, its rho, and the members of its roster.
    label : str
        This agent, which never misses itself.

    Returns
    -------
    Missing
        Of all these sessions.
    """
    silent: set[int] = set()
    withdrawn: set[int] = set()
    for sid, rho, members in sent:
        values, left = records.of(sid, "Masked"), records.of(sid, "Withdraw")
        liars = {who for _, who in records.contradictions(sid)}
        agreement = records.agreed(sid)
        for number in members:
            who = terms.labels[number]
            said = [values[who]] if who in values else []
            if who in liars:
                said = records.both(sid, "Masked", who)
            if who == label or any(_opens(one, rho, agreement) for one in said):
                continue
            (withdrawn if who in left and not said else silent).add(number)
    return Missing(frozenset(silent), frozenset(withdrawn - silent))


def _opens(signed: SignedRecord, rho: bytes, agreement: Agreement | None) -> bool:
    """Whether a value that is held opens what the roster agreed on, as far as this agent knows."""
    value = signed.record
    if not isinstance(value, Masked) or value.rho != rho:
        return False
    if agreement is None or agreement.rho != rho:
        return True
    hidden = agreement.commitments.get(value.label)
    return value.gamma == agreement.gamma and hidden in (None, opened_by(value))


def proposal(
    terms: MaskedTerms, records: RecordSet, sid: bytes, label: str, left: AbstractSet[str],
    missing: Missing, waiting: bool,
) -> Roster | None:  # fmt: skip
    """The roster of those present: when all are, or, no longer waiting, when enough are.

    Without those missing in an earlier attempt; with those of them that withdrew if it cannot be
    without.
    """
    numbers = terms.parameters
    without = missing.silent | missing.withdrawn
    if missing.withdrawn and numbers.n - len(without) >= numbers.smallest_roster:
        found = _proposal(terms, records, sid, label, left, without, waiting)
        if found is not None or waiting:
            return found
    return _proposal(terms, records, sid, label, left, missing.silent, waiting)


def _proposal(
    terms: MaskedTerms, records: RecordSet, sid: bytes, label: str, left: AbstractSet[str],
    without: AbstractSet[int], waiting: bool,
) -> Roster | None:  # fmt: skip
    numbers = terms.parameters
    enough = numbers.n - len(without) if waiting else numbers.smallest_roster
    if records.count(sid, "Present") < enough:
        return None
    bad = left | {who for kind, who in records.contradictions(sid) if kind == "Present"}
    usable = {
        name
        for name, one in records.of(sid, "Present").items()
        if name not in bad
        and isinstance(one.record, Present)
        and one.record.readings <= numbers.longest_batch
    }
    members = tuple(k for k, name in enumerate(terms.labels) if name in usable and k not in without)
    if len(members) < max(enough, numbers.smallest_roster):
        return None
    found = participants(terms, records, sid, members)
    if found is None:
        return None
    return Roster(sid, label, roster_digest(terms, records, sid, members, found), members)
