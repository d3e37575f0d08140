"""Sources of a fleet against a real PostgreSQL and a real MQTT broker."""

import json
import signal
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.integration.servers import SECRET, Mosquitto, Postgres
from veilsum.fleet.sources import DataSource, open_source
from veilsum.fleet.sources.base import Columns, SourceBusyError

pytestmark = pytest.mark.integration
HOUR = 3600
TOPIC = "meters/north"
NOISE = "7654321"  # digits of a value, which no error shows
TABLE = (
    "create table loads (id bigserial primary key, at timestamptz, local timestamp, unix bigint,"
    " kwh numeric)"
)
FILL = (
    "insert into loads (at, local, unix, kwh) select to_timestamp(t),"
    " to_timestamp(t) at time zone 'Europe/Zurich', t, t / 1800 from generate_series(0, 12600, 1800) t"
)


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METER_PASSWORD", SECRET)


@pytest.fixture
def filled(database: Postgres) -> Iterator[Postgres]:
    connection = database.connect()
    connection.execute(TABLE)
    connection.execute(FILL)
    yield database
    connection.close()


def sql(database: Postgres, **keys: Any) -> DataSource:
    data = {"source": "sql", "url": database.url, "password_env": "METER_PASSWORD", **keys}
    return open_source(data, Path())


def listed(found: Columns | None) -> list[float] | None:
    return None if found is None else [float(x) for x in found["kwh"]]


def test_rows_by_every_kind_of_time(filled: Postgres) -> None:
    for time, zone in (("at", ""), ("local", "Europe/Zurich"), ("unix", "")):
        for place in (
            {"from_table": "public.loads"},
            {"query": "select * from loads where kwh::int < 99"},
        ):
            source = sql(filled, time=time, zone=zone, **place)
            assert listed(source.readings(HOUR, 2 * HOUR)) == [2.0, 3.0]
            assert source.readings(9 * HOUR, 10 * HOUR) is None
            assert source.columns() == ["id", "at", "local", "unix", "kwh"]
    assert len(sql(filled, from_table="loads").table()["kwh"]) == 8


def test_a_database_that_stops_is_read_again_and_no_error_has_a_value(filled: Postgres) -> None:
    source = sql(filled, from_table="loads", time="at")
    for wrong in ({"query": f"select '{NOISE}x'::int as at"}, {"from_table": "absent"}):
        with pytest.raises(SourceBusyError, match="cannot be read") as caught:
            sql(filled, time="at", **wrong).readings(0, HOUR)
        assert NOISE not in str(caught.value)
        assert SECRET not in str(caught.value)
    filled.end(signal.SIGINT)
    with pytest.raises(SourceBusyError, match="OperationalError"):
        source.readings(0, HOUR)
    filled.start()
    assert listed(source.readings(0, HOUR)) == [0.0, 1.0]


def test_a_wrong_password_is_not_shown(filled: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METER_PASSWORD", NOISE)
    with pytest.raises(SourceBusyError) as caught:
        sql(filled, from_table="loads", time="at").readings(0, HOUR)
    assert NOISE not in str(caught.value)


def send(broker: Mosquitto, *payloads: Any) -> None:
    """Publish with QoS 1, and wait until the broker has each message."""
    mqtt: Any = import_module("paho.mqtt.client")
    made = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    made.username_pw_set("meter", SECRET)
    made.connect("127.0.0.1", broker.port)
    made.loop_start()
    try:
        for payload in payloads:
            text = payload if isinstance(payload, bytes) else json.dumps(payload)
            made.publish(TOPIC, text, 1).wait_for_publish(10)
    finally:
        made.disconnect()
        made.loop_stop()


def mqtt(broker: Mosquitto, **keys: Any) -> DataSource:
    data = {
        "source": "mqtt", "url": f"mqtt://127.0.0.1:{broker.port}", "topic": TOPIC, "client": "north",
        "user": "meter", "password_env": "METER_PASSWORD", **keys,
    }  # fmt: skip
    return open_source(data, Path())


def at(time: int, kwh: float) -> dict[str, float]:
    return {"at": time, "kwh": kwh}


def test_messages_of_a_slot_come_again_until_a_later_slot_is_read(broker: Mosquitto) -> None:
    source = mqtt(broker, time="at")
    assert source.readings(0, HOUR) is None  # from now on the broker keeps messages
    send(broker, at(10, 1), at(20, 2), at(HOUR + 10, 3))
    for _ in range(2):  # a step that broke off reads the same again
        assert listed(source.readings(0, HOUR)) == [1.0, 2.0]
    broker.end(signal.SIGTERM)
    with pytest.raises(SourceBusyError, match="cannot be reached"):
        source.readings(0, HOUR)
    broker.start()
    send(broker, at(30, 4))
    assert listed(source.readings(0, HOUR)) == [1.0, 2.0, 4.0]
    assert listed(source.readings(HOUR, 2 * HOUR)) == [3.0]
    assert source.readings(0, HOUR) is None  # acknowledged: the broker has them no more
    assert listed(source.readings(HOUR, 2 * HOUR)) == [3.0]


def test_messages_are_left_for_other_questions(broker: Mosquitto) -> None:
    source = mqtt(broker, time="at", keep="1 h")
    assert source.readings(0, HOUR) is None
    send(broker, at(10, 1), at(HOUR + 10, 2), at(2 * HOUR + 10, 3))
    assert listed(source.readings(HOUR, 2 * HOUR)) == [2.0]
    assert listed(source.readings(0, 2 * HOUR)) == [1.0, 2.0]
    assert listed(source.readings(2 * HOUR, 3 * HOUR)) == [3.0]
    assert source.readings(0, HOUR) is None


def test_messages_without_a_time_count_once(broker: Mosquitto) -> None:
    source = mqtt(broker)
    assert source.readings(0, HOUR, now=HOUR) is None
    send(broker, {"kwh": 1}, {"kwh": 2})
    assert source.readings(0, HOUR, now=9 * HOUR) is None
    assert listed(source.readings(8 * HOUR, 9 * HOUR, now=9 * HOUR)) == [1.0, 2.0]
    assert source.readings(9 * HOUR, 10 * HOUR, now=10 * HOUR) is None


def test_a_message_that_is_no_reading_is_named_without_its_text(broker: Mosquitto) -> None:
    source = mqtt(broker)
    assert source.readings(0, HOUR, now=HOUR) is None
    send(broker, f"[{NOISE}".encode())
    with pytest.raises(
        SourceBusyError, match=r"message 1 of topic meters/north .* is no JSON text"
    ) as caught:
        source.readings(0, HOUR, now=HOUR)
    assert NOISE not in str(caught.value)


def test_a_broker_that_lets_nobody_in_is_named(
    broker: Mosquitto, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METER_PASSWORD", NOISE)
    with pytest.raises(SourceBusyError, match="refuses the connection") as caught:
        mqtt(broker).readings(0, HOUR, now=HOUR)
    assert NOISE not in str(caught.value)
