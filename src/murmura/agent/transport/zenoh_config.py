"""What a zenoh session is told: no scouting, TLS with certificates on both ends, deny by default.

Links exist only where an endpoint is given: multicast and gossip are off, because gossip turns a
line of three into a triangle and hands a neighbour's data to the next. Access control admits
devices by the common name on their certificate: from a neighbour D only what is under D's own
name and meant for this device, and nothing at all from anybody else.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from murmura.agent.keys import Credentials
from murmura.agent.transport.zenoh_names import space
from murmura.errors import AgentError

LEASE = 2000  # ms without a sign of life after which a peer is gone
PATIENCE = 200_000  # us that a full queue is waited for; then messages are dropped at once
RETRY = {"period_init_ms": 100, "period_max_ms": 1000, "period_increase_factor": 2}
LARGEST = 1 << 20  # bytes: longer messages are dropped before they are put together
SPEAK = ("put", "liveliness_token")
LISTEN = ("declare_subscriber", "declare_liveliness_subscriber")
ENDPOINT = re.compile(r"(?:(?P<scheme>[a-z]+)/)?(?P<host>\[[0-9a-fA-F:.]+\]|[\w.-]+):(?P<port>\d+)")


class Endpoint(NamedTuple):
    """Where a device listens."""

    scheme: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str, *, insecure: bool) -> Endpoint:
        """Read HOST:PORT or tls/HOST:PORT; without certificates tcp/ and loopback only."""
        found, scheme = ENDPOINT.fullmatch(text), "tcp" if insecure else "tls"
        if (
            not found
            or not 0 <= int(found["port"]) <= 65535
            or found["scheme"] not in (None, scheme)
        ):
            raise AgentError(
                f"{text!r} is no endpoint for {'a run without' if insecure else 'use with'} "
                f"certificates; expected {scheme}/HOST:PORT such as {scheme}/127.0.0.1:7447"
            )
        made = cls(scheme, found["host"], int(found["port"]))
        if insecure and not made.is_loopback:
            raise AgentError(
                f"{text!r} is not on the loopback: without certificates an agent neither listens "
                "nor connects elsewhere; issue certificates with `murmura keys`, or use 127.0.0.1"
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

    def check_nameable(self, device: str) -> None:
        """Raise if zenoh cannot hold the address against a certificate: IPv6 over TLS."""
        if self.scheme == "tls" and self.host.startswith("["):
            raise AgentError(
                f"{device} cannot be reached at {self}: zenoh checks no certificate against an "
                "IPv6 address; use a host name that leads there, and issue for that name"
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
        "connect/timeout_ms": -1,  # for ever, in the background
        "connect/exit_on_failure": False,
        "connect/retry": RETRY,
        "listen/exit_on_failure": True,
        "listen/timeout_ms": 2000,  # a port may be held by a process that is just ending
        "listen/retry": RETRY,
        "open/return_conditions/connect_scouted": False,
        "open/return_conditions/declares": False,
        "transport/link/protocols": ["tls" if credentials else "tcp"],
        "transport/link/tx/lease": LEASE,
        "transport/link/tx/queue/congestion_control/drop/wait_before_drop": PATIENCE,
        "transport/link/rx/max_message_size": LARGEST,
        "transport/unicast/max_sessions": 2 * len(neighbours) + 64,
        "transport/shared_memory/enabled": False,
        "adminspace/enabled": False,
    }
    if credentials:
        chosen["transport/link/tls"] = _tls(credentials)
        chosen["access_control"] = access(network, device, neighbours)
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


def access(network: str, device: str, neighbours: Collection[str]) -> Mapping[str, Any]:
    """Deny by default; a neighbour speaks under its own name to us, and hears us speak to it."""
    rules, subjects, policies = [], [], []
    for k, other in enumerate(sorted(neighbours)):
        wanted = (
            ("ingress", SPEAK, f"{space(network, other, device)}/**"),
            ("ingress", LISTEN, f"{space(network, '*', other)}/**"),
            ("egress", SPEAK, f"{space(network, device, other)}/**"),
            ("egress", LISTEN, f"{space(network, '*', device)}/**"),
        )
        names = [f"{k}-{number}" for number in range(len(wanted))]
        rules += [
            {"id": i, "permission": "allow", "flows": [f], "messages": list(m), "key_exprs": [e]}
            for i, (f, m, e) in zip(names, wanted, strict=True)
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
