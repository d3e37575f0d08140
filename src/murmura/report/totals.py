"""What several runs over the same measured signals promise together.

Every run is a release of its own: replicas average the noise away, epsilons and variants add to
one another. By basic composition, runs with (eps_l, delta_l) are together

    (sum eps_l, sum delta_l)-DP

for what may change in all of them, against whoever sees them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from murmura.privacy import Guarantee, Status

if TYPE_CHECKING:
    from murmura.report.result import Result

Runs = Sequence[tuple[Guarantee, int]]  # what a run promises, and how many there are


def protects(guarantee: Guarantee) -> bool:
    """Whether something is promised for the signals: what they are computed into may be shown."""
    if guarantee.status in (Status.PROVED, Status.CLAIMED, Status.ESTIMATED):
        return True
    return guarantee.signals is not None and protects(guarantee.signals)


def total(runs: Runs) -> Guarantee:
    """What holds for all runs together; they protect the same unit (`Guarantee.for_runs`)."""
    first, *others = [made for made, times in runs for _ in range(times)]
    return first.for_runs(others)


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
