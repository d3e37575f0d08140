"""What several runs over the same measured signals promise together.

Every run is a release of its own: replicas average the noise away, epsilons and variants add to
one another. By basic composition, runs with (eps_l, delta_l) are together

    (sum eps_l, sum delta_l)-DP

for what may change in all of them, against whoever sees them all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from murmura.privacy import Guarantee, Loss, Status

if TYPE_CHECKING:
    from murmura.report.result import Result

Runs = Sequence[tuple[Guarantee, int]]  # what a run promises, and how many there are


def protects(guarantee: Guarantee) -> bool:
    """Whether something is promised for the signals: what they are computed into may be shown."""
    if guarantee.status in (Status.PROVED, Status.CLAIMED, Status.ESTIMATED):
        return True
    return guarantee.signals is not None and protects(guarantee.signals)


def total(runs: Runs) -> Guarantee:
    """What holds for all runs together; they protect the same unit (`Guarantee.for_runs`).

    What holds for the signals alone, and against a transcript, adds up in the same way, whatever
    becomes of the rest.
    """
    first, *others = [made for made, times in runs for _ in range(times)]
    if not others:
        return first
    made = first.for_runs(others)
    return replace(
        made,
        loss=_price(made),
        signals=_part([(made.signals, times) for made, times in runs]),
        transcript=_part([(made.transcript, times) for made, times in runs]),
    )


def _part(runs: Sequence[tuple[Guarantee | None, int]]) -> Guarantee | None:
    """The total of what each run states of a part; None if one of them states nothing."""
    stated = [(made, times) for made, times in runs if made is not None]
    return total(stated) if len(stated) == len(runs) else None


def of_all(results: Mapping[str, Result]) -> Guarantee | None:
    """What all results on measured signals promise together; None if there are none to release.

    Where they protect different things, what they have in common stands: the signals alone, moving
    by the smallest radius.
    """
    runs: Runs = [
        (result.guarantee_of(epsilon), result.problem.replicas)
        for result in results.values()
        if result.measured and result.releases
        for epsilon in result.problem.budgets
    ]
    if not runs:
        return None
    if len({(made.unit, made.adversary) for made, _ in runs}) > 1:
        runs = _in_common(runs)
    if len({made.unit for made, _ in runs}) > 1:
        reason = "the variants measure moves of a signal in different ways, which do not add up"
        return replace(runs[0][0], status=Status.NONE, reason=reason, loss=None)
    return total(runs)


def _in_common(runs: Runs) -> Runs:
    alone = [(made.signals or made, times) for made, times in runs]
    radius = min(made.unit.radius for made, _ in alone)
    online = any(made.unit.online for made, _ in alone)
    return [
        (replace(made, unit=replace(made.unit, radius=radius, online=online)), times)
        for made, times in alone
    ]


def _price(made: Guarantee) -> Loss | None:
    """The price of all runs, which further composition (of readings, of messages) needs."""
    if made.status is Status.NONE or not math.isfinite(made.epsilon):
        return None
    return Loss(made.epsilon, made.delta, "approximate" if made.delta else "pure")
