"""A query that an agent follows without taking part: records in, its result out.

A member without a reading, one that came late, and one that restarted after the query was concluded all
find the sum in the records of the others, and pass them on.
"""

from __future__ import annotations

from collections.abc import Iterable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from veilsum.agents.masked.actions import Concluded, Misconduct, SessionAction
from veilsum.agents.masked.entries import SessionLedger
from veilsum.agents.masked.flooding import Admission
from veilsum.agents.masked.own_records import is_unknown, said_again
from veilsum.agents.masked.pool import RecordPool
from veilsum.agents.masked.records import SignedRecord, sign
from veilsum.agents.masked.refunds import RefundWatch
from veilsum.agents.masked.results import SumResult, add_up
from veilsum.agents.masked.terms import MaskedTerms
from veilsum.agents.masked.views import ViewWindow


class Observer:
    """Follows one query.

    Parameters
    ----------
    terms : MaskedTerms
        What all members agree on.
    label : str
        Which member this is.
    query : int
        Which query.
    ledger : SessionLedger
        What the agent has said of it, if anything.
    pool : RecordPool
        Where the agents of this process keep their records.

    Attributes
    ----------
    result, reason : SumResult or None, str
        The sum, and "sum" once it is there; "rolled-back" or "cloned" if the agent must stop.
    records : RecordSet
        Of the query.
    """

    def __init__(
        self, terms: MaskedTerms, label: str, query: int, ledger: SessionLedger, pool: RecordPool
    ) -> None:
        """Nothing is known of the query."""
        self.terms, self.label, self.query, self._ledger = terms, label, query, ledger
        self.result: SumResult | None = None
        self.reason = ""
        self._views = ViewWindow(terms, query, pool)
        self._views.follow(0, 0)
        self.records = self._views.records
        self._refunds = RefundWatch(query, ledger, self.records)

    def restore(self, key: Ed25519PrivateKey) -> list[SignedRecord]:
        """The records of every value that was sent: the same bytes, for ever."""
        found: list[SignedRecord] = []
        for entry in self._ledger.entries(self.query):
            self._views.follow(entry.attempt, entry.view)
            if entry.sent:
                said = said_again(entry, self.terms, self.label, self.query)
                found += [sign(record, self.terms.manifest, key) for record in said]
        for signed in found:
            self.records.add(signed)
        self._refunds.restore()
        return found

    def receive(self, signed: Iterable[SignedRecord]) -> list[SessionAction]:
        """Take records; as `Session.receive`."""
        actions: list[SessionAction] = []
        entries = self._ledger.entries(self.query)
        for one in signed:
            admission = self.records.add(one)
            if admission in (Admission.CONFLICT, Admission.INVALID):
                actions.append(Misconduct(*one.place[:0:-1], admission))
            if one.record.label == self.label:
                if admission is Admission.CONFLICT:
                    return [*actions, self._stop("cloned")]
                if admission is Admission.NEW and is_unknown(one.record, entries):
                    return [*actions, self._stop("rolled-back")]
        self._views.furthest()
        found = self._look_for_result()
        if found is not None:
            self.result, self.reason = found, "sum"
            actions.append(Concluded(found, "sum"))
        return actions + self._refunds.look((sid for sid, _ in self._views), self.result)

    def deadline(self, timer: str) -> list[SessionAction]:  # noqa: ARG002 - it waits for nothing
        """Nothing: an observer has no time limits."""
        return []

    def _stop(self, reason: str) -> Concluded:
        self.reason = reason
        return Concluded(None, reason)

    def _look_for_result(self) -> SumResult | None:
        """The sum of the earliest attempt that is complete here, if it was not known."""
        numbers = self.terms.parameters
        best = self.result.attempt if self.result else numbers.attempts
        for sid, (attempt, view) in sorted(self._views, key=lambda one: one[1]):
            enough = self.records.count(sid, "Masked") >= numbers.smallest_roster
            if attempt < best and enough:
                found = add_up(self.terms, self.records, self.query, attempt, view, sid)
                if found is not None and len(found.totals) == numbers.dimension:
                    return found
        return None
