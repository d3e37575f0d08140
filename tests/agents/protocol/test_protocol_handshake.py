"""Hellos, incarnations, and neighbours that are wrong, lie, repeat themselves or forget."""

from dataclasses import replace
from typing import Any

import pytest

from tests.agents.protocol.cases import released, small, whole
from veilsum.agents.events import (
    AgentReport,
    Deadline,
    Done,
    PeerUp,
    Persist,
    Received,
    Restarted,
    Send,
    Started,
)
from veilsum.agents.messages import Attendance, CumulativeMass, Hello, Register
from veilsum.agents.protocol import Agent, Options
from veilsum.errors import LedgerError
from veilsum.testing import SimulatedNetwork

TERMS = small(rounds=50)


def hello(
    terms: Any, sender: Any, receiver: Any, incarnation: Any = 1, peer_incarnation: Any = 1
) -> Any:
    return Received(
        Hello(
            sender,
            receiver,
            incarnation,
            peer_incarnation,
            terms.epoch,
            terms.digest,
            terms.field_digests,
        )
    )


def begun(incarnation: Any = 1) -> Any:
    """Agent 0 of a ring, in a session with its neighbours 1 and 3, having pushed round 1."""
    agent = Agent(TERMS, "0")
    agent.handle(Started(incarnation, (released(TERMS, 1, 8.0),)))
    for peer in "13":
        agent.handle(hello(TERMS, peer, "0", peer_incarnation=incarnation))
        agent.handle(attendance(peer))
    assert agent.round == 1
    return agent


def attendance(sender: Any) -> Any:
    """All members of the ring are present."""
    return Received(Attendance(sender, "0", 1, b"", Register(present=0b1111)))


def totals(sender: Any, number: Any, value: Any = 0.0, weight: Any = 0.0, **fields: Any) -> Any:
    message = CumulativeMass(
        sender, "0", 1, 1, number, 0, (whole(TERMS, value),), whole(TERMS, weight)
    )
    return Received(message._replace(**fields))


def said(actions: Any, kind: Any) -> Any:
    return [
        action.text for action in actions if isinstance(action, AgentReport) and action.kind == kind
    ]


def sent(actions: Any, kind: Any) -> Any:
    found = [action.message for action in actions if isinstance(action, Send)]
    return [message for message in found if isinstance(message, kind)]


def test_persist_stands_before_every_message_that_relies_on_it() -> None:
    agent = Agent(TERMS, "0")
    agent.handle(Started(1, (released(TERMS, 1, 8.0),)))
    for peer in "13":
        agent.handle(hello(TERMS, peer, "0"))
        actions = agent.handle(attendance(peer))
    assert isinstance(actions[0], Persist)
    assert {m.receiver for m in sent(actions, CumulativeMass) if m.round == 1} == {"1", "3"}


def test_a_part_is_pushed_and_the_rest_stays() -> None:
    agent = begun()
    assert agent.mass.weight == whole(TERMS, 0.5)
    assert agent.links["1"].out_sums == (whole(TERMS, 2.0),)


def test_a_mismatch_names_both_hashes_and_the_first_field() -> None:
    other = replace(TERMS, epsilon=2.0, rounds=7)
    agent = Agent(TERMS, "0")
    agent.handle(Started(1))
    (text,) = said(agent.handle(hello(other, "1", "0")), "mismatch")
    assert other.digest.hex() in text
    assert TERMS.digest.hex() in text
    assert text.endswith("epsilon")
    assert said(agent.handle(hello(other, "1", "0")), "mismatch") == []
    assert said(agent.handle(totals("1", 1)), "rejected") == ["it follows another manifest"]


def test_a_mismatched_pair_tells_each_other_and_falls_silent() -> None:
    other = replace(TERMS, epsilon=2.0)
    left, right = Agent(TERMS, "0"), Agent(other, "1")
    left.handle(Started(1))
    waiting = sent(right.handle(Started(1)), Hello)
    waiting = [m for m in waiting if m.receiver == "0"]
    reported = 0
    for _ in range(20):
        if not waiting:
            break
        message = waiting.pop()
        actions = (left if message.receiver == "0" else right).handle(Received(message))
        waiting += sent(actions, Hello)
        reported += len(said(actions, "mismatch"))
    assert reported == 2
    assert not waiting


