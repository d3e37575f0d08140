"""The states of a link: two small tables, one for the session and one for reachability.

A link has two independent dimensions. The *session* says what both ends have agreed on: whether
they know each other's incarnation and run, and whether the neighbour still takes part. The
*reachability* says whether the neighbour answers at present. A product of the two would have 24
states that no rule needs to distinguish, so each dimension has its own table. Both tables, and every
question that is asked of a link's state, are in this file and nowhere else.

An event that a table has no entry for is a `LinkStateError`: a defect of this program, never
something that a neighbour can cause. `IMPOSSIBLE` lists those pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from veilsum.errors import AgentError


class _Named(Enum):
    """Hashed by identity: that of `Enum` is a function of Python, and every message looks states up."""

    __hash__ = object.__hash__


class SessionState(_Named):
    """What both ends of a link have agreed on."""

    OPENING = "opening"  # the ends do not yet know each other's incarnation and run
    OPEN = "open"  # both ends know the session: mass is exchanged
    DONE = "done"  # the neighbour has its estimate and sends no more mass
    LEFT = "left"  # the neighbour has left for good
    MISMATCHED = "mismatched"  # the neighbour follows another manifest
    FORKED = "forked"  # two histories speak as one run: neither is accepted


class SessionEvent(_Named):
    """What can change a session."""

    HELLO = "a Hello under the same manifest"
    NEW_RUN = "the neighbour runs anew"
    NEW_INCARNATION = "a new incarnation of the neighbour"
    AGREED = "both ends know the session"
    PEER_DONE = "the neighbour is done"
    FAREWELL = "the neighbour leaves"
    MISMATCH = "a Hello under another manifest"
    FORK = "two histories in one run"
    RENEWED = "this agent begins a new incarnation"


class Reachability(_Named):
    """Whether the neighbour answers."""

    RESPONSIVE = "responsive"
    RECOVERING = "recovering"  # answers again since the last deadline, and may miss the next one
    SILENT = "silent"  # missed a deadline
    DOWN = "down"  # the transport cannot reach it


class ReachabilityEvent(_Named):
    """What can change whether a neighbour answers."""

    CONNECTED = "the transport reaches it"
    DISCONNECTED = "the transport lost it"
    HELLO = "a Hello"
    NEWS = "a new message, or a session that opens"
    DEADLINE_MISSED = "a deadline passed without it"
    PATIENCE_EXHAUSTED = "too many deadlines passed without it"
    DEADLINE_OVER = "the next deadline begins"


_S, _E, _R, _P = SessionState, SessionEvent, Reachability, ReachabilityEvent

SESSION: Mapping[tuple[SessionState, SessionEvent], SessionState] = {
    (_S.OPENING, _E.HELLO): _S.OPENING,
    (_S.OPENING, _E.NEW_RUN): _S.OPENING,
    (_S.OPENING, _E.NEW_INCARNATION): _S.OPENING,
    (_S.OPENING, _E.AGREED): _S.OPEN,
    (_S.OPENING, _E.MISMATCH): _S.MISMATCHED,
    (_S.OPENING, _E.FORK): _S.FORKED,
    (_S.OPENING, _E.RENEWED): _S.OPENING,
    (_S.OPEN, _E.HELLO): _S.OPEN,
    (_S.OPEN, _E.NEW_RUN): _S.OPENING,
    (_S.OPEN, _E.NEW_INCARNATION): _S.OPENING,
    (_S.OPEN, _E.AGREED): _S.OPEN,
    (_S.OPEN, _E.PEER_DONE): _S.DONE,
    (_S.OPEN, _E.FAREWELL): _S.LEFT,
    (_S.OPEN, _E.MISMATCH): _S.MISMATCHED,
    (_S.OPEN, _E.FORK): _S.FORKED,
    (_S.OPEN, _E.RENEWED): _S.OPENING,
    (_S.DONE, _E.HELLO): _S.DONE,
    (_S.DONE, _E.NEW_RUN): _S.DONE,
    (_S.DONE, _E.NEW_INCARNATION): _S.OPENING,
    (_S.DONE, _E.AGREED): _S.DONE,
    (_S.DONE, _E.PEER_DONE): _S.DONE,
    (_S.DONE, _E.FAREWELL): _S.LEFT,
    (_S.DONE, _E.MISMATCH): _S.MISMATCHED,
    (_S.DONE, _E.FORK): _S.FORKED,
    (_S.DONE, _E.RENEWED): _S.OPENING,
    (_S.LEFT, _E.HELLO): _S.LEFT,
    (_S.LEFT, _E.NEW_RUN): _S.LEFT,
    (_S.LEFT, _E.NEW_INCARNATION): _S.OPENING,
    (_S.LEFT, _E.AGREED): _S.LEFT,
    (_S.LEFT, _E.PEER_DONE): _S.LEFT,
    (_S.LEFT, _E.FAREWELL): _S.LEFT,
    (_S.LEFT, _E.MISMATCH): _S.LEFT,
    (_S.LEFT, _E.FORK): _S.FORKED,
    (_S.LEFT, _E.RENEWED): _S.LEFT,
    (_S.MISMATCHED, _E.HELLO): _S.OPENING,
    (_S.MISMATCHED, _E.MISMATCH): _S.MISMATCHED,
    (_S.MISMATCHED, _E.RENEWED): _S.MISMATCHED,
    (_S.FORKED, _E.HELLO): _S.FORKED,
    (_S.FORKED, _E.NEW_RUN): _S.OPENING,
    (_S.FORKED, _E.NEW_INCARNATION): _S.FORKED,
    (_S.FORKED, _E.MISMATCH): _S.FORKED,
    (_S.FORKED, _E.FORK): _S.FORKED,
    (_S.FORKED, _E.RENEWED): _S.FORKED,
}  # fmt: skip

# A Hello under the same manifest comes before all that follows from it, and totals of a link that
# is not open open it first; those of a mismatched or forked link are refused before they count.
IMPOSSIBLE: frozenset[tuple[SessionState, SessionEvent]] = frozenset(
    {
        (_S.OPENING, _E.PEER_DONE), (_S.OPENING, _E.FAREWELL),
        (_S.MISMATCHED, _E.NEW_RUN), (_S.MISMATCHED, _E.NEW_INCARNATION),
        (_S.MISMATCHED, _E.AGREED), (_S.MISMATCHED, _E.PEER_DONE),
        (_S.MISMATCHED, _E.FAREWELL), (_S.MISMATCHED, _E.FORK),
        (_S.FORKED, _E.AGREED), (_S.FORKED, _E.PEER_DONE), (_S.FORKED, _E.FAREWELL),
    }
)  # fmt: skip

REACHABILITY: Mapping[tuple[Reachability, ReachabilityEvent], Reachability] = {
    (_R.RESPONSIVE, _P.CONNECTED): _R.RESPONSIVE,
    (_R.RESPONSIVE, _P.DISCONNECTED): _R.DOWN,
    (_R.RESPONSIVE, _P.HELLO): _R.RESPONSIVE,
    (_R.RESPONSIVE, _P.NEWS): _R.RECOVERING,
    (_R.RESPONSIVE, _P.DEADLINE_MISSED): _R.SILENT,
    (_R.RESPONSIVE, _P.PATIENCE_EXHAUSTED): _R.SILENT,
    (_R.RESPONSIVE, _P.DEADLINE_OVER): _R.RESPONSIVE,
    (_R.RECOVERING, _P.CONNECTED): _R.RECOVERING,
    (_R.RECOVERING, _P.DISCONNECTED): _R.DOWN,
    (_R.RECOVERING, _P.HELLO): _R.RECOVERING,
    (_R.RECOVERING, _P.NEWS): _R.RECOVERING,
    (_R.RECOVERING, _P.DEADLINE_MISSED): _R.RECOVERING,
    (_R.RECOVERING, _P.PATIENCE_EXHAUSTED): _R.SILENT,
    (_R.RECOVERING, _P.DEADLINE_OVER): _R.RESPONSIVE,
    (_R.SILENT, _P.CONNECTED): _R.RESPONSIVE,
    (_R.SILENT, _P.DISCONNECTED): _R.DOWN,
    (_R.SILENT, _P.HELLO): _R.SILENT,
    (_R.SILENT, _P.NEWS): _R.RECOVERING,
    (_R.SILENT, _P.DEADLINE_MISSED): _R.SILENT,
    (_R.SILENT, _P.PATIENCE_EXHAUSTED): _R.SILENT,
    (_R.SILENT, _P.DEADLINE_OVER): _R.SILENT,
    (_R.DOWN, _P.CONNECTED): _R.RESPONSIVE,
    (_R.DOWN, _P.DISCONNECTED): _R.DOWN,
    (_R.DOWN, _P.HELLO): _R.RESPONSIVE,
    (_R.DOWN, _P.NEWS): _R.RECOVERING,
    (_R.DOWN, _P.DEADLINE_MISSED): _R.DOWN,
    (_R.DOWN, _P.PATIENCE_EXHAUSTED): _R.DOWN,
    (_R.DOWN, _P.DEADLINE_OVER): _R.DOWN,
}

# Questions about the session.
AWAITED = frozenset({_S.OPENING, _S.OPEN})  # a round waits for its message, if it answers
EXCHANGES_MASS = frozenset({_S.OPEN})  # mass may be sent, if it answers
RECEIVES_UPDATES = frozenset({_S.OPEN, _S.DONE})  # is sent every change of the cumulative mass
ESTABLISHED = frozenset({_S.OPEN, _S.DONE, _S.LEFT})  # its messages were accepted in this session
GREETED_AGAIN = frozenset({_S.OPENING, _S.FORKED})  # is sent a Hello again until it answers
MAY_ACKNOWLEDGE = frozenset({_S.OPENING, _S.OPEN, _S.DONE, _S.FORKED})  # a leaver waits for it
ENDED = frozenset({_S.DONE, _S.LEFT})  # sends no more mass of its own
# Questions about reachability.
ANSWERING = frozenset({_R.RESPONSIVE, _R.RECOVERING})
UNANSWERING = frozenset({_R.SILENT, _R.DOWN})


class LinkStateError(AgentError):
    """An event that cannot happen in the state a link is in: a defect of this program."""


_State = TypeVar("_State", bound=Enum)
_Event = TypeVar("_Event", bound=Enum)


def next_state(
    table: Mapping[tuple[_State, _Event], _State], state: _State, event: _Event
) -> _State:
    """state' = table[state, event].

    Parameters
    ----------
    table : mapping
        `SESSION` or `REACHABILITY`.
    state, event : Enum
        The present state and what happened.

    Returns
    -------
    Enum
        The state that follows.

    Raises
    ------
    LinkStateError
        If the table has no entry for the pair.

    Examples
    --------
    >>> next_state(SESSION, SessionState.OPENING, SessionEvent.AGREED).value
    'open'
    >>> next_state(SESSION, SessionState.FORKED, SessionEvent.AGREED)
    Traceback (most recent call last):
    ...
    veilsum.agents.protocol.states.LinkStateError: a forked link cannot take the event AGREED
    (both ends know the session); this is a defect of veilsum: please report it
    """
    try:
        return table[state, event]
    except KeyError:
        raise LinkStateError(
            f"a {state.value} link cannot take the event {event.name} ({event.value}); "
            "this is a defect of veilsum: please report it"
        ) from None


def diagram(table: Mapping[tuple[_State, _Event], _State]) -> str:
    """Draw a table as a Mermaid state diagram; events that change nothing are left out.

    Parameters
    ----------
    table : mapping
        `SESSION` or `REACHABILITY`.

    Returns
    -------
    str
        Text for a Mermaid code block.

    Examples
    --------
    >>> print(diagram(SESSION).splitlines()[2])
        opening --> open: AGREED
    """
    arrows: dict[tuple[str, str], list[str]] = {}
    for (state, event), after in table.items():
        if state is not after:
            arrows.setdefault((state.value, after.value), []).append(event.name)
    first = next(iter(table))[0].value
    lines = [f"    {a} --> {b}: {', '.join(names)}" for (a, b), names in arrows.items()]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {first}", *lines])


def transitions(table: Mapping[tuple[_State, _Event], _State]) -> list[list[str]]:
    """Lay a table out: a row for each event, a column for each state.

    Parameters
    ----------
    table : mapping
        `SESSION` or `REACHABILITY`.

    Returns
    -------
    list of list of str
        The heads, then the rows; a pair without an entry is empty.

    Examples
    --------
    >>> transitions(REACHABILITY)[0]
    ['event', 'meaning', 'responsive', 'recovering', 'silent', 'down']
    """
    states = list(type(next(iter(table))[0]))
    events = list(type(next(iter(table))[1]))
    rows = [["event", "meaning", *(state.value for state in states)]]
    for event in events:
        found = [table.get((state, event)) for state in states]
        rows.append([f"`{event.name}`", event.value, *(s.value if s else "" for s in found)])
    return rows
