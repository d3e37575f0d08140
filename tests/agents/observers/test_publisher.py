"""A site serves statuses to the observers that it allows, over real sockets; others get nothing.

Each refusal has a weakened twin: a publisher without that check serves the same client.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

from tests.agents.observers.observing import connect, receive, site, status, wait_for
from veilsum.agents.observers import StatusPublisher, publisher
from veilsum.agents.pki import Authority, Credentials, Role
from veilsum.agents.transport.zenoh_config import Endpoint
from veilsum.errors import AgentError


def test_an_allowed_observer_reads_statuses(authority: Authority) -> None:
    with site(authority, "control-room") as north:
        north.publisher(status(round=1))
        with connect(north.port, authority.credentials("control-room")) as link:
            first = receive(link)
            assert first is not None
            assert first[:3] == ("north", "control-room", 1)
            assert json.loads(first.text)["round"] == 1
            north.publisher(status(round=2))
            second = receive(link)
            assert second is not None
            assert (second.sequence, json.loads(second.text)["round"]) == (2, 2)
            north.says("control-room reads statuses")
        north.says("control-room is gone: it has closed the link")


REFUSED = {
    "a member": ("no observer's certificate", "east"),
    "not allowed": ("stranger is not allowed", "stranger"),
    "expired": ("certificate has expired", "old"),
    "foreign": (
        "self-signed certificate|unable to get local issuer|certificate signature",
        "foreign",
    ),
    "none": ("peer did not return a certificate", ""),
}


def credentials_of(name: str, authority: Authority, foreign: Authority) -> Credentials | None:
    if name == "foreign":
        found = foreign.credentials("control-room")
        return found._replace(ca=authority.directory / "ca.pem")
    return authority.credentials(name) if name else None


def outcome(north: Any, credentials: Credentials | None, authority: Authority) -> Any:
    """What a client receives; None if it is refused, in the handshake or after."""
    north.publisher(status())
    try:
        with connect(north.port, credentials, authority.directory / "ca.pem") as link:
            return receive(link)
    except (ssl.SSLError, ConnectionError):
        return None


@pytest.mark.parametrize("case", REFUSED)
def test_who_may_not_read_gets_nothing_and_is_in_the_log(
    case: str, authority: Authority, foreign: Authority
) -> None:
    words, name = REFUSED[case]
    with site(authority, "control-room", "old") as north:
        assert outcome(north, credentials_of(name, authority, foreign), authority) is None
        wait_for(lambda: any("was refused" in line for line in north.log), "a refusal in the log")
        (line,) = [line for line in north.log if "was refused" in line]
        assert any(word in line for word in words.split("|")), line
        assert outcome(north, authority.credentials("control-room"), authority) is not None


@pytest.mark.parametrize("case", REFUSED)
def test_a_weakened_twin_serves_them(
    case: str, authority: Authority, foreign: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the one check, the same client reads a status: the test above can fail."""
    _, name = REFUSED[case]
    if case in ("a member", "not allowed"):
        admit = lambda *_: ("anybody", "")  # noqa: E731
        monkeypatch.setattr(StatusPublisher, "_examine", admit)
    else:
        made = publisher.server_context

        def trusting(credentials: Credentials) -> ssl.SSLContext:
            context = made(credentials)
            context.verify_mode = ssl.CERT_NONE
            return context

        monkeypatch.setattr(publisher, "server_context", trusting)
        monkeypatch.setattr(StatusPublisher, "_examine", lambda *_: ("anybody", ""))
        monkeypatch.setattr(publisher.ObserverLink, "expiry", staticmethod(lambda _: 2e9))
        monkeypatch.setattr(publisher, "refusal", lambda *_: "")
    with site(authority, "control-room", "old") as north:
        assert outcome(north, credentials_of(name, authority, foreign), authority) is not None


def test_plain_text_gets_nothing(authority: Authority) -> None:
    with site(authority, "control-room") as north:
        north.publisher(status())
        with socket.create_connection(("127.0.0.1", north.port), 10) as plain:
            plain.sendall(b"GET /status.json HTTP/1.1\r\n\r\n")
            with suppress(ConnectionResetError):
                assert b"suppliers" not in plain.recv(4096)
        north.says("no TLS with a certificate of this fleet")


def test_refusals_do_not_fill_the_log(authority: Authority) -> None:
    with site(authority, "control-room") as north:
        for _ in range(30):
            assert outcome(north, authority.credentials("stranger"), authority) is None
        assert 1 <= sum("was refused" in line for line in north.log) <= 9


