"""Sources of an agent's readings: Python, CSV files, commands, MQTT, SQL and HTTP."""

from veilsum.agents.readings.base import Notice, OriginCheck, Pauses, Readings, SourceState, Value
from veilsum.agents.readings.command import FIRST, CommandReadings
from veilsum.agents.readings.csv import CsvReadings
from veilsum.agents.readings.http import LARGEST, HttpReadings
from veilsum.agents.readings.iterable import IterableReadings
from veilsum.agents.readings.mqtt import MqttReadings
from veilsum.agents.readings.polled import secret_of
from veilsum.agents.readings.sql import SqlReadings

__all__ = [
    "FIRST",
    "LARGEST",
    "CommandReadings",
    "CsvReadings",
    "HttpReadings",
    "IterableReadings",
    "MqttReadings",
    "Notice",
    "OriginCheck",
    "Pauses",
    "Readings",
    "SourceState",
    "SqlReadings",
    "Value",
    "secret_of",
]
