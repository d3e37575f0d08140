"""The problem of dividing a privacy budget among agents, and its solution.

    minimise  sum_i (D_i / eps_i)^p   subject to   eps_i <= cap_i  and a constraint on the sum

with D_i the sensitivity of agent i's statistic. p = 1 is the paper's overhead (App. C.3), the sum
of the noise scales; p = 2 is the variance of the total noise, up to the factor 2 of Laplace.

A sensitivity that was computed from a signal (a smooth one) is private, and an epsilon computed
from it reveals something about the signal: such an allocation may be used in a simulation only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilsum import _extras, _validate
from veilsum.errors import PrivacyError

Floats = NDArray[np.float64]

OVERHEAD, VARIANCE = "overhead", "variance"
POWERS = {OVERHEAD: 1, VARIANCE: 2}
CLOSE = 1e-9  # of weights that should be equal


@dataclass(frozen=True, eq=False)
class AgentSensitivities:
    """D_i of every agent, and whether they were computed from the signals.

    Global sensitivities follow from the family and its bounds; smooth ones from the data.

    Parameters
    ----------
    values : array_like
        One positive number per agent.
    data_dependent : bool
        Whether they are smooth sensitivities, which are private.

    Raises
    ------
    PrivacyError
        If a value is not a finite number above 0.

    Examples
    --------
    >>> AgentSensitivities(np.array([1.0, 2.0]), data_dependent=True).values.tolist()
    [1.0, 2.0]
    """

    values: Floats
    data_dependent: bool = False

    def __post_init__(self) -> None:
        """Check that there is one positive number per agent."""
        object.__setattr__(self, "values", _positive("sensitivities", self.values))


@dataclass(frozen=True, eq=False)
class Allocation:
    """Epsilon of every agent, what the noise then costs, and how it was found.

    Attributes
    ----------
    epsilons : ndarray
        One per agent; read-only.
    overhead : float
        The value of the objective, at most (1 + gap) times the least possible.
    objective : str
        "overhead" or "variance".
    method : str
        The rule that found it.
    rounds : int
        Exchanges in which every agent sends one number over each of its links.
    simulation_only : bool
        Whether it depends on private data, so that no agent may use it.
    gap : float
        The proved bound on the relative distance from the optimum; NaN if none was proved.

    Examples
    --------
    >>> from veilsum.paper.allocation import optimal
    >>> found = optimal([1.0, 4.0], epsilon=1.0)
    >>> found.overhead, found.method, round(found.total, 9)
    (4.5, 'optimal', 2.0)
    """

    epsilons: Floats = field(repr=False)
    overhead: float
    objective: str
    method: str
    rounds: int = 0
    simulation_only: bool = False
    gap: float = math.nan

    def __post_init__(self) -> None:
        """Copy the epsilons, read-only."""
        epsilons = np.array(self.epsilons, dtype=np.float64)
        epsilons.setflags(write=False)
        object.__setattr__(self, "epsilons", epsilons)

    @property
    def total(self) -> float:
        """sum_i eps_i."""
        return math.fsum(self.epsilons)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data."""
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
class AllocationProblem:
    """Checked numbers: D, the mean epsilon, one cap per agent, the objective."""

    D: Floats
    epsilon: float
    caps: Floats
    objective: str
    simulation_only: bool

    @classmethod
    def of(
        cls,
        sensitivities: AgentSensitivities | ArrayLike,
        epsilon: float,
        cap: ArrayLike | None,
        objective: str,
        simulation_only: bool,
    ) -> AllocationProblem:
        """Check every argument; `PrivacyError` for sensitivities that depend on data."""
        _validate.positive(PrivacyError, epsilon=epsilon)
        _validate.one_of(PrivacyError, POWERS, objective=objective)
        known = _checked(sensitivities, simulation_only)
        caps = _caps(cap, len(known.values))
        return cls(known.values, float(epsilon), caps, objective, simulation_only)

    @property
    def p(self) -> int:
        """The power of the objective."""
        return POWERS[self.objective]

    @property
    def budget(self) -> float:
        """n eps: the most that all epsilons may add up to."""
        return len(self.D) * self.epsilon

    def value(self, epsilons: Floats) -> float:
        """sum_i (D_i / eps_i)^p."""
        return math.fsum((self.D / epsilons) ** self.p)

    def allocation(
        self, epsilons: Floats, method: str, *, rounds: int = 0, gap: float = math.nan
    ) -> Allocation:
        """The solution, with its value."""
        value = self.value(epsilons)
        return Allocation(
            epsilons, value, self.objective, method, rounds, self.simulation_only, gap
        )


def _checked(given: AgentSensitivities | ArrayLike, simulation_only: bool) -> AgentSensitivities:
    known = (
        given if isinstance(given, AgentSensitivities) else AgentSensitivities(np.asarray(given))
    )
    if known.data_dependent and not simulation_only:
        raise PrivacyError(
            "these sensitivities were computed from the signals, so an epsilon computed from them "
            "reveals something about the signals; use global sensitivities, or set "
            "simulation_only=True"
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


def symmetric_weights(network: Any, agents: int) -> Any:
    """A of a `Mixing`, or a custom matrix, as a csr array without stored zeros.

    `PrivacyError` unless A >= 0, A = A' and A 1 = 1: only then do the neighbourhood constraints
    bound the sum of all epsilons, and does every message travel along a link.
    """
    csr_array = _extras.load("scipy.sparse").csr_array
    if getattr(network, "dynamic", False):
        raise PrivacyError(
            "an allocation needs one fixed network; this one changes from round to round"
        )
    A = csr_array(_matrix(network), dtype=np.float64, copy=True)
    A.sum_duplicates()
    A.eliminate_zeros()
    if A.shape != (agents, agents):
        raise PrivacyError(f"network has {A.shape[0]} agents, sensitivities are for {agents}")
    stochastic = bool(np.all(A.data > 0)) and np.allclose(A.sum(axis=1), 1, rtol=0, atol=CLOSE)
    if not stochastic or abs(A - A.T).max() > CLOSE:
        raise PrivacyError(
            "neighbourhood constraints bound the total only if weights are symmetric and doubly "
            "stochastic; these are not; try networks.metropolis(graph)"
        )
    return A


def _matrix(network: Any) -> Any:
    """`.weights`, or `.at(1)`, or the matrix itself."""
    if hasattr(network, "weights"):
        return network.weights
    return network.at(1) if hasattr(network, "at") else network
