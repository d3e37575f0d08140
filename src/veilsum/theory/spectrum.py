"""The spectrum of a network: every eigenvalue, or a quadrature that represents them.

For weights A = Q diag(lambda) Q' and a profile u of variances over agents, errors are sums

    sum_{i >= 2} f(lambda_i) sum_j q_ij^2 u_j,

of values f with weights. Up to `DENSE_UP_TO` agents it is exact. Beyond, random signs z give
it as E z' f(A) z with z_j = +-sqrt(u_j), taken orthogonal to 1, and k steps of Lanczos from z give
a quadrature of k nodes that is exact for polynomials f of degree 2k - 1 (Golub and Meurant 1994):
the squared response of an algorithm after t rounds has degree 2t. What remains is the randomness
of the signs, which several probes measure (Hutchinson 1990).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from veilsum import _extras
from veilsum.errors import NetworkError
from veilsum.networks.rows import CompressedRows, first_rows
from veilsum.networks.spectrum import lanczos

DENSE_UP_TO = 6000
MOST_STEPS = 400

Floats = NDArray[np.float64]


class SpectralPart(NamedTuple):
    """Eigenvalues below the first, or nodes that represent them, and their weights."""

    values: Floats  # (m,)
    weights: Floats  # (m,)


@dataclass(eq=False)
class Dense:
    """All eigenvalues but the 1, ascending; eigenvectors are computed when first needed."""

    matrix: Any
    values: Floats
    squares: Floats | None = None  # (agents, m): q_ij^2

    def profile(self, u: Floats) -> Floats:
        """(m, ...): sum_j q_ij^2 u_j."""
        if self.squares is None:
            self.values, vectors = _without_first(*np.linalg.eigh(self.matrix.toarray()))
            self.squares = vectors**2
        return np.asarray(self.squares.T @ u)


_KEPT: WeakKeyDictionary[Any, Dense] = WeakKeyDictionary()


def symmetric(network: Any) -> Any:
    """A, or an error for weights that change, or whose rows or columns do not sum to 1."""
    if network.dynamic or network.kind != "doubly-stochastic":
        found = "change with the round" if network.dynamic else f"are {network.kind}"
        raise NetworkError(
            f"exact errors need one symmetric doubly stochastic matrix; these weights {found}; "
            "try networks.metropolis(graph), or measure with veilsum.sweep"
        )
    return first_rows(network)


def dense(network: Any) -> Dense:
    """Every eigenvalue but the first, computed once for a network."""
    matrix = symmetric(network)
    if network not in _KEPT:
        _KEPT[network] = Dense(matrix, np.linalg.eigvalsh(matrix.toarray())[:-1])
    return _KEPT[network]


def _without_first(values: Floats, vectors: Floats) -> tuple[Floats, Floats]:
    return values[:-1], vectors[:, :-1]


def probed(matrix: Any, u: Floats, steps: int, rng: np.random.Generator) -> SpectralPart:
    """Nodes and weights of z' f(A) z for one random z with variances u."""
    matrix = (
        matrix.csr if isinstance(matrix, CompressedRows) else matrix
    )  # whose products are quick
    z = np.sqrt(u) * rng.choice([-1.0, 1.0], size=matrix.shape[0])
    z -= z.mean()
    total = float(z @ z)
    if total == 0:
        return SpectralPart(np.zeros(1), np.zeros(1))
    *_, (diagonal, off) = lanczos(matrix, z / math.sqrt(total), min(steps, MOST_STEPS))
    nodes, vectors = _tridiagonal(diagonal, off[:-1])
    return SpectralPart(nodes, total * vectors[0] ** 2)


def _tridiagonal(diagonal: Floats, off: Floats) -> tuple[Floats, Floats]:
    eigh_tridiagonal = _extras.load("scipy.linalg").eigh_tridiagonal
    if len(diagonal) == 1:
        return diagonal, np.ones((1, 1))
    values, vectors = eigh_tridiagonal(diagonal, off)
    return values, vectors


def parts(network: Any, rounds: int, probes: int = 16, seed: int = 0) -> list[SpectralPart]:
    """The spectrum below 1: one exact part, or one for each random probe."""
    if network.size <= DENSE_UP_TO:
        values = dense(network).values
        return [SpectralPart(values, np.ones_like(values))]
    rng, ones = np.random.default_rng(seed), np.ones(network.size)
    return [probed(symmetric(network), ones, rounds + 1, rng) for _ in range(probes)]
