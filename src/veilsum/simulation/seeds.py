"""Seeds: where a run's randomness starts, and how the noise of measured signals gets a key.

Runs with synthetic signals use the same noise for all epsilons and variants: curves are smooth, and
a run can be repeated from its seed. Runs with measured signals must not. Two results with the same
draws d at scales b and b' reveal the signals by subtraction,

    (xi + b d) - (xi + b' d) = (b - b') d,

so their key is a hash of the seed and of everything that a result depends on: the epsilon, the
algorithm, the family, the protection, the rounds, the weights of every round and the signals
themselves, each by its contents (`simulation.describe`). The same run has the same noise, and any
other run has noise that is independent of it. A family or algorithm whose contents cannot be read
has independent noise every time.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from veilsum._types import Network
from veilsum.simulation.describe import described, is_exact

if TYPE_CHECKING:
    from veilsum.simulation.problem import Problem

NOT_GIVEN = -1
Marks = tuple[int, int, int]  # of the weights, of the neighbours' largest, of the signals
_FIRST: range = range(1, 2)  # a network that is described as a whole needs its first round only

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
    """The seed of a run: the given one, else entropy for measured signals and 0 for synthetic ones."""
    if given is not None and given != NOT_GIVEN:
        return given
    return FreshSeed(secrets.randbits(128)) if measured else 0


def noise_seed(seed: int) -> int:
    """The seed of the noise, different from the seed of the signals."""
    return int(np.random.SeedSequence([seed, 0x6E6F6973]).generate_state(1, np.uint64)[0])


def noise_key(problem: Problem, marks: Marks | None = None, plan: Any = None) -> int:
    """The 64 bits that the noise of a run follows from.

    `marks` are those of all agents, for a caller that has only some of them; a `plan` is one
    that replaces the problem's.
    """
    if not problem.source.measured:
        return noise_seed(problem.seed)
    privacy, epsilons = problem.privacy, problem.run_epsilons
    text = [
        repr((int(problem.seed), epsilons, problem.rounds, problem.horizon)),
        *map(described, (problem.algorithm, problem.family, plan)),
        described(privacy.at(epsilons[0]) if epsilons else privacy),
        network_text(problem.network),
        repr(marks or marks_of(problem)),
    ]
    digest = hashlib.sha256("\n".join(text).encode()).digest()
    return int.from_bytes(digest[:8], "little")


def marks_of(problem: Problem) -> Marks:
    """The marks of a problem whose agents are all here."""
    agents = np.arange(problem.network.size)
    largest = np.asarray(problem.network.largest_neighbour_weight, dtype=np.float64)
    return (
        schedule_mark(problem.network, problem.rounds),
        mark(agents, np.zeros(1), largest),
        signal_mark(problem, agents),
    )


def network_text(network: Network) -> str:
    """What a network's weights follow from, where that is a few numbers; else only its kind.

    Links that fail follow from the graph, the probability and the seed. All other networks are
    distinguished by the marks of the rounds in `marked_rounds`.
    """
    text = f"{network.size} {network.kind} {network.dynamic}"
    return f"{text} {described(network)}" if _is_drawn(network) else text


def marked_rounds(network: Network, rounds: int) -> range:
    """The rounds whose weights distinguish a network from others, beside its text."""
    every = network.dynamic and not _is_drawn(network)
    return range(1, rounds + 1) if every else _FIRST


def _is_drawn(network: Network) -> bool:
    """Whether A_t follows from fields of the network that can be read."""
    from veilsum.networks.schedules import Asleep, LinkFailures

    return type(network) in (LinkFailures, Asleep) and is_exact(network)


def schedule_mark(network: Network, rounds: int) -> int:
    """A mark of the weights of all rounds that a run uses."""
    total = 0
    for t in marked_rounds(network, rounds):
        weights = network.at(t)
        rows = np.repeat(np.arange(network.size), np.diff(weights.indptr))
        total += weights_mark(rows, weights.indices, weights.data, t, network.size)
    return total % 2**64


def weights_mark(
    rows: NDArray[np.integer], columns: NDArray[np.integer], weights: NDArray[np.float64],
    t: int, size: int,
) -> int:  # fmt: skip
    """A mark of entries of A_t in a network of `size` agents; in round t column j is j + t n."""
    shifted = columns.astype(np.uint64) + np.uint64(t * size)
    return mark(rows, shifted, np.asarray(weights, dtype=np.float64))


def signal_mark(problem: Problem, agents: NDArray[np.int64]) -> int:
    """A mark of all readings that a run uses of these agents, whose source `problem` has."""
    total = 0
    replicas = problem.replicas if problem.source.varies else 1
    for t in range(1, (problem.rounds if problem.algorithm.online else 1) + 1):
        found = np.asarray(problem.source.signals(t, replicas), dtype=np.float64)
        values = found.reshape(len(agents), -1)
        for k, column in enumerate(values.T):
            total += mark(agents, np.array([t * values.shape[1] + k]), column)
    return total % 2**64


def mark(
    rows: NDArray[np.integer], columns: NDArray[np.number], values: NDArray[np.float64]
) -> int:
    """A sum over all entries of a hash of (row, column, value): the order does not matter."""
    bits = np.ascontiguousarray(values).view(np.uint64) * _PRIMES[2]
    mixed = rows.astype(np.uint64) * _PRIMES[0] ^ columns.astype(np.uint64) * _PRIMES[1] ^ bits
    return int(_splitmix(mixed).sum(dtype=np.uint64))


def _splitmix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's output function."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
