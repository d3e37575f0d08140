"""What is drawn has the scale that the simulator's plan asks for, in whole units."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from veilsum import families
from veilsum.agents.manifest import Manifest
from veilsum.agents.release import ReleaseMechanism
from veilsum.errors import AgentError, PrivacyError, SignalError
from veilsum.privacy import LaplaceMechanism, NetworkDP, NoPrivacy, SignalDP, Status, plan
from veilsum.testing import PredictableEntropy

ENTROPY = PredictableEntropy(5, simulation_only=True)
LOG = families.LogNormal(1.0, bounds=(0.5, 8.0))
FAMILIES = [
    families.Normal(1.0, bounds=(0.0, 1.0)),
    families.Bernoulli(),
    LOG,
    families.LogNormal1p(1.0),
    families.NormalBoth(bounds=(-1.0, 2.0)),
    families.Categorical(4),
    families.Pareto(minimum=2.0),
]


def release_mechanism_of(problem: Any, label: Any = "0", research: Any = True, **terms: Any) -> Any:
    return ReleaseMechanism(Manifest.of(problem, **terms), problem, label, research=research)


def same_scale(release_mechanism: Any, problem: Any, reading: Any) -> None:
    """The exact scale is the calibrated one, but for what the grid and rounding cost."""
    noise = plan(
        problem.privacy, problem.family, problem.algorithm, problem.network, max(problem.rounds, 1)
    )
    n = problem.network.size
    t = reading if problem.algorithm.online else 0
    scales = noise.scale(np.ones((n, 1)), problem.run_epsilons[0], t)
    wanted = float(np.broadcast_to(scales, (n, 1))[int(release_mechanism.label), 0])
    found = release_mechanism.mechanism(reading).release_scale
    assert wanted <= found <= wanted * (1 + 2**-15)


@pytest.mark.thorough
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
@pytest.mark.parametrize("algorithm", ["average", "learn", "learn-network"])
@pytest.mark.parametrize("privacy", [SignalDP, NetworkDP])
def test_the_scale_is_the_calibrated_one(
    problem_of: Any, family: Any, algorithm: Any, privacy: Any
) -> None:
    problem = problem_of(algorithm, privacy(0.7, radius=1.0), family, graph="star:6")
    for label in ("0", "3"):  # the centre and a leaf have neighbours of other weights
        release_mechanism = release_mechanism_of(problem, label)
        for reading in (1, 2, 40) if problem.algorithm.online else (1,):
            same_scale(release_mechanism, problem, reading)


def test_a_mechanism_with_half_the_noise_is_caught(problem_of: Any) -> None:
    problem = problem_of()
    release_mechanism = release_mechanism_of(problem)
    release_mechanism.epsilon *= 2
    release_mechanism._last = None
    with pytest.raises(AssertionError):
        same_scale(release_mechanism, problem, 1)


def test_a_mechanism_that_forgets_the_neighbours_is_caught(problem_of: Any) -> None:
    family = families.Normal(1.0, bounds=(0.0, 0.01))
    problem = problem_of("learn-network", NetworkDP(1.0), family)
    alone = release_mechanism_of(problem_of("learn-network", SignalDP(1.0), family))
    with pytest.raises(AssertionError):
        same_scale(alone, problem, 1)
    same_scale(release_mechanism_of(problem), problem, 1)


def test_the_round_counts_where_the_algorithm_asks_for_more_noise(problem_of: Any) -> None:
    problem = problem_of("learn", NetworkDP(1.0), families.Normal(1.0, bounds=(0.0, 0.01)))
    release_mechanism = release_mechanism_of(problem)
    assert (
        release_mechanism.mechanism(1, 5).scale
        == release_mechanism.mechanism(5).scale
        > release_mechanism.mechanism(2).scale
    )


@pytest.mark.thorough
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_releases_are_whole_units_on_the_grid(problem_of: Any, family: Any) -> None:
    problem = problem_of("learn", SignalDP(0.7), family)
    release_mechanism = release_mechanism_of(problem)
    signal = 3.0 if family.support.low >= 1 else 1.0
    step = 2 ** (release_mechanism.manifest.unit + release_mechanism.mechanism(1).exponent)
    assert step >= 1
    for reading in range(1, 30):
        sums = release_mechanism.draw(reading, signal, entropy=ENTROPY)
        assert len(sums) == family.dimension
        assert all(isinstance(number, int) and number % step == 0 for number in sums)


@pytest.mark.thorough
def test_the_mean_of_many_draws_is_the_statistic(problem_of: Any) -> None:
    """5.4 standard errors: fails by chance less than once in 10^7 runs, and the seed is fixed."""
    release_mechanism = release_mechanism_of(problem_of("learn", SignalDP(2.0)))
    unit = 2.0**release_mechanism.manifest.unit
    drawn = [release_mechanism.draw(k, 0.625, entropy=ENTROPY)[0] / unit for k in range(1, 4001)]
    error = math.sqrt(float(release_mechanism.mechanism(1).release_variance(0.0)) / len(drawn))
    assert abs(np.mean(drawn) - 0.625) < 5.4 * error
    assert abs(np.mean(drawn) - 0.625 - 12 * error) > 5.4 * error  # a shift would be seen
    assert np.mean(np.abs(np.array(drawn) - 0.625)) == pytest.approx(0.5, rel=0.1)


def test_the_release_goes_through_the_ledger_once(
    open_ledger: Any, problem_of: Any, manifest: Any
) -> None:
    release_mechanism, ledger = ReleaseMechanism(manifest, problem_of(), "0"), open_ledger()
    first = release_mechanism.release(ledger, 1, 0.5)
    assert release_mechanism.release(ledger, 1, 0.9) == first
    assert ledger.spent.epsilon == 0.25
    assert first.weight == 2**manifest.unit


def test_the_cost_is_the_epsilon_of_the_manifest(problem_of: Any) -> None:
    cost = release_mechanism_of(problem_of("learn", SignalDP(0.7))).event(1)
    assert (cost.epsilon, cost.delta, cost.mechanism) == (0.7, 0.0, "discrete-laplace")


@pytest.mark.parametrize(
    ("family", "signal"),
    [
        (families.LogNormal1p(1.0), -0.4375),
        (families.Bernoulli(), 0.4375),
        (families.Normal(1.0), math.nan),
        (families.Normal(1.0, bounds=(0.0, 1.0)), math.nan),
        (families.Normal(1.0), math.inf),
        (families.Normal(1.0), "0.4375 kWh"),
        (families.Normal(1.0), [0.4375, 0.4375]),
    ],
)
def test_a_reading_outside_is_named_by_its_number(
    problem_of: Any, family: Any, signal: Any
) -> None:
    release_mechanism = release_mechanism_of(problem_of("learn", SignalDP(1.0), family))
    with pytest.raises(SignalError, match="reading 7 of agent 0") as caught:
        release_mechanism.draw(7, signal)
    assert "4375" not in str(caught.value)
    assert "nothing was released" in str(caught.value)


def test_public_bounds_clip(problem_of: Any) -> None:
    release_mechanism = release_mechanism_of(problem_of("learn", SignalDP(1e6)))
    unit = 2.0**release_mechanism.manifest.unit
    assert release_mechanism.draw(1, 55.0, entropy=ENTROPY)[0] / unit == pytest.approx(
        1.0, abs=1e-4
    )
    assert release_mechanism.draw(1, -55.0, entropy=ENTROPY)[0] / unit == pytest.approx(
        0.0, abs=1e-4
    )


def test_no_release_is_beyond_what_the_network_takes(problem_of: Any) -> None:
    problem = problem_of("learn", SignalDP(0.01))
    manifest = replace(Manifest.of(problem), largest=1.5)
    release_mechanism = ReleaseMechanism(manifest, problem, "0")
    most = 3 * 2 ** (manifest.unit - 1)
    assert {abs(release_mechanism.draw(k, 0.5, entropy=ENTROPY)[0]) for k in range(1, 40)} >= {most}
    assert all(
        abs(release_mechanism.draw(k, 0.5, entropy=ENTROPY)[0]) <= most for k in range(1, 40)
    )


def test_a_unit_coarser_than_the_grid_is_refused(problem_of: Any) -> None:
    problem = problem_of()
    coarse = replace(Manifest.of(problem), unit=20)
    with pytest.raises(AgentError, match=r"manifest's unit is 2\^-20"):
        ReleaseMechanism(coarse, problem, "0")


def test_another_family_is_refused(problem_of: Any) -> None:
    with pytest.raises(AgentError, match="manifest is for the family Normal"):
        ReleaseMechanism(Manifest.of(problem_of()), problem_of(family=families.Bernoulli()), "0")


def test_an_offline_algorithm_takes_one_reading(problem_of: Any) -> None:
    release_mechanism = release_mechanism_of(problem_of("average", SignalDP(1.0)))
    assert release_mechanism.draw(1, 0.5)
    with pytest.raises(AgentError, match="takes one reading"):
        release_mechanism.mechanism(2)


def test_errors_of_floats_are_bounded() -> None:
    """xi in floats against xi in 60 digits, for signals all over the support."""
    from decimal import Decimal, getcontext

    getcontext().prec = 60
    rng = np.random.default_rng(3)
    cases: Any = (
        (LOG, 0.5, 8.0, lambda s: Decimal(s).ln()),
        (families.LogNormal1p(1.0), 0.0, 1e6, lambda s: (1 + Decimal(s)).ln()),
        (families.Pareto(minimum=3.0), 3.0, 1e6, lambda s: (Decimal(s) / 3).ln()),
    )
    for family, low, high, exact in cases:
        made: Any = LaplaceMechanism.fit(family.moves(1.0), 1.0, released=True)
        bound = Decimal(made.input_error)
        for s in rng.uniform(low, high, 300).tolist():
            assert abs(Decimal(float(family.columns(s)[0])) - exact(s)) <= bound / 4
        assert bound < Decimal("2e-12")
    assert families.Normal(1.0).moves(1.0).error == 0
    with pytest.raises(PrivacyError, match="give public bounds"):
        LaplaceMechanism.fit(families.Laplace(location=0.1).moves(1.0), 1.0, released=True)


def test_no_privacy_releases_the_statistic_itself(problem_of: Any, open_ledger: Any) -> None:
    problem = problem_of("learn", NoPrivacy())
    release_mechanism = release_mechanism_of(problem)
    assert release_mechanism.event(1) is None
    assert release_mechanism.draw(1, 0.625) == (
        int(Fraction(5, 8) * 2**release_mechanism.manifest.unit),
    )
    ledger = open_ledger(manifest=release_mechanism.manifest, budget=None)
    assert release_mechanism.release(ledger, 1, 0.625).sums == release_mechanism.draw(1, 0.625)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["smooth", "smooth-as-published"])
def test_a_private_scale_does_not_show_in_the_grid(problem_of: Any, kind: Any) -> None:
    problem = problem_of("learn", SignalDP(1.0, 0.01, 1.0, kind), LOG)
    release_mechanism = release_mechanism_of(problem)
    step = 2 ** (release_mechanism.manifest.unit + release_mechanism.mechanism(1).exponent)
    for signal in (0.5, 1.0, 8.0):
        sums = [release_mechanism.draw(k, signal, entropy=ENTROPY)[0] // step for k in range(1, 40)]
        assert any(number % 2 for number in sums)  # every one of them uses the finest step
    noise = plan(problem.privacy, LOG, problem.algorithm, problem.network, 50)
    scales = noise.scale(np.linspace(0.5, 8.0, 6)[:, None], 1.0, 1)
    smooth = release_mechanism.mechanism(1)
    assert smooth.multiple * smooth.rule.least <= scales.min()
    assert release_mechanism.event(1).delta == 0.01
    assert smooth.status is (Status.PROVED if kind == "smooth" else Status.REFUTED)


@pytest.mark.thorough
def test_smooth_noise_has_the_calibrated_scale(problem_of: Any) -> None:
    """E|X| = sd|X| = scale: 600 draws are within a quarter of it, 6 standard errors."""
    problem = problem_of("learn", SignalDP(1.0, 0.01, 1.0, "smooth"), LOG)
    release_mechanism = release_mechanism_of(problem)
    unit = 2.0**release_mechanism.manifest.unit
    noise = plan(problem.privacy, LOG, problem.algorithm, problem.network, 50)
    for signal in (0.6, 6.0):
        drawn = [
            release_mechanism.draw(k, signal, entropy=ENTROPY)[0] / unit for k in range(1, 601)
        ]
        scale = float(noise.scale(np.full((6, 1), signal), 1.0, 1)[0, 0])
        assert np.mean(np.abs(np.array(drawn) - math.log(signal))) == pytest.approx(scale, rel=0.25)


def test_a_private_scale_needs_an_upper_bound(problem_of: Any) -> None:
    family = families.LogNormal(1.0, bounds=(0.5, math.inf))
    problem = problem_of("learn", SignalDP(1.0, 0.01, 1.0, "smooth"), family)
    with pytest.raises(AgentError, match="no least value without an upper bound"):
        release_mechanism_of(problem)


def test_budget_fractions_are_for_research(problem_of: Any) -> None:
    fractions = (0.5, 2.0, 1.0, 1.0, 1.0, 1.0)
    problem = problem_of("learn", SignalDP(1.0, budget_fractions=fractions))
    with pytest.raises(AgentError, match="budget fractions"):
        release_mechanism_of(problem, research=False)
    for label in ("0", "1", "2"):
        release_mechanism = release_mechanism_of(problem, label)
        same_scale(release_mechanism, problem, 1)
        assert release_mechanism.event(1).epsilon == fractions[int(label)]
        assert release_mechanism.guarantee.epsilon == fractions[int(label)]


@pytest.mark.parametrize("privacy", [SignalDP(0.5), NetworkDP(0.5)], ids=["signal", "network"])
def test_the_guarantee_has_the_event_that_is_charged(problem_of: Any, privacy: Any) -> None:
    """It had that of ideal Laplace noise, and the ledger is charged for discrete Laplace noise."""
    found = release_mechanism_of(problem_of("learn-network", privacy))
    alone = found.guarantee.signals or found.guarantee
    assert alone.event == found.event(1)
    assert alone.event.mechanism == "discrete-laplace"
    assert alone.for_window(3, delta=1e-6).epsilon <= 1.5 * (1 + 1e-12)
