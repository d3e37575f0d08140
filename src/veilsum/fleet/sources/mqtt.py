"""Messages of an MQTT 5 broker, which keeps them for a site that is not there.

The session is persistent and messages come with QoS 1, so the broker has what came since the last step. Each
step connects, takes what is there, and leaves.

    with a field of time:    a message is acknowledged when a slot is asked for that begins after it
    without one:             all messages are acknowledged before one of them counts

With a time, a message that was taken and not released comes again, with the same bits, and one that was
released is in no other slot (`keep` leaves it with the broker for longer, for other questions). Without, a
message counts for the slot that ended last, and is lost if the step breaks off: better once too few than
once too often.
"""

from __future__ import annotations

import time as clocks
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from veilsum import _extras
from veilsum.asking.tables import ArrayTable
from veilsum.errors import FleetError
from veilsum.fleet.periods import seconds_of
from veilsum.fleet.sources.base import (
    Columns,
    SourceBusyError,
    seconds_now,
    secret,
)
from veilsum.fleet.sources.current import Record, columns_of, records
from veilsum.fleet.sources.records import TimedSource, moment

PORTS = {"mqtt": 1883, "mqtts": 8883}
AT_LEAST_ONCE = 1
NEVER = 0xFFFFFFFF  # the session expires
MOST = 65_535  # messages that are taken and not acknowledged
QUIET = 0.3  # seconds without a message after which nothing more waits
KEEPALIVE = 60


@dataclass(frozen=True, kw_only=True)
class MqttSource(TimedSource):
    """Messages of a topic: JSON objects or numbers."""

    name = "mqtt"

    url: str  # "mqtts://host:8883", or "mqtt://host" without TLS
    topic: str  # may contain wildcards
    client: str  # constant and unique: the broker keeps the session under it
    user: str = ""
    password_env: str = ""  # variable with the password
    ca: Path = Path()  # for TLS; the system's authorities without `ca`
    certificate: Path = Path()
    certificate_key: Path = Path()
    keep: str = ""  # before a slot messages stay with the broker, for other questions: "1 day"
    timeout: str = "10s"  # of a step, for all of it

    def __post_init__(self) -> None:
        """Check what does not need the broker."""
        super().__post_init__()
        _address(self.url)
        seconds_of(self.timeout, "timeout")

    @property
    def where(self) -> str:
        """The broker and the topic."""
        host, port, _ = _address(self.url)
        return f"topic {self.topic} of the MQTT broker {host}:{port}"

    def readings(self, start: int, end: int, now: int | None = None) -> Columns | None:
        """The messages of these times; without a time, those since the last step."""
        if not self.time and seconds_now(now) >= end + (end - start):
            return None
        keep = seconds_of(self.keep, "keep") if self.keep else 0
        with MqttSession(self) as session:
            found = session.drained()
            if not self.time:
                session.acknowledge(found)
            parsed = _parsed(found, self.where)
            if self.time:
                pairs = zip(found, parsed, strict=True)
                session.acknowledge([m for m, one in pairs if self._at(one) < start - keep])
        if len(parsed) < max(1, self.expected):
            return None
        columns = columns_of(parsed)
        if not self.time:
            return columns
        return self.within(ArrayTable(columns, f"the messages of {self.where}"), start, end)

    def _at(self, one: Record) -> float:
        return moment(
            one.get(self.time), self.zone, f"a message of {self.where}, field {self.time}"
        )


