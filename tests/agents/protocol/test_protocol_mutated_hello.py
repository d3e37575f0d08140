"""A Hello with any field changed must not close a good link: the next Hello of the neighbour opens it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agents.mutations import FIELDS, mutated
from tests.agents.protocol.cases import released, small, whole
from veilsum.agents.events import PeerUp, Received
from veilsum.agents.messages import Hello
from veilsum.agents.protocol.messenger import Messenger
from veilsum.agents.protocol.states import SessionState
from veilsum.agents.protocol.succession import SaidOnce
from veilsum.agents.transport.memory import Faults
from veilsum.testing import SimulatedNetwork

OPEN = {SessionState.OPEN, SessionState.DONE}


def hello_of(run: Any, sender: str, receiver: str) -> Any:
    """The Hello that an agent would send now."""
    agent = run.running[sender]
    messenger = Messenger(agent.manifest, agent.state, agent.identity, agent.mass, agent.detector)
    messenger.send_hello(agent.links[receiver])
    return messenger.actions[0].message  # type: ignore[union-attr]


def struck(field: str, by: int, before: float, asynchronous: bool, releases: bool = True) -> Any:
    """A ring in which 0 gets a mutated Hello of 1 after some time; then 1 says Hello as it is."""
    slow = Faults(delay=(0.02, 0.05))  # rounds without an end take no time otherwise
    run = SimulatedNetwork(small(asynchronous=asynchronous), seed=1, faults=slow)
    for label in run.agents:
        if releases:
            run.release(label, [released(run.manifest, 1, float(label))])
    run.start("1")
    hello = None if before else hello_of(run, "1", "0")
    run.start("0", "2", "3")
    if hello is None:
        run.run(before, until_done=False)
        hello = hello_of(run, "1", "0")
    run.feed("0", Received(mutated(hello, field, by)))
    run.run(1.0, until_done=False)
    if "1" in run.running:
        run.feed("1", PeerUp("0"))
    run.run(4.0, until_done=False)
    return run


def is_whole(run: Any) -> bool:
    """Whether the link is open at both ends and every agent goes on."""
    ends = run.running["0"].links["1"], run.running["1"].links["0"]
    going = all(not agent.reason for agent in run.running.values())
    same = run.in_session(run.running["0"], "1")
    return going and same and all(link.session in OPEN for link in ends)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["in rounds", "asynchronous"])
@pytest.mark.parametrize("before", [0.0, 1.0], ids=["first of all", "on an open link"])
@pytest.mark.parametrize("field", FIELDS)
def test_no_field_closes_a_link_for_good(field: str, before: float, asynchronous: bool) -> None:
    run = struck(field, 3, before, asynchronous)
    assert is_whole(run)
    totals = run.totals()
    parts = zip(*list(totals.values())[:3], strict=True)
    assert [sum(part) for part in parts] == list(totals["released"])
    assert totals["released"][1] == whole(run.manifest, 4)


@given(
    field=st.sampled_from(FIELDS), by=st.integers(-3, 300), before=st.sampled_from([0.0, 0.3, 1.0])
)
@settings(max_examples=15, deadline=None)
def test_nor_does_any_other_value_of_it(field: str, by: int, before: float) -> None:
    assert is_whole(struck(field, by, before, asynchronous=True))


@pytest.mark.parametrize("field", [f for f in FIELDS if f.startswith("known")])
def test_nor_does_it_end_an_agent_that_has_released_nothing(field: str) -> None:
    assert is_whole(struck(field, 3, 3.0, asynchronous=True, releases=False))


def restarted(field: str) -> Any:
    """The neighbour starts again after its Hello was mutated."""
    run = struck(field, 3, 1.0, asynchronous=True)
    run.crash("1")
    run.run(1.0, until_done=False)
    run.restart("1")
    run.run(5.0, until_done=False)
    return run


@pytest.mark.parametrize("field", [f for f in FIELDS if f.startswith("own")])
def test_nor_does_it_keep_the_neighbour_out_when_it_starts_again(field: str) -> None:
    assert is_whole(restarted(field))


def test_a_variant_that_follows_one_hello_is_caught(monkeypatch: Any) -> None:
    monkeypatch.setattr(SaidOnce, "repeated", lambda *_: True)
    assert not is_whole(struck("incarnation", 3, 1.0, asynchronous=True))
    assert not is_whole(restarted("own.start"))


def test_a_variant_that_never_asks_again_is_caught(monkeypatch: Any) -> None:
    usual = Messenger.send_hello

    def silent(self: Any, link: Any, asks: bool = False) -> None:
        usual(self, link, asks)
        sent: Any = self.actions[-1]
        self.actions[-1] = sent._replace(message=sent.message._replace(asks=not link.confirmed))

    monkeypatch.setattr(Messenger, "send_hello", silent)
    run = SimulatedNetwork(small(asynchronous=True), seed=1)
    run.start()
    run.run(3.0, until_done=False)
    run.feed("0", Received(mutated(hello_of(run, "1", "0"), "manifest", 3)))
    run.run(10.0, until_done=False)
    assert run.running["0"].links["1"].session is SessionState.MISMATCHED


def test_a_mismatch_heals_without_a_new_connection() -> None:
    run = SimulatedNetwork(small(asynchronous=True), seed=1)
    run.start()
    run.run(3.0, until_done=False)
    run.feed("0", Received(mutated(hello_of(run, "1", "0"), "manifest", 3)))
    assert run.running["0"].links["1"].session is SessionState.MISMATCHED
    run.run(10.0, until_done=False)
    assert is_whole(run)


def test_all_fields_are_mutated() -> None:
    named = {field.split(".")[0] for field in FIELDS} | {"sender", "receiver", "speaks"}
    assert named == set(Hello._fields)  # no link is refused by name; `speaks` is the transport's


def test_a_head_that_is_wrong_once_is_refused_and_forgotten() -> None:
    run = SimulatedNetwork(small(asynchronous=True), seed=1)
    for label in run.agents:
        run.release(label, [released(run.manifest, 1, float(label))])
    run.start()
    run.run(1.0, until_done=False)
    agent = run.running["1"]
    messenger = Messenger(agent.manifest, agent.state, agent.identity, agent.mass, agent.detector)
    messenger.send_mass(agent.links["0"])
    message: Any = messenger.actions[-1].message  # type: ignore[union-attr]
    run.feed("0", Received(message._replace(head=b"x" * 16)))
    assert run.running["0"].links["1"].session in OPEN
    run.run(5.0, until_done=False)
    assert is_whole(run)
