"""Clipped rounds: both ends of a link move the same integers, and no neighbour moves more than a radius."""

import random
from dataclasses import replace
from typing import Any

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agents.protocol.cases import bounded, released
from veilsum import algorithms, families, networks
from veilsum.agents import Manifest
from veilsum.agents.events import Leave, NoMoreReadings, Send, SkipReading
from veilsum.agents.messages import CumulativeMass
from veilsum.agents.protocol import Agent, Options
from veilsum.agents.protocol.mass import Mass
from veilsum.agents.protocol.messenger import Messenger
from veilsum.agents.transport.memory import Faults
from veilsum.privacy import NoPrivacy
from veilsum.simulation import Problem, SyntheticSignals, clipped_gossip, clipping_bound
from veilsum.testing import SimulatedNetwork

ROUNDS, HIGH, RADIUS = 40, 100.0, 5.0
LOSSY = Faults(drop=0.25, duplicate=0.2, reorder=0.2, delay=(0.001, 0.2))
PATIENT = Options(deadline=1.0, linger=60.0)
restore = Mass.restore
GRAPHS = ("complete:6", "star:7", "path:5", "random-geometric:20,0.4,1", "florentine-families")


def terms(graph: str = "star:7", clip: float = RADIUS, rounds: int = ROUNDS, **options: Any) -> Any:
    return bounded(graph=graph, rounds=rounds, lazy=True, high=HIGH, clip=clip, **options)


def readings(size: int, seed: int = 5) -> Any:
    return np.round(np.random.default_rng(seed).uniform(0.0, HIGH, size), 3)


def begun(manifest: Any, network: Any = SimulatedNetwork, **options: Any) -> Any:
    options.setdefault("options", PATIENT)
    run = network(manifest, **options)
    for label, value in zip(run.agents, readings(len(run.agents)), strict=True):
        run.release(label, [released(manifest, 1, value)])
    run.start()
    return run


def ran(manifest: Any, seconds: float = 5000.0, **options: Any) -> Any:
    run = begun(manifest, **options)
    assert run.run(seconds), "not all agents are done"
    return run


def total(run: Any, of: Any = None) -> Any:
    chosen = run.agents if of is None else of
    return sum(run.running[label].mass.sums[0] for label in chosen)


def given_total(run: Any, of: Any = None) -> Any:
    chosen = run.agents if of is None else of
    return sum(run.agents[label].released[0].sums[0] for label in chosen)


def simulated(graph: str, clip: float, rounds: int = ROUNDS) -> Any:
    net = networks.lazy_metropolis(graph)
    return clipped_gossip(net, readings(net.size), clip, rounds)[-1]


def final(run: Any) -> Any:
    return np.array([run.agents[label].outcome.estimate[0] for label in run.agents])


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("clip", [0.7, 5.0, 40.0])
def test_agents_and_the_simulator_agree(graph: str, clip: float) -> None:
    run = ran(terms(graph, clip))
    assert np.abs(final(run) - simulated(graph, clip)).max() < 1e-9
    assert total(run) == given_total(run)
    assert {agent.mass.weight for agent in run.running.values()} == {1 << run.manifest.unit}


def test_each_component_is_clipped_by_itself() -> None:
    net = networks.lazy_metropolis("star:7")
    family = families.NormalBoth(bounds=(0.0, 10.0))
    source = SyntheticSignals(family, {"mu": 5.0, "sigma": 2.0}, net.size, seed=3)
    todo = Problem(net, algorithms.Average(), family, source, NoPrivacy(), rounds=ROUNDS)
    manifest = Manifest.of(todo, clip=0.8)
    run = SimulatedNetwork(manifest, options=PATIENT, faults=LOSSY, seed=2)
    start = family.columns(readings(7) / 10.0)
    for label, values in zip(run.agents, start, strict=True):
        run.release(label, [released(manifest, 1, *values)])
    run.start()
    assert run.run(5000.0)
    found = np.array([run.agents[label].outcome.estimate for label in run.agents])
    expected = [clipped_gossip(net, column, 0.8, ROUNDS)[-1] for column in start.T]
    assert np.abs(found - np.column_stack(expected)).max() < 1e-9


def test_the_radius_is_felt_and_plain_rounds_are_something_else() -> None:
    plain = np.array([e[0] for e in ran(terms(clip=0.0)).estimates().values()])
    assert np.abs(plain - simulated("star:7", 0.7)).max() > 5.0


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_radius_beyond_all_differences_is_the_average_to_the_bit(graph: str) -> None:
    plain, clipped = ran(terms(graph, clip=0.0)), ran(terms(graph, clip=2 * HIGH))
    for label in plain.agents:
        assert plain.running[label].mass.sums == clipped.running[label].mass.sums
        assert plain.estimates()[label] == clipped.estimates()[label]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("graph", ["star:7", "random-geometric:20,0.4,1"])
