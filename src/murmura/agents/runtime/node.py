"""Runs the agents of one process: feeds events to their protocol, carries out its actions.

One thread does everything in turn, so an agent's state needs no lock; transports and sources of
readings put what arrives into a queue. Actions are carried out in the order in which the protocol
returns them: state is saved before the message that relies on it is sent.

    reading --> ledger.charge (draws, commits) --> protocol <--> transport

An agent's readings go to its release mechanism and nowhere else.
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

from murmura import _validate
from murmura.agents.events import (
    AgentReport,
    Deadline,
    Done,
    Event,
    PeerUp,
    Persist,
    Received,
    Remember,
    Renew,
    Restarted,
    Send,
    SetTimer,
    Started,
)
from murmura.agents.ledger import Ledger
from murmura.agents.manifest import Manifest
from murmura.agents.messages import Message, PeerStatus
from murmura.agents.protocol import Agent, Options
from murmura.agents.readings import Readings
from murmura.agents.release import ReleaseMechanism
from murmura.agents.runtime.hosted import HostedAgent
from murmura.agents.runtime.observability import Log, Metrics, Observability, OnReport
from murmura.agents.runtime.reporter import OnStatus, StatusReporter
from murmura.agents.runtime.scheduler import ReadingScheduler
from murmura.agents.runtime.spool import MemorySpool, Spool
from murmura.agents.transport.base import Arrival, Refused, Transport
from murmura.errors import AgentError

BATCH = 512  # events in one turn of the loop
MOST_WAITING = 20_000  # events in the queue before the network is held back
SOURCE = ("skip", "next", "acknowledge", "notices", "close")  # what a source of readings can do
READ = "node/read"  # the node's own timer; those of the protocol have other names


class Node:
    """Runs the agents of one process until they are done or `stop` is called.

    Parameters
    ----------
    manifest : Manifest
        The terms of the network.
    transport : Transport
        Carries the messages.
    options : Options, optional
        How long agents wait.
    log : Log, optional
        Warnings on standard error by default.
    metrics : Metrics, optional
        None are maintained by default.
    on_report : callable, optional
        Called with the agent's label and every report.
    on_status : callable, optional
        Called with each new `AgentStatus`: estimate so far, interval, coverage; at most once a
        second for each agent.
    checkpoints : bool
        Save the mixing state when the node stops instead of in every round. After a crash an agent
        then starts a new incarnation, its neighbours roll back what they exchanged with the old
        one, and only time is lost. Releases are committed in any case.

    Attributes
    ----------
    agents : dict of str to HostedAgent
        The agents of this process by label.
    observability : Observability
        Log, metrics and counts.
    reporter : StatusReporter
        Passes on the status of the agents.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from murmura.agents import (
    ...     ReleaseMechanism, IterableReadings, Ledger, Manifest, MemoryTransport, Node
    ... )
    >>> from murmura.agents.transport.memory import MemoryNetwork
    >>> from murmura.privacy import Budget
    >>> from murmura.scenario import Scenario
    >>> problem = Scenario.parse('''
    ... network = {graph = "ring:4", weights = "lazy-metropolis"}
    ... family = {name = "normal", sigma = 1.0, bounds = [0.0, 1.0]}
    ... signals = {draw = {mu = 0.5}}
    ... privacy = {protect = "signal", epsilon = 1.0}
    ... algorithm = {name = "average", rounds = 20}
    ... ''').build().problem
    >>> manifest = Manifest.of(problem, "ring")
    >>> with TemporaryDirectory() as folder:
    ...     node = Node(manifest, MemoryTransport(MemoryNetwork()))
    ...     for label in manifest.certificates:
    ...         path = Path(folder) / f"{label}.ledger"
    ...         ledger = Ledger.open(path, manifest, label, Budget(1.0))
    ...         node.add(label, ledger, ReleaseMechanism(manifest, problem, label), IterableReadings([0.5]))
    ...     node.start()
    ...     finished = node.run(until=lambda: node.all_done, seconds=20)
    ...     node.close()
    >>> finished, {agent.done.round for agent in node.agents.values()}
    (True, {20})
    """

    def __init__(
        self,
        manifest: Manifest,
        transport: Transport,
        *,
        options: Options | None = None,
        log: Log | None = None,
        metrics: Metrics | None = None,
        on_report: OnReport | None = None,
        on_status: OnStatus | None = None,
        checkpoints: bool = False,
    ) -> None:
        """Nothing is opened yet."""
        for name, called in (("on_report", on_report), ("on_status", on_status)):
            if called is not None and not callable(called):
                raise AgentError(f"{name} must be a function; found {_validate.found(called)}")
        self.manifest, self.transport = manifest, transport
        self.options = options or Options()
        self.observability = Observability(log or Log(level="warning"), metrics, on_report)
        self.checkpoints = checkpoints
        self.agents: dict[str, HostedAgent] = {}
        self.reporter = StatusReporter(manifest, self.agents, self.observability)
        shows = (None if metrics is None else metrics.show, on_status)
        self.reporter.receivers += [each for each in shows if each is not None]
        self._inbox: queue.SimpleQueue[tuple[str, Arrival] | None] = queue.SimpleQueue()
        self._timers: list[tuple[float, int, str, str]] = []
        self._ticket = itertools.count()
        self._stopping = self._closed = False
        self._states: dict[str, Any] = {}
        self._thread = 0  # the one that does the work
        self._local_agents: frozenset[str] = frozenset()  # reached without the transport
        self._local_messages: deque[Message] = deque()
        self._ahead = 0  # events that came before the last look at the timers, not yet handled
        self._scheduler = ReadingScheduler(
            manifest,
            self.observability,
            self._perform,
            lambda agent, seconds: self._set_timer(agent, READ, seconds),
        )

    def add(
        self,
        label: str,
        ledger: Ledger,
        release_mechanism: ReleaseMechanism,
        readings: Readings,
        spool: Spool | None = None,
    ) -> None:
        """Add an agent; before `start`.

        Parameters
        ----------
        label : str
            Its label in the manifest.
        ledger : Ledger
            Its open ledger; `close` closes it.
        release_mechanism : ReleaseMechanism
            Draws its releases.
        readings : Readings
            The source of its readings; `close` closes it.
        spool : Spool, optional
            Where the readings of an open batch wait; in memory by default. `close` closes it.

        Raises
        ------
        AgentError
            If ledger or mechanism belong to another agent or network, or a part is none.
        """
        self._check_parts(label, ledger, release_mechanism, readings)
        protocol = Agent(self.manifest, label, self.options)
        self.agents[label] = HostedAgent(
            label, protocol, ledger, release_mechanism, readings, spool or MemorySpool()
        )
        neighbours = tuple(self.manifest.link_weights(label))
        if self.observability.metrics is not None:
            self.observability.metrics.know(label, neighbours)
        self.transport.attach(label, neighbours)

    def _check_parts(self, label: str, ledger: Any, mechanism: Any, readings: Any) -> None:
        wanted = (("ledger", ledger, Ledger), ("release_mechanism", mechanism, ReleaseMechanism))
        for name, part, kind in wanted:
            if not isinstance(part, kind):
                raise AgentError(f"{name} must be a {kind.__name__}; found {_validate.found(part)}")
        if not all(callable(getattr(readings, name, None)) for name in SOURCE):
            raise AgentError(
                f"readings must be a source such as IterableReadings([0.5]), with {', '.join(SOURCE)}; "
                f"found {_validate.found(readings)}"
            )
        if label in self.agents:
            raise AgentError(f"agent {label} was added before; add each agent once")
        owners = {"ledger": ledger.identity.agent, "release mechanism": mechanism.label}
        for name, owner in owners.items():
            if owner != label:
                raise AgentError(
                    f"the {name} is that of agent {owner}, and is added for "
                    f"{_validate.found(label)}; give each agent its own"
                )
        if mechanism.manifest != self.manifest:
            raise AgentError(
                f"the release mechanism of {label} is for another manifest than the node's; make "
                "both with the same one"
            )

    def start(self) -> None:
        """Open the transport, and start or resume every agent."""
        self._thread = threading.get_ident()
        local = self.agents if self.transport.only_remote else ()
        self._local_agents = frozenset(local)
        self.transport.open(self._deliver)
        for agent in self.agents.values():
            self._start(agent)
        self.transport.flush()
        self.reporter.turn()

    def run(self, until: Callable[[], bool] | None = None, seconds: float | None = None) -> bool:
        """Work until a condition holds, `stop` is called or the time is up.

        Parameters
        ----------
        until : callable, optional
            The condition, checked after every batch of events.
        seconds : float, optional
            How long at most.

        Returns
        -------
        bool
            False if the time was up.
        """
        self._thread = threading.get_ident()
        end = None if seconds is None else time.monotonic() + seconds
        while not self._stopping and not (until is not None and until()):
            if end is not None and time.monotonic() >= end:
                return False
            self._turn(end)
        return True

    def stop(self) -> None:
        """Make `run` return; from any thread or a signal handler."""
        self._stopping = True
        self._inbox.put(None)

    def close(self) -> None:
        """Save unsaved state and close everything; may be called twice."""
        if self._closed:
            return
        self._stopping = self._closed = True
        with ExitStack() as every:  # one that fails does not prevent the others
            every.callback(self.observability.close)
            for agent in self.agents.values():
                every.callback(agent.ledger.close)
                every.callback(self._save_state, agent)
                every.callback(agent.spool.close)
                every.callback(agent.readings.close)
            every.callback(self.reporter.finish)
            every.callback(self.transport.close)

    def handle(self, label: str, event: Event) -> None:
        """Feed an event to an agent, such as `Leave`; from the thread that calls `run`."""
        self._handle(self.agents[label], event)

    @property
    def all_done(self) -> bool:
        """Whether every agent has its estimate."""
        return all(agent.done is not None for agent in self.agents.values())

    @property
    def settled(self) -> bool:
        """Whether every agent is done and no neighbour still waits for it."""
        return all(
            agent.done is not None and agent.protocol.settled for agent in self.agents.values()
        )

    def _deliver(self, label: str, arrival: Arrival) -> None:
        """Put what arrived into the queue; a thread that fills it faster than it empties waits."""
        while (
            self._inbox.qsize() > MOST_WAITING
            and threading.get_ident() != self._thread
            and not self._stopping
        ):
            time.sleep(0.005)
        self._inbox.put((label, arrival))

    def _start(self, agent: HostedAgent) -> None:
        resumed = agent.ledger.resume()
        released = agent.ledger.released()
        self._scheduler.prepare(agent, released)
        rest = (
            released,
            agent.ledger.secret,
            agent.ledger.start,
            agent.ledger.run,
            self._load_peers(agent),
        )
        event: Event = (
            Restarted(resumed.incarnation, resumed.state, *rest)
            if resumed.state
            else Started(resumed.incarnation, *rest)
        )
        self.observability.budget(agent.label, agent.ledger)
        if agent.ledger.clock_report:
            self.observability.log.write("clock", agent.label, agent.ledger.clock_report)
        self.observability.started(
            agent.label, resumed.incarnation, len(released), resumed=bool(resumed.state)
        )
        if self.checkpoints:
            agent.ledger.save(b"")  # from here on a crash ends this incarnation
        self._handle(agent, event)

    def _load_peers(self, agent: HostedAgent) -> tuple[tuple[str, PeerStatus], ...]:
        """The status of neighbours from the ledger, by their labels in this epoch."""
        known = agent.ledger.peers()
        names = {
            peer: self.manifest.lasting_name(peer)
            for peer in self.manifest.link_weights(agent.label)
        }
        found = tuple((peer, known[name]) for peer, name in names.items() if name in known)
        agent.saved_peers = {peer for peer, _ in found}
        return found

    def _remember_peer(self, agent: HostedAgent, peer: str, status: PeerStatus) -> None:
        """The first status of a neighbour is saved at once, later ones with the state."""
        agent.unsaved_peers[peer] = status
        if peer not in agent.saved_peers and not self.checkpoints:
            self._save_peers(agent)

    def _save_peers(self, agent: HostedAgent) -> None:
        if agent.unsaved_peers:
            named = {self.manifest.lasting_name(p): s for p, s in agent.unsaved_peers.items()}
            agent.ledger.save_peers(named)
            agent.saved_peers.update(agent.unsaved_peers)
            agent.unsaved_peers.clear()

    def _save_state(self, agent: HostedAgent) -> None:
        self._save_peers(agent)
        if agent.label in self._states:
            agent.ledger.save(self._states.pop(agent.label).to_bytes())

    def _turn(self, end: float | None) -> None:
        """Handle messages between agents of this node, what arrived, and due timers.

        Timers wait for what came before the last look at them: otherwise agents that repeat what
        is already waiting to be read would fill the queue faster than it empties.
        """
        self._ahead -= self._deliver_locally() + self._take_arrivals(end)
        if self._ahead <= 0:
            self._fire_timers()
            self._ahead = len(self._local_messages) + self._inbox.qsize()
        self.transport.flush()
        self.reporter.turn()

    def _take_arrivals(self, end: float | None) -> int:
        """Handle what the transport delivered; how many there were."""
        taken = 0
        try:
            item = self._inbox.get(timeout=self._patience(end))
            while True:
                taken += 1
                if item is not None:
                    self._arrived(*item)
                if taken > BATCH:
                    return taken
                item = self._inbox.get_nowait()
        except queue.Empty:
            return taken

    def _fire_timers(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            _, ticket, label, name = heapq.heappop(self._timers)
            agent = self.agents[label]
            if agent.timers.get(name) == ticket:
                del agent.timers[name]
                if name == READ:
                    self._scheduler.feed(agent)
                else:
                    self._handle(agent, Deadline(name))

    def _deliver_locally(self) -> int:
        """Deliver messages between agents of this node, without the queue between threads."""
        messages, agents, delivered = self._local_messages, self.agents, 0
        while messages and delivered < BATCH:
            message = messages.popleft()
            delivered += 1
            if self.observability.metrics is not None:
                self.observability.count("received", message.receiver)
            self._handle(agents[message.receiver], Received(message))
        return delivered

    def _patience(self, end: float | None) -> float:
        """How long to wait for something to arrive."""
        if self._local_messages:
            return 0.0
        now = time.monotonic()
        next_timer = self._timers[0][0] - now if self._timers else 1.0
        left = 1.0 if end is None else end - now
        return max(0.0, min(1.0, next_timer, left))

    def _arrived(self, label: str, arrival: Arrival) -> None:
        agent = self.agents[label]
        if isinstance(arrival, Received):
            self.observability.count("received", label)
        elif isinstance(arrival, Refused):
            self.observability.refused(label, arrival.peer, arrival.reason)
            return
        else:
            up = isinstance(arrival, PeerUp)
            (agent.reachable.add if up else agent.reachable.discard)(arrival.peer)
            self.observability.peer(label, arrival.peer, up, len(agent.reachable))
        self._handle(agent, arrival)

    def _handle(self, agent: HostedAgent, event: Event) -> None:
        actions = agent.protocol.handle(event)
        if actions:
            self._perform(agent, actions)
        takes_readings = self._scheduler.online or not agent.last_reading
        if not agent.input_ended and takes_readings and READ not in agent.timers:
            self._scheduler.feed(agent)

    def _perform(self, agent: HostedAgent, actions: Iterable[Any]) -> None:
        local, sent = self._local_agents, 0
        for action in actions:
            kind = type(action)
            if kind is Send:
                message = action.message
                if message.receiver in local:
                    self._local_messages.append(message)
                else:
                    self.transport.send(message)
                sent += 1
            elif kind is Persist:
                self._persist(agent, action)
            elif kind is Renew:
                self._renew(agent, action)
            elif kind is Remember:
                self._remember_peer(agent, action.peer, action.status)
            elif kind is SetTimer:
                self._set_timer(agent, action.timer, action.seconds)
            elif kind is AgentReport:
                self.observability.report(agent.label, action)
            else:
                self._finish(agent, action)
        if sent:
            self.observability.count("sent", agent.label, times=sent)

    def _persist(self, agent: HostedAgent, action: Persist) -> None:
        if self.checkpoints:
            self._states[agent.label] = action.state
        else:
            self._save_peers(agent)
            agent.ledger.save(action.state.to_bytes())

    def _renew(self, agent: HostedAgent, action: Renew) -> None:
        """A new incarnation begins: its number and its state are saved at once."""
        self._save_peers(agent)
        if self.checkpoints:
            self._states[agent.label] = action.state
            agent.ledger.new_incarnation(b"")
        else:
            agent.ledger.new_incarnation(action.state.to_bytes())

    def _set_timer(self, agent: HostedAgent, name: str, seconds: float) -> None:
        ticket = next(self._ticket)
        agent.timers[name] = ticket
        heapq.heappush(self._timers, (time.monotonic() + seconds, ticket, agent.label, name))

    def _finish(self, agent: HostedAgent, done: Done) -> None:
        if agent.done is None:
            self.observability.done(agent.label, done)
            self._scheduler.finished(agent)
        agent.done, agent.input_ended = done, True
