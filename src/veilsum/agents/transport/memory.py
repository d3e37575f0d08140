"""A network in memory, with fault injection.

Without faults a message is delivered within `send`, so threads may use it like any other transport.
With faults a seeded generator decides what happens to each message; delayed ones wait in virtual
time until `advance` is called. The same seed and the same calls give the same outcome.
"""

from __future__ import annotations

import heapq
import itertools
import random
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from veilsum import _validate
from veilsum.agents.events import PeerDown, PeerUp, Received
from veilsum.agents.messages import CumulativeMass, Message
from veilsum.agents.transport.base import Deliver
from veilsum.errors import AgentError

Pair = tuple[str, str]


@dataclass(frozen=True)
class Faults:
    """Faults to inject: probabilities, and a range of delay.

    Parameters
    ----------
    drop : float
        Probability that a message is lost.
    duplicate : float
        Probability that it is delivered twice.
    reorder : float
        Probability that it is held back until the next one on its link has passed it.
    delay : tuple of float
        Least and largest delay, in virtual seconds.

    Raises
    ------
    AgentError
        If a probability or the range is invalid.

    Examples
    --------
    >>> Faults(drop=0.1, delay=(0.0, 0.5))
    Faults(drop=0.1, duplicate=0.0, reorder=0.0, delay=(0.0, 0.5))
    """

    drop: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    delay: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        """Check the probabilities and the range."""
        _validate.probability(
            AgentError, drop=self.drop, duplicate=self.duplicate, reorder=self.reorder
        )
        if not 0 <= self.delay[0] <= self.delay[1]:
            raise AgentError(f"delay must be (least, most) with 0 <= least; found {self.delay}")


NONE = Faults()


class MemoryNetwork:
    """Connects the memory transports of one process.

    Parameters
    ----------
    seed : int
        Seed of the generator that injects faults.
    faults : Faults
        None by default.

    Examples
    --------
    >>> network = MemoryNetwork(seed=1, faults=Faults(drop=0.5))
    >>> network.transport().only_remote
    False
    """

    def __init__(self, seed: int = 0, faults: Faults = NONE) -> None:
        """No transport is connected yet."""
        self.faults = faults
        self.now = 0.0  # virtual seconds
        self._random = random.Random(seed)
        self._lock = threading.RLock()
        self._transports: dict[str, MemoryTransport] = {}
        self._cut: set[Pair] = set()
        self._last: dict[Pair, Message] = {}
        self._held_back: dict[Pair, Message] = {}
        self._delayed: list[tuple[float, int, Message]] = []
        self._due: dict[Pair, float] = {}  # a delay alone does not reorder
        self._ticket = itertools.count()

    def transport(self) -> MemoryTransport:
        """A transport for one device."""
        return MemoryTransport(self)

    def cut(self, pairs: Iterable[Pair]) -> None:
        """Lose all messages from the first to the second of each pair, silently."""
        self._cut.update(pairs)

    def partition(self, *groups: Collection[str]) -> None:
        """Lose all messages between agents of different groups, silently."""
        for one, two in itertools.permutations(groups, 2):
            self.cut(itertools.product(one, two))

    def heal(self) -> None:
        """Remove all faults and partitions; what was held back is delivered now."""
        with self._lock:
            self._cut.clear()
            self.faults = NONE
            pending, self._held_back = list(self._held_back.values()), {}
        for message in pending:
            self._deliver(message)

    @property
    def in_flight(self) -> tuple[Message, ...]:
        """The messages that were sent and not yet delivered."""
        return (*(message for _, _, message in self._delayed), *self._held_back.values())

    @property
    def next(self) -> float | None:
        """When the next delayed message is due, in virtual seconds."""
        return self._delayed[0][0] if self._delayed else None

    def advance(self, to: float) -> None:
        """Advance virtual time and deliver what is due."""
        while self._delayed and self._delayed[0][0] <= to:
            with self._lock:
                self.now, _, message = heapq.heappop(self._delayed)
            self._deliver(message)
        self.now = to

    def send(self, message: Message) -> None:
        """Send a message, subject to the faults."""
        pair = (message.sender, message.receiver)
        if isinstance(message, CumulativeMass):
            self._last[pair] = message
        if self.faults is NONE and not self._cut and not self._held_back:
            self._deliver(message)
            return
        with self._lock:
            arriving = self._inject(pair, message)
        for one in arriving:
            self._deliver(one)

    def _inject(self, pair: Pair, message: Message) -> list[Message]:
        """Apply the faults; what arrives at once because of this message."""
        faults, uniform = self.faults, self._random.random
        if pair in self._cut or uniform() < faults.drop:
            return []
        if pair not in self._held_back and uniform() < faults.reorder:
            self._held_back[pair] = message
            return []
        copies = [message] * (1 + (uniform() < faults.duplicate))
        if pair in self._held_back:
            copies.append(self._held_back.pop(pair))
        if not faults.delay[1]:
            return copies
        for copy in copies:
            due = max(self.now + self._random.uniform(*faults.delay), self._due.get(pair, 0.0))
            self._due[pair] = due
            heapq.heappush(self._delayed, (due, next(self._ticket), copy))
        return []

    def _deliver(self, message: Message) -> None:
        transport = self._transports.get(message.receiver)
        if transport is not None:
            transport.receive(message)

    def join(self, transport: MemoryTransport) -> None:
        """Connect a transport; neighbours are notified, and their last message is delivered again."""
        with self._lock:
            self._transports.update(dict.fromkeys(transport.neighbours, transport))
            pairs = [pair for pair in transport.pairs if pair[1] in self._transports]
        for agent, peer in pairs:
            transport.notify(agent, PeerUp(peer))
            if self._transports[peer] is not transport:
                self._transports[peer].notify(peer, PeerUp(agent))
            if (peer, agent) in self._last and (peer, agent) not in self._cut:
                transport.receive(self._last[peer, agent])

    def leave(self, transport: MemoryTransport) -> None:
        """Disconnect a transport; neighbours are notified."""
        with self._lock:
            for agent in transport.neighbours:
                self._transports.pop(agent, None)
            pairs = [pair for pair in transport.pairs if pair[1] in self._transports]
            for pair in transport.pairs:
                self._last.pop(pair, None)
        for agent, peer in pairs:
            self._transports[peer].notify(peer, PeerDown(agent))


