"""What `best` recommends, `estimate` and an agent can run: the same mechanism at every step.

Statistical assertions: fixed seeds, |z| <= 6 (false alarm 2e-9), and a weakened twin that fails.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import veilsum as vs
from veilsum import algorithms, families, networks
from veilsum.agents.ledger import Ledger
from veilsum.agents.manifest import Manifest
from veilsum.agents.release import ReleaseMechanism, check_guarantee, guarantee
from veilsum.api import solve
from veilsum.errors import PrivacyError, SignalError
from veilsum.front.of_runs import of_runs
from veilsum.privacy import (
    MECHANISMS,
    Budget,
    NetworkDP,
    NoPrivacy,
    SignalDP,
    Statistic,
    Status,
    best,
    guarantee_of,
    mechanisms,
    plan,
)
from veilsum.results.describe import mechanisms_of
from veilsum.simulation import Problem, RecordedSignals, SyntheticSignals, simulate
from veilsum.testing import PredictableEntropy

RING = networks.metropolis("ring:9")
BOUNDED = families.Normal(1.0, bounds=(0.0, 1.0))
READINGS = np.linspace(0.1, 0.9, 9)
ANY = math.inf  # any two values of the domain
NAMES = [name for name in mechanisms.names() if name not in ("laplace", "best")]


def asked(name: str, epsilon: float, radius: float | None = None) -> SignalDP:
    """A request for that mechanism, with a delta for those that need one."""
    delta = 0.01 if name in MECHANISMS and MECHANISMS[name].takes_delta else 0.0
    return SignalDP(epsilon, delta, radius, mechanism=name)


def test_every_mechanism_that_can_be_asked_for_is_here() -> None:
    assert {"laplace", *NAMES} == {name for name, kind in MECHANISMS.items() if kind.requested}
    assert {"staircase", "discrete-laplace", "duchi", "piecewise", "hybrid"} <= set(NAMES)


def problem_of(
    name: str, family: Any = BOUNDED, algorithm: str = "average", epsilons: Any = (1.0,),
    replicas: int = 4000, rounds: int = 3, radius: float = ANY,
) -> Problem:  # fmt: skip
    signals = READINGS if not family.support.integer else np.arange(9) % 2
    tiled = np.tile(np.asarray(signals, float)[:, None], (1, rounds))
    source = RecordedSignals(vs.signals.as_signals(tiled, labels=RING.labels))
    request = asked(name, epsilons[0], radius)
    made = algorithms.get(algorithm, RING)
    return Problem(RING, made, family, source, request, rounds, epsilons, replicas, seed=3)


def family_for(name: str) -> Any:
    """The first that the mechanism takes."""
    kind = MECHANISMS[name]
    tried: Any = (BOUNDED, families.Bernoulli(), families.Categorical(6))
    delta = 0.01 if kind.takes_delta else 0.0
    return next(f for f in tried if not kind.misfit(f.moves(ANY), 1.0, delta))


def z_of_mean_and_variance(problem: Problem, epsilon: float | None = None) -> tuple[float, float]:
    """How many standard errors the network's mean and its variance are from those stated.

    Of the first component.
    """
    trace = simulate(problem)
    means = trace.mean[0, :, 0]
    xi = problem.family.columns(problem.source.signals(1, 1))[..., 0].mean()
    request = problem.privacy if epsilon is None else problem.privacy.at(epsilon)
    made = plan(request, problem.family).mechanism()
    values = problem.family.columns(problem.source.signals(1, 1))[..., 0].ravel()
    stated = float(made.variance(values).sum()) / 81
    scatter = ((means - xi) ** 2).std() / math.sqrt(means.size)
    return (
        float((means.mean() - xi) / math.sqrt(stated / means.size)),
        float((((means - xi) ** 2).mean() - stated) / scatter),
    )


@pytest.mark.parametrize("name", NAMES)
def test_estimates_are_unbiased_and_have_the_variance_of_the_mechanism(name: str) -> None:
    problem = problem_of(name, family_for(name))
    mean, variance = z_of_mean_and_variance(problem)
    assert abs(mean) <= 6
    assert abs(variance) <= 6
    weak = replace(problem, epsilons=(1.3,))
    assert abs(z_of_mean_and_variance(weak, epsilon=1.0)[1]) > 6  # too little noise is seen


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_hybrid_halves_the_variance_of_local_laplace(epsilon: float) -> None:
    def stated(name: str) -> float:
        problem = problem_of(name, epsilons=(epsilon,), replicas=2)
        return float(simulate(problem).noise_variance[0, 0, 0])

    ratio = stated("laplace") / stated("hybrid")
    made = mechanisms.HybridMechanism(epsilon, 0.0, 1.0)
    assert ratio == pytest.approx(2 / epsilon**2 / made.worst_variance)
    assert ratio > 1.86


@pytest.mark.parametrize(("epsilon", "times"), [(1.0, 1.086), (3.0, 2.015), (5.0, 5.857)])
def test_discrete_laplace_has_less_variance_for_counts(epsilon: float, times: float) -> None:
    counts = [
        families.Bernoulli(),
        families.Poisson(bounds=(0, 10)),
        families.Geometric(bounds=(0, 10)),
    ]
    for family in counts:
        one, other = (
            plan(asked(name, epsilon, 1.0), family).mechanism().worst_variance
            for name in ("laplace", "discrete-laplace")
        )
        assert one / other == pytest.approx(times, rel=1e-3)


@pytest.mark.parametrize(
    "algorithm", ["average", "learn", "jacobi", "learn-network", "push-sum-learn"]
)
def test_the_stated_noise_variance_is_the_measured_one(algorithm: str) -> None:
    """Hybrid above eps*: the variance does not depend on the signal."""
    net = networks.column_stochastic("ring:9") if algorithm.startswith("push") else RING
    problem = replace(
        problem_of("hybrid", rounds=6), network=net, algorithm=algorithms.get(algorithm, net)
    )
    trace = simulate(problem)
    means = trace.mean[0, :, 0]
    xi = READINGS.mean()
    if net is RING:
        assert abs(means.mean() - xi) <= 6 * means.std() / math.sqrt(means.size)
    spread = ((means - means.mean()) ** 2).std() / math.sqrt(means.size)
    stated = float(trace.noise_variance[0, 0, 0])
    if algorithm != "push-sum-learn":  # of a ratio, the mean estimate has more parts
        assert abs(means.var() - stated) <= 6 * spread


def test_theory_expects_the_measured_cost_of_privacy() -> None:
    problem = problem_of("hybrid", rounds=8, replicas=3000)
    found = vs.theory.expected(problem, deviation=1.0)
    measured = float(np.sqrt((simulate(problem).privacy[-1, 0] ** 2).mean()))
    assert measured == pytest.approx(float(found.privacy[-1, 0]), rel=0.05)


def test_a_run_depends_neither_on_threads_nor_on_its_company(monkeypatch: Any) -> None:
    source = SyntheticSignals(families.Bernoulli(), {"p": 0.4}, 9, seed=1)
    base = replace(
        problem_of("hybrid", families.Bernoulli(), "learn", replicas=5, rounds=12),
        source=source, epsilons=(0.5, 1.0, 3.0),
    )  # fmt: skip
    whole: Any = simulate(base)
    for k, epsilon in enumerate((0.5, 1.0, 3.0)):
        alone: Any = simulate(replace(base, epsilons=(epsilon,)))
        assert np.array_equal(whole.final[:, k], alone.final[:, 0])
    monkeypatch.setenv("VEILSUM_THREADS", "1")
    again: Any = simulate(base)
    assert np.array_equal(again.final, whole.final)
    fewer: Any = simulate(replace(base, replicas=2))
    assert np.array_equal(whole.final[:, :, :2], fewer.final)
    other: Any = simulate(replace(base, seed=4))
    assert not np.array_equal(other.final, whole.final)


def test_readings_of_a_stream_are_perturbed_independently() -> None:
    """With one constant reading per agent, the mean over T rounds has 1/T of the variance."""
    problem = problem_of("duchi", algorithm="learn", rounds=16, replicas=3000)
    means = simulate(problem).mean[0, :, 0]
    made = plan(problem.privacy, BOUNDED).mechanism()
    stated = float(made.variance(READINGS).sum()) / 81 / 16
    spread = ((means - means.mean()) ** 2).std() / math.sqrt(means.size)
    assert abs(means.var() - stated) <= 6 * spread


@pytest.mark.parametrize(
    ("family", "radius", "expected"),
    [
        (BOUNDED, ANY, "hybrid"),
        (families.Bernoulli(), 1.0, "duchi"),
        (families.Poisson(), 1.0, "discrete-laplace"),
        (families.Normal(1.0), 1.0, "staircase"),
        (families.Normal(1.0, bounds=(0.0, 50.0)), 1.0, "staircase"),
        (families.MultivariateNormal(((1.0, 0.0), (0.0, 1.0))), 1.0, "laplace"),
    ],
)
def test_best_is_resolved_for_family_bounds_and_epsilon(
    family: Any, radius: float, expected: str
) -> None:
    request = SignalDP(1.0, radius=radius, mechanism="best")
    found = plan(request, family)
    made = found.mechanism()
    assert made.name == found.name == expected
    chosen = best(family.moves(radius), 1.0).mechanism
    assert chosen == made
    assert guarantee_of(request, algorithms.Average(), 10, family).status is Status.PROVED


def test_the_resolved_name_is_what_results_and_manifests_show() -> None:
    problem = problem_of("best", replicas=1, epsilons=(1.0, 30.0))
    result = solve(problem)
    assert mechanisms_of(result.problem) == ["hybrid", "staircase"]
    assert of_runs({"run": result}).origin["mechanism"] == "hybrid, staircase"
    assert Manifest.of(problem).mechanism == "hybrid"
    assert Manifest.of(replace(problem, privacy=NoPrivacy(), epsilons=())).mechanism == "none"


def test_a_scenario_names_the_mechanism(tmp_path: Any) -> None:
    text = """
