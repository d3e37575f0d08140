"""The server of a page on loopback: what it answers, whom it refuses, and that it ends."""

import http.client
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from veilsum.errors import AgentError
from veilsum.live import server as module
from veilsum.live.hub import Hub
from veilsum.live.security import HEADERS, PageAddress, allowed_hosts, parse_address
from veilsum.live.server import PageServer, page_route

LOCAL = PageAddress("127.0.0.1", 0)


class Served:
    """A page with its hub, and requests to it."""

    def __init__(self) -> None:
        self.hub = Hub({"name": "north"})
        page = page_route("/", "base.html", title="north <b>", subtitle="an agent")
        self.server = PageServer([page], self.hub, LOCAL, beat=lambda: {"problems": []})
        self.url = self.server.start()
        self.port = int(self.url.rstrip("/").rpartition(":")[2])

    def ask(self, path: str = "/", method: str = "GET", **headers: str) -> tuple[int, Any, bytes]:
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, headers=named)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def stream(self) -> http.client.HTTPResponse:
        """An open stream of events; closing it closes the connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", "/events", headers={"connection": "close"})
        return connection.getresponse()


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.server.close()


def event(response: http.client.HTTPResponse) -> dict[str, str]:
    """The next event of a stream, without comments and `retry`."""
    found: dict[str, str] = {}
    while True:
        line = response.readline().decode()
        assert line, "the stream has ended"
        key, _, value = line.rstrip("\n").partition(": ")
        if line == "\n" and "data" in found:
            return found
        found = {} if line == "\n" else found | ({key: value} if key else {})


def test_a_page_is_escaped_and_every_answer_has_the_headers(served: Served) -> None:
    status, headers, content = served.ask()
    assert status == 200
    assert b"<title>north &lt;b&gt;</title>" in content
    for path in ("/", "/static/base.css", "/static/stream.js", "/static/charts.js", "/none"):
        _, headers, _ = served.ask(path)
        assert {key: headers[key] for key in HEADERS} == HEADERS
    assert "server" not in headers


@pytest.mark.parametrize("path", ["/static/../server.py", "/static/", "/static/base.html", "/x"])
def test_only_the_static_files_are_served(served: Served, path: str) -> None:
    assert served.ask(path)[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_a_page_is_only_read(served: Served, method: str) -> None:
    status, headers, _ = served.ask("/events", method)
    assert (status, headers["allow"]) == (405, "GET, HEAD")
    assert served.ask("/events", "HEAD")[0] == 200


def test_a_request_for_another_host_is_refused(served: Served) -> None:
    """DNS rebinding: a name of somebody else that resolves to this address."""
    for host in ("evil.example", f"evil.example:{served.port}", "127.0.0.1", "127.0.0.1:1", ""):
        for path in ("/", "/events", "/static/base.css", "/status.json"):
            assert served.ask(path, host=host)[0] == 421, host
    for host in (f"localhost:{served.port}", f"LOCALHOST:{served.port}"):
        assert served.ask(host=host)[0] == 200


def test_a_request_from_another_origin_is_refused(served: Served) -> None:
    for origin in ("https://evil.example", "null", f"https://127.0.0.1:{served.port}"):
        assert served.ask("/events", "HEAD", origin=origin)[0] == 403
    assert served.ask(origin=f"http://127.0.0.1:{served.port}")[0] == 200
    assert served.ask("/events", "HEAD", sec_fetch_site="cross-site")[0] == 403
    link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}
    assert served.ask("/", **link)[0] == 200, "a link from elsewhere may open the page"


def test_events_begin_with_the_snapshot(served: Served) -> None:
    served.hub.publish("status", {"round": 1})
    response = served.stream()
    assert response.headers["content-type"].startswith("text/event-stream")
    assert event(response) == {
        "id": "1", "event": "snapshot", "data": '{"name":"north","status":{"round":1}}',
    }  # fmt: skip
    assert event(response)["event"] == "beat"
    served.hub.publish("status", {"round": 2})
    assert event(response) == {"id": "2", "event": "status", "data": '{"round":2}'}
    response.close()


def test_a_beat_comes_when_nothing_happens(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BEAT", 0.05)
    response = served.stream()
    event(response)
    for _ in range(3):
        assert event(response) == {"event": "beat", "data": '{"problems": []}'}
    response.close()


def test_a_further_stream_is_asked_to_come_back(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_STREAMS", 2)
    streams = [served.stream() for _ in range(2)]
    for response in streams:
        event(response)
    status, headers, _ = served.ask("/events")
    assert (status, headers["retry-after"]) == (503, "10")
    assert served.ask("/")[0] == 200, "everything else is answered"
    for response in streams:
        response.close()


def test_a_reader_that_goes_leaves_nothing_behind(served: Served) -> None:
    for _ in range(5):
        response = served.stream()
        event(response)
        response.close()
    turn = threading.Event()
    for _ in range(200):
        if served.hub.readers == 0:
            break
        turn.wait(0.02)
    assert served.hub.readers == 0


def test_a_reader_that_never_reads_costs_a_bounded_queue(served: Served) -> None:
    """Thousands of events are published while it sleeps: nothing waits, the oldest are dropped."""
    frozen = socket.socket()
    frozen.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    frozen.connect(("127.0.0.1", served.port))
    frozen.sendall(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n\r\n".encode())
    turn = threading.Event()
    while served.hub.readers == 0:
        turn.wait(0.01)
    count, text = 5000, "x" * 2000
    for k in range(count):
        served.hub.publish("status", {"round": k, "text": text})
    (subscription,) = served.hub._subscriptions
    assert subscription.waiting <= served.hub.most_waiting
    assert 0 < served.hub.dropped < count
    response = served.stream()
    assert event(response)["id"] == str(count), "another reader is served at once"
    response.close()
    frozen.close()


def test_closing_is_not_held_up_by_open_streams(served: Served) -> None:
    streams = [served.stream() for _ in range(3)]
    frozen = socket.create_connection(("127.0.0.1", served.port))
    for response in streams:
        event(response)
    assert served.server._thread is not None
    served.server.close()
    assert not served.server._thread.is_alive()
    for response in streams:
        assert response.read().endswith(b"event: end\ndata: {}\n\n")
        response.close()
    frozen.close()
    served.server.close()


def test_a_port_in_use_is_an_error_that_says_what_to_do(served: Served) -> None:
    taken = PageServer([], Hub(), PageAddress("127.0.0.1", served.port))
    with pytest.raises(AgentError, match=r"cannot serve the page at 127.*choose another --page"):
        taken.start()


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "::", "meter-3.example.org", ""])
def test_beyond_loopback_a_page_needs_certificates(host: str) -> None:
    with pytest.raises(AgentError, match="needs certificates of the fleet's authority"):
        PageServer([], Hub(), PageAddress(host, 8080))


@pytest.mark.parametrize(
    "text", ["", "8080", "127.0.0.1", "::1:8080", "a:b", "h:65536", "a b:1", "http://h:1", "h:-1"]
)
def test_an_address_has_a_host_and_a_port(text: str) -> None:
    with pytest.raises(AgentError, match=r"such as 127\.0\.0\.1:8080"):
        parse_address(text)


def test_hosts_that_a_browser_may_ask_for() -> None:
    assert parse_address("[::1]:80") == PageAddress("::1", 80)
    hosts = allowed_hosts(PageAddress("127.0.0.2", 80), 80, None)
    assert {"127.0.0.2:80", "127.0.0.2", "localhost", "[::1]:80"} <= hosts
    assert "localhost" not in allowed_hosts(LOCAL, 8080, None)
