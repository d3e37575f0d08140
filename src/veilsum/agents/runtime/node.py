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
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from veilsum import _validate
from veilsum.agents.events import (
    AgentReport,
    ConcludeQuery,
    Deadline,
    Done,
    Event,
    LocalBatch,
    PeerUp,
    Persist,
    PostRegister,
    Received,
    ReceivedBatch,
    Remember,
    Renew,
    Restarted,
    Send,
    SetTimer,
    Started,
)
from veilsum.agents.ledger import Ledger
from veilsum.agents.ledger.clock import MACHINE, SystemClock
from veilsum.agents.manifest import Manifest
from veilsum.agents.messages import Message, PeerStatus, RecordExchange
from veilsum.agents.protocol import Agent, Options
from veilsum.agents.readings import Readings
from veilsum.agents.release import ContributionMechanism, ReleaseMechanism
from veilsum.agents.runtime.hosted import AgentProtocol, HostedAgent
from veilsum.agents.runtime.local_registers import RegisterBoard
from veilsum.agents.runtime.local_turns import LocalTurns
from veilsum.agents.runtime.masked import MaskedParts
from veilsum.agents.runtime.noise import NoiseRefills
from veilsum.agents.runtime.observability import (
    Log,
    Metrics,
    Observability,
    OnReport,
    exchange_bytes,
)
from veilsum.agents.runtime.reporter import OnStatus, StatusReporter
from veilsum.agents.runtime.scheduler import ReadingScheduler
from veilsum.agents.runtime.spool import MemorySpool, Spool
from veilsum.agents.transport.base import Arrival, Refused, Transport, TransportNotice, Undecoded
from veilsum.errors import AgentError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