class MemoryTransport:
    """Carries the messages of one device's agents over a `MemoryNetwork`.

    Parameters
    ----------
    network : MemoryNetwork
        Connects it to the other transports.

    Examples
    --------
    >>> transport = MemoryTransport(MemoryNetwork())
    >>> transport.attach("north", ["south"])
    >>> transport.pairs
    [('north', 'south')]
    """

    only_remote = False  # every message is subject to faults

    def __init__(self, network: MemoryNetwork) -> None:
        """Not open yet."""
        self.network = network
        self.neighbours: dict[str, frozenset[str]] = {}
        self._deliver: Deliver | None = None

    @property
    def pairs(self) -> list[Pair]:
        """(local agent, neighbour) for all of them."""
        return [(agent, peer) for agent, near in self.neighbours.items() for peer in sorted(near)]

    def attach(self, agent: str, neighbours: Collection[str]) -> None:
        """Register a local agent and its neighbours; before `open`."""
        self.neighbours[agent] = frozenset(neighbours)

    def open(self, deliver: Deliver) -> None:
        """Start; neighbours that are connected are announced at once."""
        self._deliver = deliver
        self.network.join(self)

    def send(self, message: Message) -> None:
        """Send from a local agent to a neighbour; lost if either is not connected."""
        if self._deliver is not None and message.receiver in self.neighbours[message.sender]:
            self.network.send(message)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Disconnect; nothing is delivered afterwards; may be called twice."""
        if self._deliver is not None:
            self._deliver = None
            self.network.leave(self)

    def receive(self, message: Message) -> None:
        """Deliver a message to a local agent if its sender is a neighbour."""
        if message.sender in self.neighbours.get(message.receiver, ()):
            self.notify(message.receiver, Received(message))

    def notify(self, agent: str, arrival: PeerUp | PeerDown | Received) -> None:
        """Deliver what arrived, unless closed."""
        deliver = self._deliver
        if deliver is not None:
            deliver(agent, arrival)
