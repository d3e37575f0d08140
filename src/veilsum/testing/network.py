"""Agents over a simulated network, in virtual time: the same run every time.

Messages are delayed, lost, repeated and reordered as a seeded generator decides; links are cut and
agents crash and return when the caller says so. No thread, socket, file or clock is involved.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2s
from typing import Any

from veilsum.agents.events import (
    Action,
    AgentReport,
    Deadline,
    Done,
    Event,
    Persist,
    Reading,
    Released,
    Remember,
    Renew,
    Restarted,
    Send,
    SetTimer,
    Started,
)
from veilsum.agents.manifest import Manifest
from veilsum.agents.messages import PeerStatus
from veilsum.agents.protocol import Agent, Options
from veilsum.agents.transport.base import Arrival, Refused, TransportNotice, Undecoded
from veilsum.agents.transport.memory import NONE, Faults, MemoryNetwork, MemoryTransport
from veilsum.errors import AgentError

Vector = tuple[int, ...]


@dataclass(eq=False)
class SimulatedAgent:
    """One agent of a simulated network, and what its ledger would remember.

    Attributes
    ----------
    label : str
        Its name.
    agent : Agent or None
        While it runs.
    transport : MemoryTransport or None
        While it runs.
    incarnation, starts : int
        How often it began anew, and how often its ledger was opened.
    secret : bytes
        Of its ledger.
    memory : dict
        The status of neighbours when last heard.
    state : bytes
        The last snapshot.
    released : list of Released
        All its releases.
    timers : dict
        The timers that are set.
    done : Done or None
        How it ended.
    manifest : Manifest or None
        Another manifest than the network's, by mistake.
    killed : bool
        Whether it never comes back.

    Examples
    --------
    >>> host = SimulatedAgent("north")
    >>> host.agent is None, host.released, host.done is None
    (True, [], True)
    """

    label: str
    agent: Agent | None = None
    transport: MemoryTransport | None = None
    incarnation: int = 0
    secret: bytes = b""
    starts: int = 0
    memory: dict[str, PeerStatus] = field(default_factory=dict)
    state: bytes = b""
    released: list[Released] = field(default_factory=list)
    timers: dict[str, int] = field(default_factory=dict)
    done: Done | None = None
    manifest: Manifest | None = None
    killed: bool = False

    @property
    def outcome(self) -> Done:
        """How it ended.

        Raises
        ------
        AgentError
            If it has not.
        """
        if self.done is None:
            raise AgentError(f"agent {self.label} is not done; run the network for longer")
        return self.done


class SimulatedNetwork:
    """Runs the members of a manifest over a simulated network.

    Parameters
    ----------
    manifest : Manifest
        The terms; its members are the agents.
    options : Options, optional
        Time limits of all agents, in virtual seconds.
    seed : int
        Decides the fate of every message.
    faults : Faults, optional
        Chances of loss, repetition and reordering, and the range of delays.
    agent : callable
        Makes an agent from manifest, label and options: `Agent`, a subclass as tests of weakened
        variants use it, or anything else with `handle`, such as a `MaskedAgent`.

    Attributes
    ----------
    network : MemoryNetwork
        `network.partition`, `network.cut` and `network.heal` change it; `network.now` is the time.
    agents : dict of SimulatedAgent
        By label.
    reports : list of (str, AgentReport)
        What agents reported, except the rounds.

    Examples
    --------
    >>> import veilsum as vs
    >>> from veilsum.agents.events import Released
    >>> from veilsum.testing import Faults, SimulatedNetwork
    >>> ring = vs.networks.lazy_metropolis(vs.networks.ring(4))
    >>> family = vs.families.Normal(sigma=1.0)
    >>> source = vs.simulation.SyntheticSignals(family, {"mu": 0.0}, 4, seed=1)
    >>> algorithm, privacy = vs.algorithms.Average(), vs.privacy.NoPrivacy()
    >>> problem = vs.simulation.Problem(ring, algorithm, family, source, privacy, rounds=60)
    >>> manifest = vs.agents.Manifest.of(problem)
    >>> one = 1 << manifest.unit
    >>> network = SimulatedNetwork(manifest, seed=1, faults=Faults(drop=0.2))
    >>> for k, label in enumerate(network.agents):
    ...     network.release(label, [Released(1, (k * one,), one)])
    >>> network.start()
    >>> network.run(seconds=1000)
    True
    >>> [round(estimate[0], 4) for estimate in network.estimates().values()]
    [1.5, 1.5, 1.5, 1.5]
    """

    def __init__(
        self,
        manifest: Manifest,
        *,
        options: Options | None = None,
        seed: int = 0,
        faults: Faults | None = None,
        agent: Callable[[Manifest, str, Options], Any] = Agent,
    ) -> None:
        """No agent has started yet."""
        self.manifest, self.options, self._make = manifest, options or Options(), agent
        self.network = MemoryNetwork(seed, faults or NONE)
        self.agents = {
            label: SimulatedAgent(label, secret=blake2s(label.encode()).digest())
            for label, _ in manifest.members
        }
        self.reports: list[tuple[str, AgentReport]] = []
        self._inbox: deque[tuple[str, Arrival]] = deque()
        self._timers: list[tuple[float, int, str, str]] = []
        self._ticket = itertools.count()

    @property
    def running(self) -> dict[str, Agent]:
        """The agents that run, by label."""
        return {label: one.agent for label, one in self.agents.items() if one.agent is not None}

    @property
    def all_done(self) -> bool:
        """Whether every agent that was not killed is done."""
        return all(one.done is not None or one.killed for one in self.agents.values())

    def estimates(self) -> dict[str, tuple[float, ...]]:
        """The estimate of each running agent, by label."""
        return {label: agent.estimate for label, agent in self.running.items()}

    def release(self, label: str, released: Iterable[Released]) -> None:
        """Commit releases to an agent's ledger, and notify the agent if it runs.

        Parameters
        ----------
        label : str
            Which agent.
        released : iterable of Released
            In the order of the ledger.
        """
        host = self.agents[label]
        for one in released:
            host.released.append(one)
            if host.agent is not None:
                self.feed(label, Reading(one))

    def start(self, *labels: str) -> None:
        """Begin a new incarnation of some agents, or of all.

        Parameters
        ----------
        *labels : str
            Which agents; all if none is named.
        """
        for label in labels or tuple(self.agents):
            host = self.agents[label]
            host.incarnation += 1
            self._enter(host, Started(host.incarnation, *self._open_ledger(host)))

    def restart(self, label: str) -> None:
        """Bring an agent back with its last snapshot; a new incarnation if there is none.

        Parameters
        ----------
        label : str
            Which agent.
        """
        host = self.agents[label]
        if host.state:
            event = Restarted(host.incarnation, host.state, *self._open_ledger(host))
            self._enter(host, event)
        else:
            self.start(label)

    def _open_ledger(self, host: SimulatedAgent) -> tuple[Any, ...]:
        """Open the ledger once more: releases, secret, start, run and memory."""
        host.starts += 1
        run = blake2s(f"{host.label} {next(self._ticket)}".encode(), digest_size=8).digest()
        memory = tuple(host.memory.items())
        return tuple(host.released), host.secret, host.starts, run, memory

    def crash(self, label: str, *, announced: bool = True) -> None:
        """Drop a running agent; what it did not persist is lost.

        Parameters
        ----------
        label : str
            Which agent.
        announced : bool
            Whether the transport notifies its neighbours.
        """
        host = self.agents[label]
        host.agent, host.timers = None, {}
        self._inbox = deque(item for item in self._inbox if item[0] != label)
        if host.transport is not None and announced:
            host.transport.close()
        host.transport = None

    def kill(self, label: str, *, announced: bool = True) -> None:
        """Drop an agent for ever: nobody waits for it to be done.

        Parameters
        ----------
        label : str
            Which agent; it may never have started.
        announced : bool
            Whether the transport notifies its neighbours.
        """
        self.crash(label, announced=announced)
        self.agents[label].killed = True

    def sever(self, one: str, two: str) -> None:
        """Break the link between two agents for ever, silently.

        Parameters
        ----------
        one, two : str
            Its ends.
        """
        self.network.cut([(one, two), (two, one)])

    def _enter(self, host: SimulatedAgent, event: Event) -> None:
        if host.agent is not None:
            self.crash(host.label)
        if isinstance(event, Started):
            host.state = b""
        host.done = None
        host.agent = self._make(host.manifest or self.manifest, host.label, self.options)
        host.transport = self.network.transport()
        host.transport.attach(host.label, self.manifest.link_weights(host.label))
        host.transport.open(lambda agent, arrival: self._inbox.append((agent, arrival)))
        self.feed(host.label, event)

    def feed(self, label: str, event: Event) -> None:
        """Pass one event to an agent and carry out its actions.

        Parameters
        ----------
        label : str
            Which agent; nothing happens if it does not run.
        event : Event
            As in `veilsum.agents.events`.
        """
        host = self.agents[label]
        if host.agent is not None:
            for action in host.agent.handle(event):
                if host.agent is None:  # crashed on the way
                    break
                self.perform(host, action)

    def perform(self, host: SimulatedAgent, action: Action) -> None:
        """Carry out one action; a subclass may observe or change it.

        Parameters
        ----------
        host : SimulatedAgent
            Whose action it is.
        action : Action
            As in `veilsum.agents.events`.
        """
        if isinstance(action, Renew):
            host.incarnation, host.state = action.incarnation, action.state.to_bytes()
        elif isinstance(action, Persist):
            host.state = action.state.to_bytes()
        elif isinstance(action, Remember):
            host.memory[action.peer] = action.status
        elif isinstance(action, Send):
            if host.transport is not None:
                host.transport.send(action.message)
        elif isinstance(action, SetTimer):
            ticket = next(self._ticket)
            host.timers[action.timer] = ticket
            due = self.network.now + action.seconds
            heapq.heappush(self._timers, (due, ticket, host.label, action.timer))
        elif isinstance(action, Done):
            host.done = action
        elif isinstance(action, AgentReport) and action.kind != "round":
            self.reports.append((host.label, action))

    def drain(self) -> None:
        """Handle what has arrived, without letting time pass."""
        while self._inbox:
            self.step()

    def step(self) -> bool:
        """Handle one arrival, or let time pass to the next event.

        Returns
        -------
        bool
            False if nothing will happen any more.
        """
        if self._inbox:
            label, arrival = self._inbox.popleft()
            if not isinstance(
                arrival, Refused | TransportNotice | Undecoded
            ):  # in memory nothing is encoded
                self.feed(label, arrival)
            return True
        timer = self._timers[0][0] if self._timers else None
        message = self.network.next
        if message is not None and (timer is None or message <= timer):
            self.network.advance(message)
            return True
        if timer is None:
            return False
        self.network.advance(timer)
        _, ticket, label, name = heapq.heappop(self._timers)
        host = self.agents[label]
        if host.timers.get(name) == ticket:
            del host.timers[name]
            self.feed(label, Deadline(name))
        return True

    def run(self, seconds: float, *, until_done: bool = True) -> bool:
        """Run for some virtual seconds, or until every agent is done.

        Parameters
        ----------
        seconds : float
            Of virtual time.
        until_done : bool
            Whether to end as soon as every agent has its estimate.

        Returns
        -------
        bool
            Whether every agent has its estimate.
        """
        end = self.network.now + seconds
        while self.network.now < end and not (until_done and self.all_done):
            if not self.step():
                break
        return self.all_done

    def in_session(self, agent: Agent, peer: str) -> bool:
        """Whether both ends of a link run and are in the same session.

        Parameters
        ----------
        agent : Agent
            One end.
        peer : str
            The label of the other.

        Returns
        -------
        bool
            False too if the other does not run.
        """
        other = self.running.get(peer)
        if other is None:
            return False
        there, back = agent.links[peer], other.links[agent.label]
        return (there.peer_incarnation, back.peer_incarnation) == (
            other.incarnation,
            agent.incarnation,
        )

    def totals(self) -> Mapping[str, Vector]:
        """The balance of mass over running agents, which must be even at every moment.

        Returns
        -------
        mapping of str to tuple of int
            Each (sums..., weight): `present` at agents, `in_transit` in sessions that both ends are
            in, `stale` in sessions that one end has yet to roll back, and `released`. Always
            present + in_transit + stale = released. Where rounds are clipped, what is in transit
            was gained or lost by one end of a link and not yet by the other.
        """
        present, transit, stale, put = ([0] * (self.manifest.dimension + 1) for _ in range(4))
        for agent in self.running.values():
            mass = agent.mass
            _add(present, (*mass.sums, mass.weight), 1)
            _add(present, (*mass.aside_sums, mass.aside_weight), 1)
            _add(put, (*mass.released_sums, mass.released_weight), 1)
            for link in agent.links.values():
                into = transit if self.in_session(agent, link.peer) else stale
                _add(into, (*link.out_sums, link.out_weight), 1)
                _add(into, (*link.in_sums, link.in_weight), -1)
                _add(into, (*link.excess, 0), 1)
                if link.part is not None:  # offered, and still here
                    parts, weight = link.part
                    _add(into, (*parts, weight), -1)
        return {
            "present": tuple(present), "in_transit": tuple(transit), "stale": tuple(stale),
            "released": tuple(put),
        }  # fmt: skip


def _add(total: list[int], values: Vector, sign: int) -> None:
    for k, value in enumerate(values):
        total[k] += sign * value
