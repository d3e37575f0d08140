"""From a reading to what may leave the agent: drawn exactly, in the network's units.

    released = xi(reading) + X,    X discrete Laplace of scale max(Delta, a_i) / epsilon on a grid,

as `privacy.calibrate` asks: Delta is the statistic's sensitivity and a_i, the largest weight of a
neighbour, counts when neighbours' estimates are protected too. The grid and the scale are public
(`privacy.exact`), and every release is a whole number of the manifest's units, which are finer.

A scale read off the signal (smooth sensitivity), no noise, budgets of their own and promises that
are not proved are for research only. Under smooth sensitivity the grid comes from the least scale
that the bounds allow, never from the reading's own: a grid that follows the scale would show it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from murmura.agent.events import Released
from murmura.agent.manifest import Manifest
from murmura.agent.release.precision import input_error, least_scale
from murmura.agent.release.terms import OneAgent, check_promise, guarantee, want_of
from murmura.engine import Problem
from murmura.errors import AgentError, FamilyError, SignalError
from murmura.privacy import ExactLaplace, Loss, calibrate
from murmura.privacy.exact import SYSTEM, DiscreteLaplace, Entropy
from murmura.privacy.exact.grid import floor_log2, to_grid

Floats = NDArray[np.float64]

GRID = 40  # bits between the least scale and the grid


class Charges(Protocol):
    """What a drawer needs of a ledger."""

    def charge(
        self, reading: int, round: int, price: Loss | None, draw: Any, origin: str = ""
    ) -> Released:
        """Charge and commit a release, drawing it if there is none yet."""


class Drawer:
    """Draws the releases of one agent; knows its readings only while it draws."""

    def __init__(
        self,
        manifest: Manifest,
        problem: Problem,
        label: str,
        *,
        research: bool = False,
    ) -> None:
        """Refuse what an agent must not promise; of the problem only family and shares are used."""
        family, shares = problem.family, getattr(problem.want, "shares", None)
        if repr(family) != manifest.family:
            raise AgentError(
                f"the manifest is for the family {manifest.family}; found {family!r}; an agent "
                "takes the family of its network"
            )
        self.manifest, self.family, self.label = manifest, family, label
        self.guarantee = guarantee(manifest, family)
        if not research:
            check_promise(manifest, family, shares)
        self.law = manifest.made_law
        self.epsilon = manifest.epsilon * _share(manifest, label, shares)
        one = OneAgent.of(manifest, label)
        self._noise = calibrate(want_of(manifest), self.law, family, one, max(manifest.rounds, 1))
        self._made: dict[float, ExactLaplace] = {}
        if self._noise is not None:
            self._check_units()

    def price(self, reading: int, round: int | None = None) -> Loss | None:
        """What a release costs; None where nothing is promised."""
        if self._noise is None:
            return None
        if self.manifest.delta:
            return Loss(self.epsilon, self.manifest.delta, "approximate")
        steps = self.mechanism(reading, round).steps
        return Loss(self.epsilon, mechanism="discrete-laplace", parameter=steps)

    def mechanism(self, reading: int, round: int | None = None) -> ExactLaplace:
        """The noise for a reading that enters in `round`, which is its own number unless told.

        sensitivity = max(Delta |learn/noise|, a_i |mix/noise|) in that round.
        """
        noise = self._noise
        if noise is None or noise.reads_signals:
            raise AgentError("noise of a public scale goes with sensitivity global, and only it")
        asked = self.law.sensitivities(self._round(reading, round))
        own = noise.sensitivity * asked.signal
        found = float(max(own, float(noise.network[0]) * asked.network))
        if found not in self._made:
            error = input_error(self.family, noise.sensitivity)
            dimension = self.family.dimension
            self._made = {found: ExactLaplace(self.epsilon, found, dimension, error)}
        return self._made[found]

    def draw(
        self, reading: int, signal: Any, round: int | None = None, *, entropy: Entropy = SYSTEM
    ) -> tuple[int, ...]:
        """A new release of a reading, in units of 2^-unit: never send one without charging it."""
        checked = self._checked(reading, signal)
        xi = self.family.columns(checked).reshape(self.family.dimension)
        if self._noise is None:
            points, exponent = to_grid(xi, -self.manifest.unit), -self.manifest.unit
        elif self._noise.reads_signals:
            points, exponent = self._draw_smooth(reading, round, checked, xi, entropy)
        else:
            values = self.mechanism(reading, round).release(xi, entropy=entropy)
            return tuple(self._within(Fraction(float(value))) for value in values)
        return tuple(self._within(int(k) * Fraction(2) ** exponent) for k in points)

    def release(
        self,
        ledger: Charges,
        reading: int,
        signal: Any,
        round: int | None = None,
        *,
        origin: str = "",
        entropy: Entropy = SYSTEM,
    ) -> Released:
        """The release of a reading: the one that the ledger knows, or a new one that it charged.

        `origin` is the name that the ledger gave to what the reading is known by.
        """
        return ledger.charge(
            reading,
            self._round(reading, round),
            self.price(reading, round),
            lambda: self.draw(reading, signal, round, entropy=entropy),
            origin,
        )

    def _round(self, reading: int, round: int | None) -> int:
        if self.law.online:
            return reading if round is None else round
        if reading > 1 and not self.manifest.asynchronous:
            raise AgentError(
                f"law {self.law.name} takes one reading of each agent; found reading {reading}; "
                "an online law such as learn takes more"
            )
        return 0

    def _checked(self, reading: int, signal: Any) -> Floats:
        """The reading within public bounds; refused outside the support, by number only."""
        problem = f"reading {reading} of agent {self.label}"
        try:
            value = np.asarray(signal, dtype=np.float64)
        except (TypeError, ValueError):
            raise SignalError(f"{problem} is not a number; nothing was released") from None
        if value.shape != self.family.signal_shape:
            raise SignalError(
                f"{problem} has shape {value.shape}, and {self.family.name} takes "
                f"{self.family.signal_shape}; nothing was released"
            )
        if not np.isfinite(value).all():
            raise SignalError(f"{problem} is not a finite number; nothing was released")
        support = self.family.support
        if self.family.bounds is not None:
            try:
                value = support.clip(value)
            except FamilyError:
                value = np.asarray(value)  # an end that is open: judged as it is
        if support.violations(value).any():
            raise SignalError(
                f"{problem} lies outside the support of {self.family.name} "
                f"({support.describe()}); nothing was released; {self.family.remedy}"
            )
        return value

    def _within(self, value: Fraction) -> int:
        """In units of 2^-unit, and within what the network takes: a function of the release."""
        units = value * Fraction(2) ** self.manifest.unit
        if units.denominator != 1:
            raise AgentError("a release is not a whole number of the manifest's units")
        if math.isinf(self.manifest.largest):
            return int(units)
        most = math.floor(Fraction(self.manifest.largest) * Fraction(2) ** self.manifest.unit)
        return max(-most, min(most, int(units)))

    def _check_units(self) -> None:
        """Every release must be a whole number of units: the grid is no finer than they are."""
        assert self._noise is not None
        first = self._public_exponent() if self._noise.reads_signals else self.mechanism(1).exponent
        if first < -self.manifest.unit:
            raise AgentError(
                f"the noise of agent {self.label} lies on multiples of 2^{first}, and the "
                f"manifest's unit is 2^-{self.manifest.unit}; raise epsilon or narrow the bounds"
            )

    def _public_exponent(self) -> int:
        """A grid of 2^-40 of the least scale that any reading within the bounds can have."""
        assert self._noise is not None
        return floor_log2(Fraction(least_scale(self._noise, self.epsilon))) - GRID

    def _draw_smooth(
        self, reading: int, round: int | None, signal: Floats, xi: Floats, entropy: Entropy
    ) -> tuple[Any, int]:
        """Points on the public grid, with one step of rounding paid for; the scale stays here."""
        assert self._noise is not None
        at, exponent = self._round(reading, round), self._public_exponent()
        scale = float(self._noise.scale(signal.reshape(1, 1), self.epsilon, at)[0, 0])
        paid = math.ceil(1 / Fraction(self.epsilon)) * self.family.dimension
        steps = Fraction(math.ceil(Fraction(scale) / Fraction(2) ** exponent) + paid)
        return to_grid(xi, exponent) + DiscreteLaplace(steps).draw(xi.size, entropy), exponent


def _share(manifest: Manifest, label: str, shares: tuple[float, ...] | None) -> float:
    if shares is None:
        return 1.0
    labels = [member for member, _ in manifest.members]
    if len(shares) != len(labels):
        raise AgentError(f"shares has {len(shares)} entries and the network {len(labels)} members")
    return shares[labels.index(label)]
