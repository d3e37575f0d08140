"""Watches the agents of a node from its loop, and passes each new status on.

A status is computed when something of it has changed, at most once a second for each agent, and at
least once in `HEARTBEAT` seconds. Receivers are called in the loop's thread: one that fails is
reported once and not called again, since an agent must not stop because its status cannot be shown.
Servers read `statuses` and `beat` from their own threads and never hold the loop up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from veilsum.agents.manifest import Manifest
from veilsum.agents.release.guarantees import covers_estimates
from veilsum.agents.results import AgentResult
from veilsum.agents.runtime import facts
from veilsum.agents.runtime.hosted import HostedAgent
from veilsum.agents.runtime.observability import Observability
from veilsum.agents.runtime.status import HEARTBEAT, AgentStatus, machine
from veilsum.results.units import of_family

LEAST_INTERVAL = 1.0  # seconds between two looks at the agents, unless a reporter says otherwise

OnStatus = Callable[[AgentStatus], None]


class StatusReporter:
    """Computes the status of each agent of a node and passes it to receivers.

    Parameters
    ----------
    manifest : Manifest
        The terms of the network.
    agents : mapping of str to HostedAgent
        The node's agents, as they are added.
    observability : Observability
        Counts, log and metrics.
    clock, wall : callable
        Seconds that never decrease, and seconds of the epoch.

    Attributes
    ----------
    receivers : list of callable
        Each is called with every new status; without any nothing is computed.
    statuses : dict of str to AgentStatus
        The last of each agent.
    beat : float
        When the loop last turned, by `clock`.
    certificate_expires : float or None
        When the certificate of this process expires, in seconds of the epoch.
    former : tuple of str
        Members of earlier epochs, which results name.
    signal_unit : str
        Of a reading, such as "kWh"; empty if the scenario does not say.
    least_interval : float
        Seconds between two looks at the agents.
    intervals : bool
        Whether the interval around an estimate is computed, which takes long in a large network.
    """

    def __init__(
        self,
        manifest: Manifest,
        agents: Mapping[str, HostedAgent],
        observability: Observability,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Nobody listens yet."""
        self.manifest, self.agents, self.observability = manifest, agents, observability
        self.clock, self.wall = clock, wall
        self.receivers: list[OnStatus] = []
        self.statuses: dict[str, AgentStatus] = {}
        self.beat = clock()
        self.certificate_expires: float | None = None
        self.signal_unit = ""
        self.former: tuple[str, ...] = ()
        self.least_interval, self.intervals = LEAST_INTERVAL, True
        self._next = 0.0
        self._seen: dict[str, tuple[Any, float]] = {}
        self._stated: dict[str, str] = {}
        self._machine = machine()
        self._finished = False

    def turn(self) -> None:
        """Called in every turn of the loop."""
        self.beat = self.clock()
        if self.receivers and self.beat >= self._next:
            self._next = self.beat + self.least_interval
            for agent in self.agents.values():
                self._look(agent)

    def finish(self) -> None:
        """Called when the loop has ended: the last status of each agent; a second call does nothing."""
        agents = self.agents.values() if self.receivers and not self._finished else ()
        self._finished = True
        for agent in agents:
            self._pass_on(self.status(agent, ended=True))

    def fail(self) -> None:
        """Called when an error ends the loop: the last status stays, and the process behind it is gone.

        `finish` would say that the agent was stopped in good order, with a result that counts.
        """
        self._finished = True

    def status(self, agent: HostedAgent, ended: bool = False) -> AgentStatus:
        """The status of an agent at this moment."""
        now = self.wall()
        expires = self.certificate_expires
        return AgentStatus(
            result=self.result(agent, ended),
            state=self._state(agent, ended),
            readings=facts.readings_of(agent),
            budget=facts.budget_of(agent),
            links=agent.protocol.links_status(),
            last_reading=facts.last_reading_time(agent),
            certificate_days=None if expires is None else (expires - now) / 86400,
            time=now,
            machine=self._machine,
            session=facts.session_of(agent),
            covered=covers_estimates(self.manifest, agent.release_mechanism.guarantee),
        )

    def result(self, agent: HostedAgent, ended: bool = False) -> AgentResult:
        """The result of an agent: as it is done, or so far.

        A stream that is stopped has its last estimate; an agent that is stopped before its last
        round has none.
        """
        done, protocol = agent.done, agent.protocol
        family, label = agent.release_mechanism.family, agent.label
        stated = self._stated.get(label)
        if stated is None:
            stated = str(agent.release_mechanism.guarantee)
            if self.signal_unit:
                stated = stated.replace(" in its own units", f" {self.signal_unit}")
            self._stated[label] = stated
        if done is not None:
            end = (done.round, done.reason, done.estimate)
        elif not ended:
            end = (protocol.round, "running", protocol.reported_estimate)
        else:
            cut_short = self.manifest.rounds > 0
            end = (protocol.round, "stopped", () if cut_short else protocol.reported_estimate)
        covered = facts.coverage_of(agent)
        if self.former:
            covered = replace(covered, former=self.former)
        return AgentResult.of(
            self.manifest,
            family,
            label,
            *end,
            covered,
            stated=stated,
            intervals=self.intervals,
            unit=of_family(self.signal_unit, family),
        )

    def _look(self, agent: HostedAgent) -> None:
        done = agent.done
        signature = (
            agent.protocol.round, agent.protocol.reported_estimate, done, self._state(agent),
            facts.coverage_of(agent), agent.protocol.links_status(),
            facts.readings_of(agent), agent.ledger.releases, facts.stage_of(agent),
            self.certificate_expires,
        )  # fmt: skip
        before, when = self._seen.get(agent.label, (None, 0.0))
        if signature != before or self.beat - when >= HEARTBEAT:
            self._seen[agent.label] = (signature, self.beat)
            self._pass_on(self.status(agent))

    def _pass_on(self, status: AgentStatus) -> None:
        self.statuses[status.result.agent] = status
        for receiver in tuple(self.receivers):
            try:
                receiver(status)
            except Exception as problem:  # whatever it is, the agent goes on
                self.receivers.remove(receiver)
                text = f"a receiver of the status failed and is not called again: {problem}"
                self.observability.log.write("status", status.result.agent, text, level="error")

    def _state(self, agent: HostedAgent, ended: bool = False) -> str:
        if agent.done is not None:
            return "done"
        if ended:
            return "stopped"
        there = agent.protocol.gathered and agent.protocol.assembled
        return "running" if there else "gathering"
