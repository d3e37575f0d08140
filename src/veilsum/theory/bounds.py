"""The paper's bounds as functions, sharper ones, and Table 1 with both beside the exact errors.

n agents, beta* = max(lambda_2, |lambda_n|), t rounds, V = Var d. A bound of the paper has two terms
that add up by the triangle inequality: the cost of privacy and the cost of decentralisation, as
expected l2 norms over agents. Whether it holds, `veilsum reproduce theorems` computes.

The sharper bounds need beta* alone as well. The mean of all agents (lambda = 1) is known exactly;
at every other eigenvalue the response of an algorithm is at most its response at the edge of the
spectrum, and 1 - 1/n of each variance lies there:

    CoP^2 <= sum_tau sum_j V_{j,tau} (h_{t,tau}(1)^2/n + (1 - 1/n) h_{t,tau}(edge)^2)
    CoD^2 <= sigma^2 (n - 1) P_t(edge)^2                                       one signal each
    CoD^2 <= sigma^2 sum_tau (h_{t,tau}(1)^2 + (n - 1) h_{t,tau}(edge)^2)      a stream

For the average: sqrt(sum_j V_j (1/n + (1 - 1/n) beta*^{2t})). The edge is beta* for algorithms of
nonnegative weights without momentum, lambda_2 for chebyshev, whose response is level on its
interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilsum import _validate, algorithms
from veilsum._types import symmetric
from veilsum.errors import AlgorithmError, VeilsumError
from veilsum.privacy import NetworkDP, SignalDP
from veilsum.simulation import Problem, SyntheticSignals
from veilsum.theory import moments
from veilsum.theory.exact import Expected, expected
from veilsum.theory.moments import laplace_variance, noise_variance, statistic_moments

Floats = NDArray[np.float64]
_ONE = np.ones(1)
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Bound:
    """A bound on the total error, as the sum of its two terms.

    Attributes
    ----------
    privacy, decentralisation
        The two terms.
    reference
        The statement of the paper.

    Examples
    --------
    >>> theorem_1(size=9, beta_star=0.5, rounds=10, noise=18.0, largest=3.0).reference
    'Theorem 1'
    """

    privacy: float
    decentralisation: float
    reference: str

    @property
    def total(self) -> float:
        """privacy + decentralisation."""
        return self.privacy + self.decentralisation


def theorem_1(size: int, beta_star: float, rounds: int, noise: float, largest: float) -> Bound:
    """(1 + sqrt(n-1) beta*^t) sqrt(noise) + sqrt(n(n-1)) beta*^t M_n   (Theorem 1, offline).

    It holds for every A. Its cost of privacy is at least sqrt(noise), that of agents which never
    communicate. The paper calls it tight on the complete graph, which it is not: there TE is
    sqrt(noise/n), smaller by sqrt(n). The theorem's second part, O(... + Delta/eps), lacks that
    sqrt(n) and is attained, up to sqrt(2) (`corollary_1`).

    Parameters
    ----------
    size, beta_star, rounds
        n, beta* and t.
    noise
        sum_j Var d_j.
    largest
        M_n = max_i |xi_i|.

    Returns
    -------
    Bound
        The bound and its terms.

    Raises
    ------
    VeilsumError
        For beta_star outside [0, 1), or a size or number of rounds below their minimum.

    Examples
    --------
    >>> bound = theorem_1(size=100, beta_star=0.5, rounds=60, noise=200.0, largest=3.0)
    >>> round(bound.total, 3)  # sqrt(noise)
    14.142
    """
    n, fade = _checked(size, beta_star, rounds)
    privacy = (1 + math.sqrt(n - 1) * fade) * math.sqrt(noise)
    decentralisation = math.sqrt(n * (n - 1)) * fade * largest
    return Bound(privacy, decentralisation, "Theorem 1")


def corollary_1(
    size: int, beta_star: float, rounds: int, reach: float, epsilon: float, largest: float
) -> Bound:
    """sqrt(2) (n beta*^t + 1) reach/eps + n beta*^t M_n   (Corollary 1, offline, network).

    The published O() for Lap(reach/eps), reach = max(a, Delta), with the least constant that holds:
    CoP^2 <= 2 (reach/eps)^2 (1 + (n-1) beta*^(2t)), and the error without noise is at most
    beta*^t ||xi|| <= sqrt(n) beta*^t M_n. As t grows it is attained. With reach = Delta it is also
    the second part of Theorem 1. The claim of Network DP for all t is refuted (erratum 5).

    Parameters
    ----------
    size, beta_star, rounds
        n, beta* and t.
    reach
        max(a, Delta): the larger of the weight of a neighbour and the sensitivity.
    epsilon
        Privacy budget.
    largest
        M_n = max_i |xi_i|.

    Returns
    -------
    Bound
        The bound and its terms.

    Raises
    ------
    VeilsumError
        For epsilon <= 0, beta_star outside [0, 1), or a size or rounds below their minimum.

    Examples
    --------
    >>> bound = corollary_1(100, beta_star=0.5, rounds=60, reach=1.0, epsilon=1.0, largest=3.0)
    >>> round(bound.total, 3)  # sqrt(2): smaller than Theorem 1's by sqrt(n)
    1.414
    """
    _validate.positive(VeilsumError, epsilon=epsilon)
    n, fade = _checked(size, beta_star, rounds)
    privacy = math.sqrt(laplace_variance(reach / epsilon)) * (n * fade + 1)
    return Bound(privacy, n * fade * largest, "Corollary 1")


def theorem_2(size: int, beta_star: float, rounds: int, noise: float, variance: float) -> Bound:
    """1/t (sqrt(n t Var xi) + sqrt(noise)) (1 + sqrt((n-1)/(1-beta*^2)))   (Theorem 2, online).

    It holds, and so does its proof: the principal eigenvalue contributes max_tau 1 = 1 times the
    sum of the variances. It is above the error of agents that never communicate,
    1/t sqrt(n t Var xi + noise).

    Parameters
    ----------
    size, beta_star, rounds
        n, beta* and t.
    noise
        sum_j sum_tau Var d_{j,tau}.
    variance
        Var xi.

    Returns
    -------
    Bound
        The bound and its terms.

    Raises
    ------
    VeilsumError
        For beta_star outside [0, 1), or a size or number of rounds below their minimum.

    Examples
    --------
    >>> bound = theorem_2(size=10, beta_star=0.0, rounds=100, noise=2000.0, variance=1.0)
    >>> round(bound.privacy, 3), round(bound.decentralisation, 3)
    (1.789, 1.265)
    """
    n, _ = _checked(size, beta_star, rounds)
    factor = (1 + math.sqrt((n - 1) / (1 - beta_star**2))) / rounds
    return _online("Theorem 2", factor, noise, n * rounds * variance)


def theorem_3(size: int, beta_star: float, rounds: int, noise: float, variance: float) -> Bound:
    """1/t (sqrt(n t Var xi) + sqrt(noise)) (1 + sqrt((n-1)/(3-2 beta*)))   (Theorem 3, online).

    It holds, since the rounds are contractions, and is above the error of agents that never
    communicate, 1/t sqrt(n t Var xi + noise). Its proof does not hold: it bounds the sum of
    the squared responses at an eigenvalue by 1/(3-2 lambda), and the sum is about t/(3-2 lambda).
    So disagreement under Algorithm 5 is a fixed fraction of the error at every t: CoP^2 tends to
    V/t sum_i 1/(3-2 lambda_i).

    Parameters
    ----------
    size, beta_star, rounds
        n, beta* and t.
    noise
        sum_j sum_tau Var d_{j,tau}.
    variance
        Var xi.

    Returns
    -------
    Bound
        The bound and its terms.

    Raises
    ------
    VeilsumError
        For beta_star outside [0, 1), or a size or number of rounds below their minimum.

    Examples
    --------
    >>> bound = theorem_3(size=10, beta_star=0.0, rounds=100, noise=2000.0, variance=1.0)
    >>> round(bound.privacy, 3), round(bound.decentralisation, 3)
    (1.222, 0.864)
    """
    n, _ = _checked(size, beta_star, rounds)
    factor = (1 + math.sqrt((n - 1) / (3 - 2 * beta_star))) / rounds
    return _online("Theorem 3", factor, noise, n * rounds * variance)


def rounds_to_accuracy(
    size: int, beta_star: float, accuracy: float, largest: float, reach: float, epsilon: float
) -> int:
    """ceil(log(n (M_n + Delta/eps)/rho) / log(1/beta*))   (App. C.1, static networks).

    After that many rounds the agents are within rho of their mean, in expected l2 norm, for n >= 2.
    The paper says: within rho of the minimum variance estimate. From that they stay
    sqrt(2) Delta/eps away (the mean of the noise), so for a smaller rho the statement is corrected.

    Parameters
    ----------
    size, beta_star
        n and beta*.
    accuracy
        rho.
    largest
        M_n = max_i |xi_i|.
    reach
        Delta, the sensitivity.
    epsilon
        Privacy budget.

    Returns
    -------
    int
        The number of rounds; 0 if the start is accurate enough.

    Raises
    ------
    VeilsumError
        For accuracy or epsilon <= 0, or beta_star outside [0, 1).

    Examples
    --------
    >>> rounds_to_accuracy(100, 0.9, accuracy=0.01, largest=3.0, reach=1.0, epsilon=1.0)
    101
    """
    _validate.positive(VeilsumError, accuracy=accuracy, epsilon=epsilon)
    n, _ = _checked(size, beta_star, 1)
    start = n * (largest + reach / epsilon)
    return rounds_to_decay(start, accuracy, beta_star)


def rounds_to_decay(start: float, accuracy: float, rate: float) -> int:
    """The least t with start rate^t <= accuracy, one decision for a bound and for an exact rate."""
    if start <= accuracy:
        return 0
    return 1 if rate < 1e-14 else math.ceil(math.log(start / accuracy) / -math.log(rate))


def dynamic_rounds(
    size: int,
    accuracy: float,
    largest: float,
    reach: float,
    epsilon: float,
    first: float = 1.0,
    second: float = 1.0,
) -> float:
    """min(2^(first n) R/rho, log(R/rho)^(n-1) 2^(n^2 - second n))   (App. C.1, dynamic networks).

    R = M_n + Delta/eps. Corrected: it is not enough that no node is isolated. Two disjoint links
    (n = 4) isolate none, and the two pairs never agree; the links of every long enough interval of
    rounds must connect all agents.

    Parameters
    ----------
    size
        n.
    accuracy
        rho, in (0, 1/2).
    largest
        M_n = max_i |xi_i|.
    reach
        Delta, the sensitivity.
    epsilon
        Privacy budget.
    first, second
        The constants of the two O(n), which are not published.

    Returns
    -------
    float
        The number of rounds; inf beyond the range of a float.

    Raises
    ------
    VeilsumError
        For accuracy outside (0, 1/2) or epsilon <= 0.

    Examples
    --------
    >>> round(dynamic_rounds(4, accuracy=0.1, largest=1.0, reach=0.0, epsilon=1.0), 6)
    160.0
    """
    if not 0 < accuracy < 0.5:
        raise VeilsumError(f"accuracy must lie in (0, 1/2), as stated; found {accuracy}")
    _validate.positive(VeilsumError, epsilon=epsilon)
    n, ratio = size, (largest + reach / epsilon) / accuracy
    powers = [first * n + math.log2(ratio), n**2 - second * n]
    inner = math.log(ratio)
    powers[1] += (n - 1) * math.log2(inner) if inner > 0 else -math.inf
    least = min(powers)
    return 2.0**least if least < 1024 else math.inf


def heterogeneous_offline(
    size: int, beta_star: float, rounds: int, scales: ArrayLike, largest: float
) -> Bound:
    """sqrt(2) (1 + beta*^t) sum_i Delta_i/eps_i + beta*^t M_n   (App. C.3, table, offline).

    sqrt(2) is the standard deviation of Lap(1). The privacy term holds. The other fails for any
    constant, because it lost Theorem 1's n: on a hypercube the statistics +-M along an edge
    direction err by sqrt(n) beta*^t M. With sqrt(n) M_n it holds.

    Parameters
    ----------
    size, beta_star, rounds
        n, beta* and t.
    scales
        Delta_i/eps_i of every agent, or their sum.
    largest
        M_n = max_i |xi_i|.

    Returns
    -------
    Bound
        The bound and its terms.

    Raises
    ------
    VeilsumError
        For beta_star outside [0, 1), or a size or number of rounds below their minimum.

    Examples
    --------
    >>> bound = heterogeneous_offline(2, 0.5, rounds=1, scales=[1.0, 3.0], largest=2.0)
    >>> round(bound.privacy, 3), bound.decentralisation
    (8.485, 1.0)
    """
    _, fade = _checked(size, beta_star, rounds)
    privacy = math.sqrt(laplace_variance(1.0)) * (1 + fade) * float(np.sum(scales))
    return Bound(privacy, fade * largest, "App. C.3, offline")


def heterogeneous_online(size: int, rounds: int, scales: ArrayLike, variance: float) -> Bound:
    """sqrt(2/t) sum_i Delta_i/eps_i + n/sqrt(t) sqrt(Var xi)   (App. C.3, table, online).

    It holds: sqrt(2 sum b_i^2/t) <= sqrt(2/t) sum b_i, and sqrt(n/t) <= n/sqrt(t).

    Parameters
    ----------
    size, rounds
        n and t.
    scales
        Delta_i/eps_i of every agent, or their sum.
    variance
        Var xi.

    Returns
    -------
    Bound
        The bound and its terms.

    Raises
    ------
    VeilsumError
        For a size or number of rounds below their minimum.

    Examples
    --------
    >>> bound = heterogeneous_online(2, rounds=4, scales=[1.0, 3.0], variance=1.0)
    >>> round(bound.privacy, 3), bound.decentralisation
    (2.828, 1.0)
    """
    _checked(size, 0.0, rounds)
    privacy = math.sqrt(laplace_variance(1.0) / rounds) * float(np.sum(scales))
    decentralisation = size / math.sqrt(rounds) * math.sqrt(variance)
    return Bound(privacy, decentralisation, "App. C.3, online")


def _online(reference: str, factor: float, noise: float, sampling: float) -> Bound:
    """factor (sqrt(sampling) + sqrt(noise)): both are sums of variances over agents and rounds."""
    return Bound(factor * math.sqrt(noise), factor * math.sqrt(sampling), reference)


def _checked(size: int, beta_star: float, rounds: int) -> tuple[int, float]:
    """n and beta*^t."""
    _validate.at_least(VeilsumError, 1, size=size)
    _validate.at_least(VeilsumError, 0, rounds=rounds)
    if not 0 <= beta_star < 1:
        raise VeilsumError(f"beta_star must lie in [0, 1); found {beta_star}")
    return size, beta_star**rounds


@dataclass(frozen=True, eq=False)
class SharperBound:
    """Bounds on the root expected squared norms, for every round; total^2 is the sum of both.

    Attributes
    ----------
    privacy
        Bound on the cost of privacy, (rounds + 1, epsilons).
    decentralisation
        Bound on the cost of decentralisation, (rounds + 1,).

    Examples
    --------
    >>> bound = SharperBound(privacy=np.array([[3.0]]), decentralisation=np.array([4.0]))
    >>> bound.total.tolist()
    [[5.0]]
    """

    privacy: Floats
    decentralisation: Floats

    @property
    def total(self) -> Floats:
        """sqrt(privacy^2 + decentralisation^2): the two are uncorrelated."""
        return np.asarray(np.hypot(self.privacy, self.decentralisation[:, None]))


def sharper(problem: Problem, deviation: float | None = None) -> SharperBound:
    """The sharper bounds for a problem, from n and beta* (or lambda_2).

    Parameters
    ----------
    problem
        What would be run.
    deviation
        Assumed standard deviation of the statistic; needed where signals are recorded.

    Returns
    -------
    SharperBound
        Bounds for every round and epsilon.

    Raises
    ------
    AlgorithmError
        For an algorithm with momentum or negative weights, other than chebyshev.

    Examples
    --------
    >>> import veilsum as vs
    >>> ring, family = vs.networks.metropolis("ring:9"), vs.families.Normal(sigma=1.0)
    >>> source = vs.simulation.SyntheticSignals(family, {"mu": 2.0}, 9, seed=1)
    >>> request = vs.privacy.SignalDP(epsilon=1.0)
    >>> problem = vs.simulation.Problem(
    ...     ring, vs.algorithms.Average(), family, source, request, rounds=5
    ... )
    >>> exact, bound = vs.theory.expected(problem), vs.theory.sharper(problem)
    >>> bool((exact.total <= bound.total * (1 + 1e-9)).all())
    True
    """
    algorithm, rounds, n = problem.algorithm, problem.rounds, problem.network.size
    edge, rest = np.array([_edge(problem)]), np.array([n - 1.0])
    noise, xi = noise_variance(problem), statistic_moments(problem, deviation)

    def mean(t: int) -> Floats:
        return np.asarray(noise.at(t).mean(axis=0, keepdims=True))

    innovations = moments.innovations(algorithm)
    privacy = moments.weighted_variance(algorithm, _ONE, _ONE, rounds, mean)
    privacy += moments.weighted_variance(algorithm, edge, rest, rounds, mean)
    gain, far = (
        np.concatenate(list(moments.response(algorithm, at, rounds)))
        / moments.divisor(algorithm, rounds)
        for at in (_ONE, edge)
    )
    if algorithm.online:
        away = moments.weighted_variance(algorithm, _ONE, _ONE, rounds, innovations)
        away = away + moments.weighted_variance(algorithm, edge, rest, rounds, innovations)
        away = xi.variance * away[:, 0]
        away += n * ((gain[:, None] * xi.mean - xi.target) ** 2).sum(axis=1)
    else:
        away = xi.variance * (n - 1) * far**2
    return SharperBound(np.sqrt(problem.family.dimension * privacy), np.sqrt(away))


def sharper_theorem_1(size: int, beta_star: float, rounds: int, noise: float) -> float:
    """sqrt(noise (1/n + (1 - 1/n) beta*^{2t})): the privacy term of Theorem 1, sharper.

    Parameters
    ----------
    size, beta_star, rounds
        n, beta* and t.
    noise
        sum_j Var d_j.

    Returns
    -------
    float
        A bound on the cost of privacy.

    Examples
    --------
    >>> round(sharper_theorem_1(size=100, beta_star=0.5, rounds=60, noise=200.0), 3)
    1.414
    """
    return math.sqrt(noise * (1 / size + (1 - 1 / size) * beta_star ** (2 * rounds)))


def sharper_theorem_2(size: int, beta_star: float, rounds: int, noise: float) -> float:
    """sqrt(noise (1/n + (1 - 1/n)(1 - beta*^{2t})/(t (1 - beta*^2)))/t): Theorem 2, sharper.

    Parameters
    ----------
    size, beta_star, rounds
        n, beta* and t.
    noise
        sum_j Var d_{j,tau} of one round, the same in every round.

    Returns
    -------
    float
        A bound on the cost of privacy.

    Examples
    --------
    >>> round(sharper_theorem_2(size=10, beta_star=0.0, rounds=100, noise=20.0), 3)
    0.148
    """
    t = rounds
    rest = (1 - beta_star ** (2 * t)) / (t * (1 - beta_star**2))
    return math.sqrt(noise * (1 / size + (1 - 1 / size) * rest) / t)


def _edge(problem: Problem) -> float:
    """The eigenvalue below 1 at which the response of an algorithm is largest."""
    algorithm, network = problem.algorithm, problem.network
    if algorithm.largest_at_lambda_2:
        return symmetric(network).lambda_2
    first = 1 if any(algorithm.start) else 2  # from nu_0 = 0 the weights of round 1 have no effect
    steps = [algorithm.at(t) for t in range(first, problem.rounds + 1)]
    if any(now.own < 0 or now.mixing < 0 or now.momentum for now in steps) or not (
        algorithm.online or all(not now.innovation for now in steps)
    ):
        raise AlgorithmError(
            f"algorithm {algorithm.name} has negative weights or momentum, so its response is not "
            "largest at beta*; use theory.expected, which is exact"
        )
    return _beta_star(network)


def _beta_star(network: Any) -> float:
    """beta* rounded up: eigenvalues are known to a few units of rounding, and bounds hold beyond them.

    On complete graphs with equal weights beta* is 0, and what is computed is rounding alone.
    """
    found = symmetric(network).beta_star
    return min(found + 4 * math.sqrt(network.size) * EPS, (1 + found) / 2)


CELLS = (
    ("offline", "signal", "average", SignalDP),
    ("offline", "network", "average", NetworkDP),
    ("online", "signal", "learn", SignalDP),
    ("online", "network", "learn-network", NetworkDP),
)


@dataclass(frozen=True, eq=False)
class Table1Row:
    """One cell of Table 1 at the last round and first epsilon: exact <= sharper <= theorem.

    Attributes
    ----------
    setting
        "offline" or "online".
    protects
        "signal" or "network".
    algorithm
        Name of the algorithm.
    exact
        Roots of expected squares.
    sharper, theorem
        The sharper bound, and that of Theorem 1, Corollary 1, Theorem 2 or Theorem 3.
    order
        The expression inside O(), with Delta/eps read as the standard deviation of the noise.

    Examples
    --------
    >>> exact, sharper = Bound(1.0, 0.5, "exact"), Bound(1.5, 0.5, "sharper")
    >>> theorem = Bound(2.0, 0.6, "Theorem 1")
    >>> Table1Row("offline", "signal", "average", exact, sharper, theorem, order=theorem).holds
    True
    """

    setting: str
    protects: str
    algorithm: str
    exact: Bound
    sharper: Bound
    theorem: Bound
    order: Bound

    @property
    def holds(self) -> bool:
        """exact <= sharper <= theorem, up to rounding."""
        names = ("privacy", "decentralisation")
        return all(
            getattr(self.exact, k) <= getattr(self.sharper, k) * (1 + 1e-9)
            and getattr(self.sharper, k) <= getattr(self.theorem, k) * (1 + 1e-9)
            for k in names
        )


def table_1(problem: Problem, largest: float | None = None) -> tuple[Table1Row, ...]:
    """The four cells of Table 1 for the network, family, epsilon and rounds of a problem.

    Parameters
    ----------
    problem
        Its algorithm is replaced by that of each cell.
    largest
        M_n; by default the root mean square of max |xi| over a hundred draws.

    Returns
    -------
    tuple of Table1Row
        Offline and online, signal and network.

    Raises
    ------
    VeilsumError
        Without a privacy request, or for recorded signals without `largest`.

    Examples
    --------
    >>> import veilsum as vs
    >>> ring, family = vs.networks.metropolis("ring:9"), vs.families.Normal(sigma=1.0)
    >>> source = vs.simulation.SyntheticSignals(family, {"mu": 2.0}, 9, seed=1)
    >>> request = vs.privacy.SignalDP(epsilon=1.0)
    >>> rows = table_1(
    ...     vs.simulation.Problem(ring, vs.algorithms.Average(), family, source, request, 20)
    ... )
    >>> [(row.theorem.reference, row.holds) for row in rows[:2]]
    [('Theorem 1', True), ('Corollary 1', True)]
    """
    if not problem.privacy.adds_noise:
        raise VeilsumError("Table 1 needs a privacy request: SignalDP(...) or NetworkDP(...)")
    return tuple(_row(problem, largest, *cell) for cell in CELLS)


def _row(
    problem: Problem, largest: float | None, setting: str, protects: str, name: str, request: Any
) -> Table1Row:
    asked: Any = problem.privacy
    if asked.batches is not None:
        raise VeilsumError("Table 1 is about noise in every reading; leave batches out")
    if asked.perturbs_input:
        raise VeilsumError(
            f"Table 1 is about Laplace noise; found mechanism {asked.mechanism}; ask for laplace"
        )
    privacy = request(
        problem.run_epsilons[0], asked.delta, asked.radius, asked.sensitivity,
        asked.budget_fractions,
    )  # fmt: skip
    algorithm = algorithms.get(name, problem.network)
    cell = replace(problem, algorithm=algorithm, privacy=privacy, epsilons=(), horizon=None)
    top = _largest(cell) if largest is None else largest
    theorem, order = _published(cell, setting, protects, top)
    exact, bound = _last(expected(cell)), _last(sharper(cell))
    return Table1Row(setting, protects, name, exact, bound, theorem, order)


def _last(found: Expected | SharperBound) -> Bound:
    rest = float(found.decentralisation[-1])
    return Bound(float(found.privacy[-1, 0]), rest, type(found).__name__)


def _published(problem: Problem, setting: str, protects: str, top: float) -> tuple[Bound, Bound]:
    """The theorem's bound and the cell's expression."""
    n, beta, t = problem.network.size, _beta_star(problem.network), problem.rounds
    d, algorithm = problem.family.dimension, problem.algorithm
    noise, variance = noise_variance(problem), statistic_moments(problem).variance
    each = [  # sum_j Var d_j of every round with noise
        float(noise.at(k)[:, 0].mean() * n) / algorithm.at(k).noise ** 2
        for k in range(t + 1)
        if algorithm.at(k).noise
    ]
    total, size = d * sum(each), math.sqrt(d * max(each) / n)
    if setting == "offline":
        order = Bound(n * beta**t * size + size, n * beta**t * top, "Table 1")
        if protects == "network":
            scale = size / math.sqrt(laplace_variance(1.0))
            return corollary_1(n, beta, t, scale, 1.0, top), order
        return theorem_1(n, beta, t, total, top), order
    stated = theorem_2 if protects == "signal" else theorem_3
    rate = n / math.sqrt(t)
    order = Bound(rate * size, rate * math.sqrt(variance), "Table 1")
    return stated(n, beta, t, total, variance), order


def _largest(problem: Problem) -> float:
    """Root mean square of max |xi| over a hundred draws of the network's signals."""
    source = problem.source
    if not isinstance(source, SyntheticSignals):
        raise VeilsumError("recorded signals are not read; state M_n, largest=...")
    other = SyntheticSignals(source.family, source.parameters, source.agents, source.seed + 1)
    xi = problem.family.columns(other.signals(1, 100))
    norms = np.linalg.norm(xi, axis=-1)
    return float(np.sqrt((norms.max(axis=0) ** 2).mean()))
