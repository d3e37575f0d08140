"""Runs with readings in growing batches: the ratio form, the noise, the expected errors.

Statistical assertions: fixed seeds, |z| <= 6 (false alarm 2e-9), and a weakened twin that fails.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import veilsum as vs
from veilsum import algorithms, networks, theory
from veilsum.algorithms import Batched, Sensitivities
from veilsum.errors import PrivacyError
from veilsum.families import Normal, Poisson
from veilsum.privacy import Batches, NoPrivacy, SignalDP
from veilsum.simulation import Problem, Record, RecordedSignals, SyntheticSignals, simulate
from veilsum.simulation.limits import limits

FAMILY = Normal(sigma=1.0)
RING = networks.metropolis("ring:9")
EPSILON, DELTA = 0.5, 1.0


def made(algorithm: str = "learn", batches: Any = None, net: Any = RING, **changes: Any) -> Problem:
    base: Any = {
        "network": net,
        "algorithm": algorithms.get(algorithm, net),
        "family": FAMILY,
        "source": SyntheticSignals(FAMILY, {"mu": 2.0}, net.size, seed=1),
        "privacy": SignalDP(EPSILON, radius=DELTA, batches=batches or Batches(2.0, 7)),
        "rounds": 40,
        "seed": 4,
    }
    return Problem(**{**base, **changes})


def by_hand(problem: Problem, algorithm: Any) -> Any:
    """(rounds + 1, agents): S/w with (S, w)_t = W_t (S, w)_{t-1} + (sum of the batch, its length)."""
    batches, n = problem.privacy.batches, problem.network.size
    assert batches is not None
    S, w, estimates = np.zeros(n), np.zeros(n), [np.zeros(n)]
    for t in range(1, problem.rounds + 1):
        now, A = algorithm.at(t), problem.network.at(t).toarray()
        W = (now.own * np.eye(n) + now.mixing * A) / ((now.own + now.mixing) or 1.0)
        S, w, length = W @ S, W @ w, batches.closes(t)
        for reading in range(t - length + 1, t + 1):
            S, w = S + problem.source.signals(reading, 1)[:, 0], w + 1
        estimates.append(S / w)
    return np.array(estimates)


@pytest.mark.parametrize(
    ("name", "net"),
    [
        ("learn", RING),
        ("learn-network", RING),
        ("learn-dynamic", networks.link_failures("ring:9", 0.3, seed=2)),
        ("push-sum-learn", networks.column_stochastic("ring:9")),
    ],
)
@pytest.mark.parametrize("batches", [Batches(2.0), Batches(1.25, 3)])
def test_a_run_is_the_ratio_of_sum_and_number(name: str, net: Any, batches: Batches) -> None:
    problem = made(name, batches, net)
    trace = simulate(problem, Record(every=1))
    assert trace.noiseless is not None
    found = trace.noiseless[:, :, 0, 0]
    np.testing.assert_allclose(found, by_hand(problem, algorithms.get(name, net)), atol=1e-12)


def drawn(problem: Problem) -> Any:
    """(rounds, agents, replicas): d_t, from N_t nu_t - W N_{t-1} nu_{t-1} with and without noise."""
    trace = simulate(problem, Record(every=1))
    assert trace.private is not None
    assert trace.noiseless is not None
    batches = problem.privacy.batches
    assert batches is not None
    away = trace.private[:, :, 0, :, 0] - trace.noiseless[:, :, :, 0]
    sums = away * np.array([batches.released(t) for t in range(problem.rounds + 1)])[:, None, None]
    A = problem.network.at(1).toarray()
    return sums[1:] - np.einsum("ij,tjr->tir", A, sums[:-1])


def deviations(noise: Any, scale: float) -> float:
    """How many standard errors the mean of |d| is from that of Lap(scale), which is the scale."""
    return float((np.abs(noise).mean() / scale - 1) * math.sqrt(noise.size))


def test_one_draw_of_one_reading_a_batch_whatever_its_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = made(replicas=400)
    batches = problem.privacy.batches
    assert batches is not None
    noise = drawn(problem)
    lengths = [batches.closes(t) for t in range(1, problem.rounds + 1)]
    for length, d in zip(lengths, noise, strict=True):
        if length:
            assert abs(deviations(d, DELTA / EPSILON)) <= 6
        else:
            np.testing.assert_allclose(d, 0.0, atol=1e-9)

    def of_the_mean(self: Batched, t: int) -> Sensitivities:
        return Sensitivities(1 / max(self.readings(t), 1), 0.0)

    monkeypatch.setattr(Batched, "sensitivities", of_the_mean)  # as if a mean were released
    weak = drawn(replace(problem, seed=5))
    longest = lengths.index(max(lengths))
    assert deviations(weak[longest], DELTA / EPSILON) < -6


@pytest.mark.parametrize(
    ("batches", "rounds", "expected"),
    [(Batches(2.0), 128, 4.0), (Batches(2.0, 1), 100, 14.142), (Batches(1.25), 121, 6.481)],
)
def test_noise_of_the_running_sum(batches: Batches, rounds: int, expected: float) -> None:
    """An agent's sum has sqrt(2 k) Delta/eps of noise, k the batches that are closed."""
    problem = made(batches=batches, rounds=rounds, replicas=2000)
    trace = simulate(problem)
    assert trace.final is not None
    noiseless = simulate(replace(problem, privacy=problem.privacy.at(1e9)))
    assert noiseless.final is not None
    inside = batches.released(rounds)
    total = (trace.final - noiseless.final)[:, 0, :, 0].sum(axis=0) * inside
    sums = total / math.sqrt(RING.size) * EPSILON / DELTA  # of independent agents: as one agent's
    k = batches.count(inside)
    assert math.sqrt(2 * k) == pytest.approx(expected, abs=1e-3)
    z = (np.mean(sums**2) - 2 * k) / (np.std(sums**2) / math.sqrt(sums.size))
    assert abs(z) <= 6
    too_little = 2 * (k + 4)  # four batches more would be seen
    assert k > 50 or abs(np.mean(sums**2) - too_little) > 6 * np.std(sums**2) / math.sqrt(sums.size)


