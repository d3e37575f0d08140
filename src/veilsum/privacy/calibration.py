"""From a privacy request to the noise: one place decides, and everyone asks it.

Agent i's noise in round t has the scale

    b = max(network_i * per_network, signal_i * per_signal),

an outer product on either side, so that all epsilons and replicas of a sweep are calibrated at
once: `signal_i` is the sensitivity of the statistic (constant, or read off the signal), and
`network_i` = max_{j != i} a_ij, or 0 when only signals are protected. For Laplace noise

    signal, global                 b = Delta / eps                                   (Th. 1, 2)
    signal, smooth                 b = m S*(s) / eps, S* the smooth sensitivity, m the least factor
                                   that keeps (eps, delta) (`mechanisms.laplace_factor`)
    signal, smooth-as-published    b = 2 S / eps,  S = radius/(e gamma s),  gamma = eps/(2 ln(2/delta))
    network                        the larger of that and max_j a_ij / eps           (Cor. 1, Th. 3)

times what the algorithm asks (`Algorithm.sensitivities`) and, where noise enters in every round and
rounds divide one budget, times the number of rounds.

Every other mechanism M perturbs the input: M(xi) takes the place of xi wherever an algorithm uses
the statistic, and no other noise is added. All that follows is post-processing of M(xi). Its noise
is d = (innovation/noise) (M(xi) - xi), and the scale stated for it is that of Laplace noise with the
same variance, b = sqrt(Var/2).

In a masked sum (`MaskedDP`) M(xi) is the member's grid point with its part of the noise; what the
kernel gets is the mean of M(xi) over the roster, the same at every agent.

Readings in batches (`batches`) are released as sums, xi_t being the sum of the batch that closes in
round t: a reading moves one of them, by what it moves its own statistic. So the noise of a sum is
that of one reading. A mechanism then takes any number, not one between the bounds of a reading.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from veilsum.algorithms.base import Algorithm
from veilsum.algorithms.batched import batched
from veilsum.algorithms.table import coefficient_table
from veilsum.errors import AlgorithmError, PrivacyError, VeilsumError
from veilsum.privacy.accounting.events import PrivacyEvent
from veilsum.privacy.masked import MaskedParameters
from veilsum.privacy.masked_vectors import SkellamParameters
from veilsum.privacy.mechanisms import (
    BoundedSignal,
    Domain,
    IdentityMechanism,
    IntegerStatistic,
    LaplaceMechanism,
    MaskedMechanism,
    Mechanism,
    RealStatistic,
    SmoothLaplaceMechanism,
    laplace_factor,
    make,
)
from veilsum.privacy.mechanisms.masked import grid_step
from veilsum.privacy.requests import SMOOTH, SMOOTH_AS_PUBLISHED, MaskedDP, PrivacyRequest
from veilsum.privacy.sensitivity import SensitivityBound, as_published, smooth_log, smoothing
from veilsum.privacy.sensitivity.smooth_sensitivity import factor_as_published

Floats = NDArray[np.float64]


RELATIVE = 2.0**-49
MOST_ERROR = 2.0**-20  # of the sensitivity; beyond, the error would swell the noise
SCALAR_STEPS, VECTOR_STEPS = 2**12, 2**24  # of the grid of a masked sum, per sensitivity
LONGEST_BATCH = 2**20  # readings that a masked sum makes room for where batches have no longest
LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True, eq=False)
class Calibration:
    """The noise of every agent, for each epsilon, in each round.

    Where the scale is read off the signal it is as private as the signal: it is kept in memory
    only, never in a result, a log or a message.

    Attributes
    ----------
    privacy, algorithm, family
        What was asked for.
    rounds_per_budget
        How many rounds divide one epsilon.
    sensitivity
        That of the statistic; NaN when it is read off the signals, 0 without noise.
    network
        (agents,): max_j a_ij over the agent's budget fraction, or zeros.
    bounds
        Of the signals, for smooth sensitivity.
    fractions
        (agents,): each agent's budget over epsilon, 1 unless they differ.

    Examples
    --------
    >>> from veilsum import algorithms, families, networks
    >>> from veilsum.privacy import SignalDP
    >>> ring, normal = networks.metropolis("ring:5"), families.Normal(1.0, bounds=(0.0, 2.0))
    >>> found = calibrate(SignalDP(0.5, radius=2.0), algorithms.Average(), normal, ring, 10)
    >>> found.sensitivity, found.rounds_per_budget, found.reads_signals
    (2.0, 1, False)
    """

    privacy: PrivacyRequest
    algorithm: Algorithm
    rounds_per_budget: int
    sensitivity: float
    network: Floats
    bounds: tuple[float, float]
    fractions: Floats
    family: Any = None

    @property
    def reads_signals(self) -> bool:
        """Whether the scale depends on the signal, and so is private itself."""
        return self.privacy.reads_signals

    @property
    def perturbs_input(self) -> bool:
        """Whether M(xi) takes the place of xi, and the kernel draws no noise."""
        return self.privacy.perturbs_input

    def mechanism(
        self, epsilon: float, t: int, agent: int = 0, released: bool = False
    ) -> Mechanism:
        """The mechanism of one agent in round t: what it samples, releases and is charged for.

        Parameters
        ----------
        epsilon
            The agent's budget for one release, before rounds divide it.
        t
            The round.
        agent
            The row of `network` and `fractions`.
        released
            Whether it must cover what floats do to the statistic, for an exact release.
        """
        if not self.privacy.adds_noise:
            return IdentityMechanism()
        if isinstance(self.privacy, MaskedDP):
            assert self.algorithm.session is not None  # `_check_algorithm`
            members = self.algorithm.session.members
            return masked_mechanism(self.privacy.at(epsilon), self.family, members)
        if self.perturbs_input:
            return mechanism_of(self.privacy.at(epsilon), self.family, released)
        asked = self.algorithm.sensitivities(t)
        own = epsilon * float(self.fractions[agent]) / self.rounds_per_budget
        weight = float(self.network[agent] * self.fractions[agent]) * asked.network
        if self.reads_signals:
            return self._smooth_mechanism(own, asked.signal, weight, released)
        return LaplaceMechanism(
            own,
            max(self.sensitivity * asked.signal, weight),
            self.family.dimension,
            input_error(self.family, self.sensitivity) if released else 0.0,
        )

    def _smooth_mechanism(
        self, epsilon: float, signal: float, weight: float, released: bool
    ) -> Mechanism:
        """Laplace noise of scale m max(signal S(s), weight)/eps, on a grid that follows the bounds.

        The least S on the bounds is derived with it; as published, S = r/(e gamma s), it is at the top.
        """
        (low, high), privacy, radius = self.bounds, self.privacy, self.privacy.reach
        delta = privacy.delta / self.rounds_per_budget
        if privacy.sensitivity is SMOOTH_AS_PUBLISHED:
            bound, factor = as_published(epsilon, delta, radius), 2.0
            least = float(bound.at(high)) if math.isfinite(high) else 0.0
        else:
            gamma = smoothing(epsilon, delta)
            bound, factor = smooth_log(low, high, smoothing=gamma, radius=radius), None
            least = bound.least
        xi = _first_coordinate(self.family)
        larger = replace(
            bound, rule=_LargerOfSignalAndWeight(bound, signal, weight), statistic=xi,
            least=max(least * signal, weight) if least else 0.0,
        )  # fmt: skip
        return SmoothLaplaceMechanism(
            epsilon,
            xi,
            larger,
            delta,
            factor,
            input_error(self.family, least) if released and least else 0.0,
        )

    def masked_half_width(self, epsilon: float, rounds: int, confidence: float) -> float:
        """How far a masked sum's noise and rounding move an estimate after so many rounds.

        The noise is that of all sessions in the estimate together (`MaskedMechanism.half_width`).
        """
        made, session = self.mechanism(epsilon, 1), self.algorithm.session
        assert isinstance(made, MaskedMechanism)
        assert session is not None
        entering = [t for t in range(1, rounds + 1) if self.algorithm.at(t).noise]
        if not entering:
            return math.inf  # no result yet
        online = self.algorithm.online
        readings = sum(self.algorithm.readings(t) for t in entering) if online else 1
        return made.half_width(
            session.roster * len(entering), session.roster * readings, confidence
        )

    def signal(self, signals: Floats, epsilons: Floats) -> Floats:
        """Sensitivity over the budget fraction: (agents, 1), by replica, or by column if eps matters.

        Global: Delta. As published: radius/s. Smooth: S*(s), whose smoothing depends on epsilon, so
        there is one for each of the columns, epsilon by epsilon.
        """
        if not self.privacy.adds_noise:
            return np.zeros((1, 1))
        if self.privacy.sensitivity is SMOOTH_AS_PUBLISHED:
            found = self.privacy.reach / signals
            if self.privacy.budget_fractions is not None:
                found /= self.fractions[:, None]
            return found
        if self.privacy.sensitivity is SMOOTH:
            return self._smooth(signals, epsilons)
        return self.sensitivity / self.fractions[:, None]

    def _smooth(self, signals: Floats, epsilons: Floats) -> Floats:
        each = list(dict.fromkeys(epsilons.tolist()))
        runs = max(len(epsilons) // len(each), signals.shape[1])
        parts = []
        for epsilon in each:
            gamma = smoothing(
                epsilon / self.rounds_per_budget, self.privacy.delta / self.rounds_per_budget
            )
            bound = smooth_log(*self.bounds, smoothing=gamma, radius=self.privacy.reach)
            parts.append(np.broadcast_to(bound.at(signals), (len(signals), runs)))
        return np.concatenate(parts, axis=1)

    def per_signal(self, epsilons: Floats, t: int) -> Floats:
        """What `signal` is multiplied by in round t, for each epsilon."""
        if self.perturbs_input:
            return np.array([self._equivalent(e, t) for e in epsilons.tolist()]) / self.sensitivity
        per = self.algorithm.sensitivities(t).signal * self.rounds_per_budget / epsilons
        if self.privacy.sensitivity is SMOOTH_AS_PUBLISHED:
            return per * factor_as_published(epsilons, self.privacy.delta)
        return per * self._factors(epsilons) if self.privacy.sensitivity is SMOOTH else per

    def _equivalent(self, epsilon: float, t: int) -> float:
        """b = sqrt(Var/2): the scale of Laplace noise with the worst variance of M(xi)."""
        made = self.mechanism(epsilon, t)
        assert made.domain is not None
        asked = self.algorithm.sensitivities(t).signal
        return asked * math.sqrt(_domain(self.privacy, self.family).variance(made) / 2)

    def _factors(self, epsilons: Floats) -> Floats:
        """The least m for which Lap(m S*/eps) keeps (eps, delta)."""
        rounds = self.rounds_per_budget
        delta, divided = self.privacy.delta / rounds, epsilons / rounds
        return np.array([laplace_factor(e, delta, smoothing(e, delta)) for e in divided.tolist()])

    def per_network(self, epsilons: Floats, t: int) -> Floats:
        """What `network` is multiplied by in round t, for each epsilon."""
        return self.algorithm.sensitivities(t).network * self.rounds_per_budget / epsilons

    def per_edge(self, epsilons: Floats) -> Floats:
        """Scale of the noise on a link, whose estimate may move by 1: rounds_per_budget / eps."""
        hides = self.algorithm.perturbs_links and self.privacy.hides_neighbours
        return hides * self.rounds_per_budget / epsilons

    def scale(self, signals: Floats, epsilon: float, t: int) -> Floats:
        """b of every agent and replica in round t for one epsilon: Var = 2 b^2."""
        epsilons = np.array([epsilon])
        return np.maximum(
            self.network[:, None] * self.per_network(epsilons, t),
            self.signal(signals, epsilons) * self.per_signal(epsilons, t),
        )


@dataclass(frozen=True)
class _LargerOfSignalAndWeight:
    """max(signal S(s), weight), as smooth as S."""

    bound: SensitivityBound
    signal: float
    weight: float

    def __call__(self, s: Floats) -> Floats:
        return np.maximum(self.signal * self.bound.at(s), self.weight)


def _first_coordinate(family: Any) -> Callable[[Floats], Floats]:
    return lambda s: np.asarray(family.columns(s)[..., 0])


def calibrate(
    privacy: PrivacyRequest, algorithm: Algorithm, family: Any, network: Any, rounds: int
) -> Calibration:
    """Work out the noise for a privacy request; zero noise where none is asked for.

    Parameters
    ----------
    privacy
        The request.
    algorithm
        The algorithm.
    family
        The family of the signals.
    network
        Anything with `size` and `largest_neighbour_weight`.
    rounds
        How many rounds a divided budget must last.

    Returns
    -------
    Calibration
        The scale of the noise, and the mechanism that draws it.

    Raises
    ------
    PrivacyError
        Where no finite noise keeps the guarantee (`refusal` says when).
    AlgorithmError
        For an algorithm whose coefficients are not numbers.

    Examples
    --------
    >>> from veilsum import algorithms, families, networks
    >>> from veilsum.privacy import SignalDP
    >>> ring, normal = networks.metropolis("ring:5"), families.Normal(1.0, bounds=(0.0, 2.0))
    >>> found = calibrate(SignalDP(0.5, radius=2.0), algorithms.Average(), normal, ring, 10)
    >>> found.mechanism(0.5, 0).scale
    4.0
    """
    agents, algorithm = network.size, in_batches(privacy, algorithm)
    privacy = privacy.over(family)
    if not privacy.adds_noise:
        none, ones = np.broadcast_to(0.0, agents), np.broadcast_to(1.0, agents)
        return Calibration(privacy, algorithm, 1, 0.0, none, (0.0, math.inf), ones, family)
    steps = coefficient_table(algorithm, rounds)
    found = _statistic(privacy, family)
    _check_algorithm(privacy, algorithm)
    _check_members(privacy, family, algorithm)
    _check_room(privacy, rounds)
    fractions = _fractions(privacy, agents)
    weights = np.asarray(network.largest_neighbour_weight)
    return Calibration(
        privacy=privacy,
        algorithm=algorithm,
        rounds_per_budget=steps.releases if algorithm.splits_budget else 1,
        sensitivity=found.sensitivity,
        network=privacy.hides_neighbours * weights / fractions,
        bounds=found.bounds,
        fractions=fractions,
        family=family,
    )


def in_batches(privacy: PrivacyRequest, algorithm: Algorithm) -> Algorithm:
    """The algorithm as a request runs it: with its readings in the request's batches, if any.

    Parameters
    ----------
    privacy
        The request.
    algorithm
        The algorithm, with or without batches.

    Returns
    -------
    Algorithm
        `algorithms.Batched` where there are batches.

    Raises
    ------
    PrivacyError
        Where the readings of the algorithm cannot enter in batches.

    Examples
    --------
    >>> from veilsum.algorithms import Learn
    >>> from veilsum.privacy import Batches, SignalDP
    >>> in_batches(SignalDP(1.0, batches=Batches(growth=2.0)), Learn()).readings(4)
    2
    """
    try:
        return batched(algorithm, privacy.batches)
    except AlgorithmError as problem:
        raise PrivacyError(f"batches do not go with this algorithm: {problem}") from problem


def refusal(privacy: PrivacyRequest, family: Any, algorithm: Algorithm | None = None) -> str | None:
    """Why no noise keeps the guarantee for a family, or None: what `calibrate` would refuse.

    Parameters
    ----------
    privacy
        The request.
    family
        The family of the signals.
    algorithm
        The algorithm; without it only the family is looked at.

    Returns
    -------
    str or None
        The reason, as the message of the error.

    Examples
    --------
    >>> from veilsum import families
    >>> from veilsum.privacy import SignalDP
    >>> refusal(SignalDP(1.0, radius=1.0), families.LogNormal(1.0))[:42]
    'family log-normal has infinite global sens'
    """
    if not privacy.adds_noise:
        return None
    try:
        privacy = privacy.over(family)
        _statistic(privacy, family)
        if algorithm is not None:
            _check_algorithm(privacy, in_batches(privacy, algorithm))
            _check_members(privacy, family, algorithm)
    except VeilsumError as problem:
        return str(problem)
    return None


def mechanism_of(privacy: PrivacyRequest, family: Any, released: bool = False) -> Mechanism:
    """The mechanism of a request for one release of a family's statistic; "best" is resolved.

    Parameters
    ----------
    privacy
        The request, of a public scale.
    family
        The family of the signals.
    released
        Whether it must cover what floats do to the statistic, for an exact release.

    Returns
    -------
    Mechanism
        The one that `estimate` samples and an agent releases with.

    Raises
    ------
    PrivacyError
        Where the mechanism does not take such a statistic.

    Examples
    --------
    >>> from veilsum import families
    >>> from veilsum.privacy import SignalDP
    >>> mechanism_of(SignalDP(1.0, mechanism="best"), families.Bernoulli()).name
    'duchi'
    """
    if not privacy.adds_noise:
        return IdentityMechanism()
    domain = _domain(privacy := privacy.over(family), family)
    error = input_error(family, domain.sensitivity) if released else 0.0
    return make(privacy.mechanism, privacy.epsilon, domain, family.dimension, error)


def masked_mechanism(privacy: MaskedDP, family: Any, members: int) -> MaskedMechanism:
    """What each of that many members adds to a masked sum, on the grid of the request.

    Rounding moves each coordinate by less than one step more, which the noise covers, whether readings
    of a batch are rounded one by one or their sum once. Bounds of the statistic, where there are
    any, must fit the modulus together, as often as the longest batch has readings.

    Parameters
    ----------
    privacy
        The request.
    family
        The family of the signals; None for a statistic of sensitivity 1.
    members
        n.

    Returns
    -------
    MaskedMechanism
        With the parameters of the session.

    Raises
    ------
    PrivacyError
        If there are too few members, or the grid does not fit.

    Examples
    --------
    >>> from veilsum import families
    >>> from veilsum.privacy import MaskedDP
    >>> normal = families.Normal(1.0, bounds=(0.0, 1.0))
    >>> made = masked_mechanism(MaskedDP(1.0, colluders=30), normal, 100)
    >>> made.step == 2.0**-12, made.terms.sensitivity_steps, made.terms.honest
    (True, 4097, 70)
    """
    privacy = privacy.over(family)
    delta = 1.0 if family is None else _finite(privacy, family)
    dimension = 1 if family is None else family.dimension
    whole = family is not None and family.statistic_is_integer
    asked = privacy.steps or (SCALAR_STEPS if dimension == 1 else VECTOR_STEPS)
    step = 1.0 if whole else grid_step(delta, asked)
    moved = math.ceil(delta) if whole else math.floor(delta / step) + dimension
    longest = 1 if privacy.batches is None else privacy.batches.longest or LONGEST_BATCH
    terms: MaskedParameters
    session_epsilon, session_delta = privacy.session_cost
    numbers = (
        members, privacy.colluders, privacy.absent, session_epsilon, moved, privacy.attempts,
        _largest_steps(family, step), dimension, longest,
    )  # fmt: skip
    within = _range_steps(family, step)
    if privacy.delta:
        l2 = delta if family is None else family.l2_sensitivity(privacy.reach)
        l2 = min(float(moved), l2 / step + (0 if whole else math.sqrt(dimension)))
        terms = SkellamParameters(*numbers, range_steps=within, delta=session_delta, l2_steps=l2)
    else:
        terms = MaskedParameters(*numbers, range_steps=within)
    return MaskedMechanism(session_epsilon, delta, step, terms, whole)


def _range_steps(family: Any, step: float) -> tuple[int, int] | None:
    """The least and the largest component of a statistic in grid steps; None without bounds."""
    if family is None:
        return None
    low, high = family.statistic_range
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return None
    return math.floor(float(low.min()) / step), math.ceil(float(high.max()) / step)


def _largest_steps(family: Any, step: float) -> int | None:
    """The largest component of a statistic in grid steps, absolute; None without bounds."""
    within = _range_steps(family, step)
    return None if within is None else max(1, *map(abs, within))


def mechanism_name(privacy: PrivacyRequest, family: Any) -> str:
    """The name of the mechanism that a request ends in: "best" resolved for its epsilon.

    Parameters
    ----------
    privacy
        The request.
    family
        The family of the signals.

    Returns
    -------
    str
        The name of a mechanism.

    Examples
    --------
    >>> from veilsum import families
    >>> from veilsum.privacy import SignalDP
    >>> bounded = families.Normal(1.0, bounds=(0.0, 1.0))
    >>> mechanism_name(SignalDP(1.0, mechanism="best"), bounded)
    'hybrid'
    """
    if privacy.reads_signals:
        return SmoothLaplaceMechanism.name
    if privacy.masked or not privacy.perturbs_input:
        return privacy.mechanism
    return mechanism_of(privacy, family).name


def event_of(privacy: PrivacyRequest, family: Any, epsilon: float, delta: float) -> PrivacyEvent:
    """The privacy event of one release under a request, for the ideal distribution.

    Parameters
    ----------
    privacy, family
        The request and the family; without a family nothing is assumed of its statistic.
    epsilon, delta
        Of this release, where rounds divide a budget.
    """
    if delta:
        return PrivacyEvent.of(epsilon, delta)
    if not privacy.perturbs_input:
        return LaplaceMechanism(epsilon, 1.0).event()
    if family is None:
        return PrivacyEvent(epsilon)
    return mechanism_of(privacy.at(epsilon), family).event()


def domain_of(family: Any, radius: float) -> Domain:
    """What goes into a mechanism: the range of a family's statistic, and its sensitivity.

    The range is used where it is finite, for one number whose sensitivity is derived in this package.

    Examples
    --------
    >>> from veilsum import families
    >>> domain_of(families.Bernoulli(), 1.0)
    BoundedSignal(low=0.0, high=1.0, integer=True, sensitivity=1.0)
    """
    sensitivity = float(family.sensitivity(radius).value)
    whole = family.statistic_is_integer
    if family.dimension == 1 and not family.signal_shape and family.sensitivity_is_proved:
        high = float(family.statistic_range[1][0])
        width = float(family.sensitivity(math.inf).value)  # rounded up
        if math.isfinite(high) and math.isfinite(width):
            return BoundedSignal(high - width, high, whole, sensitivity)
    if whole:
        return IntegerStatistic(math.ceil(sensitivity))
    return RealStatistic(sensitivity)


def _domain(privacy: PrivacyRequest, family: Any) -> Domain:
    """What goes into the mechanism of a request: sums of batches have no bounds of their own."""
    domain = domain_of(family, privacy.reach)
    if privacy.batches is None or not isinstance(domain, BoundedSignal):
        return domain
    if domain.integer:
        return IntegerStatistic(math.ceil(domain.sensitivity))
    return RealStatistic(domain.sensitivity)


def input_error(family: Any, sensitivity: float) -> float:
    """How far a computed statistic can be from the true one: 2^-49 max |xi| on the support.

    An identity or a one-hot code is exact. Any other statistic here (log, log(1 + s), log(s/m),
    powers, |s - m|) is at most two operations, each within 4 units in the last place, so that
    |error| <= 2^-49 max |xi| over the public support, and the largest |xi| lies at an end of it. A
    custom family is taken at its author's word in this too.

    Parameters
    ----------
    family
        The family.
    sensitivity
        Of its statistic: the error must be far below it.

    Returns
    -------
    float
        The bound.

    Raises
    ------
    PrivacyError
        Where floats have no such bound, on a support that is not bounded.

    Examples
    --------
    >>> from veilsum import families
    >>> input_error(families.Normal(1.0), 1.0)
    0.0
    """
    if family.statistic_is_exact or not family.sensitivity_is_proved:
        return 0.0
    support = family.support
    low = math.nextafter(support.low, math.inf) if support.open_low else support.low
    high = math.nextafter(support.high, -math.inf) if support.open_high else support.high
    ends = np.clip(np.array([low, high]), -LARGEST, LARGEST)
    with np.errstate(over="ignore"):
        found = RELATIVE * float(np.max(np.abs(family.columns(ends))))
    if not found <= MOST_ERROR * sensitivity:
        raise PrivacyError(
            f"the statistic {family.formula} of {family.name} has no bound on how far floats are "
            f"from it ({support.describe()}); give the family bounds"
        )
    return found


class _Statistic(NamedTuple):
    """What the noise needs to know of a statistic."""

    sensitivity: float  # NaN where it is read off the signals
    bounds: tuple[float, float]  # of the signals, for smooth sensitivity


def _statistic(privacy: PrivacyRequest, family: Any) -> _Statistic:
    if privacy.reads_signals:
        return _Statistic(math.nan, _log_bounds(privacy, family))
    found = _Statistic(_finite(privacy, family), (0.0, math.inf))
    if privacy.perturbs_input and not privacy.masked:
        mechanism_of(privacy, family)  # raises where it does not take such a statistic
    return found


def _check_algorithm(privacy: PrivacyRequest, algorithm: Algorithm) -> None:
    """Refuse algorithms whose noise is not one perturbation of each signal."""
    if privacy.masked != algorithm.masked:
        wrong = f"algorithm {algorithm.name} does not go with {type(privacy).__name__}"
        raise PrivacyError(
            f"{wrong}; MaskedDP goes with masked-sum and masked-learn, in which no agent has noise "
            "for itself alone"
        )
    if not privacy.perturbs_input:
        return
    for applies, problem in (
        (algorithm.splits_budget, "divides its budget over rounds"),
        (algorithm.perturbs_links, "adds noise to every link"),
        (algorithm.perturbs_messages, "sends its noise along with its messages"),
    ):
        if applies:
            raise PrivacyError(
                f"algorithm {algorithm.name} {problem}, and mechanism {privacy.mechanism} perturbs "
                "each signal once; use mechanism laplace"
            )


def _check_members(privacy: PrivacyRequest, family: Any, algorithm: Algorithm) -> None:
    """Refuse a masked sum with too few members, or with more absences than it covers."""
    session = algorithm.session
    if not isinstance(privacy, MaskedDP) or session is None:
        return
    terms = masked_mechanism(privacy, family, session.members).terms
    if privacy.delta:
        _check_delta(privacy, masked_mechanism(replace(privacy, delta=0.0), family, terms.n), terms)
    if session.missing > terms.absent:
        raise PrivacyError(
            f"{session.missing} members are missing from the roster and absent = {terms.absent} "
            "is covered; cover more, or nobody may send"
        )
    if session.restarts >= terms.attempts:
        raise PrivacyError(
            f"{session.restarts} restarts need {session.restarts + 1} attempts, and a query has "
            f"{terms.attempts}; cover more absentees, and state attempts"
        )


def _check_delta(privacy: MaskedDP, pure: MaskedMechanism, terms: MaskedParameters) -> None:
    """Refuse a delta with which the noise is no smaller than without."""
    with_delta, without = (float(one.noise.variance) for one in (terms, pure.terms))
    if with_delta >= without:
        more = math.sqrt(with_delta / without)
        raise PrivacyError(
            f"delta = {privacy.delta:g} buys nothing here: Skellam noise has {more:.3g} times the "
            "deviation of pure noise, for it needs many components that move together (radius = inf "
            "and bounds); leave delta out"
        )


def _check_room(privacy: PrivacyRequest, rounds: int) -> None:
    """Refuse batches of a masked sum that may become longer than the modulus has room for."""
    batches = privacy.batches
    if privacy.masked and batches and not batches.longest and rounds > LONGEST_BATCH:
        raise PrivacyError(
            f"a masked sum has room for batches of up to {LONGEST_BATCH:,} readings, and those of "
            f"{rounds:,} rounds may be longer; state longest"
        )


def _fractions(privacy: PrivacyRequest, agents: int) -> Floats:
    """Each agent's budget over epsilon."""
    found = privacy.budget_fractions
    if found is None:
        return np.ones(agents)
    if len(found) != agents:
        raise PrivacyError(
            f"budget_fractions has {len(found)} entries and the network {agents} agents"
        )
    return np.array(found, dtype=np.float64)


