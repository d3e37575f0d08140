"""Masked sums by agents in nodes: one result for all, budgets, streams, restarts, and what is shown."""

from fractions import Fraction
from typing import Any

import pytest

from tests.agents.runtime.masked_sites import OPTIONS, Sites, on_grid, terms
from tests.agents.runtime.test_schedule import TimedReadings
from tests.agents.runtime.test_slots import HOUR, NOON, SetClocks
from veilsum.agents.ledger import Ledger, read_ledger, verify
from veilsum.agents.masked.agent import MaskedAgent
from veilsum.agents.readings import CsvReadings, SourceState
from veilsum.agents.release import ContributionMechanism, ReleaseMechanism
from veilsum.agents.runtime import IterableReadings, Metrics, Node
from veilsum.agents.runtime.masked import MaskedParts
from veilsum.agents.runtime.spool_file import FileSpool
from veilsum.agents.transport.memory import MemoryNetwork
from veilsum.errors import AgentError, SignalError
from veilsum.privacy.accounting import Budget

READINGS = {"0": [1.2578125], "1": [2.5703125], "2": [9.0078125], "3": [4.1328125]}
STREAM = 'name = "masked-learn", rounds = 12'
BATCHES = ", batches = {growth = 2.0}"


def estimates(sites: Any) -> set[Any]:
    return {tuple(x.hex() for x in sites.agent(label).done.estimate) for label in sites.nodes}


def test_all_agents_have_the_same_sum_of_readings_and_noise_to_the_bit(tmp_path: Any) -> None:
    sites = Sites(tmp_path, terms(), READINGS).start_all(metrics=Metrics()).finish()
    mechanism = sites.agent("0").release_mechanism
    total = sum(on_grid(mechanism, values) for values in READINGS.values())
    total += sum(given[-1][0] for given in sites.noise.values())
    expected = float(Fraction(total) * Fraction(mechanism.step) / 4)
    assert estimates(sites) == {(expected.hex(),)}
    for label in READINGS:
        agent = sites.agent(label)
        assert (agent.done.reason, agent.done.round) == ("sum", 1)
        assert agent.done.coverage.readings == (1, 1, 1, 1)
        assert agent.done.coverage.draws == 4
        assert agent.counts.released == 1
        path = tmp_path / f"{label}.ledger"
        assert verify(path).ok
        assert [entry.epsilon for entry in read_ledger(path).entries] == [1.0]


def test_the_result_says_what_it_is_a_sum_of(tmp_path: Any) -> None:
    sites = Sites(tmp_path, terms(), READINGS).start_all(metrics=Metrics())
    sites.until(lambda: sites.done)
    found = sites.result("1")
    assert found.exit_code == 0
    assert "over a roster of 4 of 4, readings of 4 of 4" in found.sentence()
    assert found.half_width[0] == pytest.approx(0.85, abs=0.15)  # log 20 sqrt(4/3)/4 or so
    status = sites.nodes["1"].reporter.status(sites.agent("1")).to_json()
    session = status["session"]
    assert (session["query"], session["stage"]) == (1, "concluded")
    assert session["records"] >= 4 * 4
    assert session["bytes_sent"] == sites.nodes["1"].observability.counts["bytes"] > 4000
    shown = sites.nodes["1"].observability.metrics
    sites.nodes["1"].reporter.finish()
    value = shown.registry.get_sample_value
    assert value("veilsum_session", {"agent": "1", "number": "query"}) == 1
    assert value("veilsum_session_stage", {"agent": "1", "stage": "concluded"}) == 1
    assert value("veilsum_record_bytes_sent_total", {"agent": "1"}) == session["bytes_sent"]
    sites.finish()
    text = sites.log.getvalue()
    for values in READINGS.values():
        assert str(values[0]) not in text


