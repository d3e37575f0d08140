"""Sources of an agent's readings: Python, CSV files, commands, MQTT, SQL and HTTP."""

from murmura.agents.readings.base import Notice, OriginCheck, Pauses, Readings, SourceState, Value
from murmura.agents.readings.command import FIRST, CommandReadings
from murmura.agents.readings.csv import CsvReadings
from murmura.agents.readings.http import LARGEST, HttpReadings
from murmura.agents.readings.iterable import IterableReadings
from murmura.agents.readings.mqtt import MqttReadings
from murmura.agents.readings.polled import secret_of
from murmura.agents.readings.sql import SqlReadings

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
