"""One agent's behaviour in the sessions of one query: records in, records out, no input or output.

    enter a view   draw noise, then a key; ledger OPENED; Present
    propose        the view's proposer only: Roster of those present
    prepare        a roster that R2 admits: ledger PREPARED, drop the key; Commit
    be ready       all commitments seen: ledger `ready`; Ready
    send           all are ready for the same commitments: ledger SENT; Masked
    withdraw       the view's deadline, a withdrawal or a contradiction before SENT: ledger
                   WITHDRAWN; Withdraw; the next view
    add up         all opened: the same number at every agent that has them

Where privacy's rules are enforced
    R1  one sent value per attempt       `SessionLedger.send`, `SessionLedger.withdraw`
    R2  which rosters are accepted       `Session.objection`
    R3  keys signed by pinned keys       `RecordSet.add`
    R4  fresh key and noise per session  `Session._enter`, the only place where either is made
    R5  attempts and budget              `SessionLedger.begin`, `SessionLedger.open`
    R6  one Commit and one Ready         `SessionLedger.prepare`, `SessionLedger.ready`

A key is lost in a crash, and its view with it. An own record that the ledger does not know means that
the ledger was rolled back, and one that contradicts its own that another process uses its
key: the agent stops.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from murmura.agents.events import SetTimer
from murmura.agents.masked import masks
from murmura.agents.masked.entries import Prepared, SessionEntry, SessionLedger, Stage
from murmura.agents.masked.flooding import Admission
from murmura.agents.masked.records import (
    Commit,
    Masked,
    Present,
    Ready,
    Record,
    Roster,
    SignedRecord,
    Withdraw,
    commitment,
    commitments_digest,
    sign,
)
from murmura.agents.masked.results import SumResult, add_up
from murmura.agents.masked.terms import MaskedTerms
from murmura.agents.masked.views import ViewWindow
from murmura.errors import AgentError

VIEW, PROPOSAL, ATTEMPT = "view", "proposal", "attempt"
SALT = 32
STOPPED = ("rolled-back", "cloned")  # an agent that says no more, whatever it receives


class Publish(NamedTuple):
    """Flood this record; its ledger entry is durable."""

    signed: SignedRecord


class Misconduct(NamedTuple):
    """A record that convicts somebody: its signer (a contradiction), or the neighbour who sent it."""

    label: str
    kind: str
    admission: Admission


class Concluded(NamedTuple):
    """The query has its result, or will have none.

    Parameters
    ----------
    result : SumResult or None
        The sum.
    reason : str
        "sum", "attempts" (used up), "views" (used up), "rolled-back" or "cloned".
    """

    result: SumResult | None
    reason: str


SessionAction = Publish | SetTimer | Misconduct | Concluded


class SessionTimes(NamedTuple):
    """Seconds: for a view, before a roster is proposed, and for an attempt after it was sent."""

    view: float = 60.0
    proposal: float = 10.0
    attempt: float = 600.0


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

    Raises
    ------
    AgentError
        If the label is no member, or its pinned key is another one.
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
    ) -> None:
        """Nothing is drawn or sent before `start`."""
        if terms.keys.get(label) != signing_key.public_key().public_bytes_raw():
            raise AgentError(f"the manifest pins another signing key for {label!r}, or none")
        self.terms, self.label, self.query = terms, label, query
        self.ledger, self.times = ledger, times or SessionTimes()
        self.result: SumResult | None = None
        self.reason = ""
        self._signing_key, self._statistic, self._draw = signing_key, statistic, draw
        self._key: masks.EphemeralKey | None = None
        self._noise: tuple[int, ...] = ()
        self._actions: list[SessionAction] = []
        self._views = ViewWindow(terms, query)
        self.records = self._views.records

    def start(self) -> list[SessionAction]:
        """Begin, or go on with what the ledger remembers."""
        numbers = self.terms.parameters
        self.ledger.begin(self.query, numbers.noise_cost, numbers.tries)
        self._actions = []
        for entry in self.ledger.entries(self.query):
            self._views.follow(entry.attempt, entry.view)
        last = self._last()
        if last is None:
            self._enter(0, 0)
        else:
            self._resume(last)
        return self._actions

    def _resume(self, last: SessionEntry) -> None:
        """The same bytes as before the crash; a view without its key is waited out."""
        prepared = last.prepared
        if last.stage is Stage.WITHDRAWN:
            self._publish(Withdraw(last.sid, self.label, last.rho))
            self._next_view(last)
            return
        if prepared is not None:
            self._publish(Commit(last.sid, self.label, prepared.rho, prepared.commitment))
            if last.gamma:
                self._publish(Ready(last.sid, self.label, prepared.rho, last.gamma))
            if last.stage is Stage.SENT:
                self._publish(_masked(self.label, prepared, last.gamma))
        sent = last.stage is Stage.SENT
        self._timer(ATTEMPT if sent else VIEW)

    def receive(self, signed: Iterable[SignedRecord]) -> list[SessionAction]:
        """Take records; those that are new go on to the others by way of `records`."""
        self._actions = []
        if self.reason in STOPPED:
            return []
        for one in signed:
            admission = self.records.add(one)
            if admission in (Admission.CONFLICT, Admission.INVALID):
                self._actions.append(Misconduct(*one.place[:0:-1], admission))
            if one.record.label == self.label:
                if admission is Admission.CONFLICT:
                    return self._stop("cloned")
                if admission is Admission.NEW and self._is_unknown_own(one):
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
        if timer == PROPOSAL:
            self._propose(last, waiting=False)
            self._advance()
        elif timer == VIEW and last.stage is not Stage.SENT:
            self._give_up_view(last)
            self._advance()
        elif timer == ATTEMPT and last.stage is Stage.SENT:
            self._next_attempt(last)
            self._advance()
        return self._actions

    def objection(self, entry: SessionEntry, roster: Roster) -> str:
        """R2: why a roster is not accepted, or empty; it may become acceptable as records arrive."""
        terms, numbers = self.terms, self.terms.parameters
        if roster.members[-1] >= numbers.n:
            return "a number of no member"
        if len(roster.members) < numbers.smallest_roster:
            return f"{len(roster.members)} members, expected {numbers.smallest_roster} at least"
        if terms.numbers[self.label] not in roster.members:
            return "without this agent"
        if self._key is None or self._key.dropped:
            return "this agent has no key"
        keys = self._keys(entry.sid, roster.members)
        if keys is None:
            return "a member that is not present, or with two keys"
        if keys[self.label] != self._key.public:
            return "another key of this agent"
        if masks.roster_digest(terms.manifest, entry.sid, keys) != roster.rho:
            return "rho of other keys"
        if self._missing(entry.attempt) & set(roster.members):
            return "a member that fell silent in an earlier attempt"
        return ""

    def _keys(self, sid: bytes, members: tuple[int, ...]) -> dict[str, bytes] | None:
        """The ephemeral keys of a roster; None unless each has exactly one."""
        found = {}
        for number in members:
            label = self.terms.labels[number]
            signed = self.records.get(sid, "Present", label)
            if signed is None or self.records.contradicted(sid, "Present", label):
                return None
            assert isinstance(signed.record, Present)
            found[label] = signed.record.key
        return found

    def _missing(self, attempt: int) -> set[int]:
        """Members that fell silent in an earlier attempt in which this agent sent its value."""
        found: set[int] = set()
        for entry in self.ledger.entries(self.query):
            if entry.stage is Stage.SENT and entry.attempt < attempt and entry.prepared:
                heard = {
                    label
                    for kind in ("Masked", "Withdraw")
                    for label in self.records.of(entry.sid, kind)
                }
                members = entry.prepared.members
                found |= {m for m in members if self.terms.labels[m] not in heard}
        return found - {self.terms.numbers[self.label]}

    def _enter(self, attempt: int, view: int) -> None:
        """R4: fresh noise, then a fresh key, then the ledger, and only then anything visible."""
        sid = self._views.follow(attempt, view)
        self._noise = self._draw()
        self._key = masks.EphemeralKey()
        self.ledger.open(self.query, SessionEntry(attempt, view, sid))
        self._publish(Present(sid, self.label, self._key.public))
        self._timer(VIEW)
        if self.terms.proposer(self.query, attempt, view) == self.label:
            self._timer(PROPOSAL)

    def _advance(self) -> None:
        """Do all that has become possible."""
        self._look_for_result()
        while not self.reason:
            before = self._last()
            if before is None:
                return
            if before.stage is Stage.OPENED:
                self._propose(before, waiting=True)
                self._prepare(before)
                if self._last() == before and self._others_moved_on(before):
                    self._give_up_view(before)
            elif before.stage is Stage.PREPARED:
                self._ready_or_send(before)
            if self._last() == before:
                break
        self._look_for_result()

    def _propose(self, entry: SessionEntry, waiting: bool) -> None:
        """Propose those present, once: when all are, or when the proposal's time has come."""
        sid, labels = entry.sid, self.terms.labels
        proposer = self.terms.proposer(self.query, entry.attempt, entry.view)
        if entry.stage is not Stage.OPENED or proposer != self.label or self._key is None:
            return
        if self.records.get(sid, "Roster", self.label) is not None:
            return
        present = self.records.of(sid, "Present")
        left_out = self._missing(entry.attempt)
        members = tuple(
            number
            for number, label in enumerate(labels)
            if label in present
            and number not in left_out
            and not self.records.contradicted(sid, "Present", label)
        )
        full = len(members) == len(labels) - len(left_out)
        keys = self._keys(sid, members)
        if keys is None or len(members) < self.terms.parameters.smallest_roster:
            return
        if full or not waiting:
            rho = masks.roster_digest(self.terms.manifest, sid, keys)
            self._publish(Roster(sid, self.label, rho, members))

    def _prepare(self, entry: SessionEntry) -> None:
        """z = x + eta + pad, in the ledger before its commitment is visible; the key is dropped."""
        proposer = self.terms.proposer(self.query, entry.attempt, entry.view)
        signed = self.records.get(entry.sid, "Roster", proposer)
        if signed is None or self.records.contradicted(entry.sid, "Roster", proposer):
            return
        roster = signed.record
        assert isinstance(roster, Roster)
        if self.objection(entry, roster) or self._key is None:
            return
        keys = self._keys(entry.sid, roster.members) or {}
        try:
            pad = masks.pad(
                self._key, self.label, keys, self.terms.manifest, entry.sid, len(self._statistic)
            )
        except masks.MaskError:
            return  # a member with a key of low order: this roster leads nowhere
        noised = (x + eta for x, eta in zip(self._statistic, self._noise, strict=True))
        words = tuple(int(word) for word in masks.to_words(noised) + pad)
        salt = os.urandom(SALT)
        hidden = commitment(entry.sid, self.label, words, salt)
        prepared = Prepared(entry.sid, roster.rho, roster.members, words, salt, hidden)
        self.ledger.prepare(self.query, prepared)
        self._key.drop()
        self._noise = ()
        self._publish(Commit(entry.sid, self.label, roster.rho, hidden))

    def _ready_or_send(self, entry: SessionEntry) -> None:
        prepared = entry.prepared
        assert prepared is not None
        labels = [self.terms.labels[number] for number in prepared.members]
        if self._has_failed(entry, labels):
            self._give_up_view(entry)
            return
        commits = self._all(entry.sid, "Commit", labels, prepared.rho)
        if commits is None:
            return
        hidden = {one.label: one.commitment for one in commits if isinstance(one, Commit)}
        gamma = commitments_digest(prepared.rho, hidden)
        if not entry.gamma:
            self.ledger.ready(self.query, gamma)
            self._publish(Ready(entry.sid, self.label, prepared.rho, gamma))
        elif entry.gamma == gamma:
            readys = self._all(entry.sid, "Ready", labels, prepared.rho)
            if readys and all(isinstance(one, Ready) and one.gamma == gamma for one in readys):
                sent = self.ledger.send(self.query)
                self._publish(_masked(self.label, sent, gamma))
                self._timer(ATTEMPT)

    def _all(self, sid: bytes, kind: str, labels: list[str], rho: bytes) -> list[Record] | None:
        """The records of a whole roster for rho; None while one is missing."""
        found = [self.records.get(sid, kind, label) for label in labels]
        records = [one.record for one in found if one is not None]
        fits = all(isinstance(one, Commit | Ready) and one.rho == rho for one in records)
        return records if fits and len(records) == len(labels) else None

    def _has_failed(self, entry: SessionEntry, labels: list[str]) -> bool:
        """Whether a member withdrew or contradicted itself: before SENT, nobody needs to wait."""
        return any(
            self.records.get(entry.sid, "Withdraw", label) is not None
            or any(
                self.records.contradicted(entry.sid, kind, label)
                for kind in ("Roster", "Commit", "Ready")
            )
            for label in labels
        )

    def _others_moved_on(self, entry: SessionEntry) -> bool:
        """Whether a view that has no roster yet will hardly get one: the others are further on."""
        place = entry.attempt, entry.view
        closed = len(self._views.senders(entry.attempt)) > self.terms.parameters.absent
        return self._views.furthest() > place or (closed and self._has_attempt(entry.attempt + 1))

    def _has_attempt(self, attempt: int) -> bool:
        return attempt < self.terms.parameters.tries

    def _give_up_view(self, entry: SessionEntry) -> None:
        if entry.stage is Stage.PREPARED:
            self.ledger.withdraw(self.query)
            self._publish(Withdraw(entry.sid, self.label, entry.rho))
        self._next_view(entry)

    def _next_view(self, entry: SessionEntry) -> None:
        """The next view, or the next attempt if somebody has sent in this one and is lost to it."""
        place = entry.attempt, entry.view + 1
        used_up = place[1] >= self.terms.most_views
        if self._has_attempt(entry.attempt + 1) and (used_up or self._views.senders(entry.attempt)):
            place = entry.attempt + 1, 0
            used_up = False
        place = max(place, self._views.furthest())
        if used_up and place[0] == entry.attempt:
            self._conclude(None, "views")
        else:
            self._enter(*place)

    def _next_attempt(self, entry: SessionEntry) -> None:
        if self._has_attempt(entry.attempt + 1):
            self._enter(*max((entry.attempt + 1, 0), self._views.furthest()))
        else:
            self._conclude(None, "attempts")

    def _look_for_result(self) -> None:
        """The sum of the earliest attempt that is complete here."""
        best = self.result.attempt if self.result else self.terms.parameters.tries
        for sid, (attempt, view) in self._views:
            enough = len(self.records.of(sid, "Masked")) >= self.terms.parameters.smallest_roster
            if attempt < best and enough:
                found = add_up(self.terms, self.records, self.query, attempt, view, sid)
                if found is not None and len(found.totals) == len(self._statistic):
                    best = attempt
                    self._conclude(found, "sum")

    def _is_unknown_own(self, signed: SignedRecord) -> bool:
        """Whether the ledger should know of an own record and does not: it was rolled back."""
        record = signed.record
        entries = {entry.sid: entry for entry in self.ledger.entries(self.query)}
        entry = entries.get(record.sid)
        if entry is None:
            return True
        if isinstance(record, Commit):
            return record.commitment != entry.commitment
        if isinstance(record, Ready):
            return record.gamma != entry.gamma
        if isinstance(record, Masked):
            prepared = entry.prepared if entry.stage is Stage.SENT else None
            return prepared is None or prepared.words != record.words
        if isinstance(record, Withdraw):
            return entry.stage is not Stage.WITHDRAWN
        return False

    def _last(self) -> SessionEntry | None:
        entries = self.ledger.entries(self.query)
        return entries[-1] if entries else None

    def _publish(self, record: Record) -> None:
        signed = sign(record, self.terms.manifest, self._signing_key)
        self.records.add(signed)
        self._actions.append(Publish(signed))

    def _timer(self, name: str) -> None:
        self._actions.append(SetTimer(name, getattr(self.times, name)))

    def _conclude(self, result: SumResult | None, reason: str) -> None:
        last = self._last()
        if reason == "sum" and last is not None and last.stage is Stage.PREPARED:
            self.ledger.withdraw(self.query)  # of a later attempt, which is no longer needed
            self._publish(Withdraw(last.sid, self.label, last.rho))
        self.result, self.reason = result or self.result, reason
        self._actions.append(Concluded(result, reason))


def _masked(label: str, prepared: Prepared, gamma: bytes) -> Masked:
    return Masked(prepared.sid, label, prepared.rho, gamma, prepared.salt, prepared.words)
