"""Who says that an agent was further than it remembers proves it, or is not believed."""

from typing import Any

import networkx
import pytest

from tests.agents.protocol.cases import released, small
from veilsum import networks
from veilsum.agents.events import AgentReport, Deadline, Done, Received, Restarted, Send, Started
from veilsum.agents.messages import CumulativeMass, Hello
from veilsum.agents.protocol import Agent, Options
from veilsum.agents.protocol.history import Authenticator
from veilsum.agents.protocol.states import SessionEvent
from veilsum.testing import SimulatedNetwork

SECRET = bytes(range(32))


def everyone(run: Any) -> None:
    for label in run.agents:
        run.release(label, [released(run.manifest, 1, float(label))])


def test_tags_differ_by_secret_incarnation_and_round() -> None:
    own = Authenticator(SECRET)
    made = {own.tag(incarnation, number) for incarnation in range(1, 9) for number in range(50)}
    made.add(Authenticator(SECRET[::-1]).tag(1, 1))
    assert len(made) == 8 * 50 + 1
    assert {len(tag) for tag in made} == {8}
    assert own.verifies(own.tag(3, 4), 3, 4)
    assert not own.verifies(own.tag(3, 4), 3, 5)
    assert not own.verifies(b"", 3, 4)


def test_without_a_secret_a_claim_is_enough() -> None:
    assert Authenticator().tag(1, 2) == b""
    assert Authenticator().verifies(b"", 9, 9)


def lying(change: Any, kind: Any) -> Any:
    class Liar(SimulatedNetwork):
        def perform(self, host: Any, action: Any) -> None:
            message = getattr(action, "message", None)
            if host.label == "2" and isinstance(message, kind):
                action = Send(change(message))
            super().perform(host, action)

    return Liar


