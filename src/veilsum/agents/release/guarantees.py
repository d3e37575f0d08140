"""What a manifest guarantees: the protection it asks for, and how far that is proved for agents.

An agent's message carries running totals: whoever sees the one of round k has in effect seen the
k before it. Where noise enters once per signal that changes nothing, since all that follows is
computed from what was released. Network DP, which hides neighbours' estimates, agents do not keep
(`REFUTED_OF_AGENTS`).

Readings of asynchronous agents enter when they come, whatever the algorithm: each is a reading of a
stream, and the guarantee is for one of them. What agents release is drawn exactly, and the
guarantee is for the bits that leave.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from veilsum.agents.manifest import Manifest
from veilsum.errors import AgentError
from veilsum.privacy import (
    Batches,
    Guarantee,
    MaskedDP,
    PrivacyRequest,
    Status,
    guarantee_of,
)
from veilsum.privacy.requests import SMOOTH_AS_PUBLISHED, make_request
from veilsum.simulation import Problem

REMEMBERED = 8  # guarantees of manifests
HORIZON = 100  # rounds whose coefficients are looked at where the manifest names no last one


class AgentNeighbourhood(NamedTuple):
    """A network as one agent's plan needs it: itself, and its neighbours' weights."""

    size: int
    largest_neighbour_weight: NDArray[np.float64]

    @classmethod
    def of(cls, manifest: Manifest, label: str) -> Self:
        """max_j a_ij over what the manifest's links bring to the agent."""
        manifest.link_weights(label)  # refuses a stranger
        return cls(1, np.array([manifest.largest_weights[label]]))


def request_of(manifest: Manifest) -> PrivacyRequest:
    """The privacy request of a manifest.

    Parameters
    ----------
    manifest
        The terms of the network.
    """
    if manifest.masked:
        return MaskedDP(
            manifest.epsilon,
            manifest.delta,
            radius=manifest.radius,
            batches=_batches(manifest),
            colluders=manifest.colluders,
            absent=manifest.absent,
            attempts=manifest.attempts,
            steps=manifest.steps,
        )
    return make_request(
        manifest.protect, manifest.epsilon, manifest.delta, manifest.radius, manifest.sensitivity,
        manifest.mechanism, _batches(manifest),
    )  # fmt: skip


def _batches(manifest: Manifest) -> Batches | None:
    made = Batches(manifest.batch_growth, manifest.longest_batch)
    return None if made.trivial else made


def guarantee(terms: Problem | Manifest, family: Any = None, fraction: float = 1.0) -> Guarantee:
    """What agents guarantee for one reading, against whoever sees it all: of a problem or manifest.

    Network DP is refuted for agents; the signals stay protected (`Guarantee.signals`). A manifest
    knows a family by its name only: without `family` its sensitivity is taken to hold.

    Parameters
    ----------
    terms : Problem or Manifest
        What the agents run.
    family : Family, optional
        The family of the signals, where `terms` is a manifest; a problem has its own.
    fraction : float
        The budget of one agent over the manifest's epsilon, where budgets differ.

    Returns
    -------
    Guarantee
        For the bits that leave an agent.

    Examples
    --------
    >>> from veilsum.agents import Manifest, guarantee
    >>> from veilsum.scenario import Scenario
    >>> scenario = Scenario.parse('''
    ... network = {graph = "ring:4", weights = "lazy-metropolis"}
    ... family = {name = "normal", sigma = 1.0, bounds = [0.0, 1.0]}
    ... signals = {draw = {mu = 0.5}}
    ... privacy = {protect = "signal", epsilon = 1.0}
    ... algorithm = {name = "average", rounds = 20}
    ... ''')
    >>> problem = scenario.build().problem
    >>> str(guarantee(problem).status)
    'proved'
    >>> str(guarantee(Manifest.of(problem, "ring"), problem.family).status)
    'proved'
    """
    if isinstance(terms, Problem):
        asked = terms.privacy.at(terms.run_epsilons[0]) if terms.run_epsilons else terms.privacy
        made = guarantee_of(asked, terms.algorithm, terms.rounds, terms.family)
        return _for_agents(_on_a_grid(asked, made)).released_exactly()
    return _of_manifest(_Identical(terms), _Identical(family), fraction)


class _Identical:
    """An object that never changes, as a key: hashing a manifest would take all of its links."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identical) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


@lru_cache(maxsize=REMEMBERED)
def _of_manifest(manifest: _Identical, family: _Identical, fraction: float) -> Guarantee:
    """The same for all agents of a process."""
    terms: Manifest = manifest.value
    last = terms.rounds or HORIZON
    asked = request_of(terms)
    made = guarantee_of(
        asked.at(asked.epsilon * fraction), terms.made_algorithm, last, family.value
    )
    made = _on_a_grid(asked, made)
    return _for_agents(made, terms.asynchronous).released_exactly()


REFUTED_OF_AGENTS = (
    "Network DP does not hold for real agents: the low 25 bits of each message have no noise"
)


def _on_a_grid(asked: PrivacyRequest, made: Guarantee) -> Guarantee:
    """The published noise of log s is derived for ideal noise only: on a grid it is a claim."""
    if asked.sensitivity != SMOOTH_AS_PUBLISHED or made.status is not Status.PROVED:
        return made
    signals = None if made.signals is None else _on_a_grid(asked, made.signals)
    whole = None if made.transcript is None else _on_a_grid(asked, made.transcript)
    reason = f"what its rounding to a grid costs is not derived; {made.reason}"
    return replace(made, status=Status.CLAIMED, reason=reason, signals=signals, transcript=whole)


def covers_estimates(manifest: Manifest, stated: Guarantee) -> bool:
    """Whether a guarantee covers one who sees the estimates of all agents: observers are such.

    Not what protects neighbours' estimates from each other: those are what an observer would see.

    Parameters
    ----------
    manifest : Manifest
        The terms of the network.
    stated : Guarantee
        What its agents guarantee, as `guarantee` finds it.

    Returns
    -------
    bool
        Only for a guarantee that is proved.
    """
    proved = stated.status is Status.PROVED
    return proved and manifest.adds_noise and not manifest.hides_neighbours


def _for_agents(made: Guarantee, asynchronous: bool = False) -> Guarantee:
    """The guarantee as agents keep it; Network DP they do not."""
    if asynchronous:
        made = _of_stream(made)
    if not made.unit.neighbours or made.status is Status.NONE:
        return made
    advice = f"{REFUTED_OF_AGENTS}; ask for signal protection, which holds"
    return replace(
        made,
        status=Status.REFUTED,
        reason=advice,
        runs=(),
        transcript=None,
    )


def _of_stream(made: Guarantee) -> Guarantee:
    """The same guarantee for one reading of a stream: every reading is noised and released once."""
    signals = None if made.signals is None else _of_stream(made.signals)
    return replace(made, unit=replace(made.unit, online=True), signals=signals)


def check_guarantee(
    manifest: Manifest, family: Any = None, fractions: tuple[float, ...] | None = None
) -> None:
    """Raise `AgentError` unless the guarantee is proved and its scale public."""
    privacy, made = request_of(manifest), guarantee(manifest, family)
    why = ""
    if privacy.reads_signals:
        why = f"sensitivity {privacy.sensitivity} reads the scale of the noise off the signal"
    elif fractions is not None:
        why = "budget fractions may depend on data, and tell the agents apart"
    elif made.status is not Status.PROVED:
        why = str(made)
    if why:
        raise AgentError(
            f"an agent makes proved guarantees of a public scale only: {why.rstrip('.')}; choose "
            "another protection, or say --research where no real signal is at stake"
        )
