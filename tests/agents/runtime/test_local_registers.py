"""Agents of one process know together who takes part, without messages about it."""

import io
from typing import Any

import pytest

from veilsum import algorithms, families
from veilsum.agents.events import (
    Deadline,
    LocalRegisters,
    Persist,
    PostRegister,
    Received,
    Send,
    Started,
)
from veilsum.agents.ledger import Ledger
from veilsum.agents.manifest import Manifest
from veilsum.agents.messages import Attendance, Hello, Register
from veilsum.agents.protocol import Agent, Options
from veilsum.agents.release import ReleaseMechanism
from veilsum.agents.runtime import IterableReadings, Log, Node
from veilsum.agents.runtime.local_registers import LONGEST_WAIT, RegisterBoard
from veilsum.agents.transport.memory import MemoryNetwork
from veilsum.networks import lazy_metropolis, load
from veilsum.privacy import SignalDP
from veilsum.privacy.accounting import Budget
from veilsum.simulation import Problem, SyntheticSignals

SIZE, ROUNDS = 12, 15


def problem(rounds: int = ROUNDS) -> Problem:
    net = lazy_metropolis(load(f"ring:{SIZE}"))
    family = families.Normal(sigma=1.0, bounds=(0.0, 10.0))
    source = SyntheticSignals(family, {"mu": 5.0}, SIZE, 0)
    return Problem(net, algorithms.get("average", net), family, source, SignalDP(1.0), rounds)


class Watched(Node):
    """Has all its actions on record, by agent and event."""

    def __init__(self, *arguments: Any, **others: Any) -> None:
        super().__init__(*arguments, **others)
        self.record: list[tuple[str, list[Any]]] = []

    def _perform(self, agent: Any, actions: Any) -> None:
        self.record.append((agent.label, list(actions)))
        super()._perform(agent, self.record[-1][1])

    def sent(self, kind: type) -> list[Any]:
        actions = (action for _, each in self.record for action in each)
        messages = (action.message for action in actions if isinstance(action, Send))
        return [message for message in messages if isinstance(message, kind)]


def processes(folder: Any, parts: list[list[int]], local: bool = True) -> list[Watched]:
    """Nodes on one network in memory, each with some agents, that deliver among their own."""
    made = problem()
    manifest = Manifest.of(made, "ring")
    network, nodes = MemoryNetwork(), []
    for part in parts:
        transport: Any = network.transport()
        transport.only_remote = local
        options = Options(deadline=0.3, resend=0.05)
        node = Watched(manifest, transport, options=options, log=Log(io.StringIO()))
        for k in part:
            label = manifest.labels[k]
            ledger = Ledger.open(folder / f"{label}.ledger", manifest, label, Budget(1.0))
            node.add(
                label, ledger, ReleaseMechanism(manifest, made, label), IterableReadings([5.0])
            )
        nodes.append(node)
    return nodes


def finish(nodes: list[Watched], seconds: float = 30.0) -> bool:
    """Let the nodes work in turn until all agents are done; one that is done still passes on."""
    try:
        for node in nodes:
            node.start()
        for _ in range(round(seconds / 0.01 / len(nodes))):
            for node in nodes:
                node.run(seconds=0.01)
            if all(node.all_done for node in nodes):
                return True
        return False
    finally:
        for node in nodes:
            node.close()


def check_complete(nodes: list[Watched]) -> None:
    released = [a.ledger.identity.agent for node in nodes for a in node.agents.values()]
    assert len(released) == SIZE
    for node in nodes:
        for agent in node.agents.values():
            assert agent.done is not None
            assert agent.done.reason == "rounds"
            assert agent.done.coverage.complete
            assert agent.done.round == ROUNDS


def test_one_process_sends_no_registers_and_every_result_covers_all(tmp_path: Any) -> None:
    (node,) = nodes = processes(tmp_path, [list(range(SIZE))])
    assert finish(nodes)
    check_complete(nodes)
    assert not node.sent(Attendance)
    assert node.sent(Hello)


def test_without_sharing_the_same_needs_registers_on_links(tmp_path: Any) -> None:
    (node,) = nodes = processes(tmp_path, [list(range(SIZE))], local=False)
    assert finish(nodes)
    check_complete(nodes)
    assert node.sent(Attendance)


def test_between_processes_registers_are_sent_and_within_one_they_are_not(tmp_path: Any) -> None:
    parts = [[0, 1, 2, 6, 7], [3, 4, 5], [8, 9, 10, 11]]
    nodes = processes(tmp_path, parts)
    assert finish(nodes)
    check_complete(nodes)
    for node in nodes:
        said = node.sent(Attendance)
        assert said
        assert not any(message.receiver in node.agents for message in said)


