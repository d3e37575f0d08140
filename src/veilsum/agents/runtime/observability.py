"""What a node reports while it runs: lines in a log, counters, and a callback for reports.

Only public information is written: rounds, peers, budgets and the text of reports. Readings, noise
and scales never come here; the node has no call that would take them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from veilsum.agents.events import AgentReport, Done
from veilsum.agents.ledger import Ledger
from veilsum.agents.messages import RecordExchange
from veilsum.agents.runtime.log import LEVELS, Log, level_of
from veilsum.agents.runtime.metrics import AMOUNTS, OUTCOMES, UNKNOWN, Metrics

__all__ = ["LEVELS", "OUTCOMES", "Log", "Metrics", "Observability", "OnReport", "level_of"]

OnReport = Callable[[str, AgentReport], None]
LONGEST_NAME = 200  # characters of a name that anyone may have invented
EXCHANGE = 47  # bytes of a RecordExchange whose labels and parts are empty


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
        Messages sent, received and refused, and bytes of records sent, of all agents.
    """

    def __init__(
        self, log: Log, metrics: Metrics | None = None, on_report: OnReport | None = None
    ) -> None:
        """Nothing is counted yet."""
        self.log, self.metrics, self.on_report = log, metrics, on_report
        self.counts: Counter[str] = Counter()
        self._neighbours: dict[str, frozenset[str]] = {}

    def know(self, agent: str, neighbours: Iterable[str]) -> None:
        """Name the neighbours of an agent: all other names are counted together, as unknown."""
        self._neighbours[agent] = frozenset(neighbours)
        if self.metrics is not None:
            self.metrics.know(agent, self._neighbours[agent])

    def _group(self, agent: str, peer: str) -> str | None:
        """Under which name lines about a peer are counted; None for that of a neighbour."""
        known = self._neighbours.get(agent)
        return UNKNOWN if known is not None and peer and peer not in known else None

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
            self.log.write(
                report.kind, agent, report.text, group=self._group(agent, report.peer),
                round=report.round, peer=report.peer,
            )  # fmt: skip
        if report.kind == "conflicting-releases":
            self.count("conflicts", agent, report.peer)
        if self.metrics is not None and report.kind == "round":
            self.metrics.round.labels(agent).set(report.round)
        if self.on_report is not None:
            self.on_report(agent, report)

    def refused(self, agent: str, peer: str, reason: str, round: int | None = None) -> None:
        """A message was not accepted: all are counted, few are logged."""
        self.count("refused", agent, peer)
        group = self._group(agent, peer)
        self.log.write("refused", agent, reason, group=group, peer=peer[:LONGEST_NAME], round=round)

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
        """What was spent, is reserved and remains."""
        if self.metrics is not None:
            now = ledger.budget_status()
            amounts = {name: getattr(now, name).epsilon for name in AMOUNTS}
            self.metrics.show_amounts(agent, amounts)

    def close(self) -> None:
        """Say in the log what was left out of it."""
        self.log.close()


def exchange_bytes(message: RecordExchange) -> int:
    """How long `wire.encode` makes it.

    Examples
    --------
    >>> from veilsum.agents.wire import encode
    >>> message = RecordExchange("a", "b", b"12345678", 1, names=((3, bytes(16)),), chunk=b"12345")
    >>> exchange_bytes(message) == len(encode(message))
    True
    """
    names = sum(3 + len(held) for _, held in message.names)
    labels = len(message.sender.encode()) + len(message.receiver.encode())
    return EXCHANGE + labels + len(message.digests) + names + len(message.chunk)
