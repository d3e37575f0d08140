"""The tables of link states: complete, reachable, and drawn in the docs as they are."""

import itertools
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from veilsum.agents.protocol import states
from veilsum.agents.protocol.link import Link
from veilsum.agents.protocol.states import (
    REACHABILITY,
    SESSION,
    LinkStateError,
    Reachability,
    ReachabilityEvent,
    SessionEvent,
    SessionState,
)

PAGE = Path(__file__).resolve().parents[3] / "docs" / "protocol.md"
PROTOCOL = Path(states.__file__).parent
TABLES: dict[str, tuple[Mapping[Any, Any], type[Enum], type[Enum], frozenset[Any]]] = {
    "session": (SESSION, SessionState, SessionEvent, states.IMPOSSIBLE),
    "reachability": (REACHABILITY, Reachability, ReachabilityEvent, frozenset()),
}


@pytest.fixture(params=TABLES)
def table(request: pytest.FixtureRequest) -> Any:
    return TABLES[request.param]


def test_every_pair_of_state_and_event_is_decided_once(table: Any) -> None:
    entries, kinds, events, impossible = table
    assert set(entries) | impossible == set(itertools.product(kinds, events))
    assert not set(entries) & impossible
    assert set(entries.values()) <= set(kinds)


def test_every_state_is_reachable_and_none_is_a_trap(table: Any) -> None:
    entries, kinds, _, _ = table
    after = {kind: {to for (at, _), to in entries.items() if at is kind} for kind in kinds}

    def reached(first: Any) -> set[Any]:
        found, edge = {first}, [first]
        while edge:
            new = after[edge.pop()] - found
            found |= new
            edge += new
        return found

    first = next(iter(entries))[0]
    assert reached(first) == set(kinds)
    assert all(first in reached(kind) for kind in kinds)


def test_an_impossible_event_is_an_error_and_changes_nothing() -> None:
    for state, event in sorted(states.IMPOSSIBLE, key=str):
        link = Link("b", 1, 1)
        link.session = state
        with pytest.raises(LinkStateError, match=event.name):
            link.on(event)
        assert link.session is state


@pytest.mark.parametrize("reach", Reachability)
@pytest.mark.parametrize("session", SessionState)
def test_what_a_link_allows_follows_from_its_state(session: Any, reach: Any) -> None:
    link = Link("b", 1, 1)
    link.session, link.reachability = session, reach
    link.on(ReachabilityEvent.DEADLINE_OVER)  # any event that keeps the answer
    answers = link.reachability in states.ANSWERING
    assert link.awaited == (answers and session in states.AWAITED)
    assert link.may_send == (answers and session in states.EXCHANGES_MASS)
    down = reach is Reachability.DOWN
    assert link.in_reach == (not down and session in states.RECEIVES_UPDATES)


def test_sets_of_states_fit_together() -> None:
    assert set(Reachability) == states.ANSWERING | states.UNANSWERING
    assert not states.ANSWERING & states.UNANSWERING
    assert states.EXCHANGES_MASS <= states.AWAITED
    assert states.EXCHANGES_MASS <= states.RECEIVES_UPDATES <= states.ESTABLISHED
    assert not states.ENDED & states.AWAITED
    refused = {SessionState.MISMATCHED, SessionState.FORKED}
    assert not refused & (states.AWAITED | states.EXCHANGES_MASS | states.ESTABLISHED)


def test_only_the_link_changes_its_state() -> None:
    for path in PROTOCOL.glob("*.py"):
        text = path.read_text()
        assigns = ".session = " in text or ".reachability = " in text
        assert not assigns or path.name == "link.py", path.name


def test_the_diagrams_and_tables_in_the_docs_are_those_of_the_code() -> None:
    page = PAGE.read_text()
    for entries, *_ in TABLES.values():
        assert states.diagram(entries) in page
        for row in states.transitions(entries)[1:]:
            assert "| " + " | ".join(row) + " |" in page


def test_a_diagram_shows_every_change_of_state(table: Any) -> None:
    entries, *_ = table
    drawn = states.diagram(entries)
    for (state, event), after in entries.items():
        if state is not after:
            lines = [k for k in drawn.splitlines() if f" {state.value} --> {after.value}: " in k]
            assert len(lines) == 1
            assert event.name in lines[0].split(": ")[1].split(", ")