def test_the_end_of_an_agent_is_saved_before_the_others_know_of_it(tmp_path: Any) -> None:
    (node,) = nodes = processes(tmp_path, [list(range(SIZE))])
    assert finish(nodes)
    bits = node.manifest.graph.index
    first: set[str] = set()
    for label, actions in node.record:
        kinds = [type(action) for action in actions]
        for at, action in enumerate(actions):
            posts = isinstance(action, PostRegister) and label not in first
            if posts and action.register.finished >> bits[label] & 1:
                first.add(label)
                assert Persist in kinds[:at]
    assert first == set(node.agents)


def test_what_a_ledger_could_not_save_no_other_agent_relies_on(tmp_path: Any) -> None:
    (node,) = processes(tmp_path, [list(range(SIZE))])
    site = node.agents["3"]
    usual = site.ledger.save

    def fail_at_the_end(state: bytes, round: int = 0) -> None:
        if site.protocol.round == ROUNDS and b'"rounds"' in state:
            raise OSError("the disk is full")
        usual(state, round)

    site.ledger.save = fail_at_the_end  # type: ignore[method-assign]
    node.start()
    with pytest.raises(OSError, match="the disk is full"):
        node.run(lambda: node.all_done, 30)
    assert node._board is not None
    _, event = node._board.take()
    bit = 1 << node.manifest.graph.index["3"]
    assert not any(found.register.finished & bit for found in event.posted.values())
    assert not any(union.finished & bit for union in event.unions.values())
    assert not node.all_done
    for other in node.agents.values():
        assert other.done is None  # each waits for all others, and one has not ended
    site.ledger.save = usual  # type: ignore[method-assign]
    node.close()


def posted(register: Register, incarnation: int = 1, run: bytes = b"12345678") -> PostRegister:
    return PostRegister(incarnation, run, register)


def test_a_register_that_is_shared_again_is_read_by_neighbours_only() -> None:
    board = RegisterBoard({"a": ["b", "x"], "b": ["a", "c"], "c": ["b"]})
    board.post("a", posted(Register(present=1)), 0.0)
    assert board.take()[0] == ["a", "b", "c"]
    board.post("a", posted(Register(present=1)), 0.0)
    assert board.take()[0] == ["a", "b"]
    assert not board.waiting


def test_views_are_apart_and_those_of_nobody_are_forgotten() -> None:
    board = RegisterBoard({"a": ["b"], "b": ["a"]})
    board.post("a", posted(Register(present=1)), 0.0)
    board.post("b", posted(Register(dropped=1, present=2, ended=2)), 0.0)
    unions = board.take()[1].unions
    assert (unions[0, 0].present, unions[0, 1].present) == (1, 2)
    assert {union.ended for union in unions.values()} == {2}
    board.post("a", posted(Register(dropped=1, present=1)), 0.0)
    assert list(board.take()[1].unions) == [(0, 1)]


def test_a_change_does_not_wait_for_a_pause_that_never_comes() -> None:
    board = RegisterBoard({"a": ["b"], "b": ["a"]})
    assert not board.overdue(1e9)
    board.post("a", posted(Register(present=1)), 5.0)
    board.post("b", posted(Register(present=2)), 5.0 + LONGEST_WAIT / 2)
    assert not board.overdue(5.0 + 0.9 * LONGEST_WAIT)
    assert board.overdue(5.0 + LONGEST_WAIT)


def greeted(run: bytes = b"12345678") -> Agent:
    """An agent of the ring that has said Hello to its neighbours, and heard nobody."""
    agent = Agent(Manifest.of(problem(), "ring"), "0")
    agent.post_registers(["1", "11"])
    agent.handle(Started(1, secret=b"s", start=1, run=run))
    return agent


def test_a_register_is_accepted_only_as_a_message_would_be() -> None:
    agent = greeted()
    event = LocalRegisters({"1": posted(Register(present=2))}, {})
    agent.handle(event)
    assert not agent.links["1"].joined  # no Hello of it yet
    again = agent.handle(Deadline("resend"))
    assert any(isinstance(action, PostRegister) for action in again)  # to be looked at again
    manifest, own = agent.manifest, agent.identity.status
    other = own._replace(run=b"87654321")
    hello = Hello(
        "1",
        "0",
        1,
        1,
        manifest.epoch,
        manifest.digest,
        manifest.field_digests,
        own=other,
        known=own,
    )
    agent.handle(Received(hello))
    agent.handle(event)
    assert not agent.links["1"].joined  # of another run
    agent.handle(LocalRegisters({"1": posted(Register(present=2), run=b"87654321")}, {}))
    assert agent.links["1"].joined
    assert agent.flooding.register.present & 2
    calm = agent.handle(Deadline("resend"))
    assert not any(isinstance(action, PostRegister) for action in calm)
