"""What a run is, in words: its network, its rounds, what a reader must know, and the versions."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from veilsum import __version__
from veilsum.algorithms import keeps_differences
from veilsum.privacy import plan
from veilsum.results.intervals import SIMULATED, assumption
from veilsum.simulation import Problem
from veilsum.simulation.limits import clipping, limits, spread

if TYPE_CHECKING:
    from veilsum.results.result import Result

EXACT = "exact"
NOT_RELEASABLE = "Simulated noise: a rehearsal. Release nothing."
KNOWN_SEED = (
    "A seed was given: whoever learns it can draw the noise again, so these results are as secret "
    "as the signals; leave it out, and the noise comes from the operating system."
)


def describe_network(network: Any) -> str:
    """The name, size and weights of a network."""
    graph = getattr(network, "graph", None)
    name = getattr(graph, "name", "") or "a network"
    return f"{name} ({network.size:,} agents, {network.scheme} weights)"


def mechanisms_of(problem: Problem) -> list[str]:
    """The name of the mechanism at each epsilon, "best" resolved; empty without protection."""
    return [
        plan(problem.privacy.at(e), problem.family, problem.algorithm).name
        for e in problem.run_epsilons
    ]


def duration_of(result: Result) -> str:
    """How many rounds; of a sum for every batch, how many queries of how many.

    Parameters
    ----------
    result
        A run.

    Returns
    -------
    str
        Such as "99" or "100 x 230".
    """
    algorithm, rounds = result.problem.algorithm, result.problem.rounds
    if algorithm.session is None or not algorithm.online:
        return str(rounds)
    queries = sum(1 for t in range(1, rounds + 1) if algorithm.readings(t))
    return f"{queries} x {algorithm.session.session_rounds}"


def versions() -> dict[str, str]:
    """The versions of the software that computed the numbers; what is not installed did not."""
    used = {}
    for name in ("numpy", "scipy", "numba"):
        with suppress(PackageNotFoundError):
            used[name] = version(name)
    return {"veilsum": __version__, "python": platform.python_version(), **used}


def warnings_of(problem: Problem, noise: str = SIMULATED) -> list[str]:
    """What a reader must know before using a number."""
    found = []
    if problem.network.kind == "row-stochastic":
        found.append(
            "The weights are row-stochastic: estimates converge to the mean weighted by the "
            "stationary distribution, not to the minimum variance estimate; push-sum on "
            "column-stochastic weights gives the uniform mean."
        )
    if problem.diverges:
        found.append(f"Algorithm {problem.algorithm.name} diverges: {problem.diverges}.")
    if problem.source.measured and keeps_differences(problem.algorithm):
        found.append(
            f"Algorithm {problem.algorithm.name} does not lead agents that differ to their mean: a part of "
            "every difference stays, however many readings there are (docs/errata.md, erratum 20); "
            "learn does."
        )
    if problem.source.measured and problem.seed_is_known and noise == SIMULATED:
        found.append(KNOWN_SEED)
    found.extend(limits(problem))
    if problem.run_epsilons and noise == SIMULATED:
        found.append(NOT_RELEASABLE)
    return found


def notes_of(problem: Problem, noise: str = SIMULATED) -> list[str]:
    """What is worth knowing besides: what intervals assume, how long a sum over a roster takes."""
    found = [assumption(problem, noise)]
    session = problem.algorithm.session
    if session is not None:
        when = ", between two readings" if problem.algorithm.online else ""
        found.append(
            f"A {session.what} on this network takes {session.session_rounds} rounds of flooding{when}: "
            f"{session.floods} over {session.hops} hops."
        )
    return found


def evaluated_limits(results: Mapping[str, Result]) -> Iterator[str]:
    """What measured signals show of clipping and spread: as secret as the signals."""
    for name, result in results.items():
        clipped, deviation = clipping(result.problem), spread(result.problem)
        if clipped is not None and clipped.fraction:
            yield f"{name}: the bounds moved {100 * clipped.fraction:.3g}% of the signals."
        if deviation is not None:
            yield (
                f"{name}: the statistic's standard deviation is {deviation.seen:.4g}, and the family "
                f"assumes {deviation.assumed:.4g} (ratio {deviation.ratio:.3g})."
            )
