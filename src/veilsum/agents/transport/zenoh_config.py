"""How a zenoh session is set up: keys, endpoints, configuration, and why a link cannot be made.

Keys. One for every direction of a link, with the names of both devices:

    veilsum/<network>/<device of sender>/<device of receiver>/data/<sender>/<receiver>
    veilsum/<network>/<device of sender>/<device of receiver>/live/<sender>/<session>
    veilsum/<network>/<device of sender>/<device of receiver>/many
    veilsum/<network>/<device of sender>/<device of receiver>/proof

Names are percent-encoded, so any label is allowed. Access control sees both devices in the key: a
device may publish only under its own name, and what is sent to one is not delivered to another.

Configuration. No scouting, TLS with certificates on both ends, deny by default. Links exist only
where an endpoint is given: multicast and gossip are off, because gossip turns a line of three into
a triangle and passes a neighbour's data to the next. Access control admits devices by the common
name on their certificate: from a neighbour D only what is under D's own name and addressed to this
device, and nothing at all from anybody else.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from veilsum.agents.pki import Credentials
from veilsum.errors import AgentError

LEASE = 2000  # ms of silence after which a peer is gone
WAIT_BEFORE_DROP = 200_000  # us to wait for a full queue; then messages are dropped at once
# Between attempts while no link comes about: a neighbour that starts again is called within a second. For
# one that ends each link at once, `refusals` has longer pauses.
RETRY = {"period_init_ms": 100, "period_max_ms": 1000, "period_increase_factor": 2}
LARGEST = 1 << 20  # bytes: longer messages are dropped before they are reassembled
PROBE_TIMEOUT = 1.0  # seconds for each step of `link_problem`
NOT_ACCEPTED = "it does not accept this device's certificate"
PUBLISH = ("put", "liveliness_token")
SUBSCRIBE = ("declare_subscriber", "declare_liveliness_subscriber")
ENDPOINT = re.compile(r"(?:(?P<scheme>[a-z]+)/)?(?P<host>\[[0-9a-fA-F:.]+\]|[\w.-]+):(?P<port>\d+)")


class ParsedKey(NamedTuple):
    """A key split into its parts; `last` is the receiver of data, or the live session."""

    source: str
    target: str
    kind: str  # "data" or "live"
    sender: str
    last: str


def key_prefix(network: str, source: str, target: str) -> str:
    """The prefix of all keys from one device to another; "*" stands for any device."""
    return f"veilsum/{quote(network, safe='')}/{_quote_device(source)}/{_quote_device(target)}"


def data_key(network: str, source: str, target: str, sender: str, receiver: str) -> str:
    """The key of one direction of a link."""
    prefix = key_prefix(network, source, target)
    return f"{prefix}/data/{quote(sender, safe='')}/{quote(receiver, safe='')}"


def batch_key(network: str, source: str, target: str) -> str:
    """The key of several messages in one payload, of any agents of two devices."""
    return f"{key_prefix(network, source, target)}/many"


def proof_key(network: str, source: str, target: str) -> str:
    """The key under which a device proves its certificate to another."""
    return f"{key_prefix(network, source, target)}/proof"


def liveliness_key(network: str, source: str, target: str, sender: str, session: str) -> str:
    """The key of a token that exists while an agent's session does."""
    return f"{key_prefix(network, source, target)}/live/{quote(sender, safe='')}/{session}"


def source_of(key: str) -> str:
    """The device that publishes under a key."""
    return unquote(key.split("/")[2])


def kind_of(key: str) -> str:
    """What is published under a key: "data", "live", "many" or "proof"."""
    return key.split("/")[4]


def parse_key(key: str) -> ParsedKey | None:
    """Split a key into its parts; None if it has another form."""
    parts = key.split("/")
    if len(parts) != 7 or parts[0] != "veilsum" or parts[4] not in ("data", "live"):
        return None
    return ParsedKey(*map(unquote, parts[2:]))


def _quote_device(name: str) -> str:
    return name if name == "*" else quote(name, safe="")


