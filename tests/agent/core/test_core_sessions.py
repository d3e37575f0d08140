"""Hellos, lives, and neighbours that are wrong, lie, repeat themselves or forget."""

from dataclasses import replace

import pytest
from core_cases import released, small, whole

from murmura.agent.core import Core, Options
from murmura.agent.core.rehearsal import Rehearsal
from murmura.agent.events import (
    Deadline,
    Done,
    PeerUp,
    Persist,
    Received,
    Report,
    Restarted,
    Send,
    Started,
)
from murmura.agent.messages import Hello, Totals
from murmura.errors import LedgerError

TERMS = small(rounds=50)


def hello(terms, sender, receiver, life=1, peer_life=1):
    return Received(
        Hello(sender, receiver, life, peer_life, terms.epoch, terms.digest, terms.field_digests)
    )


def begun(life=1):
    """Agent 0 of a ring, in a session with its neighbours 1 and 3, having pushed round 1."""
    core = Core(TERMS, "0")
    core.handle(Started(life, (released(TERMS, 1, 8.0),)))
    core.handle(hello(TERMS, "1", "0", peer_life=life))
    core.handle(hello(TERMS, "3", "0", peer_life=life))
    assert core.round == 1
    return core


def totals(sender, number, value=0.0, share=0.0, **fields):
    message = Totals(sender, "0", 1, 1, number, 0, (whole(TERMS, value),), whole(TERMS, share))
    return Received(message._replace(**fields))


def said(actions, kind):
    return [action.text for action in actions if isinstance(action, Report) and action.kind == kind]


def sent(actions, kind):
    found = [action.message for action in actions if isinstance(action, Send)]
    return [message for message in found if isinstance(message, kind)]


def test_persist_stands_before_every_message_that_relies_on_it():
    core = Core(TERMS, "0")
    core.handle(Started(1, (released(TERMS, 1, 8.0),)))
    core.handle(hello(TERMS, "1", "0"))
    actions = core.handle(hello(TERMS, "3", "0"))
    assert isinstance(actions[0], Persist)
    assert {m.receiver for m in sent(actions, Totals) if m.round == 1} == {"1", "3"}


def test_a_share_is_pushed_and_the_rest_stays():
    core = begun()
    assert core.weight == whole(TERMS, 0.5)
    assert core.by_peer["1"].out_sums == (whole(TERMS, 2.0),)


def test_a_mismatch_names_both_hashes_and_the_first_field():
    other = replace(TERMS, epsilon=2.0, rounds=7)
    core = Core(TERMS, "0")
    core.handle(Started(1))
    (text,) = said(core.handle(hello(other, "1", "0")), "mismatch")
    assert other.digest.hex() in text
    assert TERMS.digest.hex() in text
    assert text.endswith("epsilon")
    assert said(core.handle(hello(other, "1", "0")), "mismatch") == []
    assert said(core.handle(totals("1", 1)), "rejected") == ["it follows another manifest"]


def test_a_mismatched_pair_tells_each_other_and_falls_silent():
    other = replace(TERMS, epsilon=2.0)
    left, right = Core(TERMS, "0"), Core(other, "1")
    left.handle(Started(1))
    waiting = sent(right.handle(Started(1)), Hello)
    waiting = [m for m in waiting if m.receiver == "0"]
    told = 0
    for _ in range(20):
        if not waiting:
            break
        message = waiting.pop()
        actions = (left if message.receiver == "0" else right).handle(Received(message))
        waiting += sent(actions, Hello)
        told += len(said(actions, "mismatch"))
    assert told == 2
    assert not waiting


def test_the_others_finish_beside_an_agent_with_another_manifest():
    run = Rehearsal(TERMS)
    odd = replace(TERMS, family="another")
    for label in run.players:
        run.release(label, [released(TERMS, 1, float(label))])
    run.start("0", "1", "3")
    run.manifest = odd
    run.start("2")
    run.run(300)
    assert run.players["2"].done is None  # it hears nobody whose word it takes
    assert {r.peer for who, r in run.reports if r.kind == "mismatch" and who != "2"} == {"2"}
    done = [run.players[k].done for k in "013"]
    assert [d.round for d in done] == [50] * 3
    assert all(abs(d.estimate[0] - 4 / 3) < 1e-3 for d in done)


def test_a_new_life_undoes_the_flows_of_the_old_one():
    core = begun()
    core.handle(totals("1", 1, 1.0, 0.25))
    core.handle(totals("3", 1, 1.0, 0.25))
    assert core.round == 2
    core.handle(hello(TERMS, "1", "0", life=2))
    link = core.by_peer["1"]
    assert (link.peer_life, link.in_weight, link.out_weight, link.in_round) == (2, 0, 0, 0)
    assert core.weight == whole(TERMS, 1) + sum(x.in_weight - x.out_weight for x in core.links)


def test_an_old_life_is_stale():
    core = begun()
    core.handle(hello(TERMS, "1", "0", life=3))
    assert "life 2" in said(core.handle(hello(TERMS, "1", "0", life=2)), "rejected")[0]
    assert "life 1" in said(core.handle(totals("1", 1)), "rejected")[0]


def test_an_unknown_session_is_answered_with_a_hello():
    core = begun()
    (answer,) = sent(core.handle(totals("1", 1, life=2)), Hello)
    assert (answer.receiver, answer.life, answer.peer_life) == ("1", 1, 1)
    again = begun(life=2)
    assert sent(again.handle(totals("1", 1)), Hello)


