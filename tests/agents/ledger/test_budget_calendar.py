"""Budgets by the calendar: what counts together, when there is more, and that no clock forges it."""

import pickle
import random
import sys
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from veilsum.agents.ledger import Ledger, clock, meters
from veilsum.agents.ledger.budget import BudgetTracker
from veilsum.agents.ledger.meters import Charge
from veilsum.agents.ledger.periods import Period
from veilsum.agents.ledger.records import LedgerIdentity
from veilsum.errors import LedgerError, PrivacyError
from veilsum.privacy import Budget, BudgetExceeded, PrivacyEvent

HOUR, DAY = 3600.0, 86400.0
START = datetime(2026, 3, 2, 9, 30, tzinfo=UTC).timestamp()  # a Monday


class FakeClock:
    """A machine whose clock is set, and which boots."""

    def __init__(self) -> None:
        self.wall, self.elapsed, self.boot = START, 1000.0, "first"

    def made(self) -> Any:
        return clock.SystemClock(lambda: self.wall, lambda: self.elapsed, lambda: self.boot)

    def passes(self, seconds: float) -> None:
        self.wall, self.elapsed = self.wall + seconds, self.elapsed + seconds

    def boots(self, after: float = 60.0) -> None:
        self.wall, self.elapsed, self.boot = self.wall + after, 5.0, self.boot + " again"


@pytest.fixture
def machine() -> Any:
    return FakeClock()


def identity(per: Any = "", refill: Any = "rolling", **changes: Any) -> Any:
    period = Period.of(per, refill, changes.pop("zone", "UTC")) if per else None
    terms: Any = {"unit": "stream", "window": 0, "epsilon": 1.0, "delta": 0.0} | changes
    made: Any = LedgerIdentity("0", "terms", **terms)
    return made._replace(
        **dict(zip(("per", "refill", "zone"), period, strict=True)) if period else {}
    )


def one(number: int, time: float = 0.0, epsilon: float = 0.25, readings: int = 1) -> Any:
    return Charge(number - readings + 1, number, readings, time, epsilon, 0.0)


def admitted(tracker: Any, charges: Any) -> Any:
    """Those that were released; the others were passed over."""
    made = []
    for charge in charges:
        try:
            tracker.admit(charge)
        except BudgetExceeded:
            continue
        tracker.add(charge)
        made.append(charge)
    return made


def largest(made: Any, together: Any) -> Any:
    """The most that counts together, by trying every release as the first."""
    return max(sum(c.epsilon * c.readings for c in made if together(first, c)) for first in made)


@pytest.mark.parametrize("seconds", [HOUR, DAY])
def test_a_rolling_budget_holds_in_every_window_and_is_refilled(seconds: float) -> None:
    rng = random.Random(7)
    times, now = [], START
    for _ in range(400):
        now += rng.expovariate(5 / seconds)
        times.append(now)
    tracker = BudgetTracker(identity(f"{seconds:.0f}s"))
    made = admitted(tracker, [one(k, t) for k, t in enumerate(times, 1)])
    most = largest(made, lambda a, b: a.time <= b.time < a.time + seconds)
    assert most == 1.0, "four of 0.25, and never more"
    assert len(made) > 200, "it is refilled again and again"
    for charge in (one(k, t) for k, t in enumerate(times, 1)):
        if charge not in made:  # and none was refused without need
            before = [c for c in made if c.time < charge.time < c.time + seconds]
            assert len(before) == 4


def test_a_refusal_says_when_there_is_more_and_then_there_is() -> None:
    tracker = BudgetTracker(identity("day"))
    for k in range(4):
        tracker.add(one(k + 1, START + k * HOUR))
    with pytest.raises(
        BudgetExceeded, match=r"suffices again from 2026-03-03 09:30:00\+00:00"
    ) as e:
        tracker.admit(one(5, START + 5 * HOUR))
    assert (e.value.final, e.value.refills_at) == (False, START + DAY)
    with pytest.raises(BudgetExceeded):
        tracker.admit(one(5, START + DAY - 0.001))
    tracker.admit(one(5, START + DAY))
    with pytest.raises(BudgetExceeded) as e:
        tracker.admit(one(5, START + 5 * HOUR + 1, epsilon=0.5))
    assert e.value.refills_at == START + DAY + HOUR  # two of them must have expired
    with pytest.raises(BudgetExceeded) as e:
        tracker.admit(one(5, START + 5 * HOUR + 2, epsilon=1.5))
    assert (e.value.final, e.value.refills_at) == (True, None)


