"""A real fleet of three sites with certificates, an observer of it, and its page in a real browser.

Each site is a process of `veilsum agent`, the observer one of `veilsum watch`; keys are made with the
commands that people type. A killed agent turns grey on the page, and comes back when it is started.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.agents.transport.transport_cases import free_port
from tests.live.conftest import OpenPage
from veilsum.cli.app import app

pytestmark = pytest.mark.integration

SITES = ("north", "east", "west")
SCENARIO = """\
name = "suppliers"
[network]
graph = "links.csv"
weights = "lazy-metropolis"
[family]
name = "normal"
sigma = 10.0
bounds = [0.0, 100.0]
unit = "kW"
[signals]
draw = { mu = 50.0 }
[privacy]
protect = "signal"
epsilon = 20.0
radius = inf
[algorithm]
name = "learn"
rounds = 1000
"""
VEILSUM = (sys.executable, "-m", "veilsum.cli")
PATIENCE = 60.0


class Fleet:
    """Three sites and an observer in a folder, as the docs say to make them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.links = {site: free_port() for site in SITES}
        self.statuses = {site: free_port() for site in SITES}
        (folder / "scenario.toml").write_text(SCENARIO)
        (folder / "links.csv").write_text("source,target\nnorth,east\neast,west\nwest,north\n")
        for site in SITES:
            self._write(site)
        sites = "\n".join(f'{site} = "tls/127.0.0.1:{self.statuses[site]}"' for site in SITES)
        (folder / "watch.toml").write_text(
            f'name = "control-room"\nscenario = "scenario.toml"\n[keys]\nfolder = "watch-keys"\n'
            f"[sites]\n{sites}\n"
        )

    def _write(self, site: str) -> None:
        others = [other for other in SITES if other != site]
        peers = "\n".join(f'{other} = "tls/127.0.0.1:{self.links[other]}"' for other in others)
        (self.folder / f"{site}.csv").write_text("hour,load\n")
        (self.folder / f"{site}.toml").write_text(
            f"""name = "{site}"
scenario = "scenario.toml"
listen = ["tls/127.0.0.1:{self.links[site]}"]
[peers]
{peers}
[keys]
folder = "{site}-keys"
[ledger]
path = "{site}.ledger"
[budget]
epsilon = 20.0
unit = "event"
[readings]
csv = "{site}.csv"
column = "load"
key = "hour"
[observers]
allow = ["control-room"]
listen = "tls/127.0.0.1:{self.statuses[site]}"
"""
        )

    def make_keys(self) -> None:
        """As `veilsum keys` does, in this process: a command takes a second to start."""
        home, here = str(self.folder / "authority"), ("--host", "127.0.0.1")
        self._keys("init", home)
        for name in (*SITES, "control-room"):
            observes = name not in SITES
            place = str(self.folder / ("watch-keys" if observes else f"{name}-keys"))
            self._keys("request", name, "--dir", place, *(["--observer"] if observes else []))
            request = f"{place}/{name}.request"
            self._keys("sign", request, "--dir", home, *(() if observes else here))
            self._keys("install", name, "--from", home, "--dir", place)

    def _keys(self, *words: str) -> str:
        done = CliRunner().invoke(app, ["keys", *words])
        assert done.exit_code == 0, (words, done.output)
        return done.output

    def command(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            [*VEILSUM, *words], cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def start(self, name: str, *words: str) -> subprocess.Popen[str]:
        with (self.folder / f"{name}.log").open("a") as log:
            made = subprocess.Popen(
                [*VEILSUM, *words], cwd=self.folder, stdout=log, stderr=log, text=True
            )
        self.processes[name] = made
        return made

    def agent(self, site: str, *options: str) -> None:
        self.start(site, "agent", f"{site}.toml", *options)

    def measure(self, hours: range) -> None:
        """Readings at all sites."""
        for k, site in enumerate(SITES):
            with (self.folder / f"{site}.csv").open("a") as file:
                file.writelines(f"{hour},{40 + k + hour % 7}\n" for hour in hours)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def close(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path)
    try:
        yield made
    finally:
        made.close()


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, f"waited {PATIENCE:g} s in vain for {what}"
        time.sleep(0.1)
    return found


def test_a_fleet_is_watched_in_a_browser(
    fleet: Fleet, open_page: OpenPage, screenshot: Callable[[Any, str], bytes]
) -> None:
    from playwright.sync_api import expect

    fleet.make_keys()
    for site in SITES:
        fleet.agent(site, *(["--page", "127.0.0.1:0"] if site == "north" else []))
    fleet.measure(range(4))
    fleet.start("watch", "watch", "watch.toml", "--page", "127.0.0.1:0", "--json")
    said = wait_for(lambda: re.search(r"page is at (\S+)", fleet.log("watch")), "the page")
    page = open_page(said[1], server_may_end=True)
    row = page.locator("#sites tr", has_text="east").first
    expect(page.locator("#sites tr", has_text="running")).to_have_count(3, timeout=60_000)
    expect(page.locator("#sites")).to_contain_text("kW", timeout=60_000)
    # Every reading has a budget of its own: what is spent on one is no less left for the next.
    expect(page.locator("#sites thead")).not_to_contain_text("left")
    expect(row).to_contain_text("20 of 20", timeout=60_000)
    expect(page.locator("#epsilon-note")).to_have_text("on one reading, where it is most")
    place = wait_for(lambda: re.search(r"http://127[^\s\"]+", fleet.log("north")), "its page")
    own = open_page(place[0], server_may_end=True)
    expect(own.locator("#budget")).to_have_text("ε = 20 for each reading", timeout=60_000)
    expect(own.locator("#budget-facts")).to_contain_text("20 on the dearest reading")
    expect(own.locator("#budget-facts")).to_contain_text("may cost 20")
    expect(own.locator("#budget-chart")).to_contain_text("spent on all readings together")
    expect(own.locator("#budget-chart polyline")).to_have_count(1)
    screenshot(own, "per-reading")

    fleet.processes["east"].kill()
    fleet.processes["east"].wait()
    expect(row).to_have_class(re.compile("silent"), timeout=60_000)
    assert page.locator("#sites tr.silent").count() == 1
    screenshot(page, "one-silent")
    assert "silent" in fleet.command("watch", "watch.toml", "--once", code=1)

    fleet.agent("east")
    expect(page.locator("#sites tr.silent")).to_have_count(0, timeout=60_000)
    fleet.measure(range(4, 6))
    expect(page.locator("#sites tr", has_text="running")).to_have_count(3, timeout=60_000)
    screenshot(page, "all-there")
    lines = [json.loads(line) for line in fleet.log("watch").splitlines() if line.startswith("{")]
    kinds = {line["kind"] for line in lines}
    assert kinds == {"status", "silent"}
    assert {line["agent"] for line in lines} == set(SITES)
    ended = fleet.processes["watch"]
    ended.send_signal(signal.SIGTERM)
    assert ended.wait(15) == 0  # every site has an estimate that meets the quorum
    os.kill(fleet.processes["north"].pid, 0)  # and goes on
