"""The status of agents: computed when something changed, written at once, read by others."""

import io
import json
import os
import stat
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.agents.runtime.test_node import finish, node, problem
from veilsum.agents.coverage import Coverage
from veilsum.agents.results import AgentResult
from veilsum.agents.runtime import AgentStatus, Log, Metrics
from veilsum.agents.runtime.facts import BudgetFacts
from veilsum.agents.runtime.metrics import GONE
from veilsum.agents.runtime.reporter import StatusReporter
from veilsum.agents.runtime.status import STALE, StatusFile, StatusReport, machine, status_files
from veilsum.cli.app import app
from veilsum.errors import AgentError
from veilsum.privacy import SignalDP

LABELS = ("0", "1", "2")


def status(counts: Any = (2, 2, 2), state: str = "running", **more: Any) -> AgentStatus:
    covered = Coverage(LABELS, tuple(m for m, n in zip(LABELS, counts, strict=True) if n), counts)
    estimate = (5.0,) if any(counts) else ()
    result = AgentResult(
        "0", "net", "ab" * 32, 7, state, estimate, estimate, (0.5,) * len(estimate), None, 0.95,
        covered, 3, 1.0, 0.0, "words",
    )  # fmt: skip
    terms: dict[str, Any] = {
        "readings": {"released": 2, "passed-over": 1, "refused": 0},
        "budget": BudgetFacts(10.0, 2.0, 3.0, 6.0, 2.0, "stream", "day", 2e9),
        "links": {"1": "open", "2": "silent"},
        "last_reading": time.time() - 5,
        "certificate_days": 30.0,
        "time": time.time(),
        "machine": machine(),
    }
    return AgentStatus(result, state, **(terms | more))


def test_a_stream_shows_its_estimate_with_interval_and_coverage(tmp_path: Any) -> None:
    seen: list[AgentStatus] = []
    made = node(problem(rounds=6), tmp_path, [[5.0] * 6] * 3, rounds=0)
    made.reporter.receivers.append(seen.append)
    made.start()
    made.run(lambda: made.agents["0"].protocol.round >= 6, 20)
    made.reporter._next = 0.0
    made.reporter.turn()
    made.close()
    made.close()
    last = [each for each in seen if each.result.agent == "0"][-1]
    assert last.state == "stopped"
    assert last.result.reason == "stopped"
    assert 0.0 <= last.result.estimate[0] <= 10.0
    assert 0 < last.result.half_width[0] <= 10.0
    assert last.readings["released"] == 6
    assert last.budget is not None
    assert last.budget.spent == pytest.approx(6.0)
    assert set(last.links) == {"1", "2"}
    assert last.last_reading is not None
    text = json.dumps(last.to_json())
    assert json.loads(text)["readings"]["taken"] == 6


def test_a_stream_whose_mixing_was_undone_claims_no_narrow_interval(tmp_path: Any) -> None:
    made = node(
        problem(privacy=SignalDP(20.0)), tmp_path, [[5.0] * 40] * 3, budget=1000.0, rounds=0
    )
    made.start()
    made.run(lambda: made.agents["0"].protocol.round >= 40, 20)
    agent = made.agents["0"]
    before = made.reporter.result(agent)
    protocol = agent.protocol
    protocol.mass.roll_back(protocol.links["1"], 2)  # a neighbour lost its state
    after = made.reporter.result(agent)
    made.close()
    assert before.half_width[0] < 5.0
    assert after.half_width == (10.0,)


def test_an_agent_that_is_stopped_before_its_last_round_has_no_result(tmp_path: Any) -> None:
    made = node(problem("average", rounds=3000), tmp_path, [[5.0]] * 3)
    made.start()
    made.run(lambda: made.agents["0"].protocol.round > 3, 20)
    result = made.reporter.result(made.agents["0"], ended=True)
    running = made.reporter.result(made.agents["0"])
    made.close()
    assert (result.estimate, result.exit_code, result.reason) == ((), 3, "stopped")
    assert running.estimate


def test_a_done_agent_has_its_result(tmp_path: Any) -> None:
    made = node(problem("average", rounds=60), tmp_path, [[1.0], [5.0], [9.0]])
    seen: dict[str, AgentStatus] = {}
    made.reporter.receivers.append(lambda found: seen.update({found.result.agent: found}))
    assert finish(made)
    for found in seen.values():
        assert found.state == "done"
        assert found.ready
        assert found.result.reason == "rounds"
        assert found.result.unprojected == made.agents[found.result.agent].done.estimate