@pytest.mark.parametrize(
    ("terms", "charge", "says"),
    [
        ({"per": "day"}, Charge(1, 24, 24, START, 0.25, 0.0),
         "never enough for a batch of 24 readings, which costs 24 times the epsilon of one; write a "
         "larger [budget], and record it with `veilsum ledger amend agent.toml --raise`, with unit = "
         "\"event\" if it is to be for each reading, or agree on a smaller `longest` of batches"),
        ({"unit": "window", "window": 10}, Charge(1, 24, 24, START, 0.25, 0.0), "`longest` of batches"),
        ({"per": "day"}, one(1, START, epsilon=1.5), "never enough for one reading; write a larger"),
        ({"unit": "event"}, Charge(1, 24, 24, START, 1.5, 0.0), "never enough for one reading; write a"),
        ({}, one(5, START), "the budget is not refilled; write a larger [budget], and record it with "
         "`veilsum ledger amend agent.toml --raise`"),
    ],
)  # fmt: skip
def test_a_refusal_for_good_says_what_to_do_and_not_to_wait(
    terms: Any, charge: Charge, says: str
) -> None:
    tracker = BudgetTracker(identity(**terms))
    for k in range(4 if not terms else 0):
        tracker.add(one(k + 1, START))
    with pytest.raises(BudgetExceeded) as e:
        tracker.admit(charge)
    assert e.value.final
    assert says in str(e.value)
    assert "wait" not in str(e.value)
    assert str(pickle.loads(pickle.dumps(e.value))) == str(e.value)


def test_three_tenths_are_refilled_one_by_one() -> None:
    tracker = BudgetTracker(identity("day", epsilon=0.3))
    for k in range(3):
        tracker.add(one(k + 1, START + k, 0.1))
    with pytest.raises(BudgetExceeded) as e:
        tracker.admit(one(4, START + 3, 0.1))
    assert e.value.refills_at == START + DAY
    tracker.admit(one(4, START + DAY, 0.1))


@pytest.mark.parametrize(
    ("per", "zone", "moment", "first", "following"),
    [
        ("day", "UTC", "2026-03-02T09:30+00:00", "2026-03-02T00:00+00:00", "2026-03-03T00:00+00:00"),
        ("week", "UTC", "2026-03-08T23:59+00:00", "2026-03-02T00:00+00:00", "2026-03-09T00:00+00:00"),
        ("month", "UTC", "2026-02-28T12:00+00:00", "2026-02-01T00:00+00:00", "2026-03-01T00:00+00:00"),
        ("month", "UTC", "2025-12-31T12:00+00:00", "2025-12-01T00:00+00:00", "2026-01-01T00:00+00:00"),
        ("day", "Africa/Cairo", "2026-04-24T12:00+03:00", "2026-04-24T01:00+03:00", "2026-04-25T00:00+03:00"),
        ("day", "Europe/Madrid", "2026-03-29T12:00+02:00", "2026-03-29T00:00+01:00",
         "2026-03-30T00:00+02:00"),
        ("12h", "UTC", "2026-03-02T13:00+00:00", "2026-03-02T12:00+00:00", "2026-03-03T00:00+00:00"),
    ],
)  # fmt: skip
def test_fixed_periods_are_those_of_the_calendar(
    per: str, zone: str, moment: str, first: str, following: str
) -> None:
    stamp = [datetime.fromisoformat(text).timestamp() for text in (moment, first, following)]
    assert Period.of(per, "fixed", zone).bounds(stamp[0]) == (stamp[1], stamp[2])


def test_a_fixed_budget_holds_in_every_day_of_its_zone_and_a_day_apart_sees_twice() -> None:
    zone = "America/Santiago"
    tracker = BudgetTracker(identity("day", "fixed", zone=zone))
    charges = [one(k, START + k * HOUR / 2) for k in range(1, 2000)]
    made = admitted(tracker, charges)

    def day(charge: Any) -> Any:
        return datetime.fromtimestamp(charge.time, ZoneInfo(zone)).date()

    assert largest(made, lambda a, b: day(a) == day(b)) == 1.0
    assert len(made) == 4 * len({day(c) for c in charges})
    late = BudgetTracker(identity("day", "fixed"))
    midnight = START - 9.5 * HOUR + DAY
    for k in range(8):
        late.admit(one(k + 1, midnight - 40 + 10 * k))
        late.add(one(k + 1, midnight - 40 + 10 * k))  # 2.0 within 80 s: what `rolling` prevents
    with pytest.raises(BudgetExceeded) as e:
        late.admit(one(9, midnight + 50))
    assert e.value.refills_at == midnight + DAY


