"""The algorithm interface: a few coefficients per round.

Every algorithm here is one linear round,

    nu_t = own nu_{t-1} + mixing A_t nu_{t-1} + momentum nu_{t-2} + innovation xi_t + noise d_t,

from nu_0 = start.innovation xi + start.noise d. An algorithm defines the coefficients of round t;
`update` is the only place where the sum is written, for the compiled simulator (A is the matrix)
and for one agent (A is its row). The estimate without noise, mu_t, is the same algorithm with
d = 0. Where messages carry the noise (`perturbs_messages`), A nu_{t-1} stands for
A (nu_{t-1} + d_t).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from veilsum._registry import Registry
from veilsum._types import Floats, Network
from veilsum.errors import AlgorithmError

if TYPE_CHECKING:
    from veilsum.algorithms.summed import SummedAlgorithm

Value = TypeVar("Value", float, Floats)

DOUBLY, ROW, COLUMN = "doubly-stochastic", "row-stochastic", "column-stochastic"
ALGORITHMS: Registry[type[Algorithm]] = Registry("algorithm", "veilsum.algorithms", AlgorithmError)


class Coefficients(NamedTuple):
    """The numbers of one round.

    Parameters
    ----------
    own : float
        Coefficient of the agent's own estimate nu_{t-1}.
    mixing : float
        Of the average A nu_{t-1} over the neighbours.
    momentum : float
        Of nu_{t-2}.
    innovation : float
        Of the statistic xi_t.
    noise : float
        Of the noise d_t.
    link_noise : float
        Of noise drawn for every link.

    Examples
    --------
    >>> from veilsum import algorithms
    >>> algorithms.Coefficients(mixing=1.0).own
    0.0
    """

    own: float = 0.0
    mixing: float = 0.0
    momentum: float = 0.0
    innovation: float = 0.0
    noise: float = 0.0
    link_noise: float = 0.0


class Sensitivities(NamedTuple):
    """How far the released value moves, in units of d_t, per unit of statistic and of estimate.

    Parameters
    ----------
    signal : float
        Per unit of the statistic.
    network : float
        Per unit of a neighbour's estimate, times its weight.

    Examples
    --------
    >>> from veilsum import algorithms
    >>> algorithms.LearnNetwork().sensitivities(3)
    Sensitivities(signal=1.0, network=1.0)
    """

    signal: float
    network: float


def update(
    own: float,
    mixing: float,
    momentum: float,
    innovation: float,
    noise: float,
    nu: Value,
    mixed: Value,
    before: Value,
    xi: Value,
    d: Value,
) -> Value:
    """own nu_{t-1} + mixing A nu_{t-1} + momentum nu_{t-2} + innovation xi_t + noise d_t.

    Parameters
    ----------
    own, mixing, momentum, innovation, noise : float
        The `Coefficients` of the round.
    nu : float or ndarray
        nu_{t-1}.
    mixed : float or ndarray
        A nu_{t-1}.
    before : float or ndarray
        nu_{t-2}.
    xi : float or ndarray
        xi_t, the statistics.
    d : float or ndarray
        d_t, the noise.

    Returns
    -------
    float or ndarray
        nu_t.

    Examples
    --------
    >>> from veilsum import algorithms
    >>> algorithms.update(0.0, 0.5, 0.0, 0.5, 0.5, nu=1.0, mixed=2.0, before=0.0, xi=4.0, d=1.0)
    3.5
    """
    return own * nu + mixing * mixed + momentum * before + innovation * xi + noise * d


@dataclass(frozen=True)
class Algorithm(ABC):
    """One algorithm: its start, its coefficients and its requirements on the network.

    Subclasses are frozen dataclasses whose fields are the options. They define `name`, `start` and
    `coefficients(t)`, and whichever of the class attributes differ from their defaults. A class of
    this package that states a name of its own is known by it to `get`, to scenarios and to tests.

    Attributes
    ----------
    name, formula, reference : str
        What it is called, the round as text, beginning with nu_t, and where it comes from.
    start : Coefficients
        nu_0 = start.innovation xi + start.noise d.
    online : bool
        Whether there is a new signal in every round.
    ratio : bool
        Whether the estimate is a sum divided by a weight (push-sum).
    static_only : bool
        Whether the network must not change.
    kinds : frozenset of str
        Kinds of weights that it works with.
    fitted : bool
        Whether `get` reads its options off the network, so that other weights need another instance.
    diverges : str or None
        Why it diverges, if it is known to.
    fades : bool
        Whether its start counts as a reading that fades: without bias in the limit only.
    offered : bool
        Whether plans compare it with the algorithm that is asked for.
    splits_budget : bool
        Whether epsilon is divided among the rounds.
    perturbs_links : bool
        Whether every link has independent noise.
    perturbs_messages : bool
        Whether the message of round t is nu_{t-1} + d_t.
    derives_messages : bool
        Whether its file derives what such messages reveal. Not inherited, as a subclass may have
        other coefficients, and of no effect outside this package.
    claims_network_dp : bool
        Whether the paper claims Network DP for it with noise at the start only.
    bare_erratum : int or None
        The erratum about a statistic that it uses without noise.
    largest_at_lambda_2 : bool
        Whether, of all eigenvalues below 1, its response is largest at lambda_2 by construction.
    summed : bool
        Whether xi_t and d_t stand for their means over members, from a sum over a roster.
    masked : bool
        Whether that sum is a masked one.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from veilsum.algorithms import Algorithm, Coefficients
    >>> @dataclass(frozen=True)
    ... class Forgetful(Algorithm):
    ...     rate: float = 0.05
    ...     name = "forgetful"
    ...     online = True
    ...     start = Coefficients()
    ...
    ...     def coefficients(self, t):
    ...         return Coefficients(mixing=1 - self.rate, innovation=self.rate, noise=self.rate)
    >>> Forgetful(0.1).at(7)
    Coefficients(own=0.0, mixing=0.9, momentum=0.0, innovation=0.1, noise=0.1, link_noise=0.0)
    """

    name: ClassVar[str]
    reference: ClassVar[str]
    formula: ClassVar[str]
    start: ClassVar[Coefficients]
    online: ClassVar[bool] = False
    ratio: ClassVar[bool] = False
    static_only: ClassVar[bool] = False
    kinds: ClassVar[frozenset[str]] = frozenset({DOUBLY})
    fitted: ClassVar[bool] = False
    diverges: ClassVar[str | None] = None
    fades: ClassVar[bool] = False
    offered: ClassVar[bool] = False
    splits_budget: ClassVar[bool] = False
    perturbs_links: ClassVar[bool] = False
    perturbs_messages: ClassVar[bool] = False
    derives_messages: ClassVar[bool] = False
    claims_network_dp: ClassVar[bool] = False
    bare_erratum: ClassVar[int | None] = None
    largest_at_lambda_2: ClassVar[bool] = False
    summed: ClassVar[bool] = False
    masked: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        """Register a class of this package that states its name."""
        super().__init_subclass__(**options)
        ALGORITHMS.enlist(cls)

    @abstractmethod
    def coefficients(self, t: int) -> Coefficients:
        """The coefficients of round t = 1, 2, ..."""

    @classmethod
    def for_network(cls, network: Network, **options: Any) -> Algorithm:  # noqa: ARG003 - algorithms that look at A do
        """Build the algorithm for a network; subclasses that need its spectrum read it here."""
        return cls(**options)

    def divergence(self, network: Network, hides_neighbours: bool) -> str | None:  # noqa: ARG002 - algorithms that depend on them do
        """Why its error grows without limit on a network, under Network DP or not; None if unknown."""
        return self.diverges

    @property
    def starts_without_noise(self) -> bool:
        """Whether nu_0 carries the statistic without noise."""
        return self.start.innovation != 0 and self.start.noise == 0

    def at(self, t: int) -> Coefficients:
        """The coefficients of round t, the start being round 0; raise unless they are finite."""
        now = self.start if t == 0 else self.coefficients(t)
        try:
            finite = len(now) == len(Coefficients._fields) and all(map(math.isfinite, now))
        except TypeError:
            finite = False
        if not finite:
            raise AlgorithmError(_not_numbers(self, t, now))
        return now

    @property
    def session(self) -> SummedAlgorithm | None:
        """Members, roster and floods of a sum over a roster; None of a recursion over neighbours."""
        return None

    def latest(self, t: int) -> int:
        """The last reading that can be in xi_t: that of round t."""
        return t

    def readings(self, t: int) -> int:  # noqa: ARG002 - the same in every round
        """How many of an agent's readings are added up in xi_t: 1 without batches."""
        return 1

    def enters(self, reading: int) -> int:
        """The round in which a reading of a stream enters: its own, without batches."""
        return reading

    def noise_gain(self, t: int, values: Value) -> Value:
        """The coefficient of d_t along an eigenvector of A: noise, or noise + mixing lambda."""
        now = self.at(t)
        carried = now.mixing if self.perturbs_messages and t else 0.0
        return now.noise + carried * values

    def sensitivities(self, t: int) -> Sensitivities:
        """|innovation/noise| per unit of statistic, |mixing/noise| per unit of a neighbour's estimate.

        A round releases `mixing A nu + innovation xi + noise d`: dividing by `noise`, a change of the
        statistic by Delta moves it by (innovation/noise) Delta, a change of neighbour j's estimate by
        1 moves it by (mixing/noise) a_ij, so d must cover the larger of the two (Sec. 4.1).
        """
        now = self.at(t)
        return Sensitivities(abs(now.innovation / now.noise), abs(now.mixing / now.noise))


