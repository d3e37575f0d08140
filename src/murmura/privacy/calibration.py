"""From a wanted protection to the scale of the noise.

Agent i's noise in round t has the scale

    b = max(network_i * per_network, signal_i * per_signal),

an outer product on either side, so that all epsilons and replicas of a sweep are calibrated at
once: `signal_i` is the sensitivity of the statistic (constant, or read off the signal), and
`network_i` = max_{j != i} a_ij, or 0 when only signals are protected. For the paper's mechanisms

    signal, global            b = Delta / eps                                (Th. 1, 2)
    signal, smooth            b = m S*(s) / eps, S* the smooth sensitivity, m the least factor
                              that keeps (eps, delta) (`mechanisms.laplace_factor`)
    signal, smooth-printed    b = 2 S / eps,  S = radius/(e gamma s),  gamma = eps/(2 ln(2/delta))
    network                   the larger of that and max_j a_ij / eps        (Cor. 1, Th. 3)

times what the law asks (`Law.sensitivities`) and, where noise enters in every round and shares
one budget, times the number of rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from murmura.errors import MurmuraError, PrivacyError
from murmura.laws.base import Law
from murmura.laws.table import table
from murmura.privacy.sensitivity.definition import printed_smoothing
from murmura.privacy.want import SMOOTH, SMOOTH_PRINTED, NoPrivacy, Protection, Want

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Calibration:
    """The scale of every agent's noise, for each epsilon, in each round.

    Where the scale is read off the signal it is as private as the signal: it lives in memory
    only, never in a result, a log or a message.
    """

    want: Protection
    law: Law
    shares: int  # rounds that share one epsilon
    sensitivity: float  # of the statistic; NaN when it is read off the signals
    network: Floats  # (agents,): max_j a_ij over the agent's share of epsilon, or zeros
    bounds: tuple[float, float]  # of the signals, for smooth sensitivity
    budgets: Floats  # (agents,): each agent's share of epsilon, 1 unless they differ

    @property
    def reads_signals(self) -> bool:
        """Whether the scale depends on the signal, and so is private itself."""
        return self.want.reads_signals

    def signal(self, signals: Floats, epsilons: Floats) -> Floats:
        """Sensitivity over the agent's share: (agents, 1), by replica, or by column if eps matters.

        Global: Delta. As printed: radius/s. Smooth: S*(s), whose smoothing depends on epsilon, so
        there is one for each of the columns, epsilon by epsilon.
        """
        if self.want.sensitivity == SMOOTH_PRINTED:
            return self.want.radius / signals / self.budgets[:, None]
        if self.want.sensitivity == SMOOTH:
            return self._smooth(signals, epsilons)
        return self.sensitivity / self.budgets[:, None]

    def _smooth(self, signals: Floats, epsilons: Floats) -> Floats:
        from murmura.privacy.sensitivity import smooth_log, smoothing

        each = list(dict.fromkeys(epsilons.tolist()))
        runs = max(len(epsilons) // len(each), signals.shape[1])
        parts = []
        for epsilon in each:
            gamma = smoothing(epsilon / self.shares, self.want.delta / self.shares)
            bound = smooth_log(*self.bounds, smoothing=gamma, radius=self.want.radius)
            parts.append(np.broadcast_to(bound.at(signals), (len(signals), runs)))
        return np.concatenate(parts, axis=1)

    def per_signal(self, epsilons: Floats, t: int) -> Floats:
        """What `signal` is multiplied by in round t, for each epsilon."""
        per = self.law.sensitivities(t).signal * self.shares / epsilons
        if self.want.sensitivity == SMOOTH_PRINTED:
            return per * printed_smoothing(epsilons, self.want.delta)
        return per * self._factors(epsilons) if self.want.sensitivity == SMOOTH else per

    def _factors(self, epsilons: Floats) -> Floats:
        """The least m for which Lap(m S*/eps) keeps (eps, delta)."""
        from murmura.privacy.mechanisms import laplace_factor
        from murmura.privacy.sensitivity import smoothing

        delta, shared = self.want.delta / self.shares, epsilons / self.shares
        return np.array([laplace_factor(e, delta, smoothing(e, delta)) for e in shared.tolist()])

    def per_network(self, epsilons: Floats, t: int) -> Floats:
        """What `network` is multiplied by in round t, for each epsilon."""
        return self.law.sensitivities(t).network * self.shares / epsilons

    def per_edge(self, epsilons: Floats) -> Floats:
        """Scale of the noise on a link, whose estimate may move by 1: shares / eps."""
        hides = self.law.noises_links and self.want.protects == "network"
        return hides * self.shares / epsilons

    def scale(self, signals: Floats, epsilon: float, t: int) -> Floats:
        """b of every agent and replica in round t for one epsilon: the formula above."""
        epsilons = np.array([epsilon])
        return np.maximum(
            self.network[:, None] * self.per_network(epsilons, t),
            self.signal(signals, epsilons) * self.per_signal(epsilons, t),
        )


def calibrate(want: Want, law: Law, family: Any, network: Any, rounds: int) -> Calibration | None:
    """Work out the noise for a protection, or None when none is wanted.

    Raises `PrivacyError` where no finite noise keeps the promise (`refusal` says when), and
    `LawError` for an algorithm whose coefficients are not numbers.
    """
    if isinstance(want, NoPrivacy):
        return None
    steps = table(law, rounds)
    found = _statistic(want, family)
    hides = want.protects == "network"
    budgets = _budgets(want, network.size)
    return Calibration(
        want=want,
        law=law,
        shares=steps.releases if law.splits_budget else 1,
        sensitivity=found.sensitivity,
        network=hides * np.asarray(network.largest_neighbour_weight) / budgets,
        bounds=found.bounds,
        budgets=budgets,
    )


def refusal(want: Protection | NoPrivacy, family: Any) -> str | None:
    """Why no noise keeps the promise for a family, or None: what `calibrate` would refuse."""
    if isinstance(want, NoPrivacy):
        return None
    try:
        _statistic(want, family)
    except MurmuraError as problem:
        return str(problem)
    return None


class _Statistic(NamedTuple):
    """What the noise needs to know of a statistic."""

    sensitivity: float  # NaN where it is read off the signals
    bounds: tuple[float, float]  # of the signals, for smooth sensitivity


def _statistic(want: Protection, family: Any) -> _Statistic:
    if want.reads_signals:
        return _Statistic(math.nan, _log_bounds(want, family))
    return _Statistic(_finite(want, family), (0.0, math.inf))


def _budgets(want: Protection, agents: int) -> Floats:
    """Each agent's share of epsilon."""
    if want.shares is None:
        return np.ones(agents)
    if len(want.shares) != agents:
        raise PrivacyError(f"shares has {len(want.shares)} entries and the network {agents} agents")
    return np.array(want.shares, dtype=np.float64)


