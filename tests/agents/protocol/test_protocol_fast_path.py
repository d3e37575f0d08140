"""The fast path of ordinary messages changes nothing but the time they take."""

import random
from typing import Any

import pytest

from tests.agents.protocol.cases import FLORENTINE, bounded, problem, releases
from veilsum.agents.events import Received, ReceivedBatch
from veilsum.agents.manifest import Manifest
from veilsum.agents.messages import CumulativeMass, RangeReport
from veilsum.agents.protocol import Agent
from veilsum.agents.protocol.claims import Claims
from veilsum.agents.protocol.history import AgentIdentity
from veilsum.agents.protocol.link import Link
from veilsum.agents.protocol.memory import AgentState
from veilsum.agents.protocol.states import ReachabilityEvent, SessionEvent
from veilsum.agents.transport.memory import Faults
from veilsum.testing import SimulatedNetwork

HARD = Faults(drop=0.1, duplicate=0.2, reorder=0.2, delay=(0.001, 0.05))
TERMS = bounded(
    "learn", "complete:2", high=9.0, lazy=True
)  # largest 10, and 40 readings net in round 4
ONE = 1 << TERMS.unit


class Long(Agent):
    """A variant that takes no fast path and looks at every link each time."""

    def _received(self, event: Any) -> None:
        schedule: Any = self.schedule
        schedule._lacking = None
        super()._received(event)


def story(algorithm: Any, agent: Any, clip: float = 0.0) -> Any:
    """Every action of every agent, in order."""
    actions: list[Any] = []

    class Recorded(SimulatedNetwork):
        def perform(self, host: Any, action: Any) -> None:
            actions.append((host.label, type(action).__name__, getattr(action, "message", action)))
            if actions[-1][1] == "Persist":
                actions[-1] = (host.label, "Persist", action.state.to_bytes())
            super().perform(host, action)

    todo = problem(algorithm, FLORENTINE, rounds=25)
    manifest = Manifest.of(todo, clip=clip)
    simulated = Recorded(manifest, seed=7, faults=HARD, agent=agent)
    for label, own in releases(todo, manifest).items():
        simulated.release(label, own)
    simulated.start()
    simulated.run(60)
    return actions


@pytest.mark.parametrize(("algorithm", "clip"), [("average", 0), ("learn", 0), ("average", 0.3)])
def test_the_fast_path_leads_where_the_full_check_does(
    algorithm: Any, clip: float, monkeypatch: Any
) -> None:
    fast = story(algorithm, Agent, clip)
    monkeypatch.setattr(Link, "continues", lambda *_: False)
    assert story(algorithm, Long, clip) == fast


def test_a_fast_path_for_everything_would_be_caught(monkeypatch: Any) -> None:
    right = story("average", Agent)
    monkeypatch.setattr(Link, "continues", lambda *_: True)
    assert story("average", Agent) != right


def link(**known: Any) -> Any:
    made = Link("b", 1, 1)
    made.begin_session(1, 0, b"")
    made.on(SessionEvent.AGREED)
    made.confirmed = True
    made.newest, made.in_round, made.in_sums, made.in_weight = 4, 4, (20 * ONE,), 10 * ONE
    for name, value in known.items():
        setattr(made, name, value)
    return made


def said(**other: Any) -> Any:
    return CumulativeMass("b", "a", 1, 1, 5, 4, (30 * ONE,), 15 * ONE)._replace(**other)


def continues(found: Any, message: Any, rounds: int = 50) -> bool:
    state = AgentState("a", incarnation=1, round=4)
    claims = Claims(TERMS, state, AgentIdentity("a"))
    claims.rounds = rounds
    return bool(found.continues(message, state, claims))


def test_the_next_round_is_expected() -> None:
    assert continues(link(), said())
    assert continues(
        link(in_round=3, buffer=[said(round=4, sums=(25 * ONE,), weight=14 * ONE)]), said()
    )


