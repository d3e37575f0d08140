"""The accountant: refuses the release that would exceed a budget, before it happens.

    accountant = Accountant(Budget(epsilon=1.0), unit="window", window=7)
    accountant.charge(Release("meter-3", round=12, what="signal", epsilon=0.1))   # then release

The unit says what the budget protects: `event`, all that is released about one round's reading;
`window`, about any w consecutive rounds; `stream`, about all of them. An agent's releases speak of
its own signals only, so agents compose in parallel: a total over agents is their maximum.

With `composition="basic"` (the default) epsilons may be chosen as one goes. With "best" the sum is
replaced by the least epsilon at the budget's delta (see `compose`); that is proved for a plan of
mechanisms fixed beforehand (what is released when must not depend on what was released before).
"""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from murmura import _validate
from murmura.errors import PrivacyError
from murmura.privacy.accounting.composition import BASIC, BEST, Composition
from murmura.privacy.accounting.history import History
from murmura.privacy.accounting.losses import Release

EVENT, WINDOW, STREAM = "event", "window", "stream"
UNITS = (EVENT, WINDOW, STREAM)
SLACK = 1e-12  # relative: three releases of 0.1 fit a budget of 0.3, whatever binary makes of them

Agent = int | str


@dataclass(frozen=True)
class Budget:
    """What may be spent: epsilon and delta."""

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        """Check both numbers."""
        _validate.positive(PrivacyError, epsilon=self.epsilon)
        _validate.probability(PrivacyError, delta=self.delta)

    def covers(self, spent: Composition) -> bool:
        """Whether (epsilon, delta) of `spent` fit."""
        fits = spent.epsilon <= self.epsilon * (1 + SLACK)
        return fits and spent.delta <= self.delta * (1 + SLACK)


class BudgetExceeded(PrivacyError):  # noqa: N818 - the issue's name, and what a reader looks for
    """A release refused before it happened: nothing was released, nothing was charged."""

    def __init__(self, asked: Release, spent: Composition, budget: Budget, unit: str) -> None:
        """Keep what was asked, what was spent before, and the budget."""
        self.agent, self.asked, self.spent, self.budget = asked.agent, asked, spent, budget
        self._made_of = asked, spent, budget, unit
        super().__init__(
            f"agent {asked.agent!r} has spent {_price(spent.epsilon, spent.delta)} of the budget "
            f"{_price(budget.epsilon, budget.delta)} per {unit}; releasing {asked.what} of round "
            f"{asked.round} asks for {_price(asked.epsilon, asked.delta)} more; nothing was "
            "released; ask for less, or wait for a budget"
        )

    def __reduce__(self) -> tuple[type[BudgetExceeded], tuple[Any, ...]]:
        """Pickle as its four parts, so that it crosses processes."""
        return BudgetExceeded, self._made_of


@dataclass(frozen=True)
class Totals:
    """What was spent on one event, on any w rounds (None without w), and on the whole stream."""

    event: Composition
    window: Composition | None
    stream: Composition

    def to_dict(self) -> dict[str, Any]:
        """Give the fields as plain data."""
        return asdict(self)


