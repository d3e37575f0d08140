"""The simulator: what it measures, what it keeps, and that nothing irrelevant changes a number."""

import math
from typing import Any

import numpy as np
import pytest

import veilsum as vs
from veilsum import algorithms, networks, simulation
from veilsum.errors import (
    AlgorithmError,
    DivergenceWarning,
    NetworkError,
    PrivacyError,
    SignalError,
    VeilsumError,
)
from veilsum.families import Categorical, LogNormal1p, Normal
from veilsum.privacy import NetworkDP, NoPrivacy, SignalDP
from veilsum.simulation import Problem, Record, RecordedSignals, SyntheticSignals
from veilsum.simulation.workers import use_threads

pytestmark = pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")

simulate: Any = simulation.simulate  # whose arrays may be None
MIXING = networks.metropolis(networks.random_geometric(120, 0.2, seed=3))
FAMILY = Normal(sigma=1.0)


def problem(algorithm: Any = "learn-network", **changes: Any) -> Any:
    base = {
        "network": MIXING,
        "algorithm": algorithms.get(algorithm, changes.get("network", MIXING)),
        "family": FAMILY,
        "source": SyntheticSignals(FAMILY, {"mu": 2.0}, MIXING.size, seed=1),
        "privacy": NetworkDP(1.0, radius=1.0),
        "rounds": 30,
        "seed": 4,
    }
    return Problem(**{**base, **changes})


def same(a: Any, b: Any) -> None:
    assert np.array_equal(a.total, b.total)
    assert np.array_equal(a.private, b.private)


def test_the_number_of_threads_changes_nothing() -> None:
    todo = problem(epsilons=(0.5, 1.0, 2.0), replicas=7)
    with use_threads(1):
        one = simulate(todo)
    with use_threads(3):
        many = simulate(todo)
    same(one, many)


def test_other_replicas_and_records_change_nothing() -> None:
    alone = simulate(problem(replicas=2))
    crowd = simulate(problem(replicas=5), Record(every=3))
    assert np.array_equal(alone.total, crowd.total[..., :2])
    assert np.array_equal(alone.private[-1], crowd.private[-1][:, :, :2])


def test_the_seed_changes_everything() -> None:
    assert not np.any(simulate(problem()).total[1:] == simulate(problem(seed=5)).total[1:])


@pytest.mark.parametrize(
    "algorithm", ["average", "learn", "learn-network", "jacobi", "first-order"]
)
def test_errors_are_norms_of_what_was_recorded(algorithm: Any) -> None:
    trace = simulate(problem(algorithm, epsilons=(0.5, 2.0), replicas=3), Record(every=1))
    m = trace.target[:, 0]
    total = np.linalg.norm(trace.private[..., 0] - m, axis=1)
    privacy = np.linalg.norm(trace.private[..., 0] - trace.noiseless[:, :, None, :, 0], axis=1)
    apart = np.linalg.norm(trace.noiseless[..., 0] - m, axis=1)
    assert trace.total == pytest.approx(total, rel=1e-12)
    assert trace.privacy == pytest.approx(privacy, rel=1e-12)
    assert trace.decentralisation == pytest.approx(apart, rel=1e-12)
    assert (trace.total <= trace.privacy + trace.decentralisation[:, None] + 1e-12).all()


def test_targets_are_the_sample_mean_offline_and_the_expectation_online() -> None:
    offline, online = simulate(problem("average", replicas=2)), simulate(problem("learn"))
    xi = problem().source.signals(1, 2)
    assert offline.target[:, 0] == pytest.approx(xi.mean(axis=0))
    assert online.target[:, 0] == pytest.approx([2.0])


def test_mass_is_never_lost() -> None:
    """The total of nu (average) or t nu (online) is the total released, to rounding."""
    for algorithm, factor in (("average", 1), ("jacobi", 1), ("learn", 30), ("learn-network", 30)):
        trace = simulate(problem(algorithm), Record(every=1))
        if factor == 1:
            totals = trace.private.sum(axis=1)[:, 0, 0, 0]
            assert totals == pytest.approx(np.full(31, totals[0]), rel=1e-12)
        else:
            mean_xi = np.mean([problem().source.signals(t, 1).mean() for t in range(1, 31)])
            assert trace.noiseless[-1].mean() == pytest.approx(mean_xi, rel=1e-12)


