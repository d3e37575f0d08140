"""What an answer leaves out, in numbers and in sentences.

`limits` may be shown to anyone: it says nothing that depends on a measured signal. `clipping` and
`spread` of measured signals are facts about private data: print them where the signals are, on
request, and write them to no file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from veilsum._warn import warn
from veilsum.errors import FamilyError, LimitWarning
from veilsum.simulation.problem import Problem

NEGLIGIBLE = 0.1  # of the estimate's standard error: a bias below takes 0.1% off the coverage


@dataclass(frozen=True, eq=False)
class Clipped:
    """The fraction of signals that the bounds moved, and the bias of E xi where it is known.

    `secret` numbers were read off measured signals.
    """

    fraction: float
    bias: Any  # (dimension,), or None where only the readings themselves would tell
    secret: bool


@dataclass(frozen=True)
class Spread:
    """The standard deviation of the statistic as observed and as the family assumes it: a secret."""

    seen: float
    assumed: float

    @property
    def ratio(self) -> float:
        """Above 1: intervals are too narrow by this factor."""
        return self.seen / self.assumed if self.assumed > 0 else math.inf


def limits(problem: Problem) -> list[str]:
    """Sentences for everyone: readings left out, bounds that bite."""
    found = (
        _readings(problem),
        _open_batch(problem),
        _bias(problem),
        _clipped(problem),
    )
    return [sentence for sentence in found if sentence]


def warn_of_limits(problem: Problem) -> None:
    """Warn of readings left out and of bounds that bite."""
    for sentence in (_readings(problem), _bias(problem)):
        if sentence:
            warn(sentence, LimitWarning)


def clipping(problem: Problem) -> Clipped | None:
    """What the bounds did to the signals; None where there are none, or where it is not known."""
    from veilsum.families.clipping import drawn_clipping

    source: Any = problem.source
    if source.measured:
        moved = getattr(getattr(source, "data", None), "clipped", None)
        return None if moved is None else Clipped(moved / source.data.values.size, None, True)
    if not getattr(source, "parameters", None):
        return None
    family: Any = problem.family
    found = drawn_clipping(family, source.parameters)
    return None if found is None else Clipped(found.fraction, found.bias, False)


def spread(problem: Problem) -> Spread | None:
    """sd of xi over the readings that are used, against the family's own at their mean.

    None for vectors, for families that do not know their variance and for signals that are drawn.
    """
    source: Any = problem.source
    if not source.measured or problem.family.dimension > 1 or not hasattr(source, "data"):
        return None
    rounds = problem.rounds if problem.algorithm.online else 1
    xi = problem.family.columns(source.data.values[:, :rounds])
    try:
        parameters = problem.family.parameter(xi.mean(axis=(0, 1)))
        variance = float(np.squeeze(problem.family.covariance(**parameters)))
    except FamilyError:
        return None
    return Spread(float(xi.std()), math.sqrt(variance))


def _readings(problem: Problem) -> str | None:
    """Which readings a run uses, if not all of them."""
    have = getattr(getattr(problem.source, "data", None), "rounds", 1)
    used = problem.rounds if problem.algorithm.online else 1
    if used >= have:
        return None
    first = "the first" if used == 1 else f"the first {used}"
    other = (
        f"ask for rounds = {have} to use all of them"
        if problem.algorithm.online
        else "an online algorithm, such as learn, uses one in every round"
    )
    return f"The algorithm {problem.algorithm.name} uses {first} of {have} readings of each agent; {other}."


def _open_batch(problem: Problem) -> str | None:
    """What batches leave out of the last estimate, and of any other."""
    batches = problem.privacy.batches
    if batches is None:
        return None
    inside, rounds = batches.released(problem.rounds), problem.rounds
    last = f"the last has those of rounds 1 to {inside}" if inside < rounds else "the last has all"
    return (
        f"Readings are released in {batches}: an estimate lacks up to {batches.stalest(rounds)} "
        f"readings of each agent, and {last}."
    )


def _clipped(problem: Problem) -> str | None:
    """What public bounds do to measured readings; how many they move is a fact about them."""
    if not problem.source.measured or problem.family.bounds is None:
        return None
    low, high = problem.family.support.low, problem.family.support.high
    return (
        f"Readings beyond the public bounds ({low:g}, {high:g}) count as the bound itself where "
        "they were clipped, and intervals do not cover this; `--truth` says what share."
    )


def _bias(problem: Problem) -> str | None:
    """The bias that bounds cause in synthetic signals, if it is noticeable."""
    found = None if problem.source.measured else clipping(problem)
    if found is None or found.bias is None or not _noticeable(problem, found.bias):
        return None
    low, high = problem.family.support.low, problem.family.support.high
    number = ", ".join(f"{value:+.3g}" for value in found.bias)
    return (
        f"The bounds ({low:g}, {high:g}) move {100 * found.fraction:.3g}% of the signals that are "
        f"drawn: the expected statistic is off by {number}, and intervals do not cover this; "
        "widen the bounds, or draw other parameters."
    )


def _noticeable(problem: Problem, bias: Any) -> bool:
    """Whether the bias is noticeable beside the sampling error sd/sqrt(n T)."""
    source: Any = problem.source
    try:
        covariance = problem.family.covariance(**source.parameters)
        scale = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
    except FamilyError:
        scale = np.ones_like(bias)
    draws = problem.network.size * (problem.rounds if problem.algorithm.online else 1)
    return bool((np.abs(bias) > NEGLIGIBLE * scale / math.sqrt(draws)).any())
