"""lambda_2 and lambda_n of symmetric doubly stochastic weights, at any size, by Lanczos.

On the complement of the constant vector, in the three-term form,

    b_{k+1} q_{k+1} = A q_k - a_k q_k - b_k q_{k-1},    q_k orthogonal to 1,

the tridiagonal matrix T of a_1 .. a_k and b_2 .. b_k has extreme eigenvalues that converge to those
of A, and gives a quadrature for the spectrum of A seen from q_1 (`theory.spectrum` uses it). Only
three vectors are stored. Without reorthogonalisation T repeats eigenvalues it has found: that does
no harm at the ends of the spectrum. Restarted ARPACK was measured on the same matrices: 8 times
slower on the US power grid, 60 times on a path of 2,000, and it mistakes the deflated 0 for
lambda_n on lazy weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from veilsum import _extras
from veilsum._types import Floats
from veilsum._validate import at_least, one_of, positive
from veilsum.errors import NetworkError
from veilsum.networks.rows import CompressedRows

if TYPE_CHECKING:
    from scipy.sparse import csr_array

DENSE_UP_TO = 600
BREAKDOWN = 1e-13  # below this b_k is rounding: the Krylov space is exhausted and T is exact
SEED = 20_040_601


def extreme_eigenvalues(
    weights: CompressedRows | csr_array,
    *,
    tol: float = 1e-10,
    method: str = "auto",
    steps: int = 20_000,
) -> tuple[float, float]:
    """(lambda_2, lambda_n), each within `tol` of an eigenvalue by the residual bound.

    The error is usually far below `tol`, since it goes with the square of the residual.

    Parameters
    ----------
    weights : CompressedRows or csr_array
        Symmetric doubly stochastic weights, such as `Mixing.weights`.
    tol : float
        Largest residual, and largest change between two checks.
    method : {"auto", "dense", "lanczos"}
        "auto" is dense up to 600 agents.
    steps : int
        Most Lanczos steps.

    Returns
    -------
    tuple of float
        The largest eigenvalue below 1, and the smallest.

    Raises
    ------
    NetworkError
        With the residuals, if `steps` Lanczos steps do not suffice.

    Examples
    --------
    >>> from veilsum import networks
    >>> high, low = networks.extreme_eigenvalues(networks.lazy_metropolis("ring:8").weights)
    >>> round(high, 6), abs(round(low, 6))
    (0.853553, 0.0)
    """
    positive(NetworkError, tol=tol)
    at_least(NetworkError, 1, steps=steps)
    one_of(NetworkError, ("auto", "dense", "lanczos"), method=method)
    if method == "dense" or (method == "auto" and weights.shape[0] <= DENSE_UP_TO):
        values = np.linalg.eigvalsh(weights.toarray())
        return float(values[-2]), float(values[0])
    ritz, check = None, 40
    matrix = weights.csr if isinstance(weights, CompressedRows) else weights
    for diagonal, off in lanczos(matrix, _random_start(weights.shape[0]), steps):
        k, exhausted = len(diagonal), off[-1] < BREAKDOWN
        if exhausted or k in (check, steps):
            before, ritz = ritz, _ritz(diagonal, off)
            if exhausted or ritz.settled(before, tol):
                return ritz.high, ritz.low
            check = k + max(20, k // 10)
    raise _not_converged(ritz, steps, tol)


def lanczos(weights: csr_array, q: Floats, steps: int) -> Iterator[tuple[Floats, Floats]]:
    """(a_1 .. a_k, b_2 .. b_{k+1}) after step k = 1, 2, ... from a unit vector q orthogonal to 1.

    Ends after `steps`, or when b_{k+1} is below `BREAKDOWN`. Vectors are long and steps many:
    operations in place, of one thread, beat a BLAS that divides each of them among threads (over
    150 s against 3 s for 6,000 steps on a path of 20,000, on a busy machine of two cores).
    """
    q, previous = q.copy(), np.zeros(len(q))
    diagonal, off, b = np.empty(steps), np.empty(steps), 0.0
    for k in range(steps):
        r, spare = weights @ q, previous  # the vector before the last is not needed again
        r -= np.multiply(previous, b, out=spare)
        diagonal[k] = np.multiply(q, r, out=spare).sum()
        r -= np.multiply(q, diagonal[k], out=spare)
        r -= r.mean()
        b = off[k] = math.sqrt(np.multiply(r, r, out=spare).sum())
        yield diagonal[: k + 1], off[: k + 1]
        if b < BREAKDOWN:
            return
        previous, q = q, np.divide(r, b, out=r)


@dataclass(frozen=True)
class _Ritz:
    """The two extreme eigenvalues of T and their residuals b_{k+1} |last component|."""

    high: float
    low: float
    high_residual: float
    low_residual: float

    def settled(self, before: _Ritz | None, tol: float) -> bool:
        """Small residuals, and no move since the check before.

        The second guards against a Ritz value at rest on lambda_3 before lambda_2 shows.
        """
        if before is None or max(self.high_residual, self.low_residual) > tol:
            return False
        return max(abs(self.high - before.high), abs(self.low - before.low)) <= tol


def _random_start(size: int) -> Floats:
    q = np.random.default_rng(SEED).standard_normal(size)
    q -= q.mean()
    return q / np.linalg.norm(q)


def _ritz(diagonal: Floats, off: Floats) -> _Ritz:
    high, high_residual = _end(diagonal, off, len(diagonal) - 1)
    low, low_residual = _end(diagonal, off, 0)
    return _Ritz(high, low, high_residual, low_residual)


def _end(diagonal: Floats, off: Floats, which: int) -> tuple[float, float]:
    """Eigenvalue number `which` of T and its residual bound."""
    if len(diagonal) == 1:
        return float(diagonal[0]), float(off[0])
    solve = _extras.load("scipy.linalg").eigh_tridiagonal
    values, vectors = solve(
        diagonal, off[:-1], select="i", select_range=(which, which), lapack_driver="stemr"
    )
    return float(values[0]), float(off[-1] * abs(vectors[-1, 0]))


def _not_converged(ritz: _Ritz | None, steps: int, tol: float) -> NetworkError:
    found = (
        ""
        if ritz is None
        else (
            f" (lambda_2 about {ritz.high:.10g}, residual {ritz.high_residual:.1e}; "
            f"lambda_n about {ritz.low:.10g}, residual {ritz.low_residual:.1e})"
        )
    )
    return NetworkError(
        f"eigenvalues did not converge to {tol:g} in {steps} Lanczos steps{found}; "
        "try networks.extreme_eigenvalues(mixing.weights, steps=..., tol=...) with more steps or a larger tol"
    )
