"""Sources of an agent's readings: a CSV file that grows, the output of a command, or Python."""

from murmura.agents.readings.base import Notice, OriginCheck, Pauses, Readings, SourceState, Value
from murmura.agents.readings.command import FIRST, CommandReadings
from murmura.agents.readings.csv import CsvReadings
from murmura.agents.readings.iterable import IterableReadings

__all__ = [
    "FIRST",
    "CommandReadings",
    "CsvReadings",
    "IterableReadings",
    "Notice",
    "OriginCheck",
    "Pauses",
    "Readings",
    "SourceState",
    "Value",
]
