"""When a charge may be taken back, and when it is taken again.

An agent i has sent its value for rho. If c + 2 other members of its own roster F have signed that they
withdrew from rho, at most c of them collude, and at most one published before its ledger was rolled
back (n - c - 2d >= 2 covers one such ledger). The one that remains, j, is honest: it signs a Withdraw
only after its ledger has overwritten its value for good (R1), so j never publishes for rho. The honest
members of F that ever publish for rho are then not all of F's honest members: by the lemma z_i is
uniform, whatever v_i is, and the session tells nothing about x_i. This holds for ever and whatever
the other signers do later, so the likelihood of the transcript has no factor of this session, and
k_i, the number of sessions that cost epsilon, does not count it.

c + 1 signatures are not enough: c colluders sign, and an honest member whose ledger was put back to
PREPARED after it had published. All honest members have published, and the colluders read their sum.

What does not count: members outside F, this agent, another session or roster, a member that has
published, and one that contradicted itself (it is no honest one).

The assumptions may be false: more than c collude, or several ledgers are rolled back. So evidence is
watched. If a signer of it has published for rho after all, or the sum over F can be read, the charge
is taken again, also beyond the budget: what was spent is stated, and nothing new is admitted.
"""

from __future__ import annotations

from collections.abc import Iterable

from veilsum.agents.masked.actions import Misconduct, Reinstated, SessionAction
from veilsum.agents.masked.entries import SessionEntry, SessionLedger, Stage
from veilsum.agents.masked.flooding import Admission, RecordSet
from veilsum.agents.masked.records import Masked, SignedRecord, Withdraw
from veilsum.agents.masked.results import SumResult
from veilsum.agents.masked.terms import MaskedTerms

FALSE_WITHDRAWAL = "Withdraw and Masked"  # of one member for one roster


def refund_evidence(
    terms: MaskedTerms, records: RecordSet, entry: SessionEntry, label: str
) -> tuple[SignedRecord, ...]:
    """c + 2 withdrawals that make a session's charge void, or nothing.

    Parameters
    ----------
    terms : MaskedTerms
        Who the members are, and c.
    records : RecordSet
        Verified records.
    entry : SessionEntry
        A session in which this agent has sent its value.
    label : str
        This agent.

    Returns
    -------
    tuple of SignedRecord
        Exactly c + 2, in the order of the labels; empty if there are fewer.
    """
    sid, needed = entry.sid, terms.withdrawals_needed
    if entry.stage is not Stage.SENT or entry.prepared is None:
        return ()
    if records.count(sid, "Withdraw") < needed:
        return ()
    roster = {terms.labels[number] for number in entry.prepared.members} - {label}
    published = records.of(sid, "Masked").keys()
    liars = {who for _, who in records.contradictions(sid)}
    found = [
        signed
        for who, signed in sorted(records.of(sid, "Withdraw").items())
        if who in roster - published - liars
        and isinstance(signed.record, Withdraw)
        and signed.record.rho == entry.prepared.rho
    ]
    return tuple(found[:needed]) if len(found) >= needed else ()


def false_withdrawals(records: RecordSet, sid: bytes) -> set[str]:
    """Members that said of one roster both that they withdrew and what their value is."""
    if not (records.count(sid, "Withdraw") and records.count(sid, "Masked")):
        return set()
    return {
        label
        for label in records.of(sid, "Withdraw")
        if _rosters(records, sid, "Withdraw", label) & _rosters(records, sid, "Masked", label)
    }


def _rosters(records: RecordSet, sid: bytes, kind: str, label: str) -> set[bytes]:
    found = (signed.record for signed in records.both(sid, kind, label))
    return {one.rho for one in found if isinstance(one, Withdraw | Masked)}


class RefundWatch:
    """Looks whether what the refunds of a query rest on is still true.

    Parameters
    ----------
    query : int
        Which query.
    ledger : SessionLedger
        What was refunded, and on which evidence.
    records : RecordSet
        Verified records of the query.
    """

    def __init__(self, query: int, ledger: SessionLedger, records: RecordSet) -> None:
        """Nobody is convicted yet."""
        self._query, self._ledger, self._records = query, ledger, records
        self._convicted: set[tuple[bytes, str]] = set()

    def restore(self) -> None:
        """Hold the evidence again: its signers may have nothing more to say."""
        for signed in self._ledger.evidence(self._query):
            self._records.add(signed)

    def look(self, sids: Iterable[bytes], result: SumResult | None) -> list[SessionAction]:
        """Convict those who withdrew and published, and take the charges again that are due."""
        actions: list[SessionAction] = []
        liars = {sid: false_withdrawals(self._records, sid) for sid in sids}
        for sid, labels in liars.items():
            for label in sorted(labels):
                if (sid, label) not in self._convicted:
                    self._convicted.add((sid, label))
                    actions.append(Misconduct(label, FALSE_WITHDRAWAL, Admission.CONFLICT))
        for entry in self._ledger.entries(self._query):
            if entry.stage is not Stage.REFUNDED:
                continue
            false = liars.get(entry.sid, set())
            signers = self._signers(entry) & false if false else set()
            readable = result is not None and result.rho == entry.rho
            if signers or readable:
                self._ledger.reinstate(self._query, entry.attempt)
                actions.append(Reinstated(entry.attempt, tuple(sorted(signers))))
        return actions

    def _signers(self, entry: SessionEntry) -> set[str]:
        evidence = self._ledger.evidence(self._query)
        return {one.record.label for one in evidence if one.record.sid == entry.sid}
