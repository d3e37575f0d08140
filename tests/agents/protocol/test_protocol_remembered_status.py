"""One name, one history: copies and lost ledgers are found out by what neighbours remember."""

from typing import Any

import pytest

from tests.agents.protocol.cases import released, small
from veilsum.agents.events import AgentReport, Deadline, Received, Remember, Send, Started
from veilsum.agents.messages import Hello, PeerStatus
from veilsum.agents.protocol import Agent, Options
from veilsum.agents.protocol.history import ReleaseHistory
from veilsum.agents.protocol.states import SessionState
from veilsum.errors import AgentError
from veilsum.testing import SimulatedNetwork

TERMS = small(rounds=50)
SECRET, OTHER = bytes(range(32)), bytes(range(32, 64))
CONFLICT = "conflicting-releases"


def begun(
    label: Any,
    start: Any,
    run: Any,
    *values: Any,
    secret: Any = SECRET,
    remembered: Any = (),
    agent: Any = Agent,
) -> Any:
    """An agent that has started, with what it says first."""
    made = agent(TERMS, label)
    own = tuple(released(TERMS, k + 1, v) for k, v in enumerate(values))
    said = made.handle(Started(1, own, secret, start, run * 8, remembered))
    return made, said


def exchange(left: Any, right: Any, first: Any, most: Any = 40) -> Any:
    """Hand messages between two agents until they have nothing to say; all that they did."""
    done, waiting = list(first), [a.message for a in first if isinstance(a, Send)]
    while waiting and most:
        most -= 1
        message = waiting.pop(0)
        for agent in (left, right):
            if agent.label == message.receiver:
                actions = agent.handle(Received(message))
                done += actions
                waiting += [a.message for a in actions if isinstance(a, Send)]
    assert most, "they never fall silent"
    return done


def reports(actions: Any, kind: Any = CONFLICT) -> Any:
    return [a.text for a in actions if isinstance(a, AgentReport) and a.kind == kind]


def acquainted(*values: Any) -> Any:
    """Agent 1, which has heard this many releases of agent 0 in its first start."""
    near, said = begun("1", 1, b"n", 3.0, secret=OTHER)
    member, hello = begun("0", 1, b"a", *values)
    exchange(member, near, [*hello, *said])
    assert member.cleared
    assert near.links["0"].known[:2] == (1, b"a" * 8)
    near.links["0"].known = member.identity.status  # as its first totals say
    return near, member


def test_who_has_heard_nobody_is_not_cleared_to_release() -> None:
    member, _ = begun("0", 1, b"a")
    assert not member.cleared
    near, _ = acquainted(8.0)
    assert near.cleared


@pytest.mark.parametrize("number", [1, 2])
def test_as_many_neighbours_as_asked_for_must_have_spoken(number: Any) -> None:
    options = Options(confirmations=number)
    run = SimulatedNetwork(TERMS, options=options)
    run.start("0", "1")
    run.run(1, until_done=False)
    assert run.running["0"].cleared == (number == 1)
    run.start("3")
    run.run(1, until_done=False)
    assert run.running["0"].cleared
    with pytest.raises(AgentError, match="confirmations"):
        Options(confirmations=0)


def test_a_lost_ledger_ends_before_its_first_release() -> None:
    near, _ = acquainted(8.0)
    fresh, hello = begun("0", 1, b"b")  # same device, so the same secret; nothing else
    done = exchange(fresh, near, hello)
    assert fresh.reason == CONFLICT
    assert not fresh.cleared
    assert any("remembers 1 releases" in text and "new name" in text for text in reports(done))
    assert any("two copies" in text for text in reports(done))  # the neighbour says so too
    assert fresh.handle(Received(Hello("1", "0", 1, 1, 1, TERMS.digest, ()))) == []


def test_a_ledger_that_released_nothing_believes_without_proof() -> None:
    near, _ = acquainted(8.0)
    fresh, hello = begun("0", 1, b"b", secret=OTHER[::-1])
    exchange(fresh, near, hello)
    assert fresh.reason == ""  # a single message may be wrong
    assert not fresh.cleared
    near.handle(Deadline("resend"))
    exchange(fresh, near, fresh.handle(Deadline("resend")))
    assert fresh.reason == CONFLICT


