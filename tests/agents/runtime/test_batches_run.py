"""Batches in agents: which readings are released together, once each, over crashes and restarts."""

import io
import json
import math
import os
import signal
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.agents.runtime.test_node import problem
from veilsum.agents.events import Leave
from veilsum.agents.ledger import Ledger, ReadingOrigin, read_ledger, verify
from veilsum.agents.manifest import Manifest
from veilsum.agents.protocol import Options
from veilsum.agents.readings import CsvReadings, SourceState
from veilsum.agents.release import ReleaseMechanism, guarantee
from veilsum.agents.runtime import IterableReadings, Log, Node
from veilsum.agents.runtime.scheduler import ReadingScheduler
from veilsum.agents.runtime.spool import MemorySpool, open_spool
from veilsum.agents.runtime.spool_file import FileSpool
from veilsum.agents.transport.memory import MemoryNetwork
from veilsum.errors import AgentError, LedgerError
from veilsum.privacy import Batches, SignalDP
from veilsum.privacy.accounting import Budget
from veilsum.simulation import Record, simulate

DEVICE = b"d" * 32
ROUNDS = 12


class WithoutNoise(ReleaseMechanism):
    """Releases the exact sum, so that a test can see which readings are in it."""

    def draw_sum(self, reading: Any, signals: Any, *_: Any, **__: Any) -> Any:
        rows = [self._in_units(self._statistic(self.check(reading, one))) for one in signals]
        return tuple(self._within(sum(column), len(rows)) for column in zip(*rows, strict=True))


def in_batches(growth: float = 2.0, longest: int = 0, rounds: int = ROUNDS) -> Any:
    privacy = SignalDP(1.0, batches=Batches(growth, longest))
    return problem("learn", privacy, rounds)


class Run:
    """Three agents in one node; agent 0 has a spool in a file."""

    def __init__(
        self, folder: Any, readings: Any, made: Any = None, budget: Any = None,
        device: Any = DEVICE, mechanism: Any = WithoutNoise, probe: Any = lambda _: None,
        terms: Any = None, **more: Any,
    ) -> None:  # fmt: skip
        self.made = made or in_batches()
        self.manifest = Manifest.of(self.made, "batches", **(terms or {}))
        self.log, self.estimates = io.StringIO(), {}  # type: ignore[var-annotated]
        self.node = Node(
            self.manifest,
            MemoryNetwork().transport(),
            options=Options(deadline=0.05, resend=0.02, tick=0.01),
            log=Log(self.log),
            on_report=self._record,
        )
        for k, label in enumerate(self.manifest.certificates):
            own = device if label == "0" else None
            ledger = Ledger.open(
                folder / f"{label}.ledger", self.manifest, label, budget or Budget(100.0),
                device=own, probe=probe if label == "0" else lambda _: None, **more,
            )  # fmt: skip
            draws = mechanism(self.manifest, self.made, label)
            spool = open_spool(ledger, own, draws)
            if isinstance(spool, FileSpool):
                spool._probe = probe
            source = readings[k]() if callable(readings[k]) else readings[k]
            if not hasattr(source, "next"):
                source = IterableReadings(source)
            self.node.add(label, ledger, draws, source, spool)

    def _record(self, label: str, report: Any) -> None:
        if report.kind == "round":
            self.estimates[report.round, label] = report.estimate

    def finish(self, until: Any = None, seconds: float = 30.0) -> "Run":
        try:
            self.node.start()
            assert self.node.run(until or (lambda: self.node.all_done), seconds)
        finally:
            self.node.close()
        return self

    def said(self, kind: str, label: str = "0") -> list[str]:
        lines = map(json.loads, self.log.getvalue().splitlines())
        return [x["text"] for x in lines if x["kind"] == kind and x["agent"] == label]


def entries(folder: Any, label: str = "0") -> Any:
    assert verify(folder / f"{label}.ledger").ok
    return read_ledger(folder / f"{label}.ledger").entries


def shape(folder: Any) -> list[tuple[int, int]]:
    return [(entry.reading, entry.readings) for entry in entries(folder)]


def test_batches_are_released_once_with_the_weight_of_their_readings(tmp_path: Any) -> None:
    run = Run(tmp_path, [[float(k) for k in range(1, 13)]] * 3).finish()
    assert shape(tmp_path) == [(1, 1), (2, 1), (4, 2), (8, 4)]
    one = 1 << run.manifest.unit
    sums = [entry.sums[0] / one for entry in entries(tmp_path)]
    assert sums == [1.0, 2.0, 3.0 + 4.0, 5.0 + 6.0 + 7.0 + 8.0]
    assert [entry.weight for entry in entries(tmp_path)] == [one, one, 2 * one, 4 * one]
    assert all(entry.epsilon == 1.0 for entry in entries(tmp_path)), "the cost of one reading"
    for agent in run.node.agents.values():
        assert agent.done is not None
        assert agent.done.estimate[0] == pytest.approx(36 / 8)
    assert run.said("readings") == [
        "4 readings of the open batch are not in the estimate, were not released and cost nothing"
    ]


