"""Ctrl-C: a real signal to a real group of processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCENARIO = """
[network]
graph = "us-power-grid"
[family]
name = "normal"
sigma = 1.0
[signals]
draw = { mu = 1.0 }
[privacy]
protect = "signal"
epsilon = [0.5, 1.0, 2.0]
[algorithm]
name = "learn"
rounds = 200000
[record]
estimates = false
"""
PATIENCE = 90.0  # to start, on a machine that is busy
SOON = 20.0  # to end


def children(group: int) -> list[int]:
    """Processes of a group, by /proc."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(words[2]) == group and words[0] != "Z":
                found.append(int(entry.name))
    return found


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc")
@pytest.mark.parametrize("whole", [True, False], ids=["group", "parent alone"])
def test_ctrl_c_ends_a_run_over_processes(tmp_path: Path, whole: bool) -> None:
    """It used to wait for the tasks to finish, which was hours."""
    (tmp_path / "long.toml").write_text(SCENARIO)
    words = [sys.executable, "-m", "veilsum.cli", "run", "long.toml", "--jobs", "2"]
    with subprocess.Popen(
        words, cwd=tmp_path, start_new_session=True, stderr=subprocess.PIPE, text=True,
        stdout=subprocess.DEVNULL, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as run:  # fmt: skip
        try:
            began = time.monotonic()
            while len(children(run.pid)) < 3 and time.monotonic() < began + PATIENCE:
                assert run.poll() is None, run.stderr and run.stderr.read()
                time.sleep(0.1)
            assert len(children(run.pid)) >= 3, "two workers beside the parent"
            time.sleep(1.0)
            (os.killpg if whole else os.kill)(run.pid, signal.SIGINT)
            _, said = run.communicate(timeout=SOON)
            assert run.returncode == 130
            assert said.splitlines()[-1] == "interrupted"
            assert "Traceback" not in said
            began = time.monotonic()
            while children(run.pid) and time.monotonic() < began + 5:
                time.sleep(0.05)
            assert children(run.pid) == []
        finally:
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)
