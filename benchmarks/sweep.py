"""The four-algorithm sweep on the US grid against the plain loop with a dense matrix.

The figure is the time of the plain loop divided by ours. The plain loop does the same work: 6 epsilons
x 10 replicas x T = 100 with noise and error norms, A as a dense array, one run per replica and
epsilon. It is the loop that the paper's formulas are, in numpy, and it uses all cores for A @ nu. A
few of its runs are timed and scaled up. In its favour, its noiseless estimates are counted once per
replica, not once per epsilon, and drawing its signals is not counted, a large part of our time.

A fairer yardstick is the second one: the same loop with A as a sparse array, which anyone would
write next. Most of the first figure is what a sparse matrix saves on a graph of mean degree 2.7; the
rest, and all of the second one, comes from runs that advance together and from epsilons that are
computed by linearity. On a dense graph nothing is left of the former.
"""

import time
import warnings
from itertools import product
from typing import Any

import numpy as np

import veilsum as vs
from benchmarks.clock import row
from veilsum import algorithms, networks
from veilsum.errors import PrivacyWarning
from veilsum.families import LogNormal
from veilsum.privacy import NetworkDP, SignalDP, plan

EPSILONS = tuple(np.geomspace(0.125, 4, 6))
REPLICAS = 10
RUNS = [
    ("average", SignalDP, 99),
    ("average", NetworkDP, 99),
    ("learn", SignalDP, 100),
    ("learn-network", NetworkDP, 100),
]
FAMILY = LogNormal(sigma=1.0)


def wanted(privacy: Any, epsilon: Any = 1.0) -> Any:
    return privacy(epsilon=epsilon, delta=0.01, sensitivity="smooth-as-published")


def ours(mixing: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # the paper's noise is what is timed
        for algorithm, privacy, rounds in RUNS:
            vs.sweep(
                {"mu": 10.0}, mixing, FAMILY, wanted(privacy), algorithm, rounds,
                epsilons=EPSILONS, replicas=REPLICAS, rng=1,
            )  # fmt: skip


def loop_run(
    mixing: Any, A: Any, algorithm: Any, privacy: Any, rounds: Any, private: bool, rng: Any
) -> float:
    """Seconds of one run of one algorithm, without drawing its signals."""
    made, n = algorithms.get(algorithm, mixing), mixing.size
    asked = wanted(privacy).over(FAMILY, drawn=True)
    planned: Any = plan(asked, FAMILY, made, mixing, rounds)
    signals = [rng.lognormal(10.0, 1.0, (n, 1)) for _ in range(rounds + 1)]
    m = 10.0
    start = time.perf_counter()
    xi = np.log(signals[0][:, 0])
    state = algorithms.init(made, xi, np.zeros(n))
    for t in range(1, rounds + 1):
        now = made.at(t)
        s = signals[t if made.online else 0]
        d = np.zeros(n)
        if private and now.noise:
            d = rng.laplace(scale=planned.scale(s, 1.0, t)[:, 0])
        xi = np.log(s[:, 0]) if made.online else xi
        state = algorithms.step(made, t, state, A @ state.nu, xi, d)
        np.linalg.norm(state.nu - m)
    return time.perf_counter() - start


def race(mixing: Any, loops: Any, times: int = 4) -> tuple[float, list[float]]:
    """Seconds of ours and of each loop, if it did everything; best of several, all in turn."""
    rng, quick = np.random.default_rng(1), float("inf")
    kinds = [(*run, private) for run in RUNS for private in (True, False)]
    found = np.full((len(loops), len(kinds)), np.inf)
    ours(mixing)
    for _ in range(times):
        for (k, A), (j, kind) in product(enumerate(loops), enumerate(kinds)):
            start = time.perf_counter()
            ours(mixing)
            quick = min(quick, time.perf_counter() - start)
            found[k, j] = min(found[k, j], loop_run(mixing, A, *kind, rng))
    counts = [REPLICAS * (len(EPSILONS) if private else 1) for *_, private in kinds]
    return quick, (found @ counts).tolist()


def measure() -> Any:
    mixing = networks.metropolis(networks.load("us-power-grid"))
    quick, loops = race(mixing, [mixing.weights.toarray(), mixing.weights])
    for name, slow, target in zip(("dense", "sparse"), loops, (1000, 20), strict=True):
        yield row(
            f"US-grid sweep, times faster than the {name} loop",
            slow / quick,
            f">= {target}",
            slow / quick >= target,
            f"{name} loop {slow:.1f} s (scaled from single runs, drawing no signals) divided by "
            f"ours {quick:.2f} s (drawing them)",
            why="drawing the signals takes the largest part of our time, then the rounds",
        )
