"""What several runs over the same measured signals promise together.

Every run is a release, so replicas, epsilons and variants add up: runs with (eps_l, delta_l) are
together

    (sum eps_l, sum delta_l)-DP

for what may change in all of them, against an adversary who sees them all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from veilsum.privacy import Guarantee, Status, Unit

if TYPE_CHECKING:
    from veilsum.results.result import Result

Runs = Sequence[tuple[Guarantee, int]]  # the guarantee of a run, and how many such runs


@dataclass(frozen=True)
class Provenance:
    """Where a result comes from: the scenario and its seed.

    Attributes
    ----------
    name, title
        Of the scenario.
    scenario
        The file.
    scenario_sha256
        The digest of its text.
    seed
        Of the first variant.

    Examples
    --------
    >>> Provenance("first", "A ring", "first.toml", "0" * 64, 1).name
    'first'
    """

    name: str
    title: str
    scenario: str
    scenario_sha256: str
    seed: int


def protects_signals(guarantee: Guarantee) -> bool:
    """Whether anything is guaranteed for the signals."""
    if guarantee.status in (Status.PROVED, Status.CLAIMED, Status.ESTIMATED):
        return True
    return guarantee.signals is not None and protects_signals(guarantee.signals)


def compose(runs: Runs) -> Guarantee:
    """The guarantee of all runs together; they protect the same unit (`Guarantee.for_runs`)."""
    first, *others = [guarantee for guarantee, times in runs for _ in range(times)]
    return first.for_runs(others)


def combined_guarantee(results: Mapping[str, Result]) -> Guarantee | None:
    """What all results on measured signals guarantee together; None if none can be released.

    Where they protect different units, the common part counts: the signals alone, moving by the
    smallest radius.
    """
    runs: Runs = [
        (result.run_guarantee(epsilon), result.problem.replicas)
        for result in results.values()
        if result.measured and result.releasable
        for epsilon in result.problem.run_epsilons
    ]
    if not runs:
        return None
    if len({(guarantee.unit, guarantee.adversary) for guarantee, _ in runs}) > 1:
        runs = _in_common(runs)
    reason = ""
    if len({guarantee.unit for guarantee, _ in runs}) > 1:
        reason = "the variants measure moves of a signal in different ways, which do not add up"
    elif len({guarantee.adversary for guarantee, _ in runs}) > 1:
        reason = (
            "the variants hold against different observers, so that nothing is said of all of them"
        )
    if reason:
        return replace(
            runs[0][0], epsilon=math.inf, delta=1.0, status=Status.NONE, reason=reason, runs=()
        )
    return compose(runs)


def _in_common(runs: Runs) -> Runs:
    alone = [(guarantee.signals or guarantee, times) for guarantee, times in runs]
    known = [guarantee.unit for guarantee, _ in alone]
    least = min(known, key=lambda unit: unit.radius)
    steps = None if any(unit.steps is None for unit in known) else max(u.steps or 0 for u in known)
    online = any(unit.online for unit in known)
    return [
        (replace(guarantee, unit=_moved(guarantee.unit, least, steps, online)), times)
        for guarantee, times in alone
    ]


def _moved(unit: Unit, least: Unit, steps: float | None, online: bool) -> Unit:
    return replace(unit, radius=least.radius, width=least.width, steps=steps, online=online)
