"""The fleet page of `veilsum up`: follows the worker processes and serves the page."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import typer

from veilsum.agents.manifest import Manifest
from veilsum.live.fleet import FleetPage, FleetTerms
from veilsum.live.fleet_server import FleetServer
from veilsum.live.security import PageAddress, check_address

if TYPE_CHECKING:
    from veilsum.agents.local_cluster.plan import DeploymentPlan
    from veilsum.simulation import Problem

SILENT_AFTER = 4.0  # seconds without a line of a process, which prints several in that time
SLOWEST = 3  # reports of a large network that may be missing


class UpPage:
    """Serves the page of a local cluster; an observer of it."""

    def __init__(self, address: PageAddress, unit: str, title: str, estimates: bool) -> None:
        """Nothing is served yet; the address is checked."""
        check_address(address, None)
        self.address, self.unit, self.title, self.estimates = address, unit, title, estimates
        self.url = ""
        self._server: FleetServer | None = None
        self._heard: dict[str, float] = {}
        self._sites: dict[str, tuple[str, ...]] = {}
        self._latest: dict[str, int] = {}  # the last round of each site's trail
        self._running, self._patience = False, SILENT_AFTER

    @property
    def page(self) -> FleetPage:
        """The data; once `planned` was called."""
        assert self._server is not None, "a cluster is planned before it is heard"
        return self._server.page

    def planned(self, plan: DeploymentPlan, problem: Problem) -> None:
        """Serve the page of what is planned, and say where."""
        from veilsum.networks.layout import STORED, positions

        manifest, graph = Manifest.from_json(plan.manifest), problem.network.graph
        located = graph is not None and graph.positions is not None
        stored = graph is not None and graph.name in STORED
        terms = FleetTerms.of(
            manifest,
            problem.family,
            positions=positions(graph) if located or stored else None,
            placed="map" if located else "layout",
            unit=self.unit,
            title=self.title,
            estimates=self.estimates,
        )
        self._server = FleetServer(terms, self.address)
        self.url = self._server.start()
        self._sites = {each.device: each.agents for each in plan.assignments}
        self._patience = max(SILENT_AFTER, SLOWEST * terms.size / 200)
        typer.echo(f"The fleet page is at {self.url}", err=True)
        self.page.run("starting", f"{len(self._sites)} processes are starting")

    def heard(self, device: str, line: dict[str, Any]) -> None:
        """Take a line of a process."""
        now = time.time()
        self._heard[device] = now
        trail = {int(round): estimates for round, estimates in line.get("trail", {}).items()}
        for round in sorted(trail):
            self.page.record(round, trail[round])
            self._latest.update(dict.fromkeys(trail[round], round))
        for label, status in line.get("sites", {}).items():  # may be older than the trail
            newest = self._is_newer(status, self._latest.get(label, -1))
            self.page.update(label, status, now, record=newest)
        for label in self._sites[device]:
            self.page.seen(label)

    @staticmethod
    def _is_newer(status: dict[str, Any], latest: int) -> bool:
        """Whether a status says more of a round than the trail, which has its last estimate.

        A status of the same round may be from before its end; one with an interval is not.
        """
        barred = any(width is not None for width in status.get("half_width") or ())
        newer: bool = status["round"] > latest or (status["round"] == latest and barred)
        return newer

    def exited(self, device: str) -> None:
        """Sites of a process that ended before its agents were done are silent."""
        self._silence(device)

    def look(self) -> None:
        """Called several times a second: which processes have fallen silent?"""
        now = time.time()
        for device, at in self._heard.items():
            if now - at > self._patience:
                self._silence(device)
        if not self._running and len(self._heard) == len(self._sites):
            self._running = True
            self.page.run("running", f"{len(self._sites)} processes are running")

    def ended(self, seconds: float) -> None:
        """Say that the run has ended."""
        self.page.run("ended", f"the run ended after {seconds:.1f} s")

    def failed(self, problem: BaseException) -> None:
        """Say why the run has failed; the sites that are silent by then stay so."""
        if self._server is not None:
            self.page.stopped()
            self.page.run("failed", f"the run failed: {problem}")

    def stay(self, seconds: float | None) -> None:
        """Keep the page until Ctrl-C, or for so many seconds."""
        if self._server is None or seconds == 0:
            return
        until = "until Ctrl-C" if seconds is None else f"for {seconds:g} s, or until Ctrl-C"
        typer.echo(f"The fleet page stays at {self.url} {until}", err=True)
        with suppress(KeyboardInterrupt):
            threading.Event().wait(seconds)

    def close(self) -> None:
        """Serve it no more."""
        if self._server is not None:
            self._server.close()

    def _silence(self, device: str) -> None:
        since = self._heard.get(device, time.time())
        for label in self._sites[device]:
            if not self.page.has_ended(label):
                self.page.silent(label, since)
