"""What a member can claim over a link: honest traffic always, and a liar only so much."""

import itertools
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agents.protocol.cases import bounded, released, small
from veilsum.agents.events import Leave, NoMoreReadings, Released, Send
from veilsum.agents.flows import LinkFlow
from veilsum.agents.messages import CumulativeMass
from veilsum.agents.protocol import Options
from veilsum.agents.protocol.claims import ROOM, UNKNOWN, Claims, largest_release
from veilsum.agents.protocol.history import AgentIdentity
from veilsum.agents.protocol.memory import AgentState
from veilsum.agents.transport.memory import Faults
from veilsum.testing import SimulatedNetwork

LOSSY = Faults(drop=0.3, duplicate=0.2, reorder=0.2, delay=(0.001, 0.2))
SLOW = Faults(delay=(0.02, 0.05))
ROUNDS = 60
HIGH = 100.0


class Lying(SimulatedNetwork):
    """Member 0 sends what `lie` makes of its messages of mass."""

    def __init__(self, manifest: Any, lie: Any, **options: Any) -> None:
        super().__init__(manifest, **options)
        self.lie = lie

    def perform(self, host: Any, action: Any) -> None:
        message = getattr(action, "message", None)
        if host.label == "0" and isinstance(message, CumulativeMass):
            action = Send(self.lie(self, message))
        super().perform(host, action)


def refused(run: Any) -> Any:
    return [(who, r.peer, r.text) for who, r in run.reports if r.kind == "rejected"]


def switch_off(monkeypatch: Any) -> None:
    monkeypatch.setattr(Claims, "rise_refusal", lambda *_: "")
    monkeypatch.setattr(Claims, "net_refusal", lambda *_: "")
    monkeypatch.setattr(Claims, "permits", lambda *_: True)


def heavy(value: float) -> Any:
    """One message of weight 2^31, and all that follow contain it."""

    def lie(run: Any, message: Any) -> Any:
        if message.round < 3:
            return message
        more = 2**31 << run.manifest.unit
        return message._replace(
            sums=(message.sums[0] + int(value) * more,), weight=message.weight + more
        )

    return lie


def misled(manifest: Any, lie: Any, seconds: float = 20.0) -> Any:
    run = Lying(manifest, lie)
    for label, value in zip(run.agents, (50.0, 10.0, 20.0), strict=True):
        run.release(label, [released(manifest, 1, value)])
    run.start()
    run.run(seconds, until_done=False)
    return run


@pytest.mark.parametrize("value", [100.0, 150.0])
def test_one_message_of_weight_2_31_pins_nobody(value: float) -> None:
    run = misled(bounded(asynchronous=True, high=HIGH), heavy(value))
    assert {(who, peer) for who, peer, _ in refused(run)} == {("1", "0"), ("2", "0")}
    for label in "12":
        (estimate,) = run.estimates()[label]
        assert 10.0 <= estimate <= 50.0


@pytest.mark.parametrize("value", [100.0, 150.0])
def test_without_the_limits_one_message_pins_both(value: float, monkeypatch: Any) -> None:
    switch_off(monkeypatch)
    run = misled(bounded(asynchronous=True, high=HIGH), heavy(value))
    for label in "12":
        assert run.estimates()[label][0] == pytest.approx(value, abs=1e-3)


def insists(value: float) -> Any:
    """Every round says that all mass is at one value."""

    def lie(_: Any, message: Any) -> Any:
        return message._replace(sums=(int(value) * message.weight,))

    return lie


def in_rounds(lie: Any, graph: Any = "complete:8", **options: Any) -> Any:
    manifest = bounded(
        graph=graph, rounds=ROUNDS, lazy=True, quorum=3, lost_after=20.0, high=HIGH, **options
    )
    run = Lying(manifest, lie, options=Options(deadline=1.0))
    for k, label in enumerate(run.agents):
        run.release(label, [released(manifest, 1, float(k))])
    run.start()
    run.run(80, until_done=False)
    return run


