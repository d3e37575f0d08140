"""Sources that show a value now: programs and addresses."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from veilsum.errors import FleetError, QuestionError
from veilsum.fleet.sources import DataSource, open_source
from veilsum.fleet.sources.base import SourceBusyError

HOUR = 3600
SECRET = "7654321"
Answer = Callable[[BaseHTTPRequestHandler], None]


def command(code: str, *arguments: str, **keys: Any) -> DataSource:
    words = [sys.executable, "-c", code, *arguments]
    return open_source({"source": "command", "command": words, **keys}, Path())


def test_a_value_of_now_stands_for_the_slot_that_ended_last() -> None:
    source = command("print(42.5)")
    for now, there in ((HOUR - 1, False), (HOUR, True), (2 * HOUR - 1, True), (2 * HOUR, False)):
        found = source.readings(0, HOUR, now)
        assert (found is not None) == there
        if found is not None:
            assert found["value"].tolist() == [42.5]


def test_a_command_that_is_asked_for_a_time_answers_for_old_slots() -> None:
    code = (
        "import sys, json; print(json.dumps({'first': sys.argv[1], 'end': sys.argv[2], 'kwh': 1}))"
    )
    found = command(code, "{start}", "{end}").readings(0, HOUR, now=100 * HOUR)
    assert found is not None
    assert {name: column.tolist() for name, column in found.items()} == {
        "first": ["1970-01-01T00:00:00Z"],
        "end": ["1970-01-01T01:00:00Z"],
        "kwh": [1.0],
    }


def test_records_with_a_time_count_in_its_slot_and_once() -> None:
    printed = [
        {"at": 10, "kwh": 1},
        {"at": 10, "kwh": 1},
        {"at": 4000, "kwh": 2},
        {"at": 20, "kwh": 3},
    ]
    source = command(f"print({json.dumps(json.dumps(printed))})", time="at")
    found = source.readings(0, HOUR, now=100 * HOUR)
    assert found is not None
    assert found["kwh"].tolist() == [1.0, 3.0]
    assert source.readings(5 * HOUR, 6 * HOUR) is None


def test_a_slot_waits_for_all_records() -> None:
    source = command("print('[1, 2]')", expected=3)
    assert source.readings(0, HOUR, now=HOUR) is None
    assert command("print('[]')").readings(0, HOUR, now=HOUR) is None


FAILURES = [
    (f"import sys; print('{SECRET}', file=sys.stderr); sys.exit(3)", "exits with code 3"),
    (f"print('no json {SECRET}')", "is no JSON text"),
    (f"print('NaN'); '{SECRET}'", "is no JSON text"),
    ("import time; time.sleep(60)", "takes more than 1 seconds"),
    ("import os, time; os.close(1); time.sleep(60)", "takes more than 1 seconds"),
    ("print('1' * 2_000_000)", "prints more than 1000000 bytes"),
    ("import os; os.kill(os.getpid(), 15)", "was ended by signal 15"),
]


@pytest.mark.parametrize(("code", "message"), FAILURES)
def test_a_command_that_fails_is_tried_again(code: str, message: str) -> None:
    with pytest.raises(SourceBusyError, match=message) as caught:
        command(code, timeout="1s").readings(0, HOUR, now=HOUR)
    assert SECRET not in str(caught.value)


def test_children_of_a_command_end_with_it(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    code = (
        "import subprocess, sys; p = subprocess.Popen(['sleep', '60']);"
        f"open({str(file)!r}, 'w').write(str(p.pid)); print(1)"
    )
    with pytest.raises(SourceBusyError, match="takes more than"):
        command(code, timeout="1s").readings(0, HOUR, now=HOUR)  # the child has its output open
    status = Path(f"/proc/{file.read_text()}/stat")
    end = time.monotonic() + 5
    while status.exists() and status.read_text().split()[2] != "Z":
        assert time.monotonic() < end
        time.sleep(0.02)


def test_values_that_are_no_columns_are_refused() -> None:
    with pytest.raises(FleetError, match="record 1, field load: expected a number or a text"):
        command("print('{\"load\": [7654321]}')").readings(0, HOUR, now=HOUR)
    with pytest.raises(FleetError, match="record 2: expected an object or a number"):
        command("print('[1, true]')").readings(0, HOUR, now=HOUR)
    with pytest.raises(QuestionError, match="has no column 'at'"):
        command("print('{\"kwh\": 1}')", time="at").readings(0, HOUR, now=HOUR)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"source": "command"}, "command: missing"),
        ({"source": "command", "command": ["x"], "timeout": "soon"}, "timeout must be"),
        ({"source": "http"}, "url: missing"),
        ({"source": "http", "url": "ftp://x"}, "needs url"),
        ({"source": "http", "url": "https://me:7654321@host"}, "no user and no password"),
        ({"source": "http", "url": "https://host", "token": "7654321"}, "token_env"),
        ({"source": "mqtt", "url": "mqtt://host"}, "topic: missing"),
        ({"source": "mqtt", "url": "tcp://host", "topic": "t", "client": "c"}, "mqtts://host"),
        (
            {"source": "mqtt", "url": "mqtt://host", "topic": "", "client": "c"},
            "topic: must be text that is not empty",
        ),
    ],
)
def test_a_wrong_key_is_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(FleetError, match=message) as caught:
        open_source(data, Path())
    assert SECRET not in str(caught.value)


def test_a_program_that_is_not_there_is_named() -> None:
    source = open_source({"source": "command", "command": "/no/such/program"}, Path())
    with pytest.raises(FleetError, match="cannot start the command /no/such/program"):
        source.readings(0, HOUR, now=HOUR)
    with pytest.raises(FleetError, match="has no table"):
        source.table()
    assert source.columns() is None


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *_: Any) -> None:
            """Nothing is logged."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def replies(body: bytes, status: int = 200, **headers: str) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return answer


