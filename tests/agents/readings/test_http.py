"""A real HTTP server on loopback: its readings come once each, and its failures are survived."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.agents.readings.released import entries, run_agents, taken
from veilsum.agents.readings import HttpReadings, Pauses, SourceState
from veilsum.errors import SignalError


class Server:
    """Answers with what `answer` returns: a status, headers and a body, in pieces."""

    def __init__(self) -> None:
        self.document: Any = []
        self.status, self.headers, self.raw = 200, {}, None
        self.requests: list[Any] = []
        self.pause = 0.0
        self.httpd = self.start(0)

    status: int
    headers: dict[str, str]
    raw: bytes | None

    def start(self, port: int) -> ThreadingHTTPServer:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests.append((self.path, dict(self.headers)))
                body = json.dumps(server.document).encode() if server.raw is None else server.raw
                self.send_response(server.status)
                for name, value in {"Content-Length": str(len(body)), **server.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                for k in range(0, len(body), 1 + len(body) // 10):
                    time.sleep(server.pause)
                    try:
                        self.wfile.write(body[k : k + 1 + len(body) // 10])
                    except OSError:
                        return

            def log_message(self, *_: Any) -> None:
                pass

        ThreadingHTTPServer.allow_reuse_address = True
        made = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        made.daemon_threads = True
        threading.Thread(
            target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        return made

    def stop(self) -> None:
        self.httpd.shutdown()
        self.httpd.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.httpd.server_address[1]}/load"


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.stop()


def reading(number: int) -> dict[str, Any]:
    return {"at": number, "kwh": number + 0.25}


def source(server: Server, **options: Any) -> HttpReadings:
    chosen = {"interval": 0.02, "pauses": Pauses(0.05, 0.2), "timeout": 2.0, **options}
    return HttpReadings(server.url, "at", "kwh", **chosen)


def notice_of(readings: HttpReadings, part: str, seconds: float = 10.0) -> bool:
    texts: list[str] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert readings.next() is SourceState.WAITING
        texts += [notice.text for notice in readings.notices()]
        if any(part in text for text in texts):
            return True
        time.sleep(0.01)
    raise AssertionError(texts)


def test_a_document_with_one_reading(server: Server) -> None:
    server.document = reading(1)
    readings = source(server, token="hunter2", time="at")
    assert taken(readings, 1) == [1.25]
    assert readings.observed_at == 1.0
    time.sleep(0.1)
    assert readings.next() is SourceState.WAITING  # asked for again, and the same
    server.document = reading(2)
    assert taken(readings, 1) == [2.25]
    assert server.requests[0][1]["Authorization"] == "Bearer hunter2"
    readings.close()


def test_a_list_somewhere_in_a_document(server: Server) -> None:
    server.document = {"data": {"rows": [reading(1), reading(2), reading(2)]}}
    readings = source(server, items="/data/rows")
    assert taken(readings, 2) == [1.25, 2.25]
    server.document = {"data": {"rows": [reading(2), reading(3)]}}
    assert taken(readings, 1) == [3.25]
    readings.close()


def test_a_bad_value_is_reported_by_its_place(server: Server) -> None:
    server.document = [reading(1), {"at": 2, "kwh": "secret-77"}, {"kwh": 77.25}, reading(4)]
    readings = source(server)
    assert taken(readings, 1) == [1.25]
    with pytest.raises(
        SignalError, match=r"answer 1 of .*, reading 2, kwh is not a number"
    ) as wrong:
        taken(readings, 1)
    with pytest.raises(SignalError, match="reading 3 has no field at") as keyless:
        taken(readings, 1)
    texts = str(wrong.value) + str(keyless.value)
    assert "secret" not in texts
    assert "77.25" not in texts
    assert taken(readings, 1) == [4.25]
    readings.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"status": 500}, "answers with status 500"),
        (
            {"status": 302, "headers": {"Location": "http://127.0.0.1:1/"}},
            "answers with status 302",
        ),
        ({"raw": b"[77.25"}, "is not JSON"),
        ({"raw": b"7" * 3_000_000}, "more than 1000000 bytes"),
        ({"headers": {"Content-Length": "100"}, "raw": b"[]"}, "broke off its answer"),
        ({"pause": 0.3}, r"cannot be read \(TimeoutError\)"),
    ],
)
def test_failures_are_reported_once_and_survived(server: Server, change: Any, message: str) -> None:
    server.document = [reading(1)]
    for name, value in change.items():
        setattr(server, name, value)
    readings = source(server, timeout=1.0 if "pause" in change else 2.0)
    assert notice_of(readings, message.replace("\\", ""))
    server.status, server.headers, server.raw, server.pause = 200, {}, None, 0.0
    assert taken(readings, 1) == [1.25]
    assert notice_of(readings, "is read again")
    readings.close()


def test_each_reading_is_released_once_while_server_and_agent_restart(
    tmp_path: Path, server: Server
) -> None:
    """The document holds the last five readings and moves on; in between the server is away."""

    def reading(number: int) -> dict[str, Any]:
        return {"at": number, "kwh": f"{number}.7654321"}

    server.document = [reading(k) for k in range(1, 6)]
    port = server.httpd.server_address[1]
    state = {"down": False}

    def meanwhile(node: Any) -> None:
        if not state["down"] and node.agents["0"].ledger.releases >= 3:
            state["down"] = True
            server.stop()
            time.sleep(0.1)
            server.document = [reading(k) for k in range(4, 9)]
            server.httpd = server.start(port)

    log = run_agents(tmp_path, source(server), lambda count: count >= 8, meanwhile=meanwhile)
    first = entries(tmp_path)
    assert len(first) == 8
    server.document = [reading(k) for k in range(6, 11)]
    log += run_agents(tmp_path, source(server), lambda count: count >= 10)
    later = entries(tmp_path)
    assert later[:8] == first
    assert len({entry.origins for entry in later}) == len(later) == 10
    assert "cannot be read" in log
    assert "7654321" not in log
