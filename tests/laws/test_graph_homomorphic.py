"""The scheme of Rizk et al. (2023): noise that cancels in the mean of all agents only."""

import numpy as np
import pytest

from murmura import laws, network
from murmura.engine import Drawn, Problem, noise, simulate
from murmura.engine.seeds import noise_seed
from murmura.errors import LawError
from murmura.families import LogNormal, Normal
from murmura.privacy import SignalDP, calibrate, promise

MIXING = network.metropolis(network.load("florentine-families"))
ETA, ROUNDS = 0.1, 12


def problem(family=None, want=None, eta=ETA, epsilons=()):
    family = family or Normal(sigma=1.0)
    law = laws.get("graph-homomorphic", MIXING, eta=eta)
    source = Drawn(family, {"mu": 2.0}, MIXING.size, seed=4)
    return Problem(MIXING, law, family, source, want or SignalDP(1.0), ROUNDS, epsilons, seed=4)


def draws(todo, t):
    """b d_t of every agent."""
    made = calibrate(todo.want, todo.law, todo.family, todo.network, todo.rounds)
    scale = made.scale(np.ones((MIXING.size, 1)), todo.want.epsilon, t)[:, 0]
    return scale * noise.laplace(noise_seed(todo.seed), t, np.arange(MIXING.size), 0)


def test_noise_cancels_in_the_mean_and_in_no_agent():
    """The baseline of App. B cancels at every agent; here only that of the start stays."""
    todo = problem()
    trace = simulate(todo)
    apart = trace.private[-1, :, 0, 0, 0] - trace.clean[-1, :, 0, 0]
    started = draws(todo, 0).mean()
    assert apart.mean() == pytest.approx((1 - ETA) ** ROUNDS * started, rel=1e-9)
    assert (np.abs(apart - apart.mean()) > 1e-3).all()
    assert trace.noise_variance[0, 0, 0] == pytest.approx(
        (1 - ETA) ** (2 * ROUNDS) * 2 * (ROUNDS + 1) ** 2 / MIXING.size, rel=1e-9
    )


def test_every_epsilon_of_a_sweep_is_the_run_alone():
    """The noise that messages carry is drawn once for all epsilons and scaled by each."""
    swept = simulate(problem(epsilons=(0.5, 1.0, 4.0))).total[-1, :, 0]
    alone = [simulate(problem(want=SignalDP(e))).total[-1, 0, 0] for e in (0.5, 1.0, 4.0)]
    np.testing.assert_allclose(swept, alone, rtol=1e-13)


def test_what_the_messages_show_is_one_noised_statistic_per_round():
    """z_t = m_t + (1 - eta) z_{t-1}, public parts taken off, is xi + (1-eta)^(t-1) d_0 + q_t."""
    todo, A = problem(), MIXING.weights
    xi = todo.family.columns(todo.source.signals(1, 1))[:, 0, 0]
    nu, q = xi + draws(todo, 0), None
    known, z = np.zeros(MIXING.size), np.zeros(MIXING.size)
    for t in range(1, ROUNDS + 1):
        q = draws(todo, t)
        m = nu + q
        z = m - known + (1 - ETA) * z
        expected = xi + (1 - ETA) ** (t - 1) * draws(todo, 0) + q
        np.testing.assert_allclose(z, expected, rtol=1e-9)
        known = A @ m - ETA * m  # what everyone can work out of the messages
        nu = A @ m - q - ETA * (nu - xi)
    trace = simulate(todo)
    np.testing.assert_allclose(trace.private[-1, :, 0, 0, 0], nu, rtol=1e-9)


def loss(law, epsilon=1.0):
    """Of all messages: Delta/b_0 for the start and c_t Delta/b_t for every round."""
    made = calibrate(SignalDP(epsilon), law, Normal(sigma=1.0), MIXING, ROUNDS)
    ones = np.ones((MIXING.size, 1))
    shown = [1.0, *(1 - (1 - law.eta) ** (t - 1) for t in range(1, ROUNDS + 1))]
    return sum(c / float(made.scale(ones, epsilon, t).min()) for t, c in enumerate(shown))


@pytest.mark.parametrize("eta", [1e-4, 0.1, 1.0])
def test_the_promise_is_kept_and_a_weakened_twin_breaks_it(eta):
    """Calibrated for eta xi, which is all that a round adds, later rounds would show too much."""

    class Weak(laws.GraphHomomorphic):
        def sensitivities(self, t):
            return laws.Sensitivities(signal=self.eta if t else 1.0, network=1.0)

    assert promise(SignalDP(1.0), laws.GraphHomomorphic(eta=eta), ROUNDS).status == "proved"
    assert 1 / (ROUNDS + 1) < loss(laws.GraphHomomorphic(eta=eta)) <= 1 + 1e-12
    if eta < 1:
        assert loss(Weak(eta=eta)) > 3


def test_a_step_beyond_one_is_refused():
    with pytest.raises(LawError, match="at most 1"):
        laws.GraphHomomorphic(eta=1.5)


def test_scales_that_follow_signals_are_refused():
    want = SignalDP(1.0, delta=0.01, sensitivity="smooth-printed")
    with pytest.raises(LawError, match="must not follow the signal"):
        simulate(problem(LogNormal(sigma=1.0), want))
