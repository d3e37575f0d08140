"""Intervals cover the mean of the readings as often as they say; weakened ones do not.

A binomial count of covered runs is compared with the stated confidence: `too_few` is below it by
more than `DEVIATIONS` standard deviations, which a valid interval is with probability below 1e-7.
"""

import math
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from veilsum import families, networks
from veilsum.agents import Manifest, mixing
from veilsum.agents.coverage import Coverage
from veilsum.agents.mixing import release_weights
from veilsum.agents.results import AgentResult, half_width, interval, project
from veilsum.errors import AgentError
from veilsum.privacy import LaplaceMechanism
from veilsum.privacy.mechanisms import DiscreteLaplaceMechanism, DuchiMechanism, StaircaseMechanism
from veilsum.privacy.noise_quantile import noise_quantile
from veilsum.scenario import Scenario

RUNS = 200_000
DEVIATIONS = 5.2  # P(N(0, 1) < -5.2) is 1e-7


def manifest_of(
    graph: str = "ring:4",
    algorithm: str = "average",
    rounds: int = 60,
    more: str = "",
    radius: float = 1.0,
    **terms: Any,
) -> Any:
    problem = (
        Scenario.parse(f"""
        network = {{graph = "{graph}", weights = "lazy-metropolis"}}
        family = {{name = "normal", sigma = 1.0, bounds = [0.0, 10.0]}}
        signals = {{draw = {{mu = 5.0}}}}
        privacy = {{protect = "signal", epsilon = 2.0, radius = {radius} {more}}}
        algorithm = {{name = "{algorithm}", rounds = {rounds}}}
    """)
        .build()
        .problem
    )
    return Manifest.of(problem, "net", **terms), problem.family


def too_few(covered: int, confidence: float = 0.95, runs: int = RUNS) -> bool:
    least = runs * confidence - DEVIATIONS * math.sqrt(runs * confidence * (1 - confidence))
    return covered < least


def weights_matrix(manifest: Any) -> Any:
    labels = [label for label, _ in manifest.members]
    made = np.zeros((len(labels), len(labels)))
    for source, to, weight in manifest.links:
        made[labels.index(to), labels.index(source)] = weight
    return made + np.diag(1 - made.sum(axis=0))


@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_a_sum_of_few_laplace_draws_lies_within_its_quantile_as_often_as_stated(count: int) -> None:
    mechanism = LaplaceMechanism(1.0, 1.0)
    found = noise_quantile(mechanism, np.full(count, 1 / count), np.ones(count), 0.95)
    noise = np.random.default_rng(count).laplace(size=(RUNS, count)).mean(axis=1)
    covered = int((np.abs(noise) <= found).sum())
    assert not too_few(covered)
    assert covered < RUNS * 0.95 + DEVIATIONS * math.sqrt(RUNS * 0.95 * 0.05)  # and no wider
    if count <= 3:  # the weakened variant: the normal quantile
        normal = NormalDist().inv_cdf(0.975) * math.sqrt(2 / count)
        assert too_few(int((np.abs(noise) <= normal).sum()))


def test_the_quantile_is_the_closed_form_for_one_laplace_draw_and_the_normal_one_for_many() -> None:
    mechanism = LaplaceMechanism(1.0, 1.0)
    for confidence in (0.5, 0.95, 0.999):
        one = noise_quantile(mechanism, np.ones(1), np.ones(1), confidence)
        assert one == pytest.approx(-math.log(1 - confidence), rel=1e-4)
    many = noise_quantile(mechanism, np.array([1e-4]), np.array([1e4]), 0.95)
    assert many == pytest.approx(1.959964 * math.sqrt(2 / 1e4), rel=1e-4)


