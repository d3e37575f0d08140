"""What a run takes is estimated before it starts: refused, announced, or neither."""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from typing import Any

import pytest

import veilsum as vs
from veilsum.errors import CostError, CostWarning
from veilsum.simulation import Problem, SyntheticSignals, cost, simulate
from veilsum.simulation.cost import check_cost, estimate_cost

RING = vs.networks.metropolis(vs.networks.load("ring:21"))
NORMAL = vs.families.Normal(1.0)
NONE = vs.Record(estimates=False)


def problem(
    rounds: int, algorithm: str = "average", replicas: int = 1, epsilons: Any = ()
) -> Problem:
    return Problem(
        RING, vs.algorithms.get(algorithm, RING), NORMAL, SyntheticSignals(NORMAL, {"mu": 0.0}, 21, 0),
        vs.privacy.SignalDP(1.0), rounds, epsilons, replicas,
    )  # fmt: skip


@pytest.mark.parametrize("rounds", [10**12, 10**18, 10**400])
@pytest.mark.parametrize("algorithm", ["average", "learn", "first-order", "jacobi"])
def test_rounds_without_end_are_refused_at_once(rounds: int, algorithm: str) -> None:
    """They used to grow until the machine died."""
    began = time.monotonic()
    with pytest.raises(CostError, match=r"rounds need about .* TB of memory .* rounds or fewer"):
        vs.sweep({"mu": 0.0}, RING, NORMAL, vs.privacy.SignalDP(1.0), algorithm, rounds)
    with pytest.raises(CostError):
        problem(rounds, algorithm)
    assert time.monotonic() < began + 5


def test_a_scenario_is_refused_at_its_line() -> None:
    text = """
[network]
graph = "ring:21"
[family]
name = "normal"
sigma = 1.0
[signals]
draw = { mu = 0.0 }
[privacy]
protect = "signal"
epsilon = 1.0
[algorithm]
name = "first-order"
rounds = 1000000000000
"""
    with pytest.raises(vs.errors.ScenarioError, match=r"line 14: algorithm\.rounds: 1000000000000"):
        vs.Scenario.parse(text).jobs()


@pytest.mark.thorough
def test_what_does_not_fit_is_refused_with_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "available_memory", lambda: 10**9)
    record = vs.Record(every=1)
    with pytest.raises(CostError) as caught:
        check_cost(problem(100_000, replicas=500, epsilons=(1.0, 2.0)), record)
    for part in ("21 agents", "100,000 rounds", "500 replicas", "2 epsilons", "1.0 GB are free",
                 "recorded rounds of 21 agents", "fewer rounds, replicas or epsilons"):  # fmt: skip
        assert part in str(caught.value)
    with pytest.raises(CostError):
        simulate(problem(100_000, replicas=500), record)


def test_hours_are_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "available_memory", lambda: 10**15)
    with pytest.warns(CostWarning, match=r"takes about \d+ hours: 21 agents, 20,000,000 rounds"):
        check_cost(problem(20_000_000, "learn"), NONE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_cost(problem(1000, "learn"), NONE)


MEASURE = """
import sys
import veilsum as vs

def peak():  # of this program alone: ru_maxrss counts what a fork had before it
    status = open("/proc/self/status").read()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024

rounds, replicas, every = map(int, sys.argv[1:])
ring = vs.networks.metropolis(vs.networks.load("ring:21"))
record = vs.Record(every=1) if every else vs.Record(estimates=False)
words = ({"mu": 0.0}, ring, vs.families.Normal(1.0), vs.privacy.SignalDP(1.0), "average")
vs.sweep(*words, 2, replicas=replicas, record=record)
before = peak()
vs.sweep(*words, rounds, replicas=replicas, record=record)
print(peak() - before)
"""


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize(("rounds", "replicas", "every"), [(20_000, 60, 0), (4000, 60, 1)])
def test_the_estimate_is_on_the_safe_side(rounds: int, replicas: int, every: int) -> None:
    """Memory measured in a process of its own: at most the estimate, and at least a sixth of it."""
    words = [sys.executable, "-c", MEASURE, *map(str, (rounds, replicas, every))]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300)
    record = vs.Record(every=1) if every else NONE
    estimated = estimate_cost(problem(rounds, replicas=replicas), record).memory_bytes
    assert int(done.stdout) <= estimated
    assert int(done.stdout) >= (estimated - cost.BASE) / 6


@pytest.mark.thorough
def test_a_limit_of_the_process_counts() -> None:
    """`ulimit -v`: what is left of it is what there is."""
    code = (
        "import resource, veilsum._memory as m\n"
        "resource.setrlimit(resource.RLIMIT_AS, (8 * 10**9, 8 * 10**9))\n"
        "assert 0 < m.available_memory() < 8 * 10**9\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
