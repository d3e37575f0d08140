"""What to run, and how its runs become the columns of one matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura import _validate
from murmura.engine.source import Source
from murmura.errors import MurmuraError
from murmura.laws.base import Law
from murmura.privacy import Want

MOST_REPLICAS = 2**16  # a run of noise is numbered by epsilon, replica and component


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
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the counts and the signals before anything is drawn."""
        _validate.at_least(MurmuraError, 1, rounds=self.rounds, replicas=self.replicas)
        if len(self.budgets) * self.family.dimension * MOST_REPLICAS >= 2**32:
            raise MurmuraError(
                f"{len(self.budgets)} epsilons of {self.family.dimension} components are more "
                "streams of noise than can be told apart; run them in parts"
            )
        if self.replicas >= MOST_REPLICAS:
            raise MurmuraError(
                f"replicas must be below {MOST_REPLICAS:,}; found {self.replicas:,}; "
                "run them in parts with other seeds"
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


@dataclass(frozen=True, eq=False)
class Columns:
    """Which column is which run; each private column has a clean twin and a stream of noise."""

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
        streams = (e * MOST_REPLICAS + r) * components + k
        return Columns(
            components=components,
            clean=replicas * components,
            private=e.size,
            twin=np.concatenate([np.arange(replicas * components), own.ravel()]).astype(np.uint64),
            streams=streams.ravel().astype(np.uint64),
        )

    def epsilons(self, problem: Problem) -> NDArray[np.float64]:
        """Give the epsilon of each private column."""
        return np.repeat(np.array(problem.budgets), problem.replicas * self.components)