def test_what_an_open_query_reserves_is_shown_and_raises_no_alarm(tmp_path: Any) -> None:
    """The alert of docs/agents.md: remaining and reserved together; without the fourth nothing ends."""
    sites = Sites(tmp_path, terms(), READINGS, budget=1.0)
    for label in "012":
        sites.start(label, metrics=Metrics())
    sites.until(lambda: sites.agent("1").query == 1)
    reporter = sites.nodes["1"].reporter
    budget = reporter.status(sites.agent("1")).to_json()["budget"]
    value = sites.nodes["1"].observability.metrics.registry.get_sample_value
    names = ("spent", "spent_in_all", "remaining", "reserved")
    assert [budget[name] for name in names] == [0.0, 0.0, 0.0, 1.0]
    found = {name: value(f"veilsum_epsilon_{name}", {"agent": "1"}) for name in names}
    assert found == {name: budget[name] for name in names}
    assert found["remaining"] + found["reserved"] >= 1.0 > found["remaining"]
    sites.start("3")
    sites.finish()
    budget = reporter.status(sites.agent("1")).to_json()["budget"]
    assert [budget[name] for name in names] == [1.0, 1.0, 0.0, 0.0]


def test_a_member_without_budget_takes_no_part_and_has_the_result_of_the_others(
    tmp_path: Any,
) -> None:
    """Both attempts are reserved before anything is drawn: 0.75 is enough for one, at 0.5."""
    readings = READINGS | {"4": [3.0]}
    made = terms(5, ", absent = 1, attempts = 2", gathering=0.3)
    sites = Sites(tmp_path, made, readings)
    for label in readings:
        sites.start(label, budget=0.75 if label == "4" else 1.0)
    sites.finish()
    assert len(estimates(sites)) == 1
    assert sites.agent("0").done.coverage.readings == (1, 1, 1, 1, 0)
    assert not read_ledger(tmp_path / "4.ledger").entries
    assert not sites.noise["4"], "nothing was drawn"
    assert sites.agent("4").counts.passed_over == 1
    assert sites.result("4").complete


def test_a_stream_is_a_query_for_each_batch(tmp_path: Any) -> None:
    """12 readings: batches of 1, 1, 2 and 4; the open one of 4 is not in the estimate."""
    stream = {str(k): [(7 * t + 3 * k) % 10 + 0.5 for t in range(12)] for k in range(4)}
    sites = Sites(tmp_path, terms(privacy=BATCHES, algorithm=STREAM), stream).start_all().finish()
    mechanism = sites.agent("0").release_mechanism
    total = sum(on_grid(mechanism, values[:8]) for values in stream.values())
    total += sum(vector[0] for given in sites.noise.values() for vector in given[:4])
    expected = float(Fraction(total) * Fraction(mechanism.step) / 32)
    assert estimates(sites) == {(expected.hex(),)}
    for label in stream:
        agent = sites.agent(label)
        assert (agent.done.round, agent.done.coverage.readings) == (4, (8, 8, 8, 8))
        assert agent.done.coverage.draws == 16
        assert [e.readings for e in read_ledger(tmp_path / f"{label}.ledger").entries] == [
            1,
            1,
            2,
            4,
        ]
        assert "from 4 masked sums" in sites.result(label).sentence()


def test_the_source_is_acknowledged_when_its_query_is_concluded(tmp_path: Any) -> None:
    class Counted(IterableReadings):
        acknowledged = 0

        def acknowledge(self) -> None:
            self.acknowledged += 1

    sites = Sites(tmp_path, terms(), READINGS)
    source = Counted(READINGS["0"])
    for label in ("0", "1", "2"):
        sites.start(label, source=source if label == "0" else None)
    sites.until(lambda: sites.agent("0").query == 1)
    for _ in range(20):
        sites.turn()
    assert not source.acknowledged, "member 3 is not there, so that there is no sum"
    sites.start("3")
    sites.finish()
    assert source.acknowledged + 0 == 1


def test_after_a_restart_the_same_reading_is_taken_again_and_no_other(tmp_path: Any) -> None:
    sites = Sites(tmp_path, terms(gathering=0.3), dict(READINGS))
    for label in ("0", "1", "2"):
        sites.start(label)
    sites.until(lambda: sites.agent("0").query == 1)
    sites.stop("0")
    sites.readings["0"] = [7.75]  # somebody changed the file
    sites.start("0")
    with pytest.raises(SignalError, match="not the one with which it takes part in query 1"):
        sites.until(lambda: False, turns=200)
    sites.stop("0")
    sites.readings["0"] = [*READINGS["0"], 6.0]
    for label in ("0", "3"):
        sites.start(label)
    sites.finish()
    assert len(estimates(sites)) == 1
    total = sum(on_grid(sites.agent("0").release_mechanism, v[:1]) for v in READINGS.values())
    total += sum(given[-1][0] for given in sites.noise.values())
    step = Fraction(sites.agent("0").release_mechanism.step)
    assert sites.agent("3").done.estimate == (float(total * step / 4),)
    assert len(read_ledger(tmp_path / "0.ledger").entries) == 1


