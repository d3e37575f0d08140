"""From a privacy request to the noise: one place decides, and everyone asks it.

`plan(request, family, algorithm, network, rounds)` either raises, with the reason why no noise keeps the
promise, or returns a `Plan`: the mechanism of every agent in every round, what one release costs, and the
scales that the compiled simulator reads. What kind of noise it is, is a class, chosen once:

    NoNoise           nothing is promised
    LaplacePlan       noise of a public scale in every round that asks for it, drawn by the kernel
    SmoothPlan        the scale follows the signal (smooth sensitivity); PublishedPlan: as published
    InputPlan         any other mechanism M: M(xi) takes the place of xi wherever it is used
    StreamPlan        the same, with a share of one budget for each reading of a stream
    SecurePlan        parts of one noise, in a sum over a roster; MaskedPlan: with attempts

Agent i's Laplace noise in round t has the scale

    b = max(network_i * per_network, signal_i * per_signal),

an outer product on either side, so that all epsilons and replicas of a sweep are planned at once:
`signal_i` is the sensitivity of the statistic (constant, or read off the signal), and `network_i` =
max_{j != i} a_ij, or 0 when only signals are protected. It is

    signal, global                 b = Delta / eps                                   (Th. 1, 2)
    signal, smooth                 b = m S*(s) / eps, S* the smooth sensitivity, m the least factor
                                   that keeps (eps, delta) (`mechanisms.laplace_factor`)
    signal, smooth-as-published    b = 2 S / eps,  S = radius/(e gamma s),  gamma = eps/(2 ln(2/delta))
    network                        the larger of that and max_j a_ij / eps           (Cor. 1, Th. 3)

times what the algorithm asks (`Algorithm.sensitivities`) and, where noise enters in every round and
rounds divide one budget, times the number of rounds.

Where M(xi) takes the place of xi no other noise is added, and all that follows is post-processing of it.
Its noise is d = (innovation/noise) (M(xi) - xi), and the scale stated for it is that of Laplace noise with
the same variance, b = sqrt(Var/2). In a sum over a roster M(xi) is the member's grid point with its part of
the noise; what the kernel gets is the mean of M(xi) over the roster, the same at every agent.

Readings in batches (`batches`) are released as sums, xi_t being the sum of the batch that closes in
round t: a reading moves one of them, by what it moves its own statistic (`Statistic.total`). So the noise
of a sum is that of one reading; a mechanism then takes any number, not one between bounds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, overload

import numpy as np
from numpy.typing import NDArray

from veilsum._statistic import Statistic
from veilsum.algorithms.base import ALGORITHMS, Algorithm
from veilsum.algorithms.table import coefficient_table
from veilsum.errors import PrivacyError
from veilsum.privacy.accounting.events import PrivacyEvent
from veilsum.privacy.masked import MaskedParameters
from veilsum.privacy.mechanisms.base import (
    MECHANISMS,
    IdentityMechanism,
    Mechanism,
)
from veilsum.privacy.mechanisms.choose import BEST, make
from veilsum.privacy.mechanisms.laplace import LaplaceMechanism
from veilsum.privacy.mechanisms.masked import MaskedMechanism
from veilsum.privacy.mechanisms.secure import SecureMechanism, grid_step
from veilsum.privacy.mechanisms.smooth_laplace import SmoothLaplaceMechanism, laplace_factor
from veilsum.privacy.requests import SMOOTH, MaskedDP, PrivacyRequest, SecureSumDP
from veilsum.privacy.secure import SecureParameters
from veilsum.privacy.sensitivity import as_published, factor_as_published, smooth_log, smoothing
from veilsum.privacy.streams import Horizon

Floats = NDArray[np.float64]

SCALAR_STEPS, VECTOR_STEPS = 2**12, 2**24  # of the grid of a sum, per sensitivity
LONGEST_BATCH = 2**20  # readings that a sum makes room for where batches have no longest
ANY = Statistic(1.0, reason="of no family in particular")


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan(ABC):
    """The noise of every agent, for each epsilon, in each round; abstract.

    Where the scale is read off the signal it is as private as the signal: it is kept in memory
    only, never in a result, a log or a message.

    Attributes
    ----------
    privacy, family, algorithm
        What was asked for; the algorithm with its readings in the request's batches.
    statistic
        What moves, and how far: of one reading.
    rounds_per_budget
        How many rounds divide one epsilon.
    network
        (agents,): max_j a_ij over the agent's budget fraction, or zeros.
    fractions
        (agents,): each agent's budget over epsilon, 1 unless they differ.

    Examples
    --------
    >>> from veilsum import algorithms, families, networks
    >>> from veilsum.privacy import SignalDP
    >>> ring, normal = networks.metropolis("ring:5"), families.Normal(1.0, bounds=(0.0, 2.0))
    >>> found = plan(SignalDP(0.5, radius=2.0), normal, algorithms.Average(), ring, 10)
    >>> found.sensitivity, found.rounds_per_budget, found.reads_signals
    (2.0, 1, False)
    """

    privacy: PrivacyRequest
    family: Any
    algorithm: Algorithm | None
    statistic: Statistic
    rounds_per_budget: int
    network: Floats
    fractions: Floats

    perturbs_input: ClassVar[bool] = False  # whether M(xi) takes the place of xi
    by_signals_alone: ClassVar[bool] = True  # False: it must see the rounds one after another

    @property
    def reads_signals(self) -> bool:
        """Whether the scale is read off the signal, and so is as private as it."""
        return self.privacy.reads_signals

    @property
    def sensitivity(self) -> float:
        """That of the statistic; NaN where it is read off the signals, 0 without noise."""
        return self.statistic.l1

    @abstractmethod
    def mechanism(
        self,
        epsilon: float | None = None,
        t: int | None = None,
        agent: int = 0,
        released: bool = False,
    ) -> Mechanism:
        """The mechanism of one agent in round t: what it samples, releases and is charged for.

        Parameters
        ----------
        epsilon
            The agent's budget for one release, before rounds divide it; the request's without it.
        t
            The round; the first with noise, if it is left out.
        agent
            The row of `network` and `fractions`.
        released
            Whether it must cover what floats do to the statistic, for an exact release.
        """

    def event(self, epsilon: float | None = None) -> PrivacyEvent:
        """What one release costs, for the ideal distribution of the noise.

        Parameters
        ----------
        epsilon
            As of `mechanism`: before rounds divide it.
        """
        return LaplaceMechanism(self._divided(epsilon), 1.0).event()

    def _divided(self, epsilon: float | None) -> float:
        """Of one release; the request's without an epsilon."""
        return (self.privacy.epsilon if epsilon is None else epsilon) / self.rounds_per_budget

    def check(self, rounds: int) -> None:  # noqa: B027 - most have nothing to refuse
        """Refuse what no noise of this kind keeps over so many rounds."""

    @property
    def name(self) -> str:
        """The name of the mechanism that the request ends in: "best" resolved for its epsilon."""
        return self.mechanism(self.privacy.epsilon).name

    def signal(self, signals: Floats, epsilons: Floats) -> Floats:
        """Sensitivity over the budget fraction: (agents, 1), by replica, or by column if eps matters."""
        return self.sensitivity / self.fractions[:, None]

    def per_signal(self, epsilons: Floats, t: int) -> Floats:
        """What `signal` is multiplied by in round t, for each epsilon."""
        return np.asarray(self._asked(t).signal * self.rounds_per_budget / epsilons)

    def per_network(self, epsilons: Floats, t: int) -> Floats:
        """What `network` is multiplied by in round t, for each epsilon."""
        return np.asarray(self._asked(t).network * self.rounds_per_budget / epsilons)

    def per_edge(self, epsilons: Floats) -> Floats:
        """Scale of the noise on a link, whose estimate may move by 1: rounds_per_budget / eps."""
        hides = self.privacy.hides_neighbours and getattr(self.algorithm, "perturbs_links", False)
        return hides * self.rounds_per_budget / epsilons

    def scale(self, signals: Floats, epsilon: float, t: int) -> Floats:
        """b of every agent and replica in round t for one epsilon: Var = 2 b^2."""
        epsilons = np.array([epsilon])
        return np.maximum(
            self.network[:, None] * self.per_network(epsilons, t),
            self.signal(signals, epsilons) * self.per_signal(epsilons, t),
        )

    def relative(self, t: int) -> float:
        """The deviation of the noise of round t over that of round 1, apart from the algorithm's."""
        return 1.0

    def ratios(self, epsilons: Floats) -> tuple[Floats, bool] | None:
        """b_eps/b_1, one function of epsilon for all agents and rounds, and whether a signal may end it.

        None if there is no such ratio.
        """
        return None

    def half_width(self, epsilon: float, rounds: int, confidence: float) -> float | None:
        """How far noise and rounding move the estimate of a sum; None where agents have their own."""
        return None

    def _asked(self, t: int) -> Any:
        assert self.algorithm is not None  # of a plan for rounds
        return self.algorithm.sensitivities(t)


