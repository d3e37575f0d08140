"""Budgets in one place: the exact optimum against a solver, and the paper's claims."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.paper import allocation_solver
from veilsum.errors import PrivacyError
from veilsum.paper import allocation
from veilsum.paper.allocation import AgentSensitivities

D4 = [1.0, 1.0, 1.0, 100.0]
ALL = [allocation.homogeneous, allocation.as_published, allocation.optimal]
RING = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]]


def ring(sensitivities: Any, epsilon: Any, cap: Any = None, **options: Any) -> Any:
    return allocation.decentralised(sensitivities, epsilon, RING, cap, **options)


def test_the_published_rule_is_not_optimal_once_a_cap_binds() -> None:
    """Erratum 3."""
    published, optimal = allocation.as_published(D4, 1.0, 1.5), allocation.optimal(D4, 1.0, 1.5)
    assert published.overhead == pytest.approx(76.4167, abs=1e-4)
    assert published.total == pytest.approx(2.4231, abs=1e-4)  # of 4
    assert optimal.overhead == pytest.approx(70.2667, abs=1e-4)
    assert optimal.total == pytest.approx(4)
    assert optimal.epsilons == pytest.approx([5 / 6, 5 / 6, 5 / 6, 1.5])


def test_without_binding_caps_the_published_rule_is_optimal() -> None:
    published, optimal = allocation.as_published(D4, 1.0, 10.0), allocation.optimal(D4, 1.0, 10.0)
    assert published.epsilons == pytest.approx(optimal.epsilons)
    assert optimal.overhead == pytest.approx(13**2 / 4)


def random_instance(seed: int) -> tuple[np.ndarray, float, np.ndarray]:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    epsilon = float(rng.uniform(0.2, 5))
    caps = epsilon * rng.uniform(0.2, 4, n)
    caps[rng.random(n) < 0.2] = np.inf
    return np.exp(rng.normal(0, 1.5, n)), epsilon, caps


@pytest.mark.thorough
@pytest.mark.parametrize("objective", ["overhead", "variance"])
def test_water_filling_matches_a_convex_solver(objective: Any) -> None:
    for seed in range(200):
        D, epsilon, caps = random_instance(seed)
        ours = allocation.optimal(D, epsilon, caps, objective=objective)
        solver = allocation_solver.optimal(D, epsilon, caps, objective=objective)
        assert ours.overhead == pytest.approx(solver.overhead, rel=1e-6), seed
        assert ours.epsilons == pytest.approx(solver.epsilons, rel=2e-3), seed


instances = st.integers(1, 20).flatmap(
    lambda n: st.tuples(
        st.lists(st.floats(1e-3, 1e3), min_size=n, max_size=n),
        st.floats(0.01, 10),
        st.lists(st.floats(0.01, 100), min_size=n, max_size=n),
        st.sampled_from(["overhead", "variance"]),
    )
)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(instances)
def test_the_optimum_satisfies_its_conditions(instance: Any) -> None:
    """eps_i = min(cap_i, w g_i) for one w, and the budget is used up or everyone is at the cap."""
    D, epsilon, caps, objective = np.array(instance[0]), instance[1], instance[2], instance[3]
    found = allocation.optimal(D, epsilon, caps, objective=objective)
    n, eps, p = len(D), found.epsilons, {"overhead": 1, "variance": 2}[objective]
    assert np.all(eps <= caps)
    assert found.total <= n * epsilon
    below = eps < np.array(caps) * (1 - 1e-9)
    if below.any():
        level = eps / D ** (p / (p + 1))
        assert level[below] == pytest.approx(np.full(below.sum(), level.max()), rel=1e-9)
        assert found.total == pytest.approx(n * epsilon, rel=1e-9)
    rivals = [allocation.homogeneous(D, epsilon, caps, objective=objective)]
    rivals += [allocation.as_published(D, epsilon, caps)] if p == 1 else []
    assert all(found.overhead <= rival.overhead * (1 + 1e-9) for rival in rivals)


@pytest.mark.parametrize("rule", ALL[1:])
def test_caps_below_the_budget_are_what_everyone_gets(rule: Any) -> None:
    assert rule(D4, 1.0, 0.9).epsilons == pytest.approx([0.9] * 4, rel=1e-6)
    assert rule(D4, 1.0, [0.1, 0.2, 0.3, 0.4]).epsilons == pytest.approx([0.1, 0.2, 0.3, 0.4])


def test_the_variance_has_budgets_of_its_own() -> None:
    D = np.array([1.0, 8.0])
    found = allocation.optimal(D, 1.0, objective="variance")
    assert found.epsilons == pytest.approx(2 * D ** (2 / 3) / 5)
    assert found.overhead == pytest.approx(np.sum((D / found.epsilons) ** 2))
    rival = allocation.optimal(D, 1.0).epsilons
    assert found.overhead < np.sum((D / rival) ** 2)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20), st.floats(1.0, 5.0))
def test_improvement_lies_within_its_bounds(D: Any, cap: Any) -> None:
    equal = allocation.homogeneous(D, 1.0).overhead
    lower, upper = allocation.improvement_bounds(D)
    assert min(D) / max(D) <= lower * (1 + 1e-12)  # sharper than the paper's
    for ratio in (allocation.optimal(D, 1.0, c).overhead / equal for c in (None, cap)):
        assert lower * (1 - 1e-9) <= ratio <= upper + 1e-9


def test_the_lower_bound_is_attained() -> None:
    D = [1.0] * 9 + [81.0] * 1  # sqrt: equal totals of the small and the large
    ratio = allocation.optimal(D, 1.0).overhead / allocation.homogeneous(D, 1.0).overhead
    assert ratio == pytest.approx(allocation.improvement_bounds(D)[0])


def test_the_papers_upper_bound_fails_for_the_published_rule() -> None:
    """With every cap at epsilon, clipping makes it worse than equal budgets: 109.75 > 103."""
    assert allocation.as_published(D4, 1.0, 1.0).overhead == pytest.approx(109.75)
    assert allocation.homogeneous(D4, 1.0, 1.0).overhead == pytest.approx(103.0)
    assert allocation.optimal(D4, 1.0, 1.0).overhead == pytest.approx(103.0)


def test_the_papers_upper_bound_fails_where_a_cap_is_below_epsilon() -> None:
    """Caps add up to n epsilon and more, as the proposition asks; even the optimum is above."""
    assert allocation.optimal([1.0, 1.0], 1.0, [0.1, 3.0]).overhead > 10 > 1.0 + 1.0


def test_all_agents_together_lose_at_most_the_largest_epsilon() -> None:
    """Erratum 6: under sum_i |s_i - s_i'| <= 1 the log-ratio is at most max eps_i, and reaches it.

    It is convex in the move, so its maximum over the l1 ball is at a corner: one signal moves.
    Where every signal moves by 1, the sum is reached.
    """
    eps = np.array([0.5, 1.0, 2.0])
    rng = np.random.default_rng(0)
    moves = rng.dirichlet(np.ones(3), 2000) * rng.choice([-1, 1], (2000, 3))
    outputs = rng.laplace(size=(2000, 3)) / eps

    def loss(x: Any, move: Any) -> Any:
        return np.sum(eps * (np.abs(x - move) - np.abs(x)), axis=-1)

    assert np.all(np.abs(loss(outputs, moves)) <= eps.max() + 1e-12)
    assert loss(np.full(3, -9.0), np.array([0, 0, 1.0])) == pytest.approx(eps.max())
    assert loss(np.full(3, -9.0), np.ones(3)) == pytest.approx(eps.sum())


@pytest.mark.parametrize("rule", [*ALL, ring])
def test_budgets_from_private_sensitivities_are_for_simulation_only(rule: Any) -> None:
    private = AgentSensitivities(np.array([1.0, 2.0, 3.0]), data_dependent=True)
    with pytest.raises(PrivacyError, match="computed from the signals"):
        rule(private, 1.0)
    found = rule(private, 1.0, simulation_only=True)
    assert found.simulation_only
    assert not rule([1.0, 2.0, 3.0], 1.0).simulation_only


@pytest.mark.parametrize("rule", [*ALL, ring])
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([1.0, 0.0, 1.0], 1.0), "agent 1"),
        (([1.0, 1.0, math.nan], 1.0), "agent 2"),
        (([-1.0, 1.0, 1.0], 1.0), "agent 0"),
        (([], 1.0), "one number per agent"),
        ((3.0, 1.0), "one number per agent"),
        (([1.0, 1.0, 1.0], 0.0), "epsilon"),
        (([1.0, 1.0, 1.0], math.nan), "epsilon"),
        (([1.0, 1.0, 1.0], 1.0, 0.0), "cap"),
        (([1.0, 1.0, 1.0], 1.0, [1.0, math.nan, 1.0]), "agent 1"),
        (([1.0, 1.0, 1.0], 1.0, [1.0, 1.0]), "one per agent"),
    ],
)
def test_nonsense_is_refused(rule: Any, arguments: Any, says: Any) -> None:
    with pytest.raises(PrivacyError, match=says):
        rule(*arguments)


def test_an_error_does_not_tell_a_sensitivity() -> None:
    with pytest.raises(PrivacyError) as caught:
        allocation.optimal([1.0, -123.456], 1.0)
    assert "123" not in str(caught.value)


def test_an_unknown_objective_is_refused() -> None:
    with pytest.raises(PrivacyError, match="objective must be one of overhead, variance"):
        allocation.optimal(D4, 1.0, objective="bias")


def test_an_allocation_is_frozen_and_plain_data() -> None:
    found = allocation.optimal(D4, 1.0, 1.5)
    with pytest.raises(ValueError, match="read-only"):
        found.epsilons[0] = 2.0
    data = found.to_dict()
    assert data["method"] == "optimal"
    assert data["epsilons"] == list(found.epsilons)
