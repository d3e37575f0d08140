"""Messages between agents of one node: in which order agents get them, and that none waits for ever."""

from typing import Any

from tests.agents.runtime.test_local_registers import processes
from veilsum.agents.events import Received, ReceivedBatch, Send
from veilsum.agents.messages import CumulativeMass
from veilsum.agents.runtime import node as runtime


def mass(sender: str, receiver: str, number: int = 1) -> CumulativeMass:
    return CumulativeMass(sender, receiver, 1, 1, number, 0, (5,), 1)


def messages(event: Any) -> list[Any]:
    return [event.message] if isinstance(event, Received) else list(event.messages)


def ready(folder: Any) -> tuple[Any, list[Any]]:
    """A node of a ring of 12 that has started, with nothing under way; what is handed to agents."""
    (node,) = processes(folder, [list(range(12))])
    node.start()
    node._local_messages.clear()
    node._complete.clear()
    node._local_count = 0
    handled: list[Any] = []

    def note(agent: Any, event: Any) -> None:
        if isinstance(event, Received | ReceivedBatch):
            handled.append((agent.label, messages(event)))

    made: Any = node
    made._handle = note
    made._all_served = float("inf")
    return node, handled


def say(node: Any, *said: CumulativeMass) -> None:
    for message in said:
        node._perform(node.agents[message.sender], [Send(message)])


def test_an_agent_that_has_heard_all_its_neighbours_is_served_first(tmp_path: Any) -> None:
    node, handled = ready(tmp_path)
    late, one, other = mass("1", "2"), mass("4", "5"), mass("6", "5")
    say(node, late, one, other)
    assert node._deliver_locally() == 3
    assert handled == [("5", [one, other]), ("2", [late])]
    assert node._local_count == 0
    node.close()


def test_messages_of_a_link_stay_in_order_and_an_agent_is_served_once(tmp_path: Any) -> None:
    node, handled = ready(tmp_path)
    said = [mass("4", "5", 1), mass("6", "5", 1), mass("4", "5", 2), mass("6", "5", 2)]
    say(node, *said)
    node._deliver_locally()
    assert handled == [("5", said)]
    node.close()


def test_who_waits_for_more_has_a_turn_though_others_are_always_complete(tmp_path: Any) -> None:
    node, handled = ready(tmp_path)
    busy = [mass("4", "5"), mass("6", "5")]
    usual = node._handle

    def again(agent: Any, event: Any) -> None:
        usual(agent, event)
        if agent.label == "5":
            say(node, *busy)

    node._handle = again
    say(node, mass("1", "2"), *busy)
    for _ in range(3):
        node._deliver_locally()
    assert {label for label, _ in handled} == {"5"}
    assert len(handled) * 2 > 3 * runtime.BATCH - 2
    node._all_served = float("-inf")
    node._deliver_locally()
    assert {label for label, _ in handled} == {"2", "5"}
    node.close()
