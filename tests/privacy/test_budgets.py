"""Budgets in one place: the exact optimum against a solver, and the paper's claims."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from murmura.errors import MissingExtraError, PrivacyError
from murmura.privacy import budgets
from murmura.privacy.budgets import Sensitivities

D4 = [1.0, 1.0, 1.0, 100.0]
ALL = [budgets.homogeneous, budgets.printed, budgets.optimal, budgets.optimal_oracle]
RING = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]]


def ring(sensitivities, epsilon, cap=None, **options):
    return budgets.decentralised(sensitivities, epsilon, RING, cap, **options)


def test_the_printed_rule_is_not_optimal_once_a_cap_binds():
    """Erratum 3."""
    printed, optimal = budgets.printed(D4, 1.0, 1.5), budgets.optimal(D4, 1.0, 1.5)
    assert printed.overhead == pytest.approx(76.4167, abs=1e-4)
    assert printed.spent == pytest.approx(2.4231, abs=1e-4)  # of 4
    assert optimal.overhead == pytest.approx(70.2667, abs=1e-4)
    assert optimal.spent == pytest.approx(4)
    assert optimal.epsilons == pytest.approx([5 / 6, 5 / 6, 5 / 6, 1.5])


def test_without_binding_caps_the_printed_rule_is_optimal():
    printed, optimal = budgets.printed(D4, 1.0, 10.0), budgets.optimal(D4, 1.0, 10.0)
    assert printed.epsilons == pytest.approx(optimal.epsilons)
    assert optimal.overhead == pytest.approx(13**2 / 4)


def random_instance(seed: int) -> tuple[np.ndarray, float, np.ndarray]:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    epsilon = float(rng.uniform(0.2, 5))
    caps = epsilon * rng.uniform(0.2, 4, n)
    caps[rng.random(n) < 0.2] = np.inf
    return np.exp(rng.normal(0, 1.5, n)), epsilon, caps


@pytest.mark.parametrize("objective", ["overhead", "variance"])
def test_water_filling_matches_a_convex_solver(objective):
    for seed in range(200):
        D, epsilon, caps = random_instance(seed)
        ours = budgets.optimal(D, epsilon, caps, objective=objective)
        solver = budgets.optimal_oracle(D, epsilon, caps, objective=objective)
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
def test_the_optimum_satisfies_its_conditions(instance):
    """eps_i = min(cap_i, w g_i) for one w, and the budget is used up or everyone is at the cap."""
    D, epsilon, caps, objective = np.array(instance[0]), instance[1], instance[2], instance[3]
    found = budgets.optimal(D, epsilon, caps, objective=objective)
    n, eps, p = len(D), found.epsilons, {"overhead": 1, "variance": 2}[objective]
    assert np.all(eps <= caps)
    assert found.spent <= n * epsilon
    below = eps < np.array(caps) * (1 - 1e-9)
    if below.any():
        level = eps / D ** (p / (p + 1))
        assert level[below] == pytest.approx(np.full(below.sum(), level.max()), rel=1e-9)
        assert found.spent == pytest.approx(n * epsilon, rel=1e-9)
    rivals = [budgets.homogeneous(D, epsilon, caps, objective=objective)]
    rivals += [budgets.printed(D, epsilon, caps)] if p == 1 else []
    assert all(found.overhead <= rival.overhead * (1 + 1e-9) for rival in rivals)


@pytest.mark.parametrize("rule", ALL[1:])
def test_caps_below_the_budget_are_what_everyone_gets(rule):
    assert rule(D4, 1.0, 0.9).epsilons == pytest.approx([0.9] * 4, rel=1e-6)
    assert rule(D4, 1.0, [0.1, 0.2, 0.3, 0.4]).epsilons == pytest.approx([0.1, 0.2, 0.3, 0.4])


def test_the_variance_has_budgets_of_its_own():
    D = np.array([1.0, 8.0])
    found = budgets.optimal(D, 1.0, objective="variance")
    assert found.epsilons == pytest.approx(2 * D ** (2 / 3) / 5)
    assert found.overhead == pytest.approx(np.sum((D / found.epsilons) ** 2))
    rival = budgets.optimal(D, 1.0).epsilons
    assert found.overhead < np.sum((D / rival) ** 2)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20), st.floats(1.0, 5.0))
def test_improvement_lies_within_its_bounds(D, cap):
    equal = budgets.homogeneous(D, 1.0).overhead
    lower, upper = budgets.improvement_bounds(D)
    assert min(D) / max(D) <= lower * (1 + 1e-12)  # sharper than the paper's
    for ratio in (budgets.optimal(D, 1.0, c).overhead / equal for c in (None, cap)):
        assert lower * (1 - 1e-9) <= ratio <= upper + 1e-9


def test_the_lower_bound_is_attained():
    D = [1.0] * 9 + [81.0] * 1  # sqrt: equal totals of the small and the large
    ratio = budgets.optimal(D, 1.0).overhead / budgets.homogeneous(D, 1.0).overhead
    assert ratio == pytest.approx(budgets.improvement_bounds(D)[0])


def test_the_papers_upper_bound_fails_for_the_printed_rule():
    """With every cap at epsilon, clipping makes it worse than equal budgets: 109.75 > 103."""
    assert budgets.printed(D4, 1.0, 1.0).overhead == pytest.approx(109.75)
    assert budgets.homogeneous(D4, 1.0, 1.0).overhead == pytest.approx(103.0)
    assert budgets.optimal(D4, 1.0, 1.0).overhead == pytest.approx(103.0)


def test_the_papers_upper_bound_fails_where_a_cap_is_below_epsilon():
    """Caps add up to n epsilon and more, as the proposition asks; even the optimum is above."""
    assert budgets.optimal([1.0, 1.0], 1.0, [0.1, 3.0]).overhead > 10 > 1.0 + 1.0


def test_all_agents_together_lose_at_most_the_largest_epsilon():
    """Erratum 6: under sum_i |s_i - s_i'| <= 1 the log-ratio is at most max eps_i, and reaches it.

    It is convex in the move, so its maximum over the l1 ball is at a corner: one signal moves.
    Where every signal moves by 1, the sum is reached.
    """
    eps = np.array([0.5, 1.0, 2.0])
    rng = np.random.default_rng(0)
    moves = rng.dirichlet(np.ones(3), 2000) * rng.choice([-1, 1], (2000, 3))
    outputs = rng.laplace(size=(2000, 3)) / eps

    def loss(x, move):
        return np.sum(eps * (np.abs(x - move) - np.abs(x)), axis=-1)

    assert np.all(np.abs(loss(outputs, moves)) <= eps.max() + 1e-12)
    assert loss(np.full(3, -9.0), np.array([0, 0, 1.0])) == pytest.approx(eps.max())
    assert loss(np.full(3, -9.0), np.ones(3)) == pytest.approx(eps.sum())


@pytest.mark.parametrize("rule", [*ALL, ring])
def test_budgets_from_private_sensitivities_are_for_simulation_only(rule):
    private = Sensitivities(np.array([1.0, 2.0, 3.0]), data_dependent=True)
    with pytest.raises(PrivacyError, match="read off the signals"):
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
def test_nonsense_is_refused(rule, arguments, says):
    with pytest.raises(PrivacyError, match=says):
        rule(*arguments)


def test_an_error_does_not_tell_a_sensitivity():
    with pytest.raises(PrivacyError) as caught:
        budgets.optimal([1.0, -123.456], 1.0)
    assert "123" not in str(caught.value)


def test_an_unknown_objective_is_refused():
    with pytest.raises(PrivacyError, match="objective must be one of overhead, variance"):
        budgets.optimal(D4, 1.0, objective="bias")


def test_an_allocation_is_frozen_and_plain_data():
    found = budgets.optimal(D4, 1.0, 1.5)
    with pytest.raises(ValueError, match="read-only"):
        found.epsilons[0] = 2.0
    data = found.to_dict()
    assert data["method"] == "optimal"
    assert data["epsilons"] == list(found.epsilons)


def test_the_solver_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    with pytest.raises(MissingExtraError, match=r"murmura\[solvers\]"):
        budgets.optimal_oracle(D4, 1.0)