def test_agents_agree_with_the_simulator_in_every_round(tmp_path: Any) -> None:
    """With the readings and without the noise, for growing and for limited batches."""
    for k, batches in enumerate([(2.0, 0), (1.5, 2)]):
        made = in_batches(*batches, rounds=16)
        signals = np.array([made.source.signals(t, 1)[:, 0] for t in range(1, 17)])
        signals = np.clip(signals, 0.0, 10.0)
        folder = tmp_path / str(k)
        folder.mkdir()
        run = Run(folder, [list(map(float, signals[:, i])) for i in range(3)], made).finish()
        trace: Any = simulate(made, Record(every=1)).noiseless
        for t in range(1, 17):
            found = [run.estimates[t, label][0] for label in "012"]
            assert found == pytest.approx(trace[t][:, 0, 0], abs=1e-9), (batches, t)


def test_the_open_batch_is_released_when_the_source_ends(tmp_path: Any) -> None:
    run = Run(tmp_path, [[1.0] * 6, [1.0] * 12, [1.0] * 12]).finish()
    assert shape(tmp_path) == [(1, 1), (2, 1), (4, 2), (6, 2)]
    assert not run.said("readings")
    assert (run.node.agents["0"].spool.records, run.node.agents["0"].counts.released) == ([], 6)


def left_with(folder: Any, taken: int) -> Run:
    """Agent 0 leaves when it has taken so many readings; batches of 1, 1, 2 and 4 are closed."""
    path = folder / "readings.csv"
    path.write_text("time,kwh\n" + "".join(f"{k},1.25\n" for k in range(1, taken + 1)))
    source = CsvReadings(path, "kwh", key="time")
    endless = in_batches(rounds=10_000)
    run = Run(folder, [source, [5.0] * 99, [5.0] * 99], endless, terms={"rounds": 0})
    agent = run.node.agents["0"]
    try:
        run.node.start()
        assert run.node.run(lambda: agent.last_reading == taken, 30.0)
        run.node.handle("0", Leave())
        assert run.node.run(lambda: agent.done is not None, 30.0)
    finally:
        run.node.close()
    return run


@pytest.mark.parametrize(("taken", "unreleased"), [(8, 0), (9, 1), (12, 4)])
def test_who_leaves_says_how_many_readings_of_the_open_batch_are_in_no_estimate(
    tmp_path: Any, taken: int, unreleased: int
) -> None:
    run = left_with(tmp_path, taken)
    found = run.node.agents["0"].departure
    assert found is not None
    assert found.unreleased == unreleased == taken - sum(count for _, count in shape(tmp_path))
    assert len(shape(tmp_path)) == 4  # leaving releases nothing
    said = [text for text in run.said("readings") if "open batch" in text]
    assert len(said) == bool(unreleased)
    assert all(text in found.sentence() for text in said)
    assert ("open batch" in found.sentence()) == bool(unreleased)
    assert "1.25" not in found.sentence() + json.dumps(found.to_json())


def test_the_departure_of_the_protocol_alone_would_not_say_it(tmp_path: Any) -> None:
    """The weakened variant: the protocol knows releases only."""
    found = left_with(tmp_path, 12).node.agents["0"].protocol.departure
    assert found is not None
    assert "open batch" not in found.sentence()


def test_a_reading_that_cannot_be_used_leaves_its_batch_shorter(tmp_path: Any) -> None:
    values = [1.0, 2.0, 3.0, "broken", 5.0, float("nan"), 7.0, 8.0, 1.0, 1.0, 1.0, 1.0]
    Run(tmp_path, [values, [1.0] * 12, [1.0] * 12]).finish()
    assert shape(tmp_path) == [(1, 1), (2, 1), (4, 1), (8, 3)]


def test_each_reading_is_clipped_before_it_is_added(tmp_path: Any) -> None:
    run = Run(tmp_path, [[1e9, -1e9, 1e9, 5.0] + [0.0] * 8, [1.0] * 12, [1.0] * 12]).finish()
    sums = [entry.sums[0] >> run.manifest.unit for entry in entries(tmp_path)]
    assert sums == [10, 0, 15, 0]


