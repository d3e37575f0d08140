"""Adding up: the sum over a stated roster, from public records alone, the same at every agent.

A session has one result at most. Every member of a roster was ready for one gamma, the hash of all
commitments, and an honest member is ready once; each value must open the commitment in it.
"""

from __future__ import annotations

import math
from itertools import product
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

MOST_CHOICES = 1024  # of values, where members contradicted themselves; beyond, there is no result


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
    choices = [
        [one.key for one in _records(records, sid, "Present", label) if isinstance(one, Present)]
        for label in labels
    ]
    if not all(choices) or math.prod(map(len, choices)) > MOST_CHOICES:
        return []
    fits = any(
        masks.roster_digest(terms.manifest, sid, dict(zip(labels, keys, strict=True))) == roster.rho
        for keys in product(*choices)
    )
    return labels if fits else []


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
        choices = [_openings(records, sid, rho, gamma, label) for label in labels]
        if not all(choices) or math.prod(map(len, choices)) > MOST_CHOICES:
            continue
        for values in product(*choices):
            hidden = {one.label: commitment(sid, one.label, one.words, one.salt) for one in values}
            if commitments_digest(rho, hidden) == gamma:
                return [one.words for one in values]
    return None


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
