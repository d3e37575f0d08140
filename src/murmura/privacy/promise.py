"""What a law promises under a wanted protection, read off its coefficients.

- A statistic that enters a round without noise is released as it is: nothing is promised.
- A statistic that enters once, with noise that covers it, is protected for good, for all that
  follows is post-processing; one that enters k times must share its budget k ways.
- Neighbours' estimates are protected in a message if noise of its round covers their weight.

The rules hold for a law of one's own as well.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, NamedTuple

from murmura.errors import PrivacyError, PrivacyWarning
from murmura.laws.base import Coefficients, Law
from murmura.privacy.accounting import Loss
from murmura.privacy.calibration import releases
from murmura.privacy.guarantee import Adversary, Guarantee, Sees, Status, Unit
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


class Standing(NamedTuple):
    """How a promise stands, why, and which erratum says more."""

    status: Status
    reason: str
    erratum: int | None = None


def promise(want: Want, law: Law, rounds: int = 100, family: Any = None) -> Guarantee:
    """State what a law promises under a wanted protection, over so many rounds.

    Without a family, its sensitivity is taken to hold.
    """
    if isinstance(want, NoPrivacy):
        return Guarantee(
            float("inf"), 0.0, Unit(0.0), Adversary(Sees.EVERYONE), Status.NONE, "no noise is added"
        )
    steps = [law.at(t) for t in range(rounds + 1)]
    standing = _vouched(_standing(want, law, steps), family)
    hides = want.protects == "network"
    made = Guarantee(
        epsilon=want.epsilon * max(want.shares or (1.0,)),
        delta=want.delta,
        unit=Unit(want.radius, online=law.online, neighbours=hides),
        adversary=Adversary(Sees.MESSAGES if hides else Sees.EVERYONE),
        status=standing.status,
        reason=standing.reason,
        erratum=standing.erratum,
        loss=None if standing.status is Status.NONE else _loss(want, law, rounds),
    )
    alone = promise(_signals_alone(want), law, rounds, family) if hides else None
    return replace(made, signals=alone)


def announce(guarantee: Guarantee, want: Want, strict: bool = False) -> None:
    """Warn of a promise that is not proved, or refuse it when strict."""
    if isinstance(want, NoPrivacy) or guarantee.status is Status.PROVED:
        return
    if strict:
        raise PrivacyError(f"strict mode accepts proved promises only. {guarantee}")
    warnings.warn(str(guarantee), PrivacyWarning, stacklevel=3)


def _signals_alone(want: Protection) -> SignalDP:
    """The protection of the signals that a wider one contains: its noise is at least as large."""
    assert isinstance(want, NetworkDP)
    return SignalDP(want.epsilon, want.delta, want.radius, want.sensitivity, want.shares)


def _loss(want: Protection, law: Law, rounds: int) -> Loss:
    """The price of one release: Laplace noise on a fixed sensitivity, or (epsilon, delta)."""
    epsilon = want.epsilon * max(want.shares or (1.0,))
    if want.delta:
        return Loss(epsilon, want.delta, "approximate")
    parts = releases(law, rounds) if law.splits_budget else 1
    return Loss(epsilon / parts, mechanism="laplace")


def _vouched(standing: Standing, family: Any) -> Standing:
    if standing.status is not Status.PROVED or family is None:
        return standing
    if getattr(family, "sensitivity_is_proved", False):
        return standing
    reason = f"the sensitivity of {family.name} is its author's word; if it holds, "
    return Standing(Status.CLAIMED, reason + standing.reason)


def _standing(want: Protection, law: Law, steps: list[Coefficients]) -> Standing:
    broken = _broken(law, steps)
    if broken is not None:
        return broken
    if want.protects == "network" and law.noises_links:
        return Standing(
            Status.NONE, "whoever sees several links of an agent averages the links' noise away"
        )
    if want.sensitivity == SMOOTH_PRINTED:
        return Standing(Status.CLAIMED, "the printed smooth sensitivity is not smooth", 2)
    if want.protects == "network":
        return _network_standing(law, steps)
    if want.sensitivity == SMOOTH and not law.splits_budget:
        reason = "the noise follows the smooth sensitivity of the bounded domain; "
        return Standing(Status.PROVED, reason + POST_PROCESSING)
    if law.splits_budget:
        return Standing(Status.PROVED, "each round has its share of the budget and they compose")
    return Standing(Status.PROVED, POST_PROCESSING)


def _broken(law: Law, steps: list[Coefficients]) -> Standing | None:
    """Find a use of the signal that no noise covers."""
    bare = [t for t, now in enumerate(steps) if now.learn and not now.noise]
    if bare:
        reason = f"law {law.name} uses the statistic without noise in round {bare[0]}"
        return Standing(Status.NONE, reason, 9 if law.name.startswith("first-order") else None)
    short = _understated(law, steps)
    if short is not None:
        return Standing(
            Status.NONE, f"law {law.name} understates how far round {short} moves with the signal"
        )
    if law.online and law.start.learn:
        return Standing(Status.NONE, f"law {law.name} uses the first reading in rounds 0 and 1")
    if not law.online and not law.splits_budget and sum(bool(now.learn) for now in steps) > 1:
        return Standing(
            Status.NONE,
            f"law {law.name} uses a signal in several rounds that do not share the budget",
        )
    return None


def _understated(law: Law, steps: list[Coefficients]) -> int | None:
    """Find a round whose stated sensitivity is below what its coefficients say."""
    for t, now in enumerate(steps):
        if now.noise and law.sensitivities(t).signal < abs(now.learn / now.noise) * (1 - 1e-12):
            return t
    return None


def _covers(law: Law, t: int, now: Coefficients) -> bool:
    """Whether noise of the round covers the weight that neighbours have in it."""
    return bool(now.noise) and law.sensitivities(t).network >= abs(now.mix / now.noise) * (
        1 - 1e-12
    )


def _network_standing(law: Law, steps: list[Coefficients]) -> Standing:
    if law.ratio:
        return Standing(
            Status.NONE,
            f"an estimate of law {law.name} that moves by 1 moves its sum by the weight, which "
            "grows and which the noise does not cover; ask for signal protection, which holds",
        )
    if all(_covers(law, t, now) for t, now in enumerate(steps) if now.mix):
        return Standing(
            Status.PROVED,
            "noise in every round covers the neighbours' weight; k messages cost k times",
        )
    if law.name == "average":
        return Standing(
            Status.CLAIMED,
            "the proof of Corollary 1 takes one coordinate of a vector map for the vector; "
            "the signals alone are protected by post-processing",
            5,
        )
    return Standing(
        Status.NONE,
        f"law {law.name} mixes neighbours' estimates in rounds without noise; "
        "ask for signal protection, which holds",
    )
