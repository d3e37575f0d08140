"""The network in memory: immediate without faults, and the same fates for the same seed."""

import threading
from typing import Any

import pytest

from veilsum.agents.events import PeerDown, PeerUp, Received
from veilsum.agents.messages import CumulativeMass
from veilsum.agents.transport.memory import Faults, MemoryNetwork
from veilsum.errors import AgentError


def message(number: Any, sender: Any = "a", receiver: Any = "b") -> Any:
    return CumulativeMass(sender, receiver, 1, 1, number, 0, (number,), number)


def pair(seed: Any = 0, faults: Any = None) -> Any:
    network = MemoryNetwork(seed, faults or Faults())
    heard = []
    ends = []
    for agent, peer in (("a", "b"), ("b", "a")):
        end = network.transport()
        end.attach(agent, [peer])
        end.open(lambda who, what: heard.append((who, what)))
        ends.append(end)
    return network, *ends, heard


def rounds(heard: Any) -> Any:
    found = [what.message for _, what in heard if isinstance(what, Received)]
    return [message.round for message in found if isinstance(message, CumulativeMass)]


def test_a_message_arrives_within_send() -> None:
    _, a, _, heard = pair()
    a.send(message(1))
    assert heard[-1] == ("b", Received(message(1)))


def test_neighbours_come_and_go() -> None:
    _, a, b, heard = pair()
    assert heard == [("b", PeerUp("a")), ("a", PeerUp("b"))]
    b.close()
    b.close()
    assert heard[-1] == ("a", PeerDown("b"))
    a.send(message(1))
    assert rounds(heard) == []


def test_who_comes_late_gets_the_last_message() -> None:
    network, a, b, heard = pair()
    b.close()
    a.send(message(1))
    a.send(message(2))
    late = network.transport()
    late.attach("b", ["a"])
    late.open(lambda who, what: heard.append((who, what)))
    assert rounds(heard) == [2]


def test_only_neighbours_are_heard() -> None:
    network, a, _, heard = pair()
    other = network.transport()
    other.attach("c", ["b"])
    other.open(lambda who, what: heard.append((who, what)))
    other.send(message(1, "c", "b"))
    a.send(message(1, "a", "c"))
    assert rounds(heard) == []


FAULTS = Faults(drop=0.3, duplicate=0.3, reorder=0.3, delay=(0.1, 0.5))


def fates(seed: Any) -> Any:
    network, a, _, heard = pair(seed, FAULTS)
    for number in range(200):
        a.send(message(number))
        network.advance(number / 10)
    network.advance(100)
    return rounds(heard)


def test_fates_are_those_of_the_seed() -> None:
    assert fates(1) == fates(1)
    assert fates(1) != fates(2)


def test_every_fault_strikes() -> None:
    got = fates(3)
    assert set(range(200)) - set(got)
    assert len(got) > len(set(got))
    assert got != sorted(got)


def test_a_delay_alone_keeps_the_order() -> None:
    network, a, _, heard = pair(1, Faults(delay=(0.1, 5.0)))
    for number in range(100):
        a.send(message(number))
    assert rounds(heard) == []
    assert len(network.in_flight) == 100
    network.advance(6)
    assert rounds(heard) == list(range(100))


def test_partitions_are_silent_and_heal() -> None:
    network, a, b, heard = pair()
    network.partition({"a"}, {"b"})
    a.send(message(1))
    b.send(message(1, "b", "a"))
    assert rounds(heard) == []
    network.heal()
    a.send(message(2))
    assert rounds(heard) == [2]


def test_a_cut_may_be_one_sided() -> None:
    network, a, b, heard = pair()
    network.cut([("a", "b")])
    a.send(message(1))
    b.send(message(2, "b", "a"))
    assert rounds(heard) == [2]


def test_threads_may_send_at_once() -> None:
    _, a, b, heard = pair(0, Faults(duplicate=0.5))
    count = 500

    def speak(end: Any, sender: Any, receiver: Any) -> None:
        for number in range(count):
            end.send(message(number, sender, receiver))

    both = [threading.Thread(target=speak, args=x) for x in ((a, "a", "b"), (b, "b", "a"))]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join(10)
    assert set(rounds(heard)) == set(range(count))


@pytest.mark.parametrize("wrong", [{"drop": 1.5}, {"delay": (2.0, 1.0)}])
def test_faults_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(AgentError):
        Faults(**wrong)
