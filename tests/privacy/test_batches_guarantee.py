"""What batches guarantee for one reading, a window and a stream, against exact losses and audits.

Audits have a confidence of 1 - 1e-6, so that one of a true claim fails with less than that.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.attacks.test_attack_composition import spent_delta
from veilsum import algorithms, auditing, networks
from veilsum.algorithms import Batched, Sensitivities
from veilsum.auditing import Transcript, audit, exact_loss, signal_moves
from veilsum.auditing.transcripts import transcript_mechanism
from veilsum.errors import PrivacyError
from veilsum.families import LogNormal, Normal
from veilsum.privacy import (
    Batches,
    Guarantee,
    NetworkDP,
    PrivacyEvent,
    SignalDP,
    Status,
    guarantee_of,
    plan,
)
from veilsum.privacy.accounting import compose
from veilsum.privacy.batches import window_starts
from veilsum.simulation import Problem, SyntheticSignals

FAMILY = Normal(sigma=1.0)
NET = networks.lazy_metropolis("path:3")
EPSILON = 1.0


def made(batches: Batches, rounds: int = 12, algorithm: str = "learn", net: Any = NET) -> Problem:
    source = SyntheticSignals(FAMILY, {"mu": 0.0}, net.size, seed=1)
    request = SignalDP(EPSILON, radius=1.0, batches=batches)
    return Problem(net, algorithms.get(algorithm, net), FAMILY, source, request, rounds)


def loss_of(problem: Problem, readings: range) -> float:
    """The exact loss of readings of agent 0 that move together, against all messages of all."""
    moves = [signal_moves(problem, 0, 1.0, reading) for reading in readings]
    together = replace(
        moves[0], first=0, impulses=np.sum([move.impulses for move in moves], axis=0)
    )
    return exact_loss(problem, together, Transcript((0, 1, 2), problem.rounds))


@pytest.mark.parametrize("algorithm", ["learn", "learn-network"])
@pytest.mark.parametrize("batches", [Batches(2.0), Batches(2.0, 3), Batches(1.5)])
def test_every_reading_costs_epsilon_once(batches: Batches, algorithm: str) -> None:
    problem = made(batches, algorithm=algorithm)
    inside = batches.released(problem.rounds)
    for reading in range(1, problem.rounds + 1):
        loss = loss_of(problem, range(reading, reading + 1))
        assert loss == pytest.approx(EPSILON if reading <= inside else 0.0)
    assert problem.guarantee.epsilon == EPSILON
    assert problem.guarantee.status is Status.PROVED
    assert "each reading is in one batch" in str(problem.guarantee)


@pytest.mark.parametrize("batches", [Batches(2.0), Batches(2.0, 3), Batches(1.5, 2)])
def test_windows_and_streams_cost_what_their_parts_add_up_to(batches: Batches) -> None:
    """All windows of all lengths: the exact loss is the number of released readings in it."""
    problem = made(batches)
    inside, stated = batches.released(problem.rounds), problem.guarantee
    for w in range(1, problem.rounds + 1):
        losses = [
            loss_of(problem, range(first, first + w)) for first in range(1, problem.rounds - w + 2)
        ]
        for first, loss in enumerate(losses, start=1):
            released = max(0, min(first + w - 1, inside) - first + 1)
            assert loss == pytest.approx(released * EPSILON)
        assert stated.for_window(w).epsilon >= max(losses) * (1 - 1e-9)
        assert stated.for_stream(w).epsilon >= losses[0] * (1 - 1e-9)
        assert stated.for_window(w).epsilon == stated.for_stream(w).epsilon == w * EPSILON


@pytest.mark.parametrize(("batches", "w"), [(Batches(2.0, 4), 6), (Batches(3.0, 5), 12)])
def test_a_delta_is_composed_over_batches_and_not_over_readings(batches: Batches, w: int) -> None:
    """At (epsilon, delta) no window spends more than delta; fresh noise would allow too little."""
    epsilon, delta = 0.2, 1e-3
    stated = guarantee_of(SignalDP(epsilon, batches=batches), algorithms.Learn(), 100)
    fresh = guarantee_of(SignalDP(epsilon), algorithms.Learn(), 100).for_window(w, delta)
    window, stream = stated.for_window(w, delta), stated.for_stream(w, delta)
    kinds = {batches.parts(first, w) for first in range(1, 40)}
    spent = [spent_delta([m * epsilon for m in parts], window.epsilon) for parts in kinds]
    assert max(spent) <= delta
    assert spent_delta([m * epsilon for m in batches.lengths(w)], stream.epsilon) <= delta
    assert window.epsilon <= w * epsilon * (1 + 1e-12)
    weak = [spent_delta([m * epsilon for m in parts], fresh.epsilon) for parts in kinds]
    assert max(weak) > delta  # composing w releases of epsilon each is refuted


def test_where_one_batch_may_hold_the_window_a_delta_buys_nothing() -> None:
    stated = guarantee_of(SignalDP(0.1, batches=Batches(2.0)), algorithms.Learn(), 100)
    window = stated.for_window(30, delta=1e-6)
    assert window.epsilon == pytest.approx(3.0)
    assert window.delta == 0.0
    assert "up to 30 are in one batch" in str(window)
    stream = stated.for_stream(100, delta=1e-6)
    fresh = guarantee_of(SignalDP(0.1), algorithms.Learn(), 100).for_stream(100, delta=1e-6)
    assert stream.epsilon > 2 * fresh.epsilon  # 10.0 and 4.7; over a year 36.5 and 10.1
    assert Guarantee.from_dict(stream.to_dict()) == stream


def test_groups_shift_the_same_noise() -> None:
    steps = PrivacyEvent(0.1, mechanism="discrete-laplace", parameter=8)
    three = steps.times(3)
    assert (three.mechanism, three.parameter) == ("discrete-laplace", 24)
    assert three.epsilon == pytest.approx(0.3)
    assert PrivacyEvent(0.1).times(3).epsilon == pytest.approx(0.3)
    laplace = PrivacyEvent(0.5, mechanism="laplace").times(4)
    assert compose([laplace], 1e-3).epsilon == pytest.approx(2 + 2 * math.log1p(-1e-3), abs=1e-3)


def attacked(problem: Problem, reading: int, trials: int = 12_000) -> Any:
    """Attack one reading through all messages of its agent."""
    seen = transcript_mechanism(problem, 1, problem.rounds, background=0.0, reading=reading)
    return audit(seen, [(0.0, 1.0)], EPSILON, trials=trials, name="batches")


def test_the_audit_refutes_weakened_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = made(Batches(2.0), rounds=4)
    sound = attacked(problem, reading=3)
    assert not sound.refuted
    assert sound.lower_bound > 0.5  # it does see the batch of readings 3 and 4
    usual = Batched.readings
    with monkeypatch.context() as weakened:  # the reading before a batch is in that one as well
        weakened.setattr(
            Batched, "readings", lambda self, t: (n := usual(self, t)) + (t > 1 and n > 0)
        )
        assert attacked(problem, reading=2).refuted
    with monkeypatch.context() as weakened:  # noise as if the mean of a batch were released
        weakened.setattr(
            Batched, "sensitivities", lambda self, t: Sensitivities(1 / max(usual(self, t), 1), 0.0)
        )
        assert attacked(replace(problem), reading=3).refuted


def test_the_scenario_audit_attacks_a_batch_of_several_readings() -> None:
    report = auditing.audit_problem(made(Batches(2.0), rounds=9), trials=4_000)
    assert report.exact == pytest.approx(EPSILON)
    assert not report.refuted


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        (NetworkDP, {}, "leave rounds without noise"),
        (SignalDP, {"sensitivity": "smooth", "delta": 0.01}, "sensitivity smooth is that of one"),
        (SignalDP, {"mechanism": "hybrid"}, "as many times as wide"),
        (SignalDP, {"mechanism": "duchi"}, "go with laplace"),
    ],
)
def test_requests_without_a_proof_are_refused(kind: Any, options: Any, words: str) -> None:
    with pytest.raises(PrivacyError, match=words):
        kind(1.0, batches=Batches(2.0, 24), **options)


def test_best_adds_noise_and_other_things_are_refused() -> None:
    bounded = Normal(1.0, bounds=(0.0, 1.0))
    assert plan(SignalDP(1.0, mechanism="best"), bounded).name == "hybrid"
    request = SignalDP(1.0, mechanism="best", batches=Batches(2.0))
    assert plan(request, bounded).name == "staircase"
    with pytest.raises(PrivacyError, match="batches must be privacy"):
        SignalDP(1.0, batches=2.0)  # type: ignore[arg-type]
    none = guarantee_of(SignalDP(1.0, batches=Batches(2.0)), algorithms.Average())
    assert none.status is Status.NONE
    assert "one signal of each agent" in none.reason
    infinite = guarantee_of(
        SignalDP(1.0, batches=Batches(2.0)), algorithms.Learn(), family=LogNormal(1.0)
    )
    assert infinite.status is Status.NONE


def test_parts_of_windows_are_complete() -> None:
    batches = Batches(1.5, 4)
    other = Batches(2.0, 3)

    def kind(first: int) -> Any:
        return tuple(tuple(sorted(each.parts(first, 7))) for each in (batches, other))

    found = window_starts([batches, other], 7)
    assert found is not None
    assert {kind(first) for first in found} == {kind(first) for first in range(1, 500)}
    assert window_starts([batches], 4) is None
    assert window_starts([batches], 7, most=2) is None
    assert window_starts([Batches(1.0)], 3) == (1,)
    assert np.isclose(batches.most_together(7), 4)
