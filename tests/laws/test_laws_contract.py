"""One suite for every law, and oracles for those that have a closed form."""

import pickle

import numpy as np
import pytest
from scipy.special import eval_chebyt, eval_jacobi

from murmura import laws, network
from murmura.errors import LawError

MIXING = network.metropolis(network.load("florentine-families"))
ARCS = network.as_graph(np.array([[0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0]]))
COLUMN = network.column_stochastic(ARCS)


def made(name: str) -> laws.Law:
    return laws.get(name, MIXING)


@pytest.fixture(params=laws.names())
def law(request):
    return made(request.param)


def test_every_law_says_what_it_is(law):
    assert law.name in laws.LAWS
    assert law.formula.startswith("nu_t")
    assert law.reference
    assert type(law).__doc__


def test_weights_of_a_round_add_up_to_one_unless_the_law_is_known_to_diverge(law):
    for t in (1, 2, 3, 10, 1000):
        now = law.coefficients(t)
        total = now.keep + now.mix + now.recall + (0 if law.ratio else now.learn)
        if law.name == "learn-dynamic-printed":
            assert total == pytest.approx(1 + 1 / t)
        else:
            assert total == pytest.approx(1, abs=1e-12)


def test_shares_of_the_statistic_add_up_to_one(law):
    shares = laws.response(law, 50).statistic
    expected = sum(1 / t for t in range(1, 51)) if law.name == "learn-dynamic-printed" else 1
    if law.name == "first-order-online":  # starts at 0 and forgets it at the rate eta
        expected = 1 - (1 - law.eta) ** 50
    assert shares.sum() == pytest.approx(expected, rel=1e-9)


def test_coefficients_are_finite_and_a_law_survives_pickling(law):
    again = pickle.loads(pickle.dumps(law))
    for t in (1, 2, 7, 10_000):
        assert np.isfinite(again.coefficients(t)).all()
        assert again.coefficients(t) == law.coefficients(t)


def test_a_constant_stays_a_constant(law):
    """Agents that all hold c, and keep observing c, stay there: every law is unbiased."""
    if law.diverges or law.name == "first-order-online":
        pytest.skip("not a law that learns the mean exactly")
    A, c = MIXING.weights, np.full(MIXING.size, 3.0)
    zero = np.zeros(MIXING.size)
    state, weight = laws.begin(law, c, zero), laws.begin(law, c / 3, zero)
    for t in range(1, 40):
        state = laws.advance(law, t, state, A @ state.nu, c, zero)
        weight = laws.advance(law, t, weight, A @ weight.nu, c / 3, zero)
    nu = state.nu / weight.nu if law.ratio else state.nu
    assert nu == pytest.approx(c, rel=1e-10)


@pytest.mark.parametrize("dimension", [1, 2, 3.5])
def test_jacobi_is_the_jacobi_polynomial(dimension):
    law = laws.Jacobi(dimension=dimension)
    x = np.linspace(-1, 1, 41)
    got = _polynomial(law, x, degree=80)
    assert got == pytest.approx(
        eval_jacobi(80, dimension / 2, 0, x) / eval_jacobi(80, dimension / 2, 0, 1.0), abs=1e-12
    )


def test_chebyshev_is_the_chebyshev_polynomial_of_the_spectrum():
    law = laws.Chebyshev(lambda_2=0.9, lambda_n=-0.5)
    x = np.linspace(-0.5, 1, 41)
    want = eval_chebyt(25, (x - 0.2) / 0.7) / eval_chebyt(25, 0.8 / 0.7)
    assert _polynomial(law, x, degree=25) == pytest.approx(want, abs=1e-12)


def test_chebyshev_reads_the_spectrum_and_needs_one_inside_the_unit_interval():
    law = laws.get("chebyshev", MIXING)
    assert (law.lambda_2, law.lambda_n) == (MIXING.lambda_2, MIXING.lambda_n)
    with pytest.raises(LawError, match="lambda_2 = 1"):
        laws.Chebyshev(lambda_2=1.0, lambda_n=0.0)
    complete = network.Mixing.of(np.full((4, 4), 0.25))
    assert laws.get("chebyshev", complete).coefficients(3) == pytest.approx((0, 1, 0, 0, 0, 0))


def _polynomial(law, x, degree):
    """P_degree(x): the law run on the eigenvalue x itself."""
    zero = np.zeros_like(x)
    state = laws.begin(law, np.ones_like(x), zero)
    for t in range(1, degree + 1):
        state = laws.advance(law, t, state, x * state.nu, zero, zero)
    return state.nu


def test_alg_5_has_the_printed_weights():
    for t in (1, 2, 5):
        now = laws.LearnNetwork().coefficients(t)
        for a_ii in (0.0, 0.3):
            assert now.keep + now.mix * a_ii == pytest.approx(1 - (2 - a_ii) / t)


def test_sensitivities_follow_the_paper():
    assert laws.Learn().sensitivities(7) == (1.0, 6.0)  # Sec. 4.1: (t-1)/t a_ij against Delta/t
    assert laws.LearnNetwork().sensitivities(7) == pytest.approx((1.0, 1.0))
    assert laws.FirstOrder(eta=0.01).sensitivities(7) == (0.01, 1.0)
    assert laws.Average().sensitivities(0) == (1.0, 1.0)


def test_unknown_names_and_misfits_are_answered():
    with pytest.raises(LawError, match=r"no law is called 'avarage'; did you mean average\?"):
        laws.get("avarage", MIXING)
    with pytest.raises(LawError, match="needs doubly-stochastic weights"):
        laws.get("learn", COLUMN)
    with pytest.raises(LawError, match="the network is dynamic"):
        laws.get("jacobi", network.link_failures(MIXING.graph, 0.3, seed=1))
    with pytest.raises(LawError, match="go with a law's name"):
        laws.get(laws.Average(), MIXING, dimension=2)
    with pytest.raises(LawError, match="eta must be a finite number above 0"):
        laws.FirstOrder(eta=0.0)
    with pytest.raises(LawError, match="dimension"):
        laws.Jacobi(dimension=-1)
