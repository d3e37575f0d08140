"""The exact loss of linear algorithms: known numbers, brute force over densities, and sampling."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from veilsum import algorithms, networks
from veilsum.auditing import (
    AuditReport,
    Messages,
    Transcript,
    audit,
    audit_neighbour,
    estimate_moves,
    estimate_off,
    exact_loss,
    signal_moves,
    view_mechanism,
    worst_neighbours,
)
from veilsum.auditing.exact import gains, ratio_score, scales
from veilsum.auditing.problem import adversaries, claim_for
from veilsum.errors import PrivacyError
from veilsum.families import LogNormal, Normal
from veilsum.privacy import NetworkDP, NoPrivacy, SignalDP, guarantee_of, network_cost
from veilsum.simulation import Problem, SyntheticSignals

FAMILY = Normal(sigma=1.0)
TINY = 1e-6  # a radius so small that the neighbours set the scale


def problem(
    algorithm: Any = "learn-network",
    graph: Any = "path:5",
    privacy: Any = None,
    rounds: Any = 50,
    net: Any = None,
) -> Any:
    net = net or networks.metropolis(networks.load(graph))
    source = SyntheticSignals(FAMILY, {"mu": 0.0}, net.size, seed=1)
    return Problem(net, algorithms.get(algorithm, net), FAMILY, source,
                   privacy or NetworkDP(1.0, radius=TINY), rounds)  # fmt: skip


def noise_of(todo: Any, view: Any) -> Any:
    """Coefficients times scales of all noise in the messages, (messages, rounds * agents)."""
    factors = np.array([todo.algorithm.at(t).noise for t in range(todo.rounds + 1)])[:, None]
    cover, rows = factors * scales(todo), []
    for agent, t in view.messages:
        row = np.zeros_like(cover)
        row[: t + 1] = gains(todo, agent, t) * cover[: t + 1]
        rows.append(row.ravel())
    return np.array(rows)


def shift_of(todo: Any, move: Any, view: Any) -> Any:
    return np.array([(gains(todo, i, t) * move.impulses[: t + 1]).sum() for i, t in view.messages])


@pytest.mark.parametrize(
    ("graph", "agent", "neighbour", "loss"),
    [("path:5", 4, 3, 10.12), ("ring:21", 20, 19, 8.27), ("florentine-families", 10, 9, 11.40)],
)
def test_one_late_message_reveals_ten_times_what_was_stated_for_it(
    graph: Any, agent: Any, neighbour: Any, loss: Any
) -> None:
    """The guarantee of Network DP used to say epsilon = 1 for `one message`, whichever it was."""
    todo = problem(graph=graph)
    found = exact_loss(todo, estimate_moves(todo, neighbour, 20), Messages(((agent, 50),)))
    assert found == pytest.approx(loss, abs=0.01)
    assert 1 < found <= network_cost(todo.algorithm, 20, 50)


def test_sampling_refutes_the_old_claim_for_a_late_message_too() -> None:
    todo = problem()
    move, view = estimate_moves(todo, 3, 20), Messages(((4, 50),))
    report = audit(view_mechanism(todo, move, view), [(0.0, 1.0)], 1.0, trials=100_000, rng=1)
    assert report.refuted
    assert 2.5 < report.lower_bound < exact_loss(todo, move, view)
    now = audit_neighbour(todo, 100_000, 20, view, rng=1, neighbour=3)
    assert not now.refuted
    assert now.epsilon == pytest.approx(20 * sum(1 / u for u in range(20, 50)))
    assert now.exact == pytest.approx(10.12, abs=0.01)


def test_a_density_computed_by_brute_force_has_the_exact_loss_for_its_limit() -> None:
    """The density of the message by inverting its characteristic function, in steps of 2^-6."""
    todo = problem(graph="path:3", rounds=8)
    move, view = estimate_moves(todo, 1, 3), Messages(((0, 6),))
    (c,) = noise_of(todo, view)
    m, largest = float(shift_of(todo, move, view)[0]), np.abs(c).max()
    n, h = 2**16, largest / 64
    w = 2 * np.pi * np.fft.fftfreq(n, h)
    density = np.fft.fftshift(np.fft.ifft(np.prod(1 / (1 + np.outer(c, w) ** 2), axis=0)).real) / h
    steps = round(m / h)
    y = (np.arange(n) - n // 2) * h
    inside = (np.abs(y) < 18 * largest) & (np.abs(y - m) < 18 * largest)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.log(np.roll(density, steps) / density)[inside] * m / (steps * h)
    exact = exact_loss(todo, move, view)
    assert exact == pytest.approx(m / largest)
    assert 0.93 * exact < ratio.max() < 1.001 * exact  # the limit is reached slowly


def test_two_messages_against_a_density_in_two_dimensions() -> None:
    todo = problem(graph="path:2", rounds=4, net=networks.lazy_metropolis(networks.load("path:2")))
    move, view = estimate_moves(todo, 1, 1), Messages(((0, 2), (0, 3)))
    L, m = noise_of(todo, view), shift_of(todo, move, view)
    n, h = 1024, np.abs(L).max() / 12
    w = 2 * np.pi * np.fft.fftfreq(n, h)
    inner = L[0][:, None, None] * w[None, :, None] + L[1][:, None, None] * w[None, None, :]
    spectrum = np.prod(1 / (1 + inner**2), axis=0)
    moved = spectrum * np.exp(-1j * (w[:, None] * m[0] + w[None, :] * m[1]))
    p, q = (np.fft.ifft2(s).real / h**2 for s in (spectrum, moved))
    sure = (p > 1e-6 * p.max()) & (q > 1e-6 * p.max())
    ratio = np.log(q[sure] / p[sure]).max()
    exact = exact_loss(todo, move, view)
    assert 0.85 * exact < ratio < 1.02 * exact


@pytest.mark.parametrize("algorithm", ["learn", "learn-network", "naive-network"])
def test_least_noise_that_imitates_the_move_is_the_loss(algorithm: Any) -> None:
    """Strong duality: min { sum |z|/b : L z = m }, solved as it stands, gives the same number."""
    todo = problem(algorithm, "ring:7", rounds=12)
    move = estimate_moves(todo, 3, 4)
    view = Messages(((2, 6), (2, 9), (5, 12), (4, 5)))
    L, m = noise_of(todo, view), shift_of(todo, move, view)
    both = np.concatenate([L, -L], axis=1)
    least = linprog(np.ones(both.shape[1]), A_eq=both, b_eq=m).fun
    assert exact_loss(todo, move, view) == pytest.approx(least, rel=1e-6)


GOSSIP = [n for n, a in algorithms.ALGORITHMS.items() if not a.summed]


@pytest.mark.parametrize("algorithm", GOSSIP)
def test_a_transcript_costs_what_each_message_adds_to_its_past(algorithm: Any) -> None:
    """Forwards, with the observed agents held, or by inverting their own noise: the same sum."""
    kind = algorithms.ALGORITHMS[algorithm]
    divided = kind.splits_budget and not kind.perturbs_messages
    privacy = SignalDP(1.0) if divided or kind.ratio else None
    todo = problem(algorithm, "ring:7", privacy, rounds=9)
    move = signal_moves(todo, 3, 0.5, 2) if privacy else estimate_moves(todo, 3, 2)
    view = Transcript((1, 2), 9)
    seen = view.messages
    own = np.array([
        [g[s, j] if s < len(g) else 0.0 for j, s in seen]
        for g in (gains(todo, *message) for message in seen)
    ])  # fmt: skip
    added = np.abs(np.linalg.solve(own, shift_of(todo, move, view)))
    added[added < 1e-12] = 0.0
    b = np.array([abs(todo.algorithm.at(t).noise) * scales(todo)[t, i] for i, t in seen])
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.nansum(added / b)
    assert exact_loss(todo, move, view) == pytest.approx(expected, rel=1e-9)


def test_whoever_sees_everything_learns_what_the_noise_at_the_signal_lets_through() -> None:
    for algorithm in ("average", "learn", "learn-network", "jacobi", "chebyshev", "push-sum"):
        todo = problem(algorithm, "ring:7", SignalDP(0.7), rounds=9)
        everyone = Transcript(tuple(range(7)), 9)
        for reading in (1, 5):
            move = signal_moves(todo, 2, 1.0, reading)
            assert exact_loss(todo, move, everyone) == pytest.approx(0.7)
            some = Messages(((2, 6), (3, 9), (1, 6)))
            assert exact_loss(todo, move, some) <= 0.7 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("algorithm", "graph", "loss"),
    [
        ("learn", "path:5", 1.96),
        ("naive-network", "path:5", 2.0),
        ("learn", "ring:21", 1.62),
        ("naive-network", "ring:21", 1.78),
        ("naive-network", "florentine-families", 6.0),
    ],
)
def test_a_neighbour_that_is_off_in_every_round_costs_more_in_one_message(
    algorithm: Any, graph: Any, loss: Any
) -> None:
    """One message used to be said to cost epsilon, a neighbour off by 1 in every round included."""
    todo = problem(algorithm, graph)
    A = todo.network.at(1)
    losses = [
        exact_loss(todo, estimate_off(todo, int(j), 1), Messages(((i, 50),)))
        for i in range(todo.network.size)
        for j in A[[i]].indices
        if j != i
    ]
    assert max(losses) == pytest.approx(loss, abs=0.01)


def test_an_estimate_that_is_off_stays_off() -> None:
    todo = problem("learn", "ring:7", rounds=9)
    move = estimate_off(todo, 3, 2)
    for t in range(10):
        off = (gains(todo, 3, t) * move.impulses[: t + 1]).sum()
        assert off == pytest.approx(1.0 if t >= 2 else 0.0)


@pytest.mark.parametrize(
    ("algorithm", "moved", "view"),
    [
        ("learn-network", 3, Transcript((8,), 5)),
        ("learn-network", 3, Transcript((8, 0), 6)),
        ("learn-network", 3, Messages(((8, 7),))),
        ("learn", 2, Messages(((8, 3), (8, 5), (0, 4)))),
        ("naive-network", 1, Transcript((8,), 4)),
    ],
)
def test_samples_stay_below_the_exact_loss_and_come_near_it(
    algorithm: Any, moved: Any, view: Any
) -> None:
    """Bounds at confidence 1 - 1e-6 each: a false alarm in 2e5 tries, and the seeds are fixed."""
    todo = problem(algorithm, "florentine-families")
    report = audit_neighbour(todo, 150_000, moved, view, rng=1)
    assert not report.refuted
    assert report.exact is not None
    assert report.lower_bound < report.exact
    assert report.lower_bound > 0.5 * min(report.exact, 4.0)


def test_the_likelihood_ratio_of_a_transcript_is_that_of_its_noise() -> None:
    """E[e^score] under no move is 1: it is a likelihood ratio. Five standard errors (3e-7)."""
    todo = problem("learn-network", "florentine-families")
    move, view = estimate_moves(todo, 1, 3), Transcript((8,), 6)
    score = ratio_score(todo, move, view)
    nothing = view_mechanism(todo, move, view)(0.0, 200_000, np.random.default_rng(1))
    ratio = np.exp(score(nothing))
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / math.sqrt(200_000)
    assert score(nothing).max() == pytest.approx(exact_loss(todo, move, view), abs=1e-5)


def test_the_search_tries_many_adversaries_and_refutes_the_offline_average() -> None:
    fine = worst_neighbours(problem(graph="ring:21", rounds=20))
    assert [r.name.split(": ")[1] for r in fine] == [
        "next message", "last message", "all messages", "all of two agents",
    ]  # fmt: skip
    assert not any(r.refuted for r in fine)
    assert fine[0].exact == pytest.approx(1.0)
    assert fine[1].exact is not None
    assert fine[1].exact > 1.5
    assert "exactly" in str(fine[1])
    assert "the worst of" in str(fine[1])
    broken = worst_neighbours(problem("average", rounds=20))
    assert broken[0].refuted
    assert broken[2].refuted
    assert broken[0].to_dict()["exact"] == "inf"


def test_the_search_derives_the_guarantee_once(monkeypatch: Any) -> None:
    """It was derived, and the problem built again, for every adversary."""
    derived = []

    def counted(*arguments: Any) -> Any:
        derived.append(arguments)
        return guarantee_of(*arguments)

    monkeypatch.setattr("veilsum.auditing.problem.guarantee_of", counted)
    todo = problem(graph="ring:21", rounds=20)
    reports = worst_neighbours(todo)
    assert len(derived) == 1
    one = next(iter(adversaries(todo)))
    assert reports[0].epsilon == pytest.approx(claim_for(todo, one[2], one[3]))


def test_large_networks_are_searched_and_cut() -> None:
    grid = networks.metropolis(networks.load("us-power-grid"))
    todo = problem(net=grid, rounds=6)
    assert not any(r.refuted for r in worst_neighbours(todo))
    report = audit_neighbour(todo, 20_000, 1, Messages(((2553, 3),)), rng=1)
    assert not report.refuted
    assert report.exact is not None
    assert 0 < report.lower_bound < report.exact


def test_what_has_no_exact_loss_says_so() -> None:
    with pytest.raises(PrivacyError, match="nothing to audit"):
        scales(problem(privacy=NoPrivacy()))
    with pytest.raises(PrivacyError, match="is a ratio"):
        estimate_moves(problem("push-sum"), 0, 1)
    with pytest.raises(PrivacyError, match="noise on the links"):
        scales(problem("first-order-edges"))
    with pytest.raises(PrivacyError, match="later rounds, up to 50; found round 3"):
        audit_neighbour(problem(), 1000, 3, Messages(((0, 3),)))
    with pytest.raises(PrivacyError, match="agent 1 is seen itself"):
        audit_neighbour(problem(), 1000, 3, Messages(((1, 4),)), neighbour=1)
    smooth = SignalDP(1.0, delta=0.01, sensitivity="smooth")
    family = LogNormal(sigma=1.0, bounds=(0.5, 9.0))
    net = networks.metropolis(networks.load("path:5"))
    source = SyntheticSignals(FAMILY, {"mu": 0.0}, 5, seed=1)
    todo = Problem(net, algorithms.Learn(), FAMILY, source, smooth, 5)
    object.__setattr__(todo, "family", family)
    with pytest.raises(PrivacyError, match="changes the scale too"):
        signal_moves(todo, 0, 1.0)


def test_the_last_digit_of_an_exact_loss_refutes_nothing() -> None:
    """12 x 10 / 10 is 12.000000000000002 in floats, and a claim of 12 holds."""
    report = AuditReport(
        "laplace",
        12.0,
        0.0,
        12 * (1 + 1e-15),
        0.0,
        1.0,
        0,
        "0 and 10",
        "all",
        exact=12 * (1 + 1e-15),
    )
    assert report.epsilon < report.lower_bound
    assert not report.refuted
    assert replace(report, lower_bound=12.0001).refuted
    assert replace(report, exact=12.0001).refuted