class FakeTime:
    """Seconds that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_status_is_passed_on_when_something_changed_and_at_most_once_a_second(
    tmp_path: Any,
) -> None:
    made = node(problem("average", rounds=60), tmp_path, [[1.0], [5.0], [9.0]])
    clock, seen = FakeTime(), list[AgentStatus]()
    reporter = StatusReporter(
        made.manifest, made.agents, made.observability, clock=clock, wall=clock
    )
    reporter.receivers.append(seen.append)
    assert finish(made)
    for _ in range(1000):
        clock.now += 0.01
        reporter.turn()
    clock.now += 2.0
    reporter.turn()
    assert len(seen) == 3  # one for each agent: nothing changed in twelve seconds
    made.agents["0"].counts.refused += 1
    clock.now += 0.5
    reporter.turn()
    assert len(seen) == 3  # within the second
    clock.now += 0.6
    reporter.turn()
    assert [found.result.agent for found in seen[3:]] == ["0"]
    for _ in range(600):
        clock.now += 1.0
        reporter.turn()
    assert len(seen) - 4 <= 3 * 11  # the heartbeat
    assert len(seen) - 4 >= 3 * 9


def test_a_receiver_that_fails_does_not_stop_the_agent(tmp_path: Any) -> None:
    log = io.StringIO()
    made = node(problem("average", rounds=60), tmp_path, [[1.0], [5.0], [9.0]], log=log)

    def fail(_: Any) -> None:
        raise RuntimeError("the disk is full")

    made.reporter.receivers.append(fail)
    assert finish(made)
    assert log.getvalue().count("the disk is full") == 1
    assert not made.reporter.receivers


def test_a_status_holds_no_reading(tmp_path: Any) -> None:
    seen: list[str] = []
    made = node(problem(rounds=6), tmp_path, [[5.12345678] * 6] * 3)
    made.reporter.receivers.append(lambda found: seen.append(json.dumps(found.to_json())))
    assert finish(made)
    assert seen
    assert not any("5.12345" in text for text in seen)


def broken_reads(path: Path, write: Any) -> int:
    """How often a reader that looks all the time sees a part of a status."""
    stop, broken = threading.Event(), []

    def look() -> None:
        while not stop.is_set():
            try:
                json.loads(path.read_text())
            except FileNotFoundError:
                pass
            except ValueError:
                broken.append(1)

    reader = threading.Thread(target=look)
    reader.start()
    for k in range(100):
        write({"k": k, "text": "x" * 5000})
    stop.set()
    reader.join()
    assert json.loads(path.read_text())["k"] == 99
    return len(broken)


def test_the_file_is_replaced_at_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "a.status.json"

    def in_place(data: Any) -> None:  # weakened
        text = json.dumps(data)
        with path.open("w") as file:
            file.write(text[:3000])
            file.flush()
            time.sleep(0.001)
            file.write(text[3000:])

    assert broken_reads(path, in_place) > 0
    path.unlink()
    assert broken_reads(path, StatusFile(path).write) == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["a.status.json"]
    with pytest.raises(AgentError, match="cannot write the status to"):
        StatusFile(tmp_path / "missing" / "a.status.json").write({})


def ended_process() -> int:
    done = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    return int(done.stdout)


def test_a_status_says_when_its_agent_does_not_run(tmp_path: Path) -> None:
    path = tmp_path / "a.status.json"
    assert StatusReport.read(path).exit_code == 1
    path.write_text("{")
    assert StatusReport.read(path).exit_code == 1
    path.write_text("[]")
    assert "no status of an agent" in StatusReport.read(path).problem
    StatusFile(path)(status())
    assert StatusReport.read(path).exit_code == 0
    assert (
        "not running: its last status is"
        in StatusReport.read(path, time.time() + 2 * STALE).problem
    )
    StatusFile(path)(status(process=ended_process()))
    assert "its process has ended" in StatusReport.read(path).problem
    StatusFile(path)(status(process=ended_process(), machine="another machine"))
    assert not StatusReport.read(path).problem
    StatusFile(path)(status(state="done", process=ended_process(), time=0.0))
    assert StatusReport.read(path).exit_code == 0
    StatusFile(path)(status(counts=(1, 1, 0)))
    assert StatusReport.read(path).exit_code == 3
    StatusFile(path)(status(counts=(0, 0, 0)))
    assert StatusReport.read(path).exit_code == 3


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["status", *words])


def test_veilsum_status_shows_a_file_and_a_folder(tmp_path: Path) -> None:
    StatusFile(tmp_path / "a.status.json")(status())
    (tmp_path / "b").mkdir()
    StatusFile(tmp_path / "b" / "b.status.json")(status(counts=(1, 0, 0)))
    one = run(str(tmp_path / "a.status.json"))
    assert one.exit_code == 0, one.output
    for part in (
        "running",
        "5 +- 0.5",
        "3 of 3",
        "s ago",
        "6 of 10, 2 reserved, refills 2033-05-18",
    ):
        assert part in one.output
    both = run(str(tmp_path), "--json")
    assert both.exit_code == 3
    found = json.loads(both.stdout)["agents"]
    assert [each["coverage"]["contributing"] for each in found] == [3, 1]
    StatusFile(tmp_path / "a.status.json")(status(process=ended_process()))
    worse = run(str(tmp_path))
    assert worse.exit_code == 1
    assert "not running" in worse.output
    empty = tmp_path / "empty"
    empty.mkdir()
    assert run(str(empty)).exit_code == 1
    assert run(str(tmp_path / "nothing")).exit_code == 2
    assert status_files(tmp_path / "x.json") == [tmp_path / "x.json"]


def test_metrics_show_the_status_in_about_twenty_series_of_bounded_number(tmp_path: Path) -> None:
    metrics = Metrics()
    metrics.know("0", ["1", "2"])
    metrics.show(status())
    text = metrics.text().decode()
    for line in (
        'veilsum_estimate{agent="0",component="0"} 5.0',
        'veilsum_half_width{agent="0",component="0"} 0.5',
        'veilsum_members{agent="0"} 3.0',
        'veilsum_members_contributing{agent="0"} 3.0',
        'veilsum_epsilon_spent{agent="0"} 2.0',
        'veilsum_epsilon_spent_in_all{agent="0"} 3.0',
        'veilsum_epsilon_remaining{agent="0"} 6.0',
        'veilsum_epsilon_reserved{agent="0"} 2.0',
        'veilsum_budget_refill_timestamp_seconds{agent="0"} 2e+09',
        'veilsum_certificate_days{agent="0"} 30.0',
        'veilsum_state{agent="0",state="running"} 1.0',
        'veilsum_state{agent="0",state="gathering"} 0.0',
        'veilsum_link_state{agent="0",peer="2",state="silent"} 1.0',
        'veilsum_link_state{agent="0",peer="2",state="open"} 0.0',
        'veilsum_result_complete{agent="0"} 1.0',
        'veilsum_epoch{agent="0"} 1.0',
        'veilsum_members_gone{agent="0",how="former"} 0.0',
    ):
        assert line in text
    age = metrics.registry.get_sample_value("veilsum_last_reading_age_seconds", {"agent": "0"})
    assert age is not None
    assert 4 < age < 30
    assert 20 <= len({line.split()[2] for line in text.splitlines() if "# TYPE" in line}) <= 35
    before = text.count("\n")
    metrics.show(
        status(links={"1": "nobody knows", "2": "open"} | {f"x{k}": "open" for k in range(99)})
    )
    assert metrics.text().decode().count("\n") <= before + 12  # one more peer, "unknown"
    metrics.show(status(counts=(0, 0, 0)))
    assert "veilsum_estimate{" not in metrics.text().decode()
    path = tmp_path / "veilsum.prom"
    metrics.write(path)
    assert path.read_bytes().startswith(b"# HELP veilsum_")
    assert os.listdir(tmp_path) == ["veilsum.prom"]
    with pytest.raises(AgentError, match="cannot write metrics to"):
        metrics.write(tmp_path / "missing" / "veilsum.prom")


def test_metrics_say_the_epoch_and_how_many_are_gone() -> None:
    """By numbers: names would make a series for each member that ever was."""
    metrics, shown = Metrics(), status()
    many = tuple(f"x{k}" for k in range(500))
    coverage = replace(shown.result.coverage, left=("1",), former=many)
    metrics.show(replace(shown, result=replace(shown.result, epoch=7, coverage=coverage)))
    value = metrics.registry.get_sample_value
    assert value("veilsum_epoch", {"agent": "0"}) == 7
    gone = {how: value("veilsum_members_gone", {"agent": "0", "how": how}) for how in GONE}
    assert gone == {"left": 1, "lost": 0, "former": 500}
    assert "x1" not in metrics.text().decode()


@pytest.mark.parametrize(
    ("state", "epochs", "named"),
    [("running", (1, 2), ["a"]), ("running", (2, 2), []), ("done", (1, 2), [])],
)
def test_veilsum_status_names_who_is_in_an_earlier_epoch(
    tmp_path: Path, state: str, epochs: tuple[int, int], named: list[str]
) -> None:
    """An agent that is done adopts a later epoch when it is started again."""
    for label, epoch in zip("ab", epochs, strict=True):
        made = status()
        result = replace(made.result, agent=label, epoch=epoch)
        found = replace(made, result=result, state=state, time=time.time())
        StatusFile(tmp_path / f"{label}.status.json")(found)
    done = CliRunner().invoke(app, ["status", str(tmp_path)])
    late = [line for line in done.output.splitlines() if "the roll-out has not reached it" in line]
    assert [line.split(":")[0] for line in late] == named
    assert "epoch" in done.output.splitlines()[1]


def test_metrics_outlive_a_short_run(tmp_path: Path) -> None:
    """Written at the end of the run, by the same receivers as the command line's."""
    from veilsum.agents.runtime import Node
    from veilsum.cli.agent import _collector

    usual = node(problem("average", rounds=60), tmp_path, [[1.0], [5.0], [9.0]])
    metrics = Metrics()
    made = Node(usual.manifest, usual.transport, log=Log(io.StringIO()), metrics=metrics)
    path = tmp_path / "veilsum.prom"
    made.reporter.receivers.append(_collector(metrics, path))
    made.agents.update(usual.agents)
    made.close()
    text = path.read_text()
    assert 'veilsum_state{agent="0",state="stopped"} 1.0' in text
