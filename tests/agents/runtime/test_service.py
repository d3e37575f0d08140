"""What the service manager hears: ready once, alive while the loop turns, and nothing of readings."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_cli_agent import deployment
from veilsum.agents.coverage import Coverage
from veilsum.agents.results import AgentResult
from veilsum.agents.runtime.service import ServiceNotifier
from veilsum.agents.runtime.status import AgentStatus


class Manager:
    """Listens as systemd does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(30)

    def heard(self) -> list[str]:
        """What has come so far."""
        found = []
        self.socket.setblocking(False)
        try:
            while True:
                found.append(self.socket.recv(4096).decode())
        except BlockingIOError:
            self.socket.settimeout(30)
            return found


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    made = Manager(tmp_path / "notify")
    yield made
    made.socket.close()


def environment(manager: Manager, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": str(manager.path), "PATH": "/bin"} | more


def test_alive_is_sent_three_times_in_the_managers_patience(manager: Manager) -> None:
    now = [100.0]
    notifier = ServiceNotifier(environment(manager, WATCHDOG_USEC="90000000"), lambda: now[0])
    assert notifier.interval == 30.0
    for _ in range(900):  # turns of 0.1 s
        notifier.alive()
        now[0] += 0.1
    assert manager.heard() == ["WATCHDOG=1"] * 3


def test_what_belongs_to_the_manager_is_not_passed_on(manager: Manager) -> None:
    found = environment(manager, WATCHDOG_USEC="1000000", WATCHDOG_PID=str(os.getpid()))
    ServiceNotifier(found)
    assert found == {"PATH": "/bin"}


@pytest.mark.parametrize(
    "more",
    [{}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": "0"},
     {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}],
)  # fmt: skip
def test_without_a_watchdog_of_this_process_nothing_is_alive(
    manager: Manager, more: dict[str, str]
) -> None:
    notifier = ServiceNotifier(environment(manager, **more))
    notifier.alive()
    notifier.ready()
    notifier.stopping()
    assert manager.heard() == ["READY=1", "STOPPING=1"]


def test_the_line_of_a_status_is_what_may_be_released(manager: Manager) -> None:
    result = AgentResult(
        "a", "pair", "c0ffee11" * 8, 3, "running", (0.123456,), (0.51,), (0.25,), None, 0.95,
        Coverage(("a", "b"), ("a", "b"), (3, 2)), 2, 1.0, 0.0, "",
    )  # fmt: skip
    status = AgentStatus(result, "running", {"released": 3}, None, {"b": "open"}, 1.0, None, 0.0)
    ServiceNotifier(environment(manager)).show(status)
    (line,) = manager.heard()
    assert line == f"STATUS=running, round 3; {result.coverage.sentence()}"
    assert "0.123456" not in line


def test_a_manager_that_is_gone_or_full_does_not_stop_the_agent(
    manager: Manager, tmp_path: Path
) -> None:
    gone = ServiceNotifier({"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    gone.ready()
    assert "No such file" in gone.problem
    full = ServiceNotifier(environment(manager))
    begun = time.monotonic()
    for _ in range(10_000):
        full.ready()
    assert full.problem
    assert time.monotonic() - begun < 20
    manager.heard()
    full.ready()
    assert not full.problem


@pytest.mark.integration
def test_an_agent_is_ready_before_its_neighbour_is_there_and_says_that_it_ends(
    manager: Manager, tmp_path: Path
) -> None:
    deployment(tmp_path, "learn", "agents = {open_ended = true}")
    (tmp_path / "0.csv").write_text("value\n1.0\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "veilsum.cli", "agent", "0.toml", "--insecure"],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=os.environ | environment(manager, WATCHDOG_USEC="600000"),
    )  # fmt: skip
    try:
        assert manager.socket.recv(4096) == b"READY=1"
        heard = [manager.socket.recv(4096).decode() for _ in range(4)]
        assert "WATCHDOG=1" in heard
        process.send_signal(signal.SIGSTOP)  # a loop that stands still is not alive
        time.sleep(0.2)
        manager.heard()
        time.sleep(1.0)
        assert manager.heard() == []
        process.send_signal(signal.SIGCONT)
        assert manager.socket.recv(4096)
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        assert "STOPPING=1" in manager.heard()
    finally:
        process.kill()
        process.wait()
