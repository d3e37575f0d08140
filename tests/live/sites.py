"""Three real agents with certificates on loopback, as `veilsum agent` runs them, one with a page."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from veilsum.agents.local_cluster.plan import free_ports
from veilsum.agents.pki import Authority

SITES = ("north", "east", "west")
SCENARIO = """
name = "suppliers"

[network]
graph = "links.csv"
weights = "lazy-metropolis"

[family]
name = "normal"
sigma = 10.0
bounds = [0.0, 100.0]
unit = "kWh"

[signals]
draw = { mu = 50.0 }

[privacy]
protect = "signal"
epsilon = 0.5
radius = 10.0

[algorithm]
name = "learn"
rounds = 40

[agents]
open_ended = true
quorum = 2
"""
LINKS = "source,target\nnorth,east\neast,west\nwest,north\n"
AGENT = """
name = "{name}"
scenario = "scenario.toml"
listen = ["tls/127.0.0.1:{port}"]

[peers]
{peers}

[keys]
folder = "keys"

[ledger]
path = "{name}.ledger"

[budget]
epsilon = 40.0
per = "day"

[readings]
csv = "readings.csv"
column = "load"
key = "hour"

[rounds]
deadline = 2.0
linger = 2.0
"""
PATIENCE = 120.0  # seconds; three interpreters start at once, on a machine that may be busy


class Sites:
    """Folders of three sites, their processes, and what the one with the page answers."""

    def __init__(self, home: Path, scenario: str = SCENARIO, **hosts: list[str]) -> None:
        self.home, self.running = home, dict[str, "subprocess.Popen[str]"]()
        self.readings: list[float] = []
        self._random, self._hours = random.Random(5), 0
        authority = Authority.create(home / "authority")
        self.ports = dict(zip(SITES, free_ports(len(SITES)), strict=True))
        for name in SITES:
            folder = home / name
            (folder / "keys").mkdir(parents=True, mode=0o700)
            for file in authority.issue(name, ["127.0.0.1", *hosts.get(name, [])]):
                (folder / "keys" / file.name).write_bytes(file.read_bytes())
                (folder / "keys" / file.name).chmod(0o600)
            peers = "\n".join(
                f'{peer} = "tls/127.0.0.1:{port}"'
                for peer, port in self.ports.items()
                if peer != name
            )
            text = AGENT.format(name=name, port=self.ports[name], peers=peers)
            (folder / "agent.toml").write_text(text)
            (folder / "scenario.toml").write_text(scenario)
            (folder / "links.csv").write_text(LINKS)
            (folder / "readings.csv").write_text("hour,load\n")

    def feed(self, count: int) -> None:
        """More readings for every site, each with seven digits that nothing else has."""
        hours = range(self._hours, self._hours + count)
        self._hours += count
        for name in SITES:
            found = [round(self._random.uniform(30, 70), 7) for _ in hours]
            self.readings += found
            with (self.home / name / "readings.csv").open("a") as file:
                file.writelines(f"{h},{x}\n" for h, x in zip(hours, found, strict=True))

    def start(self, name: str, *options: str) -> subprocess.Popen[str]:
        """Start the agent of a site; its log is in the folder."""
        with (self.home / f"{name}.log").open("a") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", "veilsum.cli", "agent", "agent.toml", *options],
                cwd=self.home / name, stdout=log, stderr=log, text=True,
            )  # fmt: skip
        return self.running[name]

    def kill(self, name: str) -> None:
        """End a site at once, without a farewell."""
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def stop(self, name: str, seconds: float = PATIENCE) -> int:
        """Ask a site to end; its exit code."""
        process = self.running.pop(name)
        process.terminate()
        try:
            return process.wait(seconds)
        finally:
            process.kill()
            process.wait()

    def close(self) -> None:
        """End all that still run."""
        for name in list(self.running):
            self.kill(name)

    def log(self, name: str) -> list[dict[str, Any]]:
        """The lines of a site's log."""
        text = (self.home / f"{name}.log").read_text()
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def url(self, name: str, starts: int = 1) -> str:
        """Where the page of a site is, as its log says, once it has started so often."""
        found: list[str] = []

        def there() -> bool:
            found[:] = [line["text"] for line in self.log(name) if line["kind"] == "page"]
            assert self.running[name].poll() is None, (self.home / f"{name}.log").read_text()
            return len(found) >= starts

        wait_for(there)
        return found[-1]

    def status(self, url: str) -> dict[str, Any]:
        """The status that a page has beside it."""
        with urllib.request.urlopen(f"{url}status.json", timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)["agents"][0]
        return found


def wait_for(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Until something is so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)
