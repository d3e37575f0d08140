"""What an agent is notified of and what it asks for: frozen, and free of input and output.

A driver passes events to `Agent.handle` and carries out the actions in their order. The order is a
guarantee: a `Persist` or `Renew` precedes every `Send` that relies on it, so nothing is ever sent that a
restart would not remember.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from murmura.agents.coverage import Coverage
from murmura.agents.messages import Message, PeerStatus


class Released(NamedTuple):
    """A reading's noised statistic, charged and committed by the ledger: the only input.

    Parameters
    ----------
    reading : int
        Which reading of this agent: 1, 2, ...
    sums : tuple of int
        The released statistic, in units of 2^-unit.
    weight : int
        The number of readings in it, in the same units; more than one for a batch.

    Examples
    --------
    >>> Released(reading=1, sums=(3 << 40,), weight=1 << 40).reading
    1
    """

    reading: int
    sums: tuple[int, ...]
    weight: int


class Started(NamedTuple):
    """The agent begins an incarnation: its only mass is what it has released.

    Parameters
    ----------
    incarnation : int
        1, 2, ...
    released : tuple of Released
        All releases of the ledger.
    secret : bytes
        With it neighbours can prove what the agent sent them; without one, a neighbour's claim that
        it sent more than it remembers is believed.
    start, run : int, bytes
        Which opening of the ledger this is.
    remembered : tuple of (str, PeerStatus)
        The status of neighbours when last heard.
    """

    incarnation: int
    released: tuple[Released, ...] = ()
    secret: bytes = b""
    start: int = 0
    run: bytes = b""
    remembered: tuple[tuple[str, PeerStatus], ...] = ()


class Restarted(NamedTuple):
    """The agent returns with the state it last persisted, and all it has released so far.

    Parameters
    ----------
    incarnation : int
        The one that continues.
    state : bytes
        What `Agent.to_bytes` wrote.
    released, secret, start, run, remembered
        As in `Started`.
    """

    incarnation: int
    state: bytes
    released: tuple[Released, ...] = ()
    secret: bytes = b""
    start: int = 0
    run: bytes = b""
    remembered: tuple[tuple[str, PeerStatus], ...] = ()


class Received(NamedTuple):
    """A message arrived; the transport guarantees that it comes from `message.sender`."""

    message: Message


class PeerUp(NamedTuple):
    """A neighbour can be reached."""

    peer: str


class PeerDown(NamedTuple):
    """A neighbour can no longer be reached."""

    peer: str


class Deadline(NamedTuple):
    """A timer set by `SetTimer` ran out."""

    timer: str


class Reading(NamedTuple):
    """A new reading was released; its raw value is never an input."""

    released: Released


class SkipReading(NamedTuple):
    """The slot of a round ended without a reading: the round proceeds without one.

    Parameters
    ----------
    round : int
        The round, and all before it.
    """

    round: int


class NoMoreReadings(NamedTuple):
    """There is no further reading, or no budget for one: proceed with what there is."""


class Leave(NamedTuple):
    """The agent is to leave for good, handing over its mass."""


Event = (
    Started | Restarted | Received | PeerUp | PeerDown | Deadline | Reading | SkipReading
    | NoMoreReadings | Leave
)  # fmt: skip


class Snapshot(Protocol):
    """A state that is converted to bytes when it is written, and not otherwise."""

    def to_bytes(self) -> bytes:
        """The state as it is now: of the present or a later event, never of an earlier one."""


class Persist(NamedTuple):
    """Write this state before anything that follows is carried out."""

    state: Snapshot


class Renew(NamedTuple):
    """Write that this incarnation begins, with this state: both at once, before what follows.

    Parameters
    ----------
    incarnation : int
        One more than the last.
    state : Snapshot
        As in `Persist`.
    """

    incarnation: int
    state: Snapshot


class Remember(NamedTuple):
    """Store a neighbour's status, for this and all later epochs; with the next `Persist`."""

    peer: str
    status: PeerStatus


class Send(NamedTuple):
    """Send a message to `message.receiver`; it may be lost."""

    message: Message


class SetTimer(NamedTuple):
    """Pass `Deadline(timer)` after so many seconds; a timer of the same name is replaced."""

    timer: str
    seconds: float


class AgentReport(NamedTuple):
    """Something worth a line in the log.

    Parameters
    ----------
    kind : str
        "round", "rejected", "mismatch", "peer", "resumed", "alone", "left", "gathering" (who is
        waited for before the rounds), "deadline" (who a round waits for), "view" (a link was
        dropped, or a member lost its state: the rounds begin anew), "quorum", "excluded", ...
    round : int
        The agent's round.
    peer : str
        The neighbour concerned, or empty.
    text : str
        One line.
    estimate : tuple of float
        The agent's estimate, where it has one.
    """

    kind: str
    round: int
    peer: str
    text: str
    estimate: tuple[float, ...] = ()


class Done(NamedTuple):
    """The agent has its estimate; it lingers for its neighbours until the driver ends it.

    Parameters
    ----------
    round : int
        The last round.
    estimate : tuple of float
        One for each component; empty if there is none.
    reason : str
        "rounds", "tolerance", "readings" (ran out), "left", "late", "quorum" (too few members for
        a result), "excluded" (the others went on without this one), or one of `SILENT_REASONS`.
    coverage : Coverage
        Whose readings are in the estimate.
    """

    round: int
    estimate: tuple[float, ...]
    reason: str
    coverage: Coverage = Coverage(())


SILENT_REASONS = ("left", "rolled-back", "conflicting-releases")  # no last message is sent

Action = Persist | Renew | Remember | Send | SetTimer | AgentReport | Done
