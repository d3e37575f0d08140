"""Cost as work grows: time and memory of a round over agents, links and runs.

    python -m benchmarks.growth            measures and writes benchmarks/growth.json
    python -m benchmarks.growth --figure   draws docs/images/growth.png from it

Every point is a process of its own: a graph, its weights, and some rounds of `average` with noise at
the start, a private and a noiseless run for each replica, error norms only. Memory is the peak of the
whole process during the rounds: interpreter (some 200 MB), graph, weights and state. A series changes
one size and keeps the others. Work is weights times columns; where a round's cost per unit of work rises by
more than `STEP` from one point to the next, the row says why, or that nothing explains it.
"""

import json
import math
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS, FIGURE = HERE / "growth.json", HERE.parent / "docs" / "images" / "growth.png"
GRAPHS = ("random geometric", "power law")
SIZES = (10**4, 10**5, 10**6, 10**7)
DEGREES = (2, 4, 8, 16, 32, 64)
RUNS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
BASE = {"agents": 10**5, "degree": 6, "runs": 1}
SERIES = {"agents": SIZES, "degree": DEGREES, "runs": RUNS}
STEP = 1.6

CODE = """
import json, sys, time
import veilsum as vs
from veilsum.simulation import Problem, Record, SyntheticSignals, simulate
from veilsum.simulation.backend import LocalBackend
from veilsum.simulation.run import Run
from veilsum.simulation.workers import Workers, threads

def memory(name):
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(status[name].split()[0]) * 1024

case = json.loads(sys.argv[1])
n, degree, runs = case["agents"], case["degree"], case["runs"]
if case["graph"] == "power law":
    graph = vs.networks.power_law(n, max(degree // 2, 1), seed=1)
else:
    graph = vs.networks.random_geometric(n, mean_degree=degree, seed=1, connect=True)
network, family = vs.networks.lazy_metropolis(graph), vs.families.Normal(sigma=1.0)
source = SyntheticSignals(family, {"mu": 0.0}, n, seed=1)
algorithm = vs.algorithms.get("average", network)

def problem(rounds):
    return Problem(network, algorithm, family, source, vs.privacy.SignalDP(1.0), rounds,
                   epsilons=(1.0,), replicas=runs, seed=1)

weights = int(network.at(1).nnz)
with Workers(threads()) as workers:
    run = Run(LocalBackend(problem(1)), workers)
    at_once, small, width = run.rounds_at_once, run.small, run.layout.width
    path = ("runs cut into blocks that fit the cache" if small
            else f"tiles, {at_once} rounds a pass" if at_once > 1 else "one round at a time")
    arranged, held = run.backend.order is not None, run.rows.own * width * 8
    del run
simulate(problem(1), Record(estimates=False))  # compiles
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak so far was the graph's making
rounds = max(32, min(4000, int(3e9 / (weights * width)))) // 32 * 32
best = float("inf")
for _ in range(3):
    seen = []
    simulate(problem(rounds), Record(estimates=False),
             lambda t, last: seen.append((t, time.perf_counter())))
    first = next(at for at in seen if at[0] >= at_once - 1)
    best = min(best, (seen[-1][1] - first[1]) / max(seen[-1][0] - first[0], 1))
print(json.dumps({"weights": weights, "columns": width, "seconds": best, "path": path,
                  "arranged": arranged, "state": held, "process": memory("VmHWM")}))
"""