def test_the_others_finish_beside_an_agent_with_another_manifest() -> None:
    terms = small(rounds=120, quorum=3, gathering=30.0)
    run = SimulatedNetwork(terms)
    for label in run.agents:
        run.release(label, [released(terms, 1, float(label))])
    run.agents["2"].manifest = replace(terms, family="another")
    run.start()
    run.run(300)
    assert run.agents["2"].done is None  # it accepts nobody's messages
    assert {r.peer for who, r in run.reports if r.kind == "mismatch" and who != "2"} == {"2"}
    done = [run.agents[k].outcome for k in "013"]
    assert [d.round for d in done] == [120] * 3
    assert all(abs(d.estimate[0] - 4 / 3) < 1e-6 for d in done)


def test_a_new_incarnation_undoes_the_mass_of_the_old_one() -> None:
    agent = begun()
    agent.handle(totals("1", 1, 1.0, 0.25))
    agent.handle(totals("3", 1, 1.0, 0.25))
    assert agent.round == 2
    agent.handle(hello(TERMS, "1", "0", incarnation=2))
    link = agent.links["1"]
    assert (link.peer_incarnation, link.in_weight, link.out_weight, link.in_round) == (2, 0, 0, 0)
    assert agent.mass.weight == whole(TERMS, 1) + sum(
        x.in_weight - x.out_weight for x in agent.links.values()
    )


def test_an_old_incarnation_is_stale() -> None:
    agent = begun()
    agent.handle(hello(TERMS, "1", "0", incarnation=3))
    assert (
        "incarnation 2" in said(agent.handle(hello(TERMS, "1", "0", incarnation=2)), "rejected")[0]
    )
    assert "incarnation 1" in said(agent.handle(totals("1", 1)), "rejected")[0]


def test_an_unknown_session_is_answered_with_a_hello() -> None:
    agent = begun()
    (answer,) = sent(agent.handle(totals("1", 1, incarnation=2)), Hello)
    assert (answer.receiver, answer.incarnation, answer.peer_incarnation) == ("1", 1, 1)
    again = begun(incarnation=2)
    assert sent(again.handle(totals("1", 1)), Hello)


def test_replays_change_nothing_and_are_no_alarm() -> None:
    agent = begun()
    first = totals("1", 1, 1.0, 0.25)
    agent.handle(first)
    agent.handle(totals("3", 1, 1.0, 0.25))
    held = list(agent.mass.sums), agent.mass.weight, agent.round
    for _ in range(3):
        actions = agent.handle(first)
        assert not said(actions, "rejected")
    assert (list(agent.mass.sums), agent.mass.weight, agent.round) == held
    assert agent.links["1"].repeated == 3


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        (totals("1", 1, sums=(1, 2)), "components"),
        (totals("1", 1, weight=-1), "fell"),
        (totals("1", 1, weight=10**40), "more of weight than it was sent"),
        (totals("1", 1, sums=(10**308,)), "rose or fell by more"),
        (totals("1", 1, sums=(-(10**308),)), "rose or fell by more"),
        (totals("1", 51), "0..50"),
        (totals("1", 1, acknowledged=-1), "negative"),
        (totals("9", 1), "not a link"),
        (totals("1", 1, receiver="2"), "not a link"),
    ],
)
def test_what_no_honest_neighbour_says_is_rejected_with_its_name(lie: Any, why: Any) -> None:
    agent = begun()
    held = list(agent.mass.sums), agent.mass.weight
    actions = agent.handle(lie)
    (report,) = [a for a in actions if isinstance(a, AgentReport) and a.kind == "rejected"]
    assert report.peer == lie.message.sender
    assert why in report.text
    assert (list(agent.mass.sums), agent.mass.weight) == held