def test_an_observer_that_speaks_is_cut_off(authority: Authority) -> None:
    """There is nothing to publish, subscribe to or ask: nothing is read."""
    from veilsum.agents.messages import Hello
    from veilsum.agents.wire import encode

    with site(authority, "control-room") as north:
        with connect(north.port, authority.credentials("control-room")) as link:
            north.says("control-room reads statuses")
            link.sendall(encode(Hello("east", "north", 1, 0, 1, bytes(32), ())))
            assert receive(link) is None
        north.says("it sent something, and observers only read")


def test_a_slow_observer_misses_statuses_and_the_agent_waits_for_nobody(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "STALLED", 2.0)
    long = {f"peer-{k:03}-{'x' * 180}": "connecting" for k in range(50)}
    with site(authority, "control-room") as north:
        with connect(north.port, authority.credentials("control-room")) as slow:
            north.says("control-room reads statuses")
            sent, slowest, end = 0, 0.0, time.monotonic() + 60
            while not any("it took nothing for 2 s" in line for line in north.log):
                assert time.monotonic() < end, north.log
                began = time.monotonic()
                north.publisher(_with_links(sent, long))  # 10 kB
                slowest, sent = max(slowest, time.monotonic() - began), sent + 1
                time.sleep(0.001)  # the thread of the link sends some: more than fits into a socket
            assert slowest < 2.0  # who waits for the socket waits that long
            del slow
        with connect(north.port, authority.credentials("control-room")) as again:
            found = receive(again)
            assert found is not None
            assert found.sequence == sent  # the newest alone


def _with_links(round: int, links: dict[str, str]) -> Any:
    from dataclasses import replace

    return replace(status(round=round), links=links)


def test_one_observer_has_few_links_and_all_together_have_few(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "MOST_LINKS", 6)
    with site(authority, "control-room") as north:
        north.publisher(status())
        open_links = []
        try:
            for _ in range(publisher.MOST_OF_ONE):
                open_links.append(connect(north.port, authority.credentials("control-room")))
                assert receive(open_links[-1]) is not None
            with connect(north.port, authority.credentials("control-room")) as one_more:
                assert receive(one_more) is None
            north.says("control-room has 4 links already")
            waiting = [_silent_client(north.port) for _ in range(3)]
            north.says("there are 6 links already")
            for client in waiting:
                client.close()
        finally:
            for link in open_links:
                link.close()


def _silent_client(port: int) -> Any:
    return socket.create_connection(("127.0.0.1", port), 10)


def test_a_link_ends_when_the_certificate_does(authority: Authority) -> None:
    import datetime as dt

    end = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=2.5)
    soon = authority.issue("brief", not_after=end, role=Role.OBSERVER, force=True)
    with site(authority, "brief") as north:
        north.publisher(status())
        with connect(north.port, soon) as link:
            assert receive(link) is not None
            assert receive(link) is None
        north.says("its certificate has expired")


def test_the_last_status_is_sent_before_the_end(authority: Authority) -> None:
    own = authority.credentials("control-room")
    with site(authority, "control-room") as north, connect(north.port, own) as link:
        north.says("control-room reads statuses")
        north.publisher(status(state="stopped"))
        north.publisher.close()
        north.publisher.close()
        last = receive(link)
        assert last is not None
        assert json.loads(last.text)["state"] == "stopped"
        assert receive(link) is None


def test_a_port_that_is_taken_is_named(authority: Authority) -> None:
    from veilsum.agents.runtime.log import Log

    with site(authority, "control-room") as north:
        taken = Endpoint("tls", "127.0.0.1", north.port)
        second = StatusPublisher(
            "north", taken, authority.credentials("north"), "north", ["control-room"]
        )
        with pytest.raises(AgentError, match=r"cannot serve statuses on .*another \[observers\]"):
            second.start(Log())


def test_an_observers_certificate_serves_nothing(authority: Authority) -> None:
    with pytest.raises(AgentError, match="is for an observer, and control-room is to be a member"):
        StatusPublisher(
            "north",
            Endpoint("tls", "127.0.0.1", 0),
            authority.credentials("control-room"),
            "control-room",
            ["x"],
        )


def test_many_threads_offer_without_harm(authority: Authority) -> None:
    def offer() -> None:
        for k in range(50):
            north.publisher(status(round=k))

    own = authority.credentials("control-room")
    with site(authority, "control-room") as north, connect(north.port, own) as link:
        threads = [threading.Thread(target=offer) for _ in range(4)]
        for thread in threads:
            thread.start()
        last = 0
        while last < 200:
            found = receive(link)
            assert found is not None
            assert found.sequence > last
            last = found.sequence
        for thread in threads:
            thread.join()
