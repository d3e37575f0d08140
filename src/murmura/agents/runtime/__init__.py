"""Runs the protocol of real agents: readings in, messages out, with a log and metrics."""

from murmura.agents.readings import (
    CommandReadings,
    CsvReadings,
    IterableReadings,
    Readings,
    SourceState,
)
from murmura.agents.runtime.hosted import HostedAgent
from murmura.agents.runtime.node import Node
from murmura.agents.runtime.observability import Log, Metrics
from murmura.agents.runtime.reporter import StatusReporter
from murmura.agents.runtime.status import AgentStatus

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
