"""What a node reports while it runs: JSON lines in a log, and metrics for Prometheus.

Only public information is written: rounds, peers, budgets and the text of reports. Readings, noise
and scales never come here; the node has no call that would take them.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from typing import Any, TextIO

from murmura.agents.events import AgentReport, Done
from murmura.agents.ledger import Ledger
from murmura.errors import AgentError, MissingExtraError

LEVELS = {"debug": 0, "info": 1, "warning": 2, "error": 3}
DEBUG_KINDS = {"round", "duplicate"}  # once per round and agent
WARNING_KINDS = {
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
    "gathering",
    "view",
    "quorum",
    "excluded",
    "unacknowledged",
}
MOST_LINES = 50  # about one peer, before there is at most one a second
MOST_PEERS = 1000  # names that are counted separately

OnReport = Callable[[str, AgentReport], None]


def level_of(kind: str) -> str:
    """The log level of a kind of report."""
    if kind in DEBUG_KINDS:
        return "debug"
    return "warning" if kind in WARNING_KINDS else "info"


class Log:
    """Writes JSON lines of at least a level to a stream; safe to call from any thread.

    Parameters
    ----------
    stream : TextIO, optional
        Standard error by default.
    level : str
        "debug", "info", "warning" or "error".

    Raises
    ------
    AgentError
        If there is no such level.

    Examples
    --------
    >>> import io, json
    >>> stream = io.StringIO()
    >>> Log(stream).write("peer", "north", "south is up", peer="south", round=None)
    >>> line = json.loads(stream.getvalue())
    >>> line["level"], line["kind"], line["agent"], line["peer"], line["text"]
    ('info', 'peer', 'north', 'south', 'south is up')
    """

    def __init__(self, stream: TextIO | None = None, level: str = "info") -> None:
        """Check the level."""
        if level not in LEVELS:
            raise AgentError(f"log level must be one of {', '.join(LEVELS)}; found {level!r}")
        self._stream, self._least = stream or sys.stderr, LEVELS[level]
        self._lock = threading.Lock()

    def writes(self, level: str) -> bool:
        """Whether a line of this level is written."""
        return LEVELS[level] >= self._least

    def write(
        self, kind: str, agent: str, text: str, *, level: str | None = None, **more: Any
    ) -> None:
        """Write one line; empty fields are left out."""
        level = level or level_of(kind)
        if not self.writes(level):
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
    """Counters and gauges by agent, served for Prometheus on loopback.

    Raises
    ------
    MissingExtraError
        If prometheus-client is not installed.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.round.labels("north").set(7)
    >>> metrics.registry.get_sample_value("murmura_round", {"agent": "north"})
    7.0
    """

    def __init__(self) -> None:
        """Create a separate registry, so that several nodes may share a process."""
        prometheus = _prometheus()
        self.registry = prometheus.CollectorRegistry()

        def make(kind: Any, name: str, text: str, *labels: str) -> Any:
            return kind(f"murmura_{name}", text, ["agent", *labels], registry=self.registry)

        gauge, counter = prometheus.Gauge, prometheus.Counter
        self.round = make(gauge, "round", "Current round of the agent")
        self.spent = make(gauge, "epsilon_spent", "Epsilon charged so far")
        self.remaining = make(gauge, "epsilon_remaining", "Epsilon remaining in the budget")
        self.links = make(gauge, "links_up", "Reachable neighbours")
        self.releases = make(counter, "releases", "Readings released")
        self.sent = make(counter, "messages_sent", "Messages passed to the transport")
        self.received = make(counter, "messages_received", "Messages delivered")
        self.refused = make(counter, "messages_refused", "Messages not accepted", "peer")
        self.conflicts = make(
            counter, "conflicting_releases", "Conflicting releases under one name", "peer"
        )
        self._server: Any = None

    def serve(self, port: int, host: str = "127.0.0.1") -> int:
        """Serve /metrics.

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


class Observability:
    """Log, metrics, and a callback for reports.

    Parameters
    ----------
    log : Log
        Where lines are written.
    metrics : Metrics, optional
        Without it only counts over all agents are maintained.
    on_report : callable, optional
        Called with the agent's label and every report.
    """

    def __init__(
        self, log: Log, metrics: Metrics | None = None, on_report: OnReport | None = None
    ) -> None:
        """Nothing is counted yet."""
        self.log, self.metrics, self.on_report = log, metrics, on_report
        self.counts: Counter[str] = Counter()
        self._refusals: dict[tuple[str, str], tuple[int, float]] = {}  # lines, and time of the last

    def started(self, agent: str, incarnation: int, releases: int, resumed: bool) -> None:
        """An agent started, or resumed with its state."""
        kind = "resumed" if resumed else "started"
        self.log.write(kind, agent, f"{kind} incarnation {incarnation}", releases=releases)

    def peer(self, agent: str, peer: str, up: bool, links: int) -> None:
        """A neighbour became reachable or unreachable."""
        self.log.write("peer", agent, f"{peer} is {'up' if up else 'down'}", peer=peer)
        if self.metrics is not None:
            self.metrics.links.labels(agent).set(links)

    def report(self, agent: str, report: AgentReport) -> None:
        """A report of the protocol."""
        if report.kind == "rejected":
            self.refused(agent, report.peer, report.text, report.round)
        elif report.kind != "round" or self.log.writes("debug"):
            self.log.write(report.kind, agent, report.text, round=report.round, peer=report.peer)
        if report.kind == "conflicting-releases":
            self.count("conflicts", agent, report.peer)
        if self.metrics is not None and report.kind == "round":
            self.metrics.round.labels(agent).set(report.round)
        if self.on_report is not None:
            self.on_report(agent, report)

    def refused(self, agent: str, peer: str, reason: str, round: int | None = None) -> None:
        """A message was not accepted."""
        self.count("refused", agent, peer)
        now = time.monotonic()
        if len(self._refusals) > MOST_PEERS:
            self._refusals.clear()
        lines, last = self._refusals.get((agent, peer), (0, 0.0))
        if lines < MOST_LINES or now - last >= 1.0:  # of a flood all are counted, few are logged
            self._refusals[agent, peer] = lines + 1, now
            self.log.write("refused", agent, reason, peer=peer, round=round)

    def done(self, agent: str, done: Done) -> None:
        """An agent has its estimate."""
        self.log.write("done", agent, f"done: {done.reason}", round=done.round)

    def count(self, what: str, *labels: str, times: int = 1) -> None:
        """Increase a counter."""
        self.counts[what] += times
        if self.metrics is not None:
            getattr(self.metrics, what).labels(*labels).inc(times)

    def budget(self, agent: str, ledger: Ledger, released: bool = False) -> None:
        """What was spent and what remains."""
        if self.metrics is None:
            return
        self.metrics.spent.labels(agent).set(ledger.spent.epsilon)
        self.metrics.remaining.labels(agent).set(ledger.remaining.epsilon)
        if released:
            self.metrics.releases.labels(agent).inc()


def _prometheus() -> Any:
    try:
        return import_module("prometheus_client")
    except ImportError as problem:
        raise MissingExtraError(
            "metrics need prometheus-client: pip install 'murmura[agents]'"
        ) from problem