@pytest.mark.parametrize("key", ["time", None])
def test_the_reading_of_the_first_query_is_found_in_a_rotated_file(tmp_path: Any, key: Any) -> None:
    """No query is concluded yet: the ledger knows where its readings begin, and no other file is read."""
    sites = Sites(tmp_path, terms(gathering=0.3), dict(READINGS))
    path = tmp_path / "readings.csv"
    (tmp_path / "readings.csv.1").write_text("time,kwh\n0,3.0\n")
    path.write_text(f"time,kwh\n1,{READINGS['0'][0]}\n")

    def source() -> CsvReadings:
        return CsvReadings(path, "kwh", key=key, settle=0.0)

    sites.start("0", source=source())
    for label in ("1", "2"):
        sites.start(label)
    sites.until(lambda: sites.agent("0").query == 1)
    sites.stop("0")
    (tmp_path / "readings.csv.1").rename(tmp_path / "readings.csv.2")
    path.rename(tmp_path / "readings.csv.1")
    path.write_text("time,kwh\n2,6.0\n")
    sites.start("0", source=source())
    sites.start("3")
    sites.finish()
    total = sum(on_grid(sites.agent("0").release_mechanism, v) for v in READINGS.values())
    total += sum(given[-1][0] for given in sites.noise.values())
    step = Fraction(sites.agent("0").release_mechanism.step)
    assert sites.agent("3").done.estimate == (float(total * step / 4),)


def test_a_batch_in_a_durable_spool_survives_a_restart_and_its_source(tmp_path: Any) -> None:
    stream = {str(k): [(7 * t + 3 * k) % 10 + 0.5 for t in range(12)] for k in range(4)}
    made = terms(privacy=BATCHES, algorithm=STREAM, gathering=0.3)
    sites = Sites(tmp_path, made, stream)
    (tmp_path / "0.csv").write_text("".join(f"{x}\n" for x in stream["0"]))

    def start(label: str) -> None:
        source = CsvReadings(tmp_path / "0.csv", follow=False) if label == "0" else None
        sites.start(label, device=b"d" * 32 if label == "0" else None, source=source)

    for label in stream:
        start(label)
    assert isinstance(sites.agent("0").spool, FileSpool)
    sites.until(lambda: sites.agent("1").protocol.round == 2)
    sites.stop("3")  # so that query 3 stays open
    sites.until(lambda: sites.agent("0").query in (3, 4))
    query, before = sites.agent("0").query, len(sites.agent("0").spool.records)
    sites.stop("0")
    start("0")
    assert len(sites.agent("0").spool.records) == before == 2 ** (query - 2)
    sites.until(lambda: sites.agent("0").query == query)
    start("3")
    sites.finish()
    assert len(estimates(sites)) == 1
    assert sites.agent("1").done.coverage.readings == (8, 8, 8, 8)
    assert verify(tmp_path / "0.ledger").ok


class LateReadings(IterableReadings):
    """Readings that wait until they may come."""

    ready: Any = staticmethod(lambda: True)

    def next(self) -> Any:
        return super().next() if self.ready() else SourceState.WAITING


def test_a_query_that_ends_before_its_readings_are_taken_again_keeps_them(tmp_path: Any) -> None:
    """They are not taken for the query that follows."""
    stream = {str(k): [(7 * t + 3 * k) % 10 + 0.5 for t in range(12)] for k in range(5)}
    privacy = BATCHES + ", absent = 1"
    sites = Sites(tmp_path, terms(5, privacy, STREAM, gathering=0.5), stream).start_all()
    sites.until(lambda: sites.agent("4").query == 2)
    sites.stop("4")
    sites.until(lambda: sites.agent("0").protocol.round == 2)
    source = LateReadings(stream["4"])
    sites.start("4", source=source)
    assert sites.agent("4").recovery.query == 2
    source.ready = lambda: sites.agent("4").protocol.round >= 2
    sites.finish()
    assert sites.agent("4").counts.repeated == 1
    assert len(estimates(sites)) == 1
    *others, late = sites.agent("4").done.coverage.readings
    assert others == [8, 8, 8, 8]
    assert late in (
        7,
        5,
        3,
        1,
    )  # without query 2; a busy machine may miss those of 2 and 4 readings
    assert verify(tmp_path / "4.ledger").ok