def test_replays_change_nothing_and_are_no_alarm():
    core = begun()
    first = totals("1", 1, 1.0, 0.25)
    core.handle(first)
    core.handle(totals("3", 1, 1.0, 0.25))
    held = list(core.sums), core.weight, core.round
    for _ in range(3):
        actions = core.handle(first)
        assert not said(actions, "rejected")
    assert (list(core.sums), core.weight, core.round) == held
    assert core.by_peer["1"].repeated == 3


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        (totals("1", 1, sums=(1, 2)), "components"),
        (totals("1", 1, weight=-1), "fell"),
        (totals("1", 1, weight=10**40), "rose by more"),
        (totals("1", 1, sums=(10**308,)), "rose or fell by more"),
        (totals("1", 1, sums=(-(10**308),)), "rose or fell by more"),
        (totals("1", 51), "0..50"),
        (totals("1", 1, heard=-1), "negative"),
        (totals("9", 1), "not a link"),
        (totals("1", 1, receiver="2"), "not a link"),
    ],
)
def test_what_no_honest_neighbour_says_is_rejected_with_its_name(lie, why):
    core = begun()
    held = list(core.sums), core.weight
    actions = core.handle(lie)
    (report,) = [a for a in actions if isinstance(a, Report) and a.kind == "rejected"]
    assert report.peer == lie.message.sender
    assert why in report.text
    assert (list(core.sums), core.weight) == held


def test_a_total_that_falls_between_two_kept_ones_is_rejected():
    core = begun()
    core.handle(totals("1", 2, 1.0, 0.25))
    core.handle(totals("1", 5, 2.0, 0.5))
    assert "fell" in said(core.handle(totals("1", 4, 2.0, 0.75)), "rejected")[0]
    assert "fell" in said(core.handle(totals("1", 6, 2.0, 0.25)), "rejected")[0]
    assert [m.round for m in core.by_peer["1"].buffer] == [2, 5]


def test_a_neighbour_far_ahead_fills_no_memory_and_loses_nothing():
    core = begun()
    for number in range(1, 50):
        core.handle(totals("1", number, number / 100, number / 100))
    core.options = Options(buffer=8)
    for number in range(50, 51):
        core.handle(totals("1", number, 0.5, 0.5))
    assert core.by_peer["1"].newest == 50
    core.handle(totals("3", 50, 0.5, 0.5))
    assert core.reason == "rounds"
    assert core.by_peer["1"].in_weight == whole(TERMS, 0.5)


@pytest.mark.parametrize(
    "word",
    [totals("1", 1, heard=2), totals("1", 1, peer_life=2), hello(TERMS, "1", "0", peer_life=2)],
    ids=["a round", "a life", "a life in a hello"],
)
def test_who_was_rolled_back_says_so_and_nothing_more(word):
    core = begun()
    actions = core.handle(word)
    (report,) = [a for a in actions if isinstance(a, Report)]
    assert (report.kind, report.peer) == ("rolled-back", "1")
    assert [a.reason for a in actions if isinstance(a, Done)] == ["rolled-back"]
    assert not sent(actions, Totals)
    assert core.handle(PeerUp("1")) == core.handle(Deadline("resend")) == []
    assert core.settled


def test_a_liar_harms_its_own_link_only():
    class Liar(Rehearsal):
        def perform(self, player, action):
            if player.label == "2" and isinstance(getattr(action, "message", None), Totals):
                message = action.message
                action = Send(message._replace(sums=(10**90,), weight=-5, round=message.round + 9))
            super().perform(player, action)

    run = Liar(TERMS, options=Options(deadline=1.0))
    for label in run.players:
        run.release(label, [released(TERMS, 1, float(label))])
    run.start()
    run.run(300, until_done=False)
    done = {label: run.players[label].done for label in "013"}
    assert {d.round for d in done.values()} == {50}
    assert {r.peer for who, r in run.reports if r.kind == "rejected"} == {"2"}
    assert all(0 <= d.estimate[0] <= 3 for d in done.values())


def test_a_restart_continues_where_it_was_and_adds_each_release_once():
    run = Rehearsal(small("learn", rounds=30))
    own = {k: [released(run.manifest, t, float(k) + t) for t in range(1, 31)] for k in run.players}
    for label in run.players:
        run.release(label, own[label])
    run.start()
    while run.cores["1"].round < 12:
        run.step()
    run.crash("1")
    run.restart("1")
    assert run.cores["1"].round >= 12
    assert run.run(200)
    totals = run.totals()
    assert totals["released"][1] == whole(run.manifest, 4 * 30)
    for held, coming, undone, put in zip(*totals.values(), strict=True):
        assert held + coming + undone == put


def test_a_state_of_another_agent_or_life_or_that_is_cut_off_is_refused():
    core = begun()
    state = core.to_bytes()
    with pytest.raises(LedgerError, match="another agent"):
        Core(TERMS, "1").handle(Restarted(1, state))
    with pytest.raises(LedgerError, match="another life"):
        Core(TERMS, "0").handle(Restarted(2, state))
    with pytest.raises(LedgerError, match="cannot be read"):
        Core(TERMS, "0").handle(Restarted(1, state[:-9]))
    back = Core(TERMS, "0")
    back.handle(Restarted(1, state))
    assert back.to_bytes() == state
