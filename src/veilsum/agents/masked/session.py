"""One agent's behaviour in the sessions of one query: records in, records out, no input or output.

    enter a view   draw noise, then a key; ledger OPENED; Present
    propose        the view's proposer only: Roster of those present
    prepare        a roster that R2 admits: ledger PREPARED, drop the key; Commit
    be ready       all commitments seen: ledger `ready`; Ready
    send           all are ready for the same commitments: ledger SENT; Masked
    withdraw       the view's deadline, a withdrawal or a contradiction before SENT: ledger
                   WITHDRAWN; Withdraw; the next view
    refund         c + 2 of the roster withdrew after SENT: ledger REFUNDED; the next attempt
    reinstate      one of them published all the same: ledger SENT, charged again
    add up         all opened: the same number at every agent that has them

`rules.RULES` says where the rules are enforced that privacy rests on, `refunds.refund_evidence` and
`refunds.RefundWatch` when a charge is void.

A view's time runs from when n - d members have been seen in it: whoever starts hours late is still
in. Once there were enough, a view that never has them again ends the query after `attempt` seconds.

A key is lost in a crash. The agent withdraws from its view before it prepared anything (`NO_ROSTER`)
and enters the next. An own record that the ledger does not know means that the ledger was rolled
back, and one that contradicts its own that another process uses its key: the agent stops.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from veilsum.agents.events import SetTimer
from veilsum.agents.masked import masks, roster
from veilsum.agents.masked.actions import (
    STOPPED,
    Concluded,
    Misconduct,
    Publish,
    SessionAction,
    SessionTimes,
)
from veilsum.agents.masked.agreement import (
    agreed_commitments,
    agreement_on,
    all_ready,
    has_failed,
)
from veilsum.agents.masked.entries import Prepared, SessionEntry, SessionLedger, Stage
from veilsum.agents.masked.flooding import Admission, Agreement
from veilsum.agents.masked.own_records import is_lost_value, is_unknown, present_of, said_again
from veilsum.agents.masked.pool import RecordPool
from veilsum.agents.masked.records import (
    Commit,
    Masked,
    Present,
    Ready,
    Record,
    Roster,
    SignedRecord,
    Withdraw,
    commitment,
    sign,
)
from veilsum.agents.masked.refunds import RefundWatch, refund_evidence
from veilsum.agents.masked.results import Known, SumResult, add_up
from veilsum.agents.masked.terms import MaskedTerms
from veilsum.agents.masked.views import ViewWindow
from veilsum.errors import AgentError

VIEW, PROPOSAL, ATTEMPT = "view", "proposal", "attempt"
SALT = 32


class Session:
    """The state machine of one agent for one query.

    Parameters
    ----------
    terms : MaskedTerms
        What all members agree on.
    label : str
        Which member this is.
    signing_key : Ed25519PrivateKey
        The private half of its pinned key.
    query : int
        Which query.
    statistic : tuple of int
        The agent's statistic, in grid steps.
    ledger : SessionLedger
        What it must not forget.
    draw : callable
        Gives a fresh noise vector before anything of a session is visible. Drawing takes longer
        where the noise is not 0, and a Present follows at once: the driver draws ahead, at a time
        that nobody sees, and gives each vector out once.
    times : SessionTimes, optional
        Its time limits.
    readings : int
        How many readings are in the statistic: public, and bound into every mask.
    pool : RecordPool, optional
        What the agents of this process hold in common.

    Raises
    ------
    AgentError
        If the label is no member, its pinned key is another one, or there are more readings than
        the longest batch has.
    LedgerError
        If there is no budget for every attempt.
    """

    def __init__(
        self,
        terms: MaskedTerms,
        label: str,
        signing_key: Ed25519PrivateKey,
        query: int,
        statistic: tuple[int, ...],
        ledger: SessionLedger,
        draw: Callable[[], tuple[int, ...]],
        times: SessionTimes | None = None,
        *,
        readings: int = 1,
        pool: RecordPool | None = None,
    ) -> None:
        """Nothing is drawn or sent before `start`."""
        most = terms.parameters.longest_batch
        if not 1 <= readings <= most:
            raise AgentError(
                f"{readings} readings in query {query}, the terms allow 1 to {most}; nothing was drawn"
            )
        if terms.keys.get(label) != signing_key.public_key().public_bytes_raw():
            raise AgentError(f"the manifest pins another signing key for {label!r}, or none")
        self.terms, self.label, self.query, self.readings = terms, label, query, readings
        self.ledger, self.times = ledger, times or SessionTimes()
        self.result: SumResult | None = None
        self.reason = ""
        self._signing_key, self._statistic, self._draw = signing_key, statistic, draw
        self._key: masks.EphemeralKey | None = None
        self._noise: tuple[int, ...] = ()
        self._actions: list[SessionAction] = []
        self._entries: tuple[SessionEntry, ...] = ()
        self._views = ViewWindow(terms, query, pool)
        self.records = self._views.records
        self._refunds = RefundWatch(query, ledger, self.records)
        self._pairs = self.records.pool.pairs
        self._pairs.enter(label)
        self._running = False  # whether enough members were seen in this view
        self._due = False  # whether its roster may lack members
        self._known: dict[bytes, Known] = {}  # sessions that were prepared since the start
        self._gathered = False  # whether there ever were enough
        self._tried = 0  # views of this attempt that had enough

    def start(self) -> list[SessionAction]:
        """Begin, or go on with what the ledger remembers."""
        numbers = self.terms.parameters
        self.ledger.begin(self.query, numbers.noise_cost, numbers.attempts)
        self._actions = []
        self._entries = self.ledger.entries(self.query)
        for entry in self._entries:
            self._views.follow(entry.attempt, entry.view)
            if entry.gamma:  # the commitments are forgotten
                self.records.agree(entry.sid, Agreement(entry.rho, entry.gamma, {}))
        self._refunds.restore()
        last = self._last()
        if last is None:
            self._enter(0, 0)
        else:
            self._resume(last)
        return self._actions

    def _resume(self, last: SessionEntry) -> None:
        """The same bytes as before the crash; a view without its key is left.

        A backup knows of a commitment, and not of its value: that view is waited out in silence.
        """
        prepared = last.prepared
        before = [entry for entry in self._entries if entry.attempt == last.attempt]
        self._tried = sum(bool(entry.rho) for entry in before)
        self._gathered = any(entry.rho for entry in self._entries)
        for entry in self._entries:
            for record in said_again(entry, self.terms, self.label, self.query):
                self._publish(record)
        if prepared is None and not is_lost_value(last):
            self._next_view(last)
        else:
            self._running = True
            self._timer(ATTEMPT if last.sent else VIEW)

    def receive(self, signed: Iterable[SignedRecord]) -> list[SessionAction]:
        """Take records; those that are new go on to the others by way of `records`."""
        self._actions = []
        if self.reason in STOPPED:
            return []
        for one, admission in self.records.add_all(signed, self.label):
            if admission in (Admission.CONFLICT, Admission.INVALID):
                self._actions.append(Misconduct(*one.place[:0:-1], admission))
            if one.record.label == self.label:
                if admission is Admission.CONFLICT:
                    return self._stop("cloned")
                if admission is Admission.NEW and is_unknown(one.record, self._entries):
                    return self._stop("rolled-back")
        self._advance()
        return self._actions

    def _stop(self, reason: str) -> list[SessionAction]:
        """Somebody else speaks with this agent's key, or the ledger is an old one: say no more."""
        self._conclude(None, reason)
        return self._actions

    def deadline(self, timer: str) -> list[SessionAction]:
        """A timer ran out."""
        self._actions = []
        last = self._last()
        if last is None or self.reason:
            return []
        if timer == PROPOSAL and self._running:
            self._due = True
            if last.stage is Stage.OPENED and not self._proposer_is_present(last):
                self._give_up_view(last)
        elif timer == VIEW and self._running and not last.sent:
            self._give_up_view(last)
        elif timer == ATTEMPT and last.sent:
            self._next_attempt(last)
        elif timer == ATTEMPT and not self._running:
            self._conclude(None, "views")  # those that were there have not come back
        self._advance()
        return self._actions

    def _proposer_is_present(self, entry: SessionEntry) -> bool:
        return self.records.get(entry.sid, "Present", self._proposer(entry)) is not None

    def _proposer(self, entry: SessionEntry) -> str:
        return self.terms.proposer(self.query, entry.attempt, entry.view)

    def objection(self, entry: SessionEntry, proposed: Roster) -> str:
        """R2: why a roster is not accepted, or empty; it may become acceptable as records arrive."""
        key = self._key
        own = None if key is None or key.dropped else masks.Participant(key.public, self.readings)
        silent = self._missing(entry.attempt).silent
        left = self._views.gone(entry.sid)
        return roster.objection(
            self.terms, self.records, entry.sid, proposed, (self.label, own), left, silent
        )

    def _missing(self, attempt: int) -> roster.Missing:
        """Members that did not open their value in an earlier attempt.

        Of a session in which this agent has sent, or withdrew and an honest member has sent.
        """
        found = []
        for entry in self._entries:
            known = self._known.get(entry.sid)
            members = entry.prepared.members if entry.prepared else ()
            if not members and known is not None:
                members = known.roster.members
            senders = self.records.count(entry.sid, "Masked")
            others = senders > self.terms.parameters.colluders
            if entry.attempt < attempt and members and (entry.sent or others):
                found.append((entry.sid, entry.rho, members))
        return roster.missing_members(self.terms, self.records, found, self.label)

    def _enter(self, attempt: int, view: int) -> None:
        """R4: fresh noise, then a fresh key, then the ledger, and only then anything visible."""
        sid = self._views.follow(attempt, view)
        self._noise = self._draw()
        self._key = masks.EphemeralKey()
        present = Present(sid, self.label, self._key.public, self.readings)
        self.ledger.open(self.query, SessionEntry(attempt, view, sid, present=present_of(present)))
        self._written()
        self._running = self._due = False
        self._publish(present)
        if self._gathered:
            self._timer(ATTEMPT)

    def _advance(self) -> None:
        """Do all that has become possible."""
        self._views.furthest()
        self._look_for_result()
        self._check_refunds()
        while not self.reason:
            self._take_back()
            before = self._last()
            if before is None or self.reason:
                return
            if before.stage is Stage.OPENED:
                self._run_view(before)
                self._propose(before)
                self._prepare(before)
                if self._last() == before and self._views.is_lost(before.sid, self._running):
                    self._give_up_view(before)
            elif before.stage is Stage.PREPARED:
                self._ready_or_send(before)
            if self._last() == before:
                break
        self._look_for_result()
        self._check_refunds()

    def _run_view(self, entry: SessionEntry) -> None:
        """Start the view's time once enough members were seen."""
        if not self._running and self._views.seen(entry.sid):
            self._running = self._gathered = True
            self._timer(VIEW)
            self._timer(PROPOSAL)

    def _propose(self, entry: SessionEntry) -> None:
        """Propose those present, once: when all are, or when the proposal's time has come."""
        sid = entry.sid
        if self._proposer(entry) != self.label or self._key is None:
            return
        if self.records.get(sid, "Roster", self.label) is not None:
            return
        made = roster.proposal(
            self.terms, self.records, sid, self.label, self._views.gone(sid),
            self._missing(entry.attempt), waiting=not self._due,
        )  # fmt: skip
        if made is not None:
            self._publish(made)

    def _prepare(self, entry: SessionEntry) -> None:
        """z = x + eta + pad, in the ledger before its commitment is visible; the key is dropped."""
        proposer, sid = self._proposer(entry), entry.sid
        signed = self.records.get(sid, "Roster", proposer)
        if signed is None or self.records.contradicted(sid, "Roster", proposer):
            return
        proposed = signed.record
        assert isinstance(proposed, Roster)
        if self.objection(entry, proposed) or self._key is None:
            return
        present = roster.participants(self.terms, self.records, sid, proposed.members) or {}
        try:
            pad = masks.pad(
                self._key, self.label, present, self.terms.manifest, sid, len(self._statistic),
                self._pairs, proposed.rho,
            )  # fmt: skip
        except masks.MaskError:
            self._give_up_view(entry)  # a member with a key of low order
            return
        noised = (x + eta for x, eta in zip(self._statistic, self._noise, strict=True))
        words = tuple(int(word) for word in masks.to_words(noised) + pad)
        salt = os.urandom(SALT)
        hidden = commitment(sid, self.label, words, salt)
        prepared = Prepared(sid, proposed.rho, proposed.members, words, salt, hidden)
        self.ledger.prepare(self.query, prepared)
        self._written()
        self._known[sid] = Known(proposed, present)
        self._key.drop()
        self._noise = ()
        self._publish(Commit(sid, self.label, proposed.rho, hidden))

    def _ready_or_send(self, entry: SessionEntry) -> None:
        prepared = entry.prepared
        assert prepared is not None
        sid, rho, labels = entry.sid, prepared.rho, self.terms.labels_of(prepared.members)
        if has_failed(self.records, sid, labels, self._views.gone(sid)):
            self._give_up_view(entry)
            return
        gamma = agreed_commitments(self.records, sid, rho, labels)
        if gamma is None:
            return
        if not entry.gamma:
            self.ledger.ready(self.query, gamma)
            self._written()
            self.records.agree(sid, agreement_on(self.records, sid, rho, gamma, labels))
            self._publish(Ready(sid, self.label, rho, gamma))
        elif entry.gamma == gamma and self._all_ready(sid, rho, gamma, labels):
            sent = self.ledger.send(self.query)
            self._written()
            self._pairs.drop(sid)
            self._publish(_masked(self.label, sent, gamma))
            self._timer(ATTEMPT)

    def _all_ready(self, sid: bytes, rho: bytes, gamma: bytes, labels: tuple[str, ...]) -> bool:
        return all_ready(self.records, sid, rho, gamma, labels)

    def _take_back(self) -> None:
        """Take charges back that are void (`refunds`); the attempt is over then."""
        for entry in self._entries:
            withdraws = refund_evidence(self.terms, self.records, entry, self.label)
            if withdraws:
                self.ledger.refund(self.query, entry.attempt, withdraws)
                self._written()
        last = self._last()
        if last is not None and last.stage is Stage.REFUNDED:
            self._next_attempt(last)

    def _check_refunds(self) -> None:
        """Take charges again whose refund was false, also when the query is over."""
        found = self._refunds.look((sid for sid, _ in self._views), self.result)
        if found:
            self._actions += found
            self._written()

    def _has_attempt(self, attempt: int) -> bool:
        return attempt < self.terms.parameters.attempts

    def _give_up_view(self, entry: SessionEntry) -> None:
        self._pairs.drop(entry.sid)
        if entry.stage is Stage.PREPARED:
            self.ledger.withdraw(self.query)
            self._written()
            self._publish(Withdraw(entry.sid, self.label, entry.rho))
        self._tried += self._running
        self._next_view(entry)

    def _next_view(self, entry: SessionEntry) -> None:
        """The next view, or the next attempt if somebody has sent in this one and is lost to it."""
        place = entry.attempt, entry.view + 1
        used_up = self._tried >= self.terms.most_views
        sent = self._views.count_senders(entry.attempt)
        if self._has_attempt(entry.attempt + 1) and (used_up or sent):
            place = entry.attempt + 1, 0
            used_up = False
        place = max(place, self._views.furthest())
        if used_up and place[0] == entry.attempt:
            self._conclude(None, "views")
            return
        if place[0] > entry.attempt:
            self._tried = 0
        self._enter(*place)

    def _next_attempt(self, entry: SessionEntry) -> None:
        if self._has_attempt(entry.attempt + 1):
            self._tried = 0
            self._enter(*max((entry.attempt + 1, 0), self._views.furthest()))
        else:
            self._conclude(None, "attempts")

    def _look_for_result(self) -> None:
        """The sum of the earliest attempt that is complete here."""
        best = self.result.attempt if self.result else self.terms.parameters.attempts
        for sid, (attempt, view) in self._views:
            enough = self.records.count(sid, "Masked") >= self.terms.parameters.smallest_roster
            if attempt < best and enough:
                known = self._known.get(sid)
                found = add_up(self.terms, self.records, self.query, attempt, view, sid, known)
                if found is not None and len(found.totals) == len(self._statistic):
                    best = attempt
                    self._conclude(found, "sum")

    def _last(self) -> SessionEntry | None:
        return self._entries[-1] if self._entries else None

    def _written(self) -> None:
        """The ledger has changed."""
        self._entries = self.ledger.entries(self.query)

    def _publish(self, record: Record) -> None:
        signed = sign(record, self.terms.manifest, self._signing_key)
        self.records.add(signed)
        self._actions.append(Publish(signed))

    def _timer(self, name: str) -> None:
        self._actions.append(SetTimer(name, getattr(self.times, name)))

    def _conclude(self, result: SumResult | None, reason: str) -> None:
        last = self._last()
        if last is not None:
            self._pairs.drop(last.sid)
        if reason == "sum" and last is not None and last.stage is Stage.PREPARED:
            self.ledger.withdraw(self.query)  # of a later attempt, which is no longer needed
            self._written()
            self._publish(Withdraw(last.sid, self.label, last.rho))
        self.result, self.reason = result or self.result, reason
        self._actions.append(Concluded(result, reason))


def _masked(label: str, prepared: Prepared, gamma: bytes) -> Masked:
    return Masked(prepared.sid, label, prepared.rho, gamma, prepared.salt, prepared.words)
