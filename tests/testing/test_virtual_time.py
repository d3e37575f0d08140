"""Time that passes when a test says so: clocks of machines, and a node that waits for nothing."""

import time as real
from pathlib import Path

import pytest

from tests.agents.runtime.test_node import problem
from veilsum.agents.ledger import Ledger
from veilsum.agents.manifest import Manifest
from veilsum.agents.protocol import Options
from veilsum.agents.release import ReleaseMechanism
from veilsum.agents.runtime import IterableReadings, Node
from veilsum.agents.transport.memory import MemoryNetwork
from veilsum.errors import AgentError
from veilsum.privacy.accounting import Budget
from veilsum.testing import VirtualClock, VirtualTime

HOURS, HOUR = 24, 3600.0


def test_setting_a_clock_moves_the_wall_and_nothing_else() -> None:
    time = VirtualTime()
    one, two = VirtualClock(time, 1e9), VirtualClock(time, 1e9)
    time.advance(100.0)
    one.set(-30.0)
    assert (one.wall(), two.wall()) == (1e9 + 70.0, 1e9 + 100.0)
    assert one.elapsed() == two.elapsed() == 100.0
    time.advance(50.0)
    assert time.now == 100.0, "time does not go back"


def test_a_boot_begins_the_time_since_boot_anew_and_has_another_name() -> None:
    time = VirtualTime()
    clock = VirtualClock(time)
    before = clock.boot()
    time.advance(10.0)
    clock.reboot()
    time.advance(12.0)
    assert (clock.elapsed(), clock.wall()) == (2.0, 12.0)
    assert clock.boot() != before


def test_a_clock_needs_a_time() -> None:
    with pytest.raises(AgentError, match="seconds since 1970"):
        VirtualClock(VirtualTime(), float("nan"))


def test_a_day_of_hourly_readings_passes_without_waiting(tmp_path: Path) -> None:
    """In real time 24 slots of an hour take a day; the ledgers have the times of the slots."""
    time, made = VirtualTime(), problem("learn", rounds=HOURS)
    clock = VirtualClock(time, 480_000 * HOUR).system
    manifest = Manifest.of(made, "day", every=HOUR)
    node = Node(
        manifest, MemoryNetwork().transport(), options=Options(poll=600.0, resend=300.0),
        clock=clock,
    )  # fmt: skip
    for label in manifest.labels:
        ledger = Ledger.open(tmp_path / label, manifest, label, Budget(100.0), clock=clock)
        mechanism = ReleaseMechanism(manifest, made, label)
        node.add(label, ledger, mechanism, IterableReadings([5.0] * 2))
    began = real.monotonic()
    node.start()
    turns = 0
    while not node.all_done and turns < 100_000:
        due = node.step()
        assert due is not None, "there is always a timer"
        time.advance(due)
        turns += 1
    released = {label: node.agents[label].ledger.last_release_time() for label in manifest.labels}
    node.close()
    assert node.all_done
    assert (HOURS - 1) * HOUR <= time.now <= (HOURS + 1) * HOUR
    assert real.monotonic() - began < time.now / 10
    assert all(at is not None and at >= 480_000 * HOUR for at in released.values())


def test_looks_at_a_source_need_a_pause() -> None:
    with pytest.raises(AgentError, match="poll"):
        Options(poll=0.0)
