"""The spectrum of a network: every eigenvalue, or a quadrature that represents them.

For weights A = Q diag(lambda) Q' and a profile u of variances over agents, errors are sums

    sum_{i >= 2} f(lambda_i) sum_j q_ij^2 u_j = tr B,    B = D P f(A) P D,

of values f with weights, where D = diag(sqrt(u)) and P takes the mean away. Small networks are exact.
Beyond, k steps of Lanczos from a vector z give a quadrature of k nodes for z' f(A) z that is exact for
polynomials f of degree 2k - 1 (Golub and Meurant 1994): the squared response of an algorithm after t
rounds has degree 2t. For orthonormal columns W and random signs s,

    tr B = sum_j w_j' B w_j + E s'(I - W W') B (I - W W') s.

The second term is random, and several probes measure by how much (Hutchinson 1990). W is chosen to have
most of B (Meyer et al. 2021): after many rounds a few eigenvalues near 1 are all that is left, and signs
alone would miss their sum by a tenth. On the US power grid the standard error of any error is at most
1.2% in every round up to 100, in about a hundredth of the time of all its eigenvalues.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from veilsum import _extras
from veilsum.errors import NetworkError
from veilsum.networks.rows import CompressedRows, first_rows
from veilsum.networks.spectrum import BREAKDOWN, lanczos

EXACT_UP_TO = 6000  # agents: about a minute
PROMPT_UP_TO = 1500  # about a second: for what someone waits for
MOST_STEPS = 400
PROBES = 24
CAPTURED = 24  # columns of W ...
MOST_CAPTURED = 2_000_000  # ... and numbers in it
SOUNDINGS, FILTER = (
    4,
    120,
)  # probes that find the outer eigenvalues; degree of what W is filtered by

Floats = NDArray[np.float64]


class SpectralPart(NamedTuple):
    """Eigenvalues below the first, or nodes that represent them; a row of weights for each probe."""

    values: Floats  # (m,)
    weights: Floats  # (probes, m); one row when exact


@dataclass(frozen=True, eq=False)
class Dense:
    """All eigenvalues but the 1, ascending; eigenvectors are computed when first needed."""

    matrix: Any
    values: Floats  # (m,), read-only: all who ask for a network's share them

    @cached_property
    def squares(self) -> Floats:
        """(agents, m): q_ij^2."""
        _, vectors = np.linalg.eigh(self.matrix.toarray())
        return _read_only(vectors[:, :-1] ** 2)

    def profile(self, u: Floats) -> Floats:
        """(m, ...): sum_j q_ij^2 u_j."""
        return np.asarray(self.squares.T @ u)

    @property
    def part(self) -> SpectralPart:
        """Every eigenvalue with weight 1."""
        return SpectralPart(self.values, np.ones((1, len(self.values))))


_KEPT: WeakKeyDictionary[Any, Dense] = WeakKeyDictionary()
_PROBED: WeakKeyDictionary[Any, dict[Any, SpectralPart]] = WeakKeyDictionary()


def _read_only(array: Floats) -> Floats:
    array.setflags(write=False)
    return array


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
        values = np.linalg.eigvalsh(matrix.toarray())[:-1]
        _KEPT[network] = Dense(matrix, _read_only(values))
    return _KEPT[network]


def part(network: Any, rounds: int, probes: int, exact_up_to: int = EXACT_UP_TO) -> SpectralPart:
    """The spectrum below 1, for variances that are the same at all agents."""
    if network.size <= exact_up_to:
        return dense(network).part
    return probed(network, np.ones(network.size), rounds + 1, probes)


def probed(network: Any, u: Floats, steps: int, probes: int) -> SpectralPart:
    """Nodes and weights for variances u, computed once for a network; the same in every run."""
    kept = _PROBED.setdefault(network, {})
    key = (min(steps, MOST_STEPS), probes, u.tobytes())
    if key not in kept:
        matrix = symmetric(network)
        matrix = matrix.csr if isinstance(matrix, CompressedRows) else matrix  # quick products
        kept[key] = _Probes(matrix, np.sqrt(u), key[0]).take(probes)
    return kept[key]


class _Probes:
    """Quadratures for z' f(A) z, z = P D x."""

    def __init__(self, matrix: Any, root: Floats, steps: int) -> None:
        self._matrix, self._root, self._steps = matrix, root, steps
        self._rng = np.random.default_rng(0)

    def take(self, count: int) -> SpectralPart:
        """What W has, the same for every probe, and the rest as each probe sees it."""
        basis = self._basis()
        fixed = _joined([self._quadrature(w) for w in basis.T], self._steps)
        each = []
        for _ in range(count):
            signs = self._signs()
            each.append(self._quadrature(signs - basis @ (basis.T @ signs)))
        values = np.concatenate([fixed[0], *(nodes for nodes, _ in each)])
        weights, end = np.zeros((count, len(values))), len(fixed[0])
        weights[:, :end] = fixed[1]
        for row, (nodes, own) in zip(weights, each, strict=True):
            row[end : end + len(nodes)] = own
            end += len(nodes)
        return SpectralPart(_read_only(values), _read_only(weights))

    def _signs(self) -> Floats:
        return self._rng.choice([-1.0, 1.0], size=len(self._root))

    def _quadrature(self, x: Floats) -> tuple[Floats, Floats]:
        z = self._root * x
        z -= z.mean()
        total = float(z @ z)
        if total == 0:
            return np.zeros(1), np.zeros(1)
        *_, (diagonal, off) = lanczos(self._matrix, z / math.sqrt(total), self._steps)
        nodes, weights = _gauss(diagonal, off[:-1])
        return nodes, total * weights

    def _basis(self) -> Floats:
        """W: orthonormal, with most of what D P has along the outer eigenvalues."""
        size = len(self._root)
        count = min(CAPTURED, MOST_CAPTURED // size, size // 4)
        root, x = self._root[:, None], self._rng.standard_normal((size, count))
        if not count:
            return x
        before = root * x - (root * x).mean(axis=0)
        edge = self._edge(count / 2)
        now = self._matrix @ before / edge
        for _ in range(
            FILTER - 1
        ):  # Chebyshev's polynomials are small below the edge, large beyond
            later = self._matrix @ now
            later *= 2 / edge
            later -= before
            before, now = now, later
        return np.asarray(np.linalg.qr(root * (now - now.mean(axis=0)))[0])

    def _edge(self, beyond: float) -> float:
        """The size of eigenvalue that about so many exceed."""
        found = [self._quadrature(self._signs()) for _ in range(SOUNDINGS)]
        sizes = np.abs(np.concatenate([nodes for nodes, _ in found]))
        weights = np.concatenate([weights for _, weights in found])
        order = np.argsort(-sizes)
        counted = np.cumsum(weights[order]) * (len(self._root) / max(weights.sum(), 1e-300))
        place = min(int(np.searchsorted(counted, beyond)), len(order) - 1)
        return max(float(sizes[order[place]]), 1e-3)


def _joined(some: list[tuple[Floats, Floats]], steps: int) -> tuple[Floats, Floats]:
    """The sum of quadratures as one of `steps` nodes, as exact as they are: Lanczos on their nodes."""
    nodes = np.concatenate([np.zeros(0), *(nodes for nodes, _ in some)])
    weights = np.concatenate([np.zeros(0), *(weights for _, weights in some)])
    total = float(weights.sum())
    if len(nodes) <= steps or total == 0:
        return nodes, weights
    q, diagonal, off = np.sqrt(weights / total), list[float](), list[float]()
    before, b = np.zeros(len(q)), 0.0
    for _ in range(steps):
        r = nodes * q - b * before
        diagonal.append(float(q @ r))
        r -= diagonal[-1] * q
        b = math.sqrt(float(r @ r))
        off.append(b)
        if b < BREAKDOWN:
            break
        before, q = q, r / b
    values, found = _gauss(np.array(diagonal), np.array(off[: len(diagonal) - 1]))
    return values, total * found


def _gauss(diagonal: Floats, off: Floats) -> tuple[Floats, Floats]:
    """Nodes and weights of a Jacobi matrix."""
    if len(diagonal) == 1:
        return diagonal.copy(), np.ones(1)
    values, vectors = _extras.load("scipy.linalg").eigh_tridiagonal(diagonal, off)
    return values, vectors[0] ** 2