def test_a_window_of_readings_goes_on_where_it_can() -> None:
    """40 readings, 3 allowed in any 10: 12 are released; the stream used to end at the first refusal."""
    made: Any = []
    terms = identity(unit="window", window=10, epsilon=0.75)
    tracker = BudgetTracker(terms, lambda low, high: [c for c in made if low <= c.last <= high])
    made = admitted(tracker, [one(k) for k in range(1, 41)])
    assert [c.last for c in made] == [1, 2, 3, 11, 12, 13, 21, 22, 23, 31, 32, 33]
    with pytest.raises(BudgetExceeded, match="window has moved on") as e:
        tracker.admit(one(41 - 7))
    assert (e.value.final, e.value.refills_at) == (False, None)
    with pytest.raises(BudgetExceeded) as e:
        tracker.admit(one(60, epsilon=0.8))
    assert e.value.final


@pytest.mark.parametrize("seed", range(30))
def test_windows_agree_with_counting_every_reading(seed: int) -> None:
    """Batches, gaps and releases out of order, against all windows by brute force."""
    rng = random.Random(seed)
    width = rng.randint(1, 12)
    stored: list[Any] = []
    tracker = BudgetTracker(
        identity(unit="window", window=width, epsilon=2.0),
        lambda low, high: [c for c in stored if c.last >= low and c.first <= high],
    )
    costs: dict[int, float] = {}
    top = 0
    for _ in range(60):
        readings = rng.choice([1, 1, 1, 2, 5])
        first = rng.randint(1, top + 1) if rng.random() < 0.2 else top + rng.randint(1, 3)
        numbers = range(first, first + readings)
        if any(number in costs for number in numbers):
            continue
        asked = one(numbers[-1], epsilon=rng.choice([0.25, 0.5]), readings=readings)
        after = costs | dict.fromkeys(numbers, asked.epsilon)
        most = max(
            sum(after.get(n, 0.0) for n in range(start, start + width))
            for start in range(first - width + 1, numbers[-1] + 1)
        )
        try:
            tracker.admit(asked)
        except BudgetExceeded:
            assert most > 2.0
            continue
        assert most <= 2.0
        costs, top = after, max(top, numbers[-1])
        stored.append(asked)
        tracker.add(asked)


def test_a_batch_costs_each_reading_once_and_all_of_them_together_so_many_times(
    open_ledger: Any, draw: Any, manifest: Any
) -> None:
    cost = PrivacyEvent(0.25)
    ledger = open_ledger(unit="event", budget=Budget(0.25))
    ledger.charge(1, 1, cost, draw)
    released = ledger.charge(2, 9, cost, draw, readings=8, last=9)
    assert (released.reading, released.weight) == (2, 8 << manifest.unit)
    totals = ledger.totals()
    assert (totals.event.epsilon, totals.stream.epsilon) == (0.25, 2.25)
    for unit in ({}, {"per": "day"}, {"unit": "window", "window": 5}):
        other = open_ledger(f"{len(unit)}.ledger", **unit)
        other.charge(1, 1, cost, draw, readings=4, last=4)
        with pytest.raises(BudgetExceeded) as e:
            other.charge(2, 2, cost, draw, readings=8, last=12)
        assert e.value.final  # 8 times 0.25, or 5 times in a window, is above 1
    with pytest.raises(LedgerError, match="give `last`"):
        ledger.charge(3, 3, cost, draw, readings=2)


def test_deltas_of_a_batch_grow_as_group_privacy_says(open_ledger: Any, draw: Any) -> None:
    """Three readings together: delta (1 + e^eps + e^2eps), not 3 delta."""
    ledger = open_ledger(budget=Budget(9.0, 0.1))
    ledger.charge(1, 1, PrivacyEvent(1.0, 0.001, "approximate"), draw, readings=3, last=3)
    assert ledger.spent.epsilon == 3.0
    assert ledger.spent.delta == pytest.approx(0.001 * (1 + 2.718281828 + 7.389056099))


