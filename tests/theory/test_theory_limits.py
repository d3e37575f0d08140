"""The best polynomial, the diameter, the curator and the omniscient."""

from typing import Any

import numpy as np
import pytest

from tests.theory.theory_cases import GRAPHS, run
from veilsum import networks, theory
from veilsum.privacy import NoPrivacy, SignalDP
from veilsum.theory.limits import christoffel
from veilsum.theory.spectrum import dense

pytestmark = pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")


def by_least_squares(values: Any, degree: Any) -> Any:
    """min sum P(x)^2 with P(1) = 1, P = 1 + (x-1) Q: a regression on Chebyshev polynomials."""
    basis = np.polynomial.chebyshev.chebvander(values, degree - 1) * (values - 1)[:, None]
    rest = np.linalg.lstsq(basis, -np.ones_like(values), rcond=None)[0]
    return np.linalg.norm(1 + basis @ rest)


@pytest.mark.parametrize("graph", ["geometric", "erdos-renyi", "path"])
@pytest.mark.parametrize("degree", [1, 3, 6])
def test_best_polynomial_is_the_least_squares(graph: Any, degree: Any) -> None:
    found = theory.best_polynomial(GRAPHS[graph], degree)
    assert found[-1] == pytest.approx(
        by_least_squares(dense(GRAPHS[graph]).values, degree), rel=1e-6
    )
    assert np.all(np.diff(found) <= 1e-12)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("algorithm", ["average", "jacobi", "chebyshev"])
def test_no_algorithm_beats_it(graph: Any, algorithm: Any) -> None:
    problem = run(algorithm, GRAPHS[graph], NoPrivacy(), epsilons=(), replicas=1).problem
    reached = theory.expected(problem).decentralisation
    assert np.all(reached >= theory.best_polynomial(GRAPHS[graph], 12) * (1 - 1e-9) - 1e-9)


def test_it_vanishes_once_the_spectrum_is_used_up() -> None:
    assert theory.best_polynomial(GRAPHS["complete"], 3)[1:] == pytest.approx(0.0, abs=1e-6)
    assert not christoffel(np.zeros(0), np.zeros(0), 2).any()


@pytest.mark.slow
def test_us_grid_1_035() -> None:
    grid = networks.metropolis(networks.load("us-power-grid"))
    assert theory.best_polynomial(grid, 100)[-1] == pytest.approx(1.035, rel=0.01)


def test_us_grid_estimated() -> None:
    grid = networks.metropolis(networks.load("us-power-grid"))
    assert theory.best_polynomial(grid, 100, exact_up_to=1500)[-1] == pytest.approx(1.035, rel=0.02)
    assert theory.diameter(grid) == (46, 46)


@pytest.mark.parametrize(
    ("graph", "expected"),
    [("ring", 4), ("path", 7), ("star", 2), ("complete", 1), ("hypercube", 3)],
)
def test_diameter(graph: Any, expected: Any) -> None:
    assert theory.diameter(GRAPHS[graph]) == (expected, expected)


def test_central_and_omniscient() -> None:
    problem = run("learn", GRAPHS["ring"], SignalDP(0.5), rounds=4, epsilons=(0.5,)).problem
    curator, omniscient = theory.central(problem)
    assert omniscient == pytest.approx(0.5)  # sqrt(n) sigma/sqrt(n T)
    noise = np.sqrt(9 * 2) / (9 * 4 * 0.5)
    assert curator == pytest.approx(np.hypot(noise, 0.5))


@pytest.mark.parametrize("algorithm", ["average", "learn"])
def test_headroom_of_a_run_and_of_its_problem(algorithm: Any) -> None:
    """Root mean squares over 1,500 replicas: 10% is more than 5 standard errors."""
    result = run(algorithm, GRAPHS["geometric"], SignalDP(1.0), epsilons=(1.0,))
    ran, planned = theory.headroom(result), theory.headroom(result.problem)
    np.testing.assert_allclose(ran.truth, planned.truth, rtol=0.1)
    assert all(factor >= 0.95 for factor in ran.factors["curator"] + ran.factors["omniscient"])
    if algorithm == "average":
        assert ran.factors["best_polynomial"] == pytest.approx(
            planned.factors["best_polynomial"], rel=0.1
        )
        assert planned.factors["best_polynomial"] >= 1
    else:
        assert ran.factors["best_polynomial"] is None
    bare = theory.headroom(run(algorithm, GRAPHS["ring"], NoPrivacy(), epsilons=()))
    assert bare.truth.shape == (1,)