@pytest.mark.parametrize(
    "mechanism",
    [
        DiscreteLaplaceMechanism(0.3, 1), DiscreteLaplaceMechanism(4.0, 1),
        StaircaseMechanism(0.5, 2.0), StaircaseMechanism(6.0, 2.0),
    ],
    ids=lambda m: f"{m.name} {m.epsilon}",
)  # fmt: skip
@pytest.mark.parametrize("weights", [[1.0], [0.5, 0.3, 0.2], [1 / 12] * 12])
def test_other_additive_noise_lies_within_its_quantile(mechanism: Any, weights: Any) -> None:
    found = noise_quantile(mechanism, np.array(weights), np.ones(len(weights)), 0.95)
    noise = mechanism.noise((RUNS // 4, len(weights)), np.random.default_rng(7)) @ weights
    covered = int((np.abs(noise) <= found * (1 + 1e-9)).sum())
    assert not too_few(covered, runs=RUNS // 4)
    if mechanism.name == "staircase":  # exact, so no wider either
        assert covered <= RUNS / 4 * 0.95 + DEVIATIONS * math.sqrt(RUNS / 4 * 0.95 * 0.05)


@pytest.mark.parametrize("count", [1, 3, 1000])
def test_bounded_noise_lies_within_its_bound(count: int) -> None:
    mechanism = DuchiMechanism(1.0, 0.0, 10.0)
    found = noise_quantile(mechanism, np.full(count, 1 / count), np.ones(count), 0.95)
    rng, runs = np.random.default_rng(count), 20_000 if count < 10 else 2_000
    values = np.full((runs, count), 5.0)
    noise = mechanism.sample(values, rng).mean(axis=1) - 5.0
    assert not too_few(int((np.abs(noise) <= found * (1 + 1e-9)).sum()), runs=runs)


@pytest.mark.parametrize(
    ("algorithm", "rounds", "counts"),
    [("average", 3, (1, 1, 1, 1)), ("average", 60, (1, 1, 0, 1)), ("learn", 6, (6, 6, 6, 6)),
     ("learn", 6, (6, 0, 2, 6))],
)  # fmt: skip
def test_weights_of_releases_are_those_of_the_matrices(
    algorithm: str, rounds: int, counts: Any
) -> None:
    manifest, _ = manifest_of(algorithm=algorithm, rounds=rounds)
    W = weights_matrix(manifest)
    found = release_weights(manifest, "0", counts, rounds)
    total, expected = 0.0, {}
    for j, count in enumerate(counts):
        entering = [0] if algorithm == "average" else range(rounds - count + 1, rounds + 1)
        for s in entering if count else ():
            expected[j, s] = np.linalg.matrix_power(W, rounds - s)[0, j]
            total += expected[j, s]
    for weight, times, j, s in zip(
        found.weight, found.releases, found.member, found.round, strict=True
    ):
        assert times == 1
        assert weight == pytest.approx(expected.pop((int(j), int(s))) / total, rel=1e-6)
    assert not expected


def test_long_ago_releases_are_counted_together_and_add_up_to_one() -> None:
    manifest, _ = manifest_of(algorithm="learn")
    found = release_weights(manifest, "2", [100_000, 100_000, 99_000, 50_000], 100_000)
    assert len(found.weight) < 1000
    assert found.releases.sum() == 349_000
    assert (found.weight * found.releases * found.readings).sum() == pytest.approx(1.0)
    assert found.unevenness < 0.01


@pytest.mark.parametrize(("algorithm", "rounds"), [("average", 3), ("learn", 4)])
def test_the_interval_covers_the_mean_of_the_readings_and_one_without_mixing_does_not(
    algorithm: str, rounds: int
) -> None:
    manifest, family = manifest_of("ring:6", algorithm, rounds, radius=0.05)
    W, size = weights_matrix(manifest), 6
    found = interval(manifest, family, label="0")
    times = rounds if algorithm == "learn" else 1
    readings = np.zeros((times, size))
    readings[:, 0] = readings[-1, [1, 5]] = 10.0  # as uneven as the bounds allow
    rng = np.random.default_rng(3)
    released = readings + rng.laplace(scale=0.05 / 2.0, size=(RUNS // 10, times, size))
    S = released[:, 0] if algorithm == "average" else np.zeros((RUNS // 10, size))
    w = np.ones(size) if algorithm == "average" else np.zeros(size)
    for t in range(rounds):
        S, w = S @ W.T, W @ w
        if algorithm == "learn":
            S, w = S + released[:, t], w + 1
    error = np.abs(S[:, 0] / w[0] - readings.mean())
    runs = RUNS // 10
    assert not too_few(int((error <= found.half_width[0]).sum()), runs=runs)
    assert too_few(int((error <= found.noise[0]).sum()), runs=runs)  # weakened: noise only


def test_the_interval_is_narrow_where_it_should_be() -> None:
    manifest, family = manifest_of("complete:3")
    exact = interval(manifest, family)
    assert exact.mixing[0] < 1e-5
    assert exact.half_width == half_width(manifest, family)
    noise = np.random.default_rng(1).laplace(scale=0.5, size=(RUNS, 3)).mean(axis=1)
    assert exact.half_width[0] == pytest.approx(np.quantile(np.abs(noise), 0.95), rel=0.02)
    assert exact.sampling is not None
    assert exact.sampling[0] == pytest.approx(1.96 / math.sqrt(3), rel=1e-3)


def test_an_interval_never_exceeds_the_public_bounds_and_grows_where_members_are_missing() -> None:
    manifest, family = manifest_of("complete:4")
    whole = half_width(manifest, family, [1, 1, 1, 1])[0]
    part = half_width(manifest, family, [1, 1, 0, 0], present=("0", "1"))[0]
    assert whole < part < 10.0
    assert half_width(replace(manifest, epsilon=0.01), family) == (10.0,)
    assert half_width(manifest, family, [0, 0, 0, 0]) == (math.inf,)
    with pytest.raises(AgentError, match="4 members; found 3 counts of readings"):
        half_width(manifest, family, [1, 1, 1])


def test_without_bounds_mixing_follows_from_the_known_variance() -> None:
    manifest, _ = manifest_of(rounds=2)
    family = families.Normal(1.0)
    found = interval(replace(manifest, family=repr(family)), family, label="0")
    bounded = interval(manifest, families.Normal(1.0, bounds=(0.0, 10.0)), label="0")
    assert bounded.noise[0] < found.half_width[0] < bounded.half_width[0]


def test_a_result_is_projected_and_keeps_the_estimate_as_computed() -> None:
    manifest, family = manifest_of("complete:3")
    labels = tuple(label for label, _ in manifest.members)
    covered = Coverage(labels, labels, (1, 1, 1))
    found = AgentResult.of(manifest, family, "0", 60, "rounds", (-57.0,), covered)
    assert (found.estimate, found.unprojected) == ((0.0,), (-57.0,))
    assert found.exit_code == 0
    assert found.sentence().startswith("0: 0 +- ")
    assert f"manifest {manifest.digest.hex()[:12]}" in found.sentence()
    data = found.to_json()
    assert data["coverage"]["contributing"] == 3
    assert "epsilon = 2" in data["guarantee"]
    assert project(family, ()) == ()


@pytest.mark.parametrize("reason", ["late", "quorum", "excluded", "rolled-back"])
def test_some_ends_leave_no_result_whatever_the_estimate_was(reason: str) -> None:
    manifest, family = manifest_of("complete:3")
    labels = tuple(label for label, _ in manifest.members)
    covered = Coverage(labels, labels, (1, 1, 1))
    found = AgentResult.of(manifest, family, "0", 60, reason, (5.0,), covered)
    assert (found.estimate, found.exit_code) == ((), 3)
    assert found.sentence().startswith("0: no estimate: ")


def test_batches_have_one_noise_for_several_readings() -> None:
    manifest, family = manifest_of("complete:3", "learn", 64)
    single = interval(manifest, family, label="0")
    batched = interval(replace(manifest, batch_growth=2.0), family, label="0")
    found = release_weights(replace(manifest, batch_growth=2.0), "0", [64] * 3, 64)
    assert found.releases.sum() == 3 * 7
    assert (found.readings * found.releases).sum() == 3 * 64
    assert batched.noise[0] / single.noise[0] == pytest.approx(math.sqrt(7 / 64), rel=0.2)


def test_empty_slots_leave_more_releases_with_fewer_readings_in_each() -> None:
    """Packed into full batches, 1,200 slots with a reading a day had intervals that covered 53%."""
    manifest, _ = manifest_of("complete:3", "learn", 1200)
    daily = replace(manifest, batch_growth=2.0, longest_batch=24)
    found = release_weights(daily, "0", [50] * 3, 1200)
    assert found.releases.sum() == 3 * 50
    full = release_weights(daily, "0", [1184] * 3, 1200)
    assert full.releases.sum() == 3 * 54
    assert (full.readings * full.releases).sum() == 3 * 1184


def test_a_dropped_link_mixes_nothing() -> None:
    """A ring without one link is a path: its interval was that of the ring, 500 times too narrow."""
    ring, family = manifest_of("ring:12", rounds=120)
    path, _ = manifest_of("path:12", rounds=120)
    found = interval(ring, family, label="0", dropped=[("0", "11")]).mixing[0]
    whole = interval(ring, family, label="0").mixing[0]
    assert found > 100 * whole
    assert found == pytest.approx(interval(path, family, label="0").mixing[0], rel=0.5)


def test_without_a_reading_or_below_the_quorum_there_is_no_success() -> None:
    manifest, family = manifest_of("complete:3")
    labels = tuple(label for label, _ in manifest.members)
    empty = AgentResult.of(
        manifest, family, "0", 60, "rounds", (5.0,), Coverage(labels, labels, (0, 0, 0))
    )
    assert (empty.estimate, empty.exit_code) == ((), 3)
    assert "no estimate" in empty.sentence()
    fewer = Coverage(labels, labels[:2], (1, 1, 0))
    below = AgentResult.of(manifest, family, "0", 60, "rounds", (5.0,), fewer)
    assert below.exit_code == 3
    assert "1 missing: 2, below the quorum of 3" in below.sentence()
    enough = AgentResult.of(replace(manifest, quorum=2), family, "0", 60, "rounds", (5.0,), fewer)
    assert enough.exit_code == 0


NAN = float("nan")


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"counts": [-1, 1, 1]}, "counts must be a whole number of at least 0; found -1"),
        ({"counts": [1.5, 1, 1]}, "counts must be a whole number"),
        ({"counts": [NAN] * 3}, "counts must be a whole number"),
        ({"counts": "abc"}, "one whole number for each member"),
        ({"counts": 5}, "one whole number for each member"),
        (
            {"counts": [5000, 1, 1]},
            "at most 30 readings of a member are in an estimate of round 30",
        ),
        ({"counts": [10**9] * 3}, "at most 30 readings"),
        ({"counts": [10, 1, 1], "round": 9}, "at most 9 readings"),
        ({"round": 1.5}, "round must be a whole number"),
        ({"round": "3"}, "round must be a whole number"),
        ({"round": NAN}, "round must be a whole number"),
        ({"round": 1e30}, "round must be a whole number"),
        ({"round": 10**30}, "round must be at most"),
        ({"confidence": None}, "confidence must be a number above 0"),
        ({"confidence": "0.9"}, "confidence must be a number above 0"),
        ({"confidence": 1.0}, "confidence must be a number above 0"),
        ({"present": 5}, "present must be a collection of labels"),
        ({"estimate": [1.0, 2.0]}, "estimate must be 1 numbers"),
        ({"estimate": "abc"}, "estimate must be real numbers"),
    ],
    ids=str,
)
def test_an_interval_of_nonsense_is_refused(terms: dict[str, Any], words: str) -> None:
    manifest, family = manifest_of("complete:3", "learn", 30)
    with pytest.raises(AgentError, match=words):
        half_width(manifest, family, **terms)


def test_one_reading_is_in_an_average_and_the_family_is_that_of_the_manifest() -> None:
    manifest, family = manifest_of("complete:3")
    with pytest.raises(AgentError, match="at most 1 readings"):
        half_width(manifest, family, [2, 1, 1])
    with pytest.raises(AgentError, match="the manifest is for the family"):
        half_width(manifest, families.Normal(1.0, bounds=(0.0, 1.0)))
    with pytest.raises(AgentError, match="needs a Manifest"):
        half_width(family, family)


@pytest.mark.parametrize("wrong", [[NAN], [math.inf], [1.0, 2.0], "ab", 5.0])
def test_what_is_no_estimate_cannot_be_projected(wrong: Any) -> None:
    with pytest.raises(AgentError, match="estimate must be"):
        project(families.Normal(1.0, bounds=(0.0, 1.0)), wrong)


def test_an_estimate_of_another_size_makes_no_result() -> None:
    manifest, family = manifest_of("complete:3")
    covered = Coverage(manifest.labels, manifest.labels, (1, 1, 1))
    with pytest.raises(AgentError, match="estimate must be 1 numbers"):
        AgentResult.of(manifest, family, "0", 60, "rounds", [1, 2], covered)


def test_a_member_that_is_ahead_counts_up_to_the_round() -> None:
    """Counts arrive from neighbours: a running agent must not end on them."""
    manifest, family = manifest_of("complete:3", "learn", 30)
    ahead = Coverage(manifest.labels, manifest.labels, (9, 10, 10**12))
    found = AgentResult.of(manifest, family, "0", 9, "running", [5.0], ahead)
    assert found.half_width == half_width(manifest, family, [9] * 3, label="0", round=9)
    assert found.coverage.readings[2] == 10**12
    endless = AgentResult.of(
        replace(manifest, rounds=0), family, "0", 10**12, "running", [5.0],
        Coverage(manifest.labels, manifest.labels, (10**12,) * 3),
    )  # fmt: skip
    assert 0 < endless.half_width[0] < 0.01


def test_readings_between_two_ticks_count_together() -> None:
    """As one by one, in no more time than there are ticks."""
    manifest, family = manifest_of("complete:3", "learn", 30, asynchronous=True)
    rows, _ = mixing._rows(manifest, "0", 30, frozenset())
    ages = [(30 - -(-k * 30 // n), at) for at, n in enumerate([70, 13]) for k in range(1, n + 1)]
    each = np.array([rows[min(age, len(rows) - 1), at] for age, at in ages])
    together = release_weights(manifest, "0", [70, 13, 0], 30)
    assert len(together.weight) <= 2 * 31
    assert (together.readings * together.releases).sum() == 83
    assert together.squares == pytest.approx((each**2).sum() / each.sum() ** 2)
    assert 0 < half_width(manifest, family, [10**8] * 3)[0] < 1


@pytest.mark.parametrize("mechanism", ["laplace", "staircase"])
@pytest.mark.parametrize("batches", ["", ", batches = {growth = 2.0, longest = 8}"])
def test_an_agent_that_begins_anew_with_its_releases_has_an_interval_before_its_first_tick(
    batches: str, mechanism: str
) -> None:
    """As it does in a new epoch: its status is asked for in round 0."""
    more = f', mechanism = "{mechanism}" {batches}'
    manifest, family = manifest_of("ring:4", "learn", 30, more, asynchronous=True)
    coverage = Coverage(manifest.labels, manifest.labels, (7, 3, 0, 9))
    found = AgentResult.of(manifest, family, "0", 0, "running", [5.0], coverage)
    assert 0 < found.half_width[0] <= 10.0
    assert release_weights(manifest, "0", [7, 3, 0, 9], 0).round.min() >= 1


def clipped_runs(manifest: Any, family: Any, runs: int) -> tuple[Any, Any]:
    """Estimates of member 0 when all agree, and the means of the readings."""
    from veilsum.agents.intervals import _plan
    from veilsum.simulation import clipped_gossip

    rng, net = np.random.default_rng(3), networks.lazy_metropolis("ring:4")
    made: Any = _plan(manifest, family, "0").mechanism(manifest.epsilon, 1, released=True)
    readings = rng.uniform(0.0, 10.0, (runs, 4))
    noised = readings + rng.laplace(0.0, made.release_scale, (runs, 4))
    ended = np.empty(runs)
    for k, start in enumerate(noised):
        run = clipped_gossip(net, start, manifest.clip, 400)
        first = int(np.argmax(np.ptp(run, axis=1) <= manifest.tolerance))
        ended[k] = run[first, 0]
    return ended, readings.mean(axis=1)


def test_the_interval_of_clipped_rounds_that_ended_by_agreement_covers() -> None:
    runs = 2000
    manifest, family = manifest_of(rounds=5000, clip=0.5, tolerance=0.3)
    found = interval(manifest, family, round=40, label="0", agreed=True)
    assert found.mixing == (0.3,)
    ended, means = clipped_runs(manifest, family, runs)
    covered = int((np.abs(ended - means) <= found.half_width[0]).sum())
    assert not too_few(covered, runs=runs)
    weaker = int((np.abs(ended - means) <= found.noise[0] / 2).sum())
    assert too_few(weaker, runs=runs)


def test_clipped_rounds_without_agreement_have_no_interval_and_say_why() -> None:
    manifest, family = manifest_of(rounds=60, clip=0.5)
    assert half_width(manifest, family) == (math.inf,)
    plain, _ = manifest_of(rounds=60)
    assert half_width(plain, family, label="0")[0] < 10.0, "which would not be honest"
    covered = Coverage(manifest.labels, manifest.labels, (1,) * 4)
    found = AgentResult.of(manifest, family, "0", 60, "rounds", (5.0,), covered)
    assert found.half_width == (math.inf,)
    assert "0: 5 (no interval: rounds were clipped, and members are not known to agree; set" in (
        found.sentence()
    )
    assert "after 60 rounds clipped at 0.5" in found.sentence()
    assert found.to_json()["half_width"] == [None]


def test_clipped_rounds_that_ended_by_agreement_state_the_tolerance_as_mixing() -> None:
    manifest, family = manifest_of(rounds=60, clip=0.5, tolerance=0.3)
    covered = Coverage(manifest.labels, manifest.labels, (1,) * 4)
    agreed = AgentResult.of(manifest, family, "0", 30, "tolerance", (5.0,), covered)
    assert "+-" in agreed.sentence()
    late = AgentResult.of(manifest, family, "0", 60, "rounds", (5.0,), covered)
    assert late.half_width == (math.inf,), "the last round came first"
