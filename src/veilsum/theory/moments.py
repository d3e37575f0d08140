"""What enters an algorithm, and its second moments eigenvalue by eigenvalue.

Two things enter: the statistic, through its mean and variance (`statistic_moments`), and noise,
through its variance alone (`noise_variance`).

Along an eigenvector of A with eigenvalue lambda an algorithm is a recursion of one number y_t, and
what enters in different rounds is independent. With v_t = Var y_t, c_t = Cov(y_t, y_{t-1}) and u_t
the variance that enters in round t, the algorithm itself, applied to covariances, gives

    c_t = algorithm(v_{t-1}, c_{t-1}),   f_t = Cov(y_t, y_{t-2}) = algorithm(c_{t-1}, v_{t-2}),
    v_t = algorithm(c_t, f_t) + u_t.

What enters at the start is followed by y_t itself and squared, which loses no digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilsum import _validate
from veilsum.algorithms import Algorithm, State, init, step
from veilsum.errors import MissingExtraError, PrivacyError, SignalError, VeilsumError
from veilsum.families.clipping import drawn_clipping
from veilsum.networks.rows import first_rows
from veilsum.privacy import Plan, plan
from veilsum.simulation import Problem, SyntheticSignals

Floats = NDArray[np.float64]
Inputs = Callable[[int], Floats]  # round -> (eigenvalues or 1, columns): variance that enters
UNSEEN = 2.0**-53
DRAWS, SCALE_DRAWS = 2**19, 2**15  # a smooth sensitivity takes longer to compute


@dataclass(frozen=True, eq=False)
class StatisticMoments:
    """E xi, its total variance (the trace of Cov xi), and the target of the estimation."""

    mean: Floats  # (components,)
    variance: float
    target: Floats  # (components,)
    exact: bool = True  # in closed form, not from draws


def statistic_moments(problem: Problem, deviation: float | None = None) -> StatisticMoments:
    """The moments of the family that signals are drawn from, or a stated deviation.

    Where bounds clip drawn signals, the moments are estimated from half a million draws.
    Recorded signals are never read, because a plan is made before any release: `deviation` states
    their assumed standard deviation instead.
    """
    source, family = problem.source, problem.family
    if deviation is not None:
        _validate.positive(VeilsumError, deviation=deviation)
        zero = np.zeros(family.dimension)
        return StatisticMoments(zero, family.dimension * deviation**2, zero)
    if source.measured or not isinstance(source, SyntheticSignals):
        raise SignalError(
            "recorded signals are not read before a release; state the assumed standard "
            "deviation of the statistic (deviation=..., or --deviation), or draw from the family"
        )
    target = source.expected(family, problem.rounds)
    if not _clips(family, source.parameters):
        covariance = np.asarray(family.covariance(**source.parameters))
        return StatisticMoments(target, float(np.trace(covariance)), target)
    xi = family.columns(_draws(problem, DRAWS)).reshape(-1, family.dimension)
    return StatisticMoments(xi.mean(axis=0), float(xi.var(axis=0).sum()), target, exact=False)


def _clips(family: Any, parameters: Any) -> bool:
    """Whether bounds move drawn signals, except for a fraction that no float shows."""
    try:
        clipped = drawn_clipping(family, parameters)
    except MissingExtraError:  # without scipy the fraction is not known
        return True
    if clipped is None:
        return False
    return family.marginals(**parameters) is None or clipped.fraction > UNSEEN


def _draws(problem: Problem, count: int) -> Floats:
    """About `count` signals of the source, (agents, replicas), independent of the run's."""
    source: Any = problem.source
    other = SyntheticSignals(source.family, source.parameters, source.agents, source.seed + 1)
    return other.signals(1, max(1, count // problem.network.size))


def laplace_variance(scale: Any) -> Any:
    """Var Lap(b) = 2 b^2: the one place in `theory` that knows the distribution of the noise."""
    return 2 * scale**2


@dataclass(frozen=True, eq=False)
class NoiseVariance:
    """The variance of the noise of agent i in round t, per component and epsilon.

    noise_t^2 Var Lap(b) from the agent's own draw, and edge_t^2 Var Lap(g) sum_j a_ij^2 from the
    draws on its links.
    """

    problem: Problem
    plan: Plan
    scales: Floats | None  # (agents, epsilons or 1), in place of the calibrated ones
    squared_rows: Floats  # (agents, 1): sum_j a_ij^2
    signals: Floats | None  # draws, where the scale depends on the signal
    cache: dict[Any, Floats] = field(default_factory=dict)  # by the sensitivities of a round

    @property
    def epsilons(self) -> Floats:
        """The epsilons that are run, or a single 1 where there is no noise."""
        return np.array(self.problem.run_epsilons or (1.0,))

    def at(self, t: int) -> Floats:
        """(agents, epsilons) in round t; (1, epsilons) when it is the same for all agents."""
        now = self.problem.algorithm.at(t)
        entering = now.noise**2 * self._own(t) if now.noise else self._zero
        if now.link_noise and self.problem.privacy.adds_noise:
            links = laplace_variance(self.plan.per_edge(self.epsilons))
            entering = entering + now.link_noise**2 * links * self.squared_rows
        return entering[:1] if (entering == entering[0]).all() else entering

    @property
    def _zero(self) -> Floats:
        return np.zeros((1, len(self.epsilons)))

    def _own(self, t: int) -> Floats:
        """E Var Lap(b) of every agent and epsilon in round t."""
        if self.scales is not None:
            shape = (len(self.scales), len(self.epsilons))
            return np.broadcast_to(laplace_variance(self.scales), shape)
        if not self.problem.privacy.adds_noise:
            return self._zero
        key = self.problem.algorithm.sensitivities(t), self.plan.relative(t)
        if key not in self.cache:
            self.cache[key] = self._planned(self.plan, t)
        return self.cache[key]

    def _planned(self, plan: Plan, t: int) -> Floats:
        signals = np.ones((len(self.squared_rows), 1)) if self.signals is None else self.signals
        scales = [plan.scale(signals, e, t) for e in self.epsilons.tolist()]
        variances = np.stack([laplace_variance(b).mean(axis=1) for b in scales], axis=1)
        same = self.signals is not None and not plan.network.any()
        return variances.mean(axis=0, keepdims=True) if same else variances


def noise_variance(problem: Problem, scales: ArrayLike | None = None) -> NoiseVariance:
    """The noise of a problem as calibrated, or of stated scales (agents,) or (agents, epsilons).

    Scales that depend on drawn signals are averaged over draws. Those of recorded signals are
    private and are not computed.
    """
    horizon = problem.horizon or problem.rounds
    planned = plan(problem.privacy, problem.family, problem.algorithm, problem.network, horizon)
    signals = None
    if planned.reads_signals and scales is None:
        if problem.source.measured:
            raise PrivacyError(
                "these scales depend on recorded signals, and so are private; state scales=..., "
                "or ask for sensitivity global"
            )
        signals = _draws(problem, SCALE_DRAWS)
    weights = first_rows(problem.network)
    squares: Floats = weights.data**2
    squared = np.asarray(np.bincount(weights.row_numbers, squares, weights.shape[0]), np.float64)
    return NoiseVariance(
        problem, planned, _checked_scales(scales, problem), squared[:, None], signals
    )


def _checked_scales(scales: ArrayLike | None, problem: Problem) -> Floats | None:
    if scales is None:
        return None
    b = np.asarray(scales, dtype=np.float64)
    b = b[:, None] if b.ndim == 1 else b
    columns = {1, max(1, len(problem.run_epsilons))}
    if b.ndim != 2 or b.shape[0] != problem.network.size or b.shape[1] not in columns:
        raise VeilsumError(
            f"scales must have shape ({problem.network.size},) or ({problem.network.size}, "
            f"{max(columns)}); found {np.shape(scales)}"
        )
    if not (np.isfinite(b) & (b >= 0)).all():
        raise VeilsumError("scales must be finite and at least 0")
    return b


def _step(algorithm: Algorithm, t: int, now: Any, before: Any, values: Floats) -> Floats:
    """algorithm(now, before) with no input: now stands for y_{t-1}, before for y_{t-2}."""
    return np.asarray(step(algorithm, t, State(now, before), values * now, 0 * now, 0 * now).nu)


def impulse(algorithm: Algorithm, values: Floats, rounds: int) -> Iterator[Floats]:
    """y_t for y_0 = 1 and no later input, t = 0 .. rounds."""
    state = State(np.ones_like(values), np.zeros_like(values))
    yield state.nu
    for t in range(1, rounds + 1):
        state = State(_step(algorithm, t, state.nu, state.before, values), state.nu)
        yield state.nu


def response(algorithm: Algorithm, values: Floats, rounds: int) -> Iterator[Floats]:
    """y_t for readings of 1 and no noise: P_t(lambda)."""
    one, zero = np.ones_like(values), np.zeros_like(values)
    state = init(algorithm, one, zero)
    yield state.nu
    for t in range(1, rounds + 1):
        state = step(algorithm, t, state, values * state.nu, algorithm.readings(t) * one, zero)
        yield state.nu


def variances(
    algorithm: Algorithm, values: Floats, rounds: int, inputs: Inputs
) -> Iterator[Floats]:
    """Var y_t for independent inputs of the given variances in rounds 1, 2, ..."""
    v = c = before = np.zeros_like(values * inputs(1))
    yield v
    for t in range(1, rounds + 1):
        far = _step(algorithm, t, c, before, values)
        c, before = _step(algorithm, t, v, c, values), v
        v = np.maximum(_step(algorithm, t, c, far, values), 0.0) + inputs(t)
        yield v


def innovations(algorithm: Algorithm) -> Callable[[int], Floats]:
    """innovation_t^2 readings_t as what enters in round t, for `weighted_variance` of statistics."""
    return lambda t: np.array([[algorithm.at(t).innovation ** 2 * algorithm.readings(t)]])


def weighted_variance(
    algorithm: Algorithm, values: Floats, weights: Floats, rounds: int, inputs: Inputs
) -> Floats:
    """sum_i weight_i Var y_t(lambda_i), inputs at the start included.

    (rounds + 1, columns), or for several rows of weights (rows, rounds + 1, columns).
    """
    column, start = values[:, None], inputs(0)
    total, alike = np.zeros((*weights.shape[:-1], rounds + 1, start.shape[1])), len(start) == 1
    if np.any(start):
        for t, y in enumerate(impulse(algorithm, column, rounds)):
            total[..., t, :] += (weights @ y**2) * start[0] if alike else weights @ (y**2 * start)
    if any(np.any(inputs(t)) for t in range(1, rounds + 1)):
        for t, v in enumerate(variances(algorithm, column, rounds, inputs)):
            total[..., t, :] += weights @ v
    return total / divisor(algorithm, rounds)[:, None] ** 2


def divisor(algorithm: Algorithm, rounds: int) -> Floats:
    """(rounds + 1,): what a ratio algorithm divides by on doubly stochastic weights, else 1."""
    if not algorithm.ratio:
        return np.ones(rounds + 1)
    weight = np.concatenate(list(response(algorithm, np.ones(1), rounds)))
    return np.where(weight == 0, 1.0, weight)
