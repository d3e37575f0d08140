"""What carries messages between agents, and how far it is trusted.

A transport may lose, repeat, delay and reorder messages; it must not forge them: what it delivers
to an agent as coming from a neighbour was sent by the holder of that neighbour's certificate.
Everything it cannot authenticate it reports as `Refused`, naming the peer, and does not deliver.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

from veilsum.agents.events import PeerDown, PeerUp, Received, ReceivedBatch
from veilsum.agents.messages import Message


class Refused(NamedTuple):
    """A message that was not delivered.

    Attributes
    ----------
    peer : str
        The sender, as far as it is known.
    reason : str
        Why it was not delivered.
    """

    peer: str
    reason: str


class TransportNotice(NamedTuple):
    """What is to be in the log: of certificates, proofs, and the deny list.

    Attributes
    ----------
    kind : str
        Of the log line.
    text : str
        What it says.
    """

    kind: str
    text: str


class Undecoded(NamedTuple):
    """Messages as they came, for several agents: whoever handles them decodes them in its own thread.

    Attributes
    ----------
    decode : callable
        Gives the label of a local agent and what arrived for it, for each; to be called once.
    """

    decode: Callable[[], Sequence[tuple[str, Received | ReceivedBatch | Refused]]]


Arrival = Received | ReceivedBatch | PeerUp | PeerDown | Refused | TransportNotice | Undecoded
Deliver = Callable[[str, Arrival], None]  # (label of the local agent, what arrived); any thread


class Transport(Protocol):
    """Carries the messages of one or several local agents.

    Examples
    --------
    Every transport is used alike; here the one in memory:

    >>> from veilsum.agents.messages import Hello
    >>> from veilsum.agents.transport.memory import MemoryNetwork
    >>> arrived = []
    >>> network = MemoryNetwork()
    >>> for agent, peer in (("a", "b"), ("b", "a")):
    ...     transport = network.transport()
    ...     transport.attach(agent, [peer])
    ...     transport.open(lambda agent, arrival: arrived.append((agent, type(arrival).__name__)))
    >>> transport.send(Hello("b", "a", 1, 0, 1, bytes(32), ()))
    >>> transport.flush()
    >>> arrived
    [('b', 'PeerUp'), ('a', 'PeerUp'), ('a', 'Received')]
    """

    @property
    def only_remote(self) -> bool:
        """Whether a node may deliver messages between its own agents by itself."""

    def attach(self, agent: str, neighbours: Collection[str]) -> None:
        """Register a local agent and its neighbours; before `open`."""

    def open(self, deliver: Deliver) -> None:
        """Start; `deliver` may be called from any thread and returns at once."""

    def send(self, message: Message) -> None:
        """Send from a local agent to a neighbour; it may be lost, and never waits for the peer.

        A transport may hold it back until `flush`, to send several together.
        """

    def flush(self) -> None:
        """Send what was held back."""

    def close(self) -> None:
        """Close all links; nothing is delivered afterwards; may be called twice."""