class Endpoint(NamedTuple):
    """Where a device listens."""

    scheme: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str, *, insecure: bool) -> Endpoint:
        """Parse HOST:PORT or tls/HOST:PORT; without certificates tcp/ and loopback only."""
        found, scheme = ENDPOINT.fullmatch(text), "tcp" if insecure else "tls"
        if (
            not found
            or not 0 <= int(found["port"]) <= 65535
            or found["scheme"] not in (None, scheme)
        ):
            raise AgentError(
                f"{text!r} is not an endpoint for use {'without' if insecure else 'with'} "
                f"certificates; expected {scheme}/HOST:PORT such as {scheme}/127.0.0.1:7447"
            )
        try:
            found["host"].encode("idna")
        except UnicodeError:
            raise AgentError(
                f"{text!r} is not an endpoint: {found['host']!r} is no name of a host, whose parts "
                "between points have 1 to 63 characters"
            ) from None
        made = cls(scheme, found["host"], int(found["port"]))
        if insecure and not made.is_loopback:
            raise AgentError(
                f"{text!r} is not on the loopback: without certificates an agent neither listens "
                "nor connects elsewhere; issue certificates with `veilsum keys`, or use 127.0.0.1"
            )
        return made

    @property
    def is_loopback(self) -> bool:
        """Whether the address is of this machine and cannot be reached from another."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False

    def check_verifiable(self, device: str) -> None:
        """Raise if zenoh cannot verify a certificate for the address: IPv6 over TLS."""
        if self.scheme == "tls" and self.host.startswith("["):
            raise AgentError(
                f"{device} cannot be reached at {self}: zenoh does not verify a certificate for an "
                "IPv6 address; use a host name that resolves to it, and issue for that name"
            )

    def __str__(self) -> str:
        """As zenoh writes it."""
        return f"{self.scheme}/{self.host}:{self.port}"


def settings(
    network: str,
    device: str,
    listen: Sequence[Endpoint],
    connect: Collection[Endpoint],
    neighbours: Collection[str],
    credentials: Credentials | None,
) -> dict[str, Any]:
    """The session's configuration as key -> value; without credentials for loopback only."""
    chosen = {
        "mode": "peer",
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": False,
        "listen/endpoints": [str(endpoint) for endpoint in listen],
        "connect/endpoints": [str(endpoint) for endpoint in connect],
        "connect/timeout_ms": -1,  # without limit, in the background
        "connect/exit_on_failure": False,
        "connect/retry": RETRY,
        "listen/exit_on_failure": True,
        "listen/timeout_ms": 2000,  # a port may be held by a process that is about to exit
        "listen/retry": RETRY,
        "open/return_conditions/connect_scouted": False,
        "open/return_conditions/declares": False,
        "transport/link/protocols": ["tls" if credentials else "tcp"],
        "transport/link/tx/lease": LEASE,
        "transport/link/tx/queue/congestion_control/drop/wait_before_drop": WAIT_BEFORE_DROP,
        "transport/link/rx/max_message_size": LARGEST,
        "transport/unicast/max_sessions": 2 * len(neighbours) + 64,
        "transport/shared_memory/enabled": False,
        "adminspace/enabled": False,
    }
    if credentials:
        chosen["transport/link/tls"] = _tls(credentials)
        chosen["access_control"] = access_control(network, device, neighbours)
    return chosen


def _tls(credentials: Credentials) -> Mapping[str, Any]:
    certificate, key = str(credentials.certificate), str(credentials.key)
    return {
        "root_ca_certificate": str(credentials.ca),
        "listen_certificate": certificate,
        "listen_private_key": key,
        "connect_certificate": certificate,
        "connect_private_key": key,
        "enable_mtls": True,
        "verify_name_on_connect": True,
        "close_link_on_expiration": True,
    }


def access_control(network: str, device: str, neighbours: Collection[str]) -> Mapping[str, Any]:
    """Deny by default; a neighbour publishes under its own name to us, and receives from us."""
    rules, subjects, policies = [], [], []
    for k, other in enumerate(sorted(neighbours)):
        allowed = (
            ("ingress", PUBLISH, f"{key_prefix(network, other, device)}/**"),
            ("ingress", SUBSCRIBE, f"{key_prefix(network, '*', other)}/**"),
            ("egress", PUBLISH, f"{key_prefix(network, device, other)}/**"),
            ("egress", SUBSCRIBE, f"{key_prefix(network, '*', device)}/**"),
        )
        names = [f"{k}-{number}" for number in range(len(allowed))]
        rules += [
            {"id": i, "permission": "allow", "flows": [f], "messages": list(m), "key_exprs": [e]}
            for i, (f, m, e) in zip(names, allowed, strict=True)
        ]
        subjects.append({"id": f"{k}", "cert_common_names": [other]})
        policies.append({"id": f"{k}", "rules": names, "subjects": [f"{k}"]})
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": rules,
        "subjects": subjects,
        "policies": policies,
    }


def link_problem(device: str, endpoint: Endpoint, credentials: Credentials) -> str | None:
    """Why a link to a device cannot be made; None if it can, or if there is no answer.

    zenoh retries without end and gives the reason only in its own log. This attempts the same
    handshake once with Python's TLS, so that a log line can name the device: its certificate has
    expired, is of another authority or for another name, or it does not accept ours.
    """
    try:
        name = _common_name(endpoint, credentials)
    except ssl.SSLCertVerificationError as problem:
        return f"its certificate is not accepted: {problem.verify_message or problem.reason}"
    except ssl.SSLEOFError:  # no alert: a proxy whose far end is down does so, too
        return "it ends the handshake without a reason; is it running, and does it listen there?"
    except ssl.SSLError as problem:
        alert = (problem.reason or "refused").lower().replace("_", " ")
        return f"{NOT_ACCEPTED}: {alert}"
    except OSError:
        return None
    if name != device:
        return f"a certificate for {name!r} is presented at {endpoint}, expected {device!r}"
    return None


def _common_name(endpoint: Endpoint, credentials: Credentials) -> str:
    """Complete a handshake, wait for an alert, and return the name of the device that answered."""
    context = ssl.create_default_context(cafile=str(credentials.ca))
    context.load_cert_chain(str(credentials.certificate), str(credentials.key))
    host = endpoint.host.strip("[]")
    with (
        socket.create_connection((host, endpoint.port), PROBE_TIMEOUT) as plain,
        context.wrap_socket(plain, server_hostname=host) as link,
    ):
        presented = link.getpeercert() or {}
        with suppress(TimeoutError):
            link.recv(1)  # in TLS 1.3 an alert about our certificate comes after the handshake
    fields = presented.get("subject", ())
    subject = dict(pair for part in fields for pair in part)  # type: ignore[misc]
    return str(subject.get("commonName", ""))