@pytest.mark.parametrize("mechanism", ["laplace", "staircase"])
@pytest.mark.parametrize("name", ["learn", "learn-network", "push-sum-learn"])
def test_expected_errors_are_those_of_runs(name: str, mechanism: str) -> None:
    privacy = SignalDP(EPSILON, mechanism=mechanism, batches=Batches(2.0, 7))
    problem = made(name, replicas=1500, privacy=privacy)
    trace, expected = simulate(problem), theory.expected(problem)
    pairs = [
        (trace.total[:, 0], expected.total[:, 0]),
        (trace.privacy[:, 0], expected.privacy[:, 0]),
        (trace.decentralisation, expected.decentralisation),
    ]
    for t in (1, 3, 4, 31, 40):  # closing rounds, and open ones
        for measured, exact in pairs:
            squares = measured[t] ** 2
            z = (squares.mean() - exact[t] ** 2) / (squares.std() / math.sqrt(squares.size))
            assert abs(z) <= 6, (t, z)
    fresh = theory.expected(replace(problem, privacy=replace(privacy, batches=None)))
    squares = trace.privacy[40, 0] ** 2
    apart = fresh.privacy[40, 0] ** 2 - squares.mean()
    assert apart > 6 * squares.std() / math.sqrt(squares.size)  # the test sees a missing batch
    assert trace.noise_variance[0, 0, 0] == pytest.approx(expected.shared_noise[-1, 0] ** 2 / 9)
    assert trace.statistic_gain == pytest.approx(1 / (9 * Batches(2.0, 7).released(40)))


def test_measured_readings_enter_once_and_the_note_says_what_is_open() -> None:
    readings = np.arange(9 * 12, dtype=float).reshape(9, 12)
    source = RecordedSignals(vs.signals.as_signals(readings, labels=RING.labels))
    problem = made(batches=Batches(2.0), source=source, rounds=12, seed=3)
    trace = simulate(problem, Record(every=1))
    assert trace.noiseless is not None
    estimate = trace.noiseless[-1, :, 0, 0].mean()
    assert estimate == pytest.approx(readings[:, :8].mean())  # rounds 9 to 12: the batch is open
    note = next(sentence for sentence in limits(problem) if "batches" in sentence)
    assert "lacks up to 4 readings of each agent" in note
    assert "those of rounds 1 to 8" in note
    fresh = replace(problem, privacy=SignalDP(EPSILON, radius=1.0))
    assert fresh.algorithm == algorithms.Learn()
    assert not any("batches" in sentence for sentence in limits(fresh))


def test_sweeps_and_summaries_work() -> None:
    request = SignalDP(1.0, batches=Batches(2.0, 8))
    found = vs.sweep(
        {"mu": 2.0}, RING, FAMILY, request, "learn", rounds=32, epsilons=(0.5, 2.0)
    ).result
    few, many = found.trace.privacy[-1].mean(axis=-1)
    assert few == pytest.approx(4 * many)
    assert "batches" in str(found.guarantee)


@pytest.mark.parametrize("mechanism", ["discrete-laplace", "best", "staircase", "laplace"])
def test_bounds_of_a_reading_do_not_clip_a_sum(mechanism: str) -> None:
    """A sum of 32 readings in [0, 5] lies in [0, 160], and M takes it as it is."""
    family = Poisson(bounds=(0, 5))
    source = SyntheticSignals(family, {"rate": 2.0}, 9, seed=1)
    request = SignalDP(1.0, radius=math.inf, mechanism=mechanism, batches=Batches(2.0))
    problem = made(family=family, source=source, privacy=request, rounds=64, replicas=500)
    trace, exact = (simulate(made) for made in (problem, replace(problem, epsilons=(30.0,))))
    away = trace.mean - exact.mean
    assert abs(away.mean() / (away.std() / math.sqrt(away.size))) <= 6
    assert exact.mean.mean() == pytest.approx(2.0, abs=0.1)


def test_growth_one_is_fresh_noise_and_no_privacy_has_no_batches() -> None:
    trivial = SignalDP(1.0, batches=Batches(1.0))
    assert trivial == SignalDP(1.0)
    problem = made()
    assert isinstance(problem.algorithm, Batched)
    assert not isinstance(replace(problem, privacy=NoPrivacy()).algorithm, Batched)
    assert replace(problem, algorithm=problem.algorithm).algorithm is problem.algorithm


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("average", "uses one signal of each agent"),
        ("jacobi", "uses one signal of each agent"),
        ("first-order-online", "does not release each reading once"),
        ("learn-dynamic-as-published", "does not count all readings alike"),
    ],
)
def test_algorithms_without_a_proof_are_refused(name: str, words: str) -> None:
    with pytest.raises(PrivacyError, match=words):
        made(name)
