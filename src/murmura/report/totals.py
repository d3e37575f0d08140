"""What several runs over the same measured signals promise together.

Every run is a release of its own: replicas average the noise away, epsilons and variants add to
one another. By basic composition, runs with (eps_l, delta_l) are together

    (sum eps_l, sum delta_l)-DP

for what may change in all of them, against whoever sees them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import TYPE_CHECKING

from murmura.privacy import Guarantee, Loss, Status, compose
from murmura.privacy.accounting import Composition

if TYPE_CHECKING:
    from murmura.report.result import Result

Runs = Sequence[tuple[Guarantee, int]]  # what a run promises, and how many there are

_WEAKEST = (Status.NONE, Status.ESTIMATED, Status.CLAIMED, Status.PROVED)


def protects(guarantee: Guarantee) -> bool:
    """Whether something is promised for the signals: what they are computed into may be shown."""
    if guarantee.status in (Status.PROVED, Status.CLAIMED, Status.ESTIMATED):
        return True
    return guarantee.signals is not None and protects(guarantee.signals)


def total(runs: Runs) -> Guarantee:
    """What holds for all runs together; they protect the same unit."""
    first = min((made for made, _ in runs), key=_rank)
    count = sum(times for _, times in runs)
    if count == 1:
        return first
    alone = [(made.signals, times) for made, times in runs if made.signals is not None]
    signals = total(alone) if len(alone) == len(runs) else None
    if first.status is Status.NONE:
        return replace(first, signals=signals)
    spent = compose(chain.from_iterable(repeat(_price(made), times) for made, times in runs))
    words = f"{count:,} runs over the same signals, composed ({spent.method})"
    if spent.delta >= 1:
        void = f"{words}, add up to a delta of {spent.delta:.3g}"
        return replace(first, status=Status.NONE, reason=void, delta=1.0, loss=None)
    return replace(
        first,
        epsilon=spent.epsilon,
        delta=spent.delta,
        loss=_loss(spent),
        reason=f"{first.reason}; {words}",
        signals=signals,
    )


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
    return total(runs)


def _in_common(runs: Runs) -> Runs:
    alone = [(made.signals or made, times) for made, times in runs]
    radius = min(made.unit.radius for made, _ in alone)
    online = any(made.unit.online for made, _ in alone)
    return [
        (replace(made, unit=replace(made.unit, radius=radius, online=online)), times)
        for made, times in alone
    ]


def _rank(made: Guarantee) -> int:
    """A standing that is not in the list is weaker than all that are."""
    return _WEAKEST.index(made.status) if made.status in _WEAKEST else -1


def _price(made: Guarantee) -> Loss:
    """The price of a whole run, which `loss`, of one release, may be a part of."""
    return Loss(made.epsilon, made.delta, "approximate" if made.delta else "pure")


def _loss(spent: Composition) -> Loss:
    return Loss(spent.epsilon, spent.delta, "approximate" if spent.delta else "pure")
