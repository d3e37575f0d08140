"""One suite for every algorithm, and oracles for those that have a closed form."""

import pickle
from typing import Any

import numpy as np
import pytest
from scipy.special import eval_chebyt, eval_jacobi

from veilsum import algorithms, networks
from veilsum.errors import AlgorithmError

MIXING = networks.metropolis(networks.load("florentine-families"))
ARCS = networks.as_graph(np.array([[0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0]]))
COLUMN = networks.column_stochastic(ARCS)


def made(name: str) -> algorithms.Algorithm:
    return algorithms.get(name, MIXING)


@pytest.fixture(params=algorithms.names())
def algorithm(request: Any) -> Any:
    return made(request.param)


def test_every_algorithm_says_what_it_is(algorithm: Any) -> None:
    assert algorithm.name in algorithms.ALGORITHMS
    assert algorithm.formula.startswith("nu_t")
    assert algorithm.reference
    assert type(algorithm).__doc__


def test_weights_of_a_round_add_up_to_one_unless_the_algorithm_is_known_to_diverge(
    algorithm: Any,
) -> None:
    for t in (1, 2, 3, 10, 1000):
        now = algorithm.coefficients(t)
        total = now.own + now.mixing + now.momentum + (0 if algorithm.ratio else now.innovation)
        if algorithm.name == "learn-dynamic-as-published":
            assert total == pytest.approx(1 + 1 / t)
        else:
            assert total == pytest.approx(1, abs=1e-12)


def test_coefficients_of_the_statistic_add_up_to_one(algorithm: Any) -> None:
    coefficients = algorithms.response(algorithm, 50).statistic
    expected = (
        sum(1 / t for t in range(1, 51)) if algorithm.name == "learn-dynamic-as-published" else 1
    )
    if algorithm.name == "first-order-online":  # starts at 0 and forgets it at the rate eta
        expected = 1 - (1 - algorithm.eta) ** 50
    assert coefficients.sum() == pytest.approx(expected, rel=1e-9)


def test_coefficients_are_finite_and_an_algorithm_survives_pickling(algorithm: Any) -> None:
    again = pickle.loads(pickle.dumps(algorithm))
    for t in (1, 2, 7, 10_000):
        assert np.isfinite(again.coefficients(t)).all()
        assert again.coefficients(t) == algorithm.coefficients(t)


def test_a_constant_stays_a_constant(algorithm: Any) -> None:
    """Agents that all hold c, and keep observing c, stay there: every algorithm is unbiased."""
    if algorithm.diverges or algorithm.name == "first-order-online":
        pytest.skip("not an algorithm that learns the mean exactly")
    A, c = MIXING.weights, np.full(MIXING.size, 3.0)
    zero = np.zeros(MIXING.size)
    state, weight = algorithms.init(algorithm, c, zero), algorithms.init(algorithm, c / 3, zero)
    for t in range(1, 40):
        state = algorithms.step(algorithm, t, state, A @ state.nu, c, zero)
        weight = algorithms.step(algorithm, t, weight, A @ weight.nu, c / 3, zero)
    nu = state.nu / weight.nu if algorithm.ratio else state.nu
    assert nu == pytest.approx(c, rel=1e-10)


@pytest.mark.parametrize("dimension", [1, 2, 3.5])
def test_jacobi_is_the_jacobi_polynomial(dimension: Any) -> None:
    algorithm = algorithms.Jacobi(dimension=dimension)
    x = np.linspace(-1, 1, 41)
    got = _polynomial(algorithm, x, degree=80)
    assert got == pytest.approx(
        eval_jacobi(80, dimension / 2, 0, x) / eval_jacobi(80, dimension / 2, 0, 1.0), abs=1e-12
    )


def test_chebyshev_is_the_chebyshev_polynomial_of_the_spectrum() -> None:
    algorithm = algorithms.Chebyshev(lambda_2=0.9, lambda_n=-0.5)
    x = np.linspace(-0.5, 1, 41)
    expected = eval_chebyt(25, (x - 0.2) / 0.7) / eval_chebyt(25, 0.8 / 0.7)
    assert _polynomial(algorithm, x, degree=25) == pytest.approx(expected, abs=1e-12)


def test_chebyshev_reads_the_spectrum_and_needs_one_inside_the_unit_interval() -> None:
    algorithm = algorithms.get("chebyshev", MIXING)
    assert isinstance(algorithm, algorithms.Chebyshev)
    assert (algorithm.lambda_2, algorithm.lambda_n) == (MIXING.lambda_2, MIXING.lambda_n)
    with pytest.raises(AlgorithmError, match="lambda_2 = 1"):
        algorithms.Chebyshev(lambda_2=1.0, lambda_n=0.0)
    complete = networks.Mixing.of(np.full((4, 4), 0.25))
    assert algorithms.get("chebyshev", complete).coefficients(3) == pytest.approx(
        (0, 1, 0, 0, 0, 0)
    )


def _polynomial(algorithm: Any, x: Any, degree: Any) -> Any:
    """P_degree(x): the algorithm run on the eigenvalue x itself."""
    zero = np.zeros_like(x)
    state = algorithms.init(algorithm, np.ones_like(x), zero)
    for t in range(1, degree + 1):
        state = algorithms.step(algorithm, t, state, x * state.nu, zero, zero)
    return state.nu


def test_alg_5_has_the_published_weights() -> None:
    for t in (1, 2, 5):
        now = algorithms.LearnNetwork().coefficients(t)
        for a_ii in (0.0, 0.3):
            assert now.own + now.mixing * a_ii == pytest.approx(1 - (2 - a_ii) / t)


def test_sensitivities_follow_the_paper() -> None:
    assert algorithms.Learn().sensitivities(7) == (
        1.0,
        6.0,
    )  # Sec. 4.1: (t-1)/t a_ij against Delta/t
    assert algorithms.LearnNetwork().sensitivities(7) == pytest.approx((1.0, 1.0))
    assert algorithms.FirstOrder(eta=0.01).sensitivities(7) == (0.01, 1.0)
    assert algorithms.Average().sensitivities(0) == (1.0, 1.0)


def test_unknown_names_and_misfits_are_answered() -> None:
    with pytest.raises(
        AlgorithmError, match=r"no algorithm is called 'avarage'; did you mean average\?"
    ):
        algorithms.get("avarage", MIXING)
    with pytest.raises(AlgorithmError, match="needs doubly-stochastic weights"):
        algorithms.get("learn", COLUMN)
    assert MIXING.graph is not None
    with pytest.raises(AlgorithmError, match="the network is dynamic"):
        algorithms.get("jacobi", networks.link_failures(MIXING.graph, 0.3, seed=1))
    with pytest.raises(AlgorithmError, match="go with an algorithm's name"):
        algorithms.get(algorithms.Average(), MIXING, dimension=2)
    with pytest.raises(AlgorithmError, match="eta must be a finite number above 0"):
        algorithms.FirstOrder(eta=0.0)
    with pytest.raises(AlgorithmError, match="dimension"):
        algorithms.Jacobi(dimension=-1)
