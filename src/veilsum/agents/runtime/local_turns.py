"""The agents of one process, in turn: one works at a time, and while it waits for the disk, another.

Every step of a session is on the disk before anything relies on it, so each agent waits. A thread does
the whole of an agent's turn; it has the right to work (`Turnstile`) except while its ledger commits. So
nothing that agents have in common is touched by two threads at once, and for each agent the order is
that of one thread: first the disk, then the message.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING

from veilsum.agents.runtime.hosted import HostedAgent

if TYPE_CHECKING:
    from veilsum.agents.masked.local import LocalRecords

THREADS = 8  # commits that the disk is given at once
AGENTS = 32  # turns before the network and the clock are looked at again

Work = Callable[[HostedAgent], None]


class Turnstile:
    """The right to work, which one thread has at a time.

    Examples
    --------
    >>> turnstile = Turnstile()
    >>> with turnstile.working(), turnstile.waiting():
    ...     turnstile.held
    False
    """

    def __init__(self) -> None:
        """Nobody works."""
        self._lock, self._inside = threading.Lock(), threading.local()

    @property
    def held(self) -> bool:
        """Whether this thread has it."""
        return getattr(self._inside, "held", False)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Wait for the right to work, and have it until the end."""
        with self._lock:
            self._inside.held = True
            try:
                yield
            finally:
                self._inside.held = False

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let another thread work, if this one has the right; it is back at the end."""
        if not self.held:
            yield
            return
        self._inside.held = False
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()
            self._inside.held = True


class LocalTurns:
    """Has the agents of a node work in turn, and read what the others of the node have.

    Parameters
    ----------
    agents : iterable of HostedAgent
        All agents of the node.
    common : LocalRecords
        Their log of records.
    """

    def __init__(self, agents: Iterable[HostedAgent], common: LocalRecords) -> None:
        """Their ledgers let another agent work while they wait for the disk."""
        self._agents, self._common = list(agents), common
        self._turnstile = Turnstile()
        for agent in self._agents:
            agent.ledger.wait_within(self._turnstile.waiting)
        self._threads = ThreadPoolExecutor(min(THREADS, len(self._agents)), "veilsum-agent")
        self._waiting: deque[HostedAgent] = deque()
        self._heard = 0  # changes of the log that all agents have heard of, or are about to

    @property
    def waiting(self) -> int:
        """How many agents have something to read."""
        if not self._waiting and self._heard != self._common.changes:
            return len(self._agents)
        return len(self._waiting)

    def read(self, work: Work) -> int:
        """Have the next agents read, each by `work`; how many did."""
        if not self._waiting and self._heard != self._common.changes:
            self._heard = self._common.close_batch()
            self._waiting.extend(self._agents)
        chosen = [self._waiting.popleft() for _ in range(min(AGENTS, len(self._waiting)))]
        self.all_do(work, chosen)
        return len(chosen)

    def all_do(self, work: Work, agents: Iterable[HostedAgent] | None = None) -> None:
        """Do something for agents, for all by default; the first error is raised after the last one."""

        def turn(agent: HostedAgent) -> None:
            with self._turnstile.working():
                work(agent)

        chosen = self._agents if agents is None else agents
        begun = [self._threads.submit(turn, agent) for agent in chosen]
        wait(begun)
        for done in begun:
            done.result()

    def close(self) -> None:
        """End the threads; no work is under way."""
        self._threads.shutdown()
