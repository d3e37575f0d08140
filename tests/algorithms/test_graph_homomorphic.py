"""The scheme of Rizk et al. (2023): noise that cancels in the mean of all agents only."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from veilsum import algorithms, networks, theory
from veilsum.errors import AlgorithmError
from veilsum.families import LogNormal, Normal
from veilsum.paper.baseline import release_weights
from veilsum.privacy import SignalDP, guarantee_of, plan
from veilsum.simulation import Problem, SyntheticSignals, noise, simulate
from veilsum.simulation.seeds import noise_seed

MIXING = networks.metropolis(networks.load("florentine-families"))
ETA, ROUNDS = 0.1, 12


def problem(family: Any = None, privacy: Any = None, eta: Any = ETA, epsilons: Any = ()) -> Any:
    family = family or Normal(sigma=1.0)
    algorithm = algorithms.get("graph-homomorphic", MIXING, eta=eta)
    source = SyntheticSignals(family, {"mu": 2.0}, MIXING.size, seed=4)
    return Problem(
        MIXING, algorithm, family, source, privacy or SignalDP(1.0), ROUNDS, epsilons, seed=4
    )


def draws(todo: Any, t: Any) -> Any:
    """b d_t of every agent."""
    made = plan(todo.privacy, todo.family, todo.algorithm, todo.network, todo.rounds)
    scale = made.scale(np.ones((MIXING.size, 1)), todo.privacy.epsilon, t)[:, 0]
    return scale * noise.laplace(noise_seed(todo.seed), t, np.arange(MIXING.size), 0)


@pytest.mark.thorough
def test_noise_cancels_in_the_mean_and_in_no_agent() -> None:
    """The baseline of App. B cancels at every agent; here only that of the start stays."""
    todo = problem()
    trace = simulate(todo)
    assert trace.private is not None
    assert trace.noiseless is not None
    apart = trace.private[-1, :, 0, 0, 0] - trace.noiseless[-1, :, 0, 0]
    started = draws(todo, 0).mean()
    assert apart.mean() == pytest.approx((1 - ETA) ** ROUNDS * started, rel=1e-9)
    assert (np.abs(apart - apart.mean()) > 1e-3).all()
    assert trace.noise_variance[0, 0, 0] == pytest.approx(
        (1 - ETA) ** (2 * ROUNDS) * 2 * (ROUNDS + 1) ** 2 / MIXING.size, rel=1e-9
    )


def test_every_epsilon_of_a_sweep_is_the_run_alone() -> None:
    """The noise that messages carry is drawn once for all epsilons and scaled by each."""
    swept = simulate(problem(epsilons=(0.5, 1.0, 4.0))).total[-1, :, 0]
    alone = [simulate(problem(privacy=SignalDP(e))).total[-1, 0, 0] for e in (0.5, 1.0, 4.0)]
    np.testing.assert_allclose(swept, alone, rtol=1e-13)


def test_what_the_messages_show_is_one_noised_statistic_per_round() -> None:
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
    assert trace.private is not None
    np.testing.assert_allclose(trace.private[-1, :, 0, 0, 0], nu, rtol=1e-9)


def loss(algorithm: Any, epsilon: Any = 1.0) -> Any:
    """Of all messages: Delta/b_0 for the start and c_t Delta/b_t for every round."""
    made = plan(SignalDP(epsilon, radius=1.0), Normal(sigma=1.0), algorithm, MIXING, ROUNDS)
    ones = np.ones((MIXING.size, 1))
    shown = [1.0, *(1 - (1 - algorithm.eta) ** (t - 1) for t in range(1, ROUNDS + 1))]
    return sum(c / float(made.scale(ones, epsilon, t).min()) for t, c in enumerate(shown))


@pytest.mark.parametrize("eta", [1e-4, 0.1, 1.0])
def test_the_guarantee_is_kept_and_a_weakened_twin_breaks_it(eta: Any) -> None:
    """Calibrated for eta xi, which is all that a round adds, later rounds would show too much."""

    class Weak(algorithms.GraphHomomorphic):
        def sensitivities(self, t: Any) -> Any:
            return algorithms.Sensitivities(signal=self.eta if t else 1.0, network=1.0)

    assert (
        guarantee_of(SignalDP(1.0, radius=1.0), algorithms.GraphHomomorphic(eta=eta), ROUNDS).status
        == "proved"
    )
    assert 1 / (ROUNDS + 1) < loss(algorithms.GraphHomomorphic(eta=eta)) <= 1 + 1e-12
    if eta < 1:
        assert loss(Weak(eta=eta)) > 3


def test_what_messages_reveal_is_derived_for_the_class_itself_and_nothing_else() -> None:
    """Neither a subclass nor a class from elsewhere that says so is believed."""

    class Inherits(algorithms.GraphHomomorphic):
        pass

    class Claims(algorithms.GraphHomomorphic):
        derives_messages = True

    for made in (Inherits(), Claims()):
        found = guarantee_of(SignalDP(1.0, radius=1.0), made, ROUNDS)
        assert (found.status, "has not been derived" in found.reason) == ("none", True)


def test_a_step_beyond_one_is_refused() -> None:
    with pytest.raises(AlgorithmError, match="at most 1"):
        algorithms.GraphHomomorphic(eta=1.5)


def test_scales_that_follow_signals_are_refused() -> None:
    privacy = SignalDP(1.0, delta=0.01, sensitivity="smooth-as-published")
    with pytest.raises(AlgorithmError, match="must not follow the signal"):
        simulate(problem(LogNormal(sigma=1.0), privacy))


def exact_loss_of_all_messages(todo: Any, agent: Any, move: Any, scale: Any = None) -> Any:
    """The least sum |z_k|/b_k of noise that hides a signal's move in every message of everyone.

    By the triangle inequality that sum bounds the loss, and in the tails it is reached. Messages
    are m_t = nu_{t-1} + q_t; they are affine in the signal and the noise, so a linear programme
    finds it. `scale` is that of every round, in place of the calibrated one; 0 is no noise.
    """
    n, T, algorithm = todo.network.size, todo.rounds, todo.algorithm
    made = plan(todo.privacy, todo.family, algorithm, todo.network, T)
    A = todo.network.at(1).toarray()
    draws = n * (T + 1)  # d_0, then q_1 .. q_T
    noise_in, signal_in = np.zeros((n, draws)), np.zeros(n)
    noise_in[:, :n], signal_in[agent] = np.eye(n), move
    moved, rows = signal_in.copy(), []
    for t in range(1, T + 1):
        q = np.zeros((n, draws))
        q[:, n * t : n * (t + 1)] = np.eye(n)
        rows.append((noise_in + q, moved.copy()))
        noise_in = A @ (noise_in + q) - q - algorithm.eta * noise_in
        moved = A @ moved - algorithm.eta * moved + algorithm.eta * signal_in
    L, m = np.concatenate([r for r, _ in rows]), np.concatenate([v for _, v in rows])
    if scale is None:
        scale = [made.scale(np.ones((n, 1)), todo.privacy.epsilon, t)[0, 0] for t in range(T + 1)]
    each = np.repeat(scale, n)
    L, cost = L[:, each > 0], 1 / each[each > 0]
    found = linprog(np.tile(cost, 2), A_eq=np.hstack([L, -L]), b_eq=-m, bounds=(0, None))
    assert found.status == 0
    return found.fun


@pytest.mark.parametrize("eta", [0.02, 0.3, 1.0])
@pytest.mark.parametrize("graph", ["path:4", "star:5", "complete:4"])
def test_all_messages_of_everyone_cost_at_most_epsilon(graph: Any, eta: Any) -> None:
    """The derivation of the module against the exact loss; half of the noise would be found."""
    mixing = networks.lazy_metropolis(networks.load(graph))
    family = Normal(sigma=1.0)
    source = SyntheticSignals(family, {"mu": 0.0}, mixing.size, seed=1)
    privacy = SignalDP(1.0, radius=1.0)
    todo = Problem(mixing, algorithms.GraphHomomorphic(eta=eta), family, source, privacy, 6)
    assert guarantee_of(privacy, todo.algorithm, 6, family).status == "proved"
    losses = [exact_loss_of_all_messages(todo, j, 1.0) for j in range(mixing.size)]
    assert max(losses) <= 1 + 1e-9
    assert max(losses) > 0.14  # the start alone is a seventh of the budget
    assert 2 * max(losses) > 1 or eta < 0.3


@pytest.mark.parametrize("eta", [0.02, 0.3, 1.0])
@pytest.mark.parametrize("graph", ["path:4", "star:5"])
def test_the_best_division_of_the_budget_keeps_it(graph: Any, eta: Any) -> None:
    """By the exact loss of all messages; a third of the noise would exceed epsilon."""
    mixing, rounds, epsilon = networks.lazy_metropolis(networks.load(graph)), 6, 1.0
    family = Normal(sigma=1.0)
    source = SyntheticSignals(family, {"mu": 0.0}, mixing.size, seed=1)
    algorithm = algorithms.GraphHomomorphic(eta=eta)
    todo = Problem(mixing, algorithm, family, source, SignalDP(epsilon), rounds)
    parts = np.cbrt(release_weights(mixing, eta, rounds, 1.0))
    spent = epsilon * parts / parts.sum()
    shown = np.array([1.0, *(1 - (1 - eta) ** np.arange(rounds))])
    scale = np.divide(shown, spent, out=np.zeros(rounds + 1), where=spent > 0)
    agents = range(mixing.size)
    whole = max(exact_loss_of_all_messages(todo, j, 1.0, scale) for j in agents)
    assert 0.4 < whole <= epsilon * (1 + 1e-9)
    weak = max(exact_loss_of_all_messages(todo, j, 1.0, scale / 3) for j in agents)
    assert weak > epsilon


def test_no_other_division_of_the_budget_has_less_error() -> None:
    rng, rounds = np.random.default_rng(3), 9
    w = release_weights(MIXING, 0.05, rounds, 1.0)
    best = np.cbrt(w)[w > 0]
    best /= best.sum()
    least = (w[w > 0] / best**2).sum()
    assert least == pytest.approx(np.cbrt(w).sum() ** 3, rel=1e-9)
    for size in (0.01, 0.3):
        for _ in range(50):
            other = best * rng.uniform(1 - size, 1 + size, best.size)
            assert (w[w > 0] / (other / other.sum()) ** 2).sum() > least


def test_the_error_of_a_division_is_that_of_the_exact_theory() -> None:
    """With the budget divided equally, and noise for what a message shows."""

    class Tight(algorithms.GraphHomomorphic):
        def sensitivities(self, t: Any) -> Any:
            return algorithms.Sensitivities(1 - (1 - self.eta) ** (t - 1) if t else 1.0, 1.0)

    todo = problem()
    exact = theory.expected(replace(todo, algorithm=Tight(eta=ETA))).privacy[-1, 0]
    w = release_weights(MIXING, ETA, ROUNDS, 1.0)
    assert exact == pytest.approx(np.sqrt(w.sum()) * (ROUNDS + 1), rel=1e-9)
