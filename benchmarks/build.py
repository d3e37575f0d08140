"""Building large networks: generation, order, Metropolis weights; seconds and peak memory.

Each is measured in a process of its own, so that its peak is its own; compiled code is loaded, or
compiled on the first run ever, before the clock starts.
"""

import json
import subprocess
import sys
from typing import Any

GENERATORS = {
    "random geometric": "'random-geometric', size={n}, mean_degree=6",
    "random geometric, connected": "'random-geometric', size={n}, mean_degree=6, connect=True",
    "torus": "'torus', rows={side}, columns={side}",
    "Watts-Strogatz": "'watts-strogatz', size={n}, neighbours=6, probability=0.1",
    "power law": "'power-law', size={n}, links=3",
}
CLOCK = """
import json, time
import numpy as np
from veilsum import networks
from veilsum.networks import kernels

def warm(work):
    kept, kernels.LARGE = kernels.LARGE, 0
    work()
    kernels.LARGE = kept

def seconds(work):
    start = time.perf_counter()
    made = work()
    return time.perf_counter() - start, made

def peak():  # not ru_maxrss, which a new process inherits from the one that started it
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 2**20
"""
GENERATE = """
networks.load(SMALL)
elapsed, graph = seconds(lambda: networks.load(LARGE))
print(json.dumps({"seconds": elapsed, "GiB": peak(), "links": len(graph.links)}))
"""
WEIGH = """
warm(lambda: networks.metropolis(networks.load("random-geometric:300,0.2")))
graph = networks.load("random-geometric", size=SIZE, mean_degree=6, connect=True)
elapsed, mixing = seconds(lambda: networks.metropolis(graph))
print(json.dumps({"seconds": elapsed, "GiB": peak(), "links": len(graph.links)}))
"""
ORDER = """
small = networks.load("random-geometric:300,0.2").adjacency
warm(lambda: networks.permuted(small, networks.arrange(small)))
graph = networks.load("random-geometric", size=SIZE, mean_degree=6, connect=True)
weights, x = networks.metropolis(graph).weights, np.ones(SIZE)
arranging, order = seconds(lambda: networks.arrange(weights, graph.positions if PLACES else None))
moving, ordered = seconds(lambda: networks.permuted(weights, order))
before = min(seconds(lambda: weights @ x)[0] for _ in range(7))
after = min(seconds(lambda: ordered @ x)[0] for _ in range(7))
print(json.dumps({"arrange": arranging, "permute": moving, "before": before, "after": after}))
"""


def run(code: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", CLOCK + code], check=True, capture_output=True, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def generated(call: str, agents: int) -> dict[str, Any]:
    small, large = (call.format(n=n, side=int(n**0.5)) for n in (150_000, agents))
    return run(GENERATE.replace("SMALL", small).replace("LARGE", large))


def generation(agents: int, limit: float) -> Any:
    for name, call in GENERATORS.items():
        found = generated(call, agents)
        yield {
            "what": f"{name}, {agents:.0e} agents, seconds",
            "measured": found["seconds"],
            "target": f"< {limit:g}",
            "met": found["seconds"] < limit,
            "detail": f"{found['links']:,} links, peak {found['GiB']:.2f} GiB, without networkx",
        }


def weights() -> Any:
    for agents, limit in ((3_330_000, 5), (10_000_000, 30)):
        found = run(WEIGH.replace("SIZE", str(agents)))
        yield {
            "what": f"Metropolis weights, {found['links']:.0e} links, seconds",
            "measured": found["seconds"],
            "target": f"< {limit}",
            "met": found["seconds"] < limit,
            "detail": f"all checks included; peak {found['GiB']:.2f} GiB with the graph's making",
        }


def order() -> Any:
    for agents in (1_000_000, 10_000_000):
        for name, places in (("Morton", True), ("Cuthill-McKee", False)):
            found = run(ORDER.replace("SIZE", str(agents)).replace("PLACES", str(places)))
            gain = found["before"] / found["after"]
            yield {
                "what": f"{name} order, {agents:.0e} agents, scipy's product times faster",
                "measured": gain,
                "target": ">= 1.5",
                "met": gain >= 1.5,
                "detail": (
                    f"{1e3 * found['before']:.1f} ms before, {1e3 * found['after']:.1f} ms after; "
                    f"order {found['arrange']:.1f} s, moving {found['permute']:.1f} s"
                ),
            }


def measure() -> Any:
    yield from generation(1_000_000, 3)
    yield from generation(10_000_000, 30)
    yield from weights()
    yield from order()


if __name__ == "__main__":
    print(json.dumps(list(measure()), indent=2))
