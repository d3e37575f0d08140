"""The masked sum in the simulator: one number for all, exact errors, absences and restarts."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import veilsum as vs
from veilsum import algorithms, families, networks, theory
from veilsum.api import solve
from veilsum.errors import AlgorithmError, PrivacyError
from veilsum.families import LogNormal1p
from veilsum.privacy import MaskedDP, NoPrivacy, SignalDP, guarantee_of
from veilsum.results import Result
from veilsum.simulation import Problem, Record, SyntheticSignals, simulate

RING = networks.metropolis("ring:41")
NORMAL = families.Normal(sigma=1.0)
SMALL = 1e-6  # two-sided, of every statistical test here


def problem(
    privacy: Any = None, net: Any = RING, family: Any = NORMAL, draw: Any = None, **kwargs: Any
) -> Problem:
    options = {k: kwargs.pop(k) for k in ("missing", "restarts") if k in kwargs}
    made: Any = algorithms.get("masked-sum", net, **options)
    source = SyntheticSignals(family, draw or {"mu": 2.0}, net.size, seed=1)
    asked = privacy or MaskedDP(1.0, colluders=8, absent=4, attempts=2)
    return Problem(net, made, family, source, asked, made.arrival + 5, **kwargs)


def close(found: Any, expected: Any, replicas: int) -> bool:
    """A mean square of draws with kurtosis 6 at most, within 5.5 standard errors (below 1e-6)."""
    return bool(np.all(np.abs(found - expected) <= 5.5 * np.sqrt(5 / replicas) * expected))


def test_all_agents_have_the_same_estimate_after_the_floods_and_none_before() -> None:
    todo = problem(replicas=3)
    trace = simulate(todo, Record(every=1))
    assert trace.private is not None
    arrival = algorithms.get("masked-sum", RING).at
    assert todo.algorithm.arrival == 5 * 20  # type: ignore[attr-defined]
    assert arrival(100).innovation == 1.0
    assert np.all(trace.private[:100] == 0.0)
    assert np.all(np.ptp(trace.private[100:], axis=1) == 0.0)
    assert np.all(trace.private[100] == trace.private[-1])
    assert np.all(trace.private[100] != 0.0)
    assert np.all(trace.decentralisation[100:] == 0.0)  # the mean, to the bit
    assert np.all(trace.disagreement == 0.0)


def test_the_result_is_a_multiple_of_the_grid_over_the_roster() -> None:
    todo = problem(replicas=20)
    made = todo.plan.mechanism(1.0, 1)
    final = simulate(todo).final
    assert final is not None
    steps = final[0].ravel() * 41 / made.step  # type: ignore[attr-defined]
    assert np.abs(steps - np.round(steps)).max() < 1e-6


@pytest.mark.parametrize("options", [{}, {"missing": 3}, {"missing": 4, "restarts": 1}])
def test_theory_gives_the_errors_of_runs(options: Any) -> None:
    replicas = 3000
    todo = problem(replicas=replicas, epsilons=(0.3, 2.0), **options)
    trace, exact = simulate(todo), theory.expected(todo)
    assert close((trace.privacy[-1] ** 2).mean(axis=-1), exact.privacy[-1] ** 2, replicas)
    assert close((trace.total[-1] ** 2).mean(axis=-1), exact.total[-1] ** 2, replicas)
    away = (trace.decentralisation**2).mean(axis=-1)
    assert close(away[-1], exact.decentralisation[-1] ** 2, replicas)
    assert close(away[0], exact.decentralisation[0] ** 2, replicas)
    assert not exact.estimated
    assert np.all(exact.privacy[: todo.algorithm.arrival] == 0)  # type: ignore[attr-defined]


def test_a_wrong_variance_would_be_caught() -> None:
    todo = problem(replicas=3000)
    found = (simulate(todo).privacy[-1] ** 2).mean(axis=-1)
    exact = theory.expected(todo).privacy[-1] ** 2
    assert close(found, exact, 3000)
    assert not close(found, 0.7 * exact, 3000)  # as if nobody could collude


def test_the_noise_of_the_sum_has_the_distribution_of_its_parts() -> None:
    """GDL(|F|/h) in one draw, and |F| draws of GDL(1/h): the same distribution (alarm below 1e-6)."""
    todo = problem(MaskedDP(1.0, colluders=20, steps=64), replicas=4000)
    made = todo.plan.mechanism(1.0, 1)
    trace = simulate(todo)
    noise = np.round((trace.mean[0, :, 0] - trace.target[:, 0]) * 41 / made.step)  # type: ignore[attr-defined]
    parts = made.terms.noise.sample((4000, 41), np.random.default_rng(5)).sum(axis=1)  # type: ignore[attr-defined]
    whole = made.terms.noise.sample((4000, 21), np.random.default_rng(5)).sum(axis=1)  # type: ignore[attr-defined]
    assert stats.ks_2samp(noise, parts).pvalue > SMALL
    assert stats.ks_2samp(noise, whole).pvalue < SMALL  # h draws instead of |F|


def test_the_us_grid_has_the_errors_of_a_trusted_server_nearly() -> None:
    """eps = 1, radius 1, LogNormal1p: 2.0e-4, 2.4e-4 and 2.9e-4 for c + d = 0, 30 and 50%."""
    grid = networks.metropolis(networks.load("us-power-grid"))
    family, n = LogNormal1p(sigma=1.0), grid.size
    found = []
    for fraction in (0.0, 0.3, 0.5):
        request = MaskedDP(1.0, colluders=int(fraction * n), attempts=1)
        todo = problem(request, grid, family, {"mu": 1.0})
        found.append(theory.expected(todo).privacy[-1, 0] / np.sqrt(n))
    assert found == pytest.approx([1.98e-4, 2.37e-4, 2.81e-4], rel=5e-3)
    local = Problem(grid, algorithms.Average(), family, todo.source, SignalDP(1.0), rounds=2)
    scale = float(local.plan.scale(np.ones((n, 1)), 1.0, 0).max())
    of_the_mean = scale * np.sqrt(2 / n)  # sqrt(2) log(2)/sqrt(n), of which 1.34e-2 was a sample
    assert of_the_mean == pytest.approx(1.394e-2, rel=1e-3)
    assert of_the_mean / found[0] == pytest.approx(np.sqrt(n), rel=1e-2)  # what local noise costs


def test_vectors_and_whole_numbers_have_their_grids() -> None:
    whole = problem(family=families.Bernoulli(), draw={"p": 0.3}, replicas=2)
    made: Any = whole.plan.mechanism(1.0, 1)
    assert (made.step, made.terms.sensitivity_steps, made.whole) == (1.0, 1, True)
    vector = families.get("multivariate-normal", sigma=np.eye(3).tolist())
    many = problem(family=vector, draw={"mu": [1.0, 2.0, 3.0]}, replicas=2)
    made = many.plan.mechanism(1.0, 1)
    assert made.terms.dimension == 3
    assert made.terms.sensitivity_steps >= made.sensitivity / made.step + 2
    assert simulate(many).mean.shape == (1, 2, 3)


def test_a_run_does_not_depend_on_its_company() -> None:
    together = simulate(problem(replicas=5, epsilons=(0.5, 1.0)))
    alone = simulate(problem(replicas=3, epsilons=(1.0,)))
    assert np.array_equal(together.mean[1, :3], alone.mean[0])


def test_estimate_sweep_intervals_and_the_guarantee_in_a_result() -> None:
    result = vs.sweep(
        {"mu": 2.0}, RING, NORMAL, MaskedDP(1.0, colluders=8, attempts=1), "masked-sum",
        rounds=120, epsilons=(0.5, 1.0), replicas=400, rng=3,
    ).result  # fmt: skip
    assert result.guarantee.status == "proved"
    assert result.guarantee.assumes == "computational"
    inside = 0
    for replica in range(400):
        found = result.intervals(1.0, replica)["mu"]
        inside += bool(found.low <= 2.0 <= found.high)
    assert stats.binomtest(inside, 400, 0.95).pvalue > SMALL
    assert np.all(result.trace.noise_variance > 0)


def test_intervals_cover_noise_that_is_not_normal() -> None:
    """95% of 20,000 draws of the noise alone: within 5 standard errors above (alarm below 3e-7)."""
    todo = problem(MaskedDP(0.01, colluders=0, attempts=1))  # the noise is all that counts
    trace = simulate(todo)
    found = Result(todo, trace).intervals(of="readings")["mu"]
    half = float(found.high - found.low) / 2
    made = todo.plan.mechanism(0.01, 1)
    drawn = made.sum_noise(41, np.random.default_rng(4), 20_000) * made.step / 41  # type: ignore[attr-defined]
    slack = 5 * np.sqrt(0.05 * 0.95 / 20_000)
    assert abs((np.abs(drawn) <= half).mean() - 0.95) < slack
    normal = 1.96 * np.sqrt(float(trace.noise_variance[0, 0, 0]))
    assert (np.abs(drawn) <= normal).mean() < 0.95 - slack  # as if it were normal


def test_no_privacy_is_the_mean_itself() -> None:
    todo = problem(NoPrivacy())
    trace = simulate(todo)
    assert np.all(trace.mean[0, 0] == trace.target[0])


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(AlgorithmError, match="no result before round 100"):
        replace(problem(), rounds=99)
    with pytest.raises(PrivacyError, match="MaskedDP goes with masked-learn and masked-sum"):
        _ = problem(SignalDP(1.0)).plan
    with pytest.raises(PrivacyError, match="does not go with MaskedDP"):
        _ = replace(problem(), algorithm=algorithms.Average()).plan
    with pytest.raises(PrivacyError, match="5 members are missing"):
        _ = problem(missing=5).plan
    with pytest.raises(PrivacyError, match="2 restarts need 3 attempts"):
        _ = problem(restarts=2).plan
    with pytest.raises(AlgorithmError, match="has 41 members and the network 9"):
        algorithms.check(algorithms.get("masked-sum", RING), networks.metropolis("ring:9"))
    with pytest.raises(PrivacyError, match="never leaves by itself"):
        problem().plan.mechanism(1.0, 1).release([1.0])


def test_the_guarantee_counts_attempts_and_names_colluders() -> None:
    made = algorithms.get("masked-sum", RING)
    asked = MaskedDP(1.0, radius=1.0, colluders=8, absent=4, attempts=2)
    twice = guarantee_of(asked, made, 120, NORMAL)
    assert (twice.epsilon, twice.status) == (1.0, "proved")
    text = str(twice)
    assert "up to 8 of the other members together" in text
    assert "at most 2 sessions of epsilon = 0.5" in text
    assert "If 16 colluded, epsilon would be" in text
    assert [s.split()[0] for s in text.removesuffix(".").split(". ")] == ["Proved", "Masks", "If"]
    assert type(twice).from_dict(twice.to_dict()) == twice
    assert twice.for_messages(7) == twice.against_everyone() == twice.for_transcript() == twice


def test_what_cannot_be_run_is_an_error_and_no_warning_of_the_same() -> None:
    """Warnings are errors in this suite: a warning before would be what is raised."""
    for asked, said in (
        (MaskedDP(1.0, colluders=40), "n - colluders - 2 absent"),
        (MaskedDP(1.0, colluders=1, attempts=2), "attempts must be at most"),
    ):
        with pytest.raises(PrivacyError, match=said):
            vs.sweep({"mu": 2.0}, RING, NORMAL, asked, "masked-sum", rounds=100, rng=1)


def test_a_dynamic_network_is_refused_for_what_is_simulated() -> None:
    moving = networks.link_failures("ring:41", 0.1, seed=1)
    made: Any = algorithms.get("masked-sum", RING)
    with pytest.raises(AlgorithmError, match="floods over one fixed network, and this one is dyn"):
        algorithms.fits(made, moving)


def test_restarts_are_counted_in_the_remark() -> None:
    once = problem(MaskedDP(1.0, colluders=8, absent=1, attempts=2))
    made: Any = replace(once.algorithm, restarts=1)  # type: ignore[call-arg]
    again = replace(once, algorithm=made, rounds=200)
    for todo, said in (
        (once, ": five floods over 20"),
        (again, ": 2 sessions of five floods over"),
    ):
        assert any(said in note for note in solve(todo).notes), said


def test_those_who_are_absent_have_no_weight_and_the_others_all_of_it() -> None:
    made = algorithms.get("masked-sum", RING, missing=3)
    assert isinstance(made, algorithms.MaskedAlgorithm)
    assert made.mass.tolist() == [1 / 38] * 38 + [0.0] * 3
    without = simulate(problem(NoPrivacy(), missing=3, draw={"mu": 1e6})).mean.ravel()[0]
    assert abs(without - 1e6) < 10  # not 38/41 of it


def test_a_restart_costs_as_much_as_a_session_in_rounds_bytes_and_epsilon() -> None:
    once, again = (algorithms.get("masked-sum", RING, restarts=k) for k in (0, 1))
    assert isinstance(once, algorithms.MaskedAlgorithm)
    assert isinstance(again, algorithms.MaskedAlgorithm)
    assert (once.arrival, again.arrival) == (5 * 20, 2 * 5 * 20)
    assert again.bytes_per_link() == 2 * once.bytes_per_link()
    with pytest.raises(AlgorithmError, match="no result before round 200"):
        replace(problem(restarts=1), rounds=199)
    trace = simulate(problem(restarts=1), Record(every=1))
    assert trace.private is not None
    assert np.all(trace.private[:200] == 0.0)
    assert np.all(trace.private[200] != 0.0)
    asked = MaskedDP(1.0, radius=1.0, colluders=8, absent=4, attempts=2)
    assert guarantee_of(asked, again, 200, NORMAL).epsilon == 1.0


def test_runs_at_several_epsilons_state_the_costliest_one() -> None:
    """The sentence of all runs together has the session and the caveat of the largest epsilon."""
    readings = np.linspace(0.0, 1.0, 41)
    asked = MaskedDP(1.0, colluders=8, absent=1, attempts=2)
    result = vs.sweep(
        readings, RING, families.Normal(1.0, bounds=(0.0, 1.0)), asked, "masked-sum",
        rounds=100, epsilons=(1.0, 2.0),
    ).result  # fmt: skip
    assert result.guarantee.epsilon == 3.0
    assert "sessions of epsilon = 1," in str(result.guarantee)
    terms: Any = result.problem.plan.mechanism(2.0, 1)
    assert f"epsilon would be {terms.terms.epsilon_against(16):.3g} a session" in str(
        result.guarantee
    )
