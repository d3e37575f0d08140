"""The paper's bounds as functions, each with its theorem's number and how it stands.

n agents, beta* = max(lambda_2, |lambda_n|), t rounds, V = Var d. A bound has two terms that add up
by the triangle inequality: what privacy costs and what decentralisation costs, as expected l2
norms over agents. `verdict` says whether it holds; `note` says what numbers showed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from murmura import _validate
from murmura.errors import MurmuraError
from murmura.theory.verdict import Verdict

VERDICTS: dict[str, tuple[Verdict, str]] = {  # each is computed anew by `murmura reproduce`
    "theorem_1": (
        Verdict.CONFIRMED,
        "loose by sqrt(n) as t grows, so not attained; its second part, O(n beta*^t (M_n + "
        "Delta/eps) + Delta/eps), is attained up to the constant sqrt(2)",
    ),
    "corollary_1": (
        Verdict.CONFIRMED,
        "the printed O(), with the constant sqrt(2) on the noise, for the error; its Network DP is "
        "refuted (erratum 5)",
    ),
    "theorem_2": (Verdict.CONFIRMED, "loose: the norm of A is 1, so the bracket could be 1"),
    "theorem_3": (
        Verdict.CONFIRMED,
        "by another proof: the printed one takes responses that add up to t/(3-2 lambda) for "
        "1/(3-2 lambda), and contraction saves the bound (erratum 15)",
    ),
    "rounds_to_accuracy": (
        Verdict.CORRECTED,
        "so many rounds bring agreement; from the MVUE agents stay sqrt(2) Delta/eps away for ever",
    ),
    "dynamic_rounds": (
        Verdict.CORRECTED,
        "no isolated nodes is not enough: links that never meet leave pairs that never agree; "
        "every long stretch of rounds must connect all agents",
    ),
    "heterogeneous_offline": (
        Verdict.CORRECTED,
        "with a factor sqrt(n) on M_n: hypercube, signals +-M along one direction",
    ),
    "heterogeneous_online": (Verdict.CONFIRMED, "term by term"),
}


@dataclass(frozen=True)
class Bound:
    """A bound on the total error and its two terms."""

    privacy: float
    decentralisation: float
    reference: str
    verdict: Verdict = Verdict.CONFIRMED
    note: str = ""

    @classmethod
    def of(cls, function: str, reference: str, privacy: float, decentralisation: float) -> Bound:
        """A bound of the paper, with the verdict on its function."""
        return cls(privacy, decentralisation, reference, *VERDICTS[function])

    @property
    def total(self) -> float:
        """privacy + decentralisation."""
        return self.privacy + self.decentralisation


def theorem_1(size: int, beta_star: float, rounds: int, noise: float, largest: float) -> Bound:
    """(1 + sqrt(n-1) beta*^t) sqrt(noise) + sqrt(n(n-1)) beta*^t M_n   (Theorem 1, offline).

    `noise` is sum_j Var d_j and `largest` M_n = max |xi|. It holds. It is called tight on the
    complete graph and is not: there TE is sqrt(noise/n), smaller by sqrt(n). The theorem's second
    part, O(... + Delta/eps), has no such sqrt(n) and is attained, up to sqrt(2) (`corollary_1`).
    """
    n, fade = _checked(size, beta_star, rounds)
    privacy = (1 + math.sqrt(n - 1) * fade) * math.sqrt(noise)
    decentralisation = math.sqrt(n * (n - 1)) * fade * largest
    return Bound.of("theorem_1", "Theorem 1", privacy, decentralisation)


def corollary_1(
    size: int, beta_star: float, rounds: int, reach: float, epsilon: float, largest: float
) -> Bound:
    """sqrt(2) (n beta*^t + 1) reach/eps + n beta*^t M_n   (Corollary 1, offline, network).

    The printed O() for Lap(reach/eps), reach = max(a, Delta), with the least constant that holds:
    CoP^2 <= 2 (reach/eps)^2 (1 + (n-1) beta*^(2t)), and the error without noise is at most
    beta*^t ||xi|| <= sqrt(n) beta*^t M_n. As t grows it is attained. It is also the second part of
    Theorem 1, with reach = Delta. That it buys Network DP for all t is refuted (erratum 5).
    """
    _validate.positive(MurmuraError, epsilon=epsilon)
    n, fade = _checked(size, beta_star, rounds)
    privacy = math.sqrt(_laplace(reach / epsilon)) * (n * fade + 1)
    return Bound.of("corollary_1", "Corollary 1", privacy, n * fade * largest)


def theorem_2(size: int, beta_star: float, rounds: int, noise: float, variance: float) -> Bound:
    """1/t (sqrt(n t Var xi) + sqrt(noise)) (1 + sqrt((n-1)/(1-beta*^2)))   (Theorem 2, online).

    `noise` is sum_j sum_tau Var d_{j,tau}. It holds, and so does its proof: the principal
    eigenvalue contributes max_tau 1 = 1 times the sum of the variances.
    """
    n, _ = _checked(size, beta_star, rounds)
    factor = (1 + math.sqrt((n - 1) / (1 - beta_star**2))) / rounds
    privacy, decentralisation = factor * math.sqrt(noise), factor * math.sqrt(n * rounds * variance)
    return Bound.of("theorem_2", "Theorem 2", privacy, decentralisation)


def theorem_3(size: int, beta_star: float, rounds: int, noise: float, variance: float) -> Bound:
    """1/t (sqrt(n t Var xi) + sqrt(noise)) (1 + sqrt((n-1)/(3-2 beta*)))   (Theorem 3, online).

    It holds, since the rounds are contractions, though its proof does not: there the squared
    responses at an eigenvalue add up to at most 1/(3-2 lambda), and truly to about t/(3-2 lambda).
    So disagreement under Algorithm 5 is a fixed share of the error at every t: CoP^2 tends to
    V/t sum_i 1/(3-2 lambda_i).
    """
    n, _ = _checked(size, beta_star, rounds)
    factor = (1 + math.sqrt((n - 1) / (3 - 2 * beta_star))) / rounds
    privacy, decentralisation = factor * math.sqrt(noise), factor * math.sqrt(n * rounds * variance)
    return Bound.of("theorem_3", "Theorem 3", privacy, decentralisation)


def rounds_to_accuracy(
    size: int, beta_star: float, accuracy: float, largest: float, reach: float, epsilon: float
) -> int:
    """ceil(log(n (M_n + Delta/eps)/rho) / log(1/beta*))   (App. C.1, static networks).

    After so many rounds the agents are within rho of one another's mean, in expected l2 norm, for
    n >= 2. The paper says: of the minimum variance estimate; from that they stay sqrt(2) Delta/eps
    away for ever (the mean of the noise), so that for rho below it the statement is corrected.
    """
    _validate.positive(MurmuraError, accuracy=accuracy, epsilon=epsilon)
    n, _ = _checked(size, beta_star, 1)
    start = n * (largest + reach / epsilon)
    if start <= accuracy:
        return 0
    return 1 if beta_star < 1e-14 else math.ceil(math.log(start / accuracy) / -math.log(beta_star))


def dynamic_rounds(
    size: int,
    accuracy: float,
    largest: float,
    reach: float,
    epsilon: float,
    first: float = 1.0,
    second: float = 1.0,
) -> float:
    """min(2^(first n) R/rho, log(R/rho)^(n-1) 2^(n^2 - second n))   (App. C.1, dynamic networks).

    R = M_n + Delta/eps; the constants of both O(n) are not printed: they are `first` and `second`.
    Corrected: that no node is isolated is not enough, for two links that never meet
    (n = 4) isolate none, and the pairs never agree; every long stretch of rounds must connect all.
    """
    if not 0 < accuracy < 0.5:
        raise MurmuraError(f"accuracy must lie in (0, 1/2), as stated; found {accuracy}")
    _validate.positive(MurmuraError, epsilon=epsilon)
    n, ratio = size, (largest + reach / epsilon) / accuracy
    powers = [first * n + math.log2(ratio), n**2 - second * n]
    inner = math.log(ratio)
    powers[1] += (n - 1) * math.log2(inner) if inner > 0 else -math.inf
    least = min(powers)
    return 2.0**least if least < 1024 else math.inf


def heterogeneous_offline(
    size: int, beta_star: float, rounds: int, scales: ArrayLike, largest: float
) -> Bound:
    """sqrt(2) (1 + beta*^t) sum_i Delta_i/eps_i + beta*^t M_n   (App. C.3, table, offline).

    `scales` are Delta_i/eps_i; sqrt(2) is the Laplace law's deviation per scale. The privacy term
    holds. The other fails for any constant: it lost Theorem 1's n, and on a hypercube the
    statistics +-M along an edge direction err by sqrt(n) beta*^t M; with sqrt(n) M_n it holds.
    """
    _, fade = _checked(size, beta_star, rounds)
    privacy = math.sqrt(2) * (1 + fade) * float(np.sum(scales))
    return Bound.of("heterogeneous_offline", "App. C.3, offline", privacy, fade * largest)


def heterogeneous_online(size: int, rounds: int, scales: ArrayLike, variance: float) -> Bound:
    """sqrt(2/t) sum_i Delta_i/eps_i + n/sqrt(t) sqrt(Var xi)   (App. C.3, table, online).

    It holds: sqrt(2 sum b_i^2/t) <= sqrt(2/t) sum b_i, and sqrt(n/t) <= n/sqrt(t).
    """
    _checked(size, 0.0, rounds)
    privacy = math.sqrt(2 / rounds) * float(np.sum(scales))
    decentralisation = size / math.sqrt(rounds) * math.sqrt(variance)
    return Bound.of("heterogeneous_online", "App. C.3, online", privacy, decentralisation)


def _laplace(scale: float) -> float:
    """Var Lap(b) = 2 b^2."""
    return 2 * scale**2


def _checked(size: int, beta_star: float, rounds: int) -> tuple[int, float]:
    """n and beta*^t."""
    _validate.at_least(MurmuraError, 1, size=size)
    _validate.at_least(MurmuraError, 0, rounds=rounds)
    if not 0 <= beta_star < 1:
        raise MurmuraError(f"beta_star must lie in [0, 1); found {beta_star}")
    return size, beta_star**rounds
