"""Real agents under load: `make bench-agents`. Ratios to a bare zenoh exchange in the same run."""

import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import masked
from benchmarks.ledger import opening
from veilsum.agents.local_cluster.cluster import LaunchOptions, LocalCluster, prepare
from veilsum.agents.local_cluster.plan import DeploymentPlan
from veilsum.agents.messages import CumulativeMass
from veilsum.agents.wire import encode
from veilsum.scenario import Scenario

HERE = Path(__file__).parent
ROWS = (  # what a report has; docs/performance.md says so where one was not measured yet
    "50 agents, 4 processes, mutual TLS: rounds against a bare exchange",
    "1,000 agents in one process: rounds/s",
    "1,000 agents in one process: seconds to start",
    "1,000 agents in one process: memory, MB",
    "open a ledger with 100,000 releases: times a plain scan with sha256",
    "50 agents, 4 processes, mutual TLS: a masked sum, s",
    "50 agents, 4 processes, mutual TLS: a masked sum: bytes sent per agent and session",
    "1,000 agents in one process: a masked sum, s",
    "1,000 agents in one process: a masked sum: bytes sent",
)
SCENARIO = """
name = "load"
seed = 5
network = {{ graph = "random-geometric", options = {{ {options}, seed = 1 }} }}
family = {{ name = "normal", sigma = 1.0, bounds = [0.0, 10.0] }}
signals = {{ draw = {{ mu = 5.0 }} }}
privacy = {{ protect = "signal", epsilon = 1.0 }}
algorithm = {{ name = "average", rounds = {rounds} }}
"""
SIZE = len(encode(CumulativeMass("17", "23", 1, 1, 500, 499, (5 << 72,), 1 << 72)))


def plan(folder: Path, graph: str, rounds: int, processes: int) -> DeploymentPlan:
    scenario = Scenario.parse(SCENARIO.format(options=graph, rounds=rounds), name="load")
    options = LaunchOptions(processes=processes, deadline=60.0, resend=5.0)
    return prepare(scenario, options, folder)[0]


def bare_rate(made: DeploymentPlan, rounds: int) -> float:
    """Rounds a second of the same messages without agents."""
    path = made.save()
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.bare", str(path), str(k), str(rounds), str(SIZE)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for k in range(len(made.assignments))
    ]
    try:
        said = [json.loads(process.communicate(timeout=120)[0]) for process in started]
    finally:
        for process in started:
            process.kill()
    return rounds / max(float(each["seconds"]) for each in said)


def cluster_rate(made: DeploymentPlan, rounds: int) -> float:
    """Rounds a second of the agents, from the first round of all to the end."""
    began, first = 0.0, 0
    with LocalCluster(made) as cluster:
        while not cluster.done:
            cluster.read_status(0.02)
            moving = len(cluster.status) == len(made.assignments) and all(
                s["rounds"][0] >= 1 for s in cluster.status.values()
            )
            if moving and not began:
                began = time.perf_counter()
                first = min(int(s["rounds"][0]) for s in cluster.status.values())
        seconds = time.perf_counter() - began
        cluster.stop()
    return (rounds - first) / seconds


def over_sockets(rounds: int = 3000) -> dict[str, Any]:
    """50 agents in 4 processes with mutual TLS, against the same messages without agents."""
    with TemporaryDirectory() as folder:
        made = plan(Path(folder), "size = 50, radius = 0.3", rounds, 4)
        before = bare_rate(made, rounds)
    with TemporaryDirectory() as folder:
        made = plan(Path(folder), "size = 50, radius = 0.3", rounds, 4)
        agents = cluster_rate(made, rounds)
    with TemporaryDirectory() as folder:
        made = plan(Path(folder), "size = 50, radius = 0.3", rounds, 4)
        after = bare_rate(made, rounds)
    bare = max(before, after)
    return {
        "what": "50 agents, 4 processes, mutual TLS: rounds against a bare exchange",
        "measured": agents / bare,
        "target": ">= 0.5",
        "met": agents / bare >= 0.5,
        "detail": f"{agents:.0f} rounds/s by agents, {bare:.0f} of bare messages of {SIZE} bytes",
    }


def in_one_process(rounds: int = 300) -> list[dict[str, Any]]:
    """1,000 agents in one process: rounds a second and memory, measured in a child of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.agents", "--thousand", str(rounds)],
        stdout=subprocess.PIPE, text=True, check=True, timeout=600,
    )  # fmt: skip
    said = json.loads(done.stdout)
    detail = f"{said['degree']:.1f} neighbours each; {said['start']:.1f} s to start"
    return [
        {
            "what": "1,000 agents in one process: rounds/s",
            "measured": said["rate"], "target": ">= 25", "met": said["rate"] >= 25,
            "detail": detail,
        },
        {
            "what": "1,000 agents in one process: seconds to start",
            "measured": said["start"], "target": "< 5", "met": said["start"] < 5,
            "detail": "ledgers, mechanisms, sessions, who takes part, the releases and their commits",
        },
        {
            "what": "1,000 agents in one process: memory, MB",
            "measured": said["memory"], "target": "< 500", "met": said["memory"] < 500,
            "detail": "peak resident size of the process, ledgers and TLS session included",
        },
    ]  # fmt: skip


def thousand(rounds: int) -> None:
    """The child of `in_one_process`."""
    from veilsum.agents.local_cluster.worker import Worker

    with TemporaryDirectory() as folder:
        made = plan(Path(folder), "size = 1000, mean_degree = 6, connect = true", rounds, 1)
        began = time.perf_counter()
        worker = Worker(made, 0)
        node = worker.node
        worker.start()
        node.run(lambda: min(agent.protocol.round for agent in node.agents.values()) >= 1)
        moving = time.perf_counter()
        node.run(lambda: node.all_done)
        ended = time.perf_counter()
        node.close()
    links = len(worker.manifest.links)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rate = (rounds - 1) / (ended - moving)
    said = {"rate": rate, "memory": memory, "start": moving - began, "degree": links / 1000}
    print(json.dumps(said))


def main() -> None:
    rows = [over_sockets(), *in_one_process(), opening(), *masked.rows()]
    for row in rows:
        met = "yes" if row["met"] else "NO"
        print(f"{row['what']}: {row['measured']:.3g} (target {row['target']}, met: {met})")
        print(f"    {row['detail']}")
    report = {"cores": os.cpu_count(), "machine": platform.machine(), "rows": rows}
    (HERE / "agents.json").write_text(json.dumps(report, indent=2) + "\n")
    assert tuple(row["what"] for row in rows) == ROWS


if __name__ == "__main__":
    if "--thousand" in sys.argv:
        thousand(int(sys.argv[-1]))
    else:
        main()
