"""Messages of an MQTT 5 broker.

A message is acknowledged after its reading is committed, and not before: until then the broker
keeps it, over restarts of the agent and of the broker (with its persistence switched on), and
delivers it again. What is delivered twice is recognised by its topic and key.

    PUBLISH (QoS 1) --> queue --> next() --> commit --> acknowledge(): PUBACK

The broker sends no more than `RECEIVE_MAXIMUM` messages ahead of the acknowledgements.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from veilsum._extras import install_command
from veilsum.agents.readings import arguments
from veilsum.agents.readings.base import Notice, Pauses
from veilsum.agents.readings.polled import SEPARATOR, Fields, Item, QueuedReadings, parsed
from veilsum.errors import AgentError, MissingExtraError, SignalError

PORTS = {"mqtt": 1883, "mqtts": 8883}
PROPERTY = "property:"  # a key in the user properties of a message, not in its payload
RECEIVE_MAXIMUM = 100
KEEPALIVE = 30  # seconds
NEVER_EXPIRES = 0xFFFFFFFF
AT_LEAST_ONCE = 1


class MqttReadings(QueuedReadings):
    """The messages of a topic, each acknowledged once its reading is committed.

    Parameters
    ----------
    url : str
        "mqtts://host:8883", or "mqtt://host" without TLS.
    topic : str
        What to subscribe to, at QoS 1; may contain wildcards.
    key : str or sequence of str
        What identifies a message of a topic: a field of its JSON payload (a name or a JSON
        pointer), or "property:NAME", one of its user properties.
    columns : str or sequence of str
        Fields of the payload with the values; none for a payload that is a number.
    client : str
        The client's name, constant and unique: the broker keeps the session under it.
    user, password : str, optional
        For the broker.
    ca, certificate, certificate_key : str, optional
        Files for TLS; the system's authorities by default.
    time : str, optional
        The field with the time of a reading.
    pauses : Pauses, optional
        How long to wait before connecting again.
    connect : bool
        Whether to begin at once; otherwise only the arguments are checked.

    Raises
    ------
    MissingExtraError
        Without paho-mqtt.
    AgentError
        If the address cannot be used, or another argument means nothing.

    Examples
    --------
    >>> readings = MqttReadings(
    ...     "mqtt://broker.example", "meters/north", "id", "kwh", client="north", connect=False
    ... )
    >>> readings.naming
    'mqtt topic meters/north, key id'
    >>> readings.close()
    """

    def __init__(
        self,
        url: str,
        topic: str,
        key: str | Sequence[str],
        columns: str | Sequence[str] = (),
        *,
        client: str,
        user: str | None = None,
        password: str | None = None,
        ca: str | None = None,
        certificate: str | None = None,
        certificate_key: str | None = None,
        time: str | None = None,
        pauses: Pauses | None = None,
        connect: bool = True,
    ) -> None:
        """Connect, in a thread of its own."""
        mqtt = _paho()
        url = arguments.text("mqtt", url, 'an address such as "mqtts://host:8883"')
        host, port, secure = _address(url)
        topic = arguments.topic(topic)
        client = arguments.text("client", client, "the name of this client, constant and unique")
        arguments.texts(
            user=user, password=password, ca=ca, certificate=certificate,
            certificate_key=certificate_key,
        )  # fmt: skip
        self._fields = Fields(columns, key, time)
        self.topic, self.where = topic, f"the MQTT broker {host}:{port}"
        super().__init__(f"mqtt topic {topic}, {self._fields.naming}", 2 * RECEIVE_MAXIMUM)
        self._count, self._connection = 0, 0  # messages so far; which connection they came over
        self._lock = threading.Lock()
        self._connected_before = self._closing = False
        self._client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2, client, protocol=mqtt.MQTTv5, manual_ack=True
        )
        self._client.suppress_exceptions = True
        self._client.username_pw_set(user, password) if user is not None else None
        if secure:
            try:
                self._client.tls_set(ca, certificate, certificate_key)
            except OSError as problem:
                raise AgentError(f"cannot read the files for TLS: {problem.strerror}") from None
        self._client.on_connect, self._client.on_disconnect = self._joined, self._left
        self._client.on_connect_fail = self._unreachable
        self._client.on_message, self._client.on_subscribe = self._arrived, self._subscribed
        chosen = pauses or Pauses(1.0, 120.0)
        self._client.reconnect_delay_set(chosen.first, chosen.longest)
        properties = _properties("CONNECT")
        properties.SessionExpiryInterval = NEVER_EXPIRES
        properties.ReceiveMaximum = RECEIVE_MAXIMUM
        self._client.connect_async(host, port, KEEPALIVE, clean_start=False, properties=properties)
        if connect:
            self._client.loop_start()

    def close(self) -> None:
        """Disconnect; the broker keeps the session and what was not acknowledged."""
        if not self._closing:
            self._closing = True
            self._client.disconnect()
            self._client.loop_stop()

    def _acknowledged(self, item: Item) -> None:
        """Acknowledge over the connection the message came over; after another, it comes again."""
        connection, message, qos = item.token
        with self._lock:
            if connection == self._connection:
                self._client.ack(message, qos)

    def _new_connection(self) -> None:
        """Forget what was not taken: the broker sends it again, perhaps under other numbers."""
        with self._lock:
            self._connection += 1
            while not self._queue.empty():
                self._queue.get_nowait()

    def _joined(self, client: Any, _: Any, flags: Any, reason: Any, __: Any) -> None:
        self._new_connection()
        if reason.is_failure:
            self._failed(f"{self.where} refuses the connection: {reason}; it is tried again")
            return
        if not flags.session_present:
            lost = self._connected_before
            self._notices.append(
                Notice(
                    f"{self.where} has no session of this client: messages that were sent "
                    + ("since the connection broke are lost; switch its persistence on" if lost
                       else "before are not delivered (expected at the very first start)"),
                    "warning" if lost else "info",
                )
            )  # fmt: skip
        self._connected_before = True
        self._works(f"{self.where} is connected again")
        options = import_module("paho.mqtt.subscribeoptions").SubscribeOptions
        client.subscribe(
            self.topic,
            options=options(qos=AT_LEAST_ONCE, retainHandling=options.RETAIN_SEND_IF_NEW_SUB),
        )

    def _subscribed(self, _: Any, __: Any, ___: Any, reasons: Any, ____: Any) -> None:
        granted = [reason.value for reason in reasons]
        if any(value > AT_LEAST_ONCE + 1 for value in granted):
            self._notices.append(
                Notice(
                    f"{self.where} refuses the subscription to {self.topic}: {reasons[0]}", "error"
                )
            )
        elif 0 in granted:
            self._notices.append(
                Notice(f"{self.where} grants QoS 0 only: messages of {self.topic} may be lost")
            )

    def _left(self, _: Any, __: Any, ___: Any, reason: Any, ____: Any) -> None:
        self._new_connection()
        if not self._closing:
            self._failed(f"the connection to {self.where} broke ({reason}); it is made again")

    def _unreachable(self, *_: Any) -> None:
        self._failed(f"{self.where} cannot be reached; it is tried again, after pauses that grow")

    def _arrived(self, _: Any, __: Any, message: Any) -> None:
        """Runs in the client's thread."""
        self._count += 1
        item = self._item(message)
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            lost = "it is lost" if not message.qos else "it comes again after a new connection"
            self._notices.append(
                Notice(
                    f"{self.where} sends messages faster than they are acknowledged (QoS "
                    f"{message.qos}): message {self._count} was not taken; {lost}"
                )
            )

    def _item(self, message: Any) -> Item:
        token = (self._connection, message.mid, message.qos)
        try:
            topic = message.topic
        except UnicodeDecodeError:
            return Item(
                None, problem=f"the topic of message {self._count} is not UTF-8", token=token
            )
        where = f"message {self._count} of {topic}"
        try:
            key = self._property_key(message, where)
            found = self._fields.item(parsed(message.payload, where), where, token, key)
        except SignalError as problem:
            return Item(None, problem=str(problem), token=token)
        return found._replace(key=found.key and f"{topic}{SEPARATOR}{found.key}")

    def _property_key(self, message: Any, where: str) -> str | None:
        """The key in the user properties, if it is there."""
        if not self._fields.key[0].startswith(PROPERTY):
            return None
        name = self._fields.key[0].removeprefix(PROPERTY)
        found = dict(getattr(message.properties, "UserProperty", ())).get(name, "")
        if not found:
            raise SignalError(f"{where} has no user property {name}; expected what identifies it")
        return str(found)


def _address(url: str) -> tuple[str, int, bool]:
    try:
        found = urlsplit(url)
        port = found.port
    except ValueError:
        found, port = urlsplit(""), None
    if found.scheme not in PORTS or not found.hostname or found.path.strip("/"):
        raise AgentError('mqtt must be an address such as "mqtts://host:8883", without a path')
    if found.username or found.password:
        raise AgentError("mqtt must have no user or password; use user and password_file")
    return found.hostname, port or PORTS[found.scheme], found.scheme == "mqtts"


def _paho() -> Any:
    try:
        return import_module("paho.mqtt.client")
    except ImportError as problem:
        raise MissingExtraError(f"MQTT needs paho-mqtt: {install_command('mqtt')}") from problem


def _properties(packet: str) -> Any:
    kinds = import_module("paho.mqtt.packettypes").PacketTypes
    return import_module("paho.mqtt.properties").Properties(getattr(kinds, packet))