class MqttSession:
    """One connection to the broker, in this thread."""

    def __init__(self, source: MqttSource) -> None:
        """Make the client; `with` connects it."""
        mqtt = _extras.load("paho.mqtt.client")
        self._source, self._messages = source, list[Any]()
        self._joins, self._granted = False, list[int]()
        self._refused = ""
        self._end = clocks.monotonic() + seconds_of(source.timeout, "timeout")
        self._client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2, source.client, protocol=mqtt.MQTTv5, manual_ack=True
        )
        self._client.suppress_exceptions = True
        if source.user:
            self._client.username_pw_set(source.user, secret(source.password_env, "password_env"))
        self._client.on_connect, self._client.on_subscribe = self._joined, self._subscribed
        self._client.on_message = lambda _, __, message: self._messages.append(message)

    def __enter__(self) -> MqttSession:
        """Connect and subscribe."""
        host, port, secure = _address(self._source.url)
        properties = _properties("CONNECT")
        properties.SessionExpiryInterval, properties.ReceiveMaximum = NEVER, MOST
        try:
            if secure:
                files = (self._source.ca, self._source.certificate, self._source.certificate_key)
                self._client.tls_set(*(str(path) if path.name else None for path in files))
            self._client.connect_timeout = self._left
            self._client.connect(host, port, KEEPALIVE, clean_start=False, properties=properties)
            while not self._joins:
                self._loop()
            self._subscribe()
        except OSError as problem:
            raise self._busy(f"cannot be reached ({type(problem).__name__})") from None
        except BaseException:
            self._client.disconnect()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Leave; the broker keeps the session and what was not acknowledged."""
        self._client.disconnect()

    def drained(self) -> list[Any]:
        """All messages that wait."""
        last, since = -1, clocks.monotonic()
        while len(self._messages) != last or clocks.monotonic() < since + QUIET:
            if len(self._messages) != last:
                last, since = len(self._messages), clocks.monotonic()
            self._loop()
        return list(self._messages)

    def acknowledge(self, messages: list[Any]) -> None:
        """Acknowledge, and wait until the broker knows: it answers another subscription after them."""
        for message in messages:
            self._client.ack(message.mid, message.qos)
        if messages:
            self._subscribe()

    def _subscribe(self) -> None:
        options = import_module("paho.mqtt.subscribeoptions").SubscribeOptions
        self._granted = []
        self._client.subscribe(
            self._source.topic,
            options=options(qos=AT_LEAST_ONCE, retainHandling=options.RETAIN_DO_NOT_SEND),
        )
        while not self._granted:
            self._loop()
        if self._granted != [AT_LEAST_ONCE]:
            raise self._busy("does not grant QoS 1; allow this client to read the topic")

    def _joined(self, client: Any, _: Any, __: Any, reason: Any, ___: Any) -> None:
        del client
        self._joins = not reason.is_failure
        self._refused = f"refuses the connection: {reason}" if reason.is_failure else ""

    def _subscribed(self, _: Any, __: Any, ___: Any, reasons: Any, ____: Any) -> None:
        self._granted = [reason.value for reason in reasons]

    def _loop(self) -> None:
        code = self._client.loop(min(0.05, self._left))
        if self._refused:
            raise self._busy(self._refused)
        if code:
            raise self._busy("broke the connection")

    @property
    def _left(self) -> float:
        left = self._end - clocks.monotonic()
        if left <= 0:
            raise self._busy(f"takes more than {self._source.timeout}")
        return left

    def _busy(self, what: str) -> SourceBusyError:
        return SourceBusyError(f"{self._source.where} {what}; it is tried again with the next step")


def _parsed(found: list[Any], where: str) -> list[Record]:
    """One record of each message."""
    made = []
    for k, message in enumerate(found, 1):
        place = f"message {k} of {where}"
        many = records(message.payload, place)
        if len(many) != 1:
            raise FleetError(f"{place}: expected one object or one number; found a list")
        made += many
    return made


def _address(url: str) -> tuple[str, int, bool]:
    try:
        found = urlsplit(url)
        port = found.port
    except ValueError:
        found, port = urlsplit(""), None
    if found.scheme not in PORTS or not found.hostname or found.path.strip("/"):
        raise FleetError(
            '[data] url must be an address such as "mqtts://host:8883", without a path'
        )
    if found.username or found.password:
        raise FleetError("[data] url must have no user and no password: use user and password_env")
    return found.hostname, port or PORTS[found.scheme], found.scheme == "mqtts"


def _properties(packet: str) -> Any:
    kinds = import_module("paho.mqtt.packettypes").PacketTypes
    return import_module("paho.mqtt.properties").Properties(getattr(kinds, packet))
