"""A masked sum for every batch of a stream: what remains is sampling."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import veilsum as vs
from veilsum import algorithms, families, networks, theory
from veilsum.api import solve
from veilsum.errors import AlgorithmError, PrivacyError
from veilsum.privacy import Batches, MaskedDP, NoPrivacy, SignalDP, guarantee_of, plan, planning
from veilsum.simulation import Problem, Record, SyntheticSignals, simulate

RING = networks.metropolis("ring:41")
NORMAL = families.Normal(sigma=1.0)
DOUBLING = Batches(growth=2.0)
REPLICAS = 400


def problem(privacy: Any = None, batches: Batches | None = None, **kwargs: Any) -> Problem:
    options = {k: kwargs.pop(k) for k in ("missing", "restarts", "delay") if k in kwargs}
    made: Any = algorithms.get("masked-learn", RING, **options)
    source = SyntheticSignals(NORMAL, {"mu": 2.0}, RING.size, seed=1)
    attempts = options.get("restarts", 0) + 1
    asked = privacy or MaskedDP(1.0, colluders=8, absent=4, attempts=attempts, batches=batches)
    return Problem(RING, made, NORMAL, source, asked, kwargs.pop("rounds", 24), **kwargs)


def close(found: Any, expected: Any, replicas: int = REPLICAS) -> bool:
    """A mean square of draws with kurtosis 6 at most, within 5.5 standard errors (below 1e-6)."""
    return bool(np.all(np.abs(found - expected) <= 5.5 * np.sqrt(5 / replicas) * expected))


@pytest.mark.parametrize(
    ("batches", "options"),
    [
        (None, {}),
        (DOUBLING, {"missing": 4, "restarts": 1}),
        (Batches(2.0, 4), {"delay": 3}),
    ],
)
def test_theory_gives_the_errors_of_runs(batches: Any, options: Any) -> None:
    todo = problem(batches=batches, replicas=REPLICAS, epsilons=(0.05, 1.0), **options)
    trace, exact = simulate(todo), theory.expected(todo)
    for t in (1, 4, 7, 24):
        assert close((trace.privacy[t] ** 2).mean(axis=-1), exact.privacy[t] ** 2)
        assert close((trace.total[t] ** 2).mean(axis=-1), exact.total[t] ** 2)
        assert close((trace.decentralisation[t] ** 2).mean(), exact.decentralisation[t] ** 2)
    wrong = 0.5 * exact.privacy[-1] ** 2  # as if nobody could collude, with a fifth less besides
    assert not close((trace.privacy[-1] ** 2).mean(axis=-1), wrong)
    assert np.all(trace.disagreement == 0.0)
    assert np.allclose(trace.noise_variance[:, 0, 0], exact.privacy[-1] ** 2 / 41, rtol=1e-9)


@pytest.mark.parametrize("missing", [0, 4])
def test_what_remains_beside_the_noise_is_sampling(missing: int) -> None:
    """TE^2 = n sigma^2/(|F| T) + noise, exactly; without noise it is the mean of all readings."""
    todo = problem(missing=missing, rounds=24, replicas=REPLICAS)
    exact, n, used = theory.expected(todo), 41, 41 - missing
    sampling = n / (used * np.arange(1, 25))
    assert np.allclose(exact.decentralisation[1:] ** 2, sampling, rtol=1e-12)
    assert np.allclose(exact.total[1:, 0] ** 2 - exact.privacy[1:, 0] ** 2, sampling, rtol=1e-12)
    made: Any = todo.plan.mechanism(1.0, 1)
    noise = n * made.worst_variance / (used * 24)
    assert exact.privacy[-1, 0] ** 2 == pytest.approx(noise, rel=1e-12)
    trace = simulate(todo)
    assert close((trace.decentralisation[-1] ** 2).mean(), sampling[-1])
    signals = [NORMAL.columns(todo.source.signals(t, REPLICAS))[:used] for t in range(1, 25)]
    means = np.mean([x.reshape(used, REPLICAS, 1).mean(axis=0) for x in signals], axis=0)
    plain = simulate(replace(todo, privacy=NoPrivacy()))
    assert np.allclose(plain.mean[0], means, rtol=1e-12)


@pytest.mark.parametrize("batches", [None, DOUBLING, Batches(2.0, 4)])
def test_rounds_that_end_before_the_first_result_are_refused(batches: Any) -> None:
    """An estimate of 0 with an interval of width 0 would be no result at all."""
    said = "over a delay of 7 rounds has no result before round 8, and rounds = 7"
    with pytest.raises(AlgorithmError, match=said):
        problem(batches=batches, delay=7, rounds=7)
    for result in (
        solve(problem(batches=batches, delay=7, rounds=8)),
        solve(problem(batches=batches, rounds=1)),
    ):
        ((low, high),) = result.interval.values()
        assert low < result.estimate["mu"] < high
        assert result.estimate["mu"] != 0.0
    offered = theory.plan(problem(batches=batches, delay=7, rounds=8), rounds=5)
    short = next(c for c in offered.candidates if c.algorithm == "masked-learn")
    assert "no result before round 8" in short.reason


def test_local_noise_leaves_mixing_and_noise_where_the_masked_sum_leaves_neither() -> None:
    masked = theory.expected(problem())
    local = theory.expected(replace(problem(SignalDP(1.0)), algorithm=algorithms.Learn()))
    assert masked.disagreement[-1, 0] == 0.0 < local.disagreement[-1, 0]
    # Lap(1/eps) of each of n against one of all: sqrt(h) times less in the mean
    ratio = local.shared_noise[-1, 0] / masked.shared_noise[-1, 0]
    assert ratio == pytest.approx(29**0.5, rel=1e-3)


def test_an_estimate_uses_the_batches_that_are_closed() -> None:
    todo = problem(batches=DOUBLING, rounds=16)
    trace = simulate(todo, Record(every=1))
    assert trace.private is not None
    paths = trace.private[:, :, 0, 0, 0]
    assert np.all(np.ptp(paths, axis=1) == 0.0)  # all agents alike
    changed = [t for t in range(1, 17) if paths[t, 0] != paths[t - 1, 0]]
    assert changed == [1, 2, 4, 8, 16]
    signals = [todo.source.signals(t, 1) for t in range(1, 9)]
    assert trace.noiseless is not None
    assert trace.noiseless[11, 0, 0, 0] == pytest.approx(np.mean(signals), rel=1e-12)
    every = simulate(problem(batches=Batches(growth=1.0), rounds=16), Record(every=1))
    assert every.private is not None
    assert len(np.unique(every.private[1:, 0, 0, 0, 0])) == 16  # a session in every round


def test_a_delay_moves_the_same_results_to_later_rounds() -> None:
    now = simulate(problem(batches=DOUBLING, rounds=9), Record(every=1))
    late = simulate(problem(batches=DOUBLING, delay=3, rounds=12), Record(every=1))
    assert now.noiseless is not None
    assert late.noiseless is not None
    assert np.all(late.noiseless[:4] == 0.0)
    assert np.array_equal(late.noiseless[4:], now.noiseless[1:])


def test_a_run_does_not_depend_on_its_company() -> None:
    together = simulate(problem(batches=DOUBLING, replicas=5, epsilons=(0.5, 1.0)))
    alone = simulate(problem(batches=DOUBLING, replicas=3, epsilons=(1.0,)))
    assert np.array_equal(together.mean[1, :3], alone.mean[0])


def test_sessions_have_noise_of_their_own() -> None:
    """Correlation of the noise of two sessions over 400 runs: below 5.2/sqrt(400) (alarm 2e-7)."""
    todo = problem(MaskedDP(0.01, colluders=8), rounds=2, replicas=REPLICAS)
    trace = simulate(todo, Record(every=1))
    assert trace.private is not None
    assert trace.noiseless is not None
    noise = (trace.private[:, 0, 0] - trace.noiseless[:, 0])[..., 0]
    first, second = noise[1], 2 * noise[2] - noise[1]
    rank = stats.spearmanr(first, second).statistic
    assert abs(rank) < 0.26
    assert abs(stats.spearmanr(first, noise[2]).statistic) > 0.26  # the test can fail


def test_the_guarantee_is_for_a_reading_and_groups_know_the_batches() -> None:
    made = algorithms.get("masked-learn", RING)
    one = guarantee_of(MaskedDP(0.5, radius=1.0, colluders=8), made, 24, NORMAL)
    assert (one.status, one.epsilon, one.unit.online, one.assumes) == (
        "proved", 0.5, True, "computational",
    )  # fmt: skip
    assert "each reading is in one query" in one.reason
    asked = MaskedDP(0.5, radius=1.0, colluders=8, batches=Batches(2.0, 8))
    grouped = guarantee_of(asked, made, 24, NORMAL)
    assert grouped.epsilon == 0.5
    assert "at most 8 readings" in grouped.reason
    assert grouped.for_window(7).epsilon == one.for_window(7).epsilon == 3.5
    # readings of one batch move its sum together: seven at once cost seven, whatever delta
    apart, together = one.for_stream(24, 1e-6).epsilon, grouped.for_stream(24, 1e-6).epsilon
    assert apart < together <= 12.0
    ungrouped = replace(grouped, runs=(replace(grouped.runs[0], batches=None),))
    assert ungrouped.for_stream(24, 1e-6).epsilon < together  # would understate
    twice = guarantee_of(replace(asked, absent=2, attempts=2), made, 24, NORMAL)
    assert (twice.epsilon, twice.for_window(3).epsilon) == (0.5, 1.5)
    assert "up to 8 of the other members" in str(grouped)
    assert type(grouped).from_dict(grouped.to_dict()) == grouped


def test_room_for_the_longest_batch() -> None:
    bounded = families.Normal(sigma=1.0, bounds=(0.0, 4.0))
    asked = MaskedDP(1.0, colluders=0)
    alone = plan(asked, bounded, members=41).mechanism().terms
    batched = replace(asked, batches=Batches(2.0, 24))
    long = plan(batched, bounded, members=41).mechanism().terms
    most = alone.largest_steps or 0
    assert (long.largest_steps, long.longest_batch, alone.longest_batch) == (most, 24, 1)
    assert long.plausible(41 * 24 * most, [24] * 41)
    assert not long.plausible(2 * 41 * 24 * most, [24] * 41)
    assert not alone.plausible(41 * 24 * most, [24] * 41)


def test_estimate_sweep_and_intervals() -> None:
    result = vs.sweep(
        {"mu": 2.0}, RING, NORMAL, MaskedDP(1.0, colluders=8, attempts=1, batches=DOUBLING),
        "masked-learn", rounds=32, epsilons=(0.5, 1.0), replicas=400, rng=3,
    ).result  # fmt: skip
    assert result.guarantee.status == "proved"
    inside = 0
    for replica in range(400):
        found = result.intervals(1.0, replica)["mu"]
        inside += bool(found.low <= 2.0 <= found.high)
    assert stats.binomtest(inside, 400, 0.95).pvalue > 1e-6
    width = found.high - found.low
    assert width == pytest.approx(2 * 1.96 / np.sqrt(41 * 32), rel=0.1)  # of all readings


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(PrivacyError, match="MaskedDP goes with masked-learn and masked-sum"):
        _ = problem(SignalDP(1.0)).plan
    with pytest.raises(PrivacyError, match="5 members are missing"):
        _ = problem(missing=5).plan
    with pytest.raises(PrivacyError, match="1 restarts need 2 attempts"):
        _ = problem(MaskedDP(1.0, colluders=8, absent=4), restarts=1).plan
    with pytest.raises(PrivacyError, match="uses one signal of each agent"):
        replace(problem(batches=DOUBLING), algorithm=algorithms.get("masked-sum", RING))
    with pytest.raises(AlgorithmError, match="delay must be"):
        problem(delay=-1)


def test_batches_without_a_longest_have_room_for_so_many_readings(monkeypatch: Any) -> None:
    monkeypatch.setattr(planning, "LONGEST_BATCH", 20)
    _ = problem(batches=DOUBLING, rounds=20).plan
    with pytest.raises(PrivacyError, match="state longest"):
        _ = problem(batches=DOUBLING, rounds=21).plan
