"""A name for a problem, the same on any number of ranks, by which a checkpoint knows its own."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from murmura.cluster.comm import total
from murmura.cluster.part import Part
from murmura.engine import Problem
from murmura.engine.describe import described
from murmura.engine.seeds import mark

__all__ = ["described", "fingerprint", "summed", "weights_mark"]


def fingerprint(problem: Problem, part: Part, comm: Any, *more: Any) -> str:
    """A hash of all that the numbers of a run follow from, and of anything `more`."""
    network = problem.network
    said = [
        f"{network.size} {network.kind} {network.dynamic} {network.scheme}",
        f"{weights_mark(part, comm):x}",
        *(described(x) for x in (problem.law, problem.family, problem.source, problem.want)),
        *(described(x) for x in more),
        repr((problem.rounds, problem.epsilons, problem.replicas, problem.seed, problem.horizon)),
    ]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()


def weights_mark(part: Part, comm: Any) -> int:
    """A sum over all entries of a hash of (row, column, weight): the order does not matter."""
    rows = np.repeat(part.agents[: part.own], part.lengths).astype(np.uint64)
    columns = part.agents[part.indices].astype(np.uint64)
    return summed(comm, mark(rows, columns, part.weights))


def summed(comm: Any, mine: int) -> int:
    """The sum of the ranks' marks, modulo 2^64."""
    return int(total(comm, np.array([mine], dtype=np.uint64))[0])
