"""What a node reports while it runs: lines in a log, counters, and a callback for reports.

Only public information is written: rounds, peers, budgets and the text of reports. Readings, noise
and scales never come here; the node has no call that would take them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from murmura.agents.events import AgentReport, Done
from murmura.agents.ledger import Ledger
from murmura.agents.runtime.log import LEVELS, Log, level_of
from murmura.agents.runtime.metrics import OUTCOMES, Metrics

__all__ = ["LEVELS", "OUTCOMES", "Log", "Metrics", "Observability", "OnReport", "level_of"]

OnReport = Callable[[str, AgentReport], None]


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

    Attributes
    ----------
    counts : Counter
        Messages sent, received and refused, of all agents.
    """

    def __init__(
        self, log: Log, metrics: Metrics | None = None, on_report: OnReport | None = None
    ) -> None:
        """Nothing is counted yet."""
        self.log, self.metrics, self.on_report = log, metrics, on_report
        self.counts: Counter[str] = Counter()

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
        """A message was not accepted: all are counted, few are logged."""
        self.count("refused", agent, peer)
        self.log.write("refused", agent, reason, peer=peer, round=round)

    def done(self, agent: str, done: Done) -> None:
        """An agent has its estimate."""
        self.log.write("done", agent, f"done: {done.reason}", round=done.round)

    def count(self, what: str, agent: str, *peer: str, times: int = 1) -> None:
        """Increase a counter of messages."""
        self.counts[what] += times
        if self.metrics is not None:
            labels = [self.metrics.peer(agent, name) for name in peer]
            getattr(self.metrics, what).labels(agent, *labels).inc(times)

    def budget(self, agent: str, ledger: Ledger) -> None:
        """What was spent and what remains."""
        if self.metrics is not None:
            self.metrics.spent.labels(agent).set(ledger.spent.epsilon)
            self.metrics.remaining.labels(agent).set(ledger.remaining.epsilon)

    def close(self) -> None:
        """Say in the log what was left out of it."""
        self.log.close()
