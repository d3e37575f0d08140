"""Agents that are killed, lose messages and are cut apart: no budget overspent, no mass lost."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from veilsum.agents.ledger import read_ledger, verify
from veilsum.agents.local_cluster.cluster import (
    LaunchOptions,
    LocalCluster,
    collect_estimates,
    prepare,
)
from veilsum.scenario import Scenario

WORKER = Path(__file__).with_name("worker.py")
SCENARIO = """
name = "chaos"
seed = 8

[network]
graph = "random-geometric"
options = {{ size = {size}, radius = {radius}, seed = 1 }}
weights = "lazy-metropolis"

[family]
name = "normal"
sigma = 1.0
bounds = [0.0, 10.0]

[signals]
draw = {{ mu = 5.0 }}

[privacy]
protect = "signal"
epsilon = 1.0

[algorithm]
name = "average"
rounds = {rounds}

[agents]
tolerance = 1e-11
"""


class Mortal(LocalCluster):
    """A cluster whose workers may be killed and are started again."""

    def _spawn(self, number: Any) -> Any:
        words = (Path(self.plan.folder) / f"stderr-{number}.txt").open("a")
        with words:
            process = subprocess.Popen(
                [sys.executable, str(WORKER), str(self.path), str(number)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=words,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )
        threading.Thread(target=self._read, args=(number, process.stdout), daemon=True).start()
        return process

    def _check_exit(self, number: Any) -> None:
        if self._processes[number].poll() not in (None, 0, -signal.SIGKILL):
            super()._check_exit(number)

    def kill(self, number: Any) -> None:
        process = self._processes[number]
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()

    def revive(self) -> Any:
        """Start again whoever has died; how many that were."""
        dead = [k for k, process in enumerate(self._processes) if process.poll() is not None]
        for number in dead:
            stdin = self._processes[number].stdin
            assert stdin is not None
            stdin.close()
            self.status.pop(self.plan.assignments[number].device, None)
            self._processes[number] = self._spawn(number)
        return len(dead)


def survive(
    folder: Any,
    *,
    size: Any,
    radius: Any,
    processes: Any,
    kills: Any,
    cut: Any,
    seconds: Any,
    drop: Any = 0.3,
    die: Any = 0.2,
) -> Any:
    """Kill at random for a while, then let the network heal; check what is guaranteed."""
    text = SCENARIO.format(size=size, radius=radius, rounds=100_000)
    scenario = Scenario.parse(text, folder=folder, name="chaos")
    terms = LaunchOptions(processes=processes, deadline=1.0, resend=0.03, every_round=True)
    plan, problem, _ = prepare(scenario, terms, folder)
    rng = random.Random(4)
    side = [assignment.device for assignment in plan.assignments[: processes // 2]]
    faults = {"drop": drop, "die": die, "began": time.time(), "cut": [*cut, side]}
    path = folder / "faults.json"
    path.write_text(json.dumps(faults))
    done = 0
    with Mortal(plan) as cluster:
        while done < kills:
            time.sleep(rng.uniform(0.0, 2 * seconds / kills))
            cluster.read_status(0.0)
            cluster.kill(rng.randrange(processes))
            done += cluster.revive()
        while time.time() - faults["began"] < cut[1]:
            time.sleep(0.2)
            done += cluster.revive()
        end = time.monotonic() + 300
        while not cluster.done:
            assert time.monotonic() < end, {k: v["rounds"] for k, v in cluster.status.items()}
            cluster.read_status(0.2)
            done += cluster.revive()
        cluster.stop()
    return plan, problem, done


def check(folder: Any, plan: Any, problem: Any) -> None:
    unit = json.loads(plan.manifest)["unit"]
    released = []
    for i in range(problem.network.size):
        path = folder / "ledgers" / f"{i}.ledger"
        assert verify(path).ok
        contents = read_ledger(path)
        assert [entry.reading for entry in contents.entries] == [1]  # exactly one charge
        assert contents.status.spent.epsilon == 1.0
        released.append(contents.entries[0].sums[0] / 2**unit)
    held = collect_estimates(plan, problem)[:, -1, 0]
    np.testing.assert_allclose(held, np.mean(released), rtol=0, atol=1e-9)


def test_a_few_agents_are_killed_and_cut_apart(tmp_path: Any) -> None:
    plan, problem, kills = survive(
        tmp_path, size=6, radius=0.7, processes=6, kills=12, cut=(2.0, 4.0), seconds=12
    )
    assert kills >= 12
    check(tmp_path, plan, problem)


@pytest.mark.slow
def test_fifty_agents_two_hundred_kills_loss_and_a_partition_of_ten_seconds(tmp_path: Any) -> None:
    plan, problem, kills = survive(
        tmp_path, size=50, radius=0.3, processes=50, kills=200, cut=(60.0, 70.0), seconds=200
    )
    died = len(list(tmp_path.glob("died-*")))
    print(f"{kills} kills, of which {died} between charge and send")
    assert kills >= 200
    assert died >= 5
    check(tmp_path, plan, problem)
