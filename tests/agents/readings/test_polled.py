"""What sources over a network have in common: fields, keys, passwords; and their configuration."""

import math
import re
import sys
import tomllib
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from veilsum._extras import install_command
from veilsum.agents.config_tables import SOURCES, ReadingsTable
from veilsum.agents.readings import (
    HttpReadings,
    IterableReadings,
    MqttReadings,
    Readings,
    SqlReadings,
    base,
    secret_of,
)
from veilsum.agents.readings.polled import Fields, key_text, parsed, pointed
from veilsum.errors import AgentError, MissingExtraError, SignalError


def test_a_key_is_the_same_text_in_every_session() -> None:
    """A time zone or a trailing zero that changed made every released row a new one."""
    noon = datetime(2030, 1, 31, 12, tzinfo=UTC)
    there = noon.astimezone(timezone(timedelta(hours=2)))
    assert key_text(noon, "") == key_text(there, "") == "2030-01-31T12:00:00"
    assert key_text(Decimal("7.50"), "") == key_text(7.5, "") == "7.5"
    assert key_text(Decimal("1E+2"), "") == key_text(100, "") == key_text(100.0, "") == "100"
    assert key_text(date(2030, 1, 31), "") == "2030-01-31"
    assert key_text(" a b ", "") == "a b"
    assert key_text(b"\x01\xff", "") == "01ff"


@pytest.mark.parametrize(
    "value", [None, True, "", "  ", float("nan"), {}, [1], Decimal("nan"), b""]
)
def test_what_identifies_nothing_is_no_key(value: Any) -> None:
    with pytest.raises(SignalError, match="row 3 identifies no reading"):
        key_text(value, "row 3")


def test_fields_are_names_or_pointers() -> None:
    record = {"a/b": 1, "list": [{"x": 2}], "/": 3}
    assert pointed(record, "a/b", "") == pointed(record, "/a~1b", "") == 1
    assert pointed(record, "/list/0/x", "") == 2
    for name in ("c", "/list/1/x", "/list/x", "/a~1b/c"):
        with pytest.raises(SignalError, match=re.escape(f"here has no field {name}")):
            pointed(record, name, "here")


def test_problems_name_the_place_and_never_the_value() -> None:
    fields = Fields(["kwh", "volt"], "id", "at")
    good = fields.item({"id": 7, "kwh": "1.5", "volt": 230, "at": "1970-01-01T00:01:00Z"}, "m 1")
    assert (good.key, good.value, good.observed_at) == ("7", (1.5, 230.0), 60.0)
    wrong: list[dict[str, Any]] = [
        {"id": 7, "kwh": "secret-77", "volt": 1, "at": 0},
        {"id": 7, "kwh": True, "volt": 1, "at": 0},
        {"id": 7, "kwh": {"secret-77": 1}, "volt": 1, "at": 0},
        {"id": 7, "kwh": 77.25, "volt": 1, "at": "secret-77"},
        {"id": [77], "kwh": 77.25, "volt": 1, "at": 0},
        {"kwh": 77.25, "volt": 1, "at": 0},
    ]
    for record in wrong:
        found = fields.item(record, "message 1")
        assert "message 1" in found.problem
        assert "77" not in found.problem


@pytest.mark.parametrize("text", [b"{77.25", b"\xff77", b"[" * 100_000, b"7" * 10_000 + b"7", b""])
def test_documents_that_are_not_json(text: bytes) -> None:
    try:
        found = parsed(text, "message 1")
    except SignalError as problem:
        assert "message 1 is not" in str(problem)  # noqa: PT017 - or it is a long number
        assert "77" not in str(problem)  # noqa: PT017
    else:
        assert float(found) == float("inf")


