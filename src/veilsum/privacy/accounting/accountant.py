"""The accountant: raises before the release that would exceed a budget.

    accountant = Accountant(Budget(epsilon=1.0), unit="window", window=7)
    accountant.charge(ReleaseEvent("meter-3", round=12, what="signal", epsilon=0.1))
    # ... and only then release

The unit is what the budget protects: `event`, all that is released about one round's reading;
`window`, about any w consecutive rounds; `stream`, about all of them. An agent's releases are about
its own signals only, so agents compose in parallel: a total over agents is their maximum.

A guarantee for w rounds (w-event privacy: Kellaris, Papadopoulos, Xiao and Papadias 2014) must hold
for every window of w consecutive rounds. Its cost is the largest over windows,

    max_t  sum_{t <= r < t + w} eps_r,

with w = 1 for one event and w = infinity for the whole stream. Only windows that start at a round
with a release can be largest (among those that contain a given round, also the one that starts
there). Sums are exact fractions, so the order in which releases were charged does not
matter.

The sum of a batch is about the readings of several rounds (`ReleaseEvent.readings`): m of them in a
window cost `event.times(m)`, one of them `event`. What a window costs is `composition.spent`.

With `composition="basic"` (the default) epsilons may be chosen adaptively. With "best" the sum is
replaced by the least epsilon at the budget's delta (see `compose`); that is proved for a plan of
mechanisms fixed beforehand (what is released when must not depend on what was released before).
"""

from __future__ import annotations

import copy
import math
import threading
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fractions import Fraction
from itertools import accumulate
from typing import Any, Self

from veilsum import _validate
from veilsum._numbers import upward
from veilsum.errors import PrivacyError
from veilsum.privacy.accounting.composition import BASIC, BEST, Composition, spent
from veilsum.privacy.accounting.events import PrivacyEvent, Release, ReleaseEvent, Span

SLACK = 1e-12  # relative: three releases of 0.1 fit a budget of 0.3, whatever binary makes of them

Agent = int | str


