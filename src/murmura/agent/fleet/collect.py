"""From what agents estimated to a result like a simulation's: the same errors, the same report.

The clean twin and the target come from the simulator on the same signals; `up` knows them because
it draws or reads the signals itself. Agents on sites of their own have no such report: nobody knows
all of their signals.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura.agent.fleet.plan import Plan
from murmura.engine import Problem, Record, Trace, simulate
from murmura.errors import AgentError
from murmura.report import Result
from murmura.report.dataset import EXACT

Floats = NDArray[np.float64]


def estimates(plan: Plan, problem: Problem) -> Floats:
    """What every agent held after every round, (agent, round, component), in the network's order.

    A round that an agent slept through, or skipped while catching up, shows what it held before.
    """
    place = {str(label): i for i, label in enumerate(problem.network.labels)}
    found: dict[str, Floats] = {}
    for number in range(len(plan.shares)):
        path = Path(plan.folder) / f"estimates-{number}.npz"
        if not path.is_file():
            raise AgentError(f"{plan.shares[number].device} left no estimates: see {path.parent}")
        with np.load(path) as part:
            found |= dict(zip(part["agents"].tolist(), part["estimates"], strict=True))
    rounds = max(len(table) for table in found.values())
    out = np.full((len(place), rounds, problem.family.dimension), np.nan)
    for agent, table in found.items():
        out[place[agent], : len(table)] = table
    for t in range(1, rounds):
        gone = np.isnan(out[:, t])
        out[:, t][gone] = out[:, t - 1][gone]
    return out


def result(problem: Problem, held: Floats, name: str) -> Result:
    """The report of a run by agents: errors against the same target as the simulator's."""
    rounds = held.shape[1] - 1
    shorter = replace(problem, rounds=rounds, horizon=problem.rounds, replicas=1)
    twin = simulate(shorter, Record(every=1))
    return Result(shorter, measured(twin, held), name, EXACT)


def measured(twin: Trace, held: Floats) -> Trace:
    """The simulator's trace with the agents' estimates in place of the simulated private ones."""
    assert twin.clean is not None
    clean = twin.clean[:, :, 0]  # (round, agent, component)
    private = held.swapaxes(0, 1)
    final = private[-1]

    def norms(difference: Any) -> Floats:
        return np.asarray(np.sqrt((difference**2).sum(axis=(1, 2)))[:, None, None])

    return replace(
        twin,
        total=norms(private - twin.target[0]),
        privacy=norms(private - clean),
        private=private[:, :, None, None],
        final=final[:, None, None],
        mean=final.mean(axis=0)[None, None],
        disagreement=final.var(axis=0)[None, None],
    )
