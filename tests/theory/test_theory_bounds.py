"""measured <= sharper <= the paper's, on nine graphs; and what the paper's statements really do."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from tests.theory.theory_cases import GRAPHS, mean_square, run
from veilsum import networks, theory
from veilsum.errors import AlgorithmError, VeilsumError
from veilsum.privacy import NetworkDP, NoPrivacy, SignalDP
from veilsum.theory.spectrum import dense

pytestmark = pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")

ALGORITHMS = [
    ("average", SignalDP),
    ("average", NetworkDP),
    ("learn", SignalDP),
    ("learn-network", NetworkDP),
]
Z95 = norm.ppf(0.95)


@pytest.mark.thorough
@pytest.mark.parametrize("graph", GRAPHS)
def test_table_1_exact_below_sharper_below_the_papers(graph: Any) -> None:
    for rounds in (1, 2, 5, 40):
        made = run("average", GRAPHS[graph], SignalDP(1.0, radius=0.3), rounds=rounds, replicas=1)
        rows = theory.table_1(made.problem)
        assert [(row.setting, row.protects) for row in rows] == [
            ("offline", "signal"), ("offline", "network"), ("online", "signal"),
            ("online", "network"),
        ]  # fmt: skip
        for row in rows:
            assert row.holds, (row.algorithm, row.protects, rounds)
            assert row.exact.privacy <= row.order.privacy * (1 + 1e-9)
            assert row.exact.decentralisation <= row.order.decentralisation * (1 + 1e-9)


@pytest.mark.parametrize("size", [3, 4, 16])
def test_table_1_does_not_compare_rounding(size: int) -> None:
    """Equal weights on a complete graph: beta* is 0, and 1e-16 or -3e-17 is computed."""
    mixing = networks.best_constant(f"complete:{size}")
    assert mixing.beta_star < 1e-14
    for rounds in (1, 2, 3, 20):
        made = run("average", mixing, SignalDP(1.0), rounds=rounds, replicas=1).problem
        rows = theory.table_1(made)
        theory.expected(made, scales=np.arange(1.0, size + 1))
        again = theory.table_1(made)
        assert [row.holds for row in rows] == [row.holds for row in again] == [True] * 4
        assert [row.exact for row in rows] == [row.exact for row in again]


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(("algorithm", "privacy"), ALGORITHMS)
def test_measured_below_sharper_with_95_percent(graph: Any, algorithm: Any, privacy: Any) -> None:
    result = run(algorithm, GRAPHS[graph], privacy(1.0, radius=0.3), epsilons=(1.0,), replicas=400)
    sharp = theory.sharper(result.problem)
    for measured, bound in (
        (result.trace.privacy[-1], sharp.privacy[-1]),
        (result.trace.decentralisation[-1], sharp.decentralisation[-1]),
        (result.trace.total[-1], sharp.total[-1]),
    ):
        mean, error = mean_square(measured)
        assert np.all(mean - Z95 * error <= bound**2 + 1e-20)


def test_sharper_in_closed_form() -> None:
    mixing = GRAPHS["geometric"]
    n, beta = mixing.size, mixing.beta_star
    for algorithm, closed in (
        ("average", theory.sharper_theorem_1),
        ("learn", theory.sharper_theorem_2),
    ):
        problem = run(
            algorithm, mixing, SignalDP(1.0), rounds=7, epsilons=(1.0,), replicas=1
        ).problem
        noise = n * 2.0  # Lap(1)
        assert theory.sharper(problem).privacy[-1, 0] == pytest.approx(closed(n, beta, 7, noise))


def test_chebyshev_has_a_sharper_bound_and_jacobi_none() -> None:
    for graph in ("path", "geometric"):
        problem = run("chebyshev", GRAPHS[graph], SignalDP(1.0), replicas=1).problem
        assert np.all(theory.expected(problem).total <= theory.sharper(problem).total * (1 + 1e-9))
    with pytest.raises(AlgorithmError, match="exact"):
        theory.sharper(run("jacobi", GRAPHS["path"], SignalDP(1.0), replicas=1).problem)


def test_the_complete_graph_attains_the_constant_of_table_1_and_not_theorem_1() -> None:
    """sqrt(2) Delta/eps in the root mean square, 2/sqrt(pi) Delta/eps in the mean; |z| < 6."""
    n = 400
    mixing = networks.max_degree(networks.complete(n))
    result = run("average", mixing, SignalDP(1.0), rounds=1, epsilons=(1.0,), replicas=4000)
    exact = theory.expected(result.problem).total[-1, 0]
    assert exact == pytest.approx(math.sqrt(2), rel=1e-9)
    assert theory.sharper(result.problem).total[-1, 0] == pytest.approx(exact, rel=1e-9)
    paper = theory.theorem_1(n, 0.0, 1, 2.0 * n, largest=5.0)
    assert paper.total == pytest.approx(math.sqrt(n) * exact)
    norms = result.trace.total[-1, 0]
    spread = norms.std() / math.sqrt(len(norms))
    assert abs(norms.mean() - 2 / math.sqrt(math.pi)) < 6 * spread + 0.01  # not 1/eps


def test_theorem_3_holds_though_its_proof_does_not() -> None:
    """Responses at lambda add up to t/(3-2 lambda), not to 1/(3-2 lambda)."""
    mixing, t = GRAPHS["torus"], 4000
    problem = run("learn-network", mixing, NetworkDP(1.0), rounds=1, epsilons=(1.0,), replicas=1)
    found = theory.expected(replace(problem.problem, rounds=t))
    fraction = (1 / (3 - 2 * dense(mixing).values)).sum()
    assert found.privacy[-1, 0] ** 2 * t / 2 == pytest.approx(1 + fraction, rel=1e-2)
    claimed = (1 + fraction) / t**2  # what the proof's middle lines give per unit of sum of V/n
    assert found.privacy[-1, 0] ** 2 > 100 * claimed


def test_the_heterogeneous_table_lost_a_factor_of_sqrt_n() -> None:
    mixing, t, M = networks.lazy_metropolis(networks.hypercube(6)), 4, 3.0
    xi = M * np.where(np.arange(64) & 1, 1.0, -1.0)
    error = np.linalg.norm(np.linalg.matrix_power(mixing.weights.toarray(), t) @ xi)
    bound = theory.heterogeneous_offline(64, mixing.beta_star, t, np.zeros(64), M)
    assert error == pytest.approx(8 * bound.decentralisation)
    assert error <= theory.theorem_1(64, mixing.beta_star, t, 0.0, M).total


@pytest.mark.parametrize("graph", GRAPHS)
def test_heterogeneous_privacy_terms_hold(graph: Any) -> None:
    mixing = GRAPHS[graph]
    scales = np.random.default_rng(1).pareto(1.5, mixing.size) + 0.01
    for algorithm in ("average", "learn"):
        problem = run(algorithm, mixing, SignalDP(1.0), epsilons=(1.0,), replicas=1).problem
        found = theory.expected(problem, scales=scales)
        for t in (1, 5, 12):
            if algorithm == "learn":
                bound = theory.heterogeneous_online(mixing.size, t, scales, 1.0)
                assert found.decentralisation[t] <= bound.decentralisation
            else:
                bound = theory.heterogeneous_offline(mixing.size, mixing.beta_star, t, scales, 9.0)
            assert found.privacy[t, 0] <= bound.privacy * (1 + 1e-9)


def test_rounds_to_accuracy_is_about_agreement_only() -> None:
    mixing, accuracy = GRAPHS["geometric"], 0.01
    rounds = theory.rounds_to_accuracy(mixing.size, mixing.beta_star, accuracy, 6.0, 1.0, 1.0)
    problem = run("average", mixing, SignalDP(1.0), epsilons=(1.0,), replicas=1).problem
    found = theory.expected(replace(problem, rounds=rounds))
    assert found.disagreement[-1, 0] <= accuracy
    assert found.total[-1, 0] > math.sqrt(2)  # the mean of the noise stays for ever
    assert theory.rounds_to_accuracy(5, 0.0, 0.1, 1.0, 1.0, 1.0) == 1
    assert theory.rounds_to_accuracy(5, 0.5, 100.0, 1.0, 1.0, 1.0) == 0


def test_no_isolated_nodes_is_not_enough_in_dynamic_networks() -> None:
    pairs = np.kron(np.eye(2), np.full((2, 2), 0.5))  # modified weights 1/2, for ever
    held = np.linalg.matrix_power(pairs, 10**6) @ np.array([0.0, 0.0, 1.0, 1.0])
    assert np.abs(held - 0.5).max() == 0.5
    assert math.isfinite(theory.dynamic_rounds(4, 0.1, 1.0, 0.0, 1.0))
    assert theory.dynamic_rounds(2000, 0.1, 1.0, 1.0, 1.0) == math.inf
    with pytest.raises(VeilsumError, match="1/2"):
        theory.dynamic_rounds(4, 0.7, 1.0, 0.0, 1.0)


def test_corollary_1_has_the_published_order_and_is_attained() -> None:
    """It used to be Theorem 1's first part, sqrt(n) times the published O(max(a, Delta)/eps).

    On the complete graph the exact error is sqrt(2) reach/eps for every n, which is the bound; one
    with a constant smaller by a millionth would fail.
    """
    a = theory.corollary_1(10, 0.5, 3, reach=2.0, epsilon=0.5, largest=1.0)
    assert a.privacy == pytest.approx(math.sqrt(2) * (10 / 8 + 1) * 4.0)
    assert a.decentralisation == pytest.approx(10 / 8)
    for n in (10, 1000):
        bound = theory.corollary_1(n, 0.0, 3, reach=1.0, epsilon=0.5, largest=1.0)
        exact = math.sqrt(n * (2 / 0.5**2) / n)  # n agents hold the mean of n draws of the noise
        assert bound.privacy == pytest.approx(exact, rel=1e-12)
        first = theory.theorem_1(n, 0.0, 3, noise=n * 2 / 0.5**2, largest=1.0)
        assert first.privacy == pytest.approx(math.sqrt(n) * exact)


def test_table_1_has_corollary_1_and_not_theorem_1_under_its_name() -> None:
    """The cell of Network DP offline: as t grows sqrt(2) reach/eps, without Theorem 1's sqrt(n)."""
    mixing = networks.max_degree(networks.complete(12))
    made = run("average", mixing, SignalDP(0.5), rounds=40, epsilons=(0.5,), replicas=1)
    signal, network = theory.table_1(made.problem)[:2]
    assert (signal.theorem.reference, network.theorem.reference) == ("Theorem 1", "Corollary 1")
    stated = theory.corollary_1(12, mixing.beta_star, 40, reach=1.0, epsilon=0.5, largest=0.0)
    assert network.theorem.privacy == pytest.approx(stated.privacy)
    assert signal.theorem.privacy == pytest.approx(math.sqrt(12) * network.theorem.privacy)
    assert network.theorem.privacy == pytest.approx(network.exact.privacy)


def test_what_is_refused() -> None:
    with pytest.raises(VeilsumError, match="beta_star"):
        theory.theorem_1(5, 1.0, 3, 1.0, 1.0)
    with pytest.raises(VeilsumError, match="privacy request"):
        theory.table_1(run("average", GRAPHS["ring"], NoPrivacy(), epsilons=()).problem)
