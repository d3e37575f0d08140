"""Noise drawn ahead: given out once, and how long a draw takes moves nothing that is visible."""

import threading
import time
from typing import Any

import pytest

from veilsum.agents.release import reserve
from veilsum.agents.release.reserve import DEPTH, LOW, PAUSE, NoiseReserve, in_silence


class Computing:
    """Vectors (1,), (2,), ...; each computes for as long as it says, without letting go."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.begun, self.drawn = seconds, 0, 0

    def __call__(self) -> tuple[int, ...]:
        self.begun += 1
        end = time.perf_counter() + self.seconds
        while time.perf_counter() < end:
            pass
        self.drawn += 1
        return (self.drawn,)


class RefilledBeside(NoiseReserve):
    """The weakened variant: a thread fills the reserve after each use."""

    def draw(self) -> Any:
        found = super().draw()
        threading.Thread(target=self.refill).start()
        return found


def test_vectors_are_given_out_once_and_none_is_drawn_at_use() -> None:
    source = Computing(0.0)
    made = NoiseReserve(source)
    assert (len(made), source.drawn, made.low) == (DEPTH, DEPTH, False)
    given = [made.draw() for _ in range(DEPTH - LOW + 1)]
    assert made.low
    assert source.drawn == DEPTH
    made.refill()
    assert not made.low
    given += [made.draw() for _ in range(DEPTH)]
    assert given == [(k,) for k in range(1, len(given) + 1)]


@pytest.mark.parametrize("weakened", [False, True])
def test_a_source_that_computes_delays_no_use(weakened: bool) -> None:
    """Between a use and what an agent does next (sync a file, sign, send) nothing is drawn."""
    source = Computing(0.03)
    made = (RefilledBeside if weakened else NoiseReserve)(source, depth=9)
    for _ in range(9):
        begun, threads = source.begun, threading.active_count()
        made.draw()
        beside = threading.active_count() > threads or source.begun > begun
        assert beside is weakened
        while weakened and len(made) < 9:
            time.sleep(0.005)


class Clock:
    """Stands in for the module `time`: what computes or sleeps lets its time pass."""

    def __init__(self) -> None:
        self.now, self.slept = 100.0, 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds

    def drawing(self, seconds: float) -> Any:
        def draw() -> tuple[int, ...]:
            assert self.slept > 0, "what was handed over before leaves first"
            self.now += seconds
            return (7,)

        return draw


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(reserve, "time", made)
    return made


@pytest.mark.parametrize(
    ("seconds", "pauses"), [(0.0, 1), (1e-6, 1), (0.2, 1), (0.25, 1), (0.26, 2), (1.2, 3)]
)
def test_a_silence_is_a_whole_number_of_pauses(clock: Clock, seconds: float, pauses: int) -> None:
    in_silence(clock.drawing(seconds))
    assert clock.now - 100 == pytest.approx(pauses * PAUSE, abs=1e-9)


@pytest.mark.parametrize("seconds", [0.0, 0.1])
def test_an_agent_without_noise_waits_in_silence(clock: Clock, seconds: float) -> None:
    clock.slept = 1.0
    made = NoiseReserve(clock.drawing(seconds), depth=1)
    before = clock.now
    made.draw()
    assert clock.now == before
    made.draw()
    assert clock.now - before == pytest.approx(PAUSE, abs=1e-9)