[network]
graph = "ring:9"
[family]
name = "normal"
sigma = 1.0
bounds = [0.0, 1.0]
[signals]
draw = { mu = 0.5 }
[privacy]
protect = "signal"
epsilon = 1.0
mechanism = "MECHANISM"
[algorithm]
name = "average"
rounds = 3
"""
    from veilsum.errors import VeilsumError
    from veilsum.scenario import Scenario

    path = tmp_path / "s.toml"
    path.write_text(text.replace("MECHANISM", "hybrid"))
    made = Scenario.load(path).jobs()[0].problem
    assert made.privacy == SignalDP(1.0, radius=math.inf, mechanism="hybrid")
    path.write_text(text.replace("MECHANISM", "gauss"))
    with pytest.raises(VeilsumError, match="mechanism"):
        Scenario.load(path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NetworkDP(1.0, mechanism="hybrid"), "Network DP goes with mechanism laplace"),
        (lambda: SignalDP(1.0, 0.01, sensitivity="smooth", mechanism="hybrid"), "public scale"),
        (lambda: SignalDP(1.0, budget_fractions=(1.0,), mechanism="hybrid"), "budget fractions"),
        (
            lambda: SignalDP(1.0, mechanism="gauss"),
            "mechanism must be one of discrete-laplace, duchi",
        ),
    ],
)
def test_a_request_that_does_not_fit_is_refused(make: Any, message: str) -> None:
    with pytest.raises(PrivacyError, match=message):
        make()


@pytest.mark.parametrize(
    ("name", "algorithm", "family", "message"),
    [
        ("hybrid", "first-order", BOUNDED, "divides its budget over rounds"),
        ("hybrid", "first-order-edges", BOUNDED, "divides its budget|every link"),
        ("hybrid", "graph-homomorphic", BOUNDED, "divides its budget|along with its messages"),
        ("hybrid", "average", families.Normal(1.0), "needs a statistic between public bounds"),
        ("discrete-laplace", "average", BOUNDED, "needs a statistic of whole numbers"),
        ("staircase", "average", families.Categorical(3), "is for one number"),
    ],
)
def test_what_cannot_be_perturbed_is_refused_by_calibration_and_guarantee(
    name: str, algorithm: str, family: Any, message: str
) -> None:
    request, made = SignalDP(1.0, mechanism=name, radius=1.0), algorithms.get(algorithm, RING)
    with pytest.raises(PrivacyError, match=message):
        plan(request, family, made, RING, 10)
    stated = guarantee_of(request, made, 10, family)
    assert stated.status is Status.NONE


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["laplace", *NAMES])
def test_an_agent_releases_with_each(name: str, tmp_path: Any) -> None:
    """Through its ledger: proved, charged once, in whole units, unbiased, of the stated variance."""
    family = family_for(name)
    problem = problem_of(name, family, "learn", replicas=1)
    manifest = Manifest.of(problem)
    assert manifest.mechanism == name
    assert guarantee(manifest, family).status is Status.PROVED
    check_guarantee(manifest, family)
    agent = ReleaseMechanism(manifest, problem, "0")
    assert type(agent.mechanism(1)) is type(plan(problem.privacy, family).mechanism())
    event = agent.event(1)
    assert event is not None
    delta = problem.privacy.delta
    assert (event.epsilon, event.delta) == (1.0, delta)
    with Ledger.open(
        tmp_path / "a.ledger", manifest=manifest, agent="0", budget=Budget(1.0, delta)
    ) as book:
        first = agent.release(book, 1, 1.0)
        assert agent.release(book, 1, 0.0) == first
        assert (book.spent.epsilon, book.spent.delta) == (1.0, delta)
    entropy = PredictableEntropy(6, simulation_only=True)
    unit = 2.0**manifest.unit
    drawn = np.array([agent.draw(k, 1.0, entropy=entropy) for k in range(1, 3001)], float) / unit
    xi = family.columns(np.array(1.0))
    variance, off = np.asarray(agent.mechanism(1).release_variance(xi)), drawn - xi
    assert (np.abs(off.mean(axis=0)) <= 6 * np.sqrt(variance / len(drawn))).all()
    spread = (off**2).std(axis=0) / math.sqrt(len(drawn))
    assert (np.abs((off**2).mean(axis=0) - variance) <= 6 * spread + 1e-3 * variance).all()
    assert manifest.largest > np.abs(drawn).max()


def test_manifests_of_other_mechanisms_differ() -> None:
    one, other = (Manifest.of(problem_of(name, replicas=1)) for name in ("hybrid", "duchi"))
    assert one.first_difference(other.field_digests) == "mechanism"
    from veilsum.agents.ledger.records import release_terms

    assert release_terms(one) != release_terms(replace(one, mechanism="duchi"))


def test_no_privacy_is_a_request_like_the_others() -> None:
    none = NoPrivacy()
    assert (none.epsilon, none.mechanism, none.at(2.0)) == (math.inf, "none", none)
    assert none == NoPrivacy()
    assert plan(none, BOUNDED).mechanism().release([0.25]).tolist() == [0.25]
    assert guarantee_of(none, algorithms.Average()).status is Status.NONE
    with pytest.raises(PrivacyError, match="no finite privacy cost"):
        plan(none, BOUNDED).mechanism().event()


class Half(families.Poisson):
    """A user's subclass whose statistic is s/2: its integer support says nothing of xi."""

    def _xi(self, s: Any) -> Any:
        return s / 2


