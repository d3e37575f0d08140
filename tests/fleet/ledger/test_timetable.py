"""Slots follow each other without a gap, whatever clocks do; releases cover each slot once."""

from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilsum.errors import FleetError, PrivacyError
from veilsum.fleet.periods import CalendarPeriods, seconds_of, written
from veilsum.fleet.schedule import Timetable

HOUR, DAY = 3600, 86_400
ZONES = (
    "UTC", "Europe/Zurich", "America/New_York", "Pacific/Apia", "Asia/Kathmandu", "Australia/Lord_Howe",
    "America/Havana", "Africa/Cairo", "America/Sao_Paulo", "Atlantic/Azores", "Asia/Tehran",
)  # fmt: skip
EVERY = (
    "1 s",
    "15 minutes",
    "1 h",
    "36 h",
    "1 day",
    "3 days",
    "1 week",
    "2w",
    "1 month",
    "3 months",
    "1 year",
)
TIMES = st.integers(0, 2**31)


def timetable(every: str, zone: str, tolerance: int = 0) -> Timetable:
    calendar = any(unit in every for unit in ("d", "w", "month", "y"))
    return Timetable(every, zone=zone if calendar else "UTC", tolerance=tolerance)


@settings(max_examples=300)
@given(st.sampled_from(EVERY), st.sampled_from(ZONES), TIMES)
def test_every_time_is_in_one_slot(every: str, zone: str, time: int) -> None:
    slots = timetable(every, zone)
    slot = slots.slot_at(time)
    first, end = slots.bounds(slot)
    assert first <= time < end
    assert slots.slot_at(first) == slots.slot_at(end - 1) == slot
    for one, other in pairwise(slots.bounds(slot + k) for k in range(-2, 3)):
        assert one[1] == other[0]
        assert one[0] <= one[1]


@settings(max_examples=200)
@given(st.sampled_from(EVERY), st.sampled_from(ZONES), TIMES, st.integers(0, DAY))
def test_a_slot_is_due_when_its_end_is_the_tolerance_ago(
    every: str, zone: str, now: int, tolerance: int
) -> None:
    slots = timetable(every, zone, tolerance)
    due = slots.due(now)
    assert slots.bounds(due)[1] + tolerance <= now < slots.bounds(due + 1)[1] + tolerance


@pytest.mark.parametrize("zone", ZONES)
def test_days_begin_at_midnight_of_their_zone(zone: str) -> None:
    days = Timetable("1 day", zone=zone)
    for day in range(12_000, 20_000, 7):
        local = datetime.fromtimestamp(days.bounds(day)[0], ZoneInfo(zone))
        begun = local.hour == local.minute == local.second == 0
        assert begun or (local.hour, local.minute) in ((1, 0), (0, 30)) or zone == "Pacific/Apia"


def test_days_of_a_zone_have_23_to_25_hours() -> None:
    days = Timetable("1 day", zone="Europe/Zurich")
    for month, day, hours in ((3, 30, 23), (10, 26, 25), (6, 1, 24)):
        noon = int(datetime(2025, month, day, 12, tzinfo=UTC).timestamp())
        first, end = days.bounds(days.slot_at(noon))
        assert end - first == hours * HOUR
    assert written(days.bounds(days.slot_at(1_750_000_000))[0]) == "2025-06-14T22:00:00Z"


def test_a_day_that_a_zone_left_out_has_no_second() -> None:
    days = Timetable("1 day", zone="Pacific/Apia")
    left_out = datetime(2011, 12, 30, tzinfo=UTC).toordinal() - datetime(1970, 1, 1).toordinal()
    first, end = days.bounds(left_out)
    assert first == end
    assert days.slot_at(first) == left_out + 1


def test_weeks_begin_on_monday_and_hours_are_the_same_everywhere() -> None:
    weeks = Timetable("1 week")
    assert datetime.fromtimestamp(weeks.bounds(2900)[0], UTC).weekday() == 0
    assert Timetable("1 h").bounds(2) == (7200, 10_800)
    with pytest.raises(FleetError, match="means nothing for slots of 1 h"):
        Timetable("1 h", zone="Europe/Zurich")


@pytest.mark.parametrize(
    ("growth", "longest"), [(1.0, 0), (2.0, 0), (1.25, 24), (2.0, 7), (1000.0, 0)]
)
def test_releases_cover_every_slot_once_and_are_due_with_their_last(
    growth: float, longest: int
) -> None:
    slots = Timetable("1 h", tolerance=60, growth=growth, longest=longest)
    covered: list[int] = []
    for number in range(1, 40 if longest else 17 if growth < 3 else 4):
        found = slots.slots(number, first=100)
        assert slots.times(number, 100) == (found[0] * HOUR, (found[-1] + 1) * HOUR)
        if len(covered) < 3000:
            covered += found
        end = slots.times(number, 100)[1] + 60
        assert slots.releases(end - 1, 100) == number - 1
        assert slots.releases(end, 100) == number
    assert covered == list(range(100, 100 + len(covered)))
    assert slots.releases(0, 100) == 0


def test_one_slot_each_without_batches() -> None:
    assert Timetable("1 day").slots(7, first=3) == range(9, 10)


def test_terms_are_plain_values() -> None:
    slots = Timetable("1 day", zone="Europe/Zurich", growth=2.0, longest=7)
    assert Timetable.of(slots.to_dict()) == slots
    assert list(slots.to_dict()) == ["every", "zone", "tolerance", "growth", "longest"]
    with pytest.raises(FleetError, match='did you mean "zone"'):
        Timetable.of({"every": "1 h", "zones": "UTC"})
    with pytest.raises(FleetError, match="every: missing"):
        Timetable.of({})


@pytest.mark.parametrize(
    "every", ["", "0 h", "h", "1.5 h", "1 fortnight", 0, -1, True, None, "1 h 30"]
)
def test_a_length_that_is_none_is_refused(every: str | int) -> None:
    with pytest.raises(FleetError, match="every must be a whole number of"):
        Timetable(every)


def test_other_values_are_refused() -> None:
    with pytest.raises(FleetError, match="Europe/Zurich"):
        Timetable("1 day", zone="Europe/Zurch")
    with pytest.raises(FleetError, match="tolerance"):
        Timetable("1 day", tolerance=-1)
    with pytest.raises(PrivacyError, match="growth"):
        Timetable("1 day", growth=0.5)
    with pytest.raises(FleetError, match="now"):
        Timetable("1 day").slot_at(2**62)


def test_lengths() -> None:
    assert [seconds_of(x, "a length") for x in ("7 days", "1h", "2w", "15 min", "90s", 5)] == [
        7 * DAY, HOUR, 14 * DAY, 900, 90, 5,
    ]  # fmt: skip
    assert CalendarPeriods("year").bounds(55) == (1735689600, 1767225600)
