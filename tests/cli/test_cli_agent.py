"""veilsum agent prints its result with what must be known of it, and its exit code says if it has one."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from veilsum.agents.local_cluster.plan import free_ports
from veilsum.cli.app import app

VEILSUM = [sys.executable, "-m", "veilsum.cli"]
SCENARIO = """
name = "pair"
network = {graph = "complete:2", weights = "lazy-metropolis"}
family = {name = "normal", sigma = 1.0, bounds = [0.0, 100.0]}
signals = {draw = {mu = 50.0}}
privacy = {protect = "signal", epsilon = 1.0, radius = 1.0}
algorithm = {name = "ALGORITHM", rounds = 40}
AGENTS
"""
AGENT = """
name = "NAME"
scenario = "scenario.toml"
listen = ["tcp/127.0.0.1:OWN"]
ledger = { path = "NAME.ledger" }
budget = { epsilon = 50.0 }
readings = { csv = "NAME.csv" }
rounds = { deadline = 5.0, linger = 10.0 }
peers = { OTHER = "tcp/127.0.0.1:PORT" }
"""
READING = "48.7654321"


def deployment(folder: Path, algorithm: str = "average", agents: str = "") -> None:
    text = SCENARIO.replace("ALGORITHM", algorithm).replace("AGENTS", agents)
    (folder / "scenario.toml").write_text(text)
    ports = free_ports(2)
    for k in (0, 1):
        words = {"NAME": str(k), "OTHER": str(1 - k), "OWN": ports[k], "PORT": ports[1 - k]}
        text = AGENT
        for word, value in words.items():
            text = text.replace(word, str(value))
        (folder / f"{k}.toml").write_text(text)
        (folder / f"{k}.csv").write_text("load\n" + f"{READING}\n" * 3)


def start(folder: Path, name: int, *words: str) -> Any:
    return subprocess.Popen(
        [*VEILSUM, "agent", f"{name}.toml", "--insecure", *words],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finish(running: list[Any], seconds: float = 90.0) -> list[tuple[str, str]]:
    try:
        return [process.communicate(timeout=seconds) for process in running]
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.communicate()


def wait_for(condition: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.1)


def status_of(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found


def status(*words: str) -> Any:
    return CliRunner().invoke(app, ["status", *words])


def test_a_result_has_interval_coverage_guarantee_and_manifest(tmp_path: Path) -> None:
    deployment(tmp_path)
    prom = tmp_path / "veilsum.prom"
    running = [start(tmp_path, 0, "--json", "--metrics-file", str(prom)), start(tmp_path, 1)]
    (lines, log), (sentence, other) = finish(running)
    assert [process.returncode for process in running] == [0, 0], (log, other)
    found = [json.loads(line) for line in lines.splitlines()]
    result = found[-1]
    assert result["kind"] == "result"
    assert all(line["kind"] in ("waiting", "estimate") for line in found[:-1])
    assert result["coverage"]["sentence"] == "readings of 2 of 2 members"
    assert 0 <= result["estimate"][0] <= 100
    assert result["half_width"][0] == pytest.approx(2.2, abs=0.4)  # of two Laplace draws, halved
    assert "epsilon = 1" in result["guarantee"]
    for part in ("after 40 rounds", "readings of 2 of 2 members", "epsilon 1 per reading"):
        assert part in sentence
    assert result["manifest"][:12] in sentence
    assert 'veilsum_state{agent="0",state="done"} 1.0' in prom.read_text()
    shown = status(str(tmp_path / "0.toml"))
    assert shown.exit_code == 0, shown.output
    assert "done" in shown.output
    assert READING not in lines + log + sentence + other
    assert READING not in (tmp_path / "0.ledger.status.json").read_text() + prom.read_text()


def test_an_agent_without_a_result_is_no_success(tmp_path: Path) -> None:
    """It waits for a neighbour that never comes, and is stopped."""
    deployment(tmp_path)
    alone = start(tmp_path, 0)
    file = tmp_path / "0.ledger.status.json"
    try:
        wait_for(lambda: status_of(file).get("state") == "gathering")
        waiting = status(str(file))
        alone.send_signal(signal.SIGTERM)
    finally:
        ((said, log),) = finish([alone])
    assert alone.returncode == 3, log
    assert said == ""
    assert "0: no estimate: stopped before the end" in log
    assert waiting.exit_code == 3
    assert "0: links that are not open: 1 (" in waiting.output
    ended = status_of(file)
    assert (ended["state"], ended["estimate"]) == ("stopped", [])
    assert status(str(file)).exit_code == 3


def test_a_stream_shows_its_estimate_while_it_runs_and_when_it_is_killed(tmp_path: Path) -> None:
    deployment(tmp_path, "learn", "agents = {open_ended = true}")
    running = [start(tmp_path, 0, "--json"), start(tmp_path, 1)]
    file = tmp_path / "0.ledger.status.json"
    try:
        wait_for(lambda: status_of(file).get("readings", {}).get("released") == 3)
        wait_for(lambda: status_of(file).get("complete"))
        current = status(str(file), "--json")
        running[0].send_signal(signal.SIGTERM)
        running[0].wait(60)
        running[1].kill()
        running[1].wait()
        crashed = status(str(tmp_path / "1.ledger.status.json"))
        stopped = status(str(file))
    finally:
        (lines, log), _ = finish(running)
    assert current.exit_code == 0, current.output
    assert json.loads(current.stdout)["agents"][0]["half_width"][0] < 100
    assert stopped.exit_code == 0
    assert "0: it was stopped, and goes on when it is started again" in stopped.output
    assert crashed.exit_code == 1
    assert "not running: its process has ended" in " ".join(crashed.output.split())
    found = [json.loads(line) for line in lines.splitlines()]
    assert "estimate" in [line["kind"] for line in found]
    assert found[-1]["kind"] == "result"
    assert found[-1]["reason"] == "stopped"
    assert running[0].returncode == 0, log
    assert stat_mode(file) == 0o600


def test_an_agent_that_an_error_ended_was_not_stopped_in_good_order(tmp_path: Path) -> None:
    """Its status counts as one of an agent that is not running, whatever its last estimate was."""
    deployment(tmp_path, "learn", "agents = {open_ended = true}")
    running = [start(tmp_path, 0), start(tmp_path, 1)]
    file = tmp_path / "0.ledger.status.json"
    try:
        wait_for(lambda: status_of(file).get("complete"))
        (tmp_path / "new.csv").write_text("load\n4.5\n")
        (tmp_path / "new.csv").replace(tmp_path / "0.csv")
        running[0].wait(60)
        failed = status(str(file))
        running[1].send_signal(signal.SIGTERM)
    finally:
        (_, log), _ = finish(running)
    assert running[0].returncode == 1, log
    assert "nothing of it was released since" in log
    assert failed.exit_code == 1
    assert "not running: its process has ended" in " ".join(failed.output.split())
    assert status_of(file)["state"] == "running"


def stat_mode(path: Path) -> int:
    return os.stat(path).st_mode & 0o777


def test_metrics_that_cannot_be_written_are_an_error_before_the_start(tmp_path: Path) -> None:
    deployment(tmp_path)
    words = ["--insecure", "--metrics-file", str(tmp_path / "missing" / "x.prom")]
    refused = CliRunner().invoke(app, ["agent", str(tmp_path / "0.toml"), *words])
    assert refused.exit_code == 1
    assert "cannot write metrics to" in refused.output


def test_a_start_that_fails_costs_no_incarnation(tmp_path: Path) -> None:
    """The file of readings is missing for a moment: the next start goes on where the last one was."""
    deployment(tmp_path, "learn", "agents = {open_ended = true}")
    running = [start(tmp_path, 0), start(tmp_path, 1)]
    file = tmp_path / "0.ledger.status.json"
    try:
        wait_for(lambda: status_of(file).get("round", 0) >= 3)
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
        finish(running)
    (tmp_path / "0.csv").rename(tmp_path / "away.csv")
    refused = CliRunner().invoke(app, ["agent", str(tmp_path / "0.toml"), "--insecure"])
    assert refused.exit_code == 1
    assert "cannot read the readings" in refused.output
    (tmp_path / "away.csv").rename(tmp_path / "0.csv")
    again = start(tmp_path, 0)
    try:
        seen = next(line for line in again.stderr if "incarnation" in line)
    finally:
        again.send_signal(signal.SIGTERM)
        finish([again])
    assert "resumed incarnation 1" in seen