LIES = {
    "an incarnation in a hello": (
        lambda m: m._replace(peer_incarnation=m.peer_incarnation + 7),
        Hello,
    ),
    "a round in a hello": (lambda m: m._replace(acknowledged=m.acknowledged + 7), Hello),
    "a round": (lambda m: m._replace(acknowledged=m.acknowledged + 9), CumulativeMass),
    "an incarnation": (
        lambda m: m._replace(peer_incarnation=m.peer_incarnation + 1),
        CumulativeMass,
    ),
    "its own tag": (
        lambda m: m._replace(acknowledged=m.acknowledged + 9, echo=m.tag),
        CumulativeMass,
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_ends_nobody_and_is_named(lie: Any) -> None:
    terms = small(rounds=50, quorum=3, gathering=30.0, lost_after=60.0)
    run = lying(*LIES[lie])(terms, options=Options(deadline=1.0))
    everyone(run)
    run.start()
    run.run(300, until_done=False)
    done = [run.agents[label].outcome for label in "013"]
    assert {(d.reason, d.round) for d in done} == {("rounds", 50)}
    named = {(r.kind, r.peer) for who, r in run.reports if who in "013" and "prove" in r.text}
    assert named == {("rejected", "2")}


def test_the_same_lie_is_believed_where_there_is_no_secret() -> None:
    run = lying(*LIES["an incarnation in a hello"])(small(rounds=50), options=Options(deadline=1.0))
    everyone(run)
    for host in run.agents.values():
        host.secret = b""
    run.start()
    run.run(300, until_done=False)
    assert {run.agents[label].outcome.reason for label in "13"} == {"rolled-back"}


class Spied(SimulatedNetwork):
    """Records what agent 0 sends and reports."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.said: list[Any] = []

    def perform(self, host: Any, action: Any) -> None:
        if host.label == "0" and isinstance(action, Send | AgentReport | Done):
            self.said.append(action)
        super().perform(host, action)


def pushed(run: Any) -> Any:
    found = [a.message for a in run.said if isinstance(a, Send)]
    return [m for m in found if isinstance(m, CumulativeMass) and (any(m.sums) or m.weight)]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["synchronous", "asynchronous"])
@pytest.mark.parametrize("copy", ["before all", "an old state", "an old incarnation"])
@pytest.mark.parametrize("shape", [networkx.path_graph, networkx.cycle_graph], ids=["leaf", "ring"])
def test_an_old_copy_of_the_ledger_is_found_out_before_anything_is_pushed(
    asynchronous: Any, copy: Any, shape: Any
) -> None:
    net = networks.lazy_metropolis(shape(4))
    run = Spied(small(net=net, rounds=400, asynchronous=asynchronous))
    everyone(run)
    run.start()
    me = run.agents["0"]
    while run.running["0"].round < 20:
        run.step()
    old = me.state
    if copy == "an old incarnation":
        run.start("0")
    while run.running["0"].round < 50:
        run.step()
    run.crash("0")
    run.run(0.05, until_done=False)
    run.said = []
    if copy == "before all":
        me.incarnation, me.starts, me.released = 0, 0, [released(run.manifest, 1, 1234.5)]
        run.start("0")
    else:
        me.incarnation, me.state = 1, old
        run.restart("0")
    run.run(5)
    assert me.outcome.reason == ("conflicting-releases" if copy == "before all" else "rolled-back")
    new = [m for m in pushed(run) if m.round > 20 or copy == "before all"]
    assert not new
    assert run.running["0"].handle(Received(Hello("1", "0", 1, 1, 1, b"", ()))) == []


class Eager(Agent):
    """A variant that takes the links it knew for open."""

    def _resume(self, released: Any) -> None:
        for link in self.links.values():
            if link.peer_incarnation:
                link.on(SessionEvent.AGREED)
        super()._resume(released)


@pytest.mark.parametrize("kind", [Agent, Eager])
def test_after_a_restart_no_mass_is_sent_before_the_first_message(kind: Any) -> None:
    run = SimulatedNetwork(small(asynchronous=True))
    everyone(run)
    run.start()
    run.run(2, until_done=False)
    me = run.agents["0"]
    agent = kind(run.manifest, "0")
    agent.handle(Restarted(1, me.state, tuple(me.released), me.secret))
    first = agent.round
    said = [a.message for a in agent.handle(Deadline("tick")) if isinstance(a, Send)]
    assert bool(said) == (agent.round > first) == (kind is Eager)


def test_a_new_ledger_in_place_of_a_lost_one_pushes_nothing() -> None:
    """Nobody can prove anything to it, so it waits and says why; nobody listens to it either."""
    run = Spied(small(rounds=200))
    everyone(run)
    run.start()
    while run.running["0"].round < 50:
        run.step()
    run.crash("0")
    run.said, me = [], run.agents["0"]
    me.starts, me.incarnation, me.secret, me.released = (
        0,
        0,
        SECRET,
        [released(run.manifest, 1, 1234.5)],
    )
    run.start("0")
    run.run(60)
    assert me.done is None
    assert not pushed(run)
    assert any("does not prove" in a.text for a in run.said if isinstance(a, AgentReport))
    assert {who for who, r in run.reports if r.kind == "conflicting-releases"} == {"1", "3"}


def test_a_tag_is_computed_once_for_a_round(monkeypatch: Any) -> None:
    computed = []
    compute = Authenticator._compute

    def counted(*args: Any) -> bytes:
        computed.append(args[1:])
        return compute(*args)

    monkeypatch.setattr(Authenticator, "_compute", counted)
    run = SimulatedNetwork(small(net=networks.lazy_metropolis(networks.complete(6)), rounds=50))
    everyone(run)
    run.start()
    assert run.run(10)
    assert len(computed) <= 6 * (50 + 20)


def test_a_hello_and_cumulative_mass_carry_tags_and_echo_them() -> None:
    terms = small(rounds=50)
    agent = Agent(terms, "0")
    begun = [a.message for a in agent.handle(Started(1, (), SECRET)) if isinstance(a, Send)]
    first, _ = [message for message in begun if isinstance(message, Hello)]
    own = Authenticator(SECRET)
    assert (first.tag, first.acknowledged, first.echo) == (own.tag(1, 0), 0, b"")
    greeting = Hello("1", "0", 4, 1, terms.epoch, terms.digest, terms.field_digests, 0, b"t" * 8)
    sent = [a.message for a in agent.handle(Received(greeting)) if isinstance(a, Send)]
    (reported,) = [message for message in sent if isinstance(message, CumulativeMass)]
    assert (reported.tag, reported.acknowledged, reported.echo) == (own.tag(1, 0), 0, b"t" * 8)
