"""What the suites over observers have in common: statuses, a site that serves them, bare clients."""

from __future__ import annotations

import io
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from veilsum.agents.coverage import Coverage
from veilsum.agents.messages import StatusMessage
from veilsum.agents.observers import StatusPublisher
from veilsum.agents.pki import Authority, Credentials
from veilsum.agents.results import AgentResult
from veilsum.agents.runtime.facts import BudgetFacts
from veilsum.agents.runtime.log import Log
from veilsum.agents.runtime.status import AgentStatus
from veilsum.agents.transport.zenoh_config import Endpoint
from veilsum.agents.wire import decode_status

PATIENCE = 10.0
LABELS = ("north", "east", "west")


def status(
    round: int = 3, label: str = "north", manifest: str = "c0ffee11" * 8, **more: Any
) -> AgentStatus:
    result = AgentResult(
        label, "suppliers", manifest, round, "running", (48.5,), (48.5,), (3.5,), None, 0.95,
        Coverage(LABELS, LABELS, (1, 1, 1)), 3, 1.0, 0.0, "(1, 0)-DP for one reading",
    )  # fmt: skip
    budget = BudgetFacts(1.0, 0.5, 0.5, 0.5, 0.0, "stream", "", None)
    facts: dict[str, Any] = {"state": "running", "covered": True} | more
    return AgentStatus(
        result, facts.pop("state"), {"released": 3, "refused": 2}, budget, {"east": "open"},
        1_800_000_000.25, 41.5, 1_800_000_003.75, **facts,
    )  # fmt: skip


class PublishedSite:
    """A publisher on loopback, and the log that it writes."""

    def __init__(self, authority: Authority, allow: list[str], label: str = "north") -> None:
        self.written = io.StringIO()
        self.publisher = StatusPublisher(
            label, Endpoint("tls", "127.0.0.1", 0), authority.credentials(label), label, allow
        )
        self.port = self.publisher.start(Log(self.written))

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("tls", "127.0.0.1", self.port)

    @property
    def log(self) -> list[str]:
        return [json.loads(line)["text"] for line in self.written.getvalue().splitlines()]

    def says(self, text: str) -> None:
        wait_for(lambda: any(text in line for line in self.log), f"a line with {text!r}")


@contextmanager
def site(authority: Authority, *allow: str, label: str = "north") -> Iterator[PublishedSite]:
    made = PublishedSite(authority, list(allow), label)
    try:
        yield made
    finally:
        made.publisher.close()


def wait_for(condition: Callable[[], Any], what: str, patience: float = PATIENCE) -> None:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < patience, f"waited {patience} s in vain for {what}"
        time.sleep(0.005)


def connect(port: int, credentials: Credentials | None, ca: Any = None) -> ssl.SSLSocket:
    """A bare client, which obeys no rule but those of the site."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cafile=str(ca or (credentials and credentials.ca)))
    if credentials is not None:
        context.load_cert_chain(str(credentials.certificate), str(credentials.key))
    plain = socket.create_connection(("127.0.0.1", port), PATIENCE)
    try:
        return context.wrap_socket(plain, server_hostname="127.0.0.1")
    except BaseException:
        plain.close()
        raise


def receive(link: ssl.SSLSocket) -> StatusMessage | None:
    """The next status; None if the site ends the link instead."""
    try:
        head = _exactly(link, 4)
        return decode_status(_exactly(link, int.from_bytes(head, "big")))
    except (ssl.SSLError, ConnectionError):
        return None


def _exactly(link: ssl.SSLSocket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = link.recv(size - len(found))
        if not more:
            raise ConnectionError
        found += more
    return found