class Accountant:
    """Records releases, and refuses the one that would exceed a budget.

    `budget` holds for every agent, or is a mapping from agents to budgets (as an allocation gives
    them); an agent without a budget may release nothing.

    Safe to use from any number of threads: a charge looks and adds in one step, under a lock that
    every reader of totals takes as well. Copies for other processes are accountants of their own.
    """

    def __init__(
        self,
        budget: Budget | Mapping[Agent, Budget],
        *,
        unit: str = STREAM,
        window: int | None = None,
        composition: str = BASIC,
    ) -> None:
        """Check the unit and the window; nothing is spent yet."""
        _validate.one_of(PrivacyError, UNITS, unit=unit)
        _validate.one_of(PrivacyError, (BASIC, BEST), composition=composition)
        if window is not None:
            _validate.at_least(PrivacyError, 1, window=window)
            window = int(window)
        elif unit == WINDOW:
            raise PrivacyError("unit window needs the number of rounds, such as window=7")
        self.budget = budget if isinstance(budget, Budget) else dict(budget)
        self.unit, self.window, self.composition = unit, window, composition
        self._releases: list[Release] = []
        self._keys: set[tuple[Agent, int, str]] = set()
        self._histories: dict[Agent, History] = {}
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        """All but the lock, as it was between two charges."""
        with self._lock:
            kept = {key: value for key, value in vars(self).items() if key != "_lock"}
            return copy.deepcopy(kept)

    def __setstate__(self, kept: dict[str, Any]) -> None:
        """An accountant with a lock of its own."""
        vars(self).update(kept)
        self._lock = threading.RLock()

    @property
    def releases(self) -> tuple[Release, ...]:
        """Every release charged so far, in order."""
        with self._lock:
            return tuple(self._releases)

    @property
    def agents(self) -> tuple[Agent, ...]:
        """Every agent that has released something."""
        with self._lock:
            return tuple(self._histories)

    def charge(self, release: Release, *, again: bool = False) -> Composition:
        """Charge a release and give the new total, or raise `BudgetExceeded` and change nothing.

        A second charge of the same agent, round and what is a second release of the same signal,
        which costs as much again: refused unless `again=True`. (Re-sending a value that was
        released before costs nothing and is not charged.)
        """
        with self._lock:
            self._check_new(release, again)
            after = self._after(release)
            if after is None:
                spent = self._spent(release.agent, release.round)
                raise BudgetExceeded(release, spent, self.budget_of(release.agent), self._per)
            self._histories.setdefault(release.agent, History()).add(release.round, release.loss)
            self._releases.append(release)
            self._keys.add(release.key)
            return after

    def _check_new(self, release: Release, again: bool) -> None:
        if release.key in self._keys and not again:
            raise PrivacyError(
                f"agent {release.agent!r} has released {release.what} of round {release.round} "
                "already; re-send the stored value, which is free, or charge a second release "
                "with again=True"
            )

    def would_exceed(self, release: Release) -> bool:
        """Whether `charge` would refuse it for want of budget."""
        with self._lock:
            return self._after(release) is None

    def budget_of(self, agent: Agent) -> Budget:
        """The agent's budget."""
        if isinstance(self.budget, Budget):
            return self.budget
        if agent not in self.budget:
            raise PrivacyError(f"agent {agent!r} has no budget; add it to the accountant's budgets")
        return self.budget[agent]

    def remaining(self, agent: Agent, round: int | None = None) -> float:
        """Epsilon that a pure release may still cost: in that round, or in the dearest stretch.

        eps_budget - eps_spent, which is right for tight totals too: (eps, delta) and a pure eps'
        compose to (eps + eps', delta).
        """
        with self._lock:
            spent = self._spent(agent, round)
        return max(0.0, self.budget_of(agent).epsilon - spent.epsilon)

    def totals(
        self, agent: Agent | None = None, *, window: int | None = None, delta: float | None = None
    ) -> Totals:
        """What was spent per event, per window of w rounds and in all, by an agent or the largest.

        Without `delta` the sums; with it, the least epsilon at that delta.
        """
        width = self.window if window is None else window
        if width is not None:
            _validate.at_least(PrivacyError, 1, window=width)
        with self._lock:
            histories = [h for a, h in self._histories.items() if agent is None or a == agent]
            event, stream = (_largest([_total(h, w, delta) for h in histories]) for w in (1, None))
            in_window = [] if width is None else [_total(h, width, delta) for h in histories]
        return Totals(event, None if width is None else _largest(in_window), stream)

    def to_dict(self) -> dict[str, Any]:
        """Give budget, unit and every release as plain data."""
        shared = isinstance(self.budget, Budget)
        own = self.budget.items() if isinstance(self.budget, dict) else ()
        return {
            "budget": asdict(self.budget) if isinstance(self.budget, Budget) else None,
            "budgets": None if shared else [[agent, asdict(one)] for agent, one in own],
            "unit": self.unit,
            "window": self.window,
            "composition": self.composition,
            "releases": [release.to_dict() for release in self.releases],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The accountant that `to_dict` described; every release is checked and charged again."""
        budget: Budget | dict[Agent, Budget]
        if data["budget"] is not None:
            budget = Budget(**data["budget"])
        else:
            budget = {agent: Budget(**one) for agent, one in data["budgets"]}
        kept = cls(
            budget, unit=data["unit"], window=data["window"], composition=data["composition"]
        )
        for release in data["releases"]:
            kept.charge(Release(**release), again=True)
        return kept

    @property
    def _width(self) -> int | None:
        return {EVENT: 1, WINDOW: self.window, STREAM: None}[self.unit]

    @property
    def _per(self) -> str:
        return f"window of {self.window} rounds" if self.unit == WINDOW else self.unit

    def _spent(self, agent: Agent, around: int | None = None) -> Composition:
        history = self._histories.get(agent, History())
        basic = history.basic(self._width, around)
        budget = self.budget_of(agent)
        if self.composition == BASIC or budget.delta == 0:
            return basic
        return history.best(self._width, budget.delta, around)

    def _after(self, release: Release) -> Composition | None:
        """The total with the release, or None where it does not fit."""
        budget = self.budget_of(release.agent)
        history = self._histories.get(release.agent, History())
        history.add(release.round, release.loss)
        try:
            after = history.basic(self._width, release.round)
            if not budget.covers(after) and self.composition == BEST and budget.delta > 0:
                after = _best(history, self._width, budget.delta, release.round)
        finally:
            history.remove(release.round, release.loss)
        return after if budget.covers(after) else None


def _best(history: History, width: int | None, delta: float, around: int) -> Composition:
    try:
        return history.best(width, delta, around)
    except PrivacyError:  # the deltas alone are above the budget's
        return Composition(math.inf, delta, BEST, 0)


def _total(history: History, width: int | None, delta: float | None) -> Composition:
    return history.basic(width) if delta is None else history.best(width, delta)


def _largest(found: list[Composition]) -> Composition:
    """(max eps, max delta): what holds for every agent at once."""
    top = max(found, key=lambda one: one.epsilon, default=Composition(0.0, 0.0, BASIC, 0))
    delta = max((one.delta for one in found), default=0.0)
    return Composition(top.epsilon, delta, top.method, top.count)


def _price(epsilon: float, delta: float) -> str:
    return f"epsilon = {epsilon:g}" + (f" and delta = {delta:g}" if delta else "")