def test_a_total_that_falls_between_two_kept_ones_is_rejected() -> None:
    agent = begun()
    agent.handle(totals("1", 2, 1.0, 0.25))
    agent.handle(totals("1", 5, 2.0, 0.5))
    assert "fell" in said(agent.handle(totals("1", 4, 2.0, 0.75)), "rejected")[0]
    assert "fell" in said(agent.handle(totals("1", 6, 2.0, 0.25)), "rejected")[0]
    assert [m.round for m in agent.links["1"].buffer] == [2, 5]


def test_a_neighbour_far_ahead_fills_no_memory_and_loses_nothing() -> None:
    agent = begun()
    for number in range(1, 50):
        agent.handle(totals("1", number, number / 100, number / 100))
    agent.options = Options(buffer=8)
    for number in range(50, 51):
        agent.handle(totals("1", number, 0.5, 0.5))
    assert agent.links["1"].newest == 50
    agent.handle(totals("3", 50, 0.5, 0.5))
    assert agent.state.completed
    assert agent.links["1"].in_weight == whole(TERMS, 0.5)


@pytest.mark.parametrize(
    "word",
    [
        totals("1", 1, acknowledged=2),
        totals("1", 1, peer_incarnation=2),
        hello(TERMS, "1", "0", peer_incarnation=2),
    ],
    ids=["a round", "an incarnation", "an incarnation in a hello"],
)
def test_who_was_rolled_back_says_so_and_nothing_more(word: Any) -> None:
    agent = begun()
    actions = agent.handle(word)
    (report,) = [a for a in actions if isinstance(a, AgentReport)]
    assert (report.kind, report.peer) == ("rolled-back", "1")
    assert [a.reason for a in actions if isinstance(a, Done)] == ["rolled-back"]
    assert not sent(actions, CumulativeMass)
    assert agent.handle(PeerUp("1")) == agent.handle(Deadline("resend")) == []
    assert agent.settled


def test_a_liar_harms_its_own_link_only() -> None:
    class Liar(SimulatedNetwork):
        def perform(self, host: Any, action: Any) -> None:
            if host.label == "2" and isinstance(getattr(action, "message", None), CumulativeMass):
                message = action.message
                action = Send(message._replace(sums=(10**90,), weight=-5, round=message.round + 9))
            super().perform(host, action)

    terms = small(rounds=120, quorum=3, lost_after=60.0)
    run = Liar(terms, options=Options(deadline=1.0))
    for label in run.agents:
        run.release(label, [released(terms, 1, float(label))])
    run.start()
    run.run(300, until_done=False)
    done = {label: run.agents[label].outcome for label in "013"}
    assert {d.round for d in done.values()} == {120}
    assert {r.peer for who, r in run.reports if r.kind == "rejected"} == {"2"}
    assert all(abs(d.estimate[0] - 4 / 3) < 1e-6 for d in done.values())


def test_a_restart_continues_where_it_was_and_adds_each_release_once() -> None:
    run = SimulatedNetwork(small("learn", rounds=30))
    own = {k: [released(run.manifest, t, float(k) + t) for t in range(1, 31)] for k in run.agents}
    for label in run.agents:
        run.release(label, own[label])
    run.start()
    while run.running["1"].round < 12:
        run.step()
    run.crash("1")
    run.restart("1")
    assert run.running["1"].round >= 12
    assert run.run(200)
    totals = run.totals()
    assert totals["released"][1] == whole(run.manifest, 4 * 30)
    for held, coming, undone, put in zip(*totals.values(), strict=True):
        assert held + coming + undone == put


def test_a_state_of_another_agent_or_incarnation_or_that_is_cut_off_is_refused() -> None:
    agent = begun()
    state = agent.to_bytes()
    with pytest.raises(LedgerError, match="another agent"):
        Agent(TERMS, "1").handle(Restarted(1, state))
    with pytest.raises(LedgerError, match="another incarnation"):
        Agent(TERMS, "0").handle(Restarted(2, state))
    with pytest.raises(LedgerError, match="cannot be read"):
        Agent(TERMS, "0").handle(Restarted(1, state[:-9]))
    back = Agent(TERMS, "0")
    back.handle(Restarted(1, state))
    assert back.to_bytes() == state
