"""The budget of queries: reserved when they begin, charged when sent, given back; in every unit."""

import random
from typing import Any

import pytest

from tests.agents.ledger.session_world import EPSILON, Steps, a_sum, made_terms
from tests.agents.ledger.test_budget_calendar import DAY, HOUR, FakeClock
from veilsum.agents.ledger import EpsilonDelta, amend, read_ledger, verify
from veilsum.agents.ledger.budget import BudgetTracker
from veilsum.agents.masked.entries import Stage
from veilsum.errors import LedgerError
from veilsum.privacy import Budget, BudgetExceeded, PrivacyEvent

UNITS: dict[str, dict[str, Any]] = {
    "stream": {},
    "window": {"unit": "window", "window": 4},
    "event": {"unit": "event"},
    "rolling": {"per": "day"},
    "fixed": {"per": "day", "refill": "fixed"},
}


@pytest.fixture
def terms(manifest: Any) -> Any:
    return made_terms(manifest)


def left(ledger: Any) -> tuple[float, float, float]:
    """(spent, reserved, remaining), each asked in the ways that there are."""
    status = ledger.budget_status()
    assert ledger.remaining == status.remaining
    return ledger.spent.epsilon, status.reserved.epsilon, status.remaining.epsilon


def test_every_step_of_a_stream(open_ledger: Any, terms: Any) -> None:
    ledger = open_ledger()
    steps = Steps(ledger.sessions(terms), terms)
    assert left(ledger) == (0, 0, 1)
    steps.begin(last=2, readings=2)  # two readings at 1/8 each, two attempts
    assert left(ledger) == (0, 0.5, 0.5)
    steps.open().prepare()
    assert left(ledger) == (0, 0.5, 0.5)
    steps.withdraw()
    assert left(ledger) == (0, 0.5, 0.5)
    steps.sent(0, 1)
    assert left(ledger) == (0.25, 0.25, 0.5)
    steps.refund()
    assert left(ledger) == (0, 0.25, 0.75)
    steps.sent(1)
    assert left(ledger) == (0.25, 0, 0.75)
    steps.sessions.conclude_query(1, "sum", a_sum(1, 1))
    assert left(ledger) == (0.25, 0, 0.75)


def test_what_is_taken_again_counts_even_beyond_the_budget(
    open_ledger: Any, terms: Any, tmp_path: Any
) -> None:
    """The refund was spent on two other queries before it turned out to be false."""
    ledger = open_ledger(budget=Budget(0.375))
    steps = Steps(ledger.sessions(terms), terms).begin()
    steps.sent()
    steps.refund()
    steps.sent(1)
    steps.sessions.conclude_query(1, "sum", a_sum(1, 1))
    for query in (2, 3):
        other = Steps(steps.sessions, terms, query).begin(last=query, attempts=1)
        other.sent()
        steps.sessions.conclude_query(query, "sum", a_sum(query))
    assert left(ledger) == (0.375, 0, 0)
    steps.reinstate()
    assert left(ledger)[:2] == (0.5, 0)
    assert left(ledger)[2] <= 0
    for again in (ledger, None):
        if again is None:
            ledger.close()
            ledger = open_ledger(budget=Budget(0.375))
        with pytest.raises(BudgetExceeded):
            Steps(ledger.sessions(terms), terms, 4).begin(last=4, attempts=1)
        assert ledger.spent.epsilon == 0.5
        contents, found = read_ledger(tmp_path / "a.ledger"), verify(tmp_path / "a.ledger")
        assert found.status is not None
        assert contents.status.spent.epsilon == found.status.spent.epsilon == 0.5
        assert found.ok, found.problems


def test_a_query_that_ends_early_gives_back_what_it_has_not_charged(
    open_ledger: Any, terms: Any
) -> None:
    ledger = open_ledger()
    steps = Steps(ledger.sessions(terms), terms).begin()
    steps.sent()
    steps.sessions.conclude_query(1, "sum", a_sum(1))
    assert left(ledger) == (0.125, 0, 0.875)
    Steps(steps.sessions, terms, 2).begin(last=2)
    steps.sessions.conclude_query(2, "views", None)
    assert left(ledger) == (0.125, 0, 0.875)


def test_r5_nothing_is_reserved_or_written_if_one_attempt_is_too_much(
    open_ledger: Any, terms: Any, tmp_path: Any
) -> None:
    ledger = open_ledger(budget=Budget(0.625))
    sessions = ledger.sessions(terms)
    for query in (1, 2):
        Steps(sessions, terms, query).begin(last=query).sent()
        sessions.conclude_query(query, "sum", a_sum(query))
    before = (tmp_path / "a.ledger-wal").read_bytes()
    with pytest.raises(BudgetExceeded, match=r"asks for epsilon = 0.5 more; nothing was released"):
        Steps(sessions, terms, 3).begin(last=3, attempts=4)
    with pytest.raises(BudgetExceeded) as refused:
        Steps(sessions, terms, 3).begin(last=5, readings=2)
    assert refused.value.spent.epsilon == 0.25
    assert (tmp_path / "a.ledger-wal").read_bytes() == before
    assert sessions.open_query() is None
    Steps(sessions, terms, 3).begin(last=3, attempts=3)
    assert left(ledger) == (0.25, 0.375, 0)


