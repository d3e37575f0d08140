"""Drives the agents of one process: feeds events to their cores, carries out what they ask for.

One thread does everything in turn, so an agent's state needs no lock; transports and sources of
readings leave what arrives in a queue. Actions are carried out in the order the core gives them:
state is written down before the message that relies on it is sent.

    reading --> ledger.charge (draws, commits) --> core <--> transport

An agent's readings go to its drawer and nowhere else.
"""

from __future__ import annotations

import heapq
import itertools
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

from murmura.agent.core import Core, Options
from murmura.agent.events import (
    Deadline,
    Done,
    Event,
    PeerUp,
    Persist,
    Received,
    Remember,
    Report,
    Restarted,
    Send,
    SetTimer,
    Started,
)
from murmura.agent.ledger import Ledger
from murmura.agent.manifest import Manifest
from murmura.agent.messages import Standing
from murmura.agent.node.intake import Intake
from murmura.agent.node.log import Log, Metrics
from murmura.agent.node.readings import Readings
from murmura.agent.node.site import Site
from murmura.agent.node.voice import Told, Voice
from murmura.agent.release import Drawer
from murmura.agent.transport.base import Arrival, Refused, Transport

BATCH = 512  # events between two looks at the timers
MOST_WAITING = 20_000  # events in the queue before the network is held back
READ = "node/read"  # the node's own timer; the core's have other names


