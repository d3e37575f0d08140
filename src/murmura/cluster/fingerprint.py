"""A name for a problem, the same on any number of ranks, by which a checkpoint knows its own."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from murmura.cluster.comm import together, total
from murmura.cluster.ground import Ground
from murmura.engine import Problem, seeds
from murmura.engine.describe import exactly

__all__ = ["contents", "fingerprint", "schedule_mark", "summed"]


def fingerprint(problem: Problem, ground: Ground, comm: Any, *more: Any) -> str:
    """A hash of all that the numbers of a run follow from, and of anything `more`."""
    with together(comm):
        said = contents(problem) + [exactly(x, "the record of this run") for x in more]
    said += [
        seeds.network_text(problem.network),
        f"{schedule_mark(problem, ground, comm):x}",
        repr(
            (problem.rounds, problem.epsilons, problem.replicas, int(problem.seed), problem.horizon)
        ),
    ]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()


def contents(problem: Problem) -> list[str]:
    """What the parts of a problem are made of; raise if one cannot be told from others."""
    parts = ("law", "family", "source", "want")
    return [exactly(getattr(problem, part), f"the {part} of this run") for part in parts]


def schedule_mark(problem: Problem, ground: Ground, comm: Any) -> int:
    """The mark that `engine.seeds.schedule_mark` gives on one machine, from the ranks' rows."""
    mine, agents = 0, ground.partition.agents
    for t in seeds.marked_rounds(problem.network, problem.rounds):
        rows = ground.rows(t)
        places = np.repeat(rows.first + np.arange(rows.count), np.diff(rows.indptr))
        entries = agents(places), agents(rows.columns), rows.data
        mine += seeds.weights_mark(*entries, t, problem.network.size)
    return summed(comm, mine % 2**64)


def summed(comm: Any, mine: int) -> int:
    """The sum of the ranks' marks, modulo 2^64."""
    return int(total(comm, np.array([mine], dtype=np.uint64))[0])
