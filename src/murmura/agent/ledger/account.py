"""What an agent may still spend, by the accountant's rules and in little memory.

A stream of a million readings must not be kept as a million objects. A charge is judged by an
`Accountant` that holds only what can matter to it: for a stream one release of all that was spent
so far (an exact sum, rounded once), for a window the releases of readings that share a window with
it, for an event nothing, since a reading is charged once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from murmura.agent.ledger.records import Entry, Identity, Spent, Total
from murmura.errors import LedgerError
from murmura.privacy.accounting import Accountant, Budget, Loss, Release, Totals

STREAM, WINDOW, EVENT = "stream", "window", "event"
BEFORE, SIGNAL = "all before", "signal"


class Account:
    """The budget of one ledger and what is spent of it."""

    def __init__(self, identity: Identity) -> None:
        """Nothing is spent yet; a unit or window that makes no sense is refused."""
        self._who = identity
        self.total = Total()
        self._dearest = Spent(0.0, 0.0)
        if identity.budget is not None:
            self._accountant(identity.budget)

    @classmethod
    def of(cls, identity: Identity, entries: Iterable[Entry]) -> Account:
        """The account after so many releases."""
        account = cls(identity)
        windows = None if identity.unit != WINDOW else all_of(identity, ())
        for entry in entries:
            account.total = account.total.plus(entry.epsilon, entry.delta)
            if windows is not None:
                windows.charge(_release(identity.agent, entry), again=True)
            account._reach(Spent(entry.epsilon, entry.delta))
        found = windows.totals().window if windows is not None else None
        if found is not None:
            account._reach(Spent(found.epsilon, found.delta))
        return account

    @property
    def spent(self) -> Spent:
        """Spent in all, in the dearest window or on the dearest reading, as the unit says."""
        return self.total.rounded if self._who.unit == STREAM else self._dearest

    @property
    def remaining(self) -> Spent:
        """What is left of the budget; nothing where none was given."""
        budget, spent = self._who.budget, self.spent
        if budget is None:
            return Spent(0.0, 0.0)
        left = (budget.epsilon - spent.epsilon, budget.delta - spent.delta)
        return Spent(max(0.0, left[0]), max(0.0, left[1]))

    def admit(self, reading: int, price: Loss | None, near: Callable[[int], list[Entry]]) -> Spent:
        """What the unit has cost with this release, or raise `BudgetExceeded`."""
        budget = self._who.budget
        if (price is None) != (budget is None):
            raise LedgerError(
                f"the ledger of {self._who.agent} has {'no' if budget is None else 'a'} budget and "
                f"the release {'no' if price is None else 'a'} price; nothing was released; "
                "no budget goes with releases that promise nothing, and with no others"
            )
        if price is None or budget is None:
            return Spent(math.inf, 0.0)
        accountant = self._accountant(budget)
        if self._who.unit == STREAM and self.total.epsilon:
            spent = self.total.rounded
            accountant.charge(_priced(self._who.agent, 0, BEFORE, spent.epsilon, spent.delta))
        elif self._who.unit == WINDOW:
            for entry in near(self._who.window):
                accountant.charge(_release(self._who.agent, entry))
        asked = _priced(self._who.agent, reading, SIGNAL, price.epsilon, price.delta)
        after = accountant.charge(asked)
        return Spent(after.epsilon, after.delta)

    def add(self, entry: Entry, after: Spent) -> None:
        """Count a release that was admitted and committed."""
        self.total = self.total.plus(entry.epsilon, entry.delta)
        self._reach(after)

    def _reach(self, spent: Spent) -> None:
        old = self._dearest
        self._dearest = Spent(max(old.epsilon, spent.epsilon), max(old.delta, spent.delta))

    def _accountant(self, budget: Budget) -> Accountant:
        return Accountant(budget, unit=self._who.unit, window=self._who.window or None)


def all_of(identity: Identity, entries: Iterable[Entry]) -> Accountant:
    """An accountant that holds every release: for totals, not for every day."""
    unit, window = identity.unit, identity.window or None
    budget = identity.budget or Budget(1.0)
    accountant = Accountant(budget, unit=unit, window=window)
    for entry in entries:
        accountant.charge(_release(identity.agent, entry), again=True)
    return accountant


def totals(identity: Identity, entries: Iterable[Entry]) -> Totals:
    """What was spent per reading, per window and in all."""
    return all_of(identity, entries).totals()


def _release(agent: str, entry: Entry) -> Release:
    return _priced(agent, entry.reading, SIGNAL, entry.epsilon, entry.delta)


def _priced(agent: str, reading: int, what: str, epsilon: float, delta: float) -> Release:
    kind = "approximate" if delta else "pure"
    return Release(agent, reading, what, epsilon, delta, kind)
