"""Audits of problems with every mechanism that a request can name: exact losses and samples.

The samples are drawn with fixed seeds, and certify with confidence 1 - 1e-6.
"""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from veilsum import algorithms, families, networks
from veilsum.auditing import (
    AuditReport,
    Transcript,
    audit_neighbour,
    audit_problem,
    exact_loss,
    signal_moves,
    view_mechanism,
    worst_neighbours,
)
from veilsum.errors import PrivacyError
from veilsum.privacy import NetworkDP, Plan, SignalDP, mechanisms
from veilsum.privacy.planning import InputPlan, LaplacePlan
from veilsum.simulation import Problem, SyntheticSignals

RING = networks.metropolis("ring:9")
BOUNDED = families.Normal(1.0, bounds=(0.0, 1.0))
TRIALS = 40_000
DELTA = 0.01
EVERYONE = Transcript(tuple(range(9)), 3)


def delta_of(name: str) -> float:
    """What Gaussian noise needs and no other takes."""
    return DELTA if name != "best" and mechanisms.MECHANISMS.get(name).takes_delta else 0.0


def first_fitting(name: str, *tried: Any, radius: float = math.inf) -> Any:
    """The first family that the mechanism takes; any will do for the best one."""
    if name == "best":
        return tried[0]
    kind = mechanisms.MECHANISMS.get(name)
    return next(f for f in tried if not kind.misfit(f.moves(radius), 1.0, delta_of(name)))


def problem_of(
    name: str, algorithm: str = "average", family: Any = None, radius: float = math.inf
) -> Problem:
    family = family or first_fitting(name, BOUNDED, families.Bernoulli(), families.Categorical(6))
    given = 0.5 if family.dimension == 1 else np.full(family.dimension, 1 / family.dimension)
    source = SyntheticSignals(family, {family.parameters[0]: given}, 9, seed=1)
    request = SignalDP(1.0, delta_of(name), radius=radius, mechanism=name)
    return Problem(RING, algorithms.get(algorithm, RING), family, source, request, 3, seed=2)


@pytest.mark.parametrize("algorithm", ["average", "learn"])
@pytest.mark.parametrize("name", mechanisms.names())
def test_a_proved_guarantee_is_not_refuted(name: str, algorithm: str) -> None:
    """The exact loss is the mechanism's own: epsilon between the ends of the bounds."""
    report = audit_problem(problem_of(name, algorithm), TRIALS)
    assert not report.refuted, str(report)
    if delta_of(name):  # where no loss is the largest, and all of epsilon is not spent
        assert report.exact == math.inf
        assert report.lower_bound > 0.4
        return
    assert report.exact == pytest.approx(1.0, rel=1e-9)
    assert report.lower_bound > 0.6  # the attack is a real one


@pytest.mark.parametrize("name", mechanisms.names())
def test_a_weakened_twin_is_refuted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the exact loss where 3% of epsilon are missing, by samples where half of it is."""
    kind: type[Plan] = LaplacePlan if name == "laplace" else InputPlan
    usual: Any = kind.mechanism
    scale = Plan.per_signal

    def weaken(times: float) -> AuditReport:
        def weaker(self: Plan, *arguments: Any, **options: Any) -> Any:
            made = usual(self, *arguments, **options)
            return replace(made, epsilon=times * made.epsilon)

        def smaller(self: Plan, epsilons: Any, t: int) -> Any:
            return scale(self, epsilons, t) / times

        monkeypatch.setattr(kind, "mechanism", weaker)
        if kind is InputPlan:  # the claim is what it was
            monkeypatch.setattr(kind, "event", lambda self, e=None: usual(self, e).event())
        if name == "laplace":
            monkeypatch.setattr(Plan, "per_signal", smaller)
        return audit_problem(problem_of(name), TRIALS)

    if not delta_of(name):  # of which no exact loss is known
        assert weaken(1.03).refuted
    assert weaken(2.0).lower_bound > 1.0


@pytest.mark.parametrize("name", [n for n in mechanisms.names() if n not in ("laplace", "best")])
def test_smaller_moves_cost_what_the_mechanism_says(name: str) -> None:
    """Radius 1 on counts up to 10, where sensitivity and width of the domain differ; or categories."""
    counts = families.Poisson(bounds=(0, 10)), families.Categorical(11)
    family = first_fitting(name, *counts, radius=1.0)
    problem = problem_of(name, family=family, radius=1.0)
    report = audit_problem(problem, TRIALS)
    assert not report.refuted, str(report)
    made = problem.plan.mechanism(1.0, 1)
    xi = family.statistic(np.arange(11.0))
    if delta_of(name):
        assert all(made.spent_delta(a, b) <= DELTA for a, b in itertools.pairwise(xi))
        return
    worst = max(made.privacy_loss(a, b) for a, b in itertools.pairwise(xi))
    assert report.exact == pytest.approx(worst, rel=1e-9)


def test_rounding_of_a_statistic_is_no_second_stair() -> None:
    """Statistics a sensitivity apart differ by a last digit more, and cross one stair only."""
    for low in (0.1, 0.3, 0.7, 1e3 + 0.1):
        family = families.Normal(1.0, bounds=(low, low + 1.1))
        report = audit_problem(problem_of("staircase", family=family, radius=0.1), TRIALS)
        assert report.exact == pytest.approx(1.0, rel=1e-9)
        assert not report.refuted


@pytest.mark.parametrize("name", [n for n in mechanisms.names() if n != "laplace"])
def test_what_draws_laplace_noise_itself_is_refused(name: str) -> None:
    """It took sqrt(Var/2) for the scale of Laplace noise, and was wrong in both directions."""
    problem = problem_of(name)
    moves = signal_moves(problem, 0, 1.0)
    for attempt in (
        lambda: exact_loss(problem, moves, EVERYONE),
        lambda: view_mechanism(problem, moves, EVERYONE),
        lambda: audit_neighbour(problem, TRIALS),
        lambda: worst_neighbours(problem),
    ):
        with pytest.raises(PrivacyError, match=f"mechanism {name} perturbs the statistic"):
            attempt()


def test_a_loss_at_delta_zero_does_not_refute_a_delta() -> None:
    """(1, 0.01)-DP allows losses beyond 1; the same numbers refute a pure claim."""
    report = AuditReport("smooth", 1.0, 0.01, 0.9, 0.0, 0.95, 1000, "0, 1", "tail", exact=1.05)
    assert not report.refuted
    assert "1.05 exactly at delta = 0" in str(report)
    assert replace(report, delta=0.0).refuted
    assert replace(report, delta_lower_bound=0.02).refuted
    family = families.LogNormal(1.0, bounds=(0.5, 8.0))
    source = SyntheticSignals(family, {"mu": 0.5}, 9, seed=1)
    smooth = NetworkDP(1.0, 0.01, sensitivity="smooth")
    made = Problem(RING, algorithms.LearnNetwork(), family, source, smooth, 3, seed=2)
    for found in worst_neighbours(made):
        assert found.lower_bound == 0.0
        assert "refutes no delta" in found.found