def test_asynchronous_agents_have_batches_too(tmp_path: Any) -> None:
    terms = {"asynchronous": True, "rounds": 0}
    run = Run(tmp_path, [[1.0] * 8] * 3, terms=terms)
    agents = run.node.agents
    run.finish(lambda: all(agent.counts.released == 8 for agent in agents.values()))
    assert shape(tmp_path) == [(1, 1), (2, 1), (4, 2), (8, 4)]


def test_the_longest_batch_is_a_day_where_a_schedule_is_known() -> None:
    assert Manifest.of(in_batches(), every=3600.0).longest_batch == 24
    assert Manifest.of(in_batches(), every=0.0).longest_batch == 0
    assert Manifest.of(in_batches(longest=7), every=3600.0).longest_batch == 7
    with pytest.raises(AgentError, match="longest = 4"):
        Manifest.of(in_batches(), every=86_400.0)


def test_the_guarantee_for_one_reading_stays_epsilon_and_names_the_batches() -> None:
    made = in_batches()
    manifest = Manifest.of(made)
    found = guarantee(manifest, made.family)
    assert (found.epsilon, str(found.status)) == (1.0, "proved")
    assert "batches of growth 2" in str(found.reason)
    assert Manifest.from_json(manifest.to_json()) == manifest


def size_of_noise(mechanism: Any, draws: int = 200) -> float:
    """The mean size of the noise on a batch of four readings, in units of that of one reading."""
    one = 1 << mechanism.manifest.unit
    found = [mechanism.draw_sum(1, [1.0, 2.0, 3.0, 4.0])[0] / one - 10.0 for _ in range(draws)]
    return float(np.mean(np.abs(found)) / mechanism.mechanism(1).scale)


def test_a_batch_has_the_noise_of_one_reading() -> None:
    """The mean of 200 exponentials is within 0.5 of 1 but for e^-18 (Chernoff)."""
    made = in_batches()
    manifest = Manifest.of(made)
    assert abs(size_of_noise(ReleaseMechanism(manifest, made, "0")) - 1) < 0.5

    class Scaled(ReleaseMechanism):  # noise for every reading, as if each were released
        def draw_sum(self, reading: Any, signals: Any, round: Any = None, **_: Any) -> Any:
            parts = [self.draw(reading, one, round) for one in signals]
            return tuple(map(sum, zip(*parts, strict=True)))

    assert size_of_noise(Scaled(manifest, made, "0")) > 1.5, "2.2 on average"


def test_one_reading_moves_the_grid_points_of_a_sum_by_no_more_than_its_own() -> None:
    """Exactly, where a sum of floats would move by more or less than its terms."""
    made = in_batches()
    mechanism: Any = ReleaseMechanism(Manifest.of(made), made, "0").mechanism(1)

    class Zero(type(mechanism)):  # type: ignore[misc]
        def _draw(self, count: int, _: Any) -> Any:
            return np.zeros(count, dtype=np.int64)

    still = Zero(
        mechanism.epsilon, mechanism.sensitivity, mechanism.dimension, mechanism.input_error
    )
    rng = np.random.default_rng(5)
    for _ in range(200):
        rows = rng.uniform(0, 10, (rng.integers(1, 40), 1))
        moved = rows.copy()
        moved[0] += rng.uniform(-1, 1)
        steps = (still.release_sum(rows) - still.release_sum(moved)) / still.granularity
        assert abs(steps[0]) <= still.steps
        assert steps[0] == np.round(steps[0])


# Restarts and crashes.


def powers(folder: Any, keyed: bool) -> Any:
    """A CSV file whose k-th reading is 2^k / 1000: a sum shows which readings are in it."""
    path = folder / "readings.csv"
    rows = "".join(f"{k},{2.0**k / 1024!r}\n" for k in range(ROUNDS))
    path.write_text(f"hour,load\n{rows}")
    return lambda: CsvReadings(path, "load", follow=True, key="hour" if keyed else None)


def which(folder: Any, unit: int) -> list[int]:
    """The readings in each release of agent 0, as the bits of its sum."""
    return [round(entry.sums[0] / (1 << unit) * 1024) for entry in entries(folder)]


def stopped(folder: Any, source: Any, after: int) -> None:
    """Run until so many readings of agent 0 were taken."""
    run = Run(folder, [source, [1.0] * ROUNDS, [1.0] * ROUNDS])
    run.finish(lambda: run.node.agents["0"].position >= after or run.node.all_done)


