"""A network in memory: messages go from hand to hand, and faults come on demand.

Without faults a message is delivered within `send`, so threads may use it as they use any other
transport. With faults each message meets a fate that a seeded generator draws; delayed ones wait
in virtual time until `advance` is called. The same seed and the same calls give the same fates.
"""

from __future__ import annotations

import heapq
import itertools
import random
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from murmura import _validate
from murmura.agent.events import PeerDown, PeerUp, Received
from murmura.agent.messages import Message, Totals
from murmura.agent.transport.base import Deliver
from murmura.errors import AgentError

Pair = tuple[str, str]


@dataclass(frozen=True)
class Faults:
    """What may befall a message: chances, and a range of delay in virtual seconds."""

    drop: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0  # held back until another one has passed it
    delay: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        """Check the chances and the range."""
        _validate.probability(
            AgentError, drop=self.drop, duplicate=self.duplicate, reorder=self.reorder
        )
        if not 0 <= self.delay[0] <= self.delay[1]:
            raise AgentError(f"delay must be (least, most) with 0 <= least; found {self.delay}")


NONE = Faults()


class MemoryNetwork:
    """Where transports of one process meet."""

    def __init__(self, seed: int = 0, faults: Faults = NONE) -> None:
        """A network without a fault unless told."""
        self.faults = faults
        self.now = 0.0  # virtual seconds
        self._random = random.Random(seed)
        self._lock = threading.RLock()
        self._homes: dict[str, MemoryTransport] = {}
        self._cut: set[Pair] = set()
        self._last: dict[Pair, Message] = {}
        self._held: dict[Pair, Message] = {}
        self._coming: list[tuple[float, int, Message]] = []
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
        """Let everything through again, without faults; what was held back comes now."""
        with self._lock:
            self._cut.clear()
            self.faults = NONE
            held, self._held = list(self._held.values()), {}
        for message in held:
            self._hand_over(message)

    @property
    def coming(self) -> tuple[Message, ...]:
        """The messages that are on their way."""
        return (*(message for _, _, message in self._coming), *self._held.values())

    @property
    def next(self) -> float | None:
        """When the next delayed message is due, in virtual seconds."""
        return self._coming[0][0] if self._coming else None

    def advance(self, to: float) -> None:
        """Let virtual time pass and deliver what is due."""
        while self._coming and self._coming[0][0] <= to:
            with self._lock:
                self.now, _, message = heapq.heappop(self._coming)
            self._hand_over(message)
        self.now = to

    def send(self, message: Message) -> None:
        """Send a message on its way, whatever becomes of it."""
        pair = (message.sender, message.receiver)
        if isinstance(message, Totals):
            self._last[pair] = message
        if self.faults is NONE and not self._cut and not self._held:
            self._hand_over(message)
            return
        with self._lock:
            arriving = self._fate(pair, message)
        for one in arriving:
            self._hand_over(one)

    def _fate(self, pair: Pair, message: Message) -> list[Message]:
        """What arrives at once because of this message."""
        faults, chance = self.faults, self._random.random
        if pair in self._cut or chance() < faults.drop:
            return []
        if pair not in self._held and chance() < faults.reorder:
            self._held[pair] = message
            return []
        copies = [message] * (1 + (chance() < faults.duplicate))
        if pair in self._held:
            copies.append(self._held.pop(pair))
        if not faults.delay[1]:
            return copies
        for copy in copies:
            due = max(self.now + self._random.uniform(*faults.delay), self._due.get(pair, 0.0))
            self._due[pair] = due
            heapq.heappush(self._coming, (due, next(self._ticket), copy))
        return []

    def _hand_over(self, message: Message) -> None:
        home = self._homes.get(message.receiver)
        if home is not None:
            home.take(message)

    def join(self, transport: MemoryTransport) -> None:
        """Make a transport's agents reachable: neighbours are told, and tell their last."""
        with self._lock:
            self._homes.update(dict.fromkeys(transport.around, transport))
            pairs = [pair for pair in transport.pairs if pair[1] in self._homes]
        for agent, peer in pairs:
            transport.tell(agent, PeerUp(peer))
            if self._homes[peer] is not transport:
                self._homes[peer].tell(peer, PeerUp(agent))
            if (peer, agent) in self._last and (peer, agent) not in self._cut:
                transport.take(self._last[peer, agent])

    def part(self, transport: MemoryTransport) -> None:
        """Take a transport's agents away: neighbours are told."""
        with self._lock:
            for agent in transport.around:
                self._homes.pop(agent, None)
            pairs = [pair for pair in transport.pairs if pair[1] in self._homes]
            for pair in transport.pairs:
                self._last.pop(pair, None)
        for agent, peer in pairs:
            self._homes[peer].tell(peer, PeerDown(agent))


class MemoryTransport:
    """Carries the messages of the agents of one device over a `MemoryNetwork`."""

    def __init__(self, network: MemoryNetwork) -> None:
        """A transport that is not open yet."""
        self.network = network
        self.around: dict[str, frozenset[str]] = {}
        self._deliver: Deliver | None = None

    @property
    def pairs(self) -> list[Pair]:
        """(local agent, neighbour) for all of them."""
        return [(agent, peer) for agent, near in self.around.items() for peer in sorted(near)]

    def attach(self, agent: str, neighbours: Collection[str]) -> None:
        """Name a local agent and who it talks to; before `open`."""
        self.around[agent] = frozenset(neighbours)

    def open(self, deliver: Deliver) -> None:
        """Begin: who is there already is announced at once."""
        self._deliver = deliver
        self.network.join(self)

    def send(self, message: Message) -> None:
        """Send from a local agent to a neighbour; lost if either is not there."""
        if self._deliver is not None and message.receiver in self.around[message.sender]:
            self.network.send(message)

    only_remote = False  # every message may meet a fault

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """End: nothing is delivered afterwards; may be called twice."""
        if self._deliver is not None:
            self._deliver = None
            self.network.part(self)

    def take(self, message: Message) -> None:
        """Deliver a message to a local agent that expects its sender."""
        if message.sender in self.around.get(message.receiver, ()):
            self.tell(message.receiver, Received(message))

    def tell(self, agent: str, arrival: PeerUp | PeerDown | Received) -> None:
        """Deliver what arrived, unless closed."""
        deliver = self._deliver
        if deliver is not None:
            deliver(agent, arrival)
