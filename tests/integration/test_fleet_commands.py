"""From an empty directory to a running, watched fleet of three sites, by the commands that are printed.

Real processes, certificates and ports of loopback. The commands are those of COMMANDS.md, typed into a
shell as they are.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from veilsum.agents.local_cluster.plan import free_ports
from veilsum.cli.init import commands

SITES = ("north", "east", "west")
MINUTES = 5
PATIENCE = 60 * MINUTES  # seconds

pytestmark = pytest.mark.integration


class Shell:
    """A shell in a folder, with `veilsum` on its path; it ends what it started."""

    def __init__(self, home: Path) -> None:
        self.home, self.processes = home, list[int]()
        program = home / "bin" / "veilsum"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m veilsum.cli "$@"\n')
        program.chmod(0o755)
        path = f"{program.parent}:{os.environ['PATH']}"
        self.environment = os.environ | {"PATH": path, "COVERAGE_PROCESS_START": ""}

    def type(self, command: str, folder: Path, code: int = 0) -> str:
        """Run a command; those it leaves in the background are noted."""
        pids = self.home / "pids"
        done = subprocess.run(
            ["bash", "-c", f"{command}\nresult=$?\njobs -p > {pids}\nexit $result"],
            cwd=folder, env=self.environment, capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        self.processes += [int(number) for number in pids.read_text().split()]
        assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def close(self) -> None:
        for process in self.processes:
            try:
                os.kill(process, signal.SIGTERM)
            except ProcessLookupError:
                continue


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("masked", [(), ("--masked",)], ids=["local", "masked"])
def test_ten_commands_to_a_fleet_that_is_watched(shell: Shell, masked: tuple[str, ...]) -> None:
    begun = time.monotonic()
    sites = [f"{k}=127.0.0.1:{p}" for k, p in zip(SITES, free_ports(3), strict=True)]
    empty = shell.home / "empty"
    empty.mkdir()
    said = shell.type(f"veilsum init --fleet demo {' '.join((*sites, *masked))}", empty)
    fleet = empty / "demo"
    typed = commands((fleet / "COMMANDS.md").read_text())
    assert len(typed) == 10
    assert [line.strip() for line in said.splitlines() if line.startswith("    ")] == [
        "cd demo",
        *typed,
    ]
    *setting_up, status, watch = typed
    for command in setting_up:
        out = shell.type(command, fleet)
        if "veilsum doctor" in command:
            assert out.count("0 warnings, 0 failures") == 3, out
            assert "differ" not in out
    assert len(shell.processes) == 3
    wait_for_estimates(fleet, begun)
    table = shell.type(status, fleet)
    assert all(site in table for site in SITES)
    assert table.count("3 of 3") == 3
    seen = shell.type(re.sub(r"--page \S+", "--once", watch), fleet)
    assert all(site in seen for site in SITES)
    assert time.monotonic() - begun < PATIENCE


def wait_for_estimates(fleet: Path, begun: float) -> None:
    """Until all three have one that covers everyone."""
    files = [fleet / "sites" / site / "state" / f"{site}.ledger.status.json" for site in SITES]
    while True:
        found = [json.loads(file.read_text()) for file in files if file.exists()]
        if len(found) == 3 and all(status["complete"] for status in found):
            break
        logs = "\n".join(log.read_text() for log in fleet.glob("sites/*/agent.log"))
        assert time.monotonic() - begun < PATIENCE, logs
        time.sleep(0.2)
    for status in found:
        (estimate,), low, high = status["estimate"], 0.0, 100.0
        assert low <= estimate <= high
        assert status["coverage"]["contributing"] == 3