BATCH = 512  # events in one turn of the loop
MOST_WAITING = 20_000  # events in the queue before the network is held back
SOURCE = ("skip", "next", "acknowledge", "notices", "close")  # what a source of readings can do
LONGEST_WAIT = 0.25  # seconds until messages of some neighbours are delivered without the others
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
    clock : SystemClock
        Where the time of timers, slots and statuses comes from: the machine's by default. With one
        that a test sets, use `step` in place of `run`, which waits for real time to pass.

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
    >>> from veilsum.agents import (
    ...     ReleaseMechanism, IterableReadings, Ledger, Manifest, MemoryTransport, Node
    ... )
    >>> from veilsum.agents.transport.memory import MemoryNetwork
    >>> from veilsum.privacy import Budget
    >>> from veilsum.scenario import Scenario
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
        clock: SystemClock = MACHINE,
    ) -> None:
        """Nothing is opened yet."""
        for name, called in (("on_report", on_report), ("on_status", on_status)):
            if called is not None and not callable(called):
                raise AgentError(f"{name} must be a function; found {_validate.found(called)}")
        self.manifest, self.transport = manifest, transport
        self.options = options or Options()
        self.observability = Observability(log or Log(level="warning"), metrics, on_report)
        self.checkpoints, self.clock = checkpoints, clock
        self.agents: dict[str, HostedAgent] = {}
        self.reporter = StatusReporter(
            manifest, self.agents, self.observability, clock=clock.monotonic, wall=clock.wall
        )
        shows = (None if metrics is None else metrics.show, on_status)
        self.reporter.receivers += [each for each in shows if each is not None]
        self._inbox: queue.SimpleQueue[tuple[str, Arrival] | None] = queue.SimpleQueue()
        self._timers: list[tuple[float, int, str, str]] = []
        self._ticket = itertools.count()
        self._stopping = self._closed = False
        self._states: dict[str, Any] = {}
        self._thread = 0  # the one that does the work
        self._local_agents: frozenset[str] = frozenset()  # reached without the transport
        self._local_messages: dict[str, list[Message]] = {}  # by receiver, the oldest first
        self._local_count = 0  # of those messages
        self._local_links: dict[str, int] = {}  # how many neighbours of each are in this node
        self._complete: list[str] = []  # receivers with as many messages as such neighbours
        self._all_served = 0.0  # when each receiver was last served, complete or not
        self._arrived_messages: dict[str, list[Message]] = {}  # of several payloads, by receiver
        self._masked = MaskedParts(manifest, self.options) if manifest.masked else None
        self._turns: LocalTurns | None = None
        self._board: RegisterBoard | None = None
        self._noise = NoiseRefills(self.agents, manifest.queries) if manifest.masked else None
        self._ahead = 0  # events that came before the last look at the timers, not yet handled
        self._scheduler = ReadingScheduler(
            manifest,
            self.observability,
            self._perform,
            lambda agent, seconds: self._set_timer(agent, READ, seconds),
            clock,
            self.options.poll,
            held=lambda: self._noise is not None and self._noise.holds,
        )

    def add(
        self,
        label: str,
        ledger: Ledger,
        release_mechanism: ReleaseMechanism | ContributionMechanism,
        readings: Readings,
        spool: Spool | None = None,
        *,
        signing_key: Ed25519PrivateKey | None = None,
    ) -> None:
        """Add an agent; before `start`.

        Parameters
        ----------
        label : str
            Its label in the manifest.
        ledger : Ledger
            Its open ledger; `close` closes it.
        release_mechanism : ReleaseMechanism or ContributionMechanism
            Draws its releases; the latter where the manifest has a masked sum.
        readings : Readings
            The source of its readings; `close` closes it.
        spool : Spool, optional
            Where the readings of an open batch wait; in memory by default. `close` closes it.
        signing_key : Ed25519PrivateKey, optional
            The private half of the key that the manifest pins, for a masked sum.

        Raises
        ------
        AgentError
            If ledger or mechanism belong to another agent or network, or a part is none.
        """
        self._check_parts(label, ledger, release_mechanism, readings)
        agent = HostedAgent(
            label,
            self._protocol(label, ledger, release_mechanism, signing_key),
            ledger,
            release_mechanism,
            readings,
            spool or MemorySpool(),
        )
        if self._masked is not None:
            agent.sessions = self._masked.sessions[label]
        self.agents[label] = agent
        neighbours = tuple(self.manifest.link_weights(label))
        self.observability.know(label, neighbours)
        self.transport.attach(label, neighbours)

    def _protocol(
        self, label: str, ledger: Ledger, mechanism: Any, signing_key: Ed25519PrivateKey | None
    ) -> AgentProtocol:
        """The state machine of an agent: with local noise, or of a masked sum."""
        if self._masked is None:
            return Agent(self.manifest, label, self.options)
        in_common = self.transport.only_remote
        return self._masked.agent(label, ledger, mechanism, signing_key, in_common)

    def _check_parts(self, label: str, ledger: Any, mechanism: Any, readings: Any) -> None:
        made = ContributionMechanism if self.manifest.masked else ReleaseMechanism
        wanted = (("ledger", ledger, Ledger), ("release_mechanism", mechanism, made))
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
        for label in local:
            near = self.manifest.link_weights(label)
            self._local_links[label] = len(self._local_agents & near.keys())
        if self._masked is not None and len(self._local_agents) > 1:
            self._turns = LocalTurns(self.agents.values(), self._masked.connect_locally())
        elif len(self._local_agents) > 1:
            self._post_registers()
        self.transport.open(self._deliver)
        if self._turns is not None:
            self._turns.all_do(self._start)
        else:
            for agent in self.agents.values():
                self._start(agent)
        self.transport.flush()
        self.reporter.turn()

    def _post_registers(self) -> None:
        """Have the agents of this process know together who takes part."""
        links = {label: tuple(self.manifest.link_weights(label)) for label in self.agents}
        self._board = RegisterBoard(links)
        for agent in self.agents.values():
            if isinstance(agent.protocol, Agent):
                agent.protocol.post_registers(self._local_agents)

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
        end = None if seconds is None else self.clock.monotonic() + seconds
        while not self._stopping and not (until is not None and until()):
            if end is not None and self.clock.monotonic() >= end:
                return False
            self._turn(end)
        return True

    def step(self) -> float | None:
        """Handle what is there to do now, without waiting.

        Returns
        -------
        float or None
            When there is more to do, by the node's clock, if nothing arrives before: now, or when
            the next timer is due; None if there is none.
        """
        self._thread = threading.get_ident()
        now = self.clock.monotonic()
        self._turn(now)
        if self._local_count or self._unread or not self._inbox.empty():
            return now
        if self._board is not None and self._board.waiting:
            return now
        return self._timers[0][0] if self._timers else None

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
            if self._turns is not None:
                every.callback(self._turns.close)

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
        released = agent.ledger.sent() if self.manifest.masked else agent.ledger.released()
        self._scheduler.prepare(agent)
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
            else Started(resumed.incarnation, *rest, first=agent.ledger.begins_epoch)
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
        """The first status of a neighbour is saved at once, later ones with the state.

        In a masked sum all are: there a state is saved only when a query is concluded.
        """
        agent.unsaved_peers[peer] = status
        now = self.manifest.masked or peer not in agent.saved_peers
        if now and not self.checkpoints:
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
            self._ahead = self._local_count + self._inbox.qsize() + self._unread
        self.transport.flush()
        self.reporter.turn()
        if self._noise is not None:
            self._noise.turn()

    def _take_arrivals(self, end: float | None) -> int:
        """Handle what the transport delivered; how many there were."""
        taken = 0
        try:
            item = self._inbox.get(timeout=self._patience(end))
            while True:
                taken += 1
                if item is not None:
                    self._arrived(*item)
                if taken > BATCH or sum(map(len, self._arrived_messages.values())) > BATCH:
                    break
                item = self._inbox.get_nowait()
        except queue.Empty:
            pass
        self._hand_over_arrived()
        return taken

    def _hand_over_arrived(self) -> None:
        """Give each agent the messages of all payloads that were taken together."""
        arrived, self._arrived_messages = self._arrived_messages, {}
        for label, messages in arrived.items():
            self._hand_over(self.agents[label], messages)

    def _fire_timers(self) -> None:
        now = self.clock.monotonic()
        while self._timers and self._timers[0][0] <= now:
            _, ticket, label, name = heapq.heappop(self._timers)
            agent = self.agents[label]
            if agent.timers.get(name) == ticket:
                del agent.timers[name]
                if name == READ:
                    self._scheduler.feed(agent)
                else:
                    self._handle(agent, Deadline(name))

    @property
    def _unread(self) -> int:
        """How many agents of a masked sum have yet to read what the others of this node have."""
        return 0 if self._turns is None else self._turns.waiting

    def _deliver_locally(self) -> int:
        """Deliver between agents of this node, without the queue between threads.

        First to an agent that a message of every neighbour here waits for, the last such one first:
        it completes its round at once, and what it works on is still in the processor's cache. Who
        waits for more has its turn when there is none, and after `LONGEST_WAIT` in any case.
        """
        waiting, complete, delivered = self._local_messages, self._complete, 0
        if self._turns is not None:
            delivered = self._turns.read(lambda agent: self._handle(agent, LocalBatch()))
        if waiting and (now := self.clock.monotonic()) - self._all_served > LONGEST_WAIT:
            self._all_served = now
            complete.extend(reversed(waiting))
        while waiting and delivered < BATCH:
            receiver = complete.pop() if complete else next(iter(waiting))
            messages = waiting.pop(receiver, None)
            if messages is None:  # it was served since
                continue
            delivered += len(messages)
            self._local_count -= len(messages)
            if self.observability.metrics is not None:
                self.observability.count("received", receiver, times=len(messages))
            self._hand_over(self.agents[receiver], messages)
        board = self._board
        if board is not None and (not waiting or board.overdue(self.clock.monotonic())):
            delivered += self._read_registers(board)
        return delivered

    def _hand_over(self, agent: HostedAgent, messages: Sequence[Message]) -> None:
        """Give an agent messages that came together."""
        if self._masked is None and len(messages) > 1:
            self._handle(agent, ReceivedBatch(messages))
        else:
            for message in messages:
                self._handle(agent, Received(message))

    def _read_registers(self, board: RegisterBoard) -> int:
        """Have agents read who takes part, after all messages between them."""
        if not board.waiting:
            return 0
        readers, event = board.take()
        for label in readers:
            self._handle(self.agents[label], event)
        return len(readers)

    def _patience(self, end: float | None) -> float:
        """How long to wait for something to arrive."""
        if self._local_messages or self._unread or (self._board and self._board.waiting):
            return 0.0
        now = self.clock.monotonic()
        next_timer = self._timers[0][0] - now if self._timers else 1.0
        left = 1.0 if end is None else end - now
        return max(0.0, min(1.0, next_timer, left))

    def _arrived(self, label: str, arrival: Arrival) -> None:
        if isinstance(arrival, Undecoded):
            for each in arrival.decode():
                self._arrived(*each)
            return
        if isinstance(arrival, ReceivedBatch):
            self.observability.count("received", label, times=len(arrival.messages))
            self._arrived_messages.setdefault(label, []).extend(arrival.messages)
            return
        self._hand_over_arrived()  # what came before is handled before
        agent = self.agents[label]
        if isinstance(arrival, Received):
            self.observability.count("received", label)
        elif isinstance(arrival, Refused):
            self.observability.refused(label, arrival.peer, arrival.reason)
            return
        elif isinstance(arrival, TransportNotice):
            self.observability.log.write(arrival.kind, label, arrival.text)
            return
        else:
            up = isinstance(arrival, PeerUp)
            (agent.reachable.add if up else agent.reachable.discard)(arrival.peer)
            self.observability.peer(label, arrival.peer, up, len(agent.reachable))
            if self._board is not None and arrival.peer in self._local_agents:
                return  # it is there from the start, and was greeted then
        self._handle(agent, arrival)

    def _handle(self, agent: HostedAgent, event: Event) -> None:
        actions = agent.protocol.handle(event)
        if actions:
            self._perform(agent, actions)
        takes_readings = self._scheduler.online or not agent.last_reading
        if not agent.input_ended and takes_readings and READ not in agent.timers:
            self._scheduler.feed(agent)

    def _perform(self, agent: HostedAgent, actions: Iterable[Any]) -> None:
        local, boxes, sent = self._local_agents, self._local_messages, 0
        for action in actions:
            kind = type(action)
            if kind is Send:
                message = action[0]
                receiver = message[1]
                if receiver in local:
                    box = boxes.get(receiver)
                    if box is None:
                        box = boxes[receiver] = []
                    box.append(message)
                    self._local_count += 1
                    if len(box) == self._local_links[receiver]:
                        self._complete.append(receiver)
                else:
                    self.transport.send(message)
                if type(message) is RecordExchange:
                    size = exchange_bytes(message)
                    agent.bytes_sent += size
                    self.observability.count("bytes", agent.label, times=size)
                sent += 1
            elif kind is Persist:
                self._persist(agent, action)
            elif kind is Renew:
                self._renew(agent, action)
            elif kind is Remember:
                self._remember_peer(agent, action.peer, action.status)
            elif kind is PostRegister:
                assert self._board is not None, "registers are shared"
                self._board.post(agent.label, action, self.clock.monotonic())
            elif kind is SetTimer:
                self._set_timer(agent, action.timer, action.seconds)
            elif kind is AgentReport:
                self.observability.report(agent.label, action)
            elif kind is ConcludeQuery:
                self._scheduler.concluded(agent, action)
                if self._noise is not None:
                    self._noise.concluded(agent)
            else:
                self._finish(agent, action)
        if sent:
            self.observability.count("sent", agent.label, times=sent)

    def _persist(self, agent: HostedAgent, action: Persist) -> None:
        if self.checkpoints and self.manifest.masked:
            return  # the ledger of sessions has what a restart needs; its neighbours have the rest
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
        heapq.heappush(self._timers, (self.clock.monotonic() + seconds, ticket, agent.label, name))

    def _finish(self, agent: HostedAgent, done: Done) -> None:
        if agent.done is None:
            self.observability.done(agent.label, done)
            self._scheduler.finished(agent)
        agent.done, agent.input_ended = done, True
