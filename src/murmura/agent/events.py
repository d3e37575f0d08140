"""What an agent's core is told and what it asks for: frozen, and free of input and output.

A driver feeds events to `Core.handle` and carries out the actions in their order. The order is a
promise: a `Persist` stands before every `Send` that relies on it, so nothing is ever sent that a
restart would not remember.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from murmura.agent.messages import Message, Standing


class Released(NamedTuple):
    """A reading's noised statistic, charged and committed by the ledger: the only way in.

    `sums` is in units of 2^-unit, `weight` is the number of readings in it (1), in the same units.
    """

    reading: int  # 1, 2, ...: which reading of this agent
    sums: tuple[int, ...]
    weight: int


class Started(NamedTuple):
    """The agent begins a life: it holds nothing but what it has released.

    With the agent's `secret` neighbours can prove what it said to them; without one, a neighbour's
    word that it said more than it remembers is believed. `start` and `run` tell this opening of
    the ledger from all others, and `remembered` is where neighbours stood when last heard.
    """

    life: int
    released: tuple[Released, ...] = ()
    secret: bytes = b""
    start: int = 0
    run: bytes = b""
    remembered: tuple[tuple[str, Standing], ...] = ()


class Restarted(NamedTuple):
    """The agent comes back with the state it last persisted, and all it has released so far."""

    life: int
    state: bytes
    released: tuple[Released, ...] = ()
    secret: bytes = b""
    start: int = 0
    run: bytes = b""
    remembered: tuple[tuple[str, Standing], ...] = ()


class Received(NamedTuple):
    """A message arrived; the transport vouches that it comes from `message.sender`."""

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
    """A new reading was released; its raw value never comes here."""

    released: Released


class NoMoreReadings(NamedTuple):
    """There is no further reading, or no budget for one: go on with what there is."""


class Leave(NamedTuple):
    """The agent is to leave for good, handing over what it holds."""


Event = (
    Started | Restarted | Received | PeerUp | PeerDown | Deadline | Reading | NoMoreReadings | Leave
)


class Snapshot(Protocol):
    """A state that is made into bytes when it is written down, and not otherwise."""

    def to_bytes(self) -> bytes:
        """The state as it is now: of the present or a later event, never of an earlier one."""


class Persist(NamedTuple):
    """Write this state down before anything that follows is carried out."""

    state: Snapshot


class Remember(NamedTuple):
    """Keep where a neighbour stands, for this and all later epochs; with the next `Persist`."""

    peer: str
    standing: Standing


class Send(NamedTuple):
    """Send a message to `message.receiver`; it may be lost."""

    message: Message


class SetTimer(NamedTuple):
    """Feed `Deadline(timer)` after so many seconds; a timer of the same name is replaced."""

    timer: str
    seconds: float


class Report(NamedTuple):
    """Something worth a line in the log: `kind` is a short word, `peer` may be empty."""

    kind: str  # "round", "rejected", "mismatch", "peer", "resumed", "alone", "left", ...
    round: int
    peer: str
    text: str
    estimate: tuple[float, ...] = ()


class Done(NamedTuple):
    """The agent has its estimate; it lingers for its neighbours until the driver ends it."""

    round: int
    estimate: tuple[float, ...]
    reason: str  # "rounds", "tolerance", "readings" (ran out), "left", "late", or one of UNSAID


UNSAID = ("left", "rolled-back", "conflicting-releases")  # ends after which nothing is said

Action = Persist | Remember | Send | SetTimer | Report | Done
