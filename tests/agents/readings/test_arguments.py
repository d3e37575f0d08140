"""A source that is made with nonsense is refused at once, by a message that names the argument."""

from pathlib import Path
from typing import Any

import pytest

from veilsum.agents.readings import (
    CommandReadings,
    CsvReadings,
    HttpReadings,
    IterableReadings,
    MqttReadings,
    SqlReadings,
)
from veilsum.errors import AgentError, SignalError

NAN, INF = float("nan"), float("inf")
NO_TIMES: list[Any] = [-1, 0, NAN, INF, 1e300, "x", None, []]


def http(url: Any = "https://meter.example/load", **changes: Any) -> HttpReadings:
    return HttpReadings(url, **{"key": "id", "columns": "kwh", "connect": False, **changes})


def mqtt(url: Any = "mqtt://broker.example", **changes: Any) -> MqttReadings:
    made = {"topic": "load", "key": "id", "client": "north", "connect": False, **changes}
    return MqttReadings(url, **made)


def sql(url: Any = "sqlite:///:memory:", **changes: Any) -> SqlReadings:
    made = {"key": "id", "columns": "kwh", "table": "loads", "connect": False, **changes}
    return SqlReadings(url, **made)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"path": 5}, "path must be the path of a file; found a value of type int"),
        ({"path": "a\0b"}, "path must be the path of a file; found a text with a NUL character"),
        ({"path": ""}, "path must be"),
        ({"columns": []}, "columns must be a name or a list of names"),
        ({"columns": 5}, "columns must be a name"),
        ({"columns": [5]}, "columns must be a name"),
        ({"columns": ""}, "columns must be a name"),
        ({"columns": {"a": 1}}, "columns must be a name"),
        ({"key": 5}, "key must be"),
        ({"key": ["id", None]}, "key must be"),
        ({"time": ""}, "time must be a text; found an empty text"),
        ({"time": 5}, "time must be a text"),
        ({"settle": "soon"}, "settle must be a time"),
        ({"unfinished": NAN}, "unfinished must be a time"),
    ],
    ids=str,
)
def test_a_file(tmp_path: Path, wrong: dict[str, Any], words: str) -> None:
    path = tmp_path / "readings.csv"
    path.write_text("id,load\n1,42.5\n")
    with pytest.raises(AgentError, match=words):
        CsvReadings(**{"path": path, **wrong})


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ([], "it names no program"),
        ([""], "it names no program"),
        (["echo", 5], "one of them is a value of type int"),
        (["echo", "a\0b"], "one of them is a text with a NUL character"),
        ("echo 5", "command must be program and arguments"),
        (None, "command must be .*; found nothing"),
    ],
    ids=str,
)
def test_a_command(wrong: Any, words: str) -> None:
    with pytest.raises(AgentError, match=words):
        CommandReadings(wrong)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"url": 5}, "http must be an address"),
        ({"key": 5}, "key must be"),
        ({"columns": 5}, "columns must be"),
        ({"token": 5}, "token must be a text"),
        *[({"timeout": each}, "timeout must be") for each in NO_TIMES],
        *[({"interval": each}, "interval must be") for each in NO_TIMES],
        *[({"largest": each}, "largest must be a whole number") for each in (-1, 0, "x", 1.5)],
    ],
    ids=str,
)
def test_a_document(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(AgentError, match=words):
        http(**wrong)


def test_times_may_be_durations() -> None:
    made = http(interval="1h", timeout="10s")
    assert (made.interval, made._timeout) == (3600.0, 10.0)
    made.close()
    table = sql(interval="1h")
    assert table.interval == 3600.0
    table.close()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"url": 5}, "mqtt must be an address"),
        ({"topic": ""}, "topic must be a topic such as"),
        ({"topic": 5}, "topic must be a topic such as"),
        ({"topic": "a/#/b"}, "# only for the last"),
        ({"topic": "a/b#"}, "stand for whole levels"),
        ({"topic": "a+/b"}, "stand for whole levels"),
        ({"topic": "a" * 65536}, "at most 65535 bytes"),
        ({"client": 5}, "client must be the name of this client"),
        ({"client": ""}, "client must be the name of this client"),
        ({"key": 5}, "key must be"),
        ({"user": 5}, "user must be a text"),
    ],
    ids=lambda each: str(each)[:40],
)
def test_messages(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(AgentError, match=words):
        mqtt(**wrong)


@pytest.mark.parametrize("topic", ["load", "meters/+/load", "meters/#", "#", "+", "/a"])
def test_topics_with_wildcards(topic: str) -> None:
    made = mqtt(topic=topic)
    assert made.topic == topic
    made.close()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"url": 5}, "sql must be an address"),
        ({"table": 5}, "table must be a text"),
        ({"table": ""}, "table must be a text"),
        ({"table": None, "query": 5}, "query must be a text"),
        ({"interval": "soon"}, "interval must be"),
        ({"key": None}, "key must be"),
    ],
    ids=str,
)
def test_a_table(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(AgentError, match=words):
        sql(**wrong)


def test_values_from_python() -> None:
    with pytest.raises(SignalError, match="readings must be numbers in a list"):
        IterableReadings(5)  # type: ignore[arg-type]
