"""Budgets by messages between neighbours: feasible everywhere, close to the solver's optimum."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.paper import allocation_solver
from veilsum import networks
from veilsum.errors import PrivacyError
from veilsum.paper import allocation
from veilsum.paper.allocation.neighbourhood import CHECK_EVERY, AgentUpdate, most_nearby
from veilsum.paper.allocation.problem import symmetric_weights


@pytest.fixture(scope="module")
def grid() -> Any:
    return networks.metropolis(networks.load("us-power-grid"))


def sensitivities(n: int, spread: float) -> np.ndarray:
    return np.exp(np.random.default_rng(7).normal(0, spread, n))


@pytest.mark.thorough
@pytest.mark.parametrize("objective", ["overhead", "variance"])
@pytest.mark.parametrize("spread", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("cap", [1.5, 10.0, None])
def test_on_the_us_grid_within_one_per_cent_and_feasible_everywhere(
    grid: Any, spread: Any, cap: Any, objective: Any
) -> None:
    D = sensitivities(grid.size, spread)
    ours = allocation.decentralised(D, 1.0, grid, cap, objective=objective)
    solver = allocation_solver.decentralised(D, 1.0, grid, cap, objective=objective)
    assert ours.overhead <= 1.01 * solver.overhead
    assert ours.overhead <= (1 + ours.gap) * solver.overhead * (1 + 1e-6)
    assert ours.overhead >= solver.overhead * (1 - 1e-6)
    assert np.all(grid.weights @ ours.epsilons <= 1.0)
    assert np.all(ours.epsilons <= (cap or math.inf))
    assert ours.total <= grid.size
    assert 0 < ours.gap <= 0.01
    assert ours.rounds < 5000


def test_on_the_us_grid_with_caps_of_their_own(grid: Any) -> None:
    caps = np.random.default_rng(3).uniform(0.3, 4.0, grid.size)
    D = sensitivities(grid.size, 1.0)
    ours = allocation.decentralised(D, 2.0, grid, caps)
    assert ours.overhead <= 1.01 * allocation_solver.decentralised(D, 2.0, grid, caps).overhead
    assert np.all(grid.weights @ ours.epsilons <= 2.0)
    assert np.all(ours.epsilons <= caps)


def test_it_beats_equal_budgets_and_not_the_centre(grid: Any) -> None:
    D = sensitivities(grid.size, 1.0)
    ours = allocation.decentralised(D, 1.0, grid).overhead
    assert (
        allocation.optimal(D, 1.0).overhead < ours < 0.95 * allocation.homogeneous(D, 1.0).overhead
    )


def neighbourhood(A: Any, agent: int) -> dict[int, float]:
    """What an agent knows of the network: its own row."""
    start, stop = A.indptr[agent : agent + 2]
    return dict(zip(A.indices[start:stop].tolist(), A.data[start:stop].tolist(), strict=True))


class Agent:
    """One agent: its row, its update, and what its neighbours send."""

    def __init__(self, row: dict[int, float], update: AgentUpdate) -> None:
        self.row, self.update = row, update
        self.multiplier = update.first_multipliers()

    def hear_multipliers(self, heard: dict[int, Any]) -> Any:
        self.epsilon = self.update.epsilons(
            np.asarray(sum(a * heard[j] for j, a in self.row.items()))
        )
        return self.epsilon

    def hear_epsilons(self, heard: dict[int, Any]) -> Any:
        self.used: Any = sum(a * heard[j] for j, a in self.row.items())
        return self.used

    def hear_used(self, heard: dict[int, Any]) -> Any:
        self.kept = self.update.repaired(self.epsilon, max(heard[j] for j in self.row))
        return self.update.ratios(self.multiplier, self.epsilon, self.used, self.kept)

    def move_multiplier(self) -> None:
        self.multiplier = self.update.multipliers(self.multiplier, self.used)


def exchange(agents: list[Agent], values: list[Any]) -> list[dict[int, Any]]:
    """Deliver to every agent what its neighbours sent, and nothing else."""
    return [{j: values[j] for j in agent.row} for agent in agents]


@pytest.mark.parametrize("p", [1, 2])
def test_agents_that_know_their_row_only_take_the_same_steps(p: Any) -> None:
    mixing = networks.metropolis(networks.load("ieee-34"))
    A = symmetric_weights(mixing, mixing.size)
    D, caps = sensitivities(mixing.size, 1.0), np.full(mixing.size, 1.5)
    whole = AgentUpdate(D, 1.0, caps, p)
    agents = [
        Agent(neighbourhood(A, i), AgentUpdate(D[i], 1.0, caps[i], p)) for i in range(mixing.size)
    ]
    multipliers = whole.first_multipliers()
    for _ in range(60):
        epsilons = whole.epsilons(A @ multipliers)
        used = A @ epsilons
        sent: list[Any] = [agent.multiplier for agent in agents]
        assert np.allclose(sent, multipliers, rtol=1e-10)
        sent = [a.hear_multipliers(h) for a, h in zip(agents, exchange(agents, sent), strict=True)]
        assert np.allclose(sent, epsilons, rtol=1e-10)
        sent = [a.hear_epsilons(h) for a, h in zip(agents, exchange(agents, sent), strict=True)]
        assert np.allclose(sent, used, rtol=1e-10)
        kept = whole.repaired(epsilons, most_nearby(A, used))
        sent = [a.hear_used(h) for a, h in zip(agents, exchange(agents, sent), strict=True)]
        assert np.allclose([a.kept for a in agents], kept, rtol=1e-10)
        assert np.allclose(sent, whole.ratios(multipliers, epsilons, used, kept), atol=1e-9)
        multipliers = whole.multipliers(multipliers, used)
        for agent in agents:
            agent.move_multiplier()


def random_weights(rng: np.random.Generator, n: int) -> np.ndarray:
    """Metropolis weights of a random tree with some links more."""
    links = np.zeros((n, n), dtype=bool)
    for i in range(1, n):
        links[i, rng.integers(i)] = True
    links |= np.tril(rng.random((n, n)) < 0.1, -1)
    links |= links.T
    degree = links.sum(axis=1)
    A = np.where(links, 1 / np.maximum.outer(degree, degree), 0.0)
    return A + np.diag(1 - A.sum(axis=1))


def dual(update: AgentUpdate, A: Any, multipliers: np.ndarray) -> float:
    nearby = A @ multipliers
    e = update.epsilons(nearby)
    return float(
        np.sum((update.D / e) ** update.p + nearby * e) - update.epsilon * np.sum(multipliers)
    )


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    st.integers(3, 15), st.integers(0, 10_000), st.sampled_from([0.4, 1.2, 5.0, math.inf]),
    st.sampled_from([1, 2]),
)  # fmt: skip
def test_the_dual_value_never_falls_and_the_repair_is_feasible(
    n: Any, seed: Any, cap: Any, p: Any
) -> None:
    rng = np.random.default_rng(seed)
    A = symmetric_weights(random_weights(rng, n), n)
    update = AgentUpdate(np.exp(rng.normal(0, 1.5, n)), 1.0, np.full(n, cap), p)
    multipliers, last = update.first_multipliers(), -math.inf
    for _ in range(50):
        value = dual(update, A, multipliers)
        assert value >= last - 1e-9 * abs(value)
        epsilons = update.epsilons(A @ multipliers)
        used = A @ epsilons
        kept = update.repaired(epsilons, most_nearby(A, used))
        assert np.all(A @ kept <= 1.0)
        assert np.all(kept <= cap)
        gap = np.sum((update.D / kept) ** p) - value
        ratios = update.ratios(multipliers, epsilons, used, kept)
        assert np.sum(ratios * (update.D / kept) ** p) == pytest.approx(gap, rel=1e-9, abs=1e-9)
        assert gap >= -1e-9 * abs(value)
        multipliers, last = update.multipliers(multipliers, used), value


@pytest.mark.parametrize("objective", ["overhead", "variance"])
def test_where_everyone_hears_everyone_it_is_the_central_problem(objective: Any) -> None:
    n = 30
    D, everyone = sensitivities(n, 1.0), np.full((n, n), 1 / n)
    ours = allocation.decentralised(D, 1.0, everyone, 1.5, objective=objective, tolerance=1e-6)
    centre = allocation.optimal(D, 1.0, 1.5, objective=objective)
    assert ours.overhead == pytest.approx(centre.overhead, rel=1e-6)
    assert ours.epsilons == pytest.approx(centre.epsilons, rel=1e-2)


@pytest.mark.parametrize("graph", ["ring:9", "path:12", "star:10", "complete:6", "ieee-34"])
@pytest.mark.parametrize("cap", [0.6, 1.2, None])
def test_small_networks_to_any_tolerance(graph: Any, cap: Any) -> None:
    mixing = networks.lazy_metropolis(networks.load(graph))
    D = sensitivities(mixing.size, 1.0)
    ours = allocation.decentralised(D, 1.0, mixing, cap, tolerance=1e-4)
    solver = allocation_solver.decentralised(D, 1.0, mixing, cap)
    assert ours.overhead == pytest.approx(solver.overhead, rel=1e-4)
    assert np.all(mixing.weights @ ours.epsilons <= 1.0)


def test_equal_sensitivities_need_one_check_and_get_equal_budgets(grid: Any) -> None:
    found = allocation.decentralised(np.full(grid.size, 3.0), 0.5, grid)
    assert found.rounds == 3
    assert found.epsilons == pytest.approx(np.full(grid.size, 0.5))


def test_caps_that_never_bind_together_are_what_everyone_gets(grid: Any) -> None:
    D = sensitivities(grid.size, 1.0)
    found = allocation.decentralised(D, 1.0, grid, 0.5)
    assert found.epsilons == pytest.approx(np.full(grid.size, 0.5))


def test_it_scales_with_units(grid: Any) -> None:
    D = sensitivities(grid.size, 1.0)
    one, other = (
        allocation.decentralised(D, 1.0, grid),
        allocation.decentralised(1e3 * D, 0.01, grid),
    )
    assert other.epsilons == pytest.approx(0.01 * one.epsilons)
    assert other.rounds == one.rounds


def test_rounds_count_exchanges() -> None:
    """Two per iteration and one per check."""
    mixing = networks.metropolis(networks.load("ieee-34"))
    rounds = allocation.decentralised(sensitivities(mixing.size, 1.0), 1.0, mixing).rounds
    period = 2 * CHECK_EVERY + 1
    assert rounds % period == 3


def test_a_network_may_give_its_weights_by_round() -> None:
    class ByRound:
        def at(self, t: int) -> np.ndarray:
            assert t == 1
            return np.full((3, 3), 1 / 3)

    found = allocation.decentralised([1.0, 2.0, 3.0], 1.0, ByRound())
    assert found.overhead == pytest.approx(
        allocation.optimal([1.0, 2.0, 3.0], 1.0).overhead, rel=0.01
    )


def test_too_few_rounds_are_an_error(grid: Any) -> None:
    with pytest.raises(PrivacyError, match="allow more max_rounds"):
        allocation.decentralised(sensitivities(grid.size, 1.0), 1.0, grid, max_rounds=30)


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ([[0.5, 0.5], [0.9, 0.1]], "symmetric and doubly stochastic"),
        ([[0.5, 0.4], [0.4, 0.5]], "symmetric and doubly stochastic"),
        ([[1.5, -0.5], [-0.5, 1.5]], "symmetric and doubly stochastic"),
        (np.full((3, 3), 1 / 3), "3 agents, sensitivities are for 2"),
    ],
)
def test_weights_that_do_not_bound_the_total_are_refused(weights: Any, says: Any) -> None:
    with pytest.raises(PrivacyError, match=says):
        allocation.decentralised([1.0, 2.0], 1.0, weights)


def test_a_dynamic_network_is_refused(grid: Any) -> None:
    class Moving:
        dynamic, weights = True, grid.weights

    with pytest.raises(PrivacyError, match="changes from round to round"):
        allocation.decentralised(np.ones(grid.size), 1.0, Moving())


@pytest.mark.parametrize("tolerance", [0.0, -1.0, math.nan])
def test_a_tolerance_must_be_positive(tolerance: Any) -> None:
    with pytest.raises(PrivacyError, match="tolerance"):
        allocation.decentralised([1.0, 2.0], 1.0, [[0.5, 0.5], [0.5, 0.5]], tolerance=tolerance)