def test_passwords_come_from_private_files(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("hunter2\nmore\n")
    file.chmod(0o644)
    with pytest.raises(AgentError, match="can be read by others") as caught:
        secret_of(file)
    assert "hunter2" not in str(caught.value)
    file.chmod(0o600)
    assert secret_of(file) == "hunter2"
    file.write_text("\n")
    with pytest.raises(AgentError, match="is empty"):
        secret_of(file)
    with pytest.raises(AgentError, match="cannot read the password file"):
        secret_of(tmp_path / "none")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "one of csv = "),
        ({"csv": "a", "http": "https://x"}, "one of csv = "),
        ({"csv": "a", "topic": "t"}, "topic only with mqtt; this source is csv"),
        ({"command": ["a"], "column": "t"}, "column only with csv or mqtt or sql or http"),
        ({"mqtt": "mqtt://x", "key": "id"}, "topic with mqtt"),
        ({"mqtt": "mqtt://x", "topic": "t"}, "key with mqtt"),
        ({"http": "https://x", "key": "id"}, "column with http"),
        ({"sql": "sqlite://", "key": "id", "column": "v"}, "one of table = "),
        ({"sql": "sqlite://", "key": ["a", "b"], "column": "v", "table": "t"}, "one key column"),
        ({"http": "https://x", "key": "id", "column": "v", "interval": "soon"}, "a duration such"),
    ],
)
def test_keys_that_do_not_fit_the_source(given: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(message)):
        ReadingsTable(**given)


def test_durations_are_text_or_seconds() -> None:
    given = {"http": "https://x", "key": "id", "column": "v", "interval": "10m", "timeout": 2.5}
    table = ReadingsTable.model_validate(given)
    assert (table.interval, table.timeout) == (600.0, 2.5)


def mqtt(url: str) -> Readings:
    return MqttReadings(url, "t", "id", "v", client="c", connect=False)


def sql(url: str) -> Readings:
    return SqlReadings(url, "id", "v", table="t", connect=False)


def http(url: str) -> Readings:
    return HttpReadings(url, "id", "v", connect=False)


@pytest.mark.parametrize(
    ("make", "url"),
    [
        (mqtt, "tcp://host"),
        (mqtt, "mqtt://"),
        (mqtt, "mqtt://host:hunter2"),
        (mqtt, "mqtts://me:hunter2@host"),
        (sql, "hunter2"),
        (sql, "postgresql+psycopg://me:hunter2@host/db"),
        (http, "ftp://host/"),
        (http, "https://me:hunter2@host/"),
    ],
)
def test_addresses_that_cannot_be_used(make: Any, url: str) -> None:
    with pytest.raises(AgentError, match=r"must (be an address such as|have no)") as caught:
        make(url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "module", "extra"),
    [(mqtt, "paho.mqtt.client", "mqtt"), (sql, "sqlalchemy", "sql")],
)
def test_a_missing_package_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, make: Any, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=re.escape(install_command(extra))):
        make("mqtt://host")


def test_a_missing_driver_is_named() -> None:
    with pytest.raises(MissingExtraError, match="mysql"):
        sql("mysql+pymysql://me@host/db")


PAGE = Path(__file__).resolve().parents[3] / "docs" / "readings.md"


@pytest.mark.parametrize(
    "text", re.findall(r"```toml\n(\[readings\].*?)```", PAGE.read_text(encoding="utf-8"), re.S)
)
def test_the_examples_of_the_page_are_valid(text: str) -> None:
    ReadingsTable.model_validate(tomllib.loads(text)["readings"])


def test_the_page_has_an_example_of_every_source() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(re.search(rf"(?m)^{name} = ", text) for name in SOURCES)


@pytest.mark.parametrize("value", [math.nan, math.inf, "nan", "-inf", 10**400, "1e300", ""])
def test_what_is_no_time_is_refused_as_a_reading(value: Any) -> None:
    """It ended the agent with a ValueError, and again at every restart."""
    with pytest.raises(SignalError, match="row 7 has no time; expected seconds since 1970"):
        base.moment(value, "row 7")


def test_a_number_beyond_floats_is_refused_as_a_reading() -> None:
    with pytest.raises(SignalError, match="row 7 is not a number"):
        base.number(10**400, "row 7")
    assert base.moment("2030-01-31T12:00:00Z", "") == base.moment("2030-01-31T12:00", "")


@pytest.mark.parametrize("values", ["0.25", b"1", 5])
def test_text_is_no_collection_of_readings(values: Any) -> None:
    """Three characters were released as readings."""
    with pytest.raises(SignalError, match="must be numbers in a list"):
        IterableReadings(values)
