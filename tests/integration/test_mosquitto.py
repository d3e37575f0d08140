"""MQTT against a real broker: what was acknowledged is committed, what was not comes again."""

import json
import signal
import subprocess
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.agents.readings.released import taken
from tests.integration.conftest import Agents
from tests.integration.servers import SECRET, Mosquitto, free_port
from veilsum.agents.readings import MqttReadings, Pauses, SourceState
from veilsum.errors import SignalError

pytestmark = pytest.mark.integration
TOPIC = "meters/north"
NOISE = "7654321"  # the digits that every published reading ends with


class Publisher:
    """Publishes with QoS 1 and waits until the broker has each message."""

    def __init__(self, broker: Mosquitto) -> None:
        self.broker = broker

    def send(
        self, *payloads: Any, topic: str = TOPIC, qos: int = 1, name: str | None = None
    ) -> None:
        mqtt: Any = import_module("paho.mqtt.client")
        types: Any = import_module("paho.mqtt.packettypes").PacketTypes
        made = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        made.username_pw_set("meter", SECRET)
        made.connect("127.0.0.1", self.broker.port)
        made.loop_start()
        try:
            for payload in payloads:
                properties = import_module("paho.mqtt.properties").Properties(types.PUBLISH)
                if name is not None:
                    properties.UserProperty = ("id", name)
                text = payload if isinstance(payload, bytes) else json.dumps(payload)
                made.publish(topic, text, qos, properties=properties).wait_for_publish(10)
        finally:
            made.disconnect()
            made.loop_stop()


def reading(number: int) -> dict[str, Any]:
    return {"id": number, "kwh": float(f"{number % 10}.{NOISE}")}


def described(broker: Mosquitto) -> Any:
    options = {"client": "north", "user": "meter", "password": SECRET}
    return ["mqtt", [f"mqtt://127.0.0.1:{broker.port}", TOPIC, "id", "kwh"], options]


def source(broker: Mosquitto, **options: Any) -> MqttReadings:
    _, arguments, given = described(broker)
    return MqttReadings(*arguments, **{**given, "pauses": Pauses(1, 1), **options})


def notice_of(readings: MqttReadings, part: str, seconds: float = 20.0) -> str:
    texts: list[str] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        texts += [notice.text for notice in readings.notices()]
        for text in texts:
            if part in text:
                return text
        time.sleep(0.02)
    raise AssertionError(texts)


def subscribed(broker: Mosquitto) -> None:
    """Make the broker keep messages for the client from now on."""
    readings = source(broker)
    notice_of(readings, "has no session of this client")
    time.sleep(0.3)
    readings.close()


def keys(numbers: Any) -> list[str]:
    return [f"{TOPIC}\x1f{number}" for number in numbers]


def test_what_is_not_acknowledged_comes_again(broker: Mosquitto) -> None:
    subscribed(broker)
    Publisher(broker).send(*map(reading, range(1, 6)))
    first = source(broker)
    assert len(taken(first, 2)) == 2  # acknowledged
    end = time.monotonic() + 10
    while not isinstance(first.next(), float):  # taken, and not acknowledged
        assert time.monotonic() < end
    assert first.origin is not None
    assert first.origin.text == f"{TOPIC}\x1f3"
    first.close()
    again = source(broker)
    found: list[str] = []
    while len(found) < 3 and time.monotonic() < end:
        if isinstance(again.next(), float):
            assert again.origin is not None
            found.append(again.origin.text)
            again.acknowledge()
    assert found == keys([3, 4, 5])
    time.sleep(0.3)
    again.close()
    empty = source(broker)
    assert taken(empty, 1, 1.0) == []
    empty.close()


def test_each_message_is_released_once_though_the_agent_is_killed_in_every_commit(
    broker: Mosquitto, agents: Agents
) -> None:
    subscribed(broker)
    numbers = range(1, 25)
    Publisher(broker).send(*map(reading, numbers), reading(7))  # one is sent twice
    agents.killed_at_every_stage(described(broker), len(numbers))
    released = agents.released()
    assert len(released) == len(numbers)
    assert set(released) == agents.origins(keys(numbers))
    assert NOISE not in agents.log
    assert SECRET not in agents.log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_each_message_is_released_once_though_the_broker_restarts(
    broker: Mosquitto, agents: Agents, number: int
) -> None:
    subscribed(broker)
    publisher = Publisher(broker)
    publisher.send(*map(reading, range(1, 11)))
    process = agents.start(described(broker), 30)
    agents.wait_for(5)
    publisher.send(*map(reading, range(11, 21)))
    time.sleep(2.5)  # the broker saves what it has
    broker.end(number)
    time.sleep(1)
    broker.start()
    publisher.send(*map(reading, range(21, 31)))
    assert agents.finish(process) == 0, agents.output
    released = agents.released()
    assert len(released) == 30
    assert set(released) == agents.origins(keys(range(1, 31)))
    assert "broke" in agents.log
    assert NOISE not in agents.log


