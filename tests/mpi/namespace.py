"""mpiexec inside a network namespace with loopback only: launchers listen on every interface."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

MPIEXEC = Path(sys.executable).with_name("mpiexec")
INSIDE = 'ip link set lo up && exec "$@"'
SECONDS = 60  # an upper bound: a job takes one or two


def _unshare() -> list[str] | None:
    """What starts a command in a namespace of its own, if this machine allows it."""
    if shutil.which("unshare") is None or shutil.which("ip") is None or not MPIEXEC.exists():
        return None
    for flags in (["-n"], ["-n", "-r"]):
        begin = ["unshare", *flags, "sh", "-c", INSIDE, "sh"]
        if subprocess.run([*begin, "true"], capture_output=True, check=False).returncode == 0:
            return begin
    return None


BEGIN = _unshare()
needs_namespace = pytest.mark.skipif(
    BEGIN is None, reason="needs mpiexec and a network namespace of its own (unshare -n)"
)


def command(ranks: int, *arguments: str) -> list[str]:
    assert BEGIN is not None, "mpiexec never runs outside a namespace"
    return [*BEGIN, str(MPIEXEC), "-n", str(ranks), sys.executable, *arguments]


def start(ranks: int, *arguments: str) -> subprocess.Popen[str]:
    """A job in a session of its own, so that all of it can be ended."""
    quiet = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "VEILSUM_THREADS": "1"}
    return subprocess.Popen(
        command(ranks, *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, **quiet}, start_new_session=True,
    )  # fmt: skip


def finish(job: subprocess.Popen[str], seconds: float = SECONDS) -> tuple[int, str, str]:
    """Exit code and what was published; a job that takes too long is ended, and fails the test."""
    try:
        out, err = job.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        out, err = job.communicate()
        pytest.fail(f"the job was not done after {seconds} s:\n{out}\n{err}")
    return job.returncode, out, err


def run(ranks: int, *arguments: str) -> str:
    """What a job published that must succeed."""
    code, out, err = finish(start(ranks, *arguments))
    assert code == 0, f"exit code {code}\n{out}\n{err}"
    return out