def test_every_reading_of_a_batch_is_recognised(open_ledger: Any, draw: Any, cost: Any) -> None:
    ledger = open_ledger()
    names = ["a" * 32, "", "b" * 32]
    first = ledger.charge(1, 3, cost, draw, names, readings=2, last=3)
    for _ in range(2):
        assert [ledger.has_origin(name) for name in (names[0], names[2], "c" * 32)] == [1, 1, 0]
        assert [ledger.origin_of(k) for k in (1, 2, 3, 4)] == [names[0], None, names[2], None]
        assert ledger.charge(7, 9, cost, draw, names, readings=2, last=30) == first
        with pytest.raises(LedgerError, match="1 of the 2 readings in batch 2"):
            ledger.charge(2, 5, cost, draw, ["c" * 32, "b" * 32], readings=2, last=5)
        with pytest.raises(LedgerError, match="another reading under number 4"):
            ledger.charge(2, 5, cost, draw, ["c" * 32, "d" * 32], readings=2, last=4)
        assert (ledger.last_reading, draw.calls) == (3, 1)
        ledger.close()
        ledger = open_ledger()


def lines_of(work: Any) -> int:
    """Lines of the ledger's code that run."""
    count = 0

    def trace(frame: Any, event: Any, arg: Any) -> Any:  # noqa: ARG001
        nonlocal count
        if "veilsum/agents/ledger" not in frame.f_code.co_filename:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def steps_of(ledger: Any, work: Any) -> int:
    """Instructions of SQLite's machine that run."""
    count = 0

    def step() -> None:
        nonlocal count
        count += 1

    ledger._writer.store.db.set_progress_handler(step, 1)
    work()
    ledger._writer.store.db.set_progress_handler(None, 1)
    return count


UNITS: dict[str, dict[str, Any]] = {
    "stream": {"budget": Budget(1e6)},
    "event": {"unit": "event"},
    "window": {"unit": "window", "window": 200, "budget": Budget(1e6)},
    "rolling": {"per": "day", "budget": Budget(1e6)},
    "fixed": {"per": "day", "refill": "fixed", "budget": Budget(1e6)},
}


def costs_of_a_charge(open_ledger: Any, unit: str) -> Any:
    ledger = open_ledger(**UNITS[unit])
    vars(ledger._writer.store)["wait_for_disk"] = lambda _: None
    ledger._writer.store.db.execute("PRAGMA synchronous = OFF")
    found: list[Any] = []
    for reading in range(1, 202):
        cost = PrivacyEvent(0.25 if reading % 2 else 0.125)

        def charge(k: int = reading, cost: Any = cost) -> None:
            ledger.charge(k, k, cost, lambda: (1,))

        if reading in (11, 201):
            found.append((steps_of(ledger, lambda: found.append(lines_of(charge))), found.pop()))
        else:
            charge()
    ledger._writer.store.db.execute("PRAGMA synchronous = FULL")
    return found


@pytest.mark.parametrize("unit", UNITS)
def test_the_200th_charge_takes_as_many_operations_as_the_10th(open_ledger: Any, unit: str) -> None:
    """Lines of Python and instructions of SQLite: counted, not timed."""
    (steps, lines), (later_steps, later_lines) = costs_of_a_charge(open_ledger, unit)
    assert min(steps, lines) > 20
    assert later_steps <= 1.3 * steps
    assert later_lines <= 1.3 * lines


def test_a_meter_that_adds_up_the_window_each_time_is_caught(
    open_ledger: Any, monkeypatch: Any
) -> None:
    def each_time(self: Any, asked: Any) -> Any:
        total = self._each(asked)
        for other in self._nearby(asked.first - self._width + 1, asked.last - 1):
            total = total.plus(self._each(other))
        return total

    monkeypatch.setattr(meters.WindowMeter, "_largest", each_time)
    (steps, lines), (later_steps, later_lines) = costs_of_a_charge(open_ledger, "window")
    assert later_steps > 3 * steps
    assert later_lines > 3 * lines


def opened(open_ledger: Any, machine: Any, **changes: Any) -> Any:
    return open_ledger(per="day", clock=machine.made(), budget=Budget(0.5), **changes)


def spends(ledger: Any, draw: Any, cost: Any) -> int:
    """How many readings can be released now."""
    for count in range(100):
        number = ledger.last_reading + 1
        try:
            ledger.charge(number, number, cost, draw)
        except BudgetExceeded:
            return count
    pytest.fail("no end")


