"""What an algorithm promises under a wanted protection, read off its coefficients.

- A statistic that enters a round without noise is released as it is: nothing is promised.
- A statistic that enters once, with noise that covers it, is protected for good, for all that
  follows is post-processing; one that enters k times must share its budget k ways.
- Neighbours' estimates are protected in the next message if noise of its round covers their
  weight; what later messages cost is bounded by `network_cost`.
- Where no noise keeps the promise for the family, `calibration.refusal` says why, and nothing is
  promised: promise and calibration ask the same function.

The rules hold for a custom algorithm as well.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from murmura.errors import PrivacyError, PrivacyWarning
from murmura.families.support import Metric
from murmura.laws.base import DOUBLY, Law
from murmura.laws.first_order import FirstOrder
from murmura.laws.graph_homomorphic import GraphHomomorphic
from murmura.laws.table import Table, table
from murmura.privacy.accounting import Loss
from murmura.privacy.calibration import refusal
from murmura.privacy.guarantee import Adversary, Guarantee, Sees, Status, Unit
from murmura.privacy.network_cost import Worst, growth, worst_cost
from murmura.privacy.want import (
    SMOOTH,
    SMOOTH_PRINTED,
    NetworkDP,
    NoPrivacy,
    Protection,
    SignalDP,
    Want,
)

POST_PROCESSING = (
    "each signal is noised once and all later messages are computed from what was released"
)
SLACK = 1 - 1e-12  # of comparisons between floats that should be equal


class Standing(NamedTuple):
    """The status of a promise, why, and which erratum says more."""

    status: Status
    reason: str
    erratum: int | None = None


def promise(want: Want, law: Law, rounds: int = 100, family: Any = None) -> Guarantee:
    """State what an algorithm promises under a wanted protection, over so many rounds.

    The promise is for ideal noise, real numbers of the stated law; agents, which draw exactly,
    state the same for the bits that they release.

    Parameters
    ----------
    want
        The protection asked for.
    law
        The algorithm.
    rounds
        How many rounds are run: algorithms are checked round by round.
    family
        The family of the signals. Without it, its sensitivity is taken to hold.

    Returns
    -------
    Guarantee
        For one reading and, with Network DP, a neighbour's estimate of one round, against whoever
        sees the next message of an agent; `for_transcript` gives all messages of an agent.

    Examples
    --------
    >>> from murmura.laws import Average
    >>> promise(SignalDP(epsilon=1.0), Average()).status
    <Status.PROVED: 'proved'>
    """
    if isinstance(want, NoPrivacy):
        return Guarantee(
            float("inf"), 0.0, Unit(0.0), Adversary(Sees.EVERYONE), Status.NONE, "no noise is added"
        )
    steps = table(law, rounds)
    standing = _vouched(_standing(want, steps, family), family)
    loss = _loss(want, steps)
    made = Guarantee(
        epsilon=loss.epsilon * _uses(law, steps),
        delta=want.delta if _uses(law, steps) > 1 else loss.delta,
        unit=_unit(want, law, family),
        adversary=Adversary(Sees.EVERYONE),
        status=standing.status,
        reason=standing.reason,
        erratum=standing.erratum,
        loss=None if standing.status is Status.NONE else loss,
    )
    return _hiding(made, want, steps, family) if isinstance(want, NetworkDP) else made


def announce(guarantee: Guarantee, want: Want, strict: bool = False) -> None:
    """Warn of a promise that is not proved, or refuse it when strict."""
    if isinstance(want, NoPrivacy) or guarantee.status is Status.PROVED:
        return
    if strict:
        raise PrivacyError(f"strict mode accepts proved promises only. {guarantee}")
    warnings.warn(str(guarantee), PrivacyWarning, stacklevel=3)


def _unit(want: Protection, law: Law, family: Any) -> Unit:
    metric = getattr(family, "metric", Metric.ABSOLUTE)
    return Unit(want.radius, law.online, want.protects == "network", metric=metric)


def _hiding(made: Guarantee, want: NetworkDP, steps: Table, family: Any) -> Guarantee:
    """The promise of Network DP: for the next message, the transcript, and the signals alone."""
    alone = SignalDP(want.epsilon, want.delta, want.radius, want.sensitivity, want.shares)
    signals = promise(alone, steps.law, steps.rounds, family)
    made = replace(made, adversary=Adversary(Sees.NEXT), signals=signals)
    if made.status is Status.NONE:
        return made
    assert made.loss is not None
    epsilon = max(made.loss.epsilon, made.epsilon)  # of the next message, or of a reading
    worst = worst_cost(steps.law, steps.rounds)
    total = max(made.loss.epsilon * worst.cost, made.epsilon)
    if made.status is Status.REFUTED:  # claimed for all messages alike
        total = epsilon
    else:
        made = replace(made, reason=f"{made.reason}; {_later(worst, steps, total)}")
    transcript = replace(
        made,
        epsilon=total,
        adversary=Adversary(Sees.TRANSCRIPT, steps.rounds),
        loss=None,
    )
    return replace(made, epsilon=epsilon, transcript=transcript, growth=growth(steps))


def _later(worst: Worst, steps: Table, total: float) -> str:
    return (
        "a later message costs more, and several add up: all messages of an agent over "
        f"{steps.rounds} rounds together at most epsilon = {total:.4g} "
        f"(an estimate that moves in round {worst.moved})"
    )


def _uses(law: Law, steps: Table) -> int:
    """In how many rounds one signal is used: 1, or all that share its budget."""
    return steps.releases if law.splits_budget and not law.online else 1


def _loss(want: Protection, steps: Table) -> Loss:
    """The cost of one release: Laplace noise on a fixed sensitivity, or (epsilon, delta)."""
    parts = steps.releases if steps.law.splits_budget else 1
    epsilon = want.epsilon * max(want.shares or (1.0,)) / max(parts, 1)
    if want.delta:
        return Loss(epsilon, want.delta / max(parts, 1), "approximate")
    return Loss(epsilon, mechanism="laplace")


def _vouched(standing: Standing, family: Any) -> Standing:
    if standing.status is not Status.PROVED or family is None:
        return standing
    if getattr(family, "sensitivity_is_proved", False):
        return standing
    reason = f"the sensitivity of {family.name} is its author's word; if it holds, "
    return Standing(Status.CLAIMED, reason + standing.reason)


def _standing(want: Protection, steps: Table, family: Any) -> Standing:
    law = steps.law
    broken = _broken(steps)
    if broken is not None:
        return broken
    refused = None if family is None else refusal(want, family)
    if refused is not None:
        return Standing(Status.NONE, refused.rstrip("."))
    if want.protects == "network" and law.noises_links:
        return Standing(
            Status.NONE, "whoever sees several links of an agent averages the links' noise away"
        )
    if want.sensitivity == SMOOTH_PRINTED:
        reason = "the smooth sensitivity as published is not smooth, and the audit refutes it"
        return Standing(Status.REFUTED, reason, 2)
    if want.protects == "network":
        return _network_standing(steps)
    if law.splits_budget:
        return Standing(Status.PROVED, _divided(want, steps))
    if want.sensitivity == SMOOTH:
        reason = "the noise follows the smooth sensitivity of the bounded domain; "
        return Standing(Status.PROVED, reason + POST_PROCESSING)
    return Standing(Status.PROVED, POST_PROCESSING)


def _divided(want: Protection, steps: Table) -> str:
    parts, whole = steps.releases, want.epsilon * max(want.shares or (1.0,))
    if steps.law.noises_messages:
        return (
            f"the start and each of {parts - 1} messages have their share of the budget, and they "
            "compose; the estimates themselves are not sent, and nothing protects them"
        )
    if steps.law.online:
        return f"each of {parts} readings has its share of epsilon = {whole:.4g} for all of them"
    return f"each of {parts} rounds has its share of the budget, and they compose"


def _broken(steps: Table) -> Standing | None:
    """Find a use of the signal that no noise covers."""
    law = steps.law
    bare = np.flatnonzero((steps.learn != 0) & (steps.noise == 0))
    if bare.size:
        reason = f"law {law.name} uses the statistic without noise in round {bare[0]}"
        return Standing(Status.NONE, reason, 9 if isinstance(law, FirstOrder) else None)
    short = _understated(steps)
    if short is not None:
        return Standing(
            Status.NONE, f"law {law.name} understates how far round {short} moves with the signal"
        )
    if law.noises_messages and type(law) is not GraphHomomorphic:
        return Standing(
            Status.NONE,
            f"law {law.name} takes its noise off again, and nobody has derived what that reveals",
        )
    if law.online and law.start.learn:
        return Standing(Status.NONE, f"law {law.name} uses the first reading in rounds 0 and 1")
    if not law.online and not law.splits_budget and np.count_nonzero(steps.learn) > 1:
        return Standing(
            Status.NONE,
            f"law {law.name} uses a signal in several rounds that do not share the budget",
        )
    return None


def _understated(steps: Table) -> int | None:
    """Find a round whose stated sensitivity is not at least what its coefficients say."""
    noisy = np.flatnonzero(steps.noise)
    moved = np.abs(steps.learn[noisy] / steps.noise[noisy])
    short = noisy[~(steps.signal[noisy] >= moved * SLACK)]
    return int(short[0]) if short.size else None


def _covered(steps: Table) -> bool:
    """Whether noise of every round covers the weight that neighbours have in it."""
    mixed = np.flatnonzero(steps.mix)
    if not steps.noise[mixed].all():
        return False
    weight = np.abs(steps.mix[mixed] / steps.noise[mixed])
    return bool((steps.network[mixed] >= weight * SLACK).all())


def _network_standing(steps: Table) -> Standing:
    law = steps.law
    if law.noises_messages:
        return Standing(
            Status.NONE,
            f"law {law.name} takes its noise off again, so that an estimate that moves shows in "
            "every later message; ask for signal protection, which holds",
        )
    if law.ratio:
        return Standing(
            Status.NONE,
            f"an estimate of law {law.name} that moves by 1 moves its sum by the weight, which "
            "grows and which the noise does not cover; ask for signal protection, which holds",
        )
    if _covered(steps):
        if law.kinds != frozenset({DOUBLY}):
            return Standing(
                Status.NONE,
                f"law {law.name} runs on weights that are not doubly stochastic, where an estimate "
                "that moves can grow; ask for signal protection, which holds",
            )
        return Standing(
            Status.PROVED,
            "noise in every round covers the neighbours' weight in the next message",
        )
    if law.network_claim:
        return Standing(
            Status.REFUTED,
            "the proof of Corollary 1 takes one coordinate of a vector map for the vector, and "
            "the audit refutes it; the signals alone are protected by post-processing",
            5,
        )
    return Standing(
        Status.NONE,
        f"law {law.name} mixes neighbours' estimates in rounds without noise; "
        "ask for signal protection, which holds",
    )
