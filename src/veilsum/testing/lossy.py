"""A wrapper of any transport that loses, repeats, holds back and mutates messages on purpose.

A proxy that drops packets of a TLS connection only breaks it (or TCP sends them again); messages are lost
here, above the transport and below the agent, as a transport with a full queue loses them. Delays,
resets and partitions of real connections are `veilsum.testing.FaultyProxy`'s.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Collection

from veilsum.agents.messages import Message
from veilsum.agents.transport.base import Deliver, Transport
from veilsum.agents.transport.memory import NONE, Faults

Mutate = Callable[[Message], Message]


class LossyTransport:
    """Passes messages on to a transport, or does not.

    Parameters
    ----------
    inner : Transport
        Carries what is left.
    faults : Faults
        `drop`, `duplicate` and `reorder`; delays need a `FaultyProxy`.
    seed : int
        Decides what happens to each message.
    mutate : callable, optional
        Changes each message that is sent; what it returns must have the same sender and receiver.

    Attributes
    ----------
    counts : Counter
        Messages that were sent, dropped, duplicated and held back.

    Examples
    --------
    >>> from veilsum.agents.messages import Hello
    >>> from veilsum.testing import Faults, LossyTransport, MemoryNetwork
    >>> network, heard = MemoryNetwork(), []
    >>> ears = network.transport()
    >>> ears.attach("b", ["a"])
    >>> ears.open(lambda agent, arrival: heard.append(arrival))
    >>> lossy = LossyTransport(network.transport(), Faults(drop=0.3), seed=1)
    >>> lossy.attach("a", ["b"])
    >>> lossy.open(lambda agent, arrival: None)
    >>> for _ in range(1000):
    ...     lossy.send(Hello("a", "b", 1, 0, 1, bytes(32), ()))
    >>> lossy.counts["dropped"] + len(heard) - 1  # one of them says that a is up
    1000
    """

    def __init__(
        self, inner: Transport, faults: Faults = NONE, seed: int = 0, mutate: Mutate | None = None
    ) -> None:
        """Nothing was sent yet."""
        self.inner, self.faults, self.counts = inner, faults, Counter[str]()
        self._mutate, self._random = mutate, random.Random(seed)
        self._held_back: dict[tuple[str, str], Message] = {}
        self._lock = threading.Lock()

    @property
    def only_remote(self) -> bool:
        """Whether a node may deliver messages between its own agents by itself."""
        return self.inner.only_remote

    def attach(self, agent: str, neighbours: Collection[str]) -> None:
        """Register a local agent and its neighbours; before `open`."""
        self.inner.attach(agent, neighbours)

    def open(self, deliver: Deliver) -> None:
        """Start."""
        self.inner.open(deliver)

    def send(self, message: Message) -> None:
        """Send a message, subject to the faults."""
        with self._lock:
            passing = self._inject(message if self._mutate is None else self._mutate(message))
        for one in passing:
            self.inner.send(one)

    def _inject(self, message: Message) -> list[Message]:
        uniform, faults, counts = self._random.random, self.faults, self.counts
        pair = message.sender, message.receiver
        counts["sent"] += 1
        if uniform() < faults.drop:
            counts["dropped"] += 1
            return []
        if pair not in self._held_back and uniform() < faults.reorder:
            self._held_back[pair] = message
            counts["held back"] += 1
            return []
        passing = [message]
        if uniform() < faults.duplicate:
            passing.append(message)
            counts["duplicated"] += 1
        if pair in self._held_back:
            passing.append(self._held_back.pop(pair))
        return passing

    def flush(self) -> None:
        """Send what the transport has held back."""
        self.inner.flush()

    def close(self) -> None:
        """Close the transport; what was held back is lost."""
        self.inner.close()
