"""The cost of a run before it starts: bytes of memory and seconds, from its sizes alone.

With n agents, w nonzero weights, c columns (replicas x epsilons x components, and the
noiseless ones), T rounds and k recorded ones,

    memory  = 8 T c NORMS + T ALGORITHM + 8 k rows c STORED + 8 n c (states + final) + n and w terms
    seconds = T (round + MULTIPLY w c + DRAW n streams [if signals or noise are drawn]) + k KEEP

The constants were measured on two cores of 2.5 GHz and rounded up: memory so that what is accepted
fits, time so that hours are announced. A run that needs more memory than the machine has is an
error, for nothing would stop it from growing until the machine does.
"""

from __future__ import annotations

from dataclasses import dataclass

from veilsum._memory import ALGORITHM, USABLE, available_memory, in_bytes
from veilsum._warn import warn
from veilsum.errors import CostError, CostWarning
from veilsum.simulation.problem import Problem
from veilsum.simulation.recording import Record

NUMBER = 8  # bytes
NORMS = 10  # sums of squares of each round and column, and the copies that norms are made from
STORED = 3  # recorded estimates, stacked, and what is taken from them
STATES, FINAL = 3, 3  # copies of all estimates during a run, and after it
ENTRY = 32  # bytes of a weight, an index, and the kernel's copies
AGENT = 200  # bytes of an agent's label, scales, order and places
BASE = 50e6  # bytes of compiled code

ROUND_OFFLINE, ROUND_ONLINE, ROUND_DYNAMIC = 60e-6, 400e-6, 1e-3  # seconds
KEEP = 1e-3  # seconds of a recorded round
MULTIPLY, DRAW = 2.5e-9, 150e-9  # seconds of a weight times a column, and of a draw
REBUILD = 100e-9  # seconds of a weight, where weights change in every round
LONG = 3600.0  # seconds from which on a run is announced


@dataclass(frozen=True)
class Cost:
    """The approximate cost of a run."""

    memory_bytes: float
    seconds: float


def estimate_cost(problem: Problem, record: Record) -> Cost:
    """The formulas above."""
    return Cost(_memory(problem, record), _seconds(problem, record))


def check_cost(problem: Problem, record: Record, fraction: float = 1.0) -> Cost:
    """Raise if a run does not fit into memory, and warn of one that takes hours.

    `fraction` is the part of the machine that the run may use: one over the number of processes.
    """
    cost, room = estimate_cost(problem, record), available_memory()
    if room is not None and cost.memory_bytes > USABLE * fraction * room:
        raise CostError(
            f"the run needs about {in_bytes(cost.memory_bytes)} of memory and "
            f"{in_bytes(fraction * room)} are free: {_sizes(problem, record)}; "
            f"ask for {_less(problem)}"
        )
    if cost.seconds > LONG:
        warn(
            f"the run takes about {duration(cost.seconds)}: {_sizes(problem, record)}; "
            f"{_less(problem)} take less",
            CostWarning,
        )
    return cost


def duration(seconds: float) -> str:
    """ "3 hours", "12 days", "40 years"."""
    for name, size in (("years", 31_557_600), ("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size or (name == "hours" and seconds >= size):
            return f"{seconds / size:,.0f} {name if seconds >= 1.5 * size else name[:-1]}"
    return f"{seconds:.0f} seconds"


def _columns(problem: Problem) -> tuple[int, int]:
    """Columns with the noiseless ones, and streams of draws."""
    components, replicas = problem.family.dimension, problem.replicas
    noiseless = components * (replicas if problem.source.varies else 1)
    streams = components * replicas
    lanes = -(-streams // 8) * 8 if streams > 4 else streams + streams % 2
    return max(noiseless, lanes) + len(problem.run_epsilons) * lanes, lanes


def _weights(problem: Problem) -> int:
    """Nonzero weights of one round's matrix, the diagonal included."""
    graph = getattr(problem.network, "graph", None)
    if graph is not None and hasattr(graph, "links"):
        return int(len(graph.links) * (1 if graph.directed else 2) + problem.network.size)
    return int(problem.network.at(1).nnz)


def _kept(problem: Problem, record: Record) -> tuple[int, int]:
    """Recorded rounds and agents, without listing them."""
    if not record.estimates:
        return 0, 0
    agents = problem.network.size if record.agents is None else len(record.agents)
    return (problem.rounds // record.every + 2 if record.every else 1), agents


def _memory(problem: Problem, record: Record) -> float:
    (columns, streams), (kept, rows) = _columns(problem), _kept(problem, record)
    n, T = problem.network.size, float(problem.rounds)
    norms = T * (columns * NUMBER * NORMS + ALGORITHM)
    stored = float(kept) * rows * columns * NUMBER * STORED
    held = float(n) * columns * NUMBER * (STATES + FINAL)
    signals = float(n) * streams * NUMBER * (20 if problem.algorithm.online else 4)
    weights = ENTRY * float(_weights(problem)) + AGENT * float(n)
    return BASE + norms + stored + held + signals + weights


def _seconds(problem: Problem, record: Record) -> float:
    (columns, streams), (kept, _) = _columns(problem), _kept(problem, record)
    algorithm, weights = problem.algorithm, _weights(problem)
    steps = ROUND_ONLINE if algorithm.online else ROUND_OFFLINE
    steps += weights * columns * MULTIPLY
    if algorithm.online or algorithm.at(2).noise:
        steps += problem.network.size * streams * DRAW
    if problem.network.dynamic:
        steps += ROUND_DYNAMIC + weights * REBUILD
    return float(problem.rounds) * steps + kept * KEEP


def _sizes(problem: Problem, record: Record) -> str:
    """The sizes that a cost comes from, as text."""
    kept, rows = _kept(problem, record)
    stored = f", {kept:,} recorded rounds of {rows:,} agents" if kept > 1 else ""
    return (
        f"{problem.network.size:,} agents, {problem.rounds:,} rounds, {problem.replicas:,} "
        f"replicas, {max(len(problem.run_epsilons), 1):,} epsilons{stored}"
    )


def _less(problem: Problem) -> str:
    wide = problem.replicas * max(len(problem.run_epsilons), 1) > 1
    return "fewer rounds" + (", replicas or epsilons" if wide else " or recorded ones")
