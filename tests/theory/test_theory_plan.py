"""Plans against the runs that they predict: within 5%, as `veilsum run` measures them.

Root mean squares over 8,000 replicas have a relative standard error of 0.9% at most (a mean of
squared sums of Laplace noise): 5% is more than 5 of them.
"""

import math
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilsum as vs
from tests.theory.theory_cases import GRAPHS, run
from veilsum import networks, theory
from veilsum.errors import NetworkError, PrivacyError, VeilsumError
from veilsum.privacy import Batches, NetworkDP, NoPrivacy, SignalDP
from veilsum.scenario import Scenario
from veilsum.simulation import Record, simulate
from veilsum.theory import spectrum

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")

NETWORK = {
    "geometric": """[network]
graph = "random-geometric"
options = { size = 40, radius = 0.3, seed = 1 }
""",
    "ring": """[network]
graph = "ring"
options = { size = 31 }
""",
    "torus": """[network]
graph = "torus"
options = { rows = 5, columns = 6 }
weights = "lazy-metropolis"
""",
}
NORMAL = '[family]\nname = "normal"\nsigma = 1.0\n[signals]\ndraw = { mu = 2.0 }\n'
CLIPPED = """[family]
name = "log-normal"
sigma = 1.0
bounds = [1.0, inf]
[signals]
draw = { mu = 1.0 }
"""
SCENARIOS = {
    "offline signal": (
        NETWORK["geometric"] + NORMAL + '[privacy]\nprotect = "signal"\nepsilon = 1.0\n'
        '[algorithm]\nname = "average"\nrounds = 40\n',
        {"error": 0.3},
    ),
    "online signal, rounds": (
        NETWORK["ring"] + NORMAL + '[privacy]\nprotect = "signal"\nepsilon = 1.0\n'
        '[algorithm]\nname = "learn"\nrounds = 40\n',
        {"error": 0.2, "epsilon": 1.0},
    ),
    "online network": (
        NETWORK["torus"] + NORMAL + '[privacy]\nprotect = "network"\nepsilon = 1.0\nradius = 0.1\n'
        '[algorithm]\nname = "learn-network"\nrounds = 60\n',
        {"error": 2.0, "norm": "l2"},
    ),
    "clipped signals": (
        NETWORK["ring"] + CLIPPED + '[privacy]\nprotect = "signal"\nepsilon = 2.0\n'
        '[algorithm]\nname = "jacobi"\nrounds = 60\ndimension = 1.0\n',
        {"error": 0.2},
    ),
    "offline network": (
        NETWORK["geometric"] + NORMAL
        + '[privacy]\nprotect = "network"\nepsilon = 1.0\nradius = 0.1\n'
        '[algorithm]\nname = "average"\nrounds = 60\n',
        {"rounds": 30, "epsilon": 0.5},
    ),
    "smooth sensitivity": (
        NETWORK["torus"] + CLIPPED
        + '[privacy]\nprotect = "signal"\nepsilon = 2.0\ndelta = 0.01\nsensitivity = "smooth"\n'
        '[algorithm]\nname = "learn"\nrounds = 30\n',
        {"error": 0.25},
    ),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_prediction_is_within_5_percent_of_the_run(name: Any) -> None:
    asked: Any
    text, asked = SCENARIOS[name]
    problem = Scenario.parse(text).build().problem
    made = theory.plan(problem, **asked)
    assert made.best.reached, made.best
    trace = simulate(replace(made.problem, replicas=8000, seed=5), Record(estimates=False))
    measured = np.sqrt((trace.total[-1, 0] ** 2).mean())
    unit = 1.0 if made.norm == "l2" else np.sqrt(problem.network.size)
    assert made.best.error == pytest.approx(measured / unit, rel=0.05)
    if made.target is not None:
        assert made.best.error <= made.target * 1.002
    assert made.surface.shape == (len(made.rounds), len(made.epsilons))


def test_the_smallest_budget_is_the_smallest() -> None:
    problem = run("average", GRAPHS["geometric"], SignalDP(1.0), rounds=60, replicas=1).problem
    made = theory.plan(problem, error=0.5)
    assert made.best.epsilon is not None
    less = theory.plan(made.problem, epsilon=made.best.epsilon * 0.995, rounds=60)
    own = [
        c
        for c in less.candidates
        if (c.algorithm, c.weights) == (made.best.algorithm, made.best.weights)
    ]
    assert own[0].error > 0.5


@pytest.mark.thorough
def test_the_fewest_rounds_are_the_fewest() -> None:
    problem = run("learn", GRAPHS["torus"], SignalDP(1.0), replicas=1).problem
    made = theory.plan(problem, error=0.3, epsilon=1.0)
    found = theory.expected(replace(made.problem, rounds=made.best.rounds))
    assert found.total[made.best.rounds, 0] <= 0.3 * 4 < found.total[made.best.rounds - 1, 0]


def test_a_faster_algorithm_is_found_on_a_long_path() -> None:
    mixing = networks.metropolis(networks.path(60))
    problem = run("average", mixing, SignalDP(1.0), rounds=150, replicas=1).problem
    made = theory.plan(problem, error=0.25)
    assert made.best.algorithm in ("jacobi", "chebyshev")
    assert made.best.epsilon is not None
    slow = [c for c in made.candidates if (c.algorithm, c.weights) == ("average", "metropolis")]
    assert slow[0].epsilon is None or slow[0].epsilon > 1.2 * made.best.epsilon
    assert tomllib.loads(made.toml())["variant"][0]["algorithm"]["name"] == made.best.algorithm


def test_only_algorithms_that_keep_the_guarantee_are_compared() -> None:
    claimed = run("average", GRAPHS["path"], NetworkDP(1.0), replicas=1).problem
    assert {c.algorithm for c in theory.plan(claimed).candidates} == {"average"}
    proved = run("learn-network", GRAPHS["path"], NetworkDP(1.0), replicas=1).problem
    assert {c.guarantee for c in theory.plan(proved).candidates} == {"proved"}
    nothing = run("jacobi", GRAPHS["path"], NetworkDP(1.0), replicas=1).problem
    assert {c.algorithm for c in theory.plan(nothing).candidates} == {"average"}


@pytest.mark.thorough
def test_without_protection_rounds_are_what_there_is_to_find() -> None:
    problem = run("average", GRAPHS["path"], NoPrivacy(), epsilons=(), replicas=1).problem
    made = theory.plan(problem, error=0.01)
    assert made.solved == "rounds"
    assert made.best.epsilon is None
    assert 'privacy.protect = "nothing"' in made.toml()


def test_parts_add_up_and_what_is_out_of_reach_says_so() -> None:
    problem = run("learn", GRAPHS["path"], SignalDP(1.0), replicas=1).problem
    made = theory.plan(problem)
    best = made.best
    assert sum(part**2 for part in best.split) == pytest.approx(best.error**2)
    short = theory.plan(problem, error=1e-6)
    assert not short.best.reached
    assert "add rounds" in short.best.reason
    assert short.best.epsilon is None
    never = theory.plan(problem, error=1e-3, epsilon=0.1, most_rounds=50)
    assert not never.best.reached


def test_what_is_refused() -> None:
    problem = run("average", GRAPHS["path"], SignalDP(1.0), replicas=1).problem
    with pytest.raises(VeilsumError, match="leave one"):
        theory.plan(problem, error=0.1, epsilon=1.0, rounds=5)
    with pytest.raises(VeilsumError, match="error must be"):
        theory.plan(problem, error=-1.0)
    with pytest.raises(PrivacyError, match="epsilon"):
        theory.plan(problem, epsilon=0.0)
    with pytest.raises(VeilsumError, match="norm"):
        theory.plan(problem, norm="l1")
    failing = networks.link_failures(networks.ring(9), 0.3, seed=1)
    with pytest.raises(NetworkError, match="change with the round"):
        theory.plan(run("average", failing, SignalDP(1.0), replicas=1).problem, error=1.0)


def test_a_plan_with_another_mechanism_reaches_what_it_says() -> None:
    """Its variance is not proportional to 1/epsilon^2, and that of duchi has a floor."""
    ring, family = vs.networks.metropolis("ring:15"), vs.families.Normal(1.0, bounds=(0.0, 1.0))
    source = vs.simulation.SyntheticSignals(family, {"mu": 0.5}, 15, seed=1)
    for name, error, reached in (
        ("piecewise", 0.3, True),
        ("duchi", 0.12, False),
    ):
        request = vs.privacy.SignalDP(1.0, radius=math.inf, mechanism=name)
        problem = vs.simulation.Problem(ring, vs.algorithms.Average(), family, source, request, 50)
        found = vs.theory.plan(problem, error=error)
        assert found.best.reached == reached, (name, found)
        if reached:
            assert 0.9 * error <= found.best.error <= error * (1 + 1e-6)
        else:
            assert found.best.error > error


def test_table_1_is_about_laplace_noise() -> None:
    """It took another mechanism for Laplace noise."""
    ring, family = vs.networks.metropolis("ring:15"), vs.families.Normal(1.0, bounds=(0.0, 1.0))
    source = vs.simulation.SyntheticSignals(family, {"mu": 0.5}, 15, seed=1)
    request = vs.privacy.SignalDP(1.0, radius=math.inf, mechanism="hybrid")
    problem = vs.simulation.Problem(ring, vs.algorithms.Average(), family, source, request, 5)
    with pytest.raises(VeilsumError, match="about Laplace noise"):
        vs.theory.table_1(problem)
    batches = vs.privacy.SignalDP(1.0, batches=Batches(2.0))
    with pytest.raises(VeilsumError, match="leave batches out"):
        vs.theory.table_1(replace(problem, algorithm=vs.algorithms.Learn(), privacy=batches))


def test_a_stream_is_offered_batches_and_what_they_cost() -> None:
    problem = run("learn", GRAPHS["ring"], SignalDP(1.0), replicas=1, rounds=60).problem
    found = theory.plan(problem, error=0.4)
    offer = found.offer
    assert offer is not None
    assert offer.batches == Batches(2.0, longest=6)  # a tenth of the rounds
    assert offer.lacking == 5
    assert found.best.batches is None  # freshness is never given up unasked
    assert found.best.epsilon is not None
    assert offer.epsilon is not None
    assert offer.epsilon < 0.8 * found.best.epsilon
    assert f"epsilon = {offer.epsilon:g} is enough, not {found.best.epsilon:g}" in found.offered()
    assert "lacks up to 5 of an agent's latest readings" in found.offered()
    assert found.to_dict()["offer"]["batches"] == {"growth": 2.0, "longest": 6}

    accepted = replace(found.problem, privacy=SignalDP(offer.epsilon, batches=offer.batches))
    accepted = replace(accepted, epsilons=(), replicas=8000, seed=2)
    errors = simulate(accepted, Record(estimates=False)).total[-1]
    measured = math.sqrt((errors**2).mean() / accepted.network.size)
    assert measured == pytest.approx(offer.error, rel=0.05)
    again = theory.plan(accepted, error=0.4)
    assert again.offer is None
    assert "batches = { growth = 2.0, longest = 6 }" in again.toml()


def test_batches_are_offered_where_they_have_a_proof_only() -> None:
    for name, request in (("average", SignalDP(1.0)), ("learn-network", NetworkDP(1.0))):
        problem = run(name, GRAPHS["ring"], request, replicas=1, rounds=40).problem
        assert theory.plan(problem).offer is None
        assert theory.plan(problem).offered() == ""


def test_a_plan_on_a_large_network_never_waits_for_all_eigenvalues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither for noise that is alike nor for noise that follows the signals: the first variant's."""
    scenario = Scenario.load(ROOT / "examples" / "us-power-grid.toml")
    monkeypatch.setattr(spectrum, "dense", lambda _: pytest.fail("all eigenvalues"))
    for variant in ("offline-network", "local"):
        problem = replace(scenario.build(variant).problem, rounds=9)
        found = theory.plan(problem)
        assert found.best.rounds == 9
        assert (len(found.epsilons) == 1) == problem.privacy.reads_signals
