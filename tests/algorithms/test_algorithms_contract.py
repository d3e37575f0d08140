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


LEARN = [name for name, kind in algorithms.ALGORITHMS.items() if not kind.diverges]


@pytest.fixture(params=LEARN)
def learning(request: Any) -> Any:
    """Those that are not known to diverge, for what learns the mean."""
    return made(request.param)


def test_every_algorithm_says_what_it_is(algorithm: Any) -> None:
    assert algorithms.ALGORITHMS[algorithm.name] is type(algorithm)
    assert algorithm.formula.startswith("nu_t")
    assert algorithm.reference
    assert type(algorithm).__doc__


def weight_of(algorithm: Any, t: int) -> Any:
    """What the weights of round t add up to."""
    now = algorithm.coefficients(t)
    return now.own + now.mixing + now.momentum + (0 if algorithm.ratio else now.innovation)


def counted(algorithm: Any, rounds: int = 50) -> Any:
    """What the coefficients of the statistic add up to after some rounds."""
    return algorithms.response(algorithm, rounds).statistic.sum()


def test_weights_of_a_round_add_up_to_one(learning: Any) -> None:
    for t in (1, 2, 3, 10, 1000):
        assert weight_of(learning, t) == pytest.approx(1, abs=1e-12)


def test_coefficients_of_the_statistic_add_up_to_one(learning: Any) -> None:
    if learning.fades:
        assert 0 < 1 - counted(learning, 200) < 1 - counted(learning, 50) < 1
    else:
        assert counted(learning) == pytest.approx(1, rel=1e-9)


def test_sums_of_those_that_diverge_or_forget_their_start() -> None:
    published, naive = algorithms.LearnDynamicAsPublished(), algorithms.NaiveNetwork()
    for t in (1, 2, 3, 10, 1000):
        assert weight_of(published, t) == pytest.approx(1 + 1 / t)
        assert weight_of(naive, t) == pytest.approx(1, abs=1e-12)
    assert counted(published) == pytest.approx(sum(1 / t for t in range(1, 51)), rel=1e-9)
    assert counted(naive) == pytest.approx(1, rel=1e-9)
    online = algorithms.FirstOrderOnline()  # starts at 0 and forgets it at the rate eta
    assert counted(online) == pytest.approx(1 - (1 - online.eta) ** 50, rel=1e-9)


def test_coefficients_are_finite_and_an_algorithm_survives_pickling(algorithm: Any) -> None:
    again = pickle.loads(pickle.dumps(algorithm))
    for t in (1, 2, 7, 10_000):
        assert np.isfinite(again.coefficients(t)).all()
        assert again.coefficients(t) == algorithm.coefficients(t)


@pytest.mark.parametrize("name", [n for n in LEARN if not algorithms.ALGORITHMS[n].fades])
def test_a_constant_stays_a_constant(name: str) -> None:
    """Agents that all hold c, and keep observing c, stay there: every algorithm is unbiased."""
    algorithm: Any = made(name)
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
