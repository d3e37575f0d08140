"""One agent's behaviour, without input and output: events in, actions out.

An agent's mass is S = X + sum_j rho_j - sum_j sigma_j: what it released, what it received from its
neighbours less what it sent them, as integers, so that the totals over all agents are those of the
releases to the bit. `Agent.handle` takes one event and returns the actions that follow; if any
message among them tells of something new, the first action is to persist it.

The agent is composed of parts, each of which gets what it needs by its constructor:

    Agent -- SynchronousSchedule or AsynchronousSchedule   when mass is sent and received
          -- Handshake                                     which session and run a message is of
          -- Gathering                                     who takes part: views, presence, agreement
          -- Flooding                                      what everyone knows of who takes part
          -- Completion                                    finishing, lingering, leaving
          -- Messenger                                     the actions of the present event
          -- TerminationDetector                           agreeing when to stop
          -- Mass, Link, AgentIdentity, AgentState              what the others work on
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from veilsum.agents import events as ev
from veilsum.agents.coverage import Coverage, Departure
from veilsum.agents.manifest import Manifest
from veilsum.agents.messages import Attendance, CumulativeMass, Hello, Message, RecordExchange
from veilsum.agents.protocol import memory, states
from veilsum.agents.protocol.asynchronous import AsynchronousSchedule
from veilsum.agents.protocol.claims import Claims
from veilsum.agents.protocol.completion import Completion
from veilsum.agents.protocol.flooding import Flooding
from veilsum.agents.protocol.gathering import Gathering
from veilsum.agents.protocol.handshake import Handshake
from veilsum.agents.protocol.history import AgentIdentity
from veilsum.agents.protocol.link import Link
from veilsum.agents.protocol.mass import Mass
from veilsum.agents.protocol.memory import AgentState
from veilsum.agents.protocol.messenger import Messenger
from veilsum.agents.protocol.options import LONGEST_PAUSE, Options, ResendPause
from veilsum.agents.protocol.states import (
    Reachability,
    ReachabilityEvent,
    SessionEvent,
    SessionState,
)
from veilsum.agents.protocol.synchronous import SynchronousSchedule
from veilsum.agents.protocol.termination import TerminationDetector


class Agent:
    """The protocol's state machine for one agent.

    Parameters
    ----------
    manifest : Manifest
        The terms that all agents share.
    label : str
        Which member this is.
    options : Options, optional
        Its time limits.

    Attributes
    ----------
    state, mass, identity, messenger, flooding, completion, gathering, handshake, schedule, detector
        The parts; `links` by the neighbour's label.

    Raises
    ------
    AgentError
        If the label is no member, or the terms contradict each other.

    Examples
    --------
    >>> import veilsum as vs
    >>> from veilsum.agents.events import Released, Started
    >>> network = vs.networks.metropolis(vs.networks.complete(3))
    >>> family = vs.families.Normal(sigma=1.0)
    >>> source = vs.simulation.SyntheticSignals(family, {"mu": 0.0}, 3, seed=1)
    >>> algorithm, privacy = vs.algorithms.Average(), vs.privacy.NoPrivacy()
    >>> problem = vs.simulation.Problem(network, algorithm, family, source, privacy, rounds=5)
    >>> manifest = vs.agents.Manifest.of(problem)
    >>> agent = Agent(manifest, "0")
    >>> one = 1 << manifest.unit
    >>> actions = agent.handle(Started(1, (Released(1, (4 * one,), one),)))
    >>> [type(action).__name__ for action in actions]
    ['Send', 'Send', 'SetTimer', 'SetTimer']
    >>> agent.estimate
    (4.0,)
    """

    def __init__(self, manifest: Manifest, label: str, options: Options | None = None) -> None:
        """An agent that has not started yet."""
        self.manifest, self.options = manifest, options or Options()
        self.state, self.identity = AgentState(label), AgentIdentity(label)
        self.claims = Claims(manifest, self.state, self.identity)
        weights = manifest.link_weights(label)
        size = manifest.dimension
        steady = manifest.waits
        self.links = {peer: Link(peer, weights[peer], size, steady) for peer in sorted(weights)}
        links = list(self.links.values())
        self.mass = Mass(manifest, links, self.claims, self.state)
        self.detector = (
            TerminationDetector(manifest, self.state, links, self.mass)
            if manifest.tolerance and not manifest.asynchronous
            else None
        )
        self.messenger = Messenger(manifest, self.state, self.identity, self.mass, self.detector)
        self.flooding = Flooding(
            manifest, self.options, self.state, self.links, self.mass, self.messenger
        )
        self.claims.source = self.flooding
        self.completion = Completion(
            manifest, self.options, self.state, links, self.mass, self.messenger, self.flooding
        )
        self.gathering = Gathering(
            manifest, self.options, self.state, self.links, self.mass, self.messenger,
            self.flooding, self.completion, self.detector,
        )  # fmt: skip
        self.handshake = Handshake(
            manifest, self.options, self.state, self.identity, self.links, self.mass,
            self.messenger, self.flooding, self.completion, self.gathering,
        )  # fmt: skip
        self.schedule = self._schedule(links)
        self.gathering.restart = self.schedule.restart
        self._pause = ResendPause(self.options, manifest.lost_after, self.schedule.marker)
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            ev.Received: self._received,
            ev.ReceivedBatch: self._received_batch,
            ev.Deadline: self._deadline,
            ev.LocalRegisters: self._local_registers,
            ev.Reading: self._reading,
            ev.SkipReading: self._skip_reading,
            ev.PeerUp: self._peer_up,
            ev.PeerDown: self._peer_down,
            ev.Started: self._started,
            ev.Restarted: self._restarted,
            ev.SkipReading: self._skip_reading,
            ev.NoMoreReadings: self._no_more_readings,
            ev.Leave: self._leave,
        }

    def _schedule(self, links: list[Link]) -> SynchronousSchedule | AsynchronousSchedule:
        if self.manifest.asynchronous:
            return AsynchronousSchedule(
                self.manifest, self.options, self.state, links, self.mass, self.messenger,
                self.flooding, self.completion, self.gathering,
            )  # fmt: skip
        return SynchronousSchedule(
            self.manifest, self.options, self.state, links, self.mass, self.messenger,
            self.flooding, self.completion, self.gathering, self.detector,
        )  # fmt: skip

    def handle(self, event: ev.Event) -> list[ev.Action]:
        """Take one event and return the actions that follow.

        Parameters
        ----------
        event : Event
            What happened.

        Returns
        -------
        list of Action
            To be carried out in order.
        """
        if self.state.halted:
            return []
        messenger = self.messenger
        messenger.begin_event()
        self._handlers[type(event)](event)
        if self._pause.grown and self._pause.ends_early(self.schedule.marker):
            messenger.set_timer("resend", self._pause.seconds)
        if messenger.renewed:
            self.state.unsaved = False
            messenger.actions.insert(0, ev.Renew(self.state.incarnation, self))
        elif messenger.relies_on_snapshot:
            self.state.unsaved = False
            messenger.actions.insert(0, ev.Persist(self))
        return messenger.actions

    def post_registers(self, peers: Collection[str]) -> None:
        """Share with these neighbours who takes part, and send them no messages about it.

        Before the start; they are in the same process, and so must this agent be theirs.

        Parameters
        ----------
        peers : collection of str
            Labels; who is no neighbour is left out.
        """
        self.flooding.post_to(peers)

    def to_bytes(self) -> bytes:
        """The snapshot of the present state, for the ledger."""
        return memory.snapshot(
            self.manifest.digest, self.state, self.mass, self.links, self.schedule.snapshot(),
            self.gathering.snapshot(),
        )  # fmt: skip

    @property
    def label(self) -> str:
        """The agent's name."""
        return self.state.label

    @property
    def incarnation(self) -> int:
        """How often it began anew."""
        return self.state.incarnation

    @property
    def round(self) -> int:
        """The present round."""
        return self.state.round

    @property
    def reason(self) -> str:
        """Why it is done; empty while it is not."""
        return self.state.reason

    @property
    def estimate(self) -> tuple[float, ...]:
        """S/w, or as it was when done; empty while there is no weight."""
        return self.state.result if self.state.reason else self.mass.estimate

    @property
    def reported_estimate(self) -> tuple[float, ...]:
        """The estimate to show: while a round waits for the neighbours, that of the round before."""
        if self.state.reason or not self.schedule.waiting:
            return self.estimate
        return self.mass.estimate_before_sending

    @property
    def cleared(self) -> bool:
        """Whether it may release readings: enough neighbours have said what they remember."""
        return self.handshake.cleared

    @property
    def gathered(self) -> bool:
        """Whether the rounds may begin, so that readings may be released."""
        return self.handshake.cleared and self.gathering.ready

    @property
    def assembled(self) -> bool:
        """Whether enough members take part: all of a view do, once the rounds may begin."""
        return self.gathering.ready

    @property
    def confirmed(self) -> bool:
        """Whether all neighbours have said what they remember of it."""
        return all(link.confirmed for link in self.links.values())

    @property
    def coverage(self) -> Coverage:
        """Whose readings are in the estimate."""
        return self.state.coverage if self.state.reason else self.flooding.coverage()

    @property
    def departure(self) -> Departure | None:
        """What became of its mass, once it has left in this run."""
        return self.completion.departure

    @property
    def settled(self) -> bool:
        """Whether it is done and nobody waits for it, or it has waited long enough."""
        return self.completion.settled

    def links_status(self) -> dict[str, str]:
        """The state of the link to each neighbour, in a word.

        Returns
        -------
        dict of str to str
            "open", "opening", "done", "left", "mismatched" or "forked" as the session is; before
            that "dropped" from the view, "down" and "silent" as the neighbour is.
        """
        return {peer: self._link_status(link) for peer, link in self.links.items()}

    def _link_status(self, link: Link) -> str:
        if link.dropped:
            return "dropped"
        if link.session not in (SessionState.OPENING, SessionState.OPEN):
            return str(link.session.value)
        if link.reachability is Reachability.DOWN:
            return "down"
        waited = 2 * max(self.options.deadline, LONGEST_PAUSE)
        if link.reachability is Reachability.SILENT or (link.heard and link.silent > waited):
            return "silent"
        return str(link.session.value)

    def _started(self, event: ev.Started) -> None:
        self.handshake.begin(event)
        if event.incarnation > 1 and event.released and self.manifest.hides_neighbours:
            self._stay_away()
            return
        if not self.manifest.waits:
            if event.incarnation > 1 and not event.first:
                self.state.mixed_since = memory.LOST
            elif not self.manifest.asynchronous:  # whose weights count its own ticks alone
                self.state.mixed_since = memory.BEHIND
        self._resume(event.released)

    def _stay_away(self) -> None:
        """Under Network DP, releases serve one incarnation.

        A second one would send the same noise over other estimates: the difference of the two is
        without noise. Before its first release an agent has sent nothing: no round ends without.
        """
        text = (
            f"incarnation {self.incarnation} would send the noise of an earlier one again, which "
            "then protects nothing; nothing is sent; start with a new ledger and its own budget"
        )
        self.messenger.report("readings", text=text)
        self.completion.finish("readings")
        self.completion.halt()

    def _restarted(self, event: ev.Restarted) -> None:
        self.handshake.begin(event)
        state = self.state
        digest = self.manifest.digest
        schedule, gathering = memory.restore(digest, state, self.mass, self.links, event.state)
        self.schedule.restore(schedule)
        self.gathering.restore(gathering)
        state.first_round = state.round
        text = f"incarnation {state.incarnation}, round {state.round}"
        self.messenger.report("resumed", text=text)
        self._resume(event.released)
        if state.reason:
            self.messenger.done()

    def _resume(self, released: tuple[ev.Released, ...]) -> None:
        for one in released:
            self.mass.offer(one)
        for link in self.links.values():
            self.handshake.greet(link)
        self.messenger.set_timer("resend", self.options.resend)
        if self.state.leaving and not self.state.reason:
            self.completion.limit_leaving()
        self.schedule.begin()

    def _reading(self, event: ev.Reading) -> None:
        self.identity.add(event.released)
        self.mass.offer(event.released)
        self.schedule.advance()

    def _skip_reading(self, event: ev.SkipReading) -> None:
        self.schedule.skip(event.round)
        self.schedule.advance()

    def _no_more_readings(self, _: ev.NoMoreReadings) -> None:
        self.state.exhausted = True
        self.schedule.advance()

    def _leave(self, _: ev.Leave) -> None:
        self.completion.leave()

    def _peer_up(self, event: ev.PeerUp) -> None:
        link = self.links.get(event.peer)
        if link is not None and self.state.incarnation:
            link.on(ReachabilityEvent.CONNECTED)
            link.since = self.state.round
            self.handshake.greet(link)
            self.schedule.advance()

    def _peer_down(self, event: ev.PeerDown) -> None:
        link = self.links.get(event.peer)
        if link is not None and self.state.incarnation:
            link.on(ReachabilityEvent.DISCONNECTED)
            self.messenger.report("peer", link.peer, "cannot be reached")
            self.gathering.went_away(link)
            self.schedule.advance()

    def _received(self, event: ev.Received) -> None:
        self._take((event.message,))

    def _received_batch(self, event: ev.ReceivedBatch) -> None:
        self._take(event.messages)

    def _take(self, messages: Sequence[Message]) -> None:
        """Take messages in order; nearly all are the next round of a link, and need little."""
        state, links, claims, schedule = self.state, self.links, self.claims, self.schedule
        buffered = False
        for message in messages:
            if type(message) is CumulativeMass and not (state.reason or state.leaving):
                link = links.get(message[0])
                if link is not None and link.continues(message, state, claims):
                    schedule.arrived_next(link, message)
                    buffered = True
                    continue
            if buffered:  # what came before is dealt with before
                schedule.buffered()
                buffered = False
            if state.halted:
                return
            self._examine(message)
        if buffered:
            schedule.buffered()

    def _examine(self, message: Message) -> None:
        """Take any message, after the full check."""
        state = self.state
        link = self.links.get(message.sender)
        if link is None or message.receiver != state.label:
            text = f"not a link of {state.label}, to {message.receiver!r}"
            self.messenger.reject(message.sender, text)
        elif isinstance(message, Hello):
            if self.handshake.receive_hello(link, message):
                self.schedule.advance()
        elif isinstance(message, Attendance):
            if self.handshake.admits_attendance(link, message):
                self.gathering.receive(link, message.register, message.asks)
                self.schedule.advance()
        elif isinstance(message, RecordExchange):
            self.messenger.reject(link.peer, "records of a masked sum; this is none")
        elif self.handshake.admits(link, message):
            self._receive_mass(link, message)

    def _receive_mass(self, link: Link, message: CumulativeMass) -> None:
        """Cumulative mass of the present session, with all that may come with it."""
        state, messenger = self.state, self.messenger
        fresh = message.round > link.in_round
        if fresh:
            why = link.implausible(message, self.claims, state.round)
            if why:
                messenger.reject(link.peer, f"mass of round {message.round}: {why}")
                return
        self.gathering.hear(link, mass=True)
        self.mass.hear(link, message)
        if link.session is SessionState.OPENING:
            self.handshake.open(link)
            if state.round:
                messenger.send_mass(link)
        if message.done:
            link.on(SessionEvent.PEER_DONE)
        if message.acknowledged > link.acknowledged:
            link.acknowledged = message.acknowledged
        if message.range_report.phase:
            self.schedule.note_range(link, message.range_report)
        if link.reachability in states.UNANSWERING and (
            message.round > link.newest or self._alone()
        ):
            link.awake(state.round)
            messenger.send_mass(link)
        if message.leaving:
            self.completion.farewell(link, message, fresh)
            self.gathering.farewell(link)
            self.schedule.advance()
        elif state.reason or state.leaving:
            self.completion.answer(link, message, fresh)
        elif fresh:
            self.schedule.arrived(link, message)
        else:
            link.repeated += 1
            self.schedule.advance()

    def _local_registers(self, event: ev.LocalRegisters) -> None:
        self.gathering.receive_local(event, self.handshake.admits_attendance)
        self.schedule.advance()

    def _alone(self) -> bool:
        """Whether no neighbour answers."""
        return not any(link.may_send for link in self.links.values())

    def _deadline(self, event: ev.Deadline) -> None:
        if event.timer == "leave":
            self.completion.leave_now()
        elif event.timer == "attend":
            self.flooding.timer()
        elif event.timer != "resend":
            self.schedule.timer(event.timer)
        elif self.state.reason:
            self.completion.linger()
        else:
            self._resend()
            self.messenger.set_timer("resend", self._pause.seconds)

    def _resend(self) -> None:
        """Repeat what a neighbour may have missed; at growing pauses while nothing changes."""
        stuck = self._pause.over(self.schedule.marker)
        for link in self.links.values():
            link.warned = False
            if link.reachability is not Reachability.DOWN:
                if link.session in states.GREETED_AGAIN:
                    self.messenger.send_hello(link)
                elif self.state.leaving and self.completion.unheard(link):
                    self.messenger.send_mass(link)
        self.flooding.resend()
        self.schedule.resend(stuck)
