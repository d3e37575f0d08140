"""A small fleet whose processes are all killed at once, again and again, until it may finish."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np

from veilsum.agents.ledger import read_ledger, verify
from veilsum.agents.ledger.store import Store
from veilsum.agents.local_cluster.cluster import LaunchOptions, collect_estimates, prepare
from veilsum.scenario import Scenario

NURSERY = Path(__file__).with_name("nursery.py")
EPSILON = 1.0
SIZE = 4
SCENARIO = f"""
name = "kill-all"
seed = 8

[network]
graph = "ring:{SIZE}"
weights = "lazy-metropolis"

[family]
name = "normal"
sigma = 1.0
bounds = [0.0, 10.0]

[signals]
draw = {{ mu = 5.0 }}

[privacy]
protect = "signal"
epsilon = {EPSILON}

[algorithm]
name = "average"
rounds = 120
"""
LIMIT = 120.0  # seconds for a fleet that nobody kills


class Nursery:
    """Starts workers; a context manager that ends with all of them."""

    def __enter__(self) -> Self:
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, str(NURSERY)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env=os.environ | threads,
        )  # fmt: skip
        return self

    def __exit__(self, *problem: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def start(self, plan: Path, number: int) -> int:
        """The id of a new process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(plan), number]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


class DoomedFleet:
    """One fleet: its plan, its processes, and what its ledgers held when they were last looked at.

    Parameters
    ----------
    folder : Path
        A new one.
    nursery : Nursery
        Starts its processes.
    """

    def __init__(self, folder: Path, nursery: Nursery) -> None:
        scenario = Scenario.parse(SCENARIO, folder=folder, name="kill-all")
        options = LaunchOptions(processes=SIZE, deadline=1.0, resend=0.03, every_round=True)
        self.plan, self.problem, _ = prepare(scenario, options, folder)
        self.folder, self.nursery, self.path = folder, nursery, self.plan.save()
        self.pids: list[int] = []
        self.known: dict[int, tuple[int, ...]] = {}  # by agent: what it released

    def start_all(self) -> None:
        self.pids = [self.nursery.start(self.path, number) for number in range(SIZE)]

    def kill_all(self) -> int:
        """Kill every process at once; how many of them ran."""
        running = 0
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                running += 1
        self._wait_for_ends()
        return running

    def stop_all(self) -> None:
        """Have every process write its estimates and end."""
        for pid in self.pids:
            os.kill(pid, signal.SIGTERM)
        self._wait_for_ends()

    def _wait_for_ends(self) -> None:
        end = time.monotonic() + LIMIT
        for pid in self.pids:
            while Path(f"/proc/{pid}").exists():
                assert time.monotonic() < end, f"process {pid} does not end"
                time.sleep(0.002)
        self.pids = []

    def finish(self) -> None:
        """Let it run to its result."""
        end = time.monotonic() + LIMIT
        while not all(self._done(number) for number in range(SIZE)):
            assert time.monotonic() < end, self._said()
            time.sleep(0.02)
        self.stop_all()

    def _done(self, number: int) -> bool:
        path = self.folder / f"status-{number}.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        last: dict[str, Any] = {}
        with suppress(ValueError):  # a line that a kill cut short
            last = json.loads(lines[-1]) if lines else {}
        return bool(last and last["done"] == last["agents"])

    def _said(self) -> str:
        return "\n".join(path.read_text()[-500:] for path in sorted(self.folder.glob("stderr*")))

    def forget_status(self) -> None:
        """Drop the lines of processes that were killed."""
        for path in self.folder.glob("status-*.jsonl"):
            path.unlink()

    def check(self) -> None:
        """Each agent has charged its reading once at most, and no release was drawn anew."""
        for number in range(SIZE):
            path = self.folder / "ledgers" / f"{number}.ledger"
            if not _begun(path):
                assert number not in self.known, f"the release of {number} is gone"
                continue
            assert verify(path).ok, verify(path).problems
            contents = read_ledger(path)
            made = [entry.sums for entry in contents.entries]
            assert len(made) <= 1, f"{number} has released its reading {len(made)} times"
            assert contents.status.spent.epsilon == EPSILON * len(made)
            if number in self.known:
                assert made == [self.known[number]], f"{number} has drawn its release anew"
            elif made:
                self.known[number] = made[0]

    def check_result(self) -> None:
        """All agents have one result: the mean of what was released."""
        self.check()
        assert len(self.known) == SIZE
        ends = [str(np.load(path)["reasons"][0]) for path in self.folder.glob("estimates-*.npz")]
        assert ends == ["rounds"] * SIZE, f"not all have their result: {ends}"
        unit = json.loads(self.plan.manifest)["unit"]
        mean = np.mean([sums[0] / 2**unit for sums in self.known.values()])
        held = collect_estimates(self.plan, self.problem)[:, -1, 0]
        np.testing.assert_allclose(held, mean, rtol=0, atol=1e-6)


def _begun(path: Path) -> bool:
    """Whether anything was ever committed: a kill may come while a ledger is made."""
    if not (path.exists() and path.stat().st_size):
        return False
    store = Store(path, read_only=True)
    try:
        return not store.empty
    finally:
        store.close()


def doom(fleet: DoomedFleet, rng: random.Random, kills: int, longest: float) -> tuple[int, int]:
    """Kill a fleet so often at random moments, and let it finish; kills that met all and any."""
    all_of, some = 0, 0
    for _ in range(kills):
        fleet.start_all()
        time.sleep(rng.uniform(0.0, longest))
        running = fleet.kill_all()
        all_of, some = all_of + (running == SIZE), some + (running > 0)
        fleet.check()
        fleet.forget_status()
    fleet.start_all()
    fleet.finish()
    fleet.check_result()
    return all_of, some
