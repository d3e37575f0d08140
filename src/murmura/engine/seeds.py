"""Seeds: where a run's randomness starts, and how the noise of measured signals gets a key.

Signals that are drawn share their noise over epsilons and variants: curves are smooth, and a run
can be made again from its seed. Signals that are measured must not. Two results with the same
draws d at scales b and b' give the signals away by subtraction,

    (xi + b d) - (xi + b' d) = (b - b') d,

so their key is a hash of the seed and of everything that a result depends on: the epsilon, the
law, the family, the protection, the rounds, the weights and the signals themselves. The same run
has the same noise, and any other run has noise that is independent of it.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from murmura.engine.describe import described

if TYPE_CHECKING:
    from murmura.engine.problem import Problem

NOT_GIVEN = -1
Marks = tuple[int, int, int]  # of the weights, of the neighbours' largest, of the signals

_PRIMES = np.array([0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], dtype=np.uint64)


class FreshSeed(int):
    """A seed from the operating system: nobody chose it, and no text shows it."""

    def __repr__(self) -> str:
        """Never the number."""
        return "FreshSeed()"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        """Never the number."""
        return repr(self)


def seed_of(given: int | None, measured: bool) -> int:
    """The seed of a run: the one given, else entropy for measured signals and 0 for drawn ones."""
    if given is not None and given != NOT_GIVEN:
        return given
    return FreshSeed(secrets.randbits(128)) if measured else 0


def noise_seed(seed: int) -> int:
    """Seed of the noise, apart from the seed of the signals."""
    return int(np.random.SeedSequence([seed, 0x6E6F6973]).generate_state(1, np.uint64)[0])


def noise_key(problem: Problem, marks: Marks | None = None) -> int:
    """The 64 bits that the noise of a run follows from.

    `marks` are those of all agents, for a caller that holds only some of them.
    """
    if not problem.source.measured:
        return noise_seed(problem.seed)
    want, budgets = problem.want, problem.budgets
    said = [
        repr((int(problem.seed), budgets, problem.rounds, problem.horizon)),
        *map(described, (problem.law, problem.family)),
        described(want.at(budgets[0]) if budgets and hasattr(want, "at") else want),
        repr(marks or marks_of(problem)),
    ]
    digest = hashlib.sha256("\n".join(said).encode()).digest()
    return int.from_bytes(digest[:8], "little")


def marks_of(problem: Problem) -> Marks:
    """The marks of a problem whose agents are all here."""
    weights, agents = problem.network.at(1), np.arange(problem.network.size)
    rows = np.repeat(agents, np.diff(weights.indptr))
    largest = np.asarray(problem.network.largest_neighbour_weight, dtype=np.float64)
    return (
        mark(rows, weights.indices, weights.data),
        mark(agents, np.zeros(1), largest),
        signal_mark(problem, agents),
    )


def signal_mark(problem: Problem, agents: NDArray[np.int64]) -> int:
    """A mark of all readings that a run uses of these agents, whose source `problem` has."""
    total = 0
    for t in range(1, (problem.rounds if problem.law.online else 1) + 1):
        values = np.asarray(problem.source.signals(t, 1), dtype=np.float64).reshape(len(agents), -1)
        for k, column in enumerate(values.T):
            total += mark(agents, np.array([t * values.shape[1] + k]), column)
    return total % 2**64


def mark(
    rows: NDArray[np.integer], columns: NDArray[np.number], values: NDArray[np.float64]
) -> int:
    """A sum over all entries of a hash of (row, column, value): the order does not matter."""
    bits = np.ascontiguousarray(values).view(np.uint64) * _PRIMES[2]
    mixed = rows.astype(np.uint64) * _PRIMES[0] ^ columns.astype(np.uint64) * _PRIMES[1] ^ bits
    return int(_stirred(mixed).sum(dtype=np.uint64))


def _stirred(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's output function."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
