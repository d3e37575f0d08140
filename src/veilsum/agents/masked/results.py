"""Adding up: the sum over a stated roster, from public records alone, the same at every agent.

A session has one result at most. Every member of a roster was ready for one gamma, the hash of all
commitments, and an honest member is ready once; each value must open the commitment in it.

A member that contradicted itself leaves a choice of keys or values. Whoever prepared a value for the
roster knows its keys, and whoever is ready its commitments: nothing is left to choose (`Known`).
Others, who came late or restarted, try the combinations, those first that differ least from what was
heard first, and at most `MOST_CHOICES`: beyond, they have no result of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import combinations, islice
from typing import NamedTuple, TypeVar

import numpy as np

from veilsum.agents.masked import masks
from veilsum.agents.masked.entries import StoredSum
from veilsum.agents.masked.flooding import Agreement, RecordSet
from veilsum.agents.masked.records import (
    Commit,
    Masked,
    Present,
    Ready,
    Record,
    Roster,
    commitment,
    commitments_digest,
)
from veilsum.agents.masked.terms import MaskedTerms

T = TypeVar("T")
NEEDED = ("Present", "Commit", "Ready", "Masked")  # of every member of a roster
MOST_CHOICES = 1024  # combinations that are tried where members contradicted themselves


class SumResult(NamedTuple):
    """The sum over a roster, and everything that identifies it.

    Parameters
    ----------
    query, attempt, view : int
        Which session.
    rho : bytes
        The roster with its keys.
    members : tuple of str
        Whose values are in the sum.
    readings : tuple of int
        How many readings each of them contributed.
    totals : tuple of int
        One for each component, in grid steps, noise included.
    """

    query: int
    attempt: int
    view: int
    rho: bytes
    members: tuple[str, ...]
    readings: tuple[int, ...]
    totals: tuple[int, ...]

    @property
    def means(self) -> tuple[float, ...]:
        """totals/readings, in grid steps: the nearest float, the same everywhere."""
        return tuple(total / sum(self.readings) for total in self.totals)

    def stored(self, terms: MaskedTerms) -> StoredSum:
        """The same for a ledger: members by their numbers."""
        members = tuple(terms.numbers[label] for label in self.members)
        return StoredSum(*self[:4], members, self.readings, self.totals)


class Known(NamedTuple):
    """A roster that this agent has prepared a value for, with its keys and readings."""

    roster: Roster
    present: dict[str, masks.Participant]


def add_up(
    terms: MaskedTerms,
    records: RecordSet,
    query: int,
    attempt: int,
    view: int,
    sid: bytes,
    known: Known | None = None,
) -> SumResult | None:
    """The result of a session, or None while something is missing or does not fit."""
    place, proposer = (query, attempt, view), terms.proposer(query, attempt, view)
    heard = [one for one in _records(records, sid, "Roster", proposer) if isinstance(one, Roster)]
    prepared = [] if known is None else [known.roster]
    for roster in [*prepared, *(one for one in heard if one not in prepared)]:
        if roster.members[-1] >= terms.parameters.n:
            continue
        if records.count(sid, "Masked") < len(roster.members):
            continue
        labels = terms.labels_of(roster.members)
        compute = partial(_sum, terms, records, place, sid, roster, known)
        whole = all(records.gather(sid, kind, labels) for kind in NEEDED)
        found: SumResult | None = (
            records.derived(sid, (roster, place), compute) if whole else compute()
        )
        if found is not None:
            return found
    return None


def _sum(
    terms: MaskedTerms,
    records: RecordSet,
    place: tuple[int, int, int],
    sid: bytes,
    roster: Roster,
    known: Known | None,
) -> SumResult | None:
    """The sum over one roster; None if a record is missing or does not fit, or the sum is implausible."""
    is_known = known is not None and known.roster.rho == roster.rho
    present = known.present if known and is_known else _participants(terms, records, sid, roster)
    words = _opened(records, sid, roster.rho, list(present)) if present else None
    if words is None or len({len(one) for one in words}) != 1:
        return None
    total = np.array(words, dtype=np.uint64).sum(axis=0, dtype=np.uint64)
    totals = masks.centred(np.atleast_1d(total))
    readings = tuple(one.readings for one in present.values())
    if not all(terms.parameters.plausible(one, readings) for one in totals):
        return None
    return SumResult(*place, roster.rho, tuple(present), readings, totals)


def _records(records: RecordSet, sid: bytes, kind: str, label: str) -> list[Record]:
    """The record at a place, and the one that contradicts it."""
    return [signed.record for signed in records.both(sid, kind, label)]


def _participants(
    terms: MaskedTerms, records: RecordSet, sid: bytes, roster: Roster
) -> dict[str, masks.Participant]:
    """The members that rho stands for, with their readings; empty if it does not stand for these."""
    numbers = terms.parameters
    if roster.members[-1] >= numbers.n or len(roster.members) < numbers.smallest_roster:
        return {}
    labels = [terms.labels[number] for number in roster.members]
    choices = [
        [
            masks.Participant(one.key, one.readings)
            for one in _records(records, sid, "Present", label)
            if isinstance(one, Present)
        ]
        for label in labels
    ]
    for chosen in _combinations(choices):
        present = dict(zip(labels, chosen, strict=True))
        if masks.roster_digest(terms.manifest, sid, present) == roster.rho:
            return present
    return {}


def _opened(
    records: RecordSet, sid: bytes, rho: bytes, labels: list[str]
) -> list[tuple[int, ...]] | None:
    """The values of a whole roster, each opening a commitment of the gamma that all are ready for."""
    agreement = records.agreed(sid)
    ours = agreement is not None and agreement.rho == rho
    if agreement is not None and ours and agreement.commitments:
        return _agreed_values(records, sid, agreement, labels)
    gammas = {agreement.gamma} if agreement is not None and ours else set()
    for label in () if ours else labels:
        ready = records.get(sid, "Ready", label)
        if ready is not None and isinstance(ready.record, Ready) and ready.record.rho == rho:
            gammas.add(ready.record.gamma)
    for gamma in gammas:
        choices = [_openings(records, sid, rho, gamma, label) for label in labels]
        for values in _combinations(choices):
            hidden = {one.label: commitment(sid, one.label, one.words, one.salt) for one in values}
            if commitments_digest(rho, hidden) == gamma:
                return [one.words for one in values]
    return None


def _agreed_values(
    records: RecordSet, sid: bytes, agreement: Agreement, labels: list[str]
) -> list[tuple[int, ...]] | None:
    """The values that open the commitments which this agent is ready for: one for each member."""
    found = []
    for label in labels:
        said = (one for one in _records(records, sid, "Masked", label) if isinstance(one, Masked))
        words = [
            one.words
            for one in said
            if (one.rho, one.gamma) == (agreement.rho, agreement.gamma)
            and commitment(sid, label, one.words, one.salt) == agreement.commitments[label]
        ]
        if not words:
            return None
        found.append(words[0])
    return found


def _combinations(choices: list[list[T]]) -> Iterator[tuple[T, ...]]:
    """One of each, in order of how many are not the first; at most `MOST_CHOICES` of them."""
    if not all(choices):
        return
    first = [one[0] for one in choices]
    open_ = [k for k, one in enumerate(choices) if len(one) > 1]
    changes = (which for size in range(len(open_) + 1) for which in combinations(open_, size))
    for which in islice(changes, MOST_CHOICES):
        chosen = list(first)
        for k in which:
            chosen[k] = choices[k][1]
        yield tuple(chosen)


def _openings(records: RecordSet, sid: bytes, rho: bytes, gamma: bytes, label: str) -> list[Masked]:
    """A member's values that open one of its commitments: one, or two if it contradicted itself.

    Empty if it was not ready for gamma.
    """
    said = {kind: _records(records, sid, kind, label) for kind in ("Commit", "Ready", "Masked")}
    ready = {(one.rho, one.gamma) for one in said["Ready"] if isinstance(one, Ready)}
    committed = {
        one.commitment for one in said["Commit"] if isinstance(one, Commit) and one.rho == rho
    }
    return [
        one
        for one in said["Masked"]
        if isinstance(one, Masked)
        and (one.rho, one.gamma) == (rho, gamma)
        and (rho, gamma) in ready
        and commitment(sid, label, one.words, one.salt) in committed
    ]
