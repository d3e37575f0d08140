"""One suite for every transport: what it delivers, to whom, and what it tells of neighbours."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest

from tests.agents.transport.transport_cases import KINDS, Devices, has, hello, totals, wait_for
from veilsum.agents.events import Received

LINE = {"p": ["a"], "q": ["b"], "r": ["c"]}
LINKS = [("a", "b"), ("b", "c")]


@pytest.fixture(params=KINDS)
def kind(request: Any) -> Any:
    return request.param


@pytest.fixture
def line(kind: Any, authority: Any) -> Any:
    with Devices(kind, LINE, LINKS, authority) as devices:
        devices.start()
        devices.wait_until_linked()
        yield devices


def test_messages_arrive_as_they_were_sent(line: Any) -> None:
    for message in (hello("a", "b"), totals("a", "b"), totals("b", "a", 7), totals("b", "c", 3)):
        line.send(message)
        ears = line.ears_of(message.receiver)
        wait_for(partial(has, ears, message), "a message")
    assert not any(ears.refused() for ears in line.ears.values())


def test_a_link_keeps_its_order_and_ends_with_the_last(line: Any) -> None:
    for now in range(1, 301):
        line.send(totals("a", "b", now))
    ears = line.ears_of("b")
    wait_for(lambda: totals("a", "b", 300) in ears.messages("b"), "the last message")
    rounds = [message.round for message in ears.messages("b")]
    assert rounds == sorted(rounds)


def test_a_neighbour_of_a_neighbour_hears_nothing(line: Any) -> None:
    line.send(totals("a", "b"))
    line.send(totals("b", "a"))
    wait_for(lambda: line.ears_of("a").messages("a") and line.ears_of("b").messages("b"), "both")
    time.sleep(0.3)
    assert line.ears_of("c").messages("c") == []
    assert all(agent == "c" for agent, _ in line.ears_of("c").heard)
    assert not line.ears_of("c").is_up("c", "a")


def test_who_comes_late_gets_the_last_message(kind: Any, authority: Any) -> None:
    with Devices(kind, LINE, LINKS, authority) as devices:
        devices.start("p", "q")
        wait_for(lambda: devices.ears_of("b").is_up("b", "a"), "b to see a")
        for now in (1, 2, 3):
            devices.send(totals("b", "c", now))
        devices.start("r")
        ears = devices.ears_of("c")
        wait_for(lambda: totals("b", "c", 3) in ears.messages("c"), "what was said before")


def test_who_leaves_is_missed_and_who_returns_is_announced(line: Any) -> None:
    line.send(totals("b", "c", 5))
    wait_for(lambda: line.ears_of("c").messages("c"), "c to hear b")
    line.transports["r"].close()
    took = wait_for(lambda: not line.ears_of("b").is_up("b", "c"), "b to miss c")
    assert took < 1
    assert line.ears_of("b").is_up("b", "a")
    line.send(totals("b", "c", 6))
    line.ears["r"].heard.clear()
    line.start("r")
    wait_for(lambda: line.ears_of("b").is_up("b", "c"), "b to see c again")
    wait_for(lambda: totals("b", "c", 6) in line.ears_of("c").messages("c"), "the last message")


def test_after_closing_nothing_is_delivered_and_closing_twice_is_fine(line: Any) -> None:
    line.transports["q"].close()
    line.transports["q"].close()
    heard = len(line.ears["q"].heard)
    line.send(totals("a", "b"))
    line.send(totals("b", "a"))  # from a closed transport: lost, not an error
    time.sleep(0.2)
    assert len(line.ears["q"].heard) == heard


def test_many_agents_on_few_devices(kind: Any, authority: Any) -> None:
    size = 60
    names = [f"agent {k}/é*#?$" for k in range(size)]
    hosts = {d: names[k::3] for k, d in enumerate("pqr")}
    links = [(names[i], names[j]) for i in range(size) for j in (i + 1, i + 2) if j < size]
    links += [(names[0], names[j]) for j in range(3, size)]  # one with many neighbours
    with Devices(kind, hosts, links, authority) as devices:
        devices.start()
        devices.wait_until_linked()
        sent = [totals(a, b) for pair in links for a, b in (pair, pair[::-1])]
        for message in sent:
            devices.send(message)
        wait_for(lambda: _received(devices) >= len(sent), "all messages")
        for message in sent:
            assert devices.ears_of(message.receiver).messages(message.receiver).count(message) >= 1
        assert not any(ears.refused() for ears in devices.ears.values())


def _received(devices: Any) -> Any:
    heard = (a for ears in devices.ears.values() for _, a in list(ears.heard))
    return sum(isinstance(arrival, Received) for arrival in heard)
