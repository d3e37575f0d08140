"""The meters of a ledger are caches of `privacy.spent`, whatever the releases are."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilsum.agents.ledger.meters import (
    Charge,
    EventMeter,
    FixedMeter,
    Meter,
    RollingMeter,
    StreamMeter,
    WindowMeter,
)
from veilsum.agents.ledger.periods import DAY, FIXED, ROLLING, Period
from veilsum.privacy import PrivacyEvent, Release, spent

lengths = st.lists(
    st.tuples(
        st.integers(1, 6),  # readings
        st.integers(0, 2),  # of which some before it were passed over
        st.floats(0.0, 40_000.0),  # seconds since the last release
        st.sampled_from([(0.1, 0.0), (0.25, 0.0), (0.5, 1e-7)]),
    ),
    min_size=1,
    max_size=14,
)


def charges(drawn: Any) -> list[Charge]:
    made, last, now = [], 0, 1.6e9
    for readings, skipped, seconds, (epsilon, delta) in drawn:
        first, now = last + skipped + 1, now + seconds
        last = first + readings - 1
        made.append(Charge(first, last, readings, now, epsilon, delta))
    return made


def release(charge: Charge) -> Release:
    return Release(PrivacyEvent.of(charge.epsilon, charge.delta), charge.first, charge.last)


def totals(meter: Meter, made: list[Charge]) -> list[tuple[float, float]]:
    """What the meter says after each release."""
    found = []
    for charge in made:
        found.append(meter.before(charge).plus(meter.cost(charge)).rounded)
        meter.add(charge)
    return [(one.epsilon, one.delta) for one in found]


def prices(made: list[Charge], counts: Any = lambda *_: True) -> list[tuple[float, float]]:
    """`spent` of the releases that count together with each one."""
    found = []
    for k, charge in enumerate(made):
        total = spent([release(other) for other in made[: k + 1] if counts(other, charge)])
        found.append((total.epsilon, total.delta))
    return found


def close(one: list[tuple[float, float]], other: list[tuple[float, float]]) -> None:
    for (epsilon, delta), (right, most) in zip(one, other, strict=True):
        assert epsilon == pytest.approx(right, rel=1e-12)
        assert delta == pytest.approx(most, rel=1e-12)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(drawn=lengths)
def test_streams_and_periods(drawn: Any) -> None:
    made = charges(drawn)
    close(totals(StreamMeter(), made), prices(made))
    rolling, fixed = Period.of(DAY, ROLLING), Period.of("day", FIXED)
    close(
        totals(RollingMeter(rolling), made),
        prices(made, lambda other, now: other.time + rolling.seconds > now.time),
    )
    close(
        totals(FixedMeter(fixed), made),
        prices(made, lambda other, now: other.time >= fixed.bounds(now.time)[0]),
    )


@settings(deadline=None, derandomize=True, max_examples=60)
@given(drawn=lengths)
def test_each_reading_by_itself(drawn: Any) -> None:
    made = charges(drawn)
    found = [spent([release(one)], range(one.last, one.last + 1)) for one in made]
    close(totals(EventMeter(), made), [(one.epsilon, one.delta) for one in found])


@settings(deadline=None, derandomize=True, max_examples=60)
@given(drawn=lengths, width=st.integers(1, 9))
def test_windows(drawn: Any, width: int) -> None:
    """Epsilon is that of the dearest window; delta, which batches divide evenly, is never less."""
    made = charges(drawn)
    meter = WindowMeter(width, lambda *_: made)
    for k, (epsilon, delta) in enumerate(totals(meter, made)):
        asked = made[k]
        done = [release(one) for one in made[: k + 1]]
        near = [
            spent(done, range(start, start + width))
            for start in range(asked.first - width + 1, asked.last + 1)
        ]
        assert epsilon == pytest.approx(max(one.epsilon for one in near), rel=1e-12)
        assert delta >= max(one.delta for one in near) * (1 - 1e-12)


def test_a_meter_that_forgets_a_group_is_found() -> None:
    """The weakened twin charges a batch with delta as so many single readings."""

    class Forgetful(StreamMeter):
        def cost(self, asked: Charge) -> Any:
            return asked.one.times(asked.readings)

    made = charges([(6, 0, 1.0, (0.5, 1e-7))])
    with pytest.raises(AssertionError):
        close(totals(Forgetful(), made), prices(made))
    ((_, delta),) = totals(StreamMeter(), made)
    assert delta == pytest.approx(1e-7 * math.expm1(3.0) / math.expm1(0.5))
