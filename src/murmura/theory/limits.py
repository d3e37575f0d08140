"""What no law can beat: the spectrum, the distance, the signals themselves, a trusted curator.

    min { sum_{i >= 2} P(lambda_i)^2 : deg P <= t, P(1) = 1 }  =  1 / sum_{k <= t} p_k(1)^2

with p_k the polynomials orthonormal for the spectrum below 1: the Christoffel function at 1. Every
gossip in t rounds of one fixed A is such a polynomial. The p_k come from Lanczos on the spectrum
itself, fully reorthogonalised, and grow steadily at 1, outside it: no digits are lost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura.engine import Problem
from murmura.privacy import NoPrivacy
from murmura.theory import spectrum
from murmura.theory.exact import expected
from murmura.theory.inputs import Statistic, statistic_of

Floats = NDArray[np.float64]
MOST_SEARCHES = 3000


def best_polynomial(network: Any, rounds: int, probes: int = 16) -> Floats:
    """(rounds + 1,): least disagreement of unit-variance statistics after t = 0 .. rounds rounds.

    An l2 norm over agents. Beyond 6,000 agents the spectrum is estimated.
    """
    sides = spectrum.parts(network, rounds, probes)
    values = np.concatenate([part.values for part in sides])
    weights = np.concatenate([part.weights for part in sides]) / len(sides)
    return np.sqrt(christoffel(values, weights, rounds))


def christoffel(values: Floats, weights: Floats, degree: int) -> Floats:
    """(degree + 1,): min sum_i w_i P(x_i)^2 over polynomials of degree k with P(1) = 1."""
    found = np.zeros(degree + 1)
    if not len(values) or not weights.sum():
        return found
    a, b = _jacobi_matrix(values, weights, degree)
    last, p, total = 0.0, 1 / math.sqrt(weights.sum()), 0.0
    for k in range(len(a)):
        total += p * p
        found[k] = 1 / total
        if k >= len(b) or not math.isfinite(total):
            break
        last, p = p, ((1 - a[k]) * p - (b[k - 1] * last if k else 0.0)) / b[k]
    return found


def _jacobi_matrix(values: Floats, weights: Floats, degree: int) -> tuple[Floats, Floats]:
    """Coefficients of the recurrence of the p_k: Lanczos on diag(values) from sqrt(weights)."""
    q = np.sqrt(weights / weights.sum())
    basis, a, b = [q], [], []
    for _ in range(degree + 1):
        r = values * basis[-1]
        a.append(float(basis[-1] @ r))
        known = np.array(basis)
        for _twice in range(2):
            r = r - known.T @ (known @ r)
        size = float(np.linalg.norm(r))
        if size < spectrum.BREAKDOWN:  # P can vanish on the whole spectrum from here on
            break
        b.append(size)
        basis.append(r / size)
    return np.array(a), np.array(b)


def diameter(network: Any) -> tuple[int, int]:
    """(low, high) of the largest distance between two agents; equal unless searches run out.

    After fewer rounds some agent has not heard of some other. Each search from an agent u of
    eccentricity e bounds all others' by max(d, e - d) and e + d (Takes and Kosters 2011).
    """
    adjacency = network.at(1)
    n = network.size
    low, high = np.zeros(n, dtype=np.int64), np.full(n, n, dtype=np.int64)
    root, wide = int(np.argmax(np.diff(adjacency.indptr))), True
    for _ in range(min(n, MOST_SEARCHES)):
        away = _distances(adjacency, root)
        far = int(away.max())
        np.maximum(low, np.maximum(away, far - away), out=low)
        np.minimum(high, far + away, out=high)
        low[root] = high[root] = far
        if low.max() >= high.max():
            break
        open_ = np.flatnonzero(high > low.max())
        root = int(open_[high[open_].argmax() if wide else low[open_].argmin()])
        wide = not wide
    return int(low.max()), int(high.max())


def _distances(adjacency: Any, root: int) -> NDArray[np.int64]:
    from murmura.network.structure import depths

    return depths(adjacency, root)


def central(problem: Problem, deviation: float | None = None) -> tuple[Floats, float]:
    """Errors of a trusted curator who knows every signal: (with Laplace noise, without).

    sqrt(n) times the error of one number: Lap(Delta/(n T eps)) on the mean of n agents over T
    rounds (1 offline), and sigma/sqrt(n T), the omniscient error, from which no one escapes.
    """
    xi = statistic_of(problem, deviation)
    n, t = problem.network.size, problem.rounds if problem.law.online else 1
    omniscient = math.sqrt(xi.variance / t)
    if isinstance(problem.want, NoPrivacy):
        return np.array([omniscient]), omniscient
    reach = float(problem.family.sensitivity(problem.want.radius).value)
    scale = reach / (n * t * np.array(problem.budgets))
    noise = np.sqrt(problem.family.dimension * n * 2) * scale
    return np.hypot(noise, omniscient), omniscient


@dataclass(frozen=True, eq=False)
class Headroom:
    """What a run errs by at its last round, and what no run can beat; l2 norms over agents.

    `disagreement` compares the cost of decentralisation with the best polynomial of as many
    rounds; it stands for one signal each, and is None for streams. `truth` is the error against
    E xi, sampling included, to be compared with `curator` and `omniscient`.
    """

    disagreement: float | None
    best_polynomial: float | None
    truth: Floats  # (epsilons,)
    curator: Floats  # (epsilons,)
    omniscient: float
    rounds: int
    diameter: tuple[int, int]

    @property
    def factors(self) -> dict[str, Any]:
        """How many times above each limit; 1 is the limit itself."""
        apart, best = self.disagreement, self.best_polynomial
        ratio = None if apart is None or not best else apart / best
        return {
            "best_polynomial": ratio,
            "curator": (self.truth / self.curator).tolist(),
            "omniscient": (self.truth / self.omniscient).tolist(),
            "diameter": self.rounds / max(self.diameter[1], 1),
        }


def headroom(found: Any, deviation: float | None = None) -> Headroom:
    """How far a result, or a problem that has not run, is from each limit.

    A result brings what it measured (root mean squares over replicas), a problem what is expected.
    """
    trace = getattr(found, "trace", None)
    problem: Problem = found if trace is None else found.problem
    xi, made = statistic_of(problem, deviation), expected(problem, deviation=deviation)
    truth = np.sqrt(made.sampling**2 + (made.shared_noise**2 + made.disagreement**2).T).T[-1]
    apart = float(made.decentralisation[-1])
    if trace is not None:
        apart = float(np.sqrt((trace.decentralisation[-1] ** 2).mean()))
        truth = _measured(trace, problem, made.sampling[-1])
    curator, omniscient = central(problem, deviation)
    offline = not problem.law.online
    return Headroom(
        apart if offline else None, _best(problem, xi) if offline else None,
        truth, curator, omniscient, problem.rounds, diameter(problem.network),
    )  # fmt: skip


def _best(problem: Problem, xi: Statistic) -> float:
    return math.sqrt(xi.variance) * float(best_polynomial(problem.network, problem.rounds)[-1])


def _measured(trace: Any, problem: Problem, sampling: float) -> Floats:
    """Root mean square of the total error; offline, sampling joins what is measured without it."""
    errors = trace.total[-1] if problem.budgets else trace.decentralisation[-1][None]
    squares = (errors**2).mean(axis=-1)
    return np.asarray(np.sqrt(squares + (0.0 if problem.law.online else sampling**2)))
