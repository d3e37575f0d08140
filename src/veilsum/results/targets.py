"""What the errors of a run are measured against, and how long it took to have them, in words.

Tables, pictures and pages ask here, so that one error has one name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from veilsum.results.result import Result

MEAN, EXPECTATION = "the mean of the signals", "E ξ"


def target_of(result: Result) -> str:
    """What the errors of a result are measured against.

    Parameters
    ----------
    result
        A run.

    Returns
    -------
    str
        In words.
    """
    return EXPECTATION if result.problem.algorithm.online else MEAN


def duration_of(result: Result) -> str:
    """How many rounds; of a masked sum for every batch, how many sessions of how many.

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


def statistics_of(results: Mapping[str, Result]) -> dict[str, list[str]]:
    """The statistics that agents average, as formulas, with the runs of each.

    Parameters
    ----------
    results
        Results by name.

    Returns
    -------
    dict
        Such as {"log s": ["offline"], "log(1 + s)": ["local", "masked"]}.
    """
    found: dict[str, list[str]] = {}
    for name, result in results.items():
        found.setdefault(result.problem.family.formula, []).append(name)
    return found


def different_statistics(results: Mapping[str, Result]) -> list[str]:
    """Sentences that say so if errors of several statistics stand side by side; else none.

    Parameters
    ----------
    results
        Results by name.

    Returns
    -------
    list of str
        Which runs average which statistic, and which of them lacks the public bound that a proof needs.
    """
    found = statistics_of(results)
    if len(found) < 2:
        return []
    parts = [f"{formula} in {_listed(names)}" for formula, names in found.items()]
    said = [f"The statistic ξ is {'; '.join(parts)}: each error is against the mean of its own."]
    for formula, names in found.items():
        problem = results[names[0]].problem
        if not problem.run_epsilons:
            continue
        sensitivity = problem.family.sensitivity(problem.privacy.reach)
        if math.isinf(sensitivity.value):
            why, *_ = sensitivity.reason.partition(": ")
            floored = problem.family.statistic_is_log and not problem.family.support.low > 0
            bound = "a public floor" if floored else "public bounds"
            said.append(f"For {formula} no noise can be proved private without {bound}: {why}.")
    return said


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