class NoNoise(Plan):
    """Nothing is promised and no noise is added."""

    sensitivity = 0.0

    def mechanism(
        self,
        epsilon: float | None = None,
        t: int | None = None,
        agent: int = 0,
        released: bool = False,
    ) -> Mechanism:
        """The input itself."""
        return IdentityMechanism()

    def signal(self, signals: Floats, epsilons: Floats) -> Floats:
        """Zero."""
        return np.zeros((1, 1))


class LaplacePlan(Plan):
    """Laplace noise of a public scale, drawn by the kernel in every round that asks for it."""

    name: ClassVar[str] = LaplaceMechanism.name

    def mechanism(
        self,
        epsilon: float | None = None,
        t: int | None = None,
        agent: int = 0,
        released: bool = False,
    ) -> Mechanism:
        """Lap(max(signal Delta, weight)/eps)."""
        own, signal, weight = self._own(
            self.privacy.epsilon if epsilon is None else epsilon, t, agent, released
        )
        larger = self.statistic.at_least(weight, signal)
        return LaplaceMechanism.fit(larger, own, released=released)

    def _own(
        self, epsilon: float, t: int | None, agent: int, released: bool
    ) -> tuple[float, float, float]:
        """The agent's epsilon, and what signal and neighbours move its message by."""
        own = epsilon * float(self.fractions[agent]) / self.rounds_per_budget
        if self.algorithm is None:
            return own, 1.0, 0.0
        if t is None:
            t = next((t for t in (0, 1) if self.algorithm.at(t).noise), 1)
        try:
            asked = self._asked(t)
        except ZeroDivisionError:
            name = self.algorithm.name
            raise PrivacyError(f"algorithm {name} has no noise in round {t}") from None
        if released and not math.isclose(asked.signal, 1.0):
            raise PrivacyError(
                f"algorithm {self.algorithm.name} sends {asked.signal:g} times the statistic in round {t}; "
                "an exact release is of the statistic itself"
            )
        weight = float(self.network[agent] * self.fractions[agent]) * asked.network
        return own, asked.signal, weight

    def ratios(self, epsilons: Floats) -> tuple[Floats, bool] | None:
        """1/eps."""
        return 1 / epsilons, False


