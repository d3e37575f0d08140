"""A ledger of sessions in memory: the rules R1, R5 and R6, and no disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from veilsum.agents.masked import rules
from veilsum.agents.masked.entries import Prepared, SessionEntry, Stage
from veilsum.errors import LedgerError

if TYPE_CHECKING:
    from veilsum.agents.masked.records import SignedRecord


@dataclass
class _Query:
    epsilon: Fraction
    attempts: int
    entries: tuple[SessionEntry, ...] = ()
    refunds: dict[int, tuple[SignedRecord, ...]] = field(default_factory=dict)


class MemorySessionLedger:
    """A ledger in memory, for tests and simulations.

    Parameters
    ----------
    budget : Fraction
        What may be charged and reserved in all.

    Examples
    --------
    >>> ledger = MemorySessionLedger(Fraction(1))
    >>> ledger.begin(1, Fraction(1, 2), attempts=2)
    >>> ledger.charged, ledger.reserved
    (Fraction(0, 1), Fraction(0, 1))
    """

    def __init__(self, budget: Fraction) -> None:
        """Nothing is charged yet."""
        self.budget = budget
        self._queries: dict[int, _Query] = {}

    @property
    def charged(self) -> Fraction:
        """Epsilon of every session in which a masked value was sent, less what was refunded."""
        return self._total(Stage.SENT)

    @property
    def reserved(self) -> Fraction:
        """Epsilon of the prepared sessions."""
        return self._total(Stage.PREPARED)

    def _total(self, stage: Stage) -> Fraction:
        return sum(
            (q.epsilon for q in self._queries.values() for e in q.entries if e.stage is stage),
            Fraction(0),
        )

    def begin(self, query: int, epsilon: Fraction, attempts: int) -> None:
        """R5: a query starts only if epsilon for all of its attempts is left."""
        if query in self._queries:
            return
        left = self.budget - self.charged - self.reserved
        if attempts * epsilon > left:  # exact fractions
            raise LedgerError(
                f"query {query} may cost {attempts} times epsilon = {float(epsilon):g}, and "
                f"{float(left):g} is left; nothing was drawn; raise the budget or ask for less"
            )
        self._queries[query] = _Query(epsilon, attempts)

    def entries(self, query: int) -> tuple[SessionEntry, ...]:
        """Every view of the query, in order; none of one that was not begun."""
        return self._queries[query].entries if query in self._queries else ()

    def open(self, query: int, entry: SessionEntry) -> None:
        """A new view: R5."""
        found = self._queries[query]
        found.entries = rules.opened(query, found.attempts, found.entries, entry)

    def prepare(self, query: int, prepared: Prepared) -> None:
        """Store the masked value: R6."""
        self._queries[query].entries = rules.prepared(query, self.entries(query), prepared)

    def ready(self, query: int, gamma: bytes) -> None:
        """Store which commitments this agent is ready for: R6."""
        self._queries[query].entries = rules.ready(query, self.entries(query), gamma)

    def send(self, query: int) -> Prepared:
        """The one masked value of this attempt: R1."""
        self._queries[query].entries = after = rules.sent(query, self.entries(query))
        assert after[-1].prepared is not None
        return after[-1].prepared

    def withdraw(self, query: int) -> None:
        """What is withdrawn is gone: R1."""
        self._queries[query].entries = rules.withdrawn(query, self.entries(query))

    def refund(self, query: int, attempt: int, withdraws: tuple[SignedRecord, ...]) -> None:
        """Take a charge back; the evidence is kept."""
        found = self._queries[query]
        found.entries = rules.refunded(query, found.entries, attempt, withdraws)
        found.refunds[attempt] = withdraws

    def evidence(self, query: int) -> tuple[SignedRecord, ...]:
        """The withdrawals that refunds of the query rest on, or rested on."""
        kept = self._queries[query].refunds.values() if query in self._queries else ()
        return tuple(one for withdraws in kept for one in withdraws)

    def reinstate(self, query: int, attempt: int) -> None:
        """Take a refunded charge again, even beyond the budget."""
        found = self._queries[query]
        found.entries = rules.reinstated(query, found.entries, attempt)
