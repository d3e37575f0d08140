"""The problem of dividing a privacy budget among agents, and its answer.

    minimise  sum_i (D_i / eps_i)^p   subject to   eps_i <= cap_i  and a constraint on the sum

with D_i the sensitivity of agent i's statistic. p = 1 is the paper's overhead (App. C.3), the sum
of the noise scales; p = 2 is the variance of the total noise, up to the factor 2 of Laplace.

A sensitivity that was read off a signal (a smooth one) is private, and a budget computed from it
tells about it: such an allocation is good for a simulation, and refused otherwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmura import _validate
from murmura.errors import PrivacyError

Floats = NDArray[np.float64]

OVERHEAD, VARIANCE = "overhead", "variance"
POWERS = {OVERHEAD: 1, VARIANCE: 2}


@dataclass(frozen=True, eq=False)
class Sensitivities:
    """D_i of every agent, and whether they were read off the signals.

    Global sensitivities follow from the family and its bounds; smooth ones from the data. Plain
    numbers given to an allocation are taken for global ones: wrap smooth ones as
    `Sensitivities(values, data_dependent=True)`.
    """

    values: Floats
    data_dependent: bool = False

    def __post_init__(self) -> None:
        """Check that there is one positive number per agent."""
        object.__setattr__(self, "values", _positive("sensitivities", self.values))


@dataclass(frozen=True, eq=False)
class Allocation:
    """Epsilon of every agent, what the noise then costs, and how it was found.

    `overhead` is the value of the objective; it is at most (1 + gap) times the least possible.
    `rounds` counts exchanges in which every agent sends one number over each of its links. What is
    `simulation_only` depends on private data, and no agent may use it.
    """

    epsilons: Floats = field(repr=False)
    overhead: float
    objective: str
    method: str
    rounds: int = 0
    simulation_only: bool = False
    gap: float = math.nan

    def __post_init__(self) -> None:
        """Keep the epsilons from being changed."""
        kept = np.array(self.epsilons, dtype=np.float64)
        kept.setflags(write=False)
        object.__setattr__(self, "epsilons", kept)

    @property
    def spent(self) -> float:
        """sum_i eps_i."""
        return math.fsum(self.epsilons)

    def to_dict(self) -> dict[str, Any]:
        """Give the fields as plain data."""
        return {
            "epsilons": self.epsilons.tolist(),
            "overhead": self.overhead,
            "objective": self.objective,
            "method": self.method,
            "rounds": self.rounds,
            "simulation_only": self.simulation_only,
            "gap": self.gap,
        }


@dataclass(frozen=True, eq=False)
class Problem:
    """Checked numbers: D, the mean budget epsilon, one cap per agent, p."""

    D: Floats
    epsilon: float
    caps: Floats
    objective: str
    simulation_only: bool

    @classmethod
    def of(
        cls,
        sensitivities: Sensitivities | ArrayLike,
        epsilon: float,
        cap: ArrayLike | None,
        objective: str,
        simulation_only: bool,
    ) -> Problem:
        """Check everything, and refuse what would leak."""
        _validate.positive(PrivacyError, epsilon=epsilon)
        _validate.one_of(PrivacyError, POWERS, objective=objective)
        known = _known(sensitivities, simulation_only)
        caps = _caps(cap, len(known.values))
        return cls(known.values, float(epsilon), caps, objective, simulation_only)

    @property
    def p(self) -> int:
        """The power of the objective."""
        return POWERS[self.objective]

    @property
    def budget(self) -> float:
        """n eps: what all agents may spend together."""
        return len(self.D) * self.epsilon

    def value(self, epsilons: Floats) -> float:
        """sum_i (D_i / eps_i)^p."""
        return math.fsum((self.D / epsilons) ** self.p)

    def allocation(
        self, epsilons: Floats, method: str, *, rounds: int = 0, gap: float = math.nan
    ) -> Allocation:
        """The answer, with its value."""
        value = self.value(epsilons)
        return Allocation(
            epsilons, value, self.objective, method, rounds, self.simulation_only, gap
        )


def _known(given: Sensitivities | ArrayLike, simulation_only: bool) -> Sensitivities:
    known = given if isinstance(given, Sensitivities) else Sensitivities(np.asarray(given))
    if known.data_dependent and not simulation_only:
        raise PrivacyError(
            "these sensitivities were read off the signals, so a budget computed from them tells "
            "about the signals; use global sensitivities, or say simulation_only=True"
        )
    return known


def _caps(cap: ArrayLike | None, agents: int) -> Floats:
    given = np.asarray(math.inf if cap is None else cap, dtype=np.float64)
    if given.ndim and given.shape != (agents,):
        raise PrivacyError(
            f"cap must be one number or one per agent ({agents}); found {given.shape}"
        )
    caps = np.array(np.broadcast_to(given, (agents,)))
    if not np.all(caps > 0):
        at = int(np.argmin(caps > 0))
        raise PrivacyError(f"cap must be above 0 (infinity: no cap); agent {at} has {caps[at]}")
    return caps


def _positive(name: str, given: ArrayLike) -> Floats:
    """One finite number above 0 per agent; the error names the agent, never its number."""
    values = np.array(given, dtype=np.float64)
    if values.ndim != 1 or not values.size:
        raise PrivacyError(f"{name} must be a list with one number per agent; found {values.shape}")
    fine = np.isfinite(values) & (values > 0)
    if not fine.all():
        raise PrivacyError(
            f"{name} must be finite numbers above 0; that of agent {int(np.argmin(fine))} is not"
        )
    values.setflags(write=False)
    return values
