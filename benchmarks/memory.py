"""Peak memory of a run on a million agents that keeps error norms only."""

import subprocess
import sys
from typing import Any

# not ru_maxrss, which a new process inherits from the one that started it
PEAK = """
def peak():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(status["VmHWM"].split()[0]) / 2**20
"""
CODE = (
    PEAK
    + """
import veilsum as vs
graph = vs.networks.load("torus:1000x1000")
result = vs.sweep({"mu": 0.0}, vs.networks.lazy_metropolis(graph), vs.families.Normal(sigma=1.0),
                  vs.privacy.SignalDP(1.0), ALGORITHM, 20)
assert result.errors.total > 0
print(peak())
"""
)


def peak(algorithm: str) -> float:
    """GiB that a fresh process needs at its peak, the graph's construction included."""
    done = subprocess.run(
        [sys.executable, "-c", CODE.replace("ALGORITHM", repr(algorithm))],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return float(done.stdout)


def measure() -> Any:
    for algorithm in ("average", "learn"):
        found = peak(algorithm)
        yield {
            "what": f"peak memory at 10^6 agents, {algorithm}, GiB",
            "measured": found,
            "target": "< 0.93",
            "met": found < 1e9 / 2**30,
            "detail": "torus of 1,000 x 1,000, error norms only, graph and weights included",
        }