def setting_the_clock_refills_nothing(
    open_ledger: Any, machine: Any, draw: Any, cost: Any, kind: Any = Ledger
) -> None:
    ledger = opened(open_ledger, machine, kind=kind)
    assert spends(ledger, draw, cost) == 2
    for jump in (-3 * DAY, 400 * DAY, 5 * DAY, -402 * DAY):
        machine.wall += jump
        machine.passes(60)
        assert spends(ledger, draw, cost) == 0, "a clock that was set refilled the budget"
        ledger.close()
        ledger = opened(open_ledger, machine, kind=kind)  # nor does a restart of the process
        assert spends(ledger, draw, cost) == 0, "a clock that was set refilled the budget"
    machine.passes(DAY)  # but time does, whatever the clock says
    assert spends(ledger, draw, cost) == 2
    times = [entry.time for entry in ledger._writer.store.entries()]
    assert times == sorted(times)


def test_setting_the_clock_refills_nothing(
    open_ledger: Any, machine: Any, draw: Any, cost: Any
) -> None:
    setting_the_clock_refills_nothing(open_ledger, machine, draw, cost)


@pytest.mark.parametrize("weak", ["wall", "never back"])
def test_a_ledger_that_trusts_the_wall_clock_is_caught(
    open_ledger: Any, machine: Any, draw: Any, cost: Any, monkeypatch: Any, weak: str
) -> None:
    def now(self: Any) -> float:
        wall = float(self._clock.wall())
        self._last = wall if weak == "wall" else max(self._last, wall)
        return float(self._last)

    monkeypatch.setattr(clock.LedgerClock, "now", now)
    with pytest.raises((AssertionError, LedgerError)):
        setting_the_clock_refills_nothing(open_ledger, machine, draw, cost)


def test_a_clock_set_back_over_a_boot_refills_nothing_and_a_wrong_one_refills_once(
    open_ledger: Any, machine: Any, draw: Any, cost: Any
) -> None:
    ledger = opened(open_ledger, machine)
    assert spends(ledger, draw, cost) == 2
    ledger.close()
    machine.wall -= 300 * DAY
    machine.boots()
    ledger = opened(open_ledger, machine)
    assert spends(ledger, draw, cost) == 0
    assert "behind the time of the ledger" in ledger.clock_report
    ledger.close()
    machine.wall += 700 * DAY  # far ahead of what it is
    machine.boots()
    ledger = opened(open_ledger, machine)
    assert spends(ledger, draw, cost) == 2  # as said in the module: once
    assert ledger.clock_report == ""
    for _ in range(3):
        ledger.close()
        machine.wall = START + DAY / 2  # put right, and wrong again
        machine.boots()
        ledger = opened(open_ledger, machine)
        assert spends(ledger, draw, cost) == 0
        assert "never by setting the clock" in ledger.clock_report
        machine.wall += 100 * DAY
        assert spends(ledger, draw, cost) == 0
    machine.passes(DAY)
    assert spends(ledger, draw, cost) == 2


def test_what_is_left_and_when_it_refills(open_ledger: Any, machine: Any, draw: Any) -> None:
    ledger = open_ledger(per="week", clock=machine.made())
    assert ledger.last_release_time() is None
    assert ledger.budget_status().refills_at is None
    ledger.charge(1, 1, PrivacyEvent(0.75), draw)
    status = ledger.budget_status()
    assert (status.epsilon, status.spent.epsilon, status.remaining.epsilon) == (1.0, 0.75, 0.25)
    assert (status.unit, status.period) == ("stream", "rolling week")
    assert status.refills_at == START + 7 * DAY
    assert ledger.last_release_time() == START
    machine.passes(7 * DAY)
    assert ledger.budget_status().remaining.epsilon == 1.0
    ledger.close()
    again = open_ledger(per="week", clock=machine.made())
    assert again.spent.epsilon == 0.0
    again.pass_over(4)
    again.close()
    assert open_ledger(per="week", clock=machine.made()).last_reading == 4


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"per": "fortnight"}, "per must be day, week, month or a time such as"),
        ({"per": 0}, "per must be day"),
        ({"per": "day", "refill": "weekly"}, "refill must be one of"),
        ({"per": "day", "refill": "fixed", "zone": "Mars/North"}, "zone must be a time zone"),
        ({"per": "day", "zone": "Europe/Madrid"}, "has no meaning for a rolling"),
        ({"per": "day", "unit": "event"}, "leave out one of the two"),
    ],
)
def test_a_period_that_makes_no_sense_is_refused(
    open_ledger: Any, tmp_path: Any, bad: Any, said: str
) -> None:
    with pytest.raises(PrivacyError, match=said):
        open_ledger(**bad)
    assert not list(tmp_path.iterdir())
