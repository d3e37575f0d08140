"""Exact expected errors of every algorithm on fixed symmetric weights, without sampling.

With A = Q diag(lambda) Q' an algorithm acts on each eigenvalue by itself. For noise of variance
V_{j,tau} and h_{t,tau}(lambda) the response at t to what enters in round tau,

    E CoP_t^2 = sum_j sum_tau V_{j,tau} sum_i q_ij^2 h_{t,tau}(lambda_i)^2
    E CoD_t^2 = sigma^2 sum_{i >= 2} P_t(lambda_i)^2              one signal each, around their mean
    E CoD_t^2 = sigma^2 sum_i sum_tau h_{t,tau}(lambda_i)^2       a stream, around E xi
    E TE_t^2  = E CoP_t^2 + E CoD_t^2                             noise has mean 0

A sum over a roster has no part below lambda = 1 (`_one_sum`, `_sums_of_a_stream`), on any weights.

The mean of all agents (lambda = 1) is exact on any network; the rest comes from all eigenvalues,
or on large networks from quadratures with a standard error (`spectrum`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilsum.algorithms import Algorithm, SummedAlgorithm
from veilsum.errors import AlgorithmError, NetworkError
from veilsum.simulation import Problem
from veilsum.theory import moments, spectrum
from veilsum.theory.moments import (
    NoiseVariance,
    StatisticMoments,
    noise_variance,
    statistic_moments,
)

Floats = NDArray[np.float64]
_ONE = np.ones(1)


@dataclass(frozen=True, eq=False, repr=False)
class Expected:
    """Roots of expected squared l2 norms over all agents, for rounds 0, 1, ..., T.

    `total^2 = privacy^2 + decentralisation^2`, as a run measures them. Against the truth E xi the
    same error is `sampling^2 + shared_noise^2 + disagreement^2`.

    Attributes
    ----------
    total, privacy
        Total error and cost of privacy, (rounds + 1, epsilons); one column without privacy.
    decentralisation
        The error without noise, (rounds + 1,).
    sampling
        Error of the mean of all signals against E xi, (rounds + 1,).
    shared_noise
        Noise in the mean of all agents, (rounds + 1, epsilons).
    disagreement
        Distance of the agents from their mean, (rounds + 1, epsilons).
    standard_error
        Of `total`, (rounds + 1, epsilons); 0 when exact.
    estimated
        Whether random probes, or draws of clipped signals or of scales, were used.

    Examples
    --------
    >>> import veilsum as vs
    >>> ring, family = vs.networks.metropolis("ring:9"), vs.families.Normal(sigma=1.0)
    >>> source = vs.simulation.SyntheticSignals(family, {"mu": 2.0}, 9, seed=1)
    >>> request = vs.privacy.SignalDP(epsilon=1.0)
    >>> vs.theory.expected(
    ...     vs.simulation.Problem(ring, vs.algorithms.Average(), family, source, request, 200)
    ... )
    Expected(exact, total [1.4142])
    """

    total: Floats
    privacy: Floats
    decentralisation: Floats
    sampling: Floats
    shared_noise: Floats
    disagreement: Floats
    standard_error: Floats
    estimated: bool

    def __repr__(self) -> str:
        """The last round, at every epsilon."""
        kind = "estimated" if self.estimated else "exact"
        return f"Expected({kind}, total {np.array2string(self.total[-1], precision=4)})"


def expected(
    problem: Problem,
    *,
    scales: ArrayLike | None = None,
    deviation: float | None = None,
    probes: int = spectrum.PROBES,
    exact_up_to: int = spectrum.EXACT_UP_TO,
) -> Expected:
    """Expected errors of a problem at every round, without sampling.

    The replicas and the seed of the problem have no effect.

    Parameters
    ----------
    problem
        What would be run, on fixed symmetric doubly stochastic weights.
    scales
        Scales of the noise of every agent, (agents,) or (agents, epsilons), in place of the
        calibrated ones.
    deviation
        Assumed standard deviation of the statistic; needed where signals are recorded.
    probes
        Random vectors that represent the spectrum of larger networks; `standard_error` is theirs.
    exact_up_to
        Agents up to which every eigenvalue is computed: 6,000 take about a minute.

    Returns
    -------
    Expected
        Errors of every round and epsilon.

    Raises
    ------
    AlgorithmError
        For an online algorithm that uses its first reading twice.
    NetworkError
        For weights that change with the round or are not doubly stochastic.
    PrivacyError
        Where the scales depend on recorded signals.
    SignalError
        Where signals are recorded and no `deviation` is stated.

    Examples
    --------
    >>> import veilsum as vs
    >>> ring, family = vs.networks.metropolis("ring:9"), vs.families.Normal(sigma=1.0)
    >>> source = vs.simulation.SyntheticSignals(family, {"mu": 2.0}, 9, seed=1)
    >>> request = vs.privacy.SignalDP(epsilon=1.0)
    >>> problem = vs.simulation.Problem(
    ...     ring, vs.algorithms.Average(), family, source, request, rounds=200, epsilons=(0.5, 2.0)
    ... )
    >>> vs.theory.expected(problem).privacy[-1].round(3).tolist()
    [2.828, 0.707]
    """
    algorithm = problem.algorithm
    if algorithm.online and algorithm.start.innovation:
        raise AlgorithmError(
            f"algorithm {algorithm.name} uses the first reading twice, which is not covered here"
        )
    if algorithm.session is not None:
        of = _sums_of_a_stream if algorithm.online else _one_sum
        return of(problem, algorithm.session, scales, deviation)
    spectrum.symmetric(problem.network)
    xi, noise = statistic_moments(problem, deviation), noise_variance(problem, scales)
    spectra = _Spectra(problem, probes, exact_up_to)
    shared, apart = _noise_squares(problem, noise, spectra)
    mean, rest, sampling = _statistic_squares(problem, xi, spectra)
    drawn = noise.signals is not None or not xi.exact
    return _assembled(shared, apart, mean, rest, sampling, drawn)


def _one_sum(
    problem: Problem, algorithm: SummedAlgorithm, scales: ArrayLike | None, deviation: float | None
) -> Expected:
    """A sum over a roster: one number for all agents, 0 until it arrives.

    From then on n Var(mean over F of d) = V n/|F|, and of the statistics
    sigma^2 (n/|F| - 1) around their mean, sigma^2 n/|F| around E xi.
    """
    xi, noise = statistic_moments(problem, deviation), noise_variance(problem, scales)
    n, members, d = problem.network.size, algorithm.roster, problem.family.dimension
    done = (np.arange(problem.rounds + 1) >= algorithm.arrival)[:, None]
    drawn = (
        noise.at(algorithm.arrival)[:members] if problem.privacy.adds_noise else np.zeros((1, 1))
    )
    shared = done * (d * n / members * drawn.mean(axis=0))
    off = xi.mean - xi.target
    before = n * (xi.mean**2).sum() + xi.variance
    away = np.where(done[:, 0], xi.variance * (n / members - 1), before)
    after = xi.variance * n / members + n * (off**2).sum()
    sampling = np.where(done[:, 0], after, n * (xi.target**2).sum())
    nothing = np.zeros((1, problem.rounds + 1, 1))
    return _assembled(shared, nothing, away, nothing, sampling, not xi.exact)


def _sums_of_a_stream(
    problem: Problem, session: SummedAlgorithm, scales: ArrayLike | None, deviation: float | None
) -> Expected:
    """A sum over a roster for every batch: one number for all agents, around E xi.

    n Var of the mean over F is n/|F| times what one agent's inputs have along lambda = 1.
    """
    xi, noise = statistic_moments(problem, deviation), noise_variance(problem, scales)
    algorithm, rounds, n = problem.algorithm, problem.rounds, problem.network.size
    spread, d = n / session.roster, problem.family.dimension

    def drawn(t: int) -> Floats:
        each = noise.at(t)
        return np.asarray(each[: session.roster].mean(axis=0, keepdims=True))

    shared = d * spread * moments.weighted_variance(algorithm, _ONE, _ONE, rounds, drawn)
    entering = moments.innovations(algorithm)
    sampled = moments.weighted_variance(algorithm, _ONE, _ONE, rounds, entering)[:, 0]
    gain = np.concatenate(list(moments.response(algorithm, _ONE, rounds)))
    bias = n * ((gain[:, None] * xi.mean - xi.target) ** 2).sum(axis=1)
    along = xi.variance * spread * sampled + bias
    nothing = np.zeros((1, rounds + 1, 1))
    return _assembled(shared, nothing, along, nothing, along, not xi.exact)


def _assembled(
    shared: Floats, apart: Floats, mean: Floats, rest: Floats, sampling: Floats, drawn: bool
) -> Expected:
    """Expected squares as errors; apart and rest, (probes, rounds + 1, epsilons or 1), have i >= 2."""
    privacy, away = shared + apart, mean[:, None] + rest
    total = privacy + away
    count = len(total)
    root = np.sqrt(total.mean(axis=0))
    spread = total.std(axis=0, ddof=1) / np.sqrt(count) if count > 1 else np.zeros_like(root)
    error = np.divide(spread, 2 * root, out=np.zeros_like(root), where=root > 0)
    return Expected(
        total=root,
        privacy=np.sqrt(privacy.mean(axis=0)),
        decentralisation=np.sqrt(away.mean(axis=0))[:, 0],
        sampling=np.sqrt(sampling),
        shared_noise=np.sqrt(shared),
        disagreement=np.sqrt((apart + rest).mean(axis=0)),
        standard_error=error,
        estimated=drawn or count > 1,
    )


@dataclass(frozen=True, eq=False)
class _Spectra:
    """The spectrum that a problem needs, as exactly as was asked for."""

    problem: Problem
    probes: int
    exact_up_to: int

    def alike(self) -> spectrum.SpectralPart:
        """For what enters alike at all agents."""
        return spectrum.part(
            self.problem.network, self.problem.rounds, self.probes, self.exact_up_to
        )

    def entering(self, noise: NoiseVariance) -> tuple[spectrum.SpectralPart, moments.Inputs]:
        """For noise, and the variance of it that enters along each eigenvalue, by round."""
        network, rounds = self.problem.network, self.problem.rounds
        entering = [noise.at(t) for t in range(rounds + 1)]
        if all(len(u) == 1 for u in entering):
            return self.alike(), entering.__getitem__
        profile = _one_profile(entering)
        if network.size <= self.exact_up_to or (
            profile is None and network.size <= spectrum.EXACT_UP_TO
        ):
            known = spectrum.dense(network)
            return known.part, _projected(known, entering).__getitem__
        if profile is None:
            raise NetworkError(
                f"beyond {spectrum.EXACT_UP_TO:,} agents the noise may differ between agents, or "
                "between rounds, but not both; try protect = signal"
            )
        sizes = [u.mean(axis=0, keepdims=True) for u in entering]
        return spectrum.probed(network, profile, rounds + 1, self.probes), sizes.__getitem__


def _noise_squares(
    problem: Problem, noise: NoiseVariance, spectra: _Spectra
) -> tuple[Floats, Floats]:
    """E CoP^2 at lambda = 1, (rounds + 1, epsilons), and below, (probes, rounds + 1, epsilons)."""
    algorithm, rounds, d = problem.algorithm, problem.rounds, problem.family.dimension

    def mean(t: int) -> Floats:
        return np.asarray(noise.at(t).mean(axis=0, keepdims=True))

    shared = moments.weighted_variance(
        algorithm, _ONE, _ONE, rounds, _transmitted(algorithm, _ONE, mean)
    )
    part, inputs = spectra.entering(noise)
    below = moments.weighted_variance(
        algorithm,
        part.values,
        part.weights,
        rounds,
        _transmitted(algorithm, part.values, inputs),
    )
    return d * shared, d * below


def _transmitted(algorithm: Algorithm, values: Floats, inputs: moments.Inputs) -> moments.Inputs:
    """What enters along each eigenvalue where messages carry noise: (1 + mixing/noise lambda)^2."""
    if not algorithm.perturbs_messages:
        return inputs

    def entering(t: int) -> Floats:
        gain = algorithm.noise_gain(t, values) / algorithm.at(t).noise
        return np.asarray(gain[:, None] ** 2 * inputs(t))

    return entering


def _projected(known: spectrum.Dense, entering: list[Floats]) -> list[Floats]:
    """sum_j q_ij^2 u_{j,t} for every round: many rounds in one product."""
    made = list(entering)
    differing = [t for t, u in enumerate(entering) if len(u) > 1]
    step = max(1, 512 // entering[0].shape[1])
    for k in range(0, len(differing), step):
        some = differing[k : k + step]
        product = known.profile(np.concatenate([entering[t] for t in some], axis=1))
        for t, columns in zip(some, np.split(product, len(some), axis=1), strict=True):
            made[t] = columns
    return made


def _one_profile(entering: list[Floats]) -> Floats | None:
    """profile_j, if u_{j,t} = profile_j size_t in all rounds."""
    first = next(u for u in entering if len(u) > 1)
    profile = np.asarray(first[:, 0] / first[:, 0].mean())
    for u in entering:
        if not np.allclose(u, profile[:, None] * u.mean(axis=0, keepdims=True), rtol=1e-9):
            return None
    return profile


def _statistic_squares(
    problem: Problem, xi: StatisticMoments, spectra: _Spectra
) -> tuple[Floats, Floats, Floats]:
    """E CoD^2 at lambda = 1; below 1, by probe; and the error of the mean against the truth."""
    algorithm, rounds, n = problem.algorithm, problem.rounds, problem.network.size
    part = spectra.alike()
    gain = np.concatenate(list(moments.response(algorithm, _ONE, rounds))) / moments.divisor(
        algorithm, rounds
    )
    bias = n * ((gain[:, None] * xi.mean - xi.target) ** 2).sum(axis=1)
    if algorithm.online:
        innovations = moments.innovations(algorithm)
        along = (
            xi.variance
            * moments.weighted_variance(algorithm, _ONE, _ONE, rounds, innovations)[:, 0]
            + bias
        )
        below = moments.weighted_variance(algorithm, part.values, part.weights, rounds, innovations)
        return along, xi.variance * below, along
    away = (gain - 1) ** 2 * (n * (xi.mean**2).sum() + xi.variance)
    below = _polynomial(algorithm, part, rounds)
    return away, xi.variance * below, gain**2 * xi.variance + bias


def _polynomial(algorithm: Any, part: spectrum.SpectralPart, rounds: int) -> Floats:
    """(probes, rounds + 1, 1): sum_i weight_i P_t(lambda_i)^2."""
    responses = moments.response(algorithm, part.values, rounds)
    sums = np.stack([part.weights @ y**2 for y in responses], axis=1)
    return np.asarray(sums / moments.divisor(algorithm, rounds) ** 2)[:, :, None]