def http(url: str, **keys: Any) -> DataSource:
    return open_source({"source": "http", "url": url, "timeout": "1s", **keys}, Path())


def test_a_document_behind_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        asked.append((request.path, request.headers.get("Authorization", "")))
        replies(b'{"kwh": 2.5, "who": "north"}')(request)

    monkeypatch.setenv("METER_TOKEN", SECRET)
    with answering(answer) as url:
        source = http(f"{url}/load?from={{start}}", token_env="METER_TOKEN")
        found = source.readings(0, HOUR)
    assert found is not None
    assert (found["kwh"].tolist(), found["who"].tolist()) == ([2.5], ["north"])
    assert asked == [("/load?from=1970-01-01T00:00:00Z", f"Bearer {SECRET}")]
    assert SECRET not in repr(source)


def stalls(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", "10")
    request.end_headers()
    request.wfile.write(b"1")
    time.sleep(1.5)


def breaks_off(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", "10")
    request.end_headers()
    request.wfile.write(b"1")


REPLIES: list[tuple[Answer, str]] = [
    (replies(SECRET.encode(), 500), "status 500"),
    (replies(SECRET.encode(), 429), "status 429"),
    (replies(b"", 302, Location="http://127.0.0.1:1/"), "status 302"),
    (replies(f"<{SECRET}>".encode()), "is no JSON text"),
    (replies(b" " * 1_100_000 + b"1"), "more than 1000000 bytes"),
    (stalls, "cannot be read"),
    (breaks_off, "broke off|IncompleteRead"),
]


@pytest.mark.parametrize(("answer", "message"), REPLIES)
def test_an_address_that_fails_is_asked_again(answer: Answer, message: str) -> None:
    with answering(answer) as url, pytest.raises(SourceBusyError, match=message) as caught:
        http(url).readings(0, HOUR, now=HOUR)
    assert SECRET not in str(caught.value)


def test_nobody_answers() -> None:
    with pytest.raises(SourceBusyError, match=r"cannot be read \(ConnectionRefusedError\)"):
        http("http://127.0.0.1:1/").readings(0, HOUR, now=HOUR)