def test_a_budget_that_is_never_enough_says_so(open_ledger: Any, terms: Any) -> None:
    sessions = open_ledger(budget=Budget(0.2), per="day").sessions(terms)
    with pytest.raises(BudgetExceeded, match="enough for all of its 2 attempts") as refused:
        Steps(sessions, terms).begin()
    assert refused.value.final


class Oracle:
    """What counts, by trying everything: one dictionary for each masked value that was sent."""

    def __init__(self, unit: str, budget: float) -> None:
        self.unit, self.budget = unit, budget
        self.sent: list[dict[str, Any]] = []
        self.open: dict[str, Any] | None = None

    def worst(self, now: float, more: list[dict[str, Any]] | None = None, top: int = 0) -> float:
        """The most that the sent values and `more` cost together; windows from `top` if given."""
        made = [*self.sent, *(more or [])]
        if self.unit == "stream":
            return float(sum(EPSILON * one["readings"] for one in made))
        if self.unit == "rolling":
            made = [one for one in made if one["time"] + DAY > now]
            return float(sum(EPSILON * one["readings"] for one in made))
        if self.unit == "fixed":
            same = [one for one in made if one["time"] // DAY == now // DAY]
            return float(sum(EPSILON * one["readings"] for one in same))
        cost: dict[int, float] = {}
        for one in made:
            for number in range(one["last"] - one["readings"] + 1, one["last"] + 1):
                cost[number] = cost.get(number, 0) + EPSILON
        if self.unit == "event":
            return max(cost.values(), default=0)
        starts = [top] if top else range(min(cost, default=1) - 3, max(cost, default=1) + 1)
        return max(sum(cost.get(start + k, 0) for k in range(4)) for start in starts)

    def reserved(self) -> list[dict[str, Any]]:
        return (
            [] if self.open is None else [self.open] * (self.open["attempts"] - self.open["used"])
        )

    def remaining(self, now: float, last: int) -> float:
        kept = [{**one, "time": now} for one in self.reserved()]
        if self.unit == "event":
            return self.budget
        return max(0.0, self.budget - self.worst(now, kept, top=last + 1 - 3))


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("seed", [1, 2])
def test_against_trying_everything(open_ledger: Any, terms: Any, unit: str, seed: int) -> None:
    rng, machine = random.Random(seed), FakeClock()
    most = {"stream": 4.0, "event": 0.25}.get(unit, 1.0)
    options = {"budget": Budget(most), "clock": machine.made(), **UNITS[unit]}
    ledger = open_ledger(**options)
    oracle = Oracle(unit, most)
    last, refused, begun = 0, 0, 0

    def agrees() -> None:
        now = ledger.now
        assert ledger.spent.epsilon == oracle.worst(now)
        assert ledger.remaining.epsilon == oracle.remaining(now, last)

    for query in range(1, 30):
        machine.passes(rng.choice([HOUR, 9 * HOUR]))
        readings, attempts = rng.randrange(1, 4), rng.randrange(1, 4)
        asked = {
            "readings": readings, "last": last + readings, "attempts": attempts, "used": 0,
            "time": ledger.now,
        }  # fmt: skip
        fits = oracle.worst(ledger.now, [asked] * attempts) <= most
        steps = Steps(ledger.sessions(terms), terms, query)
        try:
            steps.begin(last + readings, attempts, readings=readings)
            assert fits
        except BudgetExceeded:
            assert not fits
            refused += 1
            last += 1
            ledger.pass_over(last)
            agrees()
            continue
        begun += 1
        last, oracle.open = last + readings, asked
        agrees()
        charged: list[int] = []
        sent_at: dict[int, float] = {}
        for attempt in range(rng.randrange(attempts + 1)):
            machine.passes(rng.choice([60.0, HOUR, 20 * HOUR]))
            steps.sent(attempt)
            asked["used"] += 1
            sent_at[attempt] = ledger.now
            oracle.sent.append({**asked, "time": ledger.now, "attempt": attempt})
            charged.append(attempt)
            agrees()
            if rng.random() < 0.3:
                gone = charged.pop(rng.randrange(len(charged)))
                steps.refund(gone)
                oracle.sent = [
                    one for one in oracle.sent
                    if (one["last"], one["attempt"]) != (last, gone)
                ]  # fmt: skip
                agrees()
            elif rng.random() < 0.3 and len(charged) < attempt + 1:
                found = [e for e in steps.sessions.entries(query) if e.stage is Stage.REFUNDED]
                steps.reinstate(found[0].attempt)
                charged.append(found[0].attempt)
                oracle.sent.append({**asked, "time": sent_at[found[0].attempt],
                                    "attempt": found[0].attempt})  # fmt: skip
                agrees()
        if rng.random() < 0.4:
            ledger.close()
            ledger = open_ledger(**options)
            agrees()
        oracle.open = None
        ledger.sessions(terms).conclude_query(query, "attempts", None)
        agrees()
    ledger.close()
    assert verify(ledger.path).ok
    assert begun > 4
    assert refused
    totals = open_ledger(**options).totals()
    assert totals.event.epsilon == Oracle("event", 1.0).worst(0, oracle.sent)
    assert totals.stream.epsilon == Oracle("stream", 1.0).worst(0, oracle.sent)


def test_the_comparison_sees_a_tracker_that_reserves_nothing(
    open_ledger: Any, terms: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(BudgetTracker, "reserve", lambda *_: None)
    for unit in ("stream", "window", "rolling", "fixed"):
        with pytest.raises(AssertionError):
            test_against_trying_everything(
                lambda unit=unit, **more: open_ledger(f"{unit}.ledger", **more), terms, unit, 1
            )


def test_an_event_may_cost_all_attempts(open_ledger: Any, terms: Any) -> None:
    ledger = open_ledger(unit="event", budget=Budget(0.25))
    for query in (1, 2, 3):
        steps = Steps(ledger.sessions(terms), terms, query).begin(last=3 * query, readings=3)
        steps.sent()
        if query == 2:
            steps.sent(1)
        steps.sessions.conclude_query(query, "attempts", None)
    assert ledger.spent.epsilon == 0.25  # the readings of query 2
    assert ledger.remaining.epsilon == 0.25  # of the next reading
    with pytest.raises(BudgetExceeded):
        Steps(ledger.sessions(terms), terms, 4).begin(last=10, attempts=3)
    ledger.close()
    assert open_ledger(unit="event", budget=Budget(0.25)).spent.epsilon == 0.25


def test_delta_is_charged_with_each_attempt(open_ledger: Any, terms: Any) -> None:
    ledger = open_ledger(budget=Budget(1.0, 1e-6))
    sessions, cost = ledger.sessions(terms), PrivacyEvent(EPSILON, 1e-7, "approximate")
    sessions.begin_query(1, cost, 2, last=1)
    assert ledger.budget_status().reserved == EpsilonDelta(0.25, 2e-7)
    Steps(sessions, terms).sent()
    assert ledger.spent == EpsilonDelta(0.125, 1e-7)
    sessions.conclude_query(1, "sum", a_sum(1))
    with pytest.raises(BudgetExceeded):
        sessions.begin_query(2, PrivacyEvent(0.1, 6e-7, "approximate"), 2, last=2)


def test_a_ledger_without_a_budget_takes_no_query(open_ledger: Any, terms: Any) -> None:
    with pytest.raises(LedgerError, match="has no budget and the release a cost"):
        Steps(open_ledger(budget=None).sessions(terms), terms).begin()


def test_a_reader_sees_the_reservation(open_ledger: Any, terms: Any, tmp_path: Any) -> None:
    steps = Steps(open_ledger().sessions(terms), terms).begin()
    steps.sent()
    path = tmp_path / "a.ledger"
    found = verify(path).status
    assert found is not None
    assert (found.remaining.epsilon, found.spent.epsilon, found.reserved.epsilon) == (
        0.75,
        0.125,
        0.125,
    )
    assert read_ledger(path).status.reserved.epsilon == 0.125
    assert read_ledger(path).status.remaining.epsilon == 0.75


def test_a_changed_budget_must_cover_an_open_query(
    open_ledger: Any, terms: Any, tmp_path: Any
) -> None:
    ledger = open_ledger()
    steps = Steps(ledger.sessions(terms), terms).begin()
    steps.sent()
    ledger.close()
    path, identity = tmp_path / "a.ledger", ledger.identity
    with pytest.raises(LedgerError, match="has an open query, and the new budget is not enough"):
        amend(path, identity._replace(epsilon=0.2), None, by="ana")
    assert amend(path, identity._replace(epsilon=0.25), None, by="ana") is not None
    again = open_ledger(budget=Budget(0.25))
    assert left(again) == (0.125, 0.125, 0)
    Steps(again.sessions(terms), terms).sent(1)
    assert left(again) == (0.25, 0, 0)
    assert [e.stage for e in again.sessions(terms).entries(1)] == [Stage.SENT] * 2