@dataclass(frozen=True)
class Budget:
    """The epsilon and delta that may be spent.

    Parameters
    ----------
    epsilon : float
        Above 0.
    delta : float
        A probability below 1.

    Raises
    ------
    PrivacyError
        If a number is outside its range.

    Examples
    --------
    >>> Budget(1.0).covers(Composition(0.9, 0.0, "basic", 9))
    True
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        """Check both numbers."""
        _validate.positive(PrivacyError, epsilon=self.epsilon)
        _validate.probability(PrivacyError, delta=self.delta)

    def covers(self, spent: Composition) -> bool:
        """Whether neither epsilon nor delta of `spent` exceeds the budget."""
        fits = spent.epsilon <= self.epsilon * (1 + SLACK)
        return fits and spent.delta <= self.delta * (1 + SLACK)


class BudgetExceeded(PrivacyError):  # noqa: N818 - it reads as what happened
    """A release that would exceed the budget: nothing was released, nothing was charged.

    Attributes
    ----------
    agent : int or str
        The agent that asked.
    asked : ReleaseEvent
        The release that it asked for.
    spent : Composition
        What it had spent before.
    budget : Budget
        The budget.
    final : bool
        Whether no later release of this cost can be admitted either.
    refills_at : float or None
        When a release of this cost can be admitted, in seconds since 1970; None where time alone
        does not help.

    Examples
    --------
    >>> accountant = Accountant(Budget(1.0))
    >>> try:
    ...     accountant.charge(ReleaseEvent("meter-3", 1, "signal", epsilon=2.0))
    ... except BudgetExceeded as error:
    ...     print(error.spent.epsilon, error.budget.epsilon)
    0.0 1.0
    """

    def __init__(
        self,
        asked: ReleaseEvent,
        spent: Composition,
        budget: Budget,
        unit: str,
        final: bool = True,
        refills_at: float | None = None,
        remedy: str = "",
    ) -> None:
        """Store what was asked, what was spent before, the budget, and when there is more of it."""
        self.agent, self.asked, self.spent, self.budget = asked.agent, asked, spent, budget
        self.final, self.refills_at = final, refills_at
        self._arguments = asked, spent, budget, unit, final, refills_at, remedy
        super().__init__(
            f"agent {asked.agent!r} has spent {_cost_text(spent)} of the budget "
            f"{_cost_text(budget)} per {unit}; releasing {asked.what} of round {asked.round} asks "
            f"for {_cost_text(asked)} more; nothing was released; "
            f"{remedy or _way_out(final, refills_at)}"
        )

    def __reduce__(self) -> tuple[type[BudgetExceeded], tuple[Any, ...]]:
        """Pickle as its parts, so that it crosses processes."""
        return BudgetExceeded, self._arguments


@dataclass(frozen=True)
class AccountTotals:
    """The largest costs per event, per window and per stream, by one agent or over all agents.

    Attributes
    ----------
    event : Composition
        The most that the reading of one round cost.
    window : Composition or None
        The most that any w consecutive rounds cost; None without a window.
    stream : Composition
        What all rounds cost.

    Examples
    --------
    >>> accountant = Accountant(Budget(1.0))
    >>> _ = accountant.charge(ReleaseEvent("meter-3", 1, "signal", epsilon=0.25))
    >>> _ = accountant.charge(ReleaseEvent("meter-3", 2, "signal", epsilon=0.5))
    >>> totals = accountant.totals()
    >>> totals.event.epsilon, totals.window, totals.stream.epsilon
    (0.5, None, 0.75)
    """

    event: Composition
    window: Composition | None
    stream: Composition

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class EventCost:
    """The exact sums of epsilon and delta over some releases."""

    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    count: int = 0

    @classmethod
    def of(cls, event: PrivacyEvent) -> EventCost:
        """The cost of one event."""
        return cls(Fraction(event.epsilon), Fraction(event.delta), 1)

    def plus(self, other: EventCost) -> EventCost:
        """The sum of both."""
        return EventCost(
            self.epsilon + other.epsilon, self.delta + other.delta, self.count + other.count
        )

    def minus(self, other: EventCost) -> EventCost:
        """The difference."""
        return EventCost(
            self.epsilon - other.epsilon, self.delta - other.delta, self.count - other.count
        )


class EventHistory:
    """One agent's releases by round, with the largest cost over windows of rounds.

    A release of several readings stands at each of their rounds. Sums of epsilons are kept by round,
    so that a window of pure releases costs a difference of two sums; where a batch has a delta, which
    group privacy multiplies by more than the number of its readings, every window asks `spent`.
    """

    def __init__(self) -> None:
        """Start with nothing released."""
        self.rounds: list[int] = []
        self._releases: dict[int, Counter[Release]] = {}
        self._sums: dict[int, EventCost] = {}
        self._all = EventCost()
        self._batches_with_delta = 0

    def add(self, release: ReleaseEvent) -> None:
        """Record a release."""
        one, about = EventCost.of(release.event), release.release
        self._batches_with_delta += _grows(release)
        for at in release.rounds:
            if at not in self._releases:
                insort(self.rounds, at)
                self._releases[at] = Counter()
            self._releases[at][about] += 1
            self._sums[at] = self._sums.get(at, EventCost()).plus(one)
            self._all = self._all.plus(one)

    def remove(self, release: ReleaseEvent) -> None:
        """Revert `add` of the same release, exactly."""
        one, about = EventCost.of(release.event), release.release
        self._batches_with_delta -= _grows(release)
        for at in release.rounds:
            self._releases[at] -= Counter([about])  # drops what is down to 0
            self._sums[at] = self._sums[at].minus(one)
            self._all = self._all.minus(one)
            if not self._releases[at]:
                self.rounds.remove(at)
                del self._releases[at], self._sums[at]

    def largest(
        self, width: int | None, delta: float | None = None, around: range | None = None
    ) -> Composition:
        """The most that any `width` consecutive rounds cost (None: all of them).

        Without a delta, the largest sums of epsilons and of deltas; with it, the largest epsilon at
        that delta. With `around`, over windows that contain one of these rounds.
        """
        if delta is None and not self._batches_with_delta:
            return self._largest_sum(width, around)
        near = self.rounds if width is None else self._near(width, around)
        windows = [(0, len(near))] if width is None else _windows(near, width, around)
        return most(spent(self._in(near[i:j]), self._span(near[i:j]), delta) for i, j in windows)

    def _largest_sum(self, width: int | None, around: range | None) -> Composition:
        sums = [self._all] if width is None else self._window_sums(width, around)
        largest = max(sums, key=lambda one: one.epsilon, default=EventCost())
        delta = max((one.delta for one in sums), default=Fraction(0))
        return Composition(float(largest.epsilon), float(delta), BASIC, largest.count)

    def _in(self, rounds: list[int]) -> Counter[Release]:
        """Every release about a reading of some rounds, as often as it was made."""
        found: Counter[Release] = Counter()
        for at in rounds:
            found |= self._releases[at]
        return found

    @staticmethod
    def _span(rounds: list[int]) -> range:
        return range(rounds[0], rounds[-1] + 1) if rounds else range(0)

    def _window_sums(self, width: int, around: range | None) -> list[EventCost]:
        near = self._near(width, around)
        until = list(accumulate((self._sums[r] for r in near), EventCost.plus, initial=EventCost()))
        return [until[j].minus(until[i]) for i, j in _windows(near, width, around)]

    def _near(self, width: int, around: range | None) -> list[int]:
        if around is None:
            return self.rounds
        first = bisect_left(self.rounds, around[0] - width + 1)
        return self.rounds[first : bisect_right(self.rounds, around[-1] + width - 1)]


def _grows(release: ReleaseEvent) -> bool:
    """Whether m of its readings cost more than m times as much."""
    return release.readings > 1 and release.delta > 0


def _windows(rounds: list[int], width: int, around: range | None) -> Iterator[tuple[int, int]]:
    """Every window that can be largest, as a slice: it starts with a release, or in `around`."""
    starts = rounds
    if around is not None:
        inside = [r for r in rounds if around[0] - width < r <= around[-1]]
        starts = [*inside, *(r for r in around if r not in inside)]
    for start in starts:
        yield bisect_left(rounds, start), bisect_left(rounds, start + width)


class Accountant:
    """Records releases, and raises before one that would exceed a budget.

    Thread-safe: a charge checks and adds in one step, under a lock that every reader of totals
    takes as well. A copy in another process is an independent accountant.

    Parameters
    ----------
    budget : Budget or mapping from agents to Budget
        One budget for every agent, or one each (as an allocation assigns them); an agent without
        a budget may release nothing.
    unit : Span or str
        What the budget protects: "event", "window" or "stream".
    window : int, optional
        The number of rounds of a window; required by the unit "window".
    composition : str
        "basic" or "best".

    Raises
    ------
    PrivacyError
        If an argument is outside its range, or the unit "window" has no window.

    Examples
    --------
    >>> accountant = Accountant(Budget(epsilon=1.0), unit="window", window=7)
    >>> accountant.charge(ReleaseEvent("meter-3", 12, "signal", epsilon=0.25)).epsilon
    0.25
    >>> accountant.remaining("meter-3")
    0.75
    """

    def __init__(
        self,
        budget: Budget | Mapping[Agent, Budget],
        *,
        unit: Span | str = Span.STREAM,
        window: int | None = None,
        composition: str = BASIC,
    ) -> None:
        """Check the unit and the window; nothing is spent yet."""
        _validate.one_of(PrivacyError, list(Span), unit=unit)
        _validate.one_of(PrivacyError, (BASIC, BEST), composition=composition)
        if window is not None:
            _validate.at_least(PrivacyError, 1, window=window)
            window = int(window)
        elif Span(unit) is Span.WINDOW:
            raise PrivacyError("unit window needs the number of rounds, such as window=7")
        self.budget = budget if isinstance(budget, Budget) else dict(budget)
        self.unit, self.window, self.composition = Span(unit), window, composition
        self._releases: list[ReleaseEvent] = []
        self._keys: set[tuple[Agent, int, str]] = set()
        self._histories: dict[Agent, EventHistory] = {}
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        """All attributes but the lock, consistent between two charges."""
        with self._lock:
            state = {key: value for key, value in vars(self).items() if key != "_lock"}
            return copy.deepcopy(state)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the attributes, with a new lock."""
        vars(self).update(state)
        self._lock = threading.RLock()

    @property
    def releases(self) -> tuple[ReleaseEvent, ...]:
        """Every release charged so far, in order."""
        with self._lock:
            return tuple(self._releases)

    @property
    def agents(self) -> tuple[Agent, ...]:
        """Every agent that has released something."""
        with self._lock:
            return tuple(self._histories)

    def charge(self, release: ReleaseEvent, *, again: bool = False) -> Composition:
        """Charge a release before it happens.

        Parameters
        ----------
        release : ReleaseEvent
            The release.
        again : bool
            Whether the same agent, round and `what` may be charged a second time: that is a second
            release of the same signal, which costs as much again. (Re-sending a value that was
            released before costs nothing and is not charged.)
        """
        with self._lock:
            self._check_new(release, again)
            after = self._after(release)
            if after is None:
                spent = self._spent(release.agent, release.rounds)
                budget = self.budget_of(release.agent)
                alone = Composition(release.epsilon, release.delta, BASIC, 1)
                final = self.unit is not Span.WINDOW or not budget.covers(alone)
                raise BudgetExceeded(release, spent, budget, self._per, final)
            self._histories.setdefault(release.agent, EventHistory()).add(release)
            self._releases.append(release)
            self._keys.add(release.key)
            return after

    def _check_new(self, release: ReleaseEvent, again: bool) -> None:
        if release.key in self._keys and not again:
            raise PrivacyError(
                f"agent {release.agent!r} has released {release.what} of round {release.round} "
                "already; re-send the stored value, which is free, or charge a second release "
                "with again=True"
            )

    def would_exceed(self, release: ReleaseEvent) -> bool:
        """Whether `charge` would raise `BudgetExceeded`."""
        with self._lock:
            return self._after(release) is None

    def budget_of(self, agent: Agent) -> Budget:
        """Return the agent's budget; `PrivacyError` if it has none."""
        if isinstance(self.budget, Budget):
            return self.budget
        if agent not in self.budget:
            raise PrivacyError(f"agent {agent!r} has no budget; add it to the accountant's budgets")
        return self.budget[agent]

    def remaining(self, agent: Agent, round: int | None = None) -> float:
        """Return the epsilon that a pure release may still cost: eps_budget - eps_spent.

        That is right for tight totals too: (eps, delta) and a pure eps' compose to
        (eps + eps', delta).

        Parameters
        ----------
        agent : int or str
            The agent.
        round : int, optional
            The round of the release; without it, the most expensive unit counts.
        """
        with self._lock:
            spent = self._spent(agent, None if round is None else range(round, round + 1))
        return max(0.0, self.budget_of(agent).epsilon - spent.epsilon)

    def totals(
        self, agent: Agent | None = None, *, window: int | None = None, delta: float | None = None
    ) -> AccountTotals:
        """Return the largest costs per event, per window and per stream.

        Parameters
        ----------
        agent : int or str, optional
            Whose; without it, the maximum over agents.
        window : int, optional
            The rounds of a window; the accountant's own without it.
        delta : float, optional
            Without it, costs are sums; with it, the least epsilon at that delta.
        """
        width = self.window if window is None else window
        if width is not None:
            _validate.at_least(PrivacyError, 1, window=width)
        with self._lock:
            histories = [h for a, h in self._histories.items() if agent is None or a == agent]
            event, stream = (most(h.largest(w, delta) for h in histories) for w in (1, None))
            in_window = None if width is None else most(h.largest(width, delta) for h in histories)
        return AccountTotals(event, in_window, stream)

    def to_dict(self) -> dict[str, Any]:
        """Return budget, unit and every release as plain data, which `from_dict` reads."""
        common = isinstance(self.budget, Budget)
        each = self.budget.items() if isinstance(self.budget, dict) else ()
        return {
            "budget": asdict(self.budget) if isinstance(self.budget, Budget) else None,
            "budgets": None if common else [[agent, asdict(one)] for agent, one in each],
            "unit": self.unit.value,
            "window": self.window,
            "composition": self.composition,
            "releases": [release.to_dict() for release in self.releases],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Restore what `to_dict` returned; every release is checked and charged again."""
        budget: Budget | dict[Agent, Budget]
        if data["budget"] is not None:
            budget = Budget(**data["budget"])
        else:
            budget = {agent: Budget(**one) for agent, one in data["budgets"]}
        restored = cls(
            budget, unit=data["unit"], window=data["window"], composition=data["composition"]
        )
        for release in data["releases"]:
            restored.charge(ReleaseEvent(**release), again=True)
        return restored

    @property
    def _width(self) -> int | None:
        return {Span.EVENT: 1, Span.WINDOW: self.window, Span.STREAM: None}[self.unit]

    @property
    def _per(self) -> str:
        if self.unit is Span.WINDOW:
            return f"window of {self.window} rounds"
        return self.unit.value

    def _spent(self, agent: Agent, around: range | None = None) -> Composition:
        history = self._histories.get(agent, EventHistory())
        return history.largest(self._width, self._delta_of(agent), around)

    def _delta_of(self, agent: Agent) -> float | None:
        """The delta at which the agent's costs are composed; None where they are added up."""
        delta = self.budget_of(agent).delta
        return None if self.composition == BASIC or delta == 0 else delta

    def _after(self, release: ReleaseEvent) -> Composition | None:
        """The total with the release, or None where it does not fit."""
        budget = self.budget_of(release.agent)
        history = self._histories.get(release.agent, EventHistory())
        history.add(release)
        try:
            after = history.largest(self._width, None, release.rounds)
            delta = self._delta_of(release.agent)
            if not budget.covers(after) and delta is not None:
                after = _composed(history, self._width, delta, release.rounds)
        finally:
            history.remove(release)
        return after if budget.covers(after) else None


def _composed(history: EventHistory, width: int | None, delta: float, near: range) -> Composition:
    try:
        return history.largest(width, delta, near)
    except PrivacyError:  # the deltas alone are above the budget's
        return Composition(math.inf, delta, BEST, 0)


def most(costs: Iterable[Composition]) -> Composition:
    """(max eps, max delta): what holds for every agent, and every window, at once."""
    found = list(costs)
    top = max(found, key=lambda one: one.epsilon, default=Composition(0.0, 0.0, BASIC, 0))
    delta = max((one.delta for one in found), default=0.0)
    return Composition(top.epsilon, delta, top.method, top.count)


def _way_out(final: bool, refills_at: float | None) -> str:
    if final:
        return "ask for less, or choose a larger budget"
    if refills_at is None:
        return "later readings are admitted when the window has moved on"
    when = datetime.fromtimestamp(refills_at, UTC).isoformat(" ", "seconds")
    return f"the budget suffices again from {when}"


def _cost_text(cost: Budget | Composition | ReleaseEvent) -> str:
    delta = f" and delta = {upward(cost.delta, 6)}" if cost.delta else ""
    return f"epsilon = {upward(cost.epsilon, 6)}{delta}"