@dataclass(frozen=True)
class State:
    """What one agent, or the whole network, carries from round to round.

    Parameters
    ----------
    nu : float or ndarray
        The estimate nu_t.
    before : float or ndarray
        The estimate nu_{t-1}.

    Examples
    --------
    >>> from veilsum import algorithms
    >>> algorithms.init(algorithms.Average(), xi=3.0, d=0.5)
    State(nu=3.5, before=0.0)
    """

    nu: Any
    before: Any


def init(algorithm: Algorithm, xi: Value, d: Value) -> State:
    """nu_0 = start.innovation xi + start.noise d.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm.
    xi : float or ndarray
        The statistic of one agent, or of all of them.
    d : float or ndarray
        The noise, of the same shape.

    Returns
    -------
    State

    Examples
    --------
    >>> import numpy as np
    >>> from veilsum import algorithms
    >>> algorithms.init(algorithms.Average(), xi=np.array([1.0, 5.0]), d=np.zeros(2)).nu
    array([1., 5.])
    """
    zero = 0.0 * xi
    own, mixing, momentum, innovation, noise, _ = algorithm.start
    return State(update(own, mixing, momentum, innovation, noise, zero, zero, zero, xi, d), zero)


def step(algorithm: Algorithm, t: int, state: State, mixed: Value, xi: Value, d: Value) -> State:
    """Round t of an algorithm: nu_t from nu_{t-1}, nu_{t-2} and mixed = A nu_{t-1}.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm.
    t : int
        The round, 1, 2, ...
    state : State
        That of round t - 1.
    mixed : float or ndarray
        A nu_{t-1}: a matrix product for the network, a weighted sum of messages for one agent.
        Where messages carry noise, A (nu_{t-1} + d_t).
    xi : float or ndarray
        The statistic of round t (of the only signal, unless the algorithm is online).
    d : float or ndarray
        The noise of round t.

    Returns
    -------
    State

    Examples
    --------
    >>> import numpy as np
    >>> from veilsum import algorithms, networks
    >>> A = networks.lazy_metropolis("path:3").weights
    >>> xi, d = np.array([0.0, 3.0, 6.0]), np.zeros(3)
    >>> state = algorithms.init(algorithms.Average(), xi, d)
    >>> for t in range(1, 60):
    ...     state = algorithms.step(algorithms.Average(), t, state, A @ state.nu, xi, d)
    >>> state.nu.round(6)
    array([3., 3., 3.])
    """
    own, mixing, momentum, innovation, noise, _ = algorithm.at(t)
    nu = update(own, mixing, momentum, innovation, noise, state.nu, mixed, state.before, xi, d)
    return State(nu, state.nu)


def _not_numbers(algorithm: Algorithm, t: int, now: Any) -> str:
    """The error for coefficients that are not finite numbers."""
    fields = Coefficients._fields
    if not isinstance(now, tuple) or len(now) != len(fields):
        return f"algorithm {algorithm.name} must give Coefficients for round {t}; found {type(now).__name__}"
    wrong = [name for name, value in zip(fields, now, strict=True) if not _is_finite(value)]
    are = "is" if len(wrong) == 1 else "are"
    return (
        f"algorithm {algorithm.name} must give finite real numbers for round {t}; {', '.join(wrong)} "
        f"{are} not; check its coefficients(t) and its options"
    )


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and math.isfinite(value)
