"""Mixing: the matrix A by which the agents average, valid once constructed.

    A >= 0,  A = A',  A 1 = 1,  connected,  aperiodic   =>   A^t -> 11'/n  at rate beta*^t

with beta* = max(lambda_2, |lambda_n|), the second largest modulus of an eigenvalue.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from murmura._validate import as_float, found
from murmura.errors import NetworkError
from murmura.network import checks
from murmura.network.fixed import Fixed
from murmura.network.graph import Graph
from murmura.network.protocol import Floats, Kind
from murmura.network.spectrum import extremes


@dataclass(frozen=True, eq=False)
class Mixing(Fixed):
    """Symmetric doubly stochastic weights of a connected, aperiodic network.

    `weights` is a csr array with int32 sorted indices and the diagonal stored in every row.
    Use `Mixing.of(matrix)` for your own weights, or a scheme such as `network.metropolis(graph)`.
    """

    weights: csr_array
    labels: checks.Labels = ()
    scheme: str = "given"
    graph: Graph | None = None

    def __post_init__(self) -> None:
        """Check everything that the class promises."""
        sound = checks.is_sound(self.weights)
        self._settle(sound)
        if not sound:
            checks.check_symmetric(self.weights, self.labels)
        checks.check_connected(self.weights, self.labels)
        checks.check_aperiodic(self.weights, "network.lazy_metropolis(graph)", directed=False)

    @classmethod
    def of(cls, matrix: Any, labels: checks.Labels | None = None, scheme: str = "given") -> Mixing:
        """The Mixing of a dense or sparse matrix; its graph is where the weights are positive."""
        weights = checks.canonical(matrix)
        bare = cls(weights, labels if labels is not None else (), scheme)
        links = checks.links_of(weights).tocoo()
        pairs = np.stack([links.row, links.col], axis=1).astype(np.int64)
        graph = Graph(bare.size, pairs[pairs[:, 0] < pairs[:, 1]], bare.labels, name=scheme)
        object.__setattr__(bare, "graph", graph)
        return bare

    def __repr__(self) -> str:
        """Scheme and size, never the weights."""
        return self._described(self.scheme)

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        """Rows and columns sum to 1."""
        return "doubly-stochastic"

    @cached_property
    def stationary(self) -> Floats:
        """pi = 1/n."""
        return np.full(self.size, 1.0 / self.size)

    @cached_property
    def _extremes(self) -> tuple[float, float]:
        return extremes(self.weights)

    @property
    def lambda_2(self) -> float:
        """The largest eigenvalue below 1."""
        return self._extremes[0]

    @property
    def lambda_n(self) -> float:
        """The least eigenvalue."""
        return self._extremes[1]

    @property
    def beta_star(self) -> float:
        """beta* = max(lambda_2, |lambda_n|)."""
        return max(self.lambda_2, abs(self.lambda_n))

    @property
    def spectral_gap(self) -> float:
        """1 - beta*."""
        return 1.0 - self.beta_star

    def rounds_to(self, accuracy: float) -> int:
        """ceil(log(1/accuracy) / log(1/beta*)): rounds until beta*^t <= accuracy."""
        if not 0 < as_float(accuracy) < 1:
            raise NetworkError(f"accuracy must lie in (0, 1); found {found(accuracy)}")
        if self.beta_star < 1e-14:  # rounding of 0: one round of exact averaging
            return 1
        return math.ceil(math.log(1 / accuracy) / math.log(1 / self.beta_star))
