"""What enters a law: the moments of the statistic and the variance of the noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmura import _validate
from murmura.engine import Drawn, Problem
from murmura.errors import MurmuraError, PrivacyError, SignalError
from murmura.privacy import Calibration, calibrate

Floats = NDArray[np.float64]
DRAWS, SCALE_DRAWS = 2**19, 2**15  # a smooth sensitivity is slow to find


@dataclass(frozen=True, eq=False)
class Statistic:
    """E xi, its total variance (the trace of Cov xi), and what the agents should learn."""

    mean: Floats  # (components,)
    variance: float
    target: Floats  # (components,)
    known: bool = True  # in closed form, not from draws


def statistic_of(problem: Problem, deviation: float | None = None) -> Statistic:
    """The moments of the family that signals are drawn from, or a public guess for measured ones.

    With bounds, what is drawn is clipped and its moments come from half a million draws. Signals
    that were measured are not read: a plan is made before, so `deviation` states what is supposed.
    """
    source, family = problem.source, problem.family
    if deviation is not None:
        _validate.positive(MurmuraError, deviation=deviation)
        zero = np.zeros(family.dimension)
        return Statistic(zero, family.dimension * deviation**2, zero)
    if source.measured or not isinstance(source, Drawn):
        raise SignalError(
            "measured signals are not read before a release; state the supposed standard "
            "deviation of the statistic (deviation=..., or --deviation), or draw from the family"
        )
    target = source.expected(family, problem.rounds)
    if family.bounds is None:
        covariance = np.asarray(family.covariance(**source.parameters))
        return Statistic(target, float(np.trace(covariance)), target)
    xi = family.columns(_draws(problem, DRAWS)).reshape(-1, family.dimension)
    return Statistic(xi.mean(axis=0), float(xi.var(axis=0).sum()), target, known=False)


def _draws(problem: Problem, count: int) -> Floats:
    """About so many signals of the source, (agents, replicas), apart from the run's own."""
    source: Any = problem.source
    apart = Drawn(source.family, source.parameters, source.agents, source.seed + 1)
    return apart.signals(1, max(1, count // problem.network.size))


@dataclass(frozen=True, eq=False)
class Noise:
    """The variance that noise brings in each round, per component: (agents or 1, epsilons).

    noise_t^2 2 b^2 from the own draw, and edge_t^2 2 g^2 sum_j a_ij^2 from those on links.
    """

    problem: Problem
    calibration: Calibration | None
    given: Floats | None  # (agents, epsilons or 1): scales in place of the calibrated
    rows: Floats  # (agents, 1): sum_j a_ij^2
    signals: Floats | None  # draws, where scales follow signals
    kept: dict[Any, Floats] = field(default_factory=dict)  # rounds that ask the same share a scale

    @property
    def epsilons(self) -> Floats:
        """The budgets, or a lone one that no noise follows."""
        return np.array(self.problem.budgets or (1.0,))

    def at(self, t: int) -> Floats:
        """Variance that enters in round t; (1, epsilons) when it is the same for all agents."""
        now = self.problem.law.at(t)
        entering = now.noise**2 * 2 * self._squared_scales(t) if now.noise else self._nothing
        if now.edge and self.calibration is not None:
            links = self.calibration.per_edge(self.epsilons)
            entering = entering + now.edge**2 * 2 * links**2 * self.rows
        return entering[:1] if (entering == entering[0]).all() else entering

    @property
    def _nothing(self) -> Floats:
        return np.zeros((1, len(self.epsilons)))

    def _squared_scales(self, t: int) -> Floats:
        if self.given is not None:
            return np.broadcast_to(self.given**2, (len(self.given), len(self.epsilons)))
        if self.calibration is None:
            return self._nothing
        asked = self.problem.law.sensitivities(t)
        if asked not in self.kept:
            self.kept[asked] = self._calibrated(self.calibration, t)
        return self.kept[asked]

    def _calibrated(self, calibration: Calibration, t: int) -> Floats:
        """E b^2 of every agent and epsilon."""
        signals = np.ones((len(self.rows), 1)) if self.signals is None else self.signals
        scales = [calibration.scale(signals, e, t) for e in self.epsilons.tolist()]
        squares = np.stack([(b**2).mean(axis=1) for b in scales], axis=1)
        same = self.signals is not None and not calibration.network.any()
        return squares.mean(axis=0, keepdims=True) if same else squares


def noise_of(problem: Problem, scales: ArrayLike | None = None) -> Noise:
    """The noise of a problem, calibrated, or of the given scales (agents,) or (agents, epsilons).

    Scales that follow signals are averaged over draws; those of measured signals are private.
    """
    horizon = problem.horizon or problem.rounds
    made = calibrate(problem.want, problem.law, problem.family, problem.network, horizon)
    signals = None
    if made is not None and made.reads_signals and scales is None:
        if problem.source.measured:
            raise PrivacyError(
                "these scales are read off measured signals, and so are private; pass scales=... "
                "of your own, or ask for sensitivity global"
            )
        signals = _draws(problem, SCALE_DRAWS)
    rows = np.asarray(problem.network.at(1).power(2).sum(axis=1)).reshape(-1, 1)
    return Noise(problem, made, _given(scales, problem), rows, signals)


def _given(scales: ArrayLike | None, problem: Problem) -> Floats | None:
    if scales is None:
        return None
    b = np.asarray(scales, dtype=np.float64)
    b = b[:, None] if b.ndim == 1 else b
    columns = {1, max(1, len(problem.budgets))}
    if b.ndim != 2 or b.shape[0] != problem.network.size or b.shape[1] not in columns:
        raise MurmuraError(
            f"scales must have shape ({problem.network.size},) or ({problem.network.size}, "
            f"{max(columns)}); found {np.shape(scales)}"
        )
    if not (np.isfinite(b) & (b >= 0)).all():
        raise MurmuraError("scales must be finite and at least 0")
    return b