class SmoothPlan(LaplacePlan):
    """Laplace noise whose scale follows the signal: its smooth sensitivity on the bounded domain."""

    sensitivity = math.nan

    def mechanism(
        self,
        epsilon: float | None = None,
        t: int | None = None,
        agent: int = 0,
        released: bool = False,
    ) -> Mechanism:
        """Lap(m max(signal S(s), weight)/eps), on a grid that follows the bounds."""
        own, signal, weight = self._own(
            self.privacy.epsilon if epsilon is None else epsilon, t, agent, released
        )
        found = self._smooth(self.privacy.epsilon if epsilon is None else epsilon)
        assert found.scale is not None
        own_xi = replace(found.scale, statistic=_first_coordinate(self.family))
        error = self.statistic.error if released and found.scale.least else 0.0
        delta, factor = self.privacy.delta / self.rounds_per_budget, self._factor(own)
        larger = replace(found, scale=own_xi, error=error).at_least(weight / factor, signal)
        return SmoothLaplaceMechanism(own, larger, delta, factor, larger.error)

    def _factor(self, epsilon: float) -> float:
        """The least m for which Lap(m S*/eps) keeps (eps, delta), of one release."""
        delta = self.privacy.delta / self.rounds_per_budget
        return laplace_factor(epsilon, delta, smoothing(epsilon, delta))

    def check(self, rounds: int) -> None:
        """Refuse an epsilon at which the smoothing alone spends more than delta."""
        self._factor(self.privacy.epsilon / self.rounds_per_budget)

    def _smooth(self, epsilon: float) -> Statistic:
        """S at one epsilon, before rounds divide it; its smoothing is a part of it."""
        low, high = self._bounds
        gamma = smoothing(
            epsilon / self.rounds_per_budget, self.privacy.delta / self.rounds_per_budget
        )
        return smooth_log(low, high, smoothing=gamma, radius=self.privacy.reach)

    @property
    def _bounds(self) -> tuple[float, float]:
        return float(self.family.support.low), float(self.family.support.high)

    def event(self, epsilon: float | None = None) -> PrivacyEvent:
        """(epsilon, delta), and nothing more is known."""
        return PrivacyEvent.of(self._divided(epsilon), self.privacy.delta / self.rounds_per_budget)

    name: ClassVar[str] = SmoothLaplaceMechanism.name

    def signal(self, signals: Floats, epsilons: Floats) -> Floats:
        """S*(s), whose smoothing depends on epsilon: one for each of the columns, epsilon by epsilon."""
        each = list(dict.fromkeys(epsilons.tolist()))
        runs = max(len(epsilons) // len(each), signals.shape[1])
        parts = [
            np.broadcast_to(self._smooth(epsilon).at(signals), (len(signals), runs))
            for epsilon in each
        ]
        return np.concatenate(parts, axis=1)

    def per_signal(self, epsilons: Floats, t: int) -> Floats:
        """Times the least m for which Lap(m S*/eps) keeps (eps, delta)."""
        factors = [self._factor(e) for e in (epsilons / self.rounds_per_budget).tolist()]
        return np.asarray(super().per_signal(epsilons, t) * np.array(factors))

    def ratios(self, epsilons: Floats) -> tuple[Floats, bool] | None:
        """None: each epsilon has a smoothing of its own."""
        return None


class PublishedPlan(SmoothPlan):
    """Laplace noise as published: b = 2 S/eps, S = radius/(e gamma s), which is not smooth."""

    def _factor(self, epsilon: float) -> float:
        """2."""
        return 2.0

    def _smooth(self, epsilon: float) -> Statistic:
        """1/(e gamma s) of the whole epsilon and delta, least at the top of the bounds."""
        found, high = as_published(epsilon, self.privacy.delta, self.privacy.reach), self._bounds[1]
        assert found.scale is not None
        least = float(found.scale.at(high)) if math.isfinite(high) else 0.0
        return replace(found, scale=replace(found.scale, least=least))

    def signal(self, signals: Floats, epsilons: Floats) -> Floats:
        """radius/s over the budget fraction."""
        found: Floats = np.asarray(self.privacy.reach / signals)
        if self.privacy.budget_fractions is not None:
            found /= self.fractions[:, None]
        return found

    def per_signal(self, epsilons: Floats, t: int) -> Floats:
        """Times 2/(e gamma), of the whole epsilon."""
        return np.asarray(Plan.per_signal(self, epsilons, t)) * factor_as_published(
            epsilons, self.privacy.delta
        )

    def ratios(self, epsilons: Floats) -> tuple[Floats, bool] | None:
        """1/eps^2; 1/eps while the neighbours' weight decides, which a signal may end."""
        if self.privacy.hides_neighbours:
            return 1 / epsilons, True
        return 1 / epsilons**2, False


class InputPlan(Plan):
    """A mechanism M whose M(xi) takes the place of xi, and the kernel draws no noise."""

    perturbs_input: ClassVar[bool] = True

    def mechanism(
        self,
        epsilon: float | None = None,
        t: int | None = None,
        agent: int = 0,
        released: bool = False,
    ) -> Mechanism:
        """The one that the request names, or the best; the same in every round and for every agent."""
        key = self.privacy.epsilon if epsilon is None else epsilon, released
        if key not in self._made:
            self._made[key] = make(
                self.privacy.mechanism, self._entering, key[0], self.privacy.delta, released
            )
        return self._made[key]

    @cached_property
    def _made(self) -> dict[tuple[float, bool], Mechanism]:
        """By epsilon and whether it is released."""
        return {}

    @property
    def _entering(self) -> Statistic:
        """Of one reading, or of a sum of readings."""
        return self.statistic if self.privacy.batches is None else self.statistic.total()

    def event(self, epsilon: float | None = None) -> PrivacyEvent:
        """The mechanism's own; of no family in particular, what it costs for any."""
        epsilon, name = self._divided(epsilon), self.privacy.mechanism
        known = self.family is not None or name == BEST
        if not known and MECHANISMS.get(name).misfit(self.statistic, epsilon, self.privacy.delta):
            return PrivacyEvent.of(epsilon, self.privacy.delta)
        return self.mechanism(epsilon).event()

    def check(self, rounds: int) -> None:
        """Refuse a statistic that the mechanism does not take, and a delta that the best has no use for."""
        if self.family is None:
            if self.privacy.mechanism != BEST:
                suitable = MECHANISMS.get(self.privacy.mechanism).suitable
                make(self.privacy.mechanism, suitable, self.privacy.epsilon, self.privacy.delta)
            return
        best = self.mechanism()
        if self.privacy.delta and not best.delta:
            raise PrivacyError(
                f"delta = {self.privacy.delta:g} buys nothing here: the best mechanism is {best.name}, "
                "which is pure; leave delta out"
            )

    def per_signal(self, epsilons: Floats, t: int) -> Floats:
        """b = sqrt(Var/2) over the sensitivity: of Laplace noise with the worst variance of M(xi)."""
        asked = self._asked(t).signal
        found = [asked * math.sqrt(self._variance(e, t) / 2) for e in epsilons.tolist()]
        return np.array(found) / self.sensitivity

    def _variance(self, epsilon: float, t: int) -> float:
        return self.mechanism(epsilon, t).variance_over(self._entering)


class StreamPlan(InputPlan):
    """Every reading of a stream has a share of what one release may cost (`privacy.streams`)."""

    @property
    def stream(self) -> Horizon:
        """Of the request."""
        assert self.privacy.stream is not None  # else it is another plan
        return self.privacy.stream

    def mechanism(
        self,
        epsilon: float | None = None,
        t: int | None = None,
        agent: int = 0,
        released: bool = False,
    ) -> Mechanism:
        """With the share of the reading that enters in round t; of the first one, without a round."""
        share = self.stream.share(self._reading(1 if t is None else t))
        return super().mechanism(epsilon, None, agent, released).part(share)

    def event(self, epsilon: float | None = None) -> PrivacyEvent:
        """Of the whole stream."""
        return InputPlan.mechanism(self, self._divided(epsilon)).event()

    def relative(self, t: int) -> float:
        """sqrt(v_t/v_1)."""
        return math.sqrt(self.stream.variance(self._reading(t)) / self.stream.variance(1))

    def check(self, rounds: int) -> None:
        """Refuse one signal for all rounds, and readings beyond the last."""
        if self.algorithm is not None and not self.algorithm.online:
            raise PrivacyError(
                f"algorithm {self.algorithm.name} uses one signal of each agent, and unit = "
                '"stream" is for a stream of readings; use an online algorithm such as learn'
            )
        if self.algorithm is not None:
            self.stream.share(self._reading(rounds))
        super().check(rounds)

    def _reading(self, t: int) -> int:
        return max(t if self.algorithm is None else self.algorithm.latest(t), 1)


@dataclass(frozen=True, eq=False, kw_only=True)
class SecurePlan(InputPlan):
    """What each member adds to a sum over a roster, on the grid of the request.

    Rounding moves each coordinate by less than one step more, which the noise covers, whether readings
    of a batch are rounded one by one or their sum once. Bounds of the statistic, where there are
    any, must have room in the sum together, as often as the longest batch has readings.
    """

    members: int

    def mechanism(
        self,
        epsilon: float | None = None,
        t: int | None = None,
        agent: int = 0,
        released: bool = False,
    ) -> SecureMechanism:
        """With the parameters of a query."""
        asked = self._at(epsilon)
        statistic = self.statistic
        step = self._step(asked)
        paid = statistic.error <= statistic.l1  # else agents refuse it
        known = statistic if paid else replace(statistic, error=0.0)
        l1, l2 = known.steps(step)
        within = None
        if statistic.bounded:
            low, high = min(statistic.low), max(statistic.high)
            within = math.floor(low / step), math.ceil(high / step)
        epsilon, delta = asked.query_cost
        numbers: dict[str, Any] = {
            "n": self.members, "epsilon": epsilon, "delta": delta, "sensitivity_steps": l1,
            "l2_steps": l2, "dimension": statistic.dimension, "range_steps": within,
            "largest_steps": None if within is None else max(1, *map(abs, within)),
            "longest_batch": 1 if asked.batches is None else asked.batches.longest or LONGEST_BATCH,
        }  # fmt: skip
        return self._with(asked, numbers, step)

    def _with(self, asked: SecureSumDP, numbers: dict[str, Any], step: float) -> SecureMechanism:
        """With what the request covers."""
        covered = asked.keepers(self.members)
        terms = SecureParameters(colluders=covered.colluders, absent=covered.absent, **numbers)
        return SecureMechanism(terms.epsilon, self.statistic.l1, step, terms, self.statistic.whole)

    def _at(self, epsilon: float | None) -> SecureSumDP:
        asked = self.privacy if epsilon is None else self.privacy.at(epsilon)
        assert isinstance(asked, SecureSumDP)
        return asked

    def _step(self, asked: SecureSumDP) -> float:
        if self.statistic.whole:
            return 1.0
        usual = SCALAR_STEPS if self.statistic.dimension == 1 else VECTOR_STEPS
        return grid_step(self.statistic.l1, asked.steps or usual)

    @property
    def name(self) -> str:
        """That of its mechanism."""
        return self._at(None).mechanism

    def event(self, epsilon: float | None = None) -> PrivacyEvent:
        """Of one query."""
        return self.mechanism(epsilon).event()

    def check(self, rounds: int) -> None:
        """Refuse too few members, more absences than are covered, a useless delta, too long batches."""
        privacy, terms = self._at(None), self.mechanism().terms
        if privacy.delta:
            pure = replace(self, privacy=replace(privacy, delta=0.0)).mechanism().terms
            more = math.sqrt(float(terms.noise.variance) / float(pure.noise.variance))
            if more >= 1:
                raise PrivacyError(
                    f"delta = {privacy.delta:g} buys nothing here: Skellam noise has {more:.3g} times the "
                    "deviation of pure noise, for it needs many components that move together (radius = "
                    "inf and bounds); leave delta out"
                )
        session = None if self.algorithm is None else self.algorithm.session
        if session is not None and session.missing > terms.absent:
            raise PrivacyError(
                f"{session.missing} members are missing from the roster and absent = {terms.absent} "
                "is covered; cover more, or nobody may send"
            )
        if privacy.batches and not privacy.batches.longest and rounds > LONGEST_BATCH:
            raise PrivacyError(
                f"a {privacy.what} has room for batches of up to {LONGEST_BATCH:,} readings, and those "
                f"of {rounds:,} rounds may be longer; state longest"
            )

    def half_width(self, epsilon: float, rounds: int, confidence: float) -> float | None:
        """The noise is that of all queries in the estimate together."""
        assert self.algorithm is not None
        session, made = self.algorithm.session, self.mechanism(epsilon)
        assert session is not None
        entering = [t for t in range(1, rounds + 1) if self.algorithm.at(t).noise]
        if not entering:
            return math.inf  # no result yet
        online = self.algorithm.online
        readings = sum(self.algorithm.readings(t) for t in entering) if online else 1
        return made.half_width(
            session.roster * len(entering), session.roster * readings, confidence
        )


class MaskedPlan(SecurePlan):
    """The same, of a session that may have to be repeated."""

    def mechanism(
        self,
        epsilon: float | None = None,
        t: int | None = None,
        agent: int = 0,
        released: bool = False,
    ) -> MaskedMechanism:
        """With the parameters of a session."""
        found = super().mechanism(epsilon, t, agent, released)
        assert isinstance(found, MaskedMechanism)
        return found

    def _with(self, asked: SecureSumDP, numbers: dict[str, Any], step: float) -> MaskedMechanism:
        """With the attempts of the request."""
        assert isinstance(asked, MaskedDP)
        terms = MaskedParameters(
            colluders=asked.colluders, absent=asked.absent, attempts=asked.attempts, **numbers
        )
        return MaskedMechanism(terms.epsilon, self.statistic.l1, step, terms, self.statistic.whole)

    def check(self, rounds: int) -> None:
        """Refuse more restarts than there are attempts, too."""
        super().check(rounds)
        terms = self.mechanism().terms
        restarts = getattr(
            None if self.algorithm is None else self.algorithm.session, "restarts", 0
        )
        if restarts >= terms.attempts:
            raise PrivacyError(
                f"{restarts} restarts need {restarts + 1} attempts, and a query has "
                f"{terms.attempts}; cover more absentees, and state attempts"
            )


@overload
def plan(
    privacy: MaskedDP,
    family: Any,
    algorithm: Algorithm | None = ...,
    network: Any = ...,
    rounds: int = ...,
    *,
    members: int | None = ...,
) -> MaskedPlan: ...
@overload
def plan(
    privacy: SecureSumDP,
    family: Any,
    algorithm: Algorithm | None = ...,
    network: Any = ...,
    rounds: int = ...,
    *,
    members: int | None = ...,
) -> SecurePlan: ...
@overload
def plan(
    privacy: PrivacyRequest,
    family: Any,
    algorithm: Algorithm | None = ...,
    network: Any = ...,
    rounds: int = ...,
    *,
    members: int | None = ...,
) -> Plan: ...
def plan(
    privacy: PrivacyRequest,
    family: Any,
    algorithm: Algorithm | None = None,
    network: Any = None,
    rounds: int = 1,
    *,
    members: int | None = None,
) -> Plan:
    """Work out the noise for a privacy request, or say why none keeps its promise.

    Parameters
    ----------
    privacy : PrivacyRequest
        The request.
    family : Family
        The family of the signals; None for a statistic of sensitivity 1.
    algorithm : Algorithm, optional
        Without it, for one release by itself.
    network : Network, optional
        Anything with `size` and `largest_neighbour_weight`.
    rounds : int
        How many rounds a divided budget must last.
    members : int, optional
        Of a sum over a roster without an algorithm.

    Returns
    -------
    Plan
        The mechanism, its scales and its costs.

    Raises
    ------
    PrivacyError
        Where no finite noise keeps the guarantee.
    AlgorithmError
        For an algorithm whose coefficients are not numbers.

    Examples
    --------
    >>> from veilsum import families
    >>> from veilsum.privacy import MaskedDP, SignalDP
    >>> plan(SignalDP(1.0, mechanism="best"), families.Bernoulli()).mechanism().name
    'duchi'
    >>> normal = families.Normal(1.0, bounds=(0.0, 1.0))
    >>> made = plan(SecureSumDP(1.0), normal, members=100).mechanism()
    >>> made.step == 2.0**-12, made.terms.sensitivity_steps, made.terms.honest
    (True, 4097, 70)
    """
    algorithm = None if algorithm is None else privacy.batched(algorithm)
    privacy = privacy.over(family)
    agents = 1 if network is None else network.size
    if not privacy.adds_noise:
        return NoNoise(
            privacy=privacy, family=family, algorithm=algorithm, statistic=ANY,
            rounds_per_budget=1, network=np.zeros(agents), fractions=np.ones(agents),
        )  # fmt: skip
    steps = None if algorithm is None else coefficient_table(algorithm, rounds)
    divided = steps is not None and steps.algorithm.splits_budget
    fractions = _fractions(privacy, None if network is None else agents)
    weights = 0.0 if network is None else np.asarray(network.largest_neighbour_weight)
    if algorithm is not None:
        _check_algorithm(privacy, algorithm)
    kind: type[Plan] = LaplacePlan
    more: dict[str, Any] = {}
    if privacy.summed:
        kind = MaskedPlan if privacy.masked else SecurePlan
        more["members"] = _members(privacy, algorithm, members)
    elif privacy.reads_signals:
        kind = SmoothPlan if privacy.sensitivity is SMOOTH else PublishedPlan
    elif privacy.stream is not None:
        kind = StreamPlan
    elif privacy.perturbs_input:
        kind = InputPlan
    made = kind(
        privacy=privacy, family=family, algorithm=algorithm,
        statistic=_statistic(privacy, family),
        rounds_per_budget=max(steps.releases, 1) if steps is not None and divided else 1,
        network=np.asarray(privacy.hides_neighbours * weights / fractions),
        fractions=fractions, **more,
    )  # fmt: skip
    made.check(rounds)
    return made


def _statistic(privacy: PrivacyRequest, family: Any) -> Statistic:
    """What moves, by a finite amount above 0: noise of scale 0 hides nothing."""
    if family is None:
        return ANY
    if privacy.reads_signals:
        _check_log(privacy, family)
        moved: Statistic = family.moves(privacy.reach)
        return moved
    found: Statistic = family.moves(privacy.reach)
    if not found.finite:
        raise PrivacyError(
            f"family {family.name} has infinite global sensitivity, so no finite noise hides a "
            f"signal: {found.reason}"
        )
    if not (found.l1 > 0 and found.l1 / privacy.epsilon > 0):
        raise PrivacyError(
            f"family {family.name} has sensitivity {found.l1:g} at radius {privacy.reach:g}, "
            "and noise of that scale would hide nothing; choose a larger radius or wider bounds"
        )
    return found


def _check_log(privacy: PrivacyRequest, family: Any) -> None:
    """Refuse what smooth sensitivity is not known of; it needs a public floor."""
    if not family.statistic_is_log:
        raise PrivacyError(
            f"sensitivity {privacy.sensitivity} is known where the statistic is log s; "
            f"that of {family.name} is {family.formula}; try sensitivity global"
        )
    if privacy.sensitivity is SMOOTH and not family.support.low > 0:
        raise PrivacyError(
            "the smooth sensitivity of log s is infinite without a floor (erratum 2); give the "
            "family bounds=(floor, None)"
        )


def _check_algorithm(privacy: PrivacyRequest, algorithm: Algorithm) -> None:
    """Refuse algorithms whose noise is not one perturbation of each signal."""
    if (privacy.summed, privacy.masked) != (algorithm.summed, algorithm.masked):
        raise PrivacyError(
            f"algorithm {algorithm.name} does not go with {type(privacy).__name__}; {_who_goes()}, in which "
            "no agent has noise for itself alone"
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


def _members(privacy: PrivacyRequest, algorithm: Algorithm | None, stated: int | None) -> int:
    session = None if algorithm is None else algorithm.session
    if session is not None:
        return session.members
    if stated is None:
        raise PrivacyError(
            f"{type(privacy).__name__} goes with the algorithms {_algorithms_of(privacy)}; state one"
        )
    return stated


def _algorithms_of(privacy: PrivacyRequest | type[SecureSumDP]) -> str:
    masked = privacy is MaskedDP or isinstance(privacy, MaskedDP)
    kinds = ALGORITHMS.items()
    return " and ".join(n for n, kind in kinds if kind.summed and kind.masked is masked)


def _who_goes() -> str:
    both = (SecureSumDP, MaskedDP)
    return ", ".join(f"{one.__name__} goes with {_algorithms_of(one)}" for one in both)


def _fractions(privacy: PrivacyRequest, agents: int | None) -> Floats:
    """Each agent's budget over epsilon."""
    found = privacy.budget_fractions
    if found is None:
        return np.ones(agents or 1)
    if agents is not None and len(found) != agents:
        raise PrivacyError(
            f"budget_fractions has {len(found)} entries and the network {agents} agents"
        )
    return np.array(found, dtype=np.float64)


def _first_coordinate(family: Any) -> Callable[[Floats], Floats]:
    return lambda s: np.asarray(family.columns(s)[..., 0])
