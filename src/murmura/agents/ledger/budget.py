"""What an agent may still spend, by the accountant's rules and in constant memory.

A stream of a million readings must not be held as a million objects. Each charge is judged by an
`Accountant` that holds only what can affect it: for a stream one release with the cost of all
earlier ones (an exact sum, rounded once), for a window the releases whose readings share a window
with it, for an event none, since a reading is charged once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from murmura.agents.ledger.records import CostSum, EpsilonDelta, LedgerEntry, LedgerIdentity
from murmura.errors import LedgerError
from murmura.privacy.accounting import Accountant, AccountTotals, Budget, PrivacyEvent, ReleaseEvent

STREAM, WINDOW, EVENT = "stream", "window", "event"
EARLIER, SIGNAL = "all before", "signal"


class BudgetTracker:
    """The budget of one ledger and what is spent of it."""

    def __init__(self, identity: LedgerIdentity) -> None:
        """Start with nothing spent; an invalid unit or window raises."""
        self._identity = identity
        self.total = CostSum()
        self._largest = EpsilonDelta(0.0, 0.0)
        if identity.budget is not None:
            self._accountant(identity.budget)

    @classmethod
    def of(cls, identity: LedgerIdentity, entries: Iterable[LedgerEntry]) -> BudgetTracker:
        """The tracker after these releases."""
        tracker = cls(identity)
        windows = None if identity.unit != WINDOW else _charged(identity, ())
        for entry in entries:
            tracker.total = tracker.total.plus(entry.epsilon, entry.delta)
            if windows is not None:
                windows.charge(_event(identity.agent, entry), again=True)
            tracker._raise_largest(EpsilonDelta(entry.epsilon, entry.delta))
        found = windows.totals().window if windows is not None else None
        if found is not None:
            tracker._raise_largest(EpsilonDelta(found.epsilon, found.delta))
        return tracker

    @property
    def spent(self) -> EpsilonDelta:
        """Spent in total, in the most expensive window or on the most expensive reading."""
        return self.total.rounded if self._identity.unit == STREAM else self._largest

    @property
    def remaining(self) -> EpsilonDelta:
        """What remains of the budget; zero where there is none."""
        budget, spent = self._identity.budget, self.spent
        if budget is None:
            return EpsilonDelta(0.0, 0.0)
        left = (budget.epsilon - spent.epsilon, budget.delta - spent.delta)
        return EpsilonDelta(max(0.0, left[0]), max(0.0, left[1]))

    def admit(
        self,
        reading: int,
        cost: PrivacyEvent | None,
        neighbours: Callable[[int], list[LedgerEntry]],
    ) -> EpsilonDelta:
        """What the unit has cost including this release, or raise `BudgetExceeded`.

        `neighbours` returns the entries of readings within so many of this one.
        """
        budget, agent = self._identity.budget, self._identity.agent
        if (cost is None) != (budget is None):
            raise LedgerError(
                f"the ledger of {agent} has {'no' if budget is None else 'a'} budget and "
                f"the release {'no' if cost is None else 'a'} cost; nothing was released; "
                "a ledger without a budget takes only releases that guarantee nothing"
            )
        if cost is None or budget is None:
            return EpsilonDelta(math.inf, 0.0)
        accountant = self._accountant(budget)
        if self._identity.unit == STREAM and self.total.epsilon:
            spent = self.total.rounded
            accountant.charge(_costing(agent, 0, EARLIER, spent.epsilon, spent.delta))
        elif self._identity.unit == WINDOW:
            for entry in neighbours(self._identity.window):
                accountant.charge(_event(agent, entry))
        after = accountant.charge(_costing(agent, reading, SIGNAL, cost.epsilon, cost.delta))
        return EpsilonDelta(after.epsilon, after.delta)

    def add(self, entry: LedgerEntry, after: EpsilonDelta) -> None:
        """Count a release that was admitted and committed."""
        self.total = self.total.plus(entry.epsilon, entry.delta)
        self._raise_largest(after)

    def _raise_largest(self, spent: EpsilonDelta) -> None:
        old = self._largest
        self._largest = EpsilonDelta(max(old.epsilon, spent.epsilon), max(old.delta, spent.delta))

    def _accountant(self, budget: Budget) -> Accountant:
        return Accountant(budget, unit=self._identity.unit, window=self._identity.window or None)


def totals(identity: LedgerIdentity, entries: Iterable[LedgerEntry]) -> AccountTotals:
    """What was spent per reading, per window and in total."""
    return _charged(identity, entries).totals()


def _charged(identity: LedgerIdentity, entries: Iterable[LedgerEntry]) -> Accountant:
    """An accountant that holds every release: for totals, not for each charge."""
    unit, window = identity.unit, identity.window or None
    budget = identity.budget or Budget(1.0)
    accountant = Accountant(budget, unit=unit, window=window)
    for entry in entries:
        accountant.charge(_event(identity.agent, entry), again=True)
    return accountant


def _event(agent: str, entry: LedgerEntry) -> ReleaseEvent:
    return _costing(agent, entry.reading, SIGNAL, entry.epsilon, entry.delta)


def _costing(agent: str, reading: int, what: str, epsilon: float, delta: float) -> ReleaseEvent:
    kind = "approximate" if delta else "pure"
    return ReleaseEvent(agent, reading, what, epsilon, delta, kind)
