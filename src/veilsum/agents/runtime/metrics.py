"""Metrics of a node for Prometheus: counters as things happen, gauges from each status.

Every series is labelled by the agent, and where there is a peer by a neighbour of the manifest: a
name that is none is counted as "unknown", so that a stranger cannot make series.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilsum._extras import install_command
from veilsum.errors import AgentError, MissingExtraError

if TYPE_CHECKING:
    from veilsum.agents.runtime.status import AgentStatus

STATES = ("gathering", "running", "done", "stopped")
LINK_STATES = (
    "opening", "open", "silent", "down", "mismatched", "forked", "done", "left",
    "dropped", "other",
)  # fmt: skip
STAGES = ("waiting", "opened", "prepared", "sent", "withdrawn", "concluded")  # of a session
OUTCOMES = ("taken", "released", "passed-over", "refused", "repeated", "skipped")  # of readings
GONE = ("left", "lost", "former")  # how members are gone, as fields of the coverage
AMOUNTS = ("spent", "spent_in_all", "remaining", "reserved")  # of a budget, in epsilon
UNKNOWN = "unknown"  # stands for every name that is no neighbour


class Metrics:
    """Counters and gauges by agent.

    Raises
    ------
    MissingExtraError
        If prometheus-client is not installed.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.round.labels("north").set(7)
    >>> metrics.registry.get_sample_value("veilsum_round", {"agent": "north"})
    7.0
    >>> metrics.know("north", ["south"])
    >>> metrics.refused.labels("north", metrics.peer("north", "mallory")).inc()
    >>> metrics.registry.get_sample_value(
    ...     "veilsum_messages_refused_total", {"agent": "north", "peer": "unknown"}
    ... )
    1.0
    """

    def __init__(self) -> None:
        """Create a separate registry, so that several nodes may share a process."""
        prometheus = _prometheus()
        self.registry = prometheus.CollectorRegistry()
        self._neighbours: dict[str, set[str]] = {}
        self._readings_at: dict[str, float] = {}
        self._components: dict[str, int] = {}

        def make(kind: Any, name: str, text: str, *labels: str) -> Any:
            return kind(f"veilsum_{name}", text, ["agent", *labels], registry=self.registry)

        gauge, counter = prometheus.Gauge, prometheus.Counter
        self.info = make(gauge, "agent_info", "1 for the agent's terms", "network", "manifest")
        self.state = make(gauge, "state", "1 for the state of the agent", "state")
        self.round = make(gauge, "round", "Current round of the agent")
        self.estimate = make(
            gauge, "estimate", "Current estimate, within the public bounds", "component"
        )
        self.half_width = make(
            gauge, "half_width", "Half width of the 95% interval, noise and mixing", "component"
        )
        self.epoch = make(gauge, "epoch", "Epoch of the membership that the agent follows")
        self.members = make(gauge, "members", "Members of the manifest")
        self.gone = make(gauge, "members_gone", "Members that left, are lost, or are former", "how")
        self.present = make(gauge, "members_present", "Members that take part")
        self.contributing = make(
            gauge, "members_contributing", "Members with a reading in the estimate"
        )
        self.quorum = make(gauge, "quorum", "Members that a result needs")
        self.complete = make(gauge, "result_complete", "1 if there is an estimate of the quorum")
        self.covered = make(gauge, "readings_covered", "Readings in the estimate")
        self.last_reading = make(
            gauge, "last_reading_timestamp_seconds", "When a reading was last taken"
        )
        self.age = make(gauge, "last_reading_age_seconds", "Seconds since a reading was taken")
        self.spent = make(
            gauge, "epsilon_spent", "Epsilon spent in the unit of the budget, where it is most"
        )
        self.spent_in_all = make(gauge, "epsilon_spent_in_all", "Epsilon of all releases together")
        self.remaining = make(gauge, "epsilon_remaining", "Epsilon that the next reading may cost")
        self.reserved = make(
            gauge, "epsilon_reserved", "Epsilon that an open query may cost, not in the others"
        )
        self.refills = make(
            gauge, "budget_refill_timestamp_seconds", "When a spent budget refills; 0 if never"
        )
        self.session = make(
            gauge, "session", "Of masked sums: query, attempt, view, and records held", "number"
        )
        self.stage = make(gauge, "session_stage", "1 for the stage of the session", "stage")
        self.certificate = make(gauge, "certificate_days", "Days until the certificate expires")
        self.links = make(gauge, "links_up", "Reachable neighbours")
        self.link = make(gauge, "link_state", "1 for the state of the link", "peer", "state")
        self.readings = make(gauge, "readings", "Readings by what became of them", "outcome")
        self.sent = make(counter, "messages_sent", "Messages passed to the transport")
        self.bytes = make(counter, "record_bytes_sent", "Bytes of records of masked sums sent")
        self.received = make(counter, "messages_received", "Messages delivered")
        self.refused = make(counter, "messages_refused", "Messages not accepted", "peer")
        self.conflicts = make(
            counter, "conflicting_releases", "Conflicting releases under one name", "peer"
        )
        self.updated = make(
            gauge, "status_timestamp_seconds", "When these numbers were last computed"
        )

    def know(self, agent: str, neighbours: Iterable[str]) -> None:
        """Name the neighbours of an agent, which have series of their own."""
        self._neighbours[agent] = set(neighbours)

    def peer(self, agent: str, peer: str) -> str:
        """The label of a peer: its name if it is a neighbour."""
        return peer if peer in self._neighbours.get(agent, ()) else UNKNOWN

    def show(self, status: AgentStatus) -> None:
        """Set every gauge of an agent from its status."""
        result, agent = status.result, status.result.agent
        covered = result.coverage
        self.info.labels(agent, result.network, result.manifest[:12]).set(1)
        for state in STATES:
            self.state.labels(agent, state).set(state == status.state)
        self.round.labels(agent).set(result.round)
        self._show_estimate(agent, result.estimate, result.half_width)
        self.epoch.labels(agent).set(result.epoch)
        self.members.labels(agent).set(len(covered.members))
        for how in GONE:
            self.gone.labels(agent, how).set(len(getattr(covered, how)))
        self.present.labels(agent).set(len(covered.present))
        self.contributing.labels(agent).set(covered.count)
        self.quorum.labels(agent).set(result.quorum)
        self.complete.labels(agent).set(result.complete)
        self.covered.labels(agent).set(sum(covered.readings))
        for outcome in OUTCOMES:
            self.readings.labels(agent, outcome).set(status.readings.get(outcome, 0))
        self._show_budget(status)
        self._show_links(status)
        self._show_session(status)
        if status.last_reading is not None:
            self._show_age(agent, status.last_reading)
        if status.certificate_days is not None:
            self.certificate.labels(agent).set(status.certificate_days)
        self.updated.labels(agent).set(status.time)

    def _show_estimate(
        self, agent: str, estimate: tuple[float, ...], half_width: tuple[float, ...]
    ) -> None:
        for k in range(len(estimate), self._components.get(agent, 0)):  # there is none any more
            self.estimate.remove(agent, k)
            self.half_width.remove(agent, k)
        for k, (value, width) in enumerate(zip(estimate, half_width, strict=True)):
            self.estimate.labels(agent, k).set(value)
            self.half_width.labels(agent, k).set(width)
        self._components[agent] = len(estimate)

    def _show_budget(self, status: AgentStatus) -> None:
        agent, budget = status.result.agent, status.budget
        if budget is not None:
            self.show_amounts(agent, {name: getattr(budget, name) for name in AMOUNTS})
            self.refills.labels(agent).set(budget.refills_at or 0.0)

    def show_amounts(self, agent: str, amounts: Mapping[str, float]) -> None:
        """Set the gauges of a budget, by the names in `AMOUNTS`."""
        for name in AMOUNTS:
            getattr(self, name).labels(agent).set(amounts[name])

    def _show_session(self, status: AgentStatus) -> None:
        agent, found = status.result.agent, status.session
        if found is not None:
            for number in ("query", "attempt", "view", "records"):
                self.session.labels(agent, number).set(getattr(found, number))
            for stage in STAGES:
                self.stage.labels(agent, stage).set(stage == found.stage)

    def _show_links(self, status: AgentStatus) -> None:
        agent = status.result.agent
        self.links.labels(agent).set(sum(state != "down" for state in status.links.values()))
        for peer, found in status.links.items():
            shown = found if found in LINK_STATES else "other"
            for state in LINK_STATES:
                self.link.labels(agent, self.peer(agent, peer), state).set(state == shown)

    def _show_age(self, agent: str, at: float) -> None:
        first = agent not in self._readings_at
        self._readings_at[agent] = at
        self.last_reading.labels(agent).set(at)
        if first:  # computed when it is asked for
            age = self.age.labels(agent)
            age.set_function(lambda: max(time.time() - self._readings_at[agent], 0.0))

    def text(self) -> bytes:
        """All series in the format of Prometheus."""
        return bytes(_prometheus().generate_latest(self.registry))

    def write(self, path: Path) -> None:
        """Write all series to a file at once, for the text-file collector of the node exporter.

        Raises
        ------
        AgentError
            If the file cannot be written.
        """
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            temporary.write_bytes(self.text())
            temporary.replace(path)
        except OSError as problem:
            temporary.unlink(missing_ok=True)
            raise AgentError(
                f"cannot write metrics to {path}: {problem.strerror}; check --metrics-file"
            ) from None


def _prometheus() -> Any:
    try:
        return import_module("prometheus_client")
    except ImportError as problem:
        raise MissingExtraError(
            f"metrics need prometheus-client: {install_command('agents')}"
        ) from problem