def test_loss_repetition_and_reordering_change_no_bit(graph: str, seed: int) -> None:
    calm, rough = ran(terms(graph)), ran(terms(graph), seed=seed, faults=LOSSY)
    assert total(rough) == given_total(rough)
    assert final(rough).tolist() == final(calm).tolist()


@given(
    seed=st.integers(0, 2**16),
    crashes=st.lists(st.tuples(st.integers(0, 5), st.floats(0.0, 3.0)), max_size=6),
)
@settings(max_examples=15, deadline=None)
def test_a_restart_from_the_saved_state_changes_no_bit(seed: int, crashes: Any) -> None:
    manifest = terms("path:5", lost_after=1000.0)
    run = begun(manifest, seed=seed, faults=LOSSY)
    for at, seconds in crashes:
        run.run(seconds, until_done=False)
        label = list(run.agents)[at % len(run.agents)]
        if run.agents[label].done is None:
            run.crash(label)
            run.restart(label)
    assert run.run(5000.0)
    assert total(run) == given_total(run)
    assert final(run).tolist() == final(ran(manifest)).tolist()


def test_who_lost_its_state_makes_all_begin_anew() -> None:
    manifest = terms("path:5")
    run = begun(manifest, faults=Faults(delay=(0.01, 0.02)))
    run.run(0.4, until_done=False)
    assert run.running["2"].round > 3
    run.start("2")
    assert run.run(5000.0)
    assert total(run) == given_total(run)
    assert final(run).tolist() == final(ran(manifest)).tolist()


class Lossy(SimulatedNetwork):
    """Loses every message of one round over one link, until it is repeated for the n-th time."""

    lost = 0

    def perform(self, host: Any, action: Any) -> None:
        message: Any = getattr(action, "message", None)
        of_mass = isinstance(message, CumulativeMass) and message[:2] == ("0", "1")
        if of_mass and message.round == 7 and self.lost < 3:
            self.lost += 1
            return
        super().perform(host, action)


def test_a_later_message_does_not_stand_for_the_one_that_was_lost() -> None:
    """With one message missing its sender is a round ahead, and its next one covers both."""
    run = ran(terms("path:5"), network=Lossy)
    assert run.lost == 3
    assert total(run) == given_total(run)
    assert final(run).tolist() == final(ran(terms("path:5"))).tolist()


def test_if_the_later_message_stood_for_both_mass_would_be_lost(monkeypatch: Any) -> None:
    """A variant that settles with whatever arrived last, as plain rounds may."""
    monkeypatch.setattr("veilsum.agents.protocol.link.Link.has", lambda link, _: bool(link.buffer))
    run = begun(terms("path:5", clip=0.7), network=Lossy)
    run.run(200.0)
    assert total(run) != given_total(run)


def test_if_the_message_before_were_not_repeated_the_run_would_never_end(monkeypatch: Any) -> None:
    monkeypatch.setattr(Messenger, "_send_round_before", lambda *_: None)
    run = begun(terms("path:5"), network=Lossy)
    assert not run.run(1000.0)
    assert run.running["1"].round == 7


def test_if_offers_were_not_saved_a_restart_would_lose_mass(monkeypatch: Any) -> None:
    monkeypatch.setattr(
        Mass,
        "restore",
        lambda mass, read: restore(mass, [[peer, (0,), part] for peer, _, part in read]),
    )
    run = begun(terms("path:5"), faults=Faults(delay=(0.01, 0.02)))
    run.run(0.4, until_done=False)
    run.crash("2")
    run.restart("2")
    assert run.run(5000.0)
    assert total(run) != given_total(run)


