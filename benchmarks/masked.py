"""Masked sums by real agents: time and bytes of a session. Rows of `make bench-agents`.

Run as a module with a plan and a number, it is a worker that also says when its agents began and ended.
"""

import json
import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from veilsum.agents.events import AgentReport
from veilsum.agents.ledger.sessions import DiskSessionLedger
from veilsum.agents.local_cluster.cluster import LaunchOptions, LocalCluster, prepare
from veilsum.agents.local_cluster.plan import DeploymentPlan
from veilsum.agents.local_cluster.worker import Worker
from veilsum.agents.manifest import Manifest
from veilsum.algorithms.masked_sum import MaskedSum
from veilsum.scenario import Scenario

SCENARIO = """
name = "load"
seed = 5
network = {{ graph = "random-geometric", options = {{ {options}, seed = 1 }} }}
family = {{ name = "normal", sigma = 1.0, bounds = [0.0, 10.0] }}
signals = {{ draw = {{ mu = 5.0 }} }}
privacy = {{ protect = "signal", epsilon = 1.0, mode = "masked", colluders = {c}, absent = {d} }}
algorithm = {{ name = "masked-sum", rounds = 1000 }}
"""


def plan(folder: Path, size: int, graph: str, processes: int) -> DeploymentPlan:
    text = SCENARIO.format(options=f"size = {size}, {graph}", c=size // 5, d=size // 10)
    options = LaunchOptions(processes=processes, deadline=60.0)
    return prepare(Scenario.parse(text, name="load"), options, folder)[0]


class TimedWorker(Worker):
    """Says when the last of its agents presented itself, and when the last had its result."""

    began = ended = idle = busy = 0.0  # times of day, and processor time at these

    def _record(self, agent: str, report: AgentReport) -> None:
        super()._record(agent, report)
        if report.kind == "round":
            self.ended, self.busy = time.time(), time.process_time()

    def status(self) -> dict[str, Any]:
        times = {"began": TimedWorker.began, "ended": self.ended}
        return super().status() | times | {"cpu": self.busy - TimedWorker.idle}


def note_sessions() -> None:
    """Have every new view note the time."""
    usual = DiskSessionLedger.open

    def opened(self: DiskSessionLedger, *arguments: Any) -> None:
        usual(self, *arguments)
        TimedWorker.began, TimedWorker.idle = time.time(), time.process_time()

    patched: Any = DiskSessionLedger
    patched.open = opened


class TimedCluster(LocalCluster):
    """Starts workers of this module."""

    def _spawn(self, number: int) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.masked", str(self.path), str(number)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
        threading.Thread(target=self._read, args=(number, process.stdout), daemon=True).start()
        return process


def between_processes(manifest: Manifest, made: DeploymentPlan) -> int:
    """How many links are between processes: the others carry no messages."""
    home = {label: k for k, one in enumerate(made.assignments) for label in one.agents}
    near = ((a, b) for a in manifest.labels for b in manifest.link_weights(a))
    return sum(home[a] != home[b] for a, b in near) // 2


def expected_bytes(manifest: Manifest, links: int) -> float:
    """Bytes that an agent sends in a session over so many links, by the formula of the algorithm."""
    members = len(manifest.members)
    return MaskedSum(members=members, hops=1).bytes_per_link() * links / members


def row(what: str, measured: float, target: str, met: bool, detail: str) -> dict[str, Any]:
    return {"what": what, "measured": measured, "target": target, "met": met, "detail": detail}


def bytes_row(what: str, measured: float, formula: float, detail: str) -> dict[str, Any]:
    ratio = measured / formula
    return row(f"{what}: bytes sent per agent and session", measured,
               "0.5 to 2 times the formula", 0.5 <= ratio <= 2,
               f"{formula:,.0f} by the formula, {ratio:.2f} times; {detail}")  # fmt: skip


def over_sockets(size: int = 50, processes: int = 4) -> list[dict[str, Any]]:
    """A session of 50 agents in 4 processes with mutual TLS, from the last Present to the result."""
    began = time.time()
    with TemporaryDirectory() as folder:
        made = plan(Path(folder), size, "radius = 0.3", processes)
        started = time.time()
        with TimedCluster(made) as cluster:
            cluster.wait(300)
            cluster.stop()
        said = list(cluster.status.values())
    first = max(float(each["began"]) for each in said)
    last = max(float(each["ended"]) for each in said)
    sent = sum(int(each["bytes"]) for each in said) / size
    manifest = Manifest.from_json(made.manifest)
    links = between_processes(manifest, made)
    what = f"{size} agents, {processes} processes, mutual TLS: a masked sum"
    cpu = sum(float(each["cpu"]) for each in said)
    detail = (
        f"{cpu:.2g} s of processor time in all; {last - started:.1f} s with the start of the "
        f"processes, {started - began:.1f} s for keys"
    )
    return [
        row(f"{what}, s", last - first, "< 1", last - first < 1, detail),
        bytes_row(
            what,
            sent,
            expected_bytes(manifest, links),
            f"{links} links between processes, both ways",
        ),
    ]


def in_one_process(size: int = 1000) -> list[dict[str, Any]]:
    """A session of 1,000 agents in one process, measured in a child of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.masked", "--one", str(size)],
        stdout=subprocess.PIPE, text=True, check=True, timeout=1200,
    )  # fmt: skip
    said = json.loads(done.stdout)
    what = f"{size:,} agents in one process: a masked sum"
    detail = (
        f"{said['cpu']:.1f} s of processor time; {said['start']:.1f} s before, for ledgers and noise; "
        f"{said['memory']:.0f} MB at most"
    )
    silent = row(f"{what}: bytes sent", said["bytes"], "0", said["bytes"] == 0, "no messages")
    return [row(f"{what}, s", said["seconds"], "< 60", said["seconds"] < 60, detail), silent]


def one_process(size: int) -> None:
    """The child of `in_one_process`."""
    with TemporaryDirectory() as folder:
        made = plan(Path(folder), size, "mean_degree = 6, connect = true", 1)
        begun = time.perf_counter()
        worker = Worker(made, 0)
        node = worker.node
        built, idle = time.perf_counter(), time.process_time()
        worker.start()
        node.run(lambda: node.all_done)
        ended, busy = time.perf_counter(), time.process_time()
        sent = worker.status()["bytes"]
        node.close()
    said = {
        "seconds": ended - built, "start": built - begun, "bytes": sent,
        "cpu": busy - idle,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }  # fmt: skip
    print(json.dumps(said))


def rows() -> list[dict[str, Any]]:
    return [*over_sockets(), *in_one_process()]


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        one_process(int(sys.argv[2]))
    else:
        note_sessions()
        TimedWorker(DeploymentPlan.load(sys.argv[1]), int(sys.argv[2])).run()
