"""Runs the protocol of real agents: readings in, messages out, with a log and metrics."""

from veilsum.agents.readings import (
    CommandReadings,
    CsvReadings,
    IterableReadings,
    Readings,
    SourceState,
)
from veilsum.agents.runtime.hosted import HostedAgent
from veilsum.agents.runtime.node import Node
from veilsum.agents.runtime.observability import Log, Metrics
from veilsum.agents.runtime.reporter import StatusReporter
from veilsum.agents.runtime.status import AgentStatus

__all__ = [
    "AgentStatus",
    "CommandReadings",
    "CsvReadings",
    "HostedAgent",
    "IterableReadings",
    "Log",
    "Metrics",
    "Node",
    "Readings",
    "SourceState",
    "StatusReporter",
]
