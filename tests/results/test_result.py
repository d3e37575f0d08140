"""Results: labels, axes, errors, and intervals that cover."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import veilsum as vs
from veilsum import networks
from veilsum.errors import VeilsumError
from veilsum.families import Bernoulli, Categorical, Custom, Normal, Support
from veilsum.privacy import NetworkDP, NoPrivacy, SignalDP
from veilsum.results.intervals import Asked, interval_asked
from veilsum.simulation import Record

pytestmark = pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")

GRAPH = networks.load("florentine-families")
MIXING = networks.metropolis(GRAPH)


@pytest.fixture(scope="module")
def result() -> Any:
    return vs.sweep(
        {"mu": 2.0}, MIXING, Normal(sigma=1.0), SignalDP(1.0), "learn", 20,
        epsilons=(0.5, 1.0), replicas=3, rng=1, record=Record(every=5),
    ).result  # fmt: skip


def test_errors_at_the_end_are_means_over_replicas(result: Any) -> None:
    assert result.errors.total == pytest.approx(result.trace.total[-1].mean(axis=-1))
    assert result.errors_per_agent.total == pytest.approx(result.errors.total / np.sqrt(15))
    assert result.errors.total.shape == (2,)


def test_neither_repr_shows_an_estimate() -> None:
    result = vs.estimate(
        np.arange(15.0) + 0.25,
        MIXING,
        Normal(sigma=1.0),
        SignalDP(1.0, radius=1.0),
        record=Record(every=1),
    ).result
    for text in (repr(result), repr(result.trace), repr(result.problem)):
        assert "array" not in text
        assert ".25" not in text


@pytest.mark.parametrize(
    "labels",
    [
        [(i // 5, i % 5) for i in range(15)],
        [10**12 + i for i in range(15)],
        [1, "1", *range(2, 15)],
        [None, True, *"abcdefghijklm"],
    ],
    ids=["tuples", "large numbers", "look-alikes", "mixed"],
)
def test_any_labels_come_back(labels: Any) -> None:
    graph = networks.Graph(15, GRAPH.links, labels)
    result = vs.sweep(
        {"mu": 1.0}, networks.metropolis(graph), Normal(sigma=1.0), SignalDP(1.0), rounds=3,
        record=Record(),
    ).result  # fmt: skip
    assert list(result.agents().index) == labels


def test_a_family_without_a_covariance_still_estimates_and_its_guarantee_is_its_authors() -> None:
    family = Custom(lambda s: np.minimum(s, 5.0), Support(low=0.0), 1.0)
    result = vs.estimate(np.arange(15.0), MIXING, family, SignalDP(1.0, radius=1.0)).result
    assert np.isfinite(result.estimate["mean"])
    assert result.guarantee.status == "claimed"
    assert "stated by its author" in str(result.guarantee)


def test_estimates_come_back_under_the_agents_labels() -> None:
    values = pd.Series(np.arange(15.0), index=list(GRAPH.labels)[::-1])
    result = vs.estimate(values, MIXING, Normal(sigma=1.0), NoPrivacy(), rounds=0 + 300).result
    table = result.agents()
    assert list(table.index) == list(GRAPH.labels)
    assert table.loc["Medici", "mu"] == pytest.approx(7.0, abs=1e-3)
    assert result.estimate["mu"] == pytest.approx(7.0)
    found = result.intervals(of="population")["mu"]
    assert found.low < 7 < found.high
    assert result.errors.privacy == 0.0


def test_several_components_have_an_axis_and_a_table() -> None:
    family = Categorical(categories=3)
    result = vs.sweep(
        {"p": [0.2, 0.3, 0.5]}, MIXING, family, SignalDP(2.0), "learn", 50, record=Record()
    ).result
    assert result.trace.final is not None
    assert result.trace.final.shape == (15, 1, 1, 3)
    assert len(result.agents()) == 15


def test_what_was_not_run_or_kept_is_said(result: Any) -> None:
    with pytest.raises(VeilsumError, match=r"epsilon 3.0 was not run; there are \[0.5, 1.0\]"):
        result.intervals(epsilon=3.0)
    bare = vs.sweep({"mu": 0.0}, MIXING, Normal(sigma=1.0), SignalDP(1.0), rounds=3).result
    with pytest.raises(VeilsumError, match="error norms only"):
        bare.agents()


COVERAGE_RUNS = 1000


@pytest.mark.parametrize(
    ("algorithm", "privacy", "rounds"),
    [
        ("average", SignalDP(2.0), 4),
        ("average", NetworkDP(1.0), 30),
        ("jacobi", SignalDP(1.0), 10),
        ("learn", SignalDP(1.0), 20),
        ("learn-network", NetworkDP(1.0), 20),
    ],
)
def test_intervals_cover_the_truth_for_a_random_agent(
    algorithm: Any, privacy: Any, rounds: Any
) -> None:
    """Coverage of nominal 95% intervals lies in [0.90, 0.99].

    One random agent in each of 1,000 replicas; the binomial standard deviation is 0.007, so a
    true coverage of 0.95 leaves this range with probability below 1e-8.
    """
    graph = networks.random_geometric(80, 0.25, seed=1)
    family, mu = Normal(sigma=1.0), 0.0
    result = vs.sweep(
        {"mu": mu}, networks.metropolis(graph), family, privacy, algorithm, rounds,
        replicas=COVERAGE_RUNS, rng=8, record=Record(),
    ).result  # fmt: skip
    pick = np.random.default_rng(1).integers(0, 80, COVERAGE_RUNS)
    hits = 0
    assert result.trace.private is not None
    for r, i in enumerate(pick):
        own = result.trace.private[-1][i, 0, r]
        asked = Asked(replica=r, of="population", whose="agent")
        bar = interval_asked(result.problem, result.trace, asked, own)["mu"]
        hits += bool(bar.low <= mu <= bar.high)
    assert 0.90 <= hits / COVERAGE_RUNS <= 0.99


def test_intervals_cover_on_directed_networks_too() -> None:
    """Row-stochastic averages weigh agents unequally; push-sum does not. Same range as above."""
    links = np.random.default_rng(0).random((40, 40)) < 0.08
    links |= np.eye(40, k=1, dtype=bool) | np.eye(40, k=-39, dtype=bool)
    np.fill_diagonal(links, False)
    arcs = networks.as_graph(links.astype(float))
    cases = [(networks.row_stochastic, "average"), (networks.column_stochastic, "push-sum")]
    for weigh, algorithm in cases:
        result = vs.sweep(
            {"mu": 0.0}, weigh(arcs), Normal(sigma=1.0), SignalDP(1.0), algorithm, 200,
            replicas=COVERAGE_RUNS, rng=5,
        ).result  # fmt: skip
        trace = result.trace
        variance = (
            trace.statistic_gain + trace.noise_variance[0, :, 0] + trace.disagreement[0, :, 0]
        )
        hits = np.abs(trace.mean[0, :, 0]) <= 1.96 * np.sqrt(variance)
        assert 0.90 <= hits.mean() <= 0.99, algorithm
        weighed = 1 / 40 if algorithm == "push-sum" else (weigh(arcs).stationary ** 2).sum()
        assert trace.statistic_gain == pytest.approx(weighed)


def test_an_interval_without_the_privacy_noise_would_not_cover() -> None:
    """The weakened twin: leave the noise out of the error bar and coverage collapses."""
    result = vs.sweep(
        {"p": 0.4}, MIXING, Bernoulli(), SignalDP(0.5), "learn", 60, replicas=400, rng=3
    ).result
    trace, hits = result.trace, {True: 0, False: 0}
    for r in range(400):
        for keep in (True, False):
            variance = 0.24 * trace.statistic_gain + trace.disagreement[0, r]
            variance = variance + keep * trace.noise_variance[0, r]
            hits[keep] += bool(abs(trace.mean[0, r, 0] - 0.4) <= 1.96 * np.sqrt(variance[0]))
    assert hits[True] / 400 > 0.90
    assert hits[False] / 400 < 0.90


def test_estimates_that_are_not_messages_are_not_released() -> None:
    """Noise of messages cancels in the mean of the estimates, whose steps give the mean of xi."""
    mixing = vs.networks.lazy_metropolis(vs.networks.load("ring:6"))
    signals = np.linspace(1.0, 2.0, 6)
    result = vs.estimate(
        signals, mixing, vs.families.Normal(sigma=1.0), vs.privacy.SignalDP(0.01, radius=1.0),
        "graph-homomorphic", rounds=5, eta=0.2, record=vs.simulation.Record(every=1),
    ).result  # fmt: skip
    assert result.trace.private is not None
    path = result.trace.private[:, :, 0, 0, 0].mean(axis=1)
    leaked = (path[2] - 0.8 * path[1]) / 0.2  # y_t = (1 - eta) y_{t-1} + eta mean(xi)
    assert leaked == pytest.approx(signals.mean(), abs=1e-9)
    assert not result.releasable
    assert result.released() == ({}, {})