@pytest.mark.parametrize(
    "other",
    [
        {"round": 4}, {"round": 6}, {"acknowledged": -1}, {"leaving": True}, {"done": True},
        {"range_report": RangeReport(1)},
        {"sums": (71 * ONE,)}, {"sums": (-31 * ONE,)}, {"sums": (1, 2)}, {"sums": ()},
        {"weight": 9 * ONE}, {"weight": 41 * ONE}, {"acknowledged": 5}, {"receiver": "c"}, {"incarnation": 2},
        {"peer_incarnation": 2}, {"run": b"another."}, {"releases": 1}, {"head": bytes(16)},
        {"view": b"another."},
    ],
    ids=str,
)  # fmt: skip
def test_anything_else_gets_the_full_check(other: Any) -> None:
    assert not continues(link(), said(**other))


@pytest.mark.parametrize(
    "event",
    [
        SessionEvent.NEW_INCARNATION, SessionEvent.PEER_DONE, SessionEvent.FAREWELL,
        SessionEvent.MISMATCH, SessionEvent.FORK, ReachabilityEvent.DISCONNECTED,
        ReachabilityEvent.DEADLINE_MISSED,
    ],
    ids=str,
)  # fmt: skip
def test_so_is_a_link_that_is_not_open_or_does_not_answer(event: Any) -> None:
    found = link()
    found.on(event)
    assert not continues(found, said())


@pytest.mark.parametrize("known", [{"confirmed": False}, {"undone": True}], ids=str)
def test_so_is_a_link_that_is_not_confirmed_or_was_undone(known: Any) -> None:
    assert not continues(link(**known), said())


def test_so_is_a_round_after_the_last() -> None:
    assert not continues(link(newest=50), said(round=51))
    assert continues(link(newest=50), said(round=51), rounds=0)


class Replayed(SimulatedNetwork):
    """Has every event of every agent on record."""

    def __init__(self, *arguments: Any, **others: Any) -> None:
        super().__init__(*arguments, **others)
        self.events: dict[str, list[Any]] = {}

    def feed(self, label: str, event: Any) -> None:
        self.events.setdefault(label, []).append(event)
        super().feed(label, event)


def batches(events: list[Any], sizes: Any) -> list[Any]:
    """The same events, with up to so many messages in a row taken together."""
    made: list[Any] = []
    left = 0
    for event in events:
        if not isinstance(event, Received):
            made.append(event)
            left = 0
        elif left and isinstance(made[-1], ReceivedBatch):
            made[-1] = ReceivedBatch((*made[-1].messages, event.message))
            left -= 1
        else:
            made.append(ReceivedBatch((event.message,)))
            left = next(sizes)
    return made


def mass_sent(agent: Any, events: list[Any]) -> dict[Any, Any]:
    """What an agent sent in each round to each neighbour, and its state at the end."""
    sent: dict[Any, Any] = {}
    for event in events:
        for action in agent.handle(event):
            message = getattr(action, "message", None)
            if isinstance(message, CumulativeMass):
                key = message.receiver, message.incarnation, message.round
                sent.setdefault(key, (message.sums, message.weight, message.tag))
    return sent | {"end": agent.to_bytes(), "estimate": agent.estimate}


@pytest.mark.parametrize("algorithm", ["average", "learn"])
def test_messages_that_come_together_lead_where_they_do_one_by_one(algorithm: Any) -> None:
    todo = problem(algorithm, FLORENTINE, rounds=25)
    manifest = Manifest.of(todo)
    simulated = Replayed(manifest, seed=7, faults=HARD)
    for label, own in releases(todo, manifest).items():
        simulated.release(label, own)
    simulated.start()
    simulated.run(60)
    rng = random.Random(3)
    sizes = iter(lambda: rng.randrange(12), -1)
    for label, events in simulated.events.items():
        one, many = Agent(manifest, label), Agent(manifest, label)
        together = batches(events, sizes)
        assert len(together) < len(events)
        assert mass_sent(many, together) == mass_sent(one, events)
