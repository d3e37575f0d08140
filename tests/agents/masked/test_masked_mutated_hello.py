"""In a masked sum, too, a Hello with any field changed closes no good link, and nothing wrong is kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agents.masked.network import MaskedNetwork
from tests.agents.mutations import FIELDS, mutated
from veilsum.agents.events import Received
from veilsum.agents.masked.links import RecordLinks
from veilsum.agents.messages import Hello, PeerStatus, RecordExchange
from veilsum.agents.protocol.succession import SaidOnce
from veilsum.testing import Faults

MOMENTS = ("first of all", "on an open link", "after a value was sent")
OWN = tuple(field for field in FIELDS if field.startswith("own"))
SLOW = Faults(delay=(0.02, 0.05))


def hello_of(run: MaskedNetwork, sender: str, receiver: str) -> Any:
    """The Hello that an agent would send now."""
    links = run.agent(sender).record_links
    link = links.links[receiver]
    actions, links.actions, named = links.actions, [], link.named
    links.greet(link)
    (sent,), links.actions, link.named = links.actions, actions, named
    return sent.message  # type: ignore[union-attr]


def struck(field: str, by: int, moment: str, times: int = 1) -> MaskedNetwork:
    """A ring in which 0 gets a mutated Hello of 1; then it has 10 seconds to heal."""
    run = MaskedNetwork("ring:5", queries=2, faults=SLOW)
    run.start("1")
    hello = hello_of(run, "1", "0")
    run.start("0", "2", "3", "4")
    if moment != MOMENTS[0]:
        run.run(3, until_done=False)
    if moment == MOMENTS[2]:
        run.all_contribute()
        run.run(20, until_done=False)
        assert run.agent("1").record_links.own.status.releases == 1
    if moment != MOMENTS[0]:
        hello = hello_of(run, "1", "0")
    for _ in range(times):
        run.feed("0", Received(mutated(hello, field, by)))
    run.run(10, until_done=False)
    return run


def is_whole(run: MaskedNetwork) -> bool:
    """Whether the link is open both ways, remembers what is true, and the next sum is of all."""
    query = run.agent("0").queries.concluded + 1
    run.all_contribute(query)
    run.run(40, until_done=False)
    ends = [run.agent(one).record_links.links[other] for one, other in ("01", "10")]
    sums = [run.agent(label).queries.sums.get(query) for label in run.terms.labels]
    return (
        all(link.open and link.run == run.agent(link.peer).record_links.own.status.run for link in ends)
        and all(run.agents[a].memory[b] == status_of(run, b) for a, b in ("01", "10"))
        and all(found is not None and len(found.members) == 5 for found in sums)
    )  # fmt: skip


def status_of(run: MaskedNetwork, label: str) -> PeerStatus:
    return run.agent(label).record_links.own.status


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("field", FIELDS)
def test_no_field_closes_a_link_for_good(field: str, moment: str) -> None:
    assert is_whole(struck(field, 3, moment))


@given(field=st.sampled_from(FIELDS), by=st.integers(-3, 300), moment=st.sampled_from(MOMENTS))
@settings(max_examples=20, deadline=None)
def test_nor_does_any_other_value_of_it(field: str, by: int, moment: str) -> None:
    assert is_whole(struck(field, by, moment))


def restarted(field: str, moment: str) -> MaskedNetwork:
    """The neighbour starts again after its Hello was mutated."""
    run = struck(field, 3, moment)
    run.crash("1")
    run.run(2, until_done=False)
    run.restart("1")
    run.run(10, until_done=False)
    return run


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("field", OWN)
def test_nor_does_it_keep_the_neighbour_out_when_it_starts_again(field: str, moment: str) -> None:
    assert is_whole(restarted(field, moment))


@pytest.mark.parametrize("moment", MOMENTS[1:])
@pytest.mark.parametrize("field", ["own.start", "own.releases"])
def test_a_variant_that_follows_one_hello_is_caught(
    field: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SaidOnce, "repeated", lambda *_: True)
    assert not is_whole(struck(field, 3, moment))
    assert not is_whole(restarted(field, moment))


def test_a_variant_that_never_corrects_the_first_hello_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = RecordLinks._welcome

    def certain(self: Any, link: Any, hello: Any) -> None:
        link.succession.provisional = False
        usual(self, link, hello)

    monkeypatch.setattr(RecordLinks, "_welcome", certain)
    assert not is_whole(struck("own.start", 3, MOMENTS[0]))


def test_who_repeats_a_wrong_hello_closes_its_own_link_alone() -> None:
    run = struck("own.start", 3, MOMENTS[1], times=2)
    assert run.agents["0"].memory["1"].start == status_of(run, "1").start + 3
    assert run.agent("1").reason == ""  # a claim without its own proof ends nobody
    run.all_contribute()
    run.run(60, until_done=False)
    sums = [run.agent(label).queries.sums.get(1) for label in run.terms.labels]
    assert all(found is not None and len(found.members) == 5 for found in sums)


def test_two_copies_that_speak_in_turn_are_both_heard() -> None:
    claims = SaidOnce()
    assert [claims.repeated(one) for one in ("a", "b", "a", "b", "b")] == [
        False, False, True, False, True,
    ]  # fmt: skip


class Overheard(MaskedNetwork):
    """Notes what a neighbour has remembered of a member when it first gets its value."""

    def __init__(self, **more: Any) -> None:
        super().__init__("ring:5", **more)
        self.remembered: list[int] = []

    def feed(self, label: str, event: Any) -> None:
        message = event.message if isinstance(event, Received) else None
        if isinstance(message, RecordExchange) and self.sent(message.sender):
            self.remembered.append(self.agents[label].memory[message.sender].releases)
        super().feed(label, event)


@pytest.mark.parametrize("twice", [True, False], ids=["twice", "weakened: once"])
def test_a_value_is_remembered_before_it_arrives(
    twice: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where messages arrive in order: otherwise a ledger could be rolled back in between."""
    if not twice:
        monkeypatch.setattr(
            RecordLinks, "_announce", lambda self, link: self.greet(link, asks=True)
        )
    run = Overheard(faults=Faults(delay=(0.02, 0.02)))
    run.start()
    run.run(3, until_done=False)
    run.all_contribute()
    run.run(20, until_done=False)
    assert run.remembered
    assert all(run.remembered) is twice


def test_all_fields_are_mutated() -> None:
    named = {field.split(".")[0] for field in FIELDS} | {"sender", "receiver", "speaks"}
    assert named == set(Hello._fields)  # no link is refused by name; `speaks` is the transport's
