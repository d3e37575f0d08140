"""What carries messages between agents, and what it must not be trusted with.

A transport may lose, repeat, delay and reorder; it must not invent: what it delivers to an agent
as coming from a neighbour was sent by the holder of that neighbour's certificate. Everything it
cannot vouch for it reports as `Refused`, naming the peer, and does not deliver.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple, Protocol

from murmura.agent.events import PeerDown, PeerUp, Received
from murmura.agent.messages import Message


class Refused(NamedTuple):
    """A message that was not delivered: from whom, as far as is known, and why."""

    peer: str
    reason: str


Arrival = Received | PeerUp | PeerDown | Refused
Deliver = Callable[[str, Arrival], None]  # (the local agent it is for, what arrived); any thread


class Transport(Protocol):
    """Carries the messages of one or several local agents."""

    @property
    def only_remote(self) -> bool:
        """Whether a node may hand messages between its own agents over by itself."""

    def attach(self, agent: str, neighbours: Collection[str]) -> None:
        """Name a local agent and who it talks to; before `open`."""

    def open(self, deliver: Deliver) -> None:
        """Begin: `deliver` is called from any thread, and returns at once."""

    def send(self, message: Message) -> None:
        """Send from a local agent to a neighbour; it may be lost, and never waits for the peer.

        A transport may hold it back until `flush`, to send several together.
        """

    def flush(self) -> None:
        """Send what was held back."""

    def close(self) -> None:
        """End: links are closed, nothing is delivered afterwards; may be called twice."""
