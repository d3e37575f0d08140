"""Why a link cannot be made, as far as the side that connects can tell.

zenoh tries again for ever and says why only in its own log. This asks the same question once with
Python's TLS, so that a log line can name the device: a certificate that has expired, one of another
authority, one for another name, or ours that is not taken there.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress

from murmura.agent.keys import Credentials
from murmura.agent.transport.zenoh_config import Endpoint

PATIENCE = 1.0  # seconds for each step


def refusal(device: str, endpoint: Endpoint, credentials: Credentials) -> str | None:
    """What stands against a link to a device; None if nothing does, or nobody answers."""
    try:
        name = _common_name(endpoint, credentials)
    except ssl.SSLCertVerificationError as problem:
        return f"its certificate is not accepted: {problem.verify_message or problem.reason}"
    except ssl.SSLError as problem:
        return f"it does not accept this device's certificate: {_alert(problem)}"
    except OSError:
        return None
    if name != device:
        return f"a certificate for {name!r} is shown at {endpoint}, expected {device!r}"
    return None


def _common_name(endpoint: Endpoint, credentials: Credentials) -> str:
    """Shake hands, wait for a protest, and say who answered."""
    context = ssl.create_default_context(cafile=str(credentials.ca))
    context.load_cert_chain(str(credentials.certificate), str(credentials.key))
    host = endpoint.host.strip("[]")
    with (
        socket.create_connection((host, endpoint.port), PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname=host) as link,
    ):
        shown = link.getpeercert() or {}
        with suppress(TimeoutError):
            link.recv(1)  # in TLS 1.3 a protest against our certificate comes after the handshake
    subject = dict(pair for part in shown.get("subject", ()) for pair in part)  # type: ignore[misc]
    return str(subject.get("commonName", ""))


def _alert(problem: ssl.SSLError) -> str:
    return (problem.reason or "refused").lower().replace("_", " ")