def test_a_source_with_a_key_gives_the_same_readings_again_in_any_order(tmp_path: Any) -> None:
    """What it returned in between is for the next query."""
    stream = {str(k): [(7 * t + 3 * k) % 10 + 0.5 for t in range(12)] for k in range(4)}
    made = terms(privacy=BATCHES, algorithm=STREAM, gathering=0.3)
    sites = Sites(tmp_path, made, stream)
    rows = [f"{t},{x}\n" for t, x in enumerate(stream["0"])]

    def start(order: Any) -> None:
        (tmp_path / "0.csv").write_text("hour,load\n" + "".join(rows[t] for t in order))
        source = CsvReadings(tmp_path / "0.csv", "load", follow=False, key="hour")
        sites.start("0", source=source)

    start(range(12))
    for label in ("1", "2", "3"):
        sites.start(label)
    sites.until(lambda: sites.agent("1").protocol.round == 2)
    sites.stop("3")
    sites.until(lambda: sites.agent("0").query == 3)
    sites.stop("0")
    start([0, 1, 4, 3, 2, *range(5, 12)])  # 3 and 4 are in the open query
    sites.start("3")
    sites.finish()
    mechanism = sites.agent("0").release_mechanism
    total = sum(on_grid(mechanism, values[:8]) for values in stream.values())
    for given in sites.noise.values():  # of each query the last one that was drawn is in the sum
        total += sum(vector[0] for vector in given[:2] + given[-2:])
    assert estimates(sites) == {((float(Fraction(total) * Fraction(mechanism.step) / 32)).hex(),)}
    assert verify(tmp_path / "0.ledger").ok


def test_a_member_whose_slot_is_empty_takes_no_part_in_that_sum(tmp_path: Any) -> None:
    algorithm = 'name = "masked-learn", rounds = 2'
    made = terms(5, ", absent = 1", algorithm, gathering=0.2, every=HOUR, grace=600.0)
    clocks = SetClocks(NOON + 60)
    sites = Sites(tmp_path, made, dict.fromkeys("01234"), clocks=clocks)
    for label in "01234":
        times = [HOUR * k for k in range(2) if (label, k) != ("4", 0)]
        arrivals = [(NOON + 120 + t, 3.0 + int(label)) for t in times]
        sites.start(label, source=TimedReadings(clocks, arrivals))
    for _ in range(16):
        clocks.pass_(0.125 * HOUR)
        for _ in range(8):
            sites.turn()
    sites.finish()
    assert len(estimates(sites)) == 1
    assert sites.agent("0").done.coverage.readings == (2, 2, 2, 2, 1)
    assert sites.agent("0").done.coverage.draws == 9
    assert [e.readings for e in read_ledger(tmp_path / "4.ledger").entries] == [1]


def test_parts_that_do_not_fit_are_refused(tmp_path: Any) -> None:
    manifest, problem, _ = terms()
    ledger = Ledger.open(tmp_path / "0.ledger", manifest, "0", Budget(2.0))
    node = Node(manifest, MemoryNetwork().transport())
    source = IterableReadings([1.0])
    mechanism = ContributionMechanism(manifest, problem, "0")
    with pytest.raises(AgentError, match="needs its signing key"):
        node.add("0", ledger, mechanism, source)
    other: Any = object.__new__(ReleaseMechanism)
    with pytest.raises(AgentError, match="release_mechanism must be a ContributionMechanism"):
        node.add("0", ledger, other, source)
    ledger.close()
    node.close()


def test_a_batch_that_the_last_round_leaves_open_is_no_query(tmp_path: Any) -> None:
    """Batches end with readings 1, 2, 4, 8, 16: of 12 rounds, four close."""
    manifest, problem, keys = terms(4, BATCHES, STREAM)
    assert manifest.queries == 4
    ledger = Ledger.open(tmp_path / "0", manifest, "0", Budget(9.0))
    made = ContributionMechanism(manifest, problem, "0")
    parts = MaskedParts(manifest, OPTIONS)
    agent = parts.agent("0", ledger, made, keys["0"], in_common=False)
    alone = MaskedAgent(manifest, "0", agent.terms, keys["0"], parts.sessions["0"], made.noise.draw)
    assert agent.queries.last == alone.queries.last == manifest.queries
    ledger.close()
