"""What to run: a network, an algorithm, signals, a privacy request, and how often."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from veilsum import _validate
from veilsum._memory import check_rounds
from veilsum._types import Family, Floats, Network, SignalSource
from veilsum.algorithms.base import Algorithm
from veilsum.errors import PrivacyError, VeilsumError
from veilsum.privacy import (
    Guarantee,
    Plan,
    PrivacyRequest,
    guarantee_of,
    plan,
)
from veilsum.simulation.seeds import NOT_GIVEN, FreshSeed, seed_of

MOST_STREAMS = 2**32  # a stream of noise is numbered by replica and component


@dataclass(frozen=True, eq=False)
class Problem:
    """What to run: everything that the numbers of a run follow from.

    It is checked when it is made; `veilsum.api.solve` and `simulate` run it as it is.

    Parameters
    ----------
    network
        The weights, such as `networks.metropolis("ring:21")`.
    algorithm
        The algorithm, from `algorithms.get` or a class of `algorithms`. Where the privacy request
        has batches, it becomes `algorithms.Batched`.
    family
        The family whose statistic is estimated.
    source
        `SyntheticSignals`, `RecordedSignals`, or any other `SignalSource`.
    privacy
        `SignalDP`, `NetworkDP`, `SecureSumDP`, `MaskedDP` or `NoPrivacy`. A radius of None becomes a number
        (`PrivacyRequest.over`).
    rounds
        The number of rounds T.
    epsilons
        Epsilons to run together; empty for the one of `privacy`.
    replicas
        Independent repetitions.
    seed
        The seed of the noise. By default 0 for synthetic signals and entropy of the operating
        system for measured ones.
    horizon
        The rounds for which a budget that is split over rounds must last, if not `rounds`.

    Raises
    ------
    VeilsumError
        If a count is below 1 or signals are missing (`SignalError`), epsilons make no sense
        (`PrivacyError`), or the rounds do not fit into memory (`CostError`).

    Examples
    --------
    >>> import veilsum as vs
    >>> ring, family = vs.networks.metropolis("ring:9"), vs.families.Normal(sigma=1.0)
    >>> problem = Problem(
    ...     ring, vs.algorithms.Average(), family,
    ...     vs.simulation.SyntheticSignals(family, {"mu": 2.0}, 9, seed=1),
    ...     vs.privacy.SignalDP(epsilon=1.0), rounds=50, epsilons=(0.5, 1.0),
    ... )
    >>> problem.run_epsilons
    (0.5, 1.0)
    >>> problem.guarantee.status
    <Status.PROVED: 'proved'>
    """

    network: Network
    algorithm: Algorithm
    family: Family
    source: SignalSource
    privacy: PrivacyRequest
    rounds: int
    epsilons: tuple[float, ...] = ()
    replicas: int = 1
    seed: int = field(default=NOT_GIVEN, repr=False)
    horizon: int | None = None

    def __post_init__(self) -> None:
        """Choose a seed if none is given; check counts and signals before anything is drawn."""
        object.__setattr__(self, "seed", seed_of(self.seed, self.source.measured))
        object.__setattr__(self, "algorithm", self.privacy.batched(self.algorithm))
        drawn = not self.source.measured
        object.__setattr__(self, "privacy", self.privacy.over(self.family, drawn))
        _validate.at_least(VeilsumError, 1, rounds=self.rounds, replicas=self.replicas)
        check_rounds(self.rounds)
        if self.horizon is not None and self.horizon < self.rounds:
            raise PrivacyError(
                f"horizon must be at least rounds = {self.rounds}, for the budget must last; "
                f"found {self.horizon}"
            )
        if self.algorithm.session is not None:
            self.algorithm.session.check_rounds(self.rounds)
        for epsilon in self.epsilons:
            _validate.positive(PrivacyError, epsilon=epsilon)
        if len(set(self.epsilons)) < len(self.epsilons):
            raise PrivacyError(f"epsilons must differ from one another; found {self.epsilons}")
        if self.replicas * self.family.dimension >= MOST_STREAMS:
            raise VeilsumError(
                f"{self.replicas:,} replicas of {self.family.dimension} components are more "
                "streams of noise than can be distinguished; run them in parts with other seeds"
            )
        self.source.check(self.family, self.rounds if self.algorithm.online else 1)

    @cached_property
    def guarantee(self) -> Guarantee:
        """What an agent is guaranteed after all rounds, at the largest epsilon that is run."""
        epsilon = max(self.run_epsilons, default=self.privacy.epsilon)
        return guarantee_of(self.privacy.at(epsilon), self.algorithm, self.rounds, self.family)

    @cached_property
    def plan(self) -> Plan:
        """The scale of every agent's noise; 0 without privacy."""
        horizon = self.horizon or self.rounds
        return plan(self.privacy, self.family, self.algorithm, self.network, horizon)

    @cached_property
    def diverges(self) -> str | None:
        """Why the error grows without limit from round to round, if it is known to."""
        return self.algorithm.divergence(self.network, self.privacy.hides_neighbours)

    @property
    def mass(self) -> Floats:
        """(n,): the weight of each agent's signal in the limit, 1/n or the stationary distribution.

        Ratio algorithms divide by the weights' bias, so that theirs is 1/n on any network. A masked
        sum has its roster's.
        """
        n = self.network.size
        if self.algorithm.session is not None:
            return self.algorithm.session.mass
        return np.full(n, 1 / n) if self.algorithm.ratio else np.asarray(self.network.stationary)

    @property
    def run_epsilons(self) -> tuple[float, ...]:
        """The epsilons that are run: `epsilons`, else the one of `privacy`; none without privacy.

        It follows from the two fields whenever it is read, so that `dataclasses.replace` with
        another privacy request never leaves the epsilon of the earlier one behind.
        """
        return (self.epsilons or (self.privacy.epsilon,)) if self.privacy.adds_noise else ()

    @property
    def seed_is_known(self) -> bool:
        """Whether somebody chose the seed, and can draw the noise again."""
        return not isinstance(self.seed, FreshSeed)

    @property
    def independent_runs(self) -> list[Problem]:
        """The runs that must not share noise: for measured signals, one for each epsilon."""
        if not self.source.measured or len(self.run_epsilons) < 2:
            return [self]
        return [self._with_epsilon(epsilon) for epsilon in self.run_epsilons]

    def _with_epsilon(self, epsilon: float) -> Problem:
        """This problem at one of its epsilons; what was checked and calibrated stays so."""
        part = copy.copy(self)
        part.__dict__.pop("guarantee", None)  # of the largest epsilon, which need not be this one
        object.__setattr__(part, "epsilons", (epsilon,))
        return part
