"""What is wanted: the protection a user asks for, before anything is calibrated.

Two protections come from the paper. Signal DP hides each agent's signal; Network DP hides the
signal and the estimates of the neighbours that an agent builds upon. Both are stated for signals
that move by at most `radius` in their own units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from murmura import _validate
from murmura.errors import PrivacyError

GLOBAL, SMOOTH, SMOOTH_PRINTED = "global", "smooth", "smooth-printed"
SENSITIVITIES = (GLOBAL, SMOOTH, SMOOTH_PRINTED)


@dataclass(frozen=True)
class Protection:
    """Epsilon, delta, the radius they hold for, and the sensitivity that calibrates the noise.

    With `shares`, one for each agent, agent i has the budget epsilon * shares[i] of its own
    (`murmura.privacy.budgets` allocates them). An infinite radius asks for any two values of the
    family's bounded domain.
    """

    epsilon: float
    delta: float = 0.0
    radius: float = 1.0
    sensitivity: str = GLOBAL
    shares: tuple[float, ...] | None = None

    protects: ClassVar[str] = "signal"

    def __post_init__(self) -> None:
        """Check every number, and that delta goes with the sensitivity that needs it."""
        _validate.positive(PrivacyError, epsilon=self.epsilon)
        self._check_radius()
        _validate.probability(PrivacyError, delta=self.delta)
        _validate.one_of(PrivacyError, SENSITIVITIES, sensitivity=self.sensitivity)
        if self.reads_signals and self.delta == 0:
            raise PrivacyError(
                f"sensitivity {self.sensitivity} needs a delta above 0, such as 0.01"
            )
        for share in self.shares or ():
            _validate.positive(PrivacyError, shares=share)
        if self.shares is not None and self.sensitivity == SMOOTH:
            raise PrivacyError(
                "budgets of their own and smooth sensitivity do not go together: its smoothing "
                "belongs to one epsilon; try sensitivity global"
            )
        if self.sensitivity == GLOBAL and self.delta > 0:
            raise PrivacyError(
                f"delta = {self.delta} buys nothing with global sensitivity, whose Laplace noise "
                "is pure epsilon-DP; leave delta out"
            )

    def _check_radius(self) -> None:
        if self.radius != math.inf:
            _validate.positive(PrivacyError, radius=self.radius)
        elif self.sensitivity != GLOBAL:
            raise PrivacyError(
                "an infinite radius means any two values of a bounded domain, and goes with "
                "sensitivity global"
            )

    @property
    def reads_signals(self) -> bool:
        """Whether the noise's scale is read off the signal, and so is as private as it."""
        return self.sensitivity != GLOBAL

    def at(self, epsilon: float) -> Self:
        """Ask for the same protection with another epsilon."""
        return replace(self, epsilon=epsilon)


@dataclass(frozen=True)
class SignalDP(Protection):
    """Hide each signal: Lap(Delta / eps) once per signal (Th. 1 and 2)."""


@dataclass(frozen=True)
class NetworkDP(Protection):
    """Hide signals and neighbours' estimates: Lap(max(max_j a_ij, Delta) / eps) (Cor. 1, Th. 3)."""

    protects: ClassVar[str] = "network"


@dataclass(frozen=True)
class NoPrivacy:
    """Promise nothing and add no noise: the baseline."""

    protects: ClassVar[str] = "nothing"


Want = SignalDP | NetworkDP | NoPrivacy