class Trusting(Agent):
    """A variant that ignores what neighbours remember."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.handshake.contradicted = lambda *_: False  # type: ignore[method-assign]


def test_a_variant_that_ignores_it_is_caught() -> None:
    near, _ = acquainted(8.0)
    fresh, hello = begun("0", 1, b"b", agent=Trusting)
    exchange(fresh, near, hello)
    assert fresh.reason != CONFLICT


def test_other_noise_for_the_same_readings_ends_it() -> None:
    near, _ = acquainted(8.0)
    other, hello = begun("0", 2, b"b", 8.5)
    done = exchange(other, near, hello)
    assert other.reason == CONFLICT
    assert any("of which the first 1 are others" in text for text in reports(done))


def test_the_same_history_and_a_longer_one_are_welcome() -> None:
    near, _ = acquainted(8.0)
    again, hello = begun("0", 2, b"b", 8.0, 9.0)
    done = exchange(again, near, hello)
    assert not reports(done)
    assert again.cleared
    assert near.links["0"].known[:2] == (2, b"b" * 8)
    assert any(isinstance(a, Remember) and a.peer == "0" for a in done)


def test_of_two_live_copies_the_older_start_is_ended() -> None:
    near, original = acquainted(8.0)
    copy, hello = begun("0", 2, b"b", 8.0)
    exchange(copy, near, hello)
    assert copy.cleared
    assert copy.reason == ""
    done = original.handle(Received(near_hello(near)))
    assert original.reason == CONFLICT
    assert any("another copy" in text for text in reports(done))


def near_hello(near: Any) -> Any:
    """What agent 1 says to the name 0: every copy of it hears that."""
    near.messenger.actions = []
    near.messenger.send_hello(near.links["0"])
    return near.messenger.actions[-1].message


def test_a_second_copy_of_the_same_start_is_refused_and_informed() -> None:
    near, original = acquainted(8.0)
    copy, hello = begun("0", 1, b"b", 8.0)
    done = exchange(copy, near, hello)
    assert copy.reason == CONFLICT
    assert not copy.cleared
    assert any("two copies" in text for text in reports(done))
    assert original.handle(Received(near_hello(near))) is not None
    assert original.reason == ""


def test_one_run_with_two_histories_is_heard_no_more() -> None:
    """A machine that was forked while it ran: both say that they are the same run."""
    near, member = acquainted(8.0)
    link = member.links["1"]
    member.messenger.actions = []
    member.messenger.send_mass(link)
    good = member.messenger.actions[-1].message
    forged = good._replace(head=b"x" * 16)
    assert not reports(near.handle(Received(forged)))  # a single message may be wrong
    assert near.links["0"].session is not SessionState.FORKED
    done = near.handle(Received(forged))
    assert any("others than before" in text for text in reports(done))
    assert near.links["0"].session is SessionState.FORKED
    assert "one run" in " ".join(reports(near.handle(Received(good)), "rejected"))


@pytest.mark.parametrize(
    "claim",
    [
        PeerStatus(1, b"a" * 8, b"p" * 8, 5, b"h" * 16, b"s" * 8),
        PeerStatus(1, b"a" * 8, b"p" * 8, 1, b"h" * 16, b"s" * 8),
        PeerStatus(7, b"z" * 8, b"p" * 8),
        PeerStatus(1, b"z" * 8, b"p" * 8),
    ],
    ids=["more releases", "other releases", "a later start", "another run"],
)
def test_a_lie_about_what_is_remembered_ends_nobody_that_has_released(claim: Any) -> None:
    near, member = acquainted(8.0)
    done = member.handle(Received(near_hello(near)._replace(known=claim)))
    assert member.reason == ""
    assert any("does not prove" in text for text in reports(done, "rejected"))


def test_memory_outlives_epochs() -> None:
    near, _ = acquainted(8.0)
    known = near.links["0"].known
    later = small(rounds=50, epoch=2)
    again = Agent(later, "1")
    again.handle(Started(2, (), OTHER, 2, b"m" * 8, (("0", known), ("9", known))))
    lost = Agent(later, "0")
    exchange(lost, again, lost.handle(Started(1, (), SECRET, 1, b"c" * 8)))
    assert lost.reason == CONFLICT


def test_heads_are_keyed_and_follow_the_order_of_releases() -> None:
    one, two = (released(TERMS, k, v) for k, v in ((1, 2.0), (2, 3.0)))
    history = ReleaseHistory("0", SECRET)
    assert (len(history), history.head) == (0, b"")
    assert [history.add(r) for r in (one, two, one)] == [True, True, False]
    assert (len(history), len(history.head)) == (2, 16)
    swapped = ReleaseHistory("0", SECRET)
    assert [swapped.add(r) for r in (two, one)] == [True, True]
    others = [ReleaseHistory("1", SECRET), ReleaseHistory("0", OTHER)]
    for other in others:
        other.add(one)
    heads = {history.at(1), history.at(2), swapped.head, *(other.head for other in others)}
    assert len(heads) == 5
    assert history.at(3) == b""


def test_a_neighbour_refuses_a_later_start_with_fewer_releases() -> None:
    """A ledger that was put back: the neighbour's side of it, whatever the member itself finds."""
    near, _ = acquainted(8.0, 9.0)
    back, hello = begun("0", 2, b"b", 8.0)
    offered = [a.message for a in hello if isinstance(a, Send)]
    done = [action for message in offered for action in near.handle(Received(message))]
    assert any("copied or restored" in text for text in reports(done))
    assert near.links["0"].known.run == b"a" * 8  # it goes on listening to the other
    assert not back.cleared
