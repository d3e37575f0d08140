"""What to run, and how its runs become the columns of one matrix."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura import _validate
from murmura._memory import check_rounds
from murmura.engine.seeds import NOT_GIVEN, FreshSeed, seed_of
from murmura.engine.source import Source
from murmura.errors import MurmuraError, PrivacyError
from murmura.laws.base import Law
from murmura.privacy import Want

MOST_STREAMS = 2**32  # a stream of noise is numbered by replica and component


@dataclass(frozen=True, eq=False)
class Problem:
    """What to run: the network, the law, the signals, the protection and how often."""

    network: Any
    law: Law
    family: Any
    source: Source
    want: Want
    rounds: int
    epsilons: tuple[float, ...] = ()  # empty: the one of `want`
    replicas: int = 1
    seed: int = field(default=NOT_GIVEN, repr=False)  # not given: see `engine.seeds`
    horizon: int | None = None  # rounds that a shared budget must last for, if not `rounds`

    def __post_init__(self) -> None:
        """Choose a seed if none is given; check counts and signals before anything is drawn."""
        object.__setattr__(self, "seed", seed_of(self.seed, self.source.measured))
        _validate.at_least(MurmuraError, 1, rounds=self.rounds, replicas=self.replicas)
        check_rounds(self.rounds)
        if self.horizon is not None and self.horizon < self.rounds:
            raise PrivacyError(
                f"horizon must be at least rounds = {self.rounds}, for the budget must last; "
                f"found {self.horizon}"
            )
        for epsilon in self.epsilons:
            _validate.positive(PrivacyError, epsilon=epsilon)
        if len(set(self.epsilons)) < len(self.epsilons):
            raise PrivacyError(f"epsilons must differ from one another; found {self.epsilons}")
        if self.replicas * self.family.dimension >= MOST_STREAMS:
            raise MurmuraError(
                f"{self.replicas:,} replicas of {self.family.dimension} components are more "
                "streams of noise than can be told apart; run them in parts with other seeds"
            )
        self.source.check(self.family, self.rounds if self.law.online else 1)

    @property
    def mass(self) -> NDArray[np.float64]:
        """How much each agent's signal weighs in the limit: 1/n, or the stationary distribution.

        Ratio laws divide the weights' bias out, so theirs is 1/n on any network.
        """
        n = self.network.size
        return np.full(n, 1 / n) if self.law.ratio else np.asarray(self.network.stationary)

    @property
    def budgets(self) -> tuple[float, ...]:
        """The epsilons that are run; none without protection."""
        own = getattr(self.want, "epsilon", None)
        return () if own is None else self.epsilons or (own,)

    @property
    def seed_is_known(self) -> bool:
        """Whether somebody chose the seed, and can draw the noise again."""
        return not isinstance(self.seed, FreshSeed)

    @property
    def apart(self) -> list[Problem]:
        """The runs that must not share noise: of measured signals, one for each epsilon."""
        if not self.source.measured or len(self.budgets) < 2:
            return [self]
        return [replace(self, epsilons=(epsilon,)) for epsilon in self.budgets]


@dataclass(frozen=True, eq=False)
class Columns:
    """Which column is which run; each private column has a clean twin and a stream of noise.

    All epsilons share the streams of a replica: what differs between them is the scale alone, so
    curves over epsilon are smooth, and a run does not depend on which others it is swept with.
    Measured signals are run one epsilon at a time (`Problem.apart`), each with noise of its own.
    """

    components: int
    clean: int  # replicas with signals of their own, times components
    private: int
    twin: NDArray[np.uint64]
    streams: NDArray[np.uint64]

    @staticmethod
    def of(problem: Problem) -> Columns:
        """Lay out the runs of a problem: clean ones first, then epsilon by replica."""
        components = problem.family.dimension
        replicas = problem.replicas if problem.source.varies else 1
        e, r, k = np.meshgrid(
            np.arange(len(problem.budgets)), np.arange(problem.replicas), np.arange(components),
            indexing="ij",
        )  # fmt: skip
        own = (r if problem.source.varies else 0 * r) * components + k
        return Columns(
            components=components,
            clean=replicas * components,
            private=e.size,
            twin=np.concatenate([np.arange(replicas * components), own.ravel()]).astype(np.uint64),
            streams=np.arange(problem.replicas * components if e.size else 0, dtype=np.uint64),
        )

    def epsilons(self, problem: Problem) -> NDArray[np.float64]:
        """Give the epsilon of each private column."""
        return np.repeat(np.array(problem.budgets), problem.replicas * self.components)
