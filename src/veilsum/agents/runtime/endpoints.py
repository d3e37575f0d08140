"""A small server on loopback: metrics, health, readiness and status of the agents of a process.

    /metrics      for Prometheus
    /healthz      200 while the loop turns, 503 when it has not for a while
    /readyz       200 once every agent has gathered and a neighbour's link is open, 503 before
    /status.json  the last status of each agent

Answers are made of what the loop published last: a request never waits for the loop, nor the loop
for a request. At most `MOST_REQUESTS` are served at once, each for `LONGEST` seconds, so that
readers that freeze cost a few threads and nothing else. On loopback a request must name the server by an
address or as localhost: a web page could have its own name resolved to 127.0.0.1, and read the answers
in a browser of this machine (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
import json
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from veilsum._validate import HOST_AND_PORT
from veilsum.agents.runtime.metrics import Metrics
from veilsum.agents.runtime.reporter import StatusReporter
from veilsum.errors import AgentError

FROZEN = 15.0  # seconds without a turn after which the loop is not healthy
LONGEST = 10.0  # seconds for one request
MOST_REQUESTS = 16  # at once; more are refused
JSON, TEXT = "application/json", "text/plain; version=0.0.4; charset=utf-8"
ELSEWHERE = b"this is asked for as localhost or by an address; --metrics-host serves it elsewhere\n"


class Endpoints:
    """Serves the state of a node's agents.

    Parameters
    ----------
    reporter : StatusReporter
        Where statuses and the beat of the loop are found.
    metrics : Metrics
        What /metrics shows.

    Examples
    --------
    >>> from urllib.request import urlopen
    >>> from veilsum.agents.runtime.observability import Log, Observability
    >>> metrics = Metrics()
    >>> reporter = StatusReporter(None, {}, Observability(Log()))
    >>> endpoints = Endpoints(reporter, metrics)
    >>> port = endpoints.serve(0)
    >>> with urlopen(f"http://127.0.0.1:{port}/healthz") as answer:
    ...     answer.status
    200
    >>> endpoints.close()
    """

    def __init__(self, reporter: StatusReporter, metrics: Metrics) -> None:
        """Nothing is served yet."""
        self.reporter, self.metrics = reporter, metrics
        self._server: ThreadingHTTPServer | None = None

    def serve(self, port: int, host: str = "127.0.0.1") -> int:
        """Begin to serve.

        Parameters
        ----------
        port : int
            0 takes any free one.
        host : str
            Address to listen on.

        Returns
        -------
        int
            The port.

        Raises
        ------
        AgentError
            If the port is taken.
        """
        try:
            self._server = _Server((host, port), self)
        except OSError as problem:
            raise AgentError(
                f"cannot serve metrics on {host}:{port}: {problem.strerror}; "
                "choose another --metrics"
            ) from None
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop serving; may be called twice."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def answer(self, path: str, public: bool = False) -> tuple[HTTPStatus, str, bytes]:
        """The answer to a request: status, type of the content, and content.

        Parameters
        ----------
        path : str
            Such as "/healthz".
        public : bool
            Whether a status has only what observers may have.

        Returns
        -------
        tuple
            For HTTP.
        """
        if path == "/metrics":
            return HTTPStatus.OK, TEXT, self.metrics.text()
        if path == "/healthz":
            return _judged(self.problems_of_health())
        if path == "/readyz":
            return _judged(self.problems_of_health() + self._problems_of_readiness())
        if path == "/status.json":
            found = list(self.reporter.statuses.values())
            agents = [status.public() if public else status.to_json() for status in found]
            return HTTPStatus.OK, JSON, _encoded({"agents": agents})
        known = ["/metrics", "/healthz", "/readyz", "/status.json"]
        return HTTPStatus.NOT_FOUND, JSON, _encoded({"error": "no such page", "pages": known})

    def problems_of_health(self) -> list[str]:
        """What is wrong with the loop; empty if it turns."""
        still = self.reporter.clock() - self.reporter.beat
        return [f"the loop has not turned for {still:.0f} s"] if still > FROZEN else []

    def _problems_of_readiness(self) -> list[str]:
        statuses = list(self.reporter.statuses.values())
        if not statuses:
            return ["no agent has started"]
        return [
            f"{status.result.agent} is {status.state}; {status.result.coverage.sentence()}; links: "
            + ", ".join(f"{peer} {state}" for peer, state in status.links.items())
            for status in statuses
            if not status.ready
        ]


class _Server(ThreadingHTTPServer):
    """Serves a bounded number of requests at once."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = MOST_REQUESTS

    def __init__(self, address: tuple[str, int], endpoints: Endpoints) -> None:
        self.endpoints = endpoints
        self._free = threading.BoundedSemaphore(MOST_REQUESTS)
        self.is_local = is_numeric(address[0], loopback=True)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that went away is not worth a line."""


class _Handler(BaseHTTPRequestHandler):
    timeout = LONGEST
    server: _Server

    def do_GET(self) -> None:
        if self.server.is_local and not is_numeric(_host_of(self.headers.get("Host", ""))):
            status, kind, content = HTTPStatus.MISDIRECTED_REQUEST, TEXT, ELSEWHERE
        else:
            status, kind, content = self.server.endpoints.answer(self.path.split("?")[0])
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""


def _host_of(header: str) -> str:
    """The host of a header, without port and brackets; one that is missing is no browser's."""
    found = HOST_AND_PORT.fullmatch(header)
    return (found[1] if found else header).strip("[]") or "localhost"


def is_numeric(host: str, loopback: bool = False) -> bool:
    """Whether a host is an address, or localhost: no name that somebody else has given to one."""
    try:
        return ipaddress.ip_address(host).is_loopback or not loopback
    except ValueError:
        return host.lower() == "localhost"


def _judged(problems: list[str]) -> tuple[HTTPStatus, str, bytes]:
    status = HTTPStatus.SERVICE_UNAVAILABLE if problems else HTTPStatus.OK
    return status, JSON, _encoded({"ok": not problems, "problems": problems})


def _encoded(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, ensure_ascii=False).encode() + b"\n"
