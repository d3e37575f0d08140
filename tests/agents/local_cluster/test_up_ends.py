"""However `veilsum up` is ended, no key or ledger stays behind in a temporary folder."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from veilsum.agents.local_cluster.cluster import LaunchOptions, LocalCluster, prepare, up
from veilsum.errors import AgentError
from veilsum.scenario import Scenario

SCENARIO = """
name = "endless"
network = {graph = "ring:4", weights = "lazy-metropolis"}
family = {name = "normal", sigma = 1.0, bounds = [0.0, 1.0]}
signals = {draw = {mu = 0.5}}
privacy = {protect = "signal", epsilon = 1.0}
algorithm = {name = "average", rounds = 50000}
"""


def wait_for(condition: Any, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def children(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children")
    return [int(each) for each in listed.read_text().split()]


def test_what_agents_must_not_guarantee_is_refused_before_anything_starts(tmp_path: Path) -> None:
    text = SCENARIO.replace('"signal"', '"network"').replace('"average"', '"learn-network"')
    with pytest.raises(AgentError) as caught:
        up(Scenario.parse(text), LaunchOptions(processes=1, folder=tmp_path / "run"))
    assert str(caught.value).startswith("an agent makes proved guarantees of a public scale only")
    assert "ask for signal protection" in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)],
    ids=lambda number: number.name,
)
def test_a_signal_removes_keys_and_ledgers_and_ends_the_workers(
    number: signal.Signals, tmp_path: Path
) -> None:
    (tmp_path / "scenario.toml").write_text(SCENARIO)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "veilsum.cli", "up", "scenario.toml", "--processes", "1"],
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    workers: list[int] = []
    try:
        assert wait_for(lambda: list(temporary.glob("veilsum-*/ledgers/*.ledger")))
        assert list(temporary.glob("veilsum-*/keys/*.key"))  # what must not stay behind
        workers = children(process.pid)
        assert workers
        process.send_signal(number)
        process.send_signal(signal.SIGTERM)  # an impatient one
        output, errors = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    assert process.returncode in (130, 143), (output, errors)
    assert "Traceback" not in errors
    assert list(temporary.iterdir()) == []
    assert wait_for(lambda: not any(Path(f"/proc/{each}").exists() for each in workers))


def test_the_error_of_a_timeout_points_to_what_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def idle(self: Any, number: int) -> Any:  # noqa: ARG001 - as a worker that does nothing
        code = "input()"
        return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, text=True)

    monkeypatch.setattr(LocalCluster, "_spawn", idle)
    scenario = Scenario.parse(SCENARIO)
    options = LaunchOptions(processes=1, insecure=True, timeout=0.0)
    with pytest.raises(AgentError, match="again with --keep FOLDER") as found:
        up(scenario, options)
    assert "veilsum-" not in str(found.value)
    home = tmp_path / "kept"
    plan, _, _ = prepare(scenario, LaunchOptions(processes=1, insecure=True), home)
    with pytest.raises(AgentError, match="or look into") as found:
        LocalCluster(plan).wait(0.0)
    assert str(found.value).endswith(str(home))
    assert (home / "ledgers").is_dir()