class OwnSide(Agent):
    """A variant in which each end clips what it receives, and not the pair."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.mass.settle = self.clip_received  # type: ignore[method-assign]

    def clip_received(self, link: Any, message: Any) -> None:
        mass, radius = self.mass, self.mass._radii[link.peer]
        gained = min(max(message.sums[0] - link.in_sums[0], -radius), radius)
        mass.sums[0] += gained - link.part[0][0]
        link.part, link.in_sums, link.in_weight = None, message.sums, message.weight
        mass._received(link, message)


def test_if_each_end_clipped_what_it_receives_mass_would_be_lost() -> None:
    run = ran(terms(), agent=OwnSide)
    assert total(run) < 0.9 * given_total(run)


class Lying(SimulatedNetwork):
    """Member 0 says in every round that it is at a value, to everyone or as `lie` has it."""

    def __init__(self, manifest: Any, lie: Any, **options: Any) -> None:
        super().__init__(manifest, **options)
        self.lie = lie

    def perform(self, host: Any, action: Any) -> None:
        message = getattr(action, "message", None)
        if host.label == "0" and isinstance(message, CumulativeMass):
            action = Send(self.lie(message))
        super().perform(host, action)


def insisting(manifest: Any, value: Any, **options: Any) -> Any:
    def lie(message: Any) -> Any:
        said = value if not callable(value) else value(message.receiver)
        return message._replace(sums=(int(said) * message.weight,))

    return begun(manifest, lambda m, **more: Lying(m, lie, **more), **options)


def moved(run: Any) -> float:
    """By how much the mean of all but member 0 is off."""
    others = [label for label in run.agents if label != "0"]
    assert all(run.agents[label].outcome.reason == "rounds" for label in others)
    one = 1 << run.manifest.unit
    return float((total(run, others) - given_total(run, others)) / len(others) / one)


def by_receiver(peer: str) -> float:
    """The largest to some and the least to others."""
    return HIGH if sum(peer.encode()) % 2 else -HIGH


LIES: dict[str, Any] = {"the largest": HIGH, "the least": -HIGH, "to each its own": by_receiver}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("graph", ["complete:6", "star:7", "path:5", "random-geometric:20,0.4,1"])
def test_a_liar_moves_the_mean_of_the_others_by_at_most_the_bound(graph: str, lie: str) -> None:
    run = insisting(terms(graph, clip=0.5), LIES[lie])
    assert run.run(5000.0)
    assert not [r for _, r in run.reports if r.kind == "rejected"], "it is within all limits"
    net = networks.lazy_metropolis(graph)
    bound = clipping_bound(net, 0.5, ROUNDS, liars=[0])
    assert abs(moved(run)) <= bound * (1 + 1e-9)
    if lie == "the least":
        assert abs(moved(run)) > bound / 2, "and near it"
    stated = run.manifest.flows.influence("0") * run.manifest.largest
    assert stated == pytest.approx(min(bound, 2 * run.manifest.largest))


def test_without_clipping_the_same_liar_exceeds_the_bound() -> None:
    run = insisting(terms("star:7", clip=0.0), -HIGH)
    run.run(5000.0)
    bound = clipping_bound(networks.lazy_metropolis("star:7"), 0.5, ROUNDS, liars=[0])
    assert abs(moved(run)) > 3 * bound


def test_if_the_radius_were_not_applied_the_liar_would_exceed_the_bound(monkeypatch: Any) -> None:
    manifest = terms("star:7", clip=0.5)
    monkeypatch.setattr(type(manifest), "radii", lambda m, _: dict.fromkeys(m.labels, 2**200))
    run = insisting(manifest, -HIGH)
    assert run.run(5000.0)
    bound = clipping_bound(networks.lazy_metropolis("star:7"), 0.5, ROUNDS, liars=[0])
    assert abs(moved(run)) > 3 * bound


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda m: m._replace(weight=2 * m.weight), "another weight than every member has"),
        (
            lambda m: m._replace(sums=(m.sums[0] + 1000 * m.weight,)),
            "more than 101 times its weight",
        ),
    ],
)
def test_what_no_honest_member_says_is_refused_and_its_author_left_out(
    change: Any, why: str
) -> None:
    manifest = terms("complete:6", lost_after=20.0, quorum=3)
    run = begun(manifest, lambda m, **more: Lying(m, change, **more))
    run.run(200.0, until_done=False)
    texts = {r.text for _, r in run.reports if r.kind == "rejected"}
    assert any(why in text for text in texts)
    others = [label for label in run.agents if label != "0"]
    for label in others:
        assert "0" not in run.agents[label].outcome.coverage.contributing
    assert total(run, others) == given_total(run, others)


def two_groups(clip: float) -> Any:
    """Two groups, a direct link between them and a chain of three beside it, all of one weight."""
    graph = networkx.disjoint_union(networkx.complete_graph(14), networkx.complete_graph(14))
    graph.add_edges_from([(0, 14), (1, 28), (28, 29), (29, 30), (30, 15)])
    made = terms(graph, clip, rounds=500)
    return replace(made, links=tuple((a, b, 1 / 32) for a, b, _ in made.links))


def test_the_limits_of_plain_rounds_would_refuse_honest_mass_of_clipped_ones() -> None:
    """So they are not asked: a chain carries as much as a direct link where both are clipped."""
    manifest = two_groups(clip=40.0)
    run = SimulatedNetwork(manifest, options=PATIENT)
    for k, label in enumerate(run.agents):
        value = HIGH if k < 14 else -HIGH if k < 28 else 50.0 * (29 - k)
        run.release(label, [released(manifest, 1, value)])
    run.start()
    assert run.run(5000.0)
    assert not [r for _, r in run.reports if r.kind == "rejected"]
    link = run.running["30"].links["29"]
    crossed = (link.in_sums[0] - link.out_sums[0] - link.excess[0]) / (1 << manifest.unit)
    flow = two_groups(clip=0.0).flows.of(0)["29", "30"]
    assert crossed > (flow.plus + flow.minus + flow.step) * (HIGH + 1)


def test_in_plain_rounds_the_chain_carries_about_a_quarter_of_what_the_direct_link_does() -> None:
    manifest = two_groups(clip=0.0)
    place = {label: k for k, label in enumerate(manifest.labels)}
    A = np.zeros((31, 31))
    for a, b, weight in manifest.links:
        A[place[a], place[b]] = weight
    A += np.diag(1 - A.sum(axis=1))
    nu = np.array([HIGH] * 14 + [-HIGH] * 14 + [50.0, 0.0, -50.0])
    direct = chain = 0.0
    for _ in range(5000):
        direct, chain = direct + nu[0] - nu[14], chain + nu[29] - nu[30]
        nu = A @ nu
    assert 0.2 < chain / direct < 0.3


def test_a_member_that_leaves_is_left_out_and_the_rest_keep_their_mean() -> None:
    manifest = terms("complete:6", quorum=3)
    run = begun(manifest, faults=Faults(delay=(0.01, 0.02)))
    run.run(0.3, until_done=False)
    assert run.running["5"].round > 2
    run.feed("5", Leave())
    run.run(500.0, until_done=False)
    others = [label for label in run.agents if label != "5"]
    for label in others:
        done = run.agents[label].outcome
        assert (done.reason, done.coverage.missing) == ("rounds", ("5",))
    assert run.agents["5"].outcome.reason == "left"
    assert total(run, others) == given_total(run, others)


def test_a_member_that_leaves_before_its_reading_is_left_out() -> None:
    manifest = terms("complete:6", quorum=3)
    run = SimulatedNetwork(manifest, options=PATIENT)
    for label, value in zip(run.agents, readings(5), strict=False):
        run.release(label, [released(manifest, 1, value)])
    run.start()
    run.run(1.0, until_done=False)
    run.feed("5", Leave())
    run.run(500.0, until_done=False)
    others = [label for label in run.agents if label != "5"]
    assert all(run.agents[k].outcome.coverage.missing == ("5",) for k in others)
    assert total(run, others) == given_total(run, others)


@pytest.mark.parametrize("event", [NoMoreReadings(), SkipReading(1)])
def test_a_member_without_a_reading_is_left_out(event: Any) -> None:
    manifest = terms("complete:6", quorum=3)
    run = SimulatedNetwork(manifest, options=PATIENT)
    for label, value in zip(run.agents, readings(5), strict=False):
        run.release(label, [released(manifest, 1, value)])
    run.start()
    run.run(1.0, until_done=False)
    assert max(agent.round for agent in run.running.values()) <= 1, "it is waited for"
    run.feed("5", event)
    run.run(500.0, until_done=False)
    others = [label for label in run.agents if label != "5"]
    assert run.agents["5"].outcome.reason == "readings"
    assert all(run.agents[k].outcome.coverage.missing == ("5",) for k in others)
    assert total(run, others) == given_total(run, others)


@pytest.mark.parametrize("seed", range(3))
def test_all_stop_in_the_same_round_where_they_agree(seed: int) -> None:
    manifest = terms("path:5", rounds=5000, tolerance=0.5, clip=3.0)
    run = ran(manifest, seed=seed, faults=LOSSY)
    outcomes = [run.agents[label].outcome for label in run.agents]
    assert {(one.reason, one.round) for one in outcomes} == {("tolerance", outcomes[0].round)}
    assert np.ptp(final(run)) <= 0.5
    assert np.abs(final(run) - readings(5).mean()).max() <= 0.5
    assert total(run) == given_total(run)
    assert np.abs(final(run) - simulated("path:5", 3.0, outcomes[0].round)).max() < 1e-9


def test_the_order_of_everything_does_not_matter() -> None:
    """Crashes, losses of state and cuts in any order: whoever has a result has the same one."""
    for seed in range(6):
        rng = random.Random(seed)
        run = begun(terms("complete:6", quorum=2, lost_after=30.0), seed=seed, faults=LOSSY)
        for _ in range(4):
            run.run(rng.uniform(0.0, 3.0), until_done=False)
            label = rng.choice(list(run.agents))
            what = rng.choice(["crash", "forget", "cut"])
            if run.agents[label].done is not None:
                continue
            if what == "cut":
                run.sever(label, rng.choice([k for k in run.agents if k != label]))
            else:
                run.crash(label)
                (run.restart if what == "crash" else run.start)(label)
        run.run(3000.0)
        there = [k for k in run.agents if run.agents[k].outcome.reason == "rounds"]
        assert len(there) >= 2
        covers = {run.agents[k].outcome.coverage.contributing for k in there}
        assert covers == {tuple(there)}
        assert total(run, there) == given_total(run, there)
