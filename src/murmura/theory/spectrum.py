"""Where a network's spectrum lies: every eigenvalue, or a quadrature that stands for them.

For weights A = Q diag(lambda) Q' and a profile u of variances over agents, what matters is

    sum_{i >= 2} f(lambda_i) sum_j q_ij^2 u_j,

a sum of values f with weights. Up to `DENSE_UP_TO` agents it is exact. Beyond, random signs z give
it as E z' f(A) z with z_j = +-sqrt(u_j), taken orthogonal to 1, and k steps of Lanczos from z give
a quadrature of k nodes that is exact for polynomials f of degree 2k - 1 (Golub and Meurant 1994):
the squared response of a law after t rounds has degree 2t. What is left is the chance of the
signs, which several probes measure (Hutchinson 1990).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from murmura.errors import NetworkError

DENSE_UP_TO = 6000
MOST_STEPS = 400
BREAKDOWN = 1e-12

Floats = NDArray[np.float64]


class Part(NamedTuple):
    """Eigenvalues below the first, or nodes that stand for them, and their weights."""

    values: Floats  # (m,)
    weights: Floats  # (m,)


@dataclass(eq=False)
class Dense:
    """All eigenvalues, ascending and without the 1; eigenvectors only once they are asked for."""

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
            "try network.metropolis(graph), or measure with murmura.sweep"
        )
    return network.at(1)


def dense(network: Any) -> Dense:
    """Every eigenvalue but the first, computed once for a network."""
    matrix = symmetric(network)
    if network not in _KEPT:
        _KEPT[network] = Dense(matrix, np.linalg.eigvalsh(matrix.toarray())[:-1])
    return _KEPT[network]


def _without_first(values: Floats, vectors: Floats) -> tuple[Floats, Floats]:
    return values[:-1], vectors[:, :-1]


def probed(matrix: Any, u: Floats, steps: int, rng: np.random.Generator) -> Part:
    """Nodes and weights of z' f(A) z for one random z with variances u."""
    z = np.sqrt(u) * rng.choice([-1.0, 1.0], size=matrix.shape[0])
    z -= z.mean()
    total = float(z @ z)
    if total == 0:
        return Part(np.zeros(1), np.zeros(1))
    diagonal, off = _lanczos(matrix, z / math.sqrt(total), min(steps, MOST_STEPS))
    nodes, vectors = _tridiagonal(diagonal, off)
    return Part(nodes, total * vectors[0] ** 2)


def _lanczos(matrix: Any, q: Floats, steps: int) -> tuple[Floats, Floats]:
    """The tridiagonal T of A on the Krylov space of q, kept orthogonal to 1."""
    previous, b, diagonal, off = np.zeros_like(q), 0.0, [], []
    for _ in range(steps):
        r = matrix @ q - b * previous
        diagonal.append(float(q @ r))
        r -= diagonal[-1] * q
        r -= r.mean()
        b = float(np.linalg.norm(r))
        if b < BREAKDOWN:
            break
        off.append(b)
        previous, q = q, r / b
    return np.array(diagonal), np.array(off[: len(diagonal) - 1])


def _tridiagonal(diagonal: Floats, off: Floats) -> tuple[Floats, Floats]:
    from scipy.linalg import eigh_tridiagonal

    if len(diagonal) == 1:
        return diagonal, np.ones((1, 1))
    values, vectors = eigh_tridiagonal(diagonal, off)
    return values, vectors


def parts(network: Any, rounds: int, probes: int = 16, seed: int = 0) -> list[Part]:
    """The spectrum below 1: one exact part, or one for each random probe."""
    if network.size <= DENSE_UP_TO:
        values = dense(network).values
        return [Part(values, np.ones_like(values))]
    rng, ones = np.random.default_rng(seed), np.ones(network.size)
    return [probed(symmetric(network), ones, rounds + 1, rng) for _ in range(probes)]
