"""Who says that an agent was further than it remembers proves it, or is not believed."""

import networkx
import pytest
from core_cases import released, small

from murmura import network
from murmura.agent.core import Core, Options
from murmura.agent.core.rehearsal import Rehearsal
from murmura.agent.core.ticks import Ticks
from murmura.agent.core.tokens import Tokens
from murmura.agent.events import Deadline, Done, Received, Report, Restarted, Send, Started
from murmura.agent.messages import Hello, Totals

SECRET = bytes(range(32))


def everyone(run):
    for label in run.players:
        run.release(label, [released(run.manifest, 1, float(label))])


def test_tokens_differ_by_secret_life_and_round():
    tokens = Tokens(SECRET)
    made = {tokens.of(life, number) for life in range(1, 9) for number in range(50)}
    made.add(Tokens(SECRET[::-1]).of(1, 1))
    assert len(made) == 8 * 50 + 1
    assert {len(token) for token in made} == {8}
    assert tokens.proves(tokens.of(3, 4), 3, 4)
    assert not tokens.proves(tokens.of(3, 4), 3, 5)
    assert not tokens.proves(b"", 3, 4)


def test_without_a_secret_a_word_is_enough():
    assert Tokens().of(1, 2) == b""
    assert Tokens().proves(b"", 9, 9)


def lying(change, kind):
    class Liar(Rehearsal):
        def perform(self, player, action):
            message = getattr(action, "message", None)
            if player.label == "2" and isinstance(message, kind):
                action = Send(change(message))
            super().perform(player, action)

    return Liar


LIES = {
    "a life in a hello": (lambda m: m._replace(peer_life=m.peer_life + 7), Hello),
    "a round in a hello": (lambda m: m._replace(heard=m.heard + 7), Hello),
    "a round": (lambda m: m._replace(heard=m.heard + 9), Totals),
    "a life": (lambda m: m._replace(peer_life=m.peer_life + 1), Totals),
    "its own token": (lambda m: m._replace(heard=m.heard + 9, echo=m.token), Totals),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_ends_nobody_and_is_named(lie):
    run = lying(*LIES[lie])(small(rounds=50), options=Options(deadline=1.0))
    everyone(run)
    run.start()
    run.run(300, until_done=False)
    done = [run.players[label].done for label in "013"]
    assert {(d.reason, d.round) for d in done} == {("rounds", 50)}
    named = {(r.kind, r.peer) for who, r in run.reports if who in "013" and "prove" in r.text}
    assert named == {("rejected", "2")}


def test_the_same_lie_is_believed_where_there_is_no_secret():
    run = lying(*LIES["a life in a hello"])(small(rounds=50), options=Options(deadline=1.0))
    everyone(run)
    for player in run.players.values():
        player.secret = b""
    run.start()
    run.run(300, until_done=False)
    assert {run.players[label].done.reason for label in "13"} == {"rolled-back"}


class Spied(Rehearsal):
    """Notes what agent 0 says, and when it finds that it was rolled back."""

    def perform(self, player, action):
        if player.label == "0" and isinstance(action, Send | Report | Done):
            self.__dict__.setdefault("said", []).append(action)
        super().perform(player, action)


def pushed(run):
    found = [a.message for a in run.said if isinstance(a, Send)]
    return [m for m in found if isinstance(m, Totals) and (any(m.sums) or m.weight)]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["rounds", "ticks"])
@pytest.mark.parametrize("copy", ["before all", "an old state", "an old life"])
@pytest.mark.parametrize("shape", [networkx.path_graph, networkx.cycle_graph], ids=["leaf", "ring"])
def test_an_old_copy_of_the_ledger_is_found_out_before_anything_is_pushed(
    asynchronous, copy, shape
):
    net = network.lazy_metropolis(shape(4))
    run = Spied(small(net=net, rounds=400, asynchronous=asynchronous))
    everyone(run)
    run.start()
    me = run.players["0"]
    while run.cores["0"].round < 20:
        run.step()
    old = me.state
    if copy == "an old life":
        run.start("0")
    while run.cores["0"].round < 50:
        run.step()
    run.crash("0")
    run.run(0.05, until_done=False)
    run.said = []
    if copy == "before all":
        me.life, me.starts, me.released = 0, 0, [released(run.manifest, 1, 1234.5)]
        run.start("0")
    else:
        me.life, me.state = 1, old
        run.restart("0")
    run.run(5)
    assert me.done.reason == ("conflicting-releases" if copy == "before all" else "rolled-back")
    new = [m for m in pushed(run) if m.round > 20 or copy == "before all"]
    assert not new
    assert run.cores["0"].handle(Received(Hello("1", "0", 1, 1, 1, b"", ()))) == []


class Eager(Ticks):
    """A twin that takes the links it knew for open."""

    def _resume(self, released):
        for link in self.links:
            link.open = link.peer_life > 0
        super()._resume(released)


@pytest.mark.parametrize("kind", [Ticks, Eager])
def test_after_a_restart_nothing_is_pushed_before_the_first_word(kind):
    run = Rehearsal(small(asynchronous=True))
    everyone(run)
    run.start()
    run.run(2, until_done=False)
    me = run.players["0"]
    core = kind(run.manifest, "0")
    core.handle(Restarted(1, me.state, tuple(me.released), me.secret))
    first = core.round
    said = [a.message for a in core.handle(Deadline("tick")) if isinstance(a, Send)]
    assert bool(said) == (core.round > first) == (kind is Eager)


def test_a_new_ledger_in_place_of_a_lost_one_pushes_nothing():
    """Nobody can prove anything to it, so it waits and says why; nobody listens to it either."""
    run = Spied(small(rounds=200))
    everyone(run)
    run.start()
    while run.cores["0"].round < 50:
        run.step()
    run.crash("0")
    run.said, me = [], run.players["0"]
    me.starts, me.life, me.secret, me.released = 0, 0, SECRET, [released(run.manifest, 1, 1234.5)]
    run.start("0")
    run.run(60)
    assert me.done is None
    assert not pushed(run)
    assert any("does not prove" in a.text for a in run.said if isinstance(a, Report))
    assert {who for who, r in run.reports if r.kind == "conflicting-releases"} == {"1", "3"}


def test_a_token_is_made_once_for_a_round(monkeypatch):
    made = []
    make = Tokens._make
    monkeypatch.setattr(Tokens, "_make", lambda *args: made.append(args[1:]) or make(*args))
    run = Rehearsal(small(net=network.lazy_metropolis(network.complete(6)), rounds=50))
    everyone(run)
    run.start()
    assert run.run(10)
    assert len(made) <= 6 * (50 + 20)


def test_a_hello_and_totals_carry_tokens_and_say_them_back():
    terms = small(rounds=50)
    core = Core(terms, "0")
    (first, _) = [a.message for a in core.handle(Started(1, (), SECRET)) if isinstance(a, Send)]
    tokens = Tokens(SECRET)
    assert (first.token, first.heard, first.echo) == (tokens.of(1, 0), 0, b"")
    greeting = Hello("1", "0", 4, 1, terms.epoch, terms.digest, terms.field_digests, 0, b"t" * 8)
    (told,) = [a.message for a in core.handle(Received(greeting)) if isinstance(a, Send)]
    assert (told.token, told.heard, told.echo) == (tokens.of(1, 0), 0, b"t" * 8)