def test_memory_follows_the_record() -> None:
    labels = [3, 60, 119]
    assert simulate(problem(), Record(estimates=False)).private is None
    assert simulate(problem()).private.shape == (1, 120, 1, 1, 1)
    few = simulate(problem(), Record(every=10, agents=labels))
    assert few.recorded_rounds == [0, 10, 20, 30]
    assert few.private.shape == (4, 3, 1, 1, 1)
    full = simulate(problem(), Record(every=1))
    assert np.array_equal(few.private[1], full.private[10][labels])
    with pytest.raises(VeilsumError, match="the network does not have"):
        simulate(problem(), Record(agents=["nobody"]))
    with pytest.raises(VeilsumError, match="every must be a whole number of at least 1"):
        Record(every=0)


def test_without_protection_there_is_no_noise_and_no_private_column() -> None:
    trace = simulate(problem("average", privacy=NoPrivacy(), rounds=400))
    assert trace.total.shape == (401, 0, 1)
    assert trace.decentralisation[-1] == pytest.approx([0], abs=1e-4)


def test_vector_statistics_advance_together() -> None:
    family = Categorical(categories=4)
    p = np.array([0.1, 0.2, 0.3, 0.4])
    todo = problem(
        "learn", family=family, source=SyntheticSignals(family, {"p": p}, 120, seed=2), privacy=SignalDP(1.0),
        replicas=3, epsilons=(1.0, 4.0),
    )  # fmt: skip
    trace = simulate(todo, Record(every=1))
    assert trace.private.shape == (31, 120, 2, 3, 4)
    error = np.sqrt(((trace.private - trace.target[:1]) ** 2).sum(axis=(1, -1)))
    assert trace.total == pytest.approx(error, rel=1e-12)
    assert trace.noiseless[-1].sum(axis=-1) == pytest.approx(1)


def test_measured_signals_are_shared_by_replicas_and_matched_by_label() -> None:
    values = np.random.default_rng(5).normal(size=(120, 3))
    data = vs.signals.as_signals(values)
    trace = simulate(problem("learn", source=RecordedSignals(data), rounds=3, replicas=4))
    assert trace.decentralisation.shape == (4, 1)
    assert trace.target[0, 0] == pytest.approx(values.mean())
    with pytest.raises(SignalError, match="3 readings per agent and the run needs 4"):
        problem("learn", source=RecordedSignals(data), rounds=4)


def test_a_directed_average_reaches_the_stationary_mean_and_push_sum_the_uniform_one() -> None:
    arcs = networks.as_graph(np.array([[0, 1, 1, 0], [0, 0, 1, 0], [1, 0, 0, 1], [1, 0, 0, 0]]))
    row, column = networks.row_stochastic(arcs), networks.column_stochastic(arcs)
    xi = np.array([1.0, 2.0, 3.0, 10.0])
    kept: Any = {"rounds": 300, "record": Record()}
    plain: Any = vs.estimate(xi, row, FAMILY, NoPrivacy(), "average", **kept).result
    ratio: Any = vs.estimate(xi, column, FAMILY, NoPrivacy(), "push-sum", **kept).result
    assert plain.trace.noiseless[-1].ravel() == pytest.approx(np.full(4, row.stationary @ xi))
    assert ratio.trace.noiseless[-1].ravel() == pytest.approx(np.full(4, xi.mean()))
    assert abs(row.stationary @ xi - xi.mean()) > 0.3
    assert "stationary distribution" in " ".join(plain.warnings)
    assert "stationary" not in str(ratio)


def test_push_sum_learns_online() -> None:
    arcs = networks.as_graph(np.array([[0, 1, 1], [0, 0, 1], [1, 0, 0]]))
    column = networks.column_stochastic(arcs)
    result = vs.sweep(
        {"mu": 2.0}, column, FAMILY, SignalDP(1.0), "push-sum-learn", rounds=1000
    ).result
    # sd of the mean of 3 x 1000 statistics plus noise: sqrt((1 + 2) / 3000) = 0.032; 6 sd
    assert abs(result.trace.mean[0, 0, 0] - 2) < 0.19
    assert np.isfinite(result.trace.total).all()


def test_the_published_dynamic_rule_diverges_and_the_corrected_one_learns() -> None:
    """Erratum 1: with mean 3 the published rule stands at 3 H_5000 = 27.3 after 5,000 rounds."""
    net = networks.link_failures(networks.load("florentine-families"), 0.3, seed=2)
    setting = ({"mu": 3.0}, net, Normal(sigma=0.1), NoPrivacy())
    with pytest.warns(DivergenceWarning, match="erratum 1"):
        published = vs.sweep(*setting, "learn-dynamic-as-published", rounds=5000, rng=1).result
    fixed = vs.sweep(*setting, "learn-dynamic", rounds=5000, rng=1).result
    # sd of the mean: 0.1 sqrt(1.64/15) = 0.033 as published, 0.1/sqrt(75000) corrected; 6 sd
    assert published.trace.mean[0, 0, 0] == pytest.approx(3 * 9.0945, abs=0.2)
    assert fixed.trace.mean[0, 0, 0] == pytest.approx(3.0, abs=0.0022)


