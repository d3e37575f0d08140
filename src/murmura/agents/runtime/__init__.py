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

__all__ = [
    "CommandReadings",
    "CsvReadings",
    "HostedAgent",
    "IterableReadings",
    "Log",
    "Metrics",
    "Node",
    "Readings",
    "SourceState",
]