def honest_mean(run: Any) -> float:
    weights = [run.running[k].mass.weight for k in run.agents if k != "0"]
    sums = [run.running[k].mass.sums[0] for k in run.agents if k != "0"]
    return float(sum(sums) / sum(weights))


def test_who_insists_is_left_out_and_the_others_have_their_mean() -> None:
    run = in_rounds(insists(HIGH))
    assert {peer for _, peer, _ in refused(run)} == {"0"}
    for label in list(run.agents)[1:]:
        done = run.agents[label].outcome
        assert done.reason == "rounds"
        assert done.estimate[0] == pytest.approx(4.0, abs=1e-6)
        assert "0" not in done.coverage.contributing


def test_without_the_limits_who_insists_wins(monkeypatch: Any) -> None:
    switch_off(monkeypatch)
    run = in_rounds(insists(HIGH))
    assert not refused(run)
    assert all(run.agents[k].outcome.estimate[0] > 90 for k in list(run.agents)[1:])


def greedy(run: Any, message: Any) -> Any:
    """As much as the receiver believes, and as little weight: just within its limits."""
    there, own = run.running.get(message.receiver), run.running["0"]
    if there is None or there.state.round < 1:
        return message
    link = there.links["0"]
    low, _, most = there.claims._known_flows(False)["0"]
    weight = max(link.out_weight + low, link.in_weight)
    rise = there.claims.largest * (weight - link.in_weight)
    sums = min(link.out_sums[0] + most, link.in_sums[0] + rise)
    return message._replace(sums=(sums,), weight=weight, releases=own.identity.release_fields[0])


@pytest.mark.parametrize("graph", ["complete:8", "complete:16", "path:5"])
def test_a_liar_within_the_limits_moves_the_mean_by_less_than_is_stated(graph: str) -> None:
    run = in_rounds(greedy, graph)
    stated = run.manifest.flows.influence("0") * run.running["1"].claims.largest
    rest = len(run.agents) - 1
    truth = sum(range(1, rest + 1)) / rest
    assert stated / 3 < abs(honest_mean(run) - truth) <= stated
    largest = run.running["1"].claims.largest
    assert all(abs(run.agents[k].outcome.estimate[0]) <= largest for k in list(run.agents)[1:])


def values(manifest: Any, rng: Any, size: int) -> Any:
    """Releases at both ends of what is possible, or anywhere."""
    ends = (-HIGH, HIGH) if rng.random() < 0.7 else (-1.0, HIGH)
    return [released(manifest, k + 1, rng.choice(ends)) for k in range(size)]


def honest_run(
    algorithm: str, graph: str, seed: int, rounds: int, asynchronous: bool, events: Any
) -> Any:
    manifest = bounded(
        algorithm, graph, rounds=rounds, lazy=True, asynchronous=asynchronous, quorum=2,
        lost_after=8.0, high=HIGH,
    )  # fmt: skip
    rng = random.Random(seed)
    run = SimulatedNetwork(manifest, faults=LOSSY, seed=seed, options=Options(patience=6))
    several = algorithm != "average" or asynchronous
    labels = list(run.agents)
    for label in labels:
        if rng.random() < 0.85:
            run.release(label, values(manifest, rng, rng.randrange(1, 30) if several else 1))
    run.start()
    for label in labels:
        run.feed(label, NoMoreReadings())
    for what, at, seconds in events:
        run.run(seconds, until_done=False)
        label = labels[at % len(labels)]
        host = run.agents[label]
        if what == "leave":
            run.feed(label, Leave())
        elif what == "crash" and host.agent is not None:
            run.crash(label)
            run.restart(label)
        elif what == "forget":
            run.start(label)
        elif what == "cut":
            run.sever(label, labels[(at + 1) % len(labels)])
    run.run(15, until_done=False)
    run.network.heal()
    run.network.faults = SLOW  # rounds without an end take no time otherwise
    run.run(10, until_done=False)
    return run


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["leave", "crash", "forget", "cut", "nothing"]),
        st.integers(0, 5),
        st.sampled_from([0.3, 1.0, 3.0]),
    ),
    max_size=3,
)