def test_acknowledging_before_the_commit_loses_readings(
    broker: Mosquitto, agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weakened variant: an agent that is killed in between never sees the message again."""
    subscribed(broker)
    Publisher(broker).send(*map(reading, range(1, 4)))
    early = source(broker)

    def next_and_acknowledge() -> Any:
        value = MqttReadings.next(early)
        early.acknowledge()
        return value

    monkeypatch.setattr(early, "next", next_and_acknowledge)
    end = time.monotonic() + 10
    while not isinstance(early.next(), float):
        assert time.monotonic() < end
    time.sleep(0.3)
    early.close()  # killed here, before its commit
    agents.run(described(broker), 2)
    assert set(agents.released()) == agents.origins(keys([2, 3]))


def test_payloads_keys_and_bad_values(broker: Mosquitto) -> None:
    plain = source(broker, client="plain")
    notice_of(plain, "has no session")
    time.sleep(0.3)
    publisher = Publisher(broker)
    publisher.send(b"{77.25", b"\xff", {"id": 3, "kwh": "secret-77"}, {"kwh": 77.25}, b"77.25")
    publisher.send(reading(6), qos=0)
    messages: list[str] = []
    end = time.monotonic() + 10
    while len(messages) < 6 and time.monotonic() < end:
        try:
            value = plain.next()
        except SignalError as problem:
            messages.append(str(problem))
            plain.acknowledge()
            continue
        if value is not SourceState.WAITING:
            messages.append("good")
            plain.acknowledge()
    plain.close()
    assert messages == [
        f"message 1 of {TOPIC} is not JSON, at its character 2",
        f"message 2 of {TOPIC} is not UTF-8 text, at its byte 1",
        f"message 3 of {TOPIC}, kwh is not a number; expected one such as 3.5",
        f"message 4 of {TOPIC} has no field id",
        f"message 5 of {TOPIC} has no field id",
        "good",
    ]
    options: Any = {"client": "numbers", "user": "meter", "password": SECRET}
    url = f"mqtt://127.0.0.1:{broker.port}"
    numbers = MqttReadings(url, "meters/+", "property:id", **options)
    notice_of(numbers, "has no session")
    time.sleep(0.3)
    publisher.send(2.5, name="a")
    publisher.send(3.5, name="a", topic="meters/south")  # another topic: another reading
    publisher.send(4.5)
    assert taken(numbers, 1) == [2.5]
    assert numbers.origin is not None
    assert numbers.origin.text == f"{TOPIC}\x1fa"
    assert taken(numbers, 1) == [3.5]
    with pytest.raises(SignalError, match="has no user property id"):
        taken(numbers, 1)
    numbers.close()


def test_no_more_messages_come_than_may_wait(broker: Mosquitto) -> None:
    subscribed(broker)
    Publisher(broker).send(*map(reading, range(1, 301)))
    readings = source(broker)
    time.sleep(1.5)
    assert 0 < readings._queue.qsize() <= 100
    assert len(taken(readings, 300)) == 300
    readings.close()


def test_a_wrong_password_and_a_broker_that_is_away(broker: Mosquitto) -> None:
    readings = source(broker, password="wrong-secret")
    assert "wrong-secret" not in notice_of(readings, "refuses the connection")
    readings.close()
    away = MqttReadings(f"mqtt://127.0.0.1:{free_port()}", TOPIC, "id", "kwh", client="x")
    assert notice_of(away, "cannot be reached")
    away.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paho's socket
def test_tls(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    folder.mkdir()

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=folder)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem",
            "-subj", "/CN=authority", "-days", "1")  # fmt: skip
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "broker.key", "-out", "broker.csr",
            "-subj", "/CN=broker")  # fmt: skip
    (folder / "ext").write_text("subjectAltName=IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "broker.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-out",
            "broker.pem", "-days", "1", "-extfile", "ext")  # fmt: skip
    place = tmp_path / "secure"
    place.mkdir()
    broker = Mosquitto(place, folder)
    broker.start()
    options: Any = {"client": "n", "user": "meter", "password": SECRET, "pauses": Pauses(1, 1)}
    url = f"mqtts://127.0.0.1:{broker.port}"
    trusted = MqttReadings(url, TOPIC, "id", "kwh", ca=str(folder / "ca.pem"), **options)
    notice_of(trusted, "has no session")
    trusted.close()
    unknown = MqttReadings(url, TOPIC, "id", "kwh", **options)
    assert notice_of(unknown, "cannot be reached")
    unknown.close()
    broker.close()
