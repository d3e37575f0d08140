"""What a run promises, in a sentence.

A promise names epsilon and delta, the unit (what may change), the adversary (who looks, and for
how long) and its standing: `proved`, `claimed` (the paper says so), or `none`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from murmura.laws.base import Coefficients, Law
from murmura.privacy.want import SMOOTH_PRINTED, NoPrivacy, Protection, Want

PROVED, CLAIMED, NONE = "proved", "claimed", "none"

POST_PROCESSING = (
    "each signal is noised once and all later messages are computed from what was released"
)


@dataclass(frozen=True)
class Guarantee:
    """A promise: what, against whom, how strongly, and why it stands or does not."""

    status: str
    epsilon: float
    delta: float
    unit: str
    adversary: str
    reason: str

    def __str__(self) -> str:
        """Say it as a sentence."""
        if self.status == NONE:
            return f"No privacy is promised: {self.reason}."
        delta = f" and delta = {self.delta:g}" if self.delta else ""
        words = (
            f"differential privacy with epsilon = {self.epsilon:g}{delta} for {self.unit}, "
            f"against {self.adversary}"
        )
        if self.status == PROVED:
            return f"Proved: {words}; {self.reason}."
        return f"Claimed, not proved: {words}; {self.reason}."

    def to_dict(self) -> dict[str, Any]:
        """Give the fields as plain data."""
        return asdict(self)


def promise(want: Want, law: Law, rounds: int = 100, family: Any = None) -> Guarantee:
    """State what a law promises under a wanted protection, over so many rounds.

    The standing is read off the coefficients, so it holds for a law of one's own as well:

    - a statistic that enters a round without noise is released as it is: nothing is promised;
    - a statistic that enters once, with noise that covers it, is protected for good, for all that
      follows is post-processing; entering k times it must share one budget k ways;
    - neighbours' estimates are protected in a message if noise of its round covers their weight.
    """
    if isinstance(want, NoPrivacy):
        return Guarantee(NONE, float("inf"), 0.0, "nothing", "anyone", "no noise is added")
    status, reason = _standing(want, law, [law.at(t) for t in range(rounds + 1)])
    if status == PROVED and not getattr(family, "sensitivity_is_proved", True):
        status = CLAIMED
        reason = f"the sensitivity of {family.name} is its author's word; if it holds, {reason}"
    return Guarantee(
        status, want.epsilon, want.delta, _unit(want, law), _adversary(want, law), reason
    )


def _unit(want: Protection, law: Law) -> str:
    reading = "any one reading of a stream" if law.online else "an agent's signal"
    moved = f"{reading} that moves by at most {want.radius:g} in its own units"
    if want.protects == "network":
        return f"{moved}, or a neighbour's estimate that moves by at most 1"
    return moved


def _adversary(want: Protection, law: Law) -> str:
    if want.protects == "network" or law.name == "naive-network":
        return "whoever sees one message of an agent"
    return "whoever sees all messages of all agents"


def _standing(want: Protection, law: Law, steps: list[Coefficients]) -> tuple[str, str]:
    bare = [t for t, now in enumerate(steps) if now.learn and not now.noise]
    if bare:
        return NONE, f"law {law.name} uses the statistic without noise in round {bare[0]}"
    if not law.online and not law.splits_budget and sum(bool(now.learn) for now in steps) > 1:
        return NONE, f"law {law.name} uses a signal in several rounds that do not share the budget"
    if law.online and law.start.learn:
        return NONE, f"law {law.name} uses the first reading in rounds 0 and 1"
    if want.protects == "network" and law.noises_links:
        return NONE, "whoever sees several links of an agent averages the links' noise away"
    if want.sensitivity == SMOOTH_PRINTED:
        return CLAIMED, "the printed smooth sensitivity is not smooth (erratum 2)"
    if want.protects == "network":
        return _network_standing(law, steps)
    if law.splits_budget:
        return PROVED, "each round has its share of the budget and the rounds compose"
    return PROVED, POST_PROCESSING


def _network_standing(law: Law, steps: list[Coefficients]) -> tuple[str, str]:
    if law.ratio:
        return NONE, (
            f"an estimate of law {law.name} that moves by 1 moves its sum by the weight, which "
            "grows and which the noise does not cover; ask for signal protection, which holds"
        )
    if all(now.noise for now in steps if now.mix):
        return PROVED, "noise in every round covers the neighbours' weight; k messages cost k times"
    if law.name == "average":
        return CLAIMED, (
            "the proof of Corollary 1 takes one coordinate of a vector map for the vector "
            "(erratum 5); the signals alone are protected by post-processing"
        )
    return NONE, (
        f"law {law.name} mixes neighbours' estimates in rounds without noise; "
        "ask for signal protection, which holds"
    )
