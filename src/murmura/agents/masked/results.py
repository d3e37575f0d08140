"""Adding up: the sum over a stated roster, from public records alone, the same at every agent.

A session has one result at most. Every member of a roster was ready for one gamma, the hash of all
commitments, and an honest member is ready once; each value must open the commitment in it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from murmura.agents.masked import masks
from murmura.agents.masked.flooding import RecordSet
from murmura.agents.masked.records import (
    Commit,
    Masked,
    Present,
    Ready,
    Record,
    Roster,
    commitment,
    commitments_digest,
)
from murmura.agents.masked.terms import MaskedTerms


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
    totals : tuple of int
        One for each component, in grid steps, noise included.
    """

    query: int
    attempt: int
    view: int
    rho: bytes
    members: tuple[str, ...]
    totals: tuple[int, ...]

    @property
    def means(self) -> tuple[float, ...]:
        """totals/|F|, in grid steps: the nearest float, the same everywhere."""
        return tuple(total / len(self.members) for total in self.totals)


def add_up(
    terms: MaskedTerms, records: RecordSet, query: int, attempt: int, view: int, sid: bytes
) -> SumResult | None:
    """The result of a session, or None while something is missing or does not fit."""
    for roster in _records(records, sid, "Roster", terms.proposer(query, attempt, view)):
        assert isinstance(roster, Roster)
        labels = _labels(terms, records, sid, roster)
        words = _opened(records, sid, roster.rho, labels) if labels else None
        if words is None:
            continue
        size = len(words[0])
        if any(len(one) != size for one in words):
            continue
        total = np.array(words, dtype=np.uint64).sum(axis=0, dtype=np.uint64)
        totals = masks.centred(np.atleast_1d(total))
        if all(terms.parameters.plausible(one, len(labels)) for one in totals):
            return SumResult(query, attempt, view, roster.rho, tuple(labels), totals)
    return None


def _records(records: RecordSet, sid: bytes, kind: str, label: str) -> list[Record]:
    """The record at a place, and the one that contradicts it."""
    return [signed.record for signed in records.both(sid, kind, label)]


def _labels(terms: MaskedTerms, records: RecordSet, sid: bytes, roster: Roster) -> list[str]:
    """The members that rho stands for; empty if it does not stand for these."""
    numbers = terms.parameters
    if roster.members[-1] >= numbers.n or len(roster.members) < numbers.smallest_roster:
        return []
    labels = [terms.labels[number] for number in roster.members]
    keys = {}
    for label in labels:
        signed = records.get(sid, "Present", label)
        if signed is None or not isinstance(signed.record, Present):
            return []
        keys[label] = signed.record.key
    return labels if masks.roster_digest(terms.manifest, sid, keys) == roster.rho else []


def _opened(
    records: RecordSet, sid: bytes, rho: bytes, labels: list[str]
) -> list[tuple[int, ...]] | None:
    """The values of a whole roster, each opening a commitment of the gamma that all are ready for."""
    gammas = set()
    for label in labels:
        ready = records.get(sid, "Ready", label)
        if ready is not None and isinstance(ready.record, Ready) and ready.record.rho == rho:
            gammas.add(ready.record.gamma)
    for gamma in gammas:
        values, hidden = [], {}
        for label in labels:
            value = _opening(records, sid, rho, gamma, label)
            is_ready = any(
                isinstance(one, Ready) and (one.rho, one.gamma) == (rho, gamma)
                for one in _records(records, sid, "Ready", label)
            )
            if value is None or not is_ready:
                break
            values.append(value.words)
            hidden[label] = commitment(sid, label, value.words, value.salt)
        if len(values) == len(labels) and commitments_digest(rho, hidden) == gamma:
            return values
    return None


def _opening(records: RecordSet, sid: bytes, rho: bytes, gamma: bytes, label: str) -> Masked | None:
    """A member's value that opens one of its commitments."""
    committed = {
        one.commitment
        for one in _records(records, sid, "Commit", label)
        if isinstance(one, Commit) and one.rho == rho
    }
    for one in _records(records, sid, "Masked", label):
        if not isinstance(one, Masked) or (one.rho, one.gamma) != (rho, gamma):
            continue
        if commitment(sid, label, one.words, one.salt) in committed:
            return one
    return None