def cases() -> list[dict[str, Any]]:
    """One series after the other, each point once for each graph."""
    return [
        {"series": name, "graph": graph, **BASE, name: value}
        for name, values in SERIES.items()
        for graph in GRAPHS
        for value in values
    ]


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """One point, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(case)], check=True, capture_output=True, text=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    work = found["weights"] * found["columns"]
    return {**case, **found, "nanoseconds": 1e9 * found["seconds"] / work}


def slope(points: list[dict[str, Any]], name: str, what: str = "seconds") -> float:
    """The exponent of the cost in the size that changes: least squares of the logarithms."""
    import numpy as np

    size = [math.log(p[name]) for p in points]
    return float(np.polyfit(size, [math.log(max(p[what], 1e-12)) for p in points], 1)[0])


def reason(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Why a unit of work costs more than at the point before; empty if it does not."""
    if now["nanoseconds"] <= STEP * before["nanoseconds"]:
        return ""
    if now["path"] != before["path"]:
        return f"{before['path']} before, {now['path']} now"
    if now["state"] > 1e6 * 8 >= before["state"]:
        return "the estimates leave the last cache"
    if not now["path"].startswith("tiles") and now["state"] > before["state"]:
        return "neighbours are read from further away: from a slower cache, or from memory"
    return "NOT EXPLAINED"


def series(rows: list[dict[str, Any]]) -> Any:
    """(size that changes, graph, points) in the order of measuring."""
    for name in SERIES:
        for graph in GRAPHS:
            points = [r for r in rows if r["series"] == name and r["graph"] == graph]
            if points:
                yield name, graph, points


def draw(rows: list[dict[str, Any]]) -> None:
    """Time and memory of a round over each size, with their slopes."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    import matplotlib.ticker

    figure, axes = plt.subplots(2, len(SERIES), figsize=(11, 6), layout="constrained")
    labels = {"agents": "agents", "degree": "mean degree", "runs": "runs"}
    units = {"seconds": (1e3, "ms a round"), "process": (1e-6, "MB, the whole process")}
    for name, graph, points in series(rows):
        at = list(SERIES).index(name)
        for line, (what, (factor, unit)) in enumerate(units.items()):
            axis = axes[line, at]
            label = f"{graph}: slope {slope(points, name, what):.2f}"
            sizes = [p[name] for p in points]
            axis.loglog(sizes, [factor * p[what] for p in points], "o-", label=label)
            axis.set_xticks(sizes[:: 1 + len(sizes) // 8], minor=False)
            axis.xaxis.set_major_formatter(mpl.ticker.EngFormatter(sep=""))
            axis.yaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,g}"))
            axis.xaxis.set_minor_locator(mpl.ticker.NullLocator())
            axis.set_ylim(0.1 if line == 0 else 100, 2_000 if line == 0 else 8_000)
            axis.set_xlabel(labels[name])
            axis.set_ylabel(unit)
            axis.legend(loc="upper left", frameon=False)
            axis.grid(visible=True, alpha=0.3)
    figure.savefig(FIGURE, dpi=110)


def main() -> None:
    if "--figure" in sys.argv:
        draw(json.loads(RESULTS.read_text())["rows"])
        print(f"drawn: {FIGURE.relative_to(HERE.parent)}")
        return
    rows: list[dict[str, Any]] = []
    for case in cases():
        rows.append(measure(case))
        last = rows[-1]
        print(
            f"{last['graph']:<17} {last['agents']:>9,} agents, degree {last['degree']:>2}, "
            f"{last['runs']:>3} runs: {1e3 * last['seconds']:>9.3f} ms a round, "
            f"{last['nanoseconds']:.2f} ns a weight and column, {last['process'] / 1e6:,.0f} MB, "
            f"{last['path']}",
            flush=True,
        )
    for _, _, points in series(rows):
        for before, now in pairwise(points):
            now["why"] = reason(before, now)
    RESULTS.write_text(json.dumps({"cores": os.cpu_count(), "rows": rows}, indent=1) + "\n")
    for name, graph, points in series(rows):
        print(
            f"{graph}, over {name}: time grows with power {slope(points, name):.2f}, memory with "
            f"{slope(points, name, 'process'):.2f}"
        )
    for row in rows:
        if row.get("why"):
            print(f"{row['graph']}, {row['series']} = {row[row['series']]:,}: {row['why']}")


if __name__ == "__main__":
    main()
