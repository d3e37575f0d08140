"""A name for a problem, the same on any number of ranks, by which a checkpoint knows its own."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura.cluster.comm import total
from murmura.cluster.part import Part
from murmura.engine import Problem

_PRIMES = np.array([0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], dtype=np.uint64)


def fingerprint(problem: Problem, part: Part, comm: Any, *more: Any) -> str:
    """A hash of all that the numbers of a run follow from, and of anything `more`."""
    network = problem.network
    said = [
        f"{network.size} {network.kind} {network.dynamic} {network.scheme}",
        f"{_weights(part, comm):x}",
        *(described(x) for x in (problem.law, problem.family, problem.source, problem.want)),
        *(described(x) for x in more),
        repr((problem.rounds, problem.epsilons, problem.replicas, problem.seed, problem.horizon)),
    ]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()


def _weights(part: Part, comm: Any) -> int:
    """A sum over all entries of a hash of (row, column, weight): the order does not matter."""
    rows = np.repeat(part.agents[: part.own], part.lengths).astype(np.uint64)
    columns = part.agents[part.indices].astype(np.uint64)
    mixed = rows * _PRIMES[0] ^ columns * _PRIMES[1] ^ part.weights.view(np.uint64) * _PRIMES[2]
    return int(total(comm, _stirred(mixed).sum(dtype=np.uint64).reshape(1))[0])


def _stirred(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's output function."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def described(thing: Any) -> str:
    """What it is made of, by value; of things that do not say, the type."""
    if thing is None or isinstance(thing, str | int | float | bool | tuple | list | range):
        return repr(thing)
    if isinstance(thing, Mapping):
        return repr(sorted((str(k), described(v)) for k, v in thing.items()))
    if isinstance(thing, np.ndarray | np.generic):
        whole = np.asarray(thing)
        return f"{whole.dtype}{whole.shape}{hashlib.sha256(whole.tobytes()).hexdigest()}"
    if callable(thing) and hasattr(thing, "__qualname__"):
        return f"{thing.__module__}.{thing.__qualname__}"
    kind = f"{type(thing).__module__}.{type(thing).__qualname__}"
    if is_dataclass(thing):
        return f"{kind}({[(f.name, described(getattr(thing, f.name))) for f in fields(thing)]})"
    return kind
