"""What a node says of its agents: lines in the log, and numbers for Prometheus."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from murmura.agent.events import Done, Report
from murmura.agent.ledger import Ledger
from murmura.agent.node.log import Log, Metrics

MOST_LINES = 50  # of one peer, before there is one a second
MOST_PEERS = 1000  # names that are told apart

Told = Callable[[str, Report], None]


class Voice:
    """Log and metrics together, and whoever else listens to reports."""

    def __init__(self, log: Log, metrics: Metrics | None, told: Told | None) -> None:
        """Without metrics only counts of all agents together are kept."""
        self.log, self.metrics, self.told = log, metrics, told
        self.counts: Counter[str] = Counter()
        self._lines: dict[tuple[str, str], tuple[int, float]] = {}  # refusals logged, and when last

    def began(self, agent: str, life: int, releases: int, resumed: bool) -> None:
        """An agent began, or came back."""
        kind, text = ("resumed", "resumed life") if resumed else ("started", "began life")
        self.log.say(kind, agent, f"{text} {life}", releases=releases)

    def peer(self, agent: str, peer: str, up: bool, links: int) -> None:
        """A neighbour came or went."""
        self.log.say("peer", agent, f"{peer} is {'up' if up else 'down'}", peer=peer)
        if self.metrics is not None:
            self.metrics.links.labels(agent).set(links)

    def report(self, agent: str, report: Report) -> None:
        """What a core reports."""
        if report.kind == "rejected":
            self.refused(agent, report.peer, report.text, report.round)
        elif report.kind != "round" or self.log.hears("debug"):
            self.log.say(report.kind, agent, report.text, round=report.round, peer=report.peer)
        if report.kind == "conflicting-releases":
            self.count("conflicts", agent, report.peer)
        if self.metrics is not None and report.kind == "round":
            self.metrics.round.labels(agent).set(report.round)
        if self.told is not None:
            self.told(agent, report)

    def refused(self, agent: str, peer: str, reason: str, round: int | None = None) -> None:
        """A message was not accepted."""
        self.count("refused", agent, peer)
        now = time.monotonic()
        if len(self._lines) > MOST_PEERS:
            self._lines.clear()
        lines, last = self._lines.get((agent, peer), (0, 0.0))
        if lines < MOST_LINES or now - last >= 1.0:  # a flood is counted, not written down
            self._lines[agent, peer] = lines + 1, now
            self.log.say("refused", agent, reason, peer=peer, round=round)

    def done(self, agent: str, done: Done) -> None:
        """An agent has its estimate."""
        self.log.say("done", agent, f"done: {done.reason}", round=done.round)

    def count(self, what: str, *labels: str, times: int = 1) -> None:
        """One more of something, or several."""
        self.counts[what] += times
        if self.metrics is not None:
            getattr(self.metrics, what).labels(*labels).inc(times)

    def budget(self, agent: str, ledger: Ledger, released: bool = False) -> None:
        """What was spent and what is left."""
        if self.metrics is None:
            return
        self.metrics.spent.labels(agent).set(ledger.spent.epsilon)
        self.metrics.remaining.labels(agent).set(ledger.remaining.epsilon)
        if released:
            self.metrics.releases.labels(agent).inc()
