"""Ten million agents: 100 rounds of average with error norms, in a process of its own."""

import json
import subprocess
import sys
from typing import Any

from benchmarks.clock import row
from benchmarks.memory import PEAK

CODE = (
    PEAK
    + """
import json, time
import veilsum as vs
start = time.perf_counter()
graph = vs.networks.random_geometric(10**7, mean_degree=6, seed=1, connect=True)
built = time.perf_counter()
weights = vs.networks.lazy_metropolis(graph)
weighed = time.perf_counter()
result = vs.sweep({"mu": 0.0}, weights, vs.families.Normal(sigma=1.0), vs.privacy.NoPrivacy(),
                  "average", 100)
done = time.perf_counter()
assert result.trace.decentralisation.shape == (101, 1)
print(json.dumps({"graph": built - start, "weights": weighed - built, "run": done - weighed,
                  "peak": peak()}))
"""
)


def measure() -> Any:
    made = subprocess.run([sys.executable, "-c", CODE], check=True, capture_output=True, text=True)
    found = json.loads(made.stdout.splitlines()[-1])
    detail = (
        f"graph {found['graph']:.1f} s, weights {found['weights']:.1f} s, then order and 100 "
        f"rounds with error norms {found['run']:.1f} s"
    )
    run, peak = found["run"], found["peak"]
    yield row("100 rounds at 10^7 agents, seconds", run, "< 20", run < 20, detail)
    yield row("peak memory of that process, GiB", peak, "< 2.79", peak < 3e9 / 2**30, detail)
