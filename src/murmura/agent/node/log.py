"""What an agent says while it runs: one JSON object a line, and metrics on request.

Nothing is written that was not meant to be public: rounds, peers, budgets and the words of reports.
Readings, noise and scales never come here; the node has no call that would take them.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from importlib import import_module
from typing import Any, TextIO

from murmura.errors import AgentError, MissingExtraError

LEVELS = {"debug": 0, "info": 1, "warning": 2, "error": 3}
QUIET = {"round", "duplicate"}  # once a round and agent: for debugging only
LOUD = {
    "rejected",
    "refused",
    "mismatch",
    "rolled-back",
    "conflicting-releases",
    "budget",
    "reading",
    "readings",
    "alone",
    "left",
}


def level_of(kind: str) -> str:
    """How loud a kind of report is."""
    if kind in QUIET:
        return "debug"
    return "warning" if kind in LOUD else "info"


class Log:
    """Writes lines of at least a level to a stream; safe to call from any thread."""

    def __init__(self, stream: TextIO | None = None, level: str = "info") -> None:
        """`level` is one of debug, info, warning, error."""
        if level not in LEVELS:
            raise AgentError(f"log level must be one of {', '.join(LEVELS)}; found {level!r}")
        self._stream, self._least = stream or sys.stderr, LEVELS[level]
        self._lock = threading.Lock()

    def hears(self, level: str) -> bool:
        """Whether a line of this level is written."""
        return LEVELS[level] >= self._least

    def say(
        self, kind: str, agent: str, text: str, *, level: str | None = None, **more: Any
    ) -> None:
        """Write one line; empty fields are left out."""
        level = level or level_of(kind)
        if not self.hears(level):
            return
        now = time.time()
        stamp = (
            time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"
        )
        line = {"time": stamp, "level": level, "kind": kind, "agent": agent}
        line |= {key: value for key, value in more.items() if value not in ("", None)}
        written = json.dumps(line | {"text": text}, ensure_ascii=False)
        with self._lock:
            print(written, file=self._stream, flush=True)


class Metrics:
    """Counters and gauges by agent, served for Prometheus on loopback."""

    def __init__(self) -> None:
        """Make a registry of its own, so that several nodes may share a process."""
        prometheus = _prometheus()
        self.registry = prometheus.CollectorRegistry()

        def make(kind: Any, name: str, words: str, *labels: str) -> Any:
            return kind(f"murmura_{name}", words, ["agent", *labels], registry=self.registry)

        gauge, counter = prometheus.Gauge, prometheus.Counter
        self.round = make(gauge, "round", "Round that the agent is in")
        self.spent = make(gauge, "epsilon_spent", "Epsilon charged so far")
        self.remaining = make(gauge, "epsilon_remaining", "Epsilon left of the budget")
        self.links = make(gauge, "links_up", "Neighbours that can be reached")
        self.releases = make(counter, "releases", "Readings released")
        self.sent = make(counter, "messages_sent", "Messages handed to the transport")
        self.received = make(counter, "messages_received", "Messages delivered")
        self.refused = make(counter, "messages_refused", "Messages not accepted", "peer")
        self.conflicts = make(
            counter, "conflicting_releases", "Releases of a name that contradict others", "peer"
        )
        self._server: Any = None

    def serve(self, port: int, host: str = "127.0.0.1") -> int:
        """Serve /metrics; port 0 takes any free one. Gives the port."""
        try:
            self._server, _ = _prometheus().start_http_server(port, host, self.registry)
        except OSError as problem:
            raise AgentError(
                f"cannot serve metrics on {host}:{port}: {problem.strerror}; "
                "choose another --metrics"
            ) from None
        return int(self._server.server_port)

    def close(self) -> None:
        """Stop serving; may be called twice."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


def _prometheus() -> Any:
    try:
        return import_module("prometheus_client")
    except ImportError as problem:
        raise MissingExtraError(
            "metrics need prometheus-client: pip install 'murmura[agents]'"
        ) from problem