def test_noise_in_every_round_grows_like_the_root_of_t() -> None:
    """The squared cost is a + b t. 400 replicas give a ratio of sd 0.04."""
    with pytest.warns(DivergenceWarning, match="accumulates"):
        result = vs.sweep(
            {"mu": 0.0}, MIXING, FAMILY, NetworkDP(1.0), "naive-network", rounds=800, replicas=400
        ).result
    square = (result.trace.privacy[:, 0] ** 2).mean(axis=-1)
    early, late = square[400] - square[200], square[800] - square[400]
    assert np.sqrt(square[800] / square[200]) == pytest.approx(1.6, abs=0.24)
    assert late > early > 0


def test_more_runs_than_streams_of_noise_are_refused() -> None:
    with pytest.raises(VeilsumError, match="more streams of noise than can be distinguished"):
        problem(replicas=2**32)


@pytest.mark.parametrize("epsilons", [(-1.0, 1.0), (0.0,), (math.nan,), (math.inf,), (1.0, 1.0)])
def test_budgets_that_make_no_sense_are_refused(epsilons: Any) -> None:
    with pytest.raises(PrivacyError, match="epsilon"):
        problem(epsilons=epsilons)


def test_other_epsilons_change_nothing() -> None:
    """To the bit where there are two; more are computed together, and agree to rounding."""
    alone, pair = simulate(problem()), simulate(problem(epsilons=(0.25, 1.0), replicas=3))
    assert np.array_equal(alone.total[:, 0, 0], pair.total[:, 1, 0])
    assert np.array_equal(alone.private[-1][:, 0, 0], pair.private[-1][:, 1, 0])
    swept = simulate(problem(epsilons=(0.25, 1.0, 4.0), replicas=3))
    assert swept.total[:, 1, 0] == pytest.approx(alone.total[:, 0, 0], rel=1e-12)
    gap = np.abs(swept.private[-1][:, 1, 0] - alone.private[-1][:, 0, 0])
    assert gap.max() < 1e-12 * np.abs(alone.private).max()


def test_signals_that_are_used_again_count_once_in_the_sampling_error() -> None:
    trace = simulate(problem("first-order"))
    assert trace.statistic_gain == pytest.approx(1 / 120)


def test_drawn_signals_are_clipped_to_the_support() -> None:
    family = vs.families.Poisson(bounds=(0.5, 10.5))
    with pytest.warns(vs.errors.LimitWarning, match=r"move 5\.01% .* off by \+0\.0494"):
        result = vs.sweep({"rate": 3.0}, MIXING, family, SignalDP(1.0), rounds=3).result
    assert np.isfinite(result.errors.total)


def test_misuse_is_answered() -> None:
    with pytest.raises(NetworkError, match=r"found Graph; try networks.metropolis\(graph\)"):
        vs.sweep({"mu": 0.0}, MIXING.graph, FAMILY, SignalDP(1.0))  # type: ignore[arg-type]
    with pytest.raises(
        AlgorithmError, match="algorithm jacobi has no option eta; it takes dimension"
    ):
        vs.sweep({"mu": 0.0}, MIXING, FAMILY, SignalDP(1.0), "jacobi", eta=1)
    with pytest.raises(VeilsumError, match="rng must be a whole number of at least 0"):
        vs.sweep({"mu": 0.0}, MIXING, FAMILY, SignalDP(1.0), rng=-3)
    with pytest.raises(VeilsumError, match="empty list of agents"):
        Record(agents=[])


def test_no_finite_noise_for_an_infinite_sensitivity() -> None:
    family = vs.families.LogNormal(sigma=1.0)
    with pytest.raises(PrivacyError, match="infinite global sensitivity"):
        vs.sweep({"mu": 0.0}, MIXING, family, SignalDP(1.0), rounds=3)
    assert vs.sweep({"mu": 1.0}, MIXING, LogNormal1p(sigma=1.0), SignalDP(1.0), rounds=3).result


@pytest.mark.parametrize(("field", "value"), [("rounds", 0), ("replicas", 0)])
def test_counts_are_checked(field: Any, value: Any) -> None:
    with pytest.raises(VeilsumError, match=f"{field} must be a whole number of at least 1"):
        problem(**{field: value})
