"""A relay and the sites behind it are held to their certificates while they run."""

import datetime as dt
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from tests.agents.relay.test_relay import (
    HERE,
    MEMBERS,
    Running,
    credentials,
    read_line,
    request,
)
from veilsum.agents.observers.watcher import client_context
from veilsum.agents.pki import Authority
from veilsum.agents.relay import RelayConnector, server
from veilsum.agents.relay.exchange import Request


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority.create(tmp_path)
    for name in ("north", "east", "relay"):
        made.issue(name, [HERE])
    return made


@pytest.fixture
def running(authority: Authority, monkeypatch: Any) -> Iterator[Running]:
    monkeypatch.setattr(server, "REVIEW", 0.05)
    made = Running(authority.directory)
    made.relay._watch._pause = 0.05
    yield made
    made.close()


def until(holds: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def serials(running: Running, name: str) -> set[int]:
    """Of the certificates that a site has shown to the relay, and is connected with."""
    found = [one for one in list(running.relay._shown.values()) if one.name == name]
    return {x509.load_der_x509_certificate(one.certificate).serial_number for one in found}


def serial(authority: Authority, name: str) -> int:
    file = authority.directory / f"{name}.pem"
    return x509.load_pem_x509_certificate(file.read_bytes()).serial_number


def test_a_member_that_is_denied_loses_its_connections_and_gets_none(
    running: Running, authority: Authority
) -> None:
    keys = authority.directory
    waits = request(running, keys, "east", Request().line())
    other = request(running, keys, "north", Request().line())
    until(lambda: {"north", "east"} <= running.relay._waiting.keys(), "both wait")
    authority.revoke("east", reason="stolen")
    with suppress(OSError):  # cut without a farewell of TLS
        assert waits.recv(1) == b""
    link = request(running, keys, "east", Request().line())
    assert b"its name is on deny list 1" in read_line(link)
    assert set(running.relay._waiting) == {"north"}
    refused = {line[1] for line in running.lines if line[0] == "refused"}
    assert refused == {"east"}
    for each in (waits, other, link):
        each.close()


def test_a_connection_ends_with_its_certificate(running: Running, authority: Authority) -> None:
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    authority.issue("east", renew=True, not_after=soon)
    waits = request(running, authority.directory, "east", Request().line())
    until(lambda: "east" in running.relay._waiting, "it waits")
    watch = running.relay._watch
    watch.wall = watch.trust.wall = lambda: soon.timestamp() + 0.001
    with suppress(OSError):
        assert waits.recv(1) == b""
    until(lambda: any("expired at" in line[2] for line in running.lines), "it says why")
    waits.close()


def test_the_relay_shows_the_certificate_that_replaced_its_own(
    running: Running, authority: Authority
) -> None:
    authority.issue("relay", renew=True, new_key=True)
    wanted, context = (
        serial(authority, "relay"),
        client_context(credentials(authority.directory, "north")),
    )

    def shown() -> int:
        with (
            socket.create_connection((HERE, running.relay.port), 20) as plain,
            context.wrap_socket(plain, server_hostname=HERE) as link,
        ):
            return x509.load_der_x509_certificate(link.getpeercert(True) or b"").serial_number

    until(lambda: shown() == wanted, "the new certificate is served")


def test_a_site_connects_with_the_certificate_that_replaced_its_own(
    running: Running, authority: Authority
) -> None:
    """Otherwise it is cut off from the relay when the first one ends."""
    made = RelayConnector(
        running.at, credentials(authority.directory, "north"), None, {"east": "east"}, MEMBERS
    )
    made.start()
    try:
        authority.issue("north", renew=True, new_key=True)
        waits = request(running, authority.directory, "east", Request().line())
        with socket.create_connection((HERE, made.ports["east"]), 20):
            until(lambda: serials(running, "north"), "it calls")
            assert serials(running, "north") == {serial(authority, "north")}
        waits.close()
    finally:
        made.close()
