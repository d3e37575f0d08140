"""What an agent is notified of and what it asks for: frozen, and free of input and output.

A driver passes events to `Agent.handle` and carries out the actions in their order. The order is a
guarantee: a `Persist` or `Renew` precedes every `Send` that relies on it, so nothing is ever sent that a
restart would not remember.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from veilsum.agents.coverage import Coverage
from veilsum.agents.masked.entries import StoredSum
from veilsum.agents.messages import Message, PeerStatus, Register


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
    first : bool
        Whether it is the first incarnation of its epoch: nothing that was mixed in it is lost.
    """

    incarnation: int
    released: tuple[Released, ...] = ()
    secret: bytes = b""
    start: int = 0
    run: bytes = b""
    remembered: tuple[tuple[str, PeerStatus], ...] = ()
    first: bool = False


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


class ReceivedBatch(NamedTuple):
    """Messages for one agent arrived together: as if each were `Received`, in order.

    The rounds proceed after the last of them, and the actions of all of them are one list.
    """

    messages: Sequence[Message]


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


class Contribution(NamedTuple):
    """An agent's part in a query of the masked sum: as secret as its readings, in memory only.

    Parameters
    ----------
    query : int
        Which query: 1, 2, ...
    statistic : tuple of int
        One for each component, in grid steps, without noise.
    readings : int
        How many readings are in it.

    Examples
    --------
    >>> Contribution(query=1, statistic=(4096,), readings=1)
    Contribution(query=1, readings=1)
    """

    query: int
    statistic: tuple[int, ...]
    readings: int

    def __repr__(self) -> str:
        """Without the statistic."""
        return f"Contribution(query={self.query}, readings={self.readings})"


class Contribute(NamedTuple):
    """The agent takes part in a query with this; its ledger has admitted the query."""

    contribution: Contribution


class LocalBatch(NamedTuple):
    """Agents of this process have new records of masked sums, or are further than before."""


class LocalRegisters(NamedTuple):
    """Agents of this process know more of who takes part than they did.

    Parameters
    ----------
    posted : mapping of str to PostRegister
        The last of each agent, by its label.
    unions : mapping of (int, int) to Register
        By view, what all of them know together.
    """

    posted: Mapping[str, PostRegister]
    unions: Mapping[tuple[int, int], Register]


class NoMoreReadings(NamedTuple):
    """There is no further reading, or no budget for one: proceed with what there is."""


class Leave(NamedTuple):
    """The agent is to leave for good, handing over its mass."""


Event = (
    Started | Restarted | Received | ReceivedBatch | PeerUp | PeerDown | Deadline | Reading | SkipReading
    | Contribute | LocalBatch | LocalRegisters | NoMoreReadings | Leave
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


class PostRegister(NamedTuple):
    """Let the agents of this process know who takes part: an `Attendance` for all of them at once.

    Parameters
    ----------
    incarnation, run, register
        As in `Attendance`.
    """

    incarnation: int
    run: bytes
    register: Register


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


class ConcludeQuery(NamedTuple):
    """Write that a query is over; its readings are settled then.

    Parameters
    ----------
    query : int
        Which query.
    reason : str
        "sum", "attempts" or "views" (used up), "missed" (the others concluded it, and nobody has its
        records any more), or "late" (likewise, and the agent went on with a later one).
    summed : StoredSum or None
        Its result, if there is one.
    """

    query: int
    reason: str
    summed: StoredSum | None


SILENT_REASONS = (
    "left",
    "rolled-back",
    "cloned",
    "conflicting-releases",
)  # no last message is sent

Action = (
    Persist | Renew | Remember | Send | PostRegister | SetTimer | AgentReport | ConcludeQuery | Done
)  # fmt: skip
