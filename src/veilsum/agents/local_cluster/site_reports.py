"""What a worker reports of each agent for a page: bounded, and only what has changed.

Up to `MOST_TRAILS` agents, the whole deployment counted, are looked at four times a second and report
their estimate of every round as well; more are looked at once a second or less. The interval around an
estimate takes longer than a round: it is computed when all agents of the process are done, for up to
`MOST_INTERVALS`. That of a masked sum is the same for all, and always there.
"""

from __future__ import annotations

from typing import Any

from veilsum.agents.coverage import MOST_NAMES
from veilsum.agents.events import AgentReport
from veilsum.agents.intervals import project
from veilsum.agents.runtime import Node
from veilsum.agents.runtime.status import AgentStatus

MOST_INTERVALS = 60
MOST_TRAILS = 200
OFTEN = 0.25  # seconds between two reports of few agents
EACH = 1 / 200  # seconds for each agent of many
LEFT_OUT = ("process", "machine", "guarantee", "unprojected", "sampling", "readings")


class SiteReports:
    """Collects the statuses of a node's agents until the next line is printed.

    Parameters
    ----------
    node : Node
        Its reporter is set up.
    family : Family
        Of the readings, for the public bounds of estimates.
    """

    def __init__(self, node: Node, family: Any) -> None:
        """Register with the node's reporter."""
        size = len(node.manifest.members)
        self._node, self._family = node, family
        self._sites: dict[str, dict[str, Any]] = {}
        self._trail: dict[int, dict[str, float]] = {}
        self._keeps_trail, self._finished = size <= MOST_TRAILS, False
        self.pause = OFTEN if size <= MOST_TRAILS else max(1.0, size * EACH)
        node.reporter.least_interval = self.pause
        node.reporter.intervals = node.manifest.masked
        self._intervals = node.manifest.masked or size <= MOST_INTERVALS
        node.reporter.receivers.append(self._keep)

    def record(self, agent: str, report: AgentReport) -> None:
        """Take the estimate of a round."""
        if self._keeps_trail and report.estimate:
            found = project(self._family, report.estimate)
            self._trail.setdefault(report.round, {})[agent] = float(f"{found[0]:.9g}")

    def take(self, all_done: bool = False) -> dict[str, Any]:
        """What has come since the last call.

        Parameters
        ----------
        all_done : bool
            Whether every agent is done: then the last status of each is in it.

        Returns
        -------
        dict
            {"sites": {label: status}, "trail": {round: {label: estimate}}}; the statuses as of
            `AgentStatus.to_json`, without what a page does not show.
        """
        if all_done and not self._finished:
            self._finished, self._node.reporter.intervals = True, self._intervals
            for agent in self._node.agents.values():
                self._keep(self._node.reporter.status(agent))
        found = {"sites": self._sites, "trail": self._trail}
        self._sites, self._trail = {}, {}
        return found

    def _keep(self, status: AgentStatus) -> None:
        data = {name: v for name, v in status.to_json().items() if name not in LEFT_OUT}
        for name in ("missing", "absent"):
            data["coverage"][name] = data["coverage"][name][: MOST_NAMES + 1]
        self._sites[status.result.agent] = data
