"""From readings to an agent's part in a masked sum, and the noise for it, drawn ahead.

    statistic = sum over the readings of floor(xi(reading)/step + 1/2),    noise ~ GDL(1/h, t)

Both are whole numbers of grid steps, and as secret as the readings: they stay in memory, and leave
padded by masks (`agents/masked`). Every reading is clipped to the public bounds and put on the grid
by itself, so that one that moves moves the sum by no more than its own statistic.

A draw of 0 takes less time than another one, so that nothing visible may wait for a draw. Noise is
drawn ahead (`NoiseReserve`): when an agent is made, and between its queries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum.agents.events import Contribution
from veilsum.agents.manifest import Manifest
from veilsum.agents.release.guarantees import check_guarantee, guarantee, request_of
from veilsum.agents.release.reserve import NoiseReserve
from veilsum.agents.release.signals import checked_signal
from veilsum.errors import AgentError, SignalError
from veilsum.families.base import RELATIVE
from veilsum.privacy import Guarantee, MaskedDP, PrivacyEvent, plan
from veilsum.privacy.exact import SYSTEM, Entropy
from veilsum.privacy.exact.grid import floor_log2, paid_steps, to_grid
from veilsum.privacy.masked import MaskedParameters
from veilsum.privacy.mechanisms import MaskedMechanism
from veilsum.simulation import Problem

Floats = NDArray[np.float64]


class ContributionMechanism:
    """An agent's part in masked sums: its statistic on the grid, and its noise.

    Parameters
    ----------
    manifest : Manifest
        The terms of the network.
    problem : Problem
        Of which only the family is used.
    label : str
        The agent.
    research : bool
        Whether guarantees that are not proved are allowed, where no real signal is at stake.
    entropy : Entropy
        Where the random bytes come from: the operating system, except in tests.

    Attributes
    ----------
    family : Family
        Of the readings.
    guarantee : Guarantee
        What is guaranteed for one reading.
    terms : MaskedParameters
        Members, colluders, absentees, and the noise.
    noise : NoiseReserve
        Noise for one session each.

    Raises
    ------
    AgentError
        If nothing is masked, an agent must not make the guarantee, or the statistic has no bounds.
    """

    def __init__(
        self,
        manifest: Manifest,
        problem: Problem,
        label: str,
        *,
        research: bool = False,
        entropy: Entropy = SYSTEM,
    ) -> None:
        """Refuse what an agent must not guarantee, and draw the first noise."""
        family: Any = problem.family
        request = request_of(manifest)
        if repr(family) != manifest.family:
            raise AgentError(
                f"the manifest is for the family {manifest.family}; found {family!r}; an agent "
                "takes the family of its network"
            )
        if not request.masked:
            raise AgentError(
                f"{manifest.name} adds local noise (algorithm {manifest.algorithm}); its agents "
                "need a ReleaseMechanism"
            )
        manifest.link_weights(label)  # refuses a stranger
        if not research:
            check_guarantee(manifest, family, problem.privacy.budget_fractions)
        self.manifest, self.family, self.label = manifest, family, label
        self._mechanism, self.guarantee = _in_common(manifest, family)
        self._low, self._high = family.moves(math.inf).range
        self._exponent = floor_log2(Fraction(self._mechanism.step))
        self._check_grid()
        terms = self.terms
        self.noise = NoiseReserve(
            lambda: tuple(int(k) for k in terms.noise.draw(manifest.dimension, entropy))
        )

    def __repr__(self) -> str:
        """The agent, and nothing else."""
        return f"ContributionMechanism({self.label!r})"

    @property
    def terms(self) -> MaskedParameters:
        """Members, colluders, absentees, and the noise."""
        return self._mechanism.terms

    @property
    def step(self) -> float:
        """The grid."""
        return self._mechanism.step

    def event(self, reading: int = 1) -> PrivacyEvent:  # noqa: ARG002 - the same for all
        """The cost of one session, which the ledger charges when a value is sent."""
        return self._mechanism.event(released=True)

    def check(self, reading: int, signal: Any) -> Floats:
        """The reading within public bounds; refused outside the support, by number only.

        Parameters
        ----------
        reading : int
            Its number, for the message.
        signal
            The reading itself.

        Raises
        ------
        SignalError
            If it is not a number, has another shape or is outside the support.
        """
        return checked_signal(self.family, self.label, reading, signal)

    def contribution(self, query: int, signals: Sequence[Any]) -> Contribution:
        """The sum of the readings' statistics on the grid: secret.

        Parameters
        ----------
        query : int
            Which query; 1, 2, ...
        signals : sequence
            Its readings; at least one.

        Raises
        ------
        SignalError
            If a reading is outside the support.
        """
        rows = [self._on_grid(query, self.check(query, signal)) for signal in signals]
        if not rows:
            raise AgentError(f"query {query} needs at least one reading of {self.label}")
        return Contribution(query, tuple(map(sum, zip(*rows, strict=True))), len(rows))

    def _on_grid(self, query: int, checked: Floats) -> list[int]:
        """floor(xi/step + 1/2), without an error on the way."""
        xi = self.family.columns(checked).reshape(self.family.dimension)
        within = np.clip(xi, self._low, self._high)  # floats may be beyond by a last digit
        if (
            np.abs(xi - within) > RELATIVE * np.maximum(np.abs(self._low), np.abs(self._high))
        ).any():
            raise SignalError(
                f"the statistic of a reading of {self.label} for query {query} is outside the range "
                f"that {self.family.name} states for it; state a statistic_range that holds for its "
                "whole support"
            )
        return [int(k) for k in to_grid(within, self._exponent)]

    def _check_grid(self) -> None:
        """Bounds are finite, and the noise covers rounding and what floats do to a statistic."""
        if not (np.isfinite(self._low).all() and np.isfinite(self._high).all()):
            raise AgentError(
                f"the statistic of {self.family.name} has no public bounds, and a masked sum must "
                "have room for all of them; give the family bounds=(low, high)"
            )
        made = self._mechanism
        if made.whole:
            return
        error = self.family.moves(math.inf).error
        moved = (Fraction(made.sensitivity) + 2 * Fraction(error)) / Fraction(made.step)
        if paid_steps(moved, self.family.dimension) > self.terms.sensitivity_steps:
            raise AgentError(
                f"the noise covers a move by {self.terms.sensitivity_steps} grid steps, and with the "
                f"error of floats a statistic of {self.family.name} may move further; choose "
                "another radius"
            )


@lru_cache(maxsize=4)
def _in_common(manifest: Manifest, family: Any) -> tuple[MaskedMechanism, Guarantee]:
    """What all agents of a process have in common: the sampler's tables are made once."""
    request = request_of(manifest)
    assert isinstance(request, MaskedDP)
    made = plan(request, family, members=len(manifest.members)).mechanism()
    return made, guarantee(manifest, family)
