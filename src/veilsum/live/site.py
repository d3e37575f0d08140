"""The page of one site: what its agent has found, what it spent, who is there, what happened.

Everything on it comes from `AgentStatus` and from the lines of the log, neither of which has a
reading. On loopback it shows the whole status, without process numbers. Beyond loopback it shows what
observers may have (`AgentStatus.public`), without the log and the metrics: those count readings that
were refused or passed over, which depends on the readings.

The history is kept here, so that it survives a reload of the browser: at most `MOST_POINTS` points,
of which every second one is removed when there are more.
"""

from __future__ import annotations

import re
import time
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

from veilsum import __version__
from veilsum.agents.manifest import Manifest
from veilsum.agents.runtime.endpoints import Endpoints
from veilsum.agents.runtime.metrics import AMOUNTS, GONE
from veilsum.agents.runtime.observability import Log, Metrics
from veilsum.agents.runtime.reporter import StatusReporter
from veilsum.agents.runtime.status import AgentStatus
from veilsum.live.hub import Hub
from veilsum.live.security import PageAddress, PageTls
from veilsum.live.server import PageServer, answer_route, page_route

MOST_POINTS = 600  # of the history
MOST_LINES = 100  # of the log
MOST_MEMBERS = 200  # whose names are listed
LONGEST_LINE = 400  # characters
ABSOLUTE = re.compile(r"(?<![\w:/.])/(?:[^\s/;,'\"()]+/)+(?=[^\s/;,'\"()])")  # folders of a path
LOCAL = "Only this machine can open this page."
REMOTE = "Members of the fleet and its observers can open this page."


class SitePage:
    """Shows one agent in browsers.

    Parameters
    ----------
    agent : str
        Its label.
    manifest : Manifest
        The terms of its network.
    address : PageAddress
        Where the page is served.
    tls : PageTls, optional
        Needed beyond loopback.
    folder : Path, optional
        Of the agent's files: it is left out of the lines of the log.

    Raises
    ------
    AgentError
        If others could open the page without a certificate.
    """

    def __init__(
        self,
        agent: str,
        manifest: Manifest,
        address: PageAddress,
        tls: PageTls | None = None,
        *,
        folder: Path | None = None,
    ) -> None:
        """Nothing is served yet."""
        self._endpoints: Endpoints | None = None
        self._everything = tls is None
        self._folder = "" if folder is None else f"{folder}/"
        members = manifest.labels
        terms = {
            "agent": agent,
            "network": manifest.name,
            "manifest": manifest.digest.hex(),
            "members": list(members[:MOST_MEMBERS]),
            "rounds": manifest.rounds,
            "epoch": manifest.epoch,
            "most_points": MOST_POINTS,
            "most_lines": MOST_LINES,
        }
        start: dict[str, Any] = {"terms": terms, "status": None, "history": [], "log": []}
        self.hub = Hub(start, apply=apply)
        page = page_route(
            "/", "site.html", title=agent, subtitle=f"agent of {manifest.name}",
            manifest=manifest.digest.hex(), version=__version__, most_lines=MOST_LINES,
            everything=self._everything, scope=LOCAL if self._everything else REMOTE,
        )  # fmt: skip
        paths = ["/healthz", "/readyz", "/status.json", *(["/metrics"] if self._everything else [])]
        routes = [page, *(answer_route(path, partial(self._answer, path)) for path in paths)]
        self.server = PageServer(routes, self.hub, address, tls, beat=self._beat)

    def start(self) -> str:
        """Serve the page, before there is an agent: a port that is taken is an error here.

        Returns
        -------
        str
            The address for a browser.
        """
        return self.server.start()

    def attach(self, reporter: StatusReporter, metrics: Metrics, log: Log, agent: str) -> None:
        """Show what an agent reports from now on.

        Parameters
        ----------
        reporter : StatusReporter
            Its statuses, and the beat of its loop.
        metrics : Metrics
            What /metrics shows.
        log : Log
            Its lines; a server that fails later says so there.
        agent : str
            Its label.
        """
        self._endpoints = Endpoints(reporter, metrics)
        self.server.on_problem = lambda text: log.write("page", agent, text, level="error")
        reporter.receivers.append(self.status)
        log.receivers.append(self.line)

    def close(self) -> None:
        """End the page, after the last status."""
        self.server.close()

    def status(self, status: AgentStatus) -> None:
        """Show a new status; a receiver of `StatusReporter`."""
        data = shown(status) if self._everything else status.public()
        self.hub.publish("status", {"status": data, "point": point(data)})

    def line(self, line: dict[str, Any]) -> None:
        """Show a line of the log; a receiver of `Log`."""
        if self._everything:
            text = without_folders(str(line["text"]), self._folder)
            names = ("level", "kind", "peer", "round", "omitted")
            kept = {name: line[name] for name in names if name in line}
            self.hub.publish("line", kept | {"time": time.time(), "text": text[:LONGEST_LINE]})

    def _beat(self) -> dict[str, Any]:
        found = self._endpoints
        problems = ["the agent is starting"] if found is None else found.problems_of_health()
        return {"time": time.time(), "problems": problems}

    def _answer(self, path: str) -> tuple[int, str, bytes]:
        if self._endpoints is None:
            return HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", b"the agent is starting\n"
        return self._endpoints.answer(path, public=not self._everything)


def apply(snapshot: dict[str, Any], kind: str, data: dict[str, Any]) -> None:
    """What an event changes of the page's snapshot: the status and its history, or the log."""
    if kind == "line":
        snapshot["log"] = [data, *snapshot["log"]][:MOST_LINES]
    else:
        snapshot["status"] = data["status"]
        snapshot["history"].append(data["point"])
        if len(snapshot["history"]) > MOST_POINTS:
            snapshot["history"] = thinned(snapshot["history"])


def thinned(points: list[Any]) -> list[Any]:
    """Every second point, and the last.

    Examples
    --------
    >>> thinned([1, 2, 3, 4, 5, 6])
    [1, 3, 5, 6]
    """
    return [*points[:-1:2], points[-1]]


def shown(status: AgentStatus) -> dict[str, Any]:
    """A status as its own site may see it: all but the process; long lists are cut."""
    data = status.to_json()
    for name in ("process", "machine", "unprojected"):
        del data[name]
    covered, lost = data["coverage"], {}
    for name in ("missing", "absent", *GONE):
        if len(covered[name]) > MOST_MEMBERS:
            lost[name] = len(covered[name]) - MOST_MEMBERS
            covered[name] = covered[name][:MOST_MEMBERS]
    return data | {"left_out": lost}


def point(data: dict[str, Any]) -> dict[str, Any]:
    """What the history keeps of a status."""
    budget = data["budget"] or dict.fromkeys(AMOUNTS)
    return {
        "time": data["time"],
        "round": data["round"],
        "estimate": data["estimate"],
        "half_width": data["half_width"],
        "contributing": data["coverage"]["contributing"],
    } | {name: budget[name] for name in AMOUNTS}


def without_folders(text: str, folder: str = "") -> str:
    """A text with the names of files, and without the folders that they are in.

    Examples
    --------
    >>> without_folders("cannot read /var/site a/x.csv; see /etc/passwd", "/var/site a/")
    'cannot read x.csv; see passwd'
    >>> without_folders("http://127.0.0.1:9464/metrics")
    'http://127.0.0.1:9464/metrics'
    """
    return ABSOLUTE.sub("", text.replace(folder, "") if folder else text)