@pytest.mark.parametrize("keyed", [False, True])
def test_an_open_batch_survives_a_restart(tmp_path: Any, keyed: bool) -> None:
    """The others have four readings and wait, so that agent 0 stops with some in its spool."""
    source = powers(tmp_path, keyed)
    endless = [IterableReadings([1.0] * 4), IterableReadings([1.0] * 4)]
    for one in endless:
        one.next = _waiting_at_the_end(one)  # type: ignore[method-assign]
    first = Run(tmp_path, [source, *endless])
    first.finish(lambda: first.node.agents["0"].position >= 7)
    assert shape(tmp_path) == [(1, 1), (2, 1), (4, 2)]
    waiting = first.node.agents["0"].spool.records
    assert [record.number for record in waiting] == [5, 6, 7]
    again = Run(tmp_path, [source, [1.0] * ROUNDS, [1.0] * ROUNDS]).finish()
    assert shape(tmp_path) == [(1, 1), (2, 1), (4, 2), (8, 4)]
    assert which(tmp_path, again.manifest.unit) == [0b1, 0b10, 0b1100, 0b11110000]
    assert again.node.agents["0"].counts.passed_over == 0
    assert again.node.agents["0"].counts.repeated == (7 if keyed else 0)


def _waiting_at_the_end(source: Any) -> Any:
    usual = source.next

    def wait() -> Any:
        found = usual()
        return SourceState.WAITING if found is SourceState.END else found

    return wait


STEPS = (
    "spool written", "spool marked", "ledger checked", "ledger drawn", "ledger written",
    "ledger committed", "spool renewed", "spool emptied",
)  # fmt: skip


def killed(folder: Any, source: Any, step: str, weakened: Any = None) -> bool:
    """Run in a child that is killed when agent 0 comes to a step with reading 5 or later."""
    child = os.fork()
    if child == 0:
        try:
            if weakened is not None:
                weakened()
            holder: list[Any] = []

            def at(kind: str) -> Any:
                def probe(here: str) -> None:
                    agent = holder[0].node.agents["0"] if holder else None
                    if agent and agent.position >= 6 and f"{kind} {here}" == step:
                        os.kill(os.getpid(), signal.SIGKILL)

                return probe

            run = Run(folder, [source, [1.0] * ROUNDS, [1.0] * ROUNDS])
            holder.append(run)
            own = run.node.agents["0"]
            own.ledger._writer.probe, own.spool._probe = at("ledger"), at("spool")  # type: ignore[attr-defined]
            run.finish()
        finally:
            os._exit(3)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def exactly_once(folder: Any, keyed: bool, step: str, weakened: Any = None) -> None:
    source = powers(folder, keyed)
    assert killed(folder, source, step, weakened)
    run = Run(folder, [source, [1.0] * ROUNDS, [1.0] * ROUNDS]).finish()
    found = which(folder, run.manifest.unit)
    assert found == [0b1, 0b10, 0b1100, 0b11110000], "each reading in one release"
    assert [record.number for record in run.node.agents["0"].spool.records] == [9, 10, 11, 12]


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_every_step_releases_every_reading_once(tmp_path: Any, step: str) -> None:
    exactly_once(tmp_path, STEPS.index(step) % 2 == 0, step)


def test_the_kill_test_sees_a_spool_that_is_emptied_before_the_commit(tmp_path: Any) -> None:
    def hasty() -> None:
        usual = ReadingScheduler._release_batch

        def release(self: Any, agent: Any, number: int) -> None:
            records = list(agent.spool.records)
            if agent.spool.durable:
                agent.spool.clear(agent.last_release)
                agent.spool.records.extend(records)
                agent.spool.origins.update(record.origin for record in records)
            usual(self, agent, number)

        ReadingScheduler._release_batch = release  # type: ignore[method-assign]

    class Emptied:
        keyed, naming, origin, observed_at = False, "its number", None, None
        count = 0

        def next(self) -> Any:
            """A pipe: what was taken from it is not there again."""
            state = Path(folder) / "taken"
            taken = int(state.read_text()) if state.exists() else 0
            if taken >= ROUNDS:
                return SourceState.WAITING
            state.write_text(str(taken + 1))
            return 2.0**taken / 1024

        def skip(self, *_: Any) -> None: ...
        def acknowledge(self) -> None: ...
        def notices(self) -> list[Any]:
            return []

        def close(self) -> None: ...

    folder = tmp_path
    assert killed(tmp_path, Emptied, "ledger checked", hasty)
    run = Run(tmp_path, [Emptied, [1.0] * ROUNDS, [1.0] * ROUNDS])
    run.finish(lambda: run.node.agents["0"].position >= 8)
    assert 0b11110000 not in which(tmp_path, run.manifest.unit)


