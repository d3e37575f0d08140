"""What a manifest promises: the protection it asks for, and how far that is proved for agents.

An agent's message carries running totals: whoever sees the one of round k has in effect seen the
k before it. Where noise enters once per signal that changes nothing, since all that follows is
computed from what was released. Where neighbours' estimates are hidden by noise of every round,
the promise is for all messages of an agent over all rounds (`Guarantee.for_transcript`).

Readings of asynchronous agents enter when they come, whatever the algorithm: each is a reading of a
stream, and the promise is for one of them. What agents release is drawn exactly, and the promise is
for the bits that leave.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from murmura.agent.manifest import Manifest
from murmura.engine import Problem
from murmura.errors import AgentError
from murmura.privacy import Guarantee, NetworkDP, NoPrivacy, SignalDP, Status, Want, promise
from murmura.privacy.want import Protection

HORIZON = 100  # rounds whose coefficients are looked at where the manifest names no last one


class OneAgent(NamedTuple):
    """A network as one agent's calibration needs it: itself, and its neighbours' weights."""

    size: int
    largest_neighbour_weight: NDArray[np.float64]

    @classmethod
    def of(cls, manifest: Manifest, label: str) -> Self:
        """max_j a_ij over what the manifest's links bring to the agent."""
        manifest.shares(label)  # refuses a stranger
        heard = [share for _, to, share in manifest.links if to == label]
        return cls(1, np.array([max(heard, default=0.0)]))


def want_of(manifest: Manifest) -> Want:
    """The protection that the manifest names."""
    if manifest.protect == NoPrivacy.protects:
        return NoPrivacy()
    kind = NetworkDP if manifest.hides_neighbours else SignalDP
    return kind(manifest.epsilon, manifest.delta, manifest.radius, manifest.sensitivity)


def guarantee(terms: Problem | Manifest, family: Any = None) -> Guarantee:
    """What agents promise for one reading, against whoever sees it all: of a problem or manifest.

    Network DP is stated for as many messages as there are rounds; without a last round, or where
    readings enter when they come, nothing is promised for neighbours (the signals stay protected:
    `Guarantee.signals`). A manifest knows a family by its name only: without `family` its
    sensitivity is taken to hold.
    """
    if isinstance(terms, Problem):
        want = terms.want
        asked = want if isinstance(want, NoPrivacy) else want.at(terms.budgets[0])
        made = promise(asked, terms.law, terms.rounds, terms.family)
        return _for_agents(made, terms.rounds).released_exactly()
    last = terms.rounds or HORIZON
    made = promise(want_of(terms), terms.made_law, last, family)
    return _for_agents(made, terms.rounds, terms.asynchronous).released_exactly()


def _for_agents(made: Guarantee, rounds: int, asynchronous: bool = False) -> Guarantee:
    if asynchronous:
        made = _of_stream(made)
    if not made.unit.neighbours:
        return made
    if asynchronous:
        return _nothing(made, "without common rounds no noise is tied to what neighbours push")
    if rounds == 0:
        return _nothing(
            made,
            "an estimate that moves in round s costs up to s/u times epsilon in each later round "
            "u, and without a last round there is no end to s",
        )
    whole = made.for_transcript()
    if whole.status is Status.NONE:
        return whole
    reason = (
        f"{whole.reason}; a message carries running totals, so the last one counts for all, and "
        "every round must have a release"
    )
    return replace(whole, reason=reason)


def _of_stream(made: Guarantee) -> Guarantee:
    """The same promise for one reading of a stream: every reading is noised and released once."""
    signals = None if made.signals is None else _of_stream(made.signals)
    return replace(made, unit=replace(made.unit, online=True), signals=signals)


def _nothing(made: Guarantee, reason: str) -> Guarantee:
    advice = f"{reason}; ask for signal protection, which holds"
    return replace(made, status=Status.NONE, reason=advice, loss=None, transcript=None)


def check_promise(
    manifest: Manifest, family: Any = None, shares: tuple[float, ...] | None = None
) -> None:
    """Raise `AgentError` unless the promise is proved and its scale public."""
    want, made = want_of(manifest), guarantee(manifest, family)
    why = ""
    if isinstance(want, Protection) and want.reads_signals:
        why = f"sensitivity {want.sensitivity} reads the scale of the noise off the signal"
    elif shares is not None:
        why = "budgets of their own may depend on data, and tell the agents apart"
    elif made.status is not Status.PROVED:
        why = str(made)
    if why:
        raise AgentError(
            f"an agent makes proved promises of a public scale only: {why.rstrip('.')}; choose "
            "another protection, or say --research where no real signal is at stake"
        )
