"""Exact expected errors of every law on fixed symmetric weights, without sampling.

With A = Q diag(lambda) Q' a law acts on each eigenvalue by itself. For noise of variance V_{j,tau}
and h_{t,tau}(lambda) the response at t to what enters in round tau,

    E CoP_t^2 = sum_j sum_tau V_{j,tau} sum_i q_ij^2 h_{t,tau}(lambda_i)^2
    E CoD_t^2 = sigma^2 sum_{i >= 2} P_t(lambda_i)^2              one signal each, around their mean
    E CoD_t^2 = sigma^2 sum_i sum_tau h_{t,tau}(lambda_i)^2       a stream, around E xi
    E TE_t^2  = E CoP_t^2 + E CoD_t^2                             noise has mean 0

The mean of all agents (lambda = 1) is exact on any network; the rest comes from all eigenvalues,
or on large networks from quadratures with a standard error (`spectrum`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmura.engine import Problem
from murmura.errors import LawError, NetworkError
from murmura.laws import Law
from murmura.theory import moments, spectrum
from murmura.theory.inputs import Noise, Statistic, noise_of, statistic_of

Floats = NDArray[np.float64]
_ONE = np.ones(1)


@dataclass(frozen=True, eq=False, repr=False)
class Expected:
    """Roots of expected squared l2 norms over all agents, for rounds 0, 1, ..., T.

    `total^2 = privacy^2 + decentralisation^2`, as a run measures them. Against the truth E xi the
    same error is `sampling^2 + shared_noise^2 + disagreement^2`: what the mean of all signals
    errs by, what noise adds to the mean of all agents, and what agents differ by.
    """

    total: Floats  # (rounds + 1, epsilons); one column without protection
    privacy: Floats  # (rounds + 1, epsilons)
    decentralisation: Floats  # (rounds + 1,)
    sampling: Floats  # (rounds + 1,)
    shared_noise: Floats  # (rounds + 1, epsilons)
    disagreement: Floats  # (rounds + 1, epsilons)
    standard_error: Floats  # (rounds + 1, epsilons) of `total`; 0 when exact
    estimated: bool  # by random probes, or from draws of clipped signals or private scales

    def __repr__(self) -> str:
        """The last round, at every epsilon."""
        kind = "estimated" if self.estimated else "exact"
        return f"Expected({kind}, total {np.array2string(self.total[-1], precision=4)})"


def expected(
    problem: Problem,
    *,
    scales: ArrayLike | None = None,
    deviation: float | None = None,
    probes: int = 16,
) -> Expected:
    """Expected errors of a problem at every round; replicas and seed of the run play no part.

    `scales` replaces the calibrated noise, agent by agent. `deviation` states the standard
    deviation of the statistic where signals were measured. `probes` random vectors stand for the
    spectrum of networks beyond 6,000 agents.
    """
    law = problem.law
    if law.online and law.start.learn:
        raise LawError(f"law {law.name} uses the first reading twice, which is not covered here")
    spectrum.symmetric(problem.network)
    xi, noise = statistic_of(problem, deviation), noise_of(problem, scales)
    shared, apart = _noise_squares(problem, noise, probes)
    own, clean, sampling = _statistic_squares(problem, xi, probes)
    return _assembled(shared, apart, own, clean, sampling, _draws_used(xi, noise))


def _draws_used(xi: Statistic, noise: Noise) -> bool:
    return noise.signals is not None or not xi.known


def _assembled(
    shared: Floats, apart: Floats, own: Floats, clean: Floats, sampling: Floats, drawn: bool
) -> Expected:
    """apart and clean are (probes, rounds + 1, epsilons or 1): sums over i >= 2."""
    privacy, away = shared + apart, own[:, None] + clean
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
        disagreement=np.sqrt((apart + clean).mean(axis=0)),
        standard_error=error,
        estimated=drawn or count > 1,
    )


def _noise_squares(problem: Problem, noise: Noise, probes: int) -> tuple[Floats, Floats]:
    """E CoP^2 along 1, (rounds + 1, epsilons), and beside it, (probes, rounds + 1, epsilons)."""
    law, rounds, d = problem.law, problem.rounds, problem.family.dimension

    def mean(t: int) -> Floats:
        return np.asarray(noise.at(t).mean(axis=0, keepdims=True))

    shared = moments.spread(law, _ONE, _ONE, rounds, _passed(law, _ONE, mean))
    each = [
        moments.spread(law, part.values, part.weights, rounds, _passed(law, part.values, inputs))
        for part, inputs in _noise_parts(problem, noise, probes)
    ]
    return d * shared, d * np.stack(each)


def _passed(law: Law, values: Floats, inputs: moments.Inputs) -> moments.Inputs:
    """What enters along each eigenvalue where messages carry noise: (1 + mix/noise lambda)^2."""
    if not law.noises_messages:
        return inputs

    def entering(t: int) -> Floats:
        gain = law.noise_gain(t, values) / law.at(t).noise
        return np.asarray(gain[:, None] ** 2 * inputs(t))

    return entering


def _noise_parts(problem: Problem, noise: Noise, probes: int) -> list[tuple[spectrum.Part, Any]]:
    """Parts of the spectrum with what enters there: the same for all eigenvalues, or weighed."""
    network, rounds = problem.network, problem.rounds
    entering = [noise.at(t) for t in range(rounds + 1)]
    if all(len(u) == 1 for u in entering):
        return [(p, entering.__getitem__) for p in spectrum.parts(network, rounds, probes)]
    if network.size <= spectrum.DENSE_UP_TO:
        known = spectrum.dense(network)
        weighed = _weighed(known, entering)
        return [(spectrum.Part(known.values, np.ones_like(known.values)), weighed.__getitem__)]
    profile, sizes = _one_profile(entering)
    rng, matrix = np.random.default_rng(0), spectrum.symmetric(network)
    made = [spectrum.probed(matrix, profile, rounds + 1, rng) for _ in range(probes)]
    return [(part, sizes.__getitem__) for part in made]


def _weighed(known: spectrum.Dense, entering: list[Floats]) -> list[Floats]:
    """sum_j q_ij^2 u_{j,t} for every round: many rounds in one product."""
    made = list(entering)
    unlike = [t for t, u in enumerate(entering) if len(u) > 1]
    step = max(1, 512 // entering[0].shape[1])
    for k in range(0, len(unlike), step):
        some = unlike[k : k + step]
        product = known.profile(np.concatenate([entering[t] for t in some], axis=1))
        for t, columns in zip(some, np.split(product, len(some), axis=1), strict=True):
            made[t] = columns
    return made


def _one_profile(entering: list[Floats]) -> tuple[Floats, list[Floats]]:
    """u_{j,t} = profile_j size_t, or an error: large networks take one profile over agents."""
    first = next(u for u in entering if len(u) > 1)
    profile = first[:, 0] / first[:, 0].mean()
    sizes = [u.mean(axis=0, keepdims=True) for u in entering]
    for u, size in zip(entering, sizes, strict=True):
        if not np.allclose(u, profile[:, None] * size, rtol=1e-9):
            raise NetworkError(
                f"beyond {spectrum.DENSE_UP_TO:,} agents the noise may differ between agents, or "
                "between rounds, and not in both at once; try signal protection"
            )
    return profile, sizes


def _statistic_squares(
    problem: Problem, xi: Statistic, probes: int
) -> tuple[Floats, Floats, Floats]:
    """E CoD^2 along 1; beside it, by probe; and the error of the mean against the truth."""
    law, rounds, n = problem.law, problem.rounds, problem.network.size
    sides = spectrum.parts(problem.network, rounds, probes)
    gain = np.concatenate(list(moments.statistic(law, _ONE, rounds))) / moments.scale(law, rounds)
    bias = n * ((gain[:, None] * xi.mean - xi.target) ** 2).sum(axis=1)
    if law.online:

        def learnt(t: int) -> Floats:
            return np.array([[law.at(t).learn ** 2]])

        along = xi.variance * moments.spread(law, _ONE, _ONE, rounds, learnt)[:, 0] + bias
        each = [moments.spread(law, p.values, p.weights, rounds, learnt) for p in sides]
        return along, xi.variance * np.stack(each), along
    away = (gain - 1) ** 2 * (n * (xi.mean**2).sum() + xi.variance)
    each = [_polynomial(law, p, rounds) for p in sides]
    return away, xi.variance * np.stack(each), gain**2 * xi.variance + bias


def _polynomial(law: Any, part: spectrum.Part, rounds: int) -> Floats:
    """(rounds + 1, 1): sum_i weight_i P_t(lambda_i)^2."""
    values = moments.statistic(law, part.values, rounds)
    sums = np.array([(part.weights * y**2).sum() for y in values])
    return np.asarray(sums / moments.scale(law, rounds) ** 2)[:, None]