@pytest.mark.parametrize(
    ("algorithm", "rounds", "asynchronous"),
    [("average", 25, False), ("learn", 25, False), ("average", 0, False), ("learn", 0, False),
     ("average", 0, True)],
    ids=["rounds", "rounds of a stream", "open-ended", "open-ended stream", "asynchronous"],
)  # fmt: skip
@given(
    graph=st.sampled_from(["complete:4", "path:4", "ring:5"]),
    seed=st.integers(0, 10**6),
    events=EVENTS,
)
@settings(max_examples=4, deadline=None)
def test_honest_mass_is_never_refused(
    algorithm: str, rounds: int, asynchronous: bool, graph: str, seed: int, events: Any
) -> None:
    run = honest_run(algorithm, graph, seed, rounds, asynchronous, events)
    found = [text for _, _, text in refused(run) if text.startswith("mass of round")]
    stale = ("of incarnation", "which it does not prove")
    assert [text for text in found if not any(s in text for s in stale)] == []


def test_flows_of_half_the_size_would_refuse_honest_mass(monkeypatch: Any) -> None:
    manifest = bounded(graph="path:4", rounds=25, lazy=True, high=HIGH)
    right = manifest.flows.of(0)
    half = {k: LinkFlow(f.plus / 2, f.minus / 2, 0.0) for k, f in right.items()}
    run = SimulatedNetwork(manifest, seed=1)
    for label, value in zip(run.agents, (-HIGH, -HIGH, HIGH, HIGH), strict=True):
        run.release(label, [released(manifest, 1, value)])
    monkeypatch.setattr(manifest.flows, "of", lambda _: half)
    run.start()
    run.run(20, until_done=False)
    assert refused(run)


def test_a_sender_that_does_not_hold_back_would_be_refused(monkeypatch: Any) -> None:
    """A member with many readings and one without: what is not accepted yet stays."""

    def tried() -> Any:
        manifest = bounded(asynchronous=True, graph="path:3", lazy=True)
        run = SimulatedNetwork(manifest, seed=3)
        one = 1 << manifest.unit
        run.release("0", [Released(1, (5000 * 50 * one,), 5000 * one)])
        run.start()
        run.run(60, until_done=False)
        return run

    run = tried()
    assert not refused(run)
    assert all(abs(e[0] - 50.0) < 1e-6 for e in run.estimates().values())
    totals = run.totals()
    balance = [sum(parts) for parts in zip(*list(totals.values())[:3], strict=True)]
    assert balance == list(totals["released"])
    monkeypatch.setattr(Claims, "permits", lambda *_: True)
    assert refused(tried())


def test_where_the_largest_release_is_unknown_only_the_weight_is_limited() -> None:
    unknown = small(rounds=10)
    assert largest_release(unknown) == UNKNOWN
    assert largest_release(bounded(high=7.5)) == 9


def test_the_allowance_grows_with_the_receivers_own_round_and_releases() -> None:
    manifest, state, identity = bounded(asynchronous=True), AgentState("0"), AgentIdentity("0")
    claims = Claims(manifest, state, identity)
    one = ROOM * 3 << manifest.unit
    assert claims._own_allowance() == one
    state.round = 4
    identity.add(released(manifest, 1, 5.0))
    assert claims._own_allowance() == 6 * one


def test_all_modes_ask_the_same_place() -> None:
    """Both paths of a message lead to the same answer."""
    for rounds, asynchronous in itertools.product((0, 20), (False, True)):
        manifest = bounded(rounds=rounds, asynchronous=asynchronous)
        run = SimulatedNetwork(manifest)
        run.start()
        agent = run.running["0"]
        assert agent.mass._claims is agent.claims
        assert agent.claims.exact == (rounds > 0 and not asynchronous)