def test_no_reading_is_readable_in_any_file(tmp_path: Any) -> None:
    values = [3.0 + math.pi / k for k in range(1, 13)]
    run = Run(tmp_path, [values, [1.0] * 12, [1.0] * 12], mechanism=ReleaseMechanism)
    run.finish()
    assert run.node.agents["0"].spool.records, "some are in the spool"
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    for value in values:
        assert struct.pack("<d", value) not in written
        assert struct.pack(">d", value) not in written
        assert repr(value).encode()[:10] not in written
        assert repr(value)[:10] not in run.log.getvalue()


def test_the_spool_of_another_ledger_is_refused_at_the_start(tmp_path: Any) -> None:
    other = tmp_path / "other"
    other.mkdir()
    Run(other, [[1.0] * 12] * 3).finish()
    (tmp_path / "0.ledger.spool").write_bytes((other / "0.ledger.spool").read_bytes())
    with pytest.raises(LedgerError, match="it is of another agent"):
        Run(tmp_path, [[1.0] * 12] * 3)


# Sources.


class Broker:
    """A source that keeps what is not acknowledged, and repeats itself."""

    keyed, naming, observed_at = True, "key id", None
    origin: Any = None

    def __init__(self, keys: Any) -> None:
        self.keys, self.taken, self.acknowledged = list(keys), 0, [0]

    def skip(self, *_: Any) -> None:
        """A source with a key."""

    def next(self) -> Any:
        if self.taken == len(self.keys):
            return SourceState.WAITING
        key = self.keys[self.taken]
        self.taken += 1
        self.origin = ReadingOrigin(str(key), keyed=True)
        return float(key)

    def acknowledge(self) -> None:
        self.acknowledged.append(self.taken)

    def notices(self) -> list[Any]:
        return []

    def close(self) -> None:
        """Nothing."""


def test_a_reading_repeated_inside_the_open_batch_is_recognised(tmp_path: Any) -> None:
    source = Broker([1, 2, 3, 3, 4, 1, 5, 6, 5, 7, 8, 9, 10, 10, 9, 1, 2])
    run = Run(tmp_path, [source, [1.0] * 12, [1.0] * 12])
    run.finish(lambda: source.taken == len(source.keys))
    assert shape(tmp_path) == [(1, 1), (2, 1), (4, 2), (8, 4)]
    assert run.node.agents["0"].counts.repeated == 7
    assert [record.number for record in run.node.agents["0"].spool.records] == [9, 10]
    assert source.acknowledged[-1] == len(source.keys), "repeated ones too"


def test_a_source_is_acknowledged_when_its_reading_is_in_the_spool(tmp_path: Any) -> None:
    source = Broker(range(1, 7))
    run = Run(tmp_path, [source, [1.0] * 12, [1.0] * 12])
    run.finish(lambda: source.taken == 6)
    assert source.acknowledged[1:] == [1, 2, 3, 4, 5, 6]


def test_without_a_device_key_it_is_acknowledged_when_the_batch_is_released(tmp_path: Any) -> None:
    source = Broker(range(1, 7))
    run = Run(tmp_path, [source, [1.0] * 12, [1.0] * 12], device=None)
    run.finish(lambda: source.taken == 6)
    assert isinstance(run.node.agents["0"].spool, MemorySpool)
    assert source.acknowledged[1:] == [1, 2, 4]
    assert "in memory only" in run.said("spool")[0]
    assert not list(tmp_path.glob("*.spool*"))


def test_a_full_disk_holds_the_reading_back_and_loses_none(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("veilsum.agents.runtime.scheduler.RETRY", 0.01)
    usual, failures = FileSpool.append, [0]

    def full(self: Any, reading: Any) -> None:
        if reading.number == 3 and failures[0] < 5:
            failures[0] += 1
            assert source.acknowledged[-1] < 3
            raise LedgerError("spool: the disk is full")
        usual(self, reading)

    monkeypatch.setattr(FileSpool, "append", full)
    source = Broker(range(1, 13))
    run = Run(tmp_path, [source, [1.0] * 12, [1.0] * 12]).finish()
    assert failures[0] == 5
    assert shape(tmp_path) == [(1, 1), (2, 1), (4, 2), (8, 4)]
    assert "disk is full" in run.said("spool")[0]


def test_a_budget_that_is_spent_passes_over_whole_batches(tmp_path: Any) -> None:
    run = Run(tmp_path, [[1.0] * 12] * 3, budget=Budget(2.0)).finish()
    assert shape(tmp_path) == [(1, 1), (2, 1)]
    assert run.node.agents["0"].counts.passed_over == 2
    assert run.node.agents["0"].spool.records == []
    assert run.said("budget")
