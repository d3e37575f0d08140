"""The fast path of ordinary messages changes nothing but the time they take."""

from typing import Any

import pytest

from murmura.agents.manifest import Manifest
from murmura.agents.messages import CumulativeMass, RangeReport
from murmura.agents.protocol import Agent
from murmura.agents.protocol.link import Link
from murmura.agents.protocol.options import Limits
from murmura.agents.protocol.states import ReachabilityEvent, SessionEvent
from murmura.agents.transport.memory import Faults
from murmura.testing import SimulatedNetwork
from tests.agents.protocol.cases import FLORENTINE, problem, releases

HARD = Faults(drop=0.1, duplicate=0.2, reorder=0.2, delay=(0.001, 0.05))
LIMITS = Limits(weight=100, sums=1000, rounds=50)


class Long(Agent):
    """A variant that takes no fast path and looks at every link each time."""

    def _received(self, event: Any) -> None:
        schedule: Any = self.schedule
        schedule._lacking = None
        super()._received(event)


def story(algorithm: Any, agent: Any) -> Any:
    """Every action of every agent, in order."""
    actions: list[Any] = []

    class Recorded(SimulatedNetwork):
        def perform(self, host: Any, action: Any) -> None:
            actions.append((host.label, type(action).__name__, getattr(action, "message", action)))
            if actions[-1][1] == "Persist":
                actions[-1] = (host.label, "Persist", action.state.to_bytes())
            super().perform(host, action)

    todo = problem(algorithm, FLORENTINE, rounds=25)
    manifest = Manifest.of(todo)
    simulated = Recorded(manifest, seed=7, faults=HARD, agent=agent)
    for label, own in releases(todo, manifest).items():
        simulated.release(label, own)
    simulated.start()
    simulated.run(60)
    return actions


@pytest.mark.parametrize("algorithm", ["average", "learn"])
def test_the_fast_path_leads_where_the_full_check_does(algorithm: Any, monkeypatch: Any) -> None:
    fast = story(algorithm, Agent)
    monkeypatch.setattr(Link, "expects", lambda *_: False)
    assert story(algorithm, Long) == fast


def test_a_fast_path_for_everything_would_be_caught(monkeypatch: Any) -> None:
    right = story("average", Agent)
    monkeypatch.setattr(Link, "expects", lambda *_: True)
    assert story("average", Agent) != right


def link(**known: Any) -> Any:
    made = Link("b", 1, 1)
    made.begin_session(1, 0, b"")
    made.on(SessionEvent.AGREED)
    made.newest, made.in_round, made.in_sums, made.in_weight = 4, 4, (20,), 10
    for name, value in known.items():
        setattr(made, name, value)
    return made


def said(**other: Any) -> Any:
    return CumulativeMass("b", "a", 1, 1, 5, 4, (30,), 15)._replace(**other)


def test_the_next_round_is_expected() -> None:
    assert link().expects(said(), LIMITS)
    assert link(in_round=3, buffer=[said(round=4, sums=(25,))]).expects(said(), LIMITS)


@pytest.mark.parametrize(
    "other",
    [
        {"round": 4}, {"round": 6}, {"acknowledged": -1}, {"leaving": True}, {"done": True},
        {"range_report": RangeReport(1)},
        {"sums": (1021,)}, {"sums": (-981,)}, {"sums": (1, 2)}, {"sums": ()}, {"weight": 9},
        {"weight": 111},
    ],
    ids=str,
)  # fmt: skip
def test_anything_else_gets_the_full_check(other: Any) -> None:
    assert not link().expects(said(**other), LIMITS)


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
    assert not found.expects(said(), LIMITS)


def test_so_is_a_round_after_the_last() -> None:
    assert not link(newest=50).expects(said(round=51), LIMITS)
    assert link(newest=50).expects(said(round=51), Limits(100, 1000, rounds=0))