def _log_bounds(want: Protection, family: Any) -> tuple[float, float]:
    """The public bounds of a signal whose logarithm is taken; smooth sensitivity needs a floor."""
    if not family.statistic_is_log:
        raise PrivacyError(
            f"sensitivity {want.sensitivity} is known where the statistic is log s; "
            f"that of {family.name} is {family.formula}; try sensitivity global"
        )
    low, high = float(family.support.low), float(family.support.high)
    if want.sensitivity == SMOOTH and not low > 0:
        raise PrivacyError(
            "the smooth sensitivity of log s is infinite without a floor (erratum 2); give the "
            "family bounds=(floor, None)"
        )
    return low, high


def _finite(want: Protection, family: Any) -> float:
    """Delta, which must be finite and above 0: noise of scale 0 hides nothing."""
    found = family.sensitivity(want.radius)
    if math.isinf(found.value):
        raise PrivacyError(
            f"family {family.name} has infinite global sensitivity, so no finite noise hides a "
            f"signal: {found.reason}"
        )
    if not (found.value > 0 and found.value / want.epsilon > 0):
        raise PrivacyError(
            f"family {family.name} has sensitivity {found.value:g} at radius {want.radius:g}, and "
            "noise of that scale would hide nothing; choose a larger radius or wider bounds"
        )
    return float(found.value)
