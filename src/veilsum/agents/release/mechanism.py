"""From a reading to what may leave the agent: drawn exactly, in the network's units.

    released = M(xi(reading)),    M the mechanism that `privacy.plan` chooses for the round:

discrete Laplace noise of scale max(Delta, a_i)/epsilon on a grid, or any other mechanism that the
manifest names. Delta is the statistic's sensitivity and a_i, the largest weight of a neighbour,
counts when neighbours' estimates are protected too. The grid and the scale are public, and every
release is a whole number of the manifest's units, which are finer.

    released = M(xi(reading 1) + ... + xi(reading L))    for a batch of L readings:

each is clipped to the bounds and put on the grid by itself, and the sum is one of integers. A
reading that moves then moves the sum by no more than its own statistic, so one draw of the noise of
a single reading protects every reading of the batch.

A scale read off the signal (smooth sensitivity), no noise, budget fractions and guarantees that are
not proved are for research only. Under smooth sensitivity the grid comes from the least scale that
the bounds allow, never from the reading's own: a grid that follows the scale would show it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from veilsum.agents.events import Released
from veilsum.agents.manifest import Manifest
from veilsum.agents.release.guarantees import (
    AgentNeighbourhood,
    check_guarantee,
    guarantee,
    request_of,
)
from veilsum.agents.release.signals import checked_signal
from veilsum.errors import AgentError
from veilsum.privacy import (
    Mechanism,
    PrivacyEvent,
    plan,
)
from veilsum.privacy.exact import SYSTEM, Entropy
from veilsum.privacy.exact.grid import to_grid
from veilsum.simulation import Problem

Floats = NDArray[np.float64]


class Charges(Protocol):
    """What a release mechanism needs of a ledger."""

    def charge(
        self,
        reading: int,
        round: int,
        cost: PrivacyEvent | None,
        draw: Any,
        origins: str | Sequence[str] = (),
        readings: int = 1,
        last: int | None = None,
        slot: int | None = None,
        /,
    ) -> Released:
        """Charge and commit a release, drawing it if there is none yet."""


class ReleaseMechanism:
    """Draws the releases of one agent; knows its readings only while it draws.

    Parameters
    ----------
    manifest
        The terms of the network.
    problem
        Of which only the family and the budget fractions are used.
    label
        The agent.
    research
        Whether guarantees that are not proved are allowed, where no real signal is at stake.

    Raises
    ------
    AgentError
        If an agent must not make the guarantee, or its grid is finer than the manifest's unit.

    Examples
    --------
    >>> from veilsum.agents import Manifest, ReleaseMechanism
    >>> from veilsum.scenario import Scenario
    >>> scenario = Scenario.parse('''
    ... network = {graph = "ring:4", weights = "lazy-metropolis"}
    ... family = {name = "normal", sigma = 1.0, bounds = [0.0, 1.0]}
    ... signals = {draw = {mu = 0.5}}
    ... privacy = {protect = "signal", epsilon = 1.0}
    ... algorithm = {name = "average", rounds = 20}
    ... ''')
    >>> problem = scenario.build().problem
    >>> mechanism = ReleaseMechanism(Manifest.of(problem, "ring"), problem, "0")
    >>> mechanism.event(1).epsilon, round(mechanism.mechanism(1).scale, 6)
    (1.0, 1.0)
    >>> len(mechanism.draw(1, 0.25))  # one whole number for each component, new at every call
    1
    """

    def __init__(
        self,
        manifest: Manifest,
        problem: Problem,
        label: str,
        *,
        research: bool = False,
    ) -> None:
        """Refuse what an agent must not guarantee."""
        family, fractions = problem.family, problem.privacy.budget_fractions
        if repr(family) != manifest.family:
            raise AgentError(
                f"the manifest is for the family {manifest.family}; found {family!r}; an agent "
                "takes the family of its network"
            )
        self.manifest, self.family, self.label = manifest, family, label
        if not research:
            check_guarantee(manifest, family, fractions)
        self.algorithm = manifest.made_algorithm
        fraction = _fraction(manifest, label, fractions)
        self.epsilon = manifest.epsilon * fraction
        self.privacy = request_of(manifest)
        self.plan = plan(
            self.privacy, family, self.algorithm, AgentNeighbourhood.of(manifest, label),
            max(manifest.rounds, 1),
        )  # fmt: skip
        self._last: tuple[tuple[float, int], Mechanism] | None = None
        self._check_units()
        self.guarantee = guarantee(manifest, family, fraction).released_exactly(self.event(1))

    def event(self, reading: int, round: int | None = None) -> PrivacyEvent | None:
        """The privacy event of a release, which the ledger charges; None without a guarantee.

        Parameters
        ----------
        reading
            The number of the reading.
        round
            The round in which it enters, which is its own number by default.
        """
        return (
            self.mechanism(reading, round).event(released=True) if self.privacy.adds_noise else None
        )

    def mechanism(self, reading: int, round: int | None = None) -> Mechanism:
        """The mechanism for a reading that enters in `round`, its own number by default.

        For Laplace noise, sensitivity = max(Delta |innovation/noise|, a_i |mixing/noise|).
        """
        key = self.epsilon, self._round(reading, round)
        if self._last is None or self._last[0] != key:
            self._last = key, self.plan.mechanism(*key, released=True)
        return self._last[1]

    def draw(
        self, reading: int, signal: Any, round: int | None = None, *, entropy: Entropy = SYSTEM
    ) -> tuple[int, ...]:
        """A new release of a reading, in units of 2^-unit: never send one without charging it.

        Parameters
        ----------
        reading, round
            As for `event`.
        signal
            The reading itself.
        entropy
            Where the random bytes come from: the operating system, except in tests.

        Raises
        ------
        SignalError
            If the reading is outside the support; the message has its number and not its value.
        """
        checked = self.check(reading, signal)
        mechanism = self.mechanism(reading, round)
        if self.privacy.reads_signals:
            values = mechanism.release(checked.reshape(1), entropy=entropy)
            return tuple(self._within(Fraction(float(value))) for value in values)
        xi = self._statistic(checked)
        if not self.privacy.adds_noise:
            return tuple(self._within(value) for value in self._in_units(xi))
        values = mechanism.release(mechanism.clip(xi), entropy=entropy)
        return tuple(self._within(Fraction(float(value))) for value in values)

    def draw_sum(
        self,
        reading: int,
        signals: Sequence[Any],
        round: int | None = None,
        *,
        entropy: Entropy = SYSTEM,
    ) -> tuple[int, ...]:
        """A new release of the sum of a batch, with the noise of one reading.

        Parameters
        ----------
        reading, round, entropy
            As for `draw`; the number is that of the whole batch.
        signals
            Its readings.

        Raises
        ------
        PrivacyError
            If the mechanism does not add noise of a public scale, which is all that protects a sum.
        SignalError
            If a reading is outside the support.
        """
        mechanism, count = self.mechanism(reading, round), len(signals)
        rows = [self._statistic(self.check(reading, signal)) for signal in signals]
        if not self.privacy.adds_noise:
            units = [self._in_units(xi) for xi in rows]
            return tuple(self._within(sum(column), count) for column in zip(*units, strict=True))
        values = mechanism.release_sum(np.array(rows), entropy=entropy)
        return tuple(self._within(Fraction(float(value)), count) for value in values)

    def release(
        self,
        ledger: Charges,
        reading: int,
        signal: Any,
        round: int | None = None,
        *,
        origin: str = "",
        last: int | None = None,
        slot: int | None = None,
        entropy: Entropy = SYSTEM,
    ) -> Released:
        """The release of a reading: the one in the ledger, or a new one that the ledger charged.

        Parameters
        ----------
        ledger
            Where the release is charged and committed before it is returned.
        reading, signal, round, entropy
            As for `draw`.
        origin
            The name that the ledger gave to what the reading is identified by.
        last
            Its place among all readings of the source; its number by default.
        slot
            That of the schedule, if there is one.
        """
        return ledger.charge(
            reading,
            self._round(reading, round),
            self.event(reading, round),
            lambda: self.draw(reading, signal, round, entropy=entropy),
            origin,
            1,
            last,
            slot,
        )

    def release_sum(
        self,
        ledger: Charges,
        reading: int,
        signals: Sequence[Any],
        round: int | None = None,
        *,
        origins: Sequence[str] = (),
        last: int | None = None,
        slot: int | None = None,
        entropy: Entropy = SYSTEM,
    ) -> Released:
        """The release of a batch: the one in the ledger, or a new one that the ledger charged.

        Parameters
        ----------
        ledger
            Where the release is charged and committed before it is returned.
        reading, signals, round, entropy
            As for `draw_sum`.
        origins
            The origins of the source's readings up to `last`, empty for one that is not in it.
        last
            The place of the last one among all readings of the source; `reading` by default.
        slot
            That of the number in the schedule, if there is one.
        """
        return ledger.charge(
            reading,
            self._round(reading, round),
            self.event(reading, round),
            lambda: self.draw_sum(reading, signals, round, entropy=entropy),
            origins,
            len(signals),
            reading if last is None else last,
            slot,
        )

    def _round(self, reading: int, round: int | None) -> int:
        if self.algorithm.online:
            return reading if round is None else round
        if reading > 1 and not self.manifest.asynchronous:
            raise AgentError(
                f"algorithm {self.algorithm.name} takes one reading of each agent; found reading "
                f"{reading}; "
                "an online algorithm such as learn takes more"
            )
        return 0

    def check(self, reading: int, signal: Any) -> Floats:
        """The reading within public bounds; refused outside the support, by number only.

        Parameters
        ----------
        reading
            Its number, for the message.
        signal
            The reading itself.

        Raises
        ------
        SignalError
            If it is not a number, has another shape or is outside the support.
        """
        return checked_signal(self.family, self.label, reading, signal)

    def _statistic(self, checked: Floats) -> Floats:
        return self.family.columns(checked).reshape(self.family.dimension)

    def _in_units(self, xi: Floats) -> list[Fraction]:
        """Without noise: the nearest whole number of units."""
        unit = Fraction(2) ** -self.manifest.unit
        return [int(k) * unit for k in to_grid(xi, -self.manifest.unit)]

    def _within(self, value: Fraction | int, readings: int = 1) -> int:
        """In units of 2^-unit, and within what the network takes: a function of the release."""
        units = Fraction(value) * Fraction(2) ** self.manifest.unit
        if units.denominator != 1:
            raise AgentError("a release is not a whole number of the manifest's units")
        if math.isinf(self.manifest.largest):
            return int(units)
        largest = readings * Fraction(self.manifest.largest)
        most = math.floor(largest * Fraction(2) ** self.manifest.unit)
        return max(-most, min(most, int(units)))

    def _check_units(self) -> None:
        """Every release must be a whole number of units: the grid is no finer than they are."""
        if not self.privacy.adds_noise:
            return
        exponent = self.mechanism(1).exponent
        if exponent is None:
            raise AgentError(
                "a scale that is read off the signal has no least value without an upper bound, "
                "and a grid made from the scale itself would show it; give the family "
                "bounds=(low, high)"
            )
        if exponent < -self.manifest.unit:
            raise AgentError(
                f"the noise of agent {self.label} lies on multiples of 2^{exponent}, and the "
                f"manifest's unit is 2^-{self.manifest.unit}; raise epsilon or narrow the bounds"
            )


def _fraction(manifest: Manifest, label: str, fractions: tuple[float, ...] | None) -> float:
    if fractions is None:
        return 1.0
    labels = [member for member, _ in manifest.members]
    if len(fractions) != len(labels):
        raise AgentError(
            f"budget_fractions has {len(fractions)} entries and the network {len(labels)} members"
        )
    return fractions[labels.index(label)]
