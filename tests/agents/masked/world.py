"""A small network of sessions with ledgers that survive, kills at every write, and what was said."""

from collections import defaultdict
from fractions import Fraction
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from veilsum.agents.events import SetTimer
from veilsum.agents.masked.actions import Concluded, Publish
from veilsum.agents.masked.entries import Stage
from veilsum.agents.masked.memory import MemorySessionLedger
from veilsum.agents.masked.pool import RecordPool
from veilsum.agents.masked.records import (
    Masked,
    Present,
    SignedRecord,
    decode_record,
    encode_record,
    sign,
)
from veilsum.agents.masked.session import Session
from veilsum.agents.masked.terms import MaskedTerms
from veilsum.privacy.masked import MaskedParameters

LABELS = "abcde"
EPSILON = 0.5
QUERY = 3


def signing_key(label: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(label.encode() * 32)


def made_terms(
    colluders: int = 1, absent: int = 1, labels: str = LABELS, **more: Any
) -> MaskedTerms:
    numbers = MaskedParameters(
        len(labels), colluders, absent, EPSILON, sensitivity_steps=100, largest_steps=1000,
        **({"attempts": min(2, absent + 1)} | more),
    )  # fmt: skip
    members = tuple((one, signing_key(one).public_key().public_bytes_raw()) for one in labels)
    return MaskedTerms(bytes([1]) * 32, bytes([2]) * 16, members, numbers)


class Killed(Exception):  # noqa: N818 - it is no error
    """The process of an agent ended."""


class FragileLedger(MemorySessionLedger):
    """Ends the process before or after the next write, on demand."""

    def __init__(self) -> None:
        super().__init__(Fraction(10))
        self.fuse: str | None = None

    def _write(self, name: str, *arguments: Any) -> Any:
        when, self.fuse = self.fuse, None
        if when == "before":
            raise Killed
        found = getattr(MemorySessionLedger, name)(self, *arguments)
        if when == "after":
            raise Killed
        return found

    def open(self, *arguments: Any) -> Any:
        return self._write("open", *arguments)

    def prepare(self, *arguments: Any) -> Any:
        return self._write("prepare", *arguments)

    def ready(self, *arguments: Any) -> Any:
        return self._write("ready", *arguments)

    def send(self, *arguments: Any) -> Any:
        return self._write("send", *arguments)

    def withdraw(self, *arguments: Any) -> Any:
        return self._write("withdraw", *arguments)

    def refund(self, *arguments: Any) -> Any:
        return self._write("refund", *arguments)

    def reinstate(self, *arguments: Any) -> Any:
        return self._write("reinstate", *arguments)


class World:
    """Agents, their ledgers, and everything that they ever published."""

    def __init__(
        self,
        terms: MaskedTerms | None = None,
        session: type[Session] = Session,
        pool: RecordPool | None = None,
    ) -> None:
        self.terms, self.kind, self.pool = terms or made_terms(), session, pool
        self.ledgers = {label: FragileLedger() for label in self.terms.labels}
        self.sessions: dict[str, Session | None] = dict.fromkeys(self.terms.labels)
        self.statistics = {label: (10 * n, -n) for n, label in enumerate(self.terms.labels)}
        self.readings = dict.fromkeys(self.terms.labels, 1)
        self.drawn: defaultdict[str, list[tuple[int, ...]]] = defaultdict(list)
        self.noise: dict[tuple[str, bytes], tuple[int, ...]] = {}
        self.published: defaultdict[str, list[SignedRecord]] = defaultdict(list)
        self.concluded: defaultdict[str, list[Concluded]] = defaultdict(list)
        self.timers: defaultdict[str, set[str]] = defaultdict(set)

    def start(self, label: str) -> None:
        def draw() -> tuple[int, ...]:
            self.drawn[label].append((len(self.drawn[label]) % 7 - 3, 100 + len(self.drawn[label])))
            return self.drawn[label][-1]

        self.timers[label].clear()
        session = self.kind(
            self.terms, label, signing_key(label), QUERY, self.statistics[label],
            self.ledgers[label], draw, readings=self.readings[label],
            pool=self.pool,
        )  # fmt: skip
        self.sessions[label] = session
        self.act(label, session.start)

    def act(self, label: str, call: Any, *arguments: Any) -> None:
        """Carry out a call's actions, unless the process ended in it."""
        noise = iter(range(len(self.drawn[label]), 10**6))
        try:
            actions = call(*arguments)
        except Killed:
            self.sessions[label] = None
            return
        for action in actions:
            if isinstance(action, Publish):
                frame = encode_record(action.signed)
                assert decode_record(frame) == action.signed
                self.published[label].append(action.signed)
                said = isinstance(action.signed.record, Present)
                if said and (label, action.signed.record.sid) not in self.noise:
                    self.noise[label, action.signed.record.sid] = self.drawn[label][next(noise)]
            elif isinstance(action, Concluded):
                self.concluded[label].append(action)
            elif isinstance(action, SetTimer):
                self.timers[label].add(action.timer)

    def kill(self, label: str) -> None:
        self.sessions[label] = None

    def exchange(self, source: str, to: str, keep: Any = lambda _: True) -> bool:
        """Anti-entropy in one direction; `keep` decides about each record."""
        here, there = self.sessions[source], self.sessions[to]
        if here is None or there is None:
            return False
        lacking = here.records.lacking(there.records.names(here.records.digests()))
        messages = here.records.pool.chunks(lacking)
        sent = [s for one in messages for s in there.records.pool.split(one) if keep(s)]
        before = len(there.records)
        self.act(to, there.receive, sent)
        return len(there.records) > before

    def inject(self, to: str, record: Any) -> None:
        """A record signed by its label's key, which a colluder may own."""
        session = self.sessions[to]
        if session is not None:
            signed = sign(record, self.terms.manifest, signing_key(record.label))
            self.act(to, session.receive, [signed])

    def fire(self, label: str, timer: str) -> None:
        session = self.sessions[label]
        if session is not None and timer in self.timers[label]:
            self.timers[label].discard(timer)
            self.act(label, session.deadline, timer)

    def settle(self, silent: str = "") -> None:
        """Exchange until nothing is new."""
        labels = [label for label in self.terms.labels if label not in silent]
        while sum(self.exchange(a, b) for a in labels for b in labels if a != b):
            pass

    def run(self, silent: str = "", rounds: int = 30) -> None:
        """Exchange, and let every deadline pass when nothing is new, until all have concluded."""
        for _ in range(rounds):
            self.settle(silent)
            live = [x for x in self.terms.labels if self.sessions[x] and x not in silent]
            if all(getattr(self.sessions[label], "reason", "") for label in live):
                return
            for timer in ("proposal", "view", "attempt"):
                for label in live:
                    self.fire(label, timer)
                self.settle(silent)

    def sent(self, label: str) -> dict[bytes, set[tuple[int, ...]]]:
        """Every masked value that an agent ever published, by session."""
        found: defaultdict[bytes, set[tuple[int, ...]]] = defaultdict(set)
        for signed in self.published[label]:
            if isinstance(signed.record, Masked):
                found[signed.record.sid].add(signed.record.words)
        return dict(found)

    def attempt_of(self, sid: bytes) -> int:
        for attempt in range(self.terms.parameters.attempts):
            for view in range(40):
                if self.terms.sid(QUERY, attempt, view) == sid:
                    return attempt
        raise AssertionError("a session of another query")

    def check(self, honest: str) -> None:
        """What must hold at any time, of the honest agents."""
        results: dict[int, Any] = {}
        for label in honest:
            sent = self.sent(label)
            attempts = [self.attempt_of(sid) for sid in sent]
            assert len(set(attempts)) == len(attempts), "two sent values for one attempt"
            assert all(len(words) == 1 for words in sent.values()), "two values in one session"
            ledger = self.ledgers[label]
            entries = ledger.entries(QUERY)
            kept = {entry.sid for entry in entries if entry.sent}
            assert set(sent) <= kept, "a value that the ledger does not know"
            refunded = sum(entry.stage is Stage.REFUNDED for entry in entries)
            assert ledger.charged == Fraction(EPSILON) * (len(kept) - refunded), "a wrong charge"
            assert ledger.charged <= Fraction(EPSILON) * self.terms.parameters.attempts
            for one in self.concluded[label]:
                if one.result is not None:
                    known = results.setdefault(one.result.attempt, one.result)
                    assert known == one.result, "two results of one attempt"
            said = {s.record for s in self.published[label] if isinstance(s.record, Present)}
            keys = [record.key for record in said]
            assert len(set(keys)) == len(keys), "a key was used twice"

    def expected(self, result: Any) -> tuple[int, ...]:
        """The sum of x + eta over the roster, from what each member drew for that session."""
        sid = self.terms.sid(QUERY, result.attempt, result.view)
        values = [
            [x + eta for x, eta in zip(self.statistics[one], self.noise[one, sid], strict=True)]
            for one in result.members
        ]
        return tuple(sum(column) for column in zip(*values, strict=True))
