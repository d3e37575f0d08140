"""Terms of a masked sum for the manifest of these tests, and one way through a query."""

from fractions import Fraction
from typing import Any

from veilsum.agents.masked.entries import Prepared, SessionEntry, StoredSum
from veilsum.agents.masked.records import SignedRecord, Withdraw
from veilsum.agents.masked.terms import MaskedTerms
from veilsum.privacy import PrivacyEvent
from veilsum.privacy.masked import MaskedParameters

EPSILON = 0.125
EPS = Fraction(EPSILON)
COST = PrivacyEvent(EPSILON)
SALT = bytes(range(32))


def made_terms(manifest: Any, nonce: bytes = bytes(16), attempts: int = 2) -> MaskedTerms:
    labels = manifest.labels
    numbers = MaskedParameters(
        len(labels), 1, 1, EPSILON, sensitivity_steps=100, largest_steps=1000, attempts=attempts
    )
    members = tuple((label, bytes([n + 1]) * 32) for n, label in enumerate(labels))
    return MaskedTerms(manifest.digest, nonce, members, numbers)


def entry(terms: MaskedTerms, query: int, attempt: int = 0, view: int = 0) -> SessionEntry:
    return SessionEntry(attempt, view, terms.sid(query, attempt, view))


def value(found: SessionEntry, *words: int) -> Prepared:
    rho = bytes([7, found.attempt, found.view]) + bytes(29)
    hidden = bytes([9, found.attempt, found.view]) + bytes(29)
    return Prepared(found.sid, rho, (0, 2, 3, 4), words or (2**64 - 5, 3), SALT, hidden)


def withdraws(found: SessionEntry, *labels: str) -> tuple[SignedRecord, ...]:
    rho = found.rho or bytes(32)
    return tuple(SignedRecord(Withdraw(found.sid, one, rho), bytes(64)) for one in labels or "234")


def a_sum(query: int, attempt: int = 0) -> StoredSum:
    return StoredSum(query, attempt, 0, bytes([5]) * 32, (0, 2, 4), (1, 3, 1), (-(2**40), 17))


class Steps:
    """The calls of one query, in the order that a session makes them."""

    def __init__(self, sessions: Any, terms: MaskedTerms, query: int = 1) -> None:
        self.sessions, self.terms, self.query = sessions, terms, query

    def begin(self, last: int = 1, attempts: int = 2, **more: Any) -> "Steps":
        self.sessions.begin_query(self.query, COST, attempts, last=last, **more)
        self.sessions.begin(self.query, EPS, attempts)
        return self

    def open(self, attempt: int = 0, view: int = 0) -> "Steps":
        self.sessions.open(self.query, entry(self.terms, self.query, attempt, view))
        return self

    def prepare(self, *words: int) -> "Steps":
        self.sessions.prepare(self.query, value(self.last, *words))
        return self

    def ready(self, gamma: bytes = bytes([3]) * 32) -> "Steps":
        self.sessions.ready(self.query, gamma)
        return self

    def send(self) -> Prepared:
        return self.sessions.send(self.query)  # type: ignore[no-any-return]

    def withdraw(self) -> "Steps":
        self.sessions.withdraw(self.query)
        return self

    def sent(self, attempt: int = 0, view: int = 0) -> Prepared:
        return self.open(attempt, view).prepare().ready().send()

    def refund(self, attempt: int = 0) -> None:
        found = next(
            e for e in self.sessions.entries(self.query) if e.attempt == attempt and e.sent
        )
        self.sessions.refund(self.query, attempt, withdraws(found))

    def reinstate(self, attempt: int = 0) -> None:
        self.sessions.reinstate(self.query, attempt)

    @property
    def last(self) -> SessionEntry:
        return self.sessions.entries(self.query)[-1]  # type: ignore[no-any-return]