def test_a_subclass_does_not_inherit_that_its_statistic_is_whole() -> None:
    """Discrete Laplace noise on s/2 would show the parity of s."""
    family = Half(bounds=(0, 10))
    assert families.Poisson(bounds=(0, 10)).moves(1.0).whole
    assert not family.moves(1.0).whole
    best_of = SignalDP(1.0, radius=1.0, mechanism="best")
    assert plan(best_of, family).name != "discrete-laplace"
    with pytest.raises(PrivacyError, match="whole numbers"):
        plan(replace(best_of, mechanism="discrete-laplace"), family)


def test_simulated_discrete_noise_refuses_what_is_not_whole() -> None:
    """The simulator draws by `from_uniforms`, which checks as `sample` and `release` do."""
    made = mechanisms.DiscreteLaplaceMechanism(1.0, 1)
    with pytest.raises(SignalError, match="not whole numbers"):
        made.from_uniforms(np.array([1.0, 0.5]), np.full((made.uniforms, 2), 0.3))

    class Lying(Half):
        def moves(self, radius: float = 1.0) -> Statistic:
            return replace(super().moves(radius), step=1.0)

    with pytest.raises(SignalError, match="not whole numbers"):
        simulate(problem_of("discrete-laplace", Lying(bounds=(0, 10)), replicas=1, radius=1.0))