class Node:
    """Runs the agents of one process until they are done and told to stop."""

    def __init__(
        self,
        manifest: Manifest,
        transport: Transport,
        *,
        options: Options | None = None,
        log: Log | None = None,
        metrics: Metrics | None = None,
        told: Told | None = None,
        checkpoints: bool = False,
    ) -> None:
        """`told` hears every report.

        With `checkpoints` the state of mixing is written down when the node stops, not in every
        round: after a crash an agent begins a new life, its neighbours undo what they exchanged
        with the old one, and nothing is lost but time. Releases are committed as ever.
        """
        self.manifest, self.transport = manifest, transport
        self.options = options or Options()
        self.voice = Voice(log or Log(level="warning"), metrics, told)
        self.checkpoints = checkpoints
        self.sites: dict[str, Site] = {}
        self._inbox: queue.SimpleQueue[tuple[str, Arrival] | None] = queue.SimpleQueue()
        self._timers: list[tuple[float, int, str, str]] = []
        self._ticket = itertools.count()
        self._stopping = False
        self._states: dict[str, Any] = {}
        self._thread = 0  # the one that does the work
        self._near: frozenset[str] = frozenset()  # agents that need no transport
        self._local: deque[Any] = deque()  # messages for them
        self._intake = Intake(manifest, self.voice, self._perform, self._read_again)

    def add(self, label: str, ledger: Ledger, drawer: Drawer, readings: Readings) -> None:
        """Take in one agent; before `start`."""
        core = Core(self.manifest, label, self.options)
        self.sites[label] = Site(label, core, ledger, drawer, readings)
        self.transport.attach(label, tuple(self.manifest.shares(label)))

    def start(self) -> None:
        """Open the transport, and let every agent begin or come back."""
        self._thread = threading.get_ident()
        self._near = frozenset(self.sites) if self.transport.only_remote else frozenset()
        self.transport.open(self._deliver)
        for site in self.sites.values():
            self._begin(site)
        self.transport.flush()

    def _deliver(self, agent: str, arrival: Arrival) -> None:
        """Leave what arrived in the queue; who fills it faster than it is emptied has to wait."""
        while (
            self._inbox.qsize() > MOST_WAITING
            and threading.get_ident() != self._thread
            and not self._stopping
        ):
            time.sleep(0.005)
        self._inbox.put((agent, arrival))

    def run(self, until: Callable[[], bool] | None = None, seconds: float | None = None) -> bool:
        """Work until `until` holds, `stop` is called or the time is up; False if it was up."""
        self._thread = threading.get_ident()
        end = None if seconds is None else time.monotonic() + seconds
        while not self._stopping and not (until is not None and until()):
            if end is not None and time.monotonic() >= end:
                return False
            self._turn(end)
        return True

    def stop(self) -> None:
        """Ask `run` to end; from any thread or a signal handler."""
        self._stopping = True
        self._inbox.put(None)

    def close(self) -> None:
        """Write down what was not, and let go of everything; may be called twice."""
        self._stopping = True
        with ExitStack() as every:  # one that fails does not keep the others from it
            if self.voice.metrics is not None:
                every.callback(self.voice.metrics.close)
            for site in self.sites.values():
                every.callback(site.ledger.close)
                every.callback(self._save, site)
                every.callback(site.readings.close)
            every.callback(self.transport.close)

    def _save(self, site: Site) -> None:
        self._write_seen(site)
        if site.label in self._states:
            site.ledger.save(self._states.pop(site.label).to_bytes())

    def tell(self, label: str, event: Event) -> None:
        """Feed an event to an agent, as a driver of one's own may."""
        self._handle(self.sites[label], event)

    @property
    def all_done(self) -> bool:
        """Whether every agent has its estimate."""
        return all(site.done is not None for site in self.sites.values())

    @property
    def settled(self) -> bool:
        """Whether every agent is done and no neighbour still waits for it."""
        return all(site.done is not None and site.core.settled for site in self.sites.values())

    def _begin(self, site: Site) -> None:
        resumed = site.ledger.resume()
        released = site.ledger.released()
        site.life = resumed.life
        site.fed = max((r.reading for r in released), default=0)
        self._intake.pass_over(site)
        told = (released, site.ledger.secret, site.ledger.start, site.ledger.run, self._met(site))
        event: Event = (
            Restarted(site.life, resumed.state, *told)
            if resumed.state
            else Started(site.life, *told)
        )
        self.voice.began(site.label, site.life, len(released), resumed=bool(resumed.state))
        if self.checkpoints:
            site.ledger.save(b"")  # from here on a crash ends this life
        self.voice.budget(site.label, site.ledger)
        self._handle(site, event)

    def _met(self, site: Site) -> tuple[tuple[str, Standing], ...]:
        """Where the ledger says that neighbours stood, by their labels in this epoch."""
        known = site.ledger.remembered()
        names = {
            peer: self.manifest.lasting_name(peer) for peer in self.manifest.shares(site.label)
        }
        found = tuple((peer, known[name]) for peer, name in names.items() if name in known)
        site.met = {peer for peer, _ in found}
        return found

    def _remember(self, site: Site, peer: str, standing: Standing) -> None:
        """A neighbour's first word is written down at once, later ones with the state."""
        site.seen[peer] = standing
        if peer not in site.met and not self.checkpoints:
            self._write_seen(site)

    def _write_seen(self, site: Site) -> None:
        if site.seen:
            names = {self.manifest.lasting_name(peer): s for peer, s in site.seen.items()}
            site.ledger.remember(names)
            site.met.update(site.seen)
            site.seen.clear()

    def _turn(self, end: float | None) -> None:
        """Handle what agents of this node said to one another, what arrived, and due timers."""
        self._hand_round()
        try:
            item = self._inbox.get(timeout=self._patience(end))
            for _ in range(BATCH):
                if item is not None:
                    self._arrived(*item)
                item = self._inbox.get_nowait()
            if item is not None:
                self._arrived(*item)
        except queue.Empty:
            pass
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            _, ticket, label, name = heapq.heappop(self._timers)
            site = self.sites[label]
            if site.timers.get(name) == ticket:
                del site.timers[name]
                self._due(site, name)
        self.transport.flush()

    def _hand_round(self) -> None:
        """Hand messages between agents of this node over, without any queue of threads."""
        local, sites, handed = self._local, self.sites, 0
        while local and handed < BATCH:
            message = local.popleft()
            handed += 1
            if self.voice.metrics is not None:
                self.voice.count("received", message.receiver)
            self._handle(sites[message.receiver], Received(message))

    def _patience(self, end: float | None) -> float:
        """How long to wait for something to arrive."""
        if self._local:
            return 0.0
        now = time.monotonic()
        next_timer = self._timers[0][0] - now if self._timers else 1.0
        left = 1.0 if end is None else end - now
        return max(0.0, min(1.0, next_timer, left))

    def _due(self, site: Site, name: str) -> None:
        if name == READ:
            self._intake.feed(site)
        else:
            self._handle(site, Deadline(name))

    def _arrived(self, label: str, arrival: Arrival) -> None:
        site = self.sites[label]
        if isinstance(arrival, Received):
            self.voice.count("received", label)
        elif isinstance(arrival, Refused):
            self.voice.refused(label, arrival.peer, arrival.reason)
            return
        else:
            up = isinstance(arrival, PeerUp)
            (site.up.add if up else site.up.discard)(arrival.peer)
            self.voice.peer(label, arrival.peer, up, len(site.up))
        self._handle(site, arrival)

    def _handle(self, site: Site, event: Event) -> None:
        actions = site.core.handle(event)
        if actions:
            self._perform(site, actions)
        if not site.ended and (self._intake.online or not site.fed) and READ not in site.timers:
            self._intake.feed(site)

    def _perform(self, site: Site, actions: Iterable[Any]) -> None:
        near, sent = self._near, 0
        for action in actions:
            kind = type(action)
            if kind is Send:
                message = action.message
                if message.receiver in near:
                    self._local.append(message)
                else:
                    self.transport.send(message)
                sent += 1
            elif kind is Persist:
                self._persist(site, action)
            elif kind is Remember:
                self._remember(site, action.peer, action.standing)
            elif kind is SetTimer:
                self._set(site, action.timer, action.seconds)
            elif kind is Report:
                self.voice.report(site.label, action)
            else:
                self._finish(site, action)
        if sent:
            self.voice.count("sent", site.label, times=sent)

    def _persist(self, site: Site, action: Persist) -> None:
        if self.checkpoints:
            self._states[site.label] = action.state
        else:
            self._write_seen(site)
            site.ledger.save(action.state.to_bytes())

    def _set(self, site: Site, name: str, seconds: float) -> None:
        ticket = next(self._ticket)
        site.timers[name] = ticket
        heapq.heappush(self._timers, (time.monotonic() + seconds, ticket, site.label, name))

    def _read_again(self, site: Site, seconds: float) -> None:
        self._set(site, READ, seconds)

    def _finish(self, site: Site, done: Done) -> None:
        if site.done is None:
            self.voice.done(site.label, done)
        site.done, site.ended = done, True