def _log_bounds(privacy: PrivacyRequest, family: Any) -> tuple[float, float]:
    """The public bounds of a signal whose logarithm is taken; smooth sensitivity needs a floor."""
    if not family.statistic_is_log:
        raise PrivacyError(
            f"sensitivity {privacy.sensitivity} is known where the statistic is log s; "
            f"that of {family.name} is {family.formula}; try sensitivity global"
        )
    low, high = float(family.support.low), float(family.support.high)
    if privacy.sensitivity is SMOOTH and not low > 0:
        raise PrivacyError(
            "the smooth sensitivity of log s is infinite without a floor (erratum 2); give the "
            "family bounds=(floor, None)"
        )
    return low, high


def _finite(privacy: PrivacyRequest, family: Any) -> float:
    """Delta, which must be finite and above 0: noise of scale 0 hides nothing."""
    found = family.sensitivity(privacy.reach)
    if math.isinf(found.value):
        raise PrivacyError(
            f"family {family.name} has infinite global sensitivity, so no finite noise hides a "
            f"signal: {found.reason}"
        )
    if not (found.value > 0 and found.value / privacy.epsilon > 0):
        raise PrivacyError(
            f"family {family.name} has sensitivity {found.value:g} at radius {privacy.reach:g}, "
            "and noise of that scale would hide nothing; choose a larger radius or wider bounds"
        )
    return float(found.value)
