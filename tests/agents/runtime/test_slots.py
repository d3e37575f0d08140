"""Slots of the reading schedule, on clocks that tests set."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilsum.agents.ledger.clock import SystemClock
from veilsum.agents.runtime.schedule import Phase, Place, SlotSchedule

HOUR = 3600.0
NOON = 480_000 * HOUR


class SetClocks:
    """Clocks that stand still until a test moves them."""

    def __init__(self, wall: float = NOON) -> None:
        self.wall, self.elapsed = wall, 0.0

    def pass_(self, seconds: float) -> None:
        self.wall += seconds
        self.elapsed += seconds

    def set(self, by: float) -> None:
        self.wall += by

    @property
    def clocks(self) -> SystemClock:
        return SystemClock(lambda: self.wall, lambda: self.elapsed, str)


def schedule(clocks: SetClocks, number: int = 1, last: Any = None, grace: float = 600.0) -> Any:
    return SlotSchedule(HOUR, grace, clocks.clocks, number, last)


def test_slots_are_aligned_to_the_clock_and_days_to_midnight() -> None:
    clocks = SetClocks(NOON + 1234.5)
    assert schedule(clocks).slot(1) == 480_000
    days = SlotSchedule(24 * HOUR, 0.0, clocks.clocks, 1)
    assert days.slot(1) * 24 * HOUR % (24 * HOUR) == 0
    assert days.describe(1).endswith("T00:00:00Z")


def test_a_slot_is_future_then_open_through_its_grace_then_over() -> None:
    clocks = SetClocks()
    slots = schedule(clocks)
    assert [slots.phase(n) for n in (1, 2)] == [Phase.OPEN, Phase.FUTURE]
    assert slots.wait(2) == HOUR
    clocks.pass_(HOUR + 599)
    assert [slots.phase(n) for n in (1, 2)] == [Phase.OPEN, Phase.OPEN]
    assert slots.wait(1) == 1.0
    clocks.pass_(1)
    assert slots.phase(1) is Phase.OVER
    assert slots.wait(1) == 0.0


def test_a_reading_belongs_to_the_slot_of_its_own_time_or_to_the_oldest_that_waits() -> None:
    clocks = SetClocks()
    slots = schedule(clocks)
    clocks.pass_(HOUR + 60)
    assert slots.place(1, None) is Place.FITS
    assert slots.place(1, NOON + 10) is Place.FITS
    assert slots.place(1, NOON - 10) is Place.EARLIER
    assert slots.place(1, NOON + HOUR + 10) is Place.LATER
    assert slots.place(2, NOON + 10) is Place.EARLIER
    assert slots.place(3, None) is Place.EARLIER, "surplus in a slot that has its reading"
    assert slots.place(3, NOON + 2 * HOUR) is Place.LATER
    assert slots.place(1, NOON + 30 * HOUR) is Place.BEYOND


@given(st.lists(st.floats(-30 * HOUR, 30 * HOUR), max_size=6), st.floats(0, HOUR))
def test_a_clock_that_is_set_makes_no_slot_missed_and_uses_none_twice(
    jumps: list[float], start: float
) -> None:
    """Numbers follow the time that has passed, within one slot for each jump."""
    clocks = SetClocks(NOON + start)
    slots = schedule(clocks, grace=0.0)
    taken: list[float] = []
    number = 1
    for jump in [*jumps, 0.0, 0.0]:
        for _ in range(60):
            clocks.pass_(HOUR / 20)
            while slots.phase(number) is Phase.OVER:
                number += 1
            if slots.phase(number) is Phase.OPEN:
                taken.append(clocks.elapsed)
                number += 1
        clocks.set(jump)
    passed = clocks.elapsed / HOUR
    assert number - 1 <= passed + 2 + len(jumps), "no slot is used twice"
    assert number - 1 >= passed - 2 - len(jumps), "none waits for a clock that was set back"
    assert len(taken) >= number - 2 - len(jumps), "none counts as missed because of a jump"


def test_the_weakened_schedule_that_follows_the_wall_alone_repeats_or_misses_slots() -> None:
    class Follows(SlotSchedule):
        def now(self) -> float:
            return self.clocks.wall()

    clocks = SetClocks()
    sound, weak = schedule(clocks), Follows(HOUR, 600.0, clocks.clocks, 1)
    clocks.set(10 * HOUR)
    assert (sound.phase(1), weak.phase(1)) == (Phase.OPEN, Phase.OVER)
    clocks.set(-20 * HOUR)
    assert (sound.phase(1), weak.phase(1)) == (Phase.OPEN, Phase.FUTURE)
    assert "set back by 72000 s" in sound.notice


def test_a_clock_set_back_by_less_than_a_slot_lets_the_agent_wait() -> None:
    clocks = SetClocks(NOON + 60)
    slots = schedule(clocks)
    assert slots.phase(1) is Phase.OPEN  # and its reading is taken
    clocks.set(-HOUR / 2)
    assert slots.phase(2) is Phase.FUTURE
    assert slots.place(2, None) is Place.EARLIER
    assert slots.wait(2) == HOUR / 2 + HOUR - 60


def test_after_a_restart_the_slots_go_on_where_they_were() -> None:
    clocks = SetClocks(NOON + 100)
    again = schedule(clocks, number=5, last=(4, 479_996))
    assert again.slot(5) == 479_997, "those of the pause are still to be filled or skipped"
    assert again.phase(5) is Phase.OVER
    same = schedule(clocks, number=5, last=(4, 480_000))
    assert same.phase(5) is Phase.FUTURE, "the present slot is not used again"
    back = schedule(clocks, number=5, last=(4, 480_010))
    assert back.phase(5) is Phase.FUTURE
    assert not back.notice


def test_a_last_reading_far_in_the_future_does_not_stop_an_agent_for_years() -> None:
    clocks = SetClocks(NOON + 100)
    slots = schedule(clocks, number=5, last=(4, 480_000 + 24 * 365))
    assert slots.phase(5) is Phase.OPEN
    assert "slots begin anew" in slots.notice


@pytest.mark.parametrize("number", [1, 7])
def test_the_first_number_is_in_the_present_slot(number: int) -> None:
    slots = schedule(SetClocks(NOON + 100), number=number)
    assert slots.phase(number) is Phase.OPEN
    assert slots.phase(number + 1) is Phase.FUTURE


def test_after_skipped_rounds_the_next_number_has_the_next_slot() -> None:
    """Who joins a stream in its round 500 read one slot, and the next is not 499 slots away."""
    clocks = SetClocks()
    slots = schedule(clocks)
    assert slots.slot(1) == 480_000
    slots.skip_to(500, before=1)
    assert slots.slot(500) == 480_001
    assert slots.phase(500) is Phase.FUTURE
    clocks.pass_(3 * HOUR)
    slots.skip_to(600, before=500)
    assert slots.slot(600) == 480_003
    assert slots.phase(600) is Phase.OPEN
