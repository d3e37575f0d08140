"""`veilsum watch`: table, JSON lines, exit codes, and what is wrong with a watch file."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.agents.config.setups import LINKS, SCENARIO
from tests.agents.observers.observing import PublishedSite, status, wait_for
from veilsum.agents.observers import watcher
from veilsum.agents.pki import Authority, Role
from veilsum.cli.app import app

watch: Any = import_module("veilsum.cli.watch")

WATCH = """\
name = "control-room"
scenario = "scenario.toml"
[keys]
folder = "keys"
[sites]
north = "tls/127.0.0.1:{north}"
east = "tls/127.0.0.1:{east}"
"""


class Watched:
    """Two sites, an observer, and its file."""

    def __init__(self, folder: Path) -> None:
        from veilsum.agents.scenario_terms import problem_and_manifest
        from veilsum.scenario import Scenario

        self.file = folder / "watch.toml"
        (folder / "scenario.toml").write_text(SCENARIO)
        (folder / "links.csv").write_text(LINKS)
        self.authority = Authority.create(folder / "keys")
        for name in ("north", "east"):
            self.authority.issue(name, ["127.0.0.1"])
        self.authority.issue("control-room", role=Role.OBSERVER)
        manifest = problem_and_manifest(Scenario.load(folder / "scenario.toml"))[1]
        self.digest = manifest.digest.hex()
        self.sites = {
            name: PublishedSite(self.authority, ["control-room"], name)
            for name in ("north", "east")
        }
        ports = {name: site.port for name, site in self.sites.items()}
        self.file.write_text(WATCH.format(**ports))

    def publish(self, name: str, **more: Any) -> None:
        self.sites[name].publisher(status(7, name, self.digest, **more))


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    monkeypatch.setattr(watcher, "FIRST_PAUSE", 0.05)
    made = Watched(tmp_path)
    yield made
    for site in made.sites.values():
        site.publisher.close()


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["watch", *words])


def test_once_shows_every_site(watched: Watched) -> None:
    watched.publish("north")
    watched.publish("east")
    done = run(str(watched.file), "--once")
    assert done.exit_code == 0, done.output
    assert done.output.count("48.5 +- 3.5") == 2
    assert "north" in done.output
    assert "3 of 3" in done.output


def test_members_that_the_file_does_not_name_are_mentioned(watched: Watched) -> None:
    """As after a roll-out: nobody would notice that the new member is not watched."""
    watched.publish("north")
    watched.publish("east")
    done = run(str(watched.file), "--once")
    assert done.exit_code == 0, done.output
    assert "not watched: west; name it under [sites]" in " ".join(done.output.split())


def test_a_withheld_estimate_is_called_that(watched: Watched) -> None:
    watched.publish("north", covered=False)
    watched.publish("east")
    done = run(str(watched.file), "--once")
    assert done.exit_code == 0
    assert "withheld" in done.output


def test_a_silent_site_is_an_error(watched: Watched) -> None:
    watched.publish("north")
    watched.sites["east"].publisher.close()
    done = run(str(watched.file), "--once")
    assert done.exit_code == 1
    assert "east: silent since" in done.output
    assert "does not answer" in done.output


def test_a_site_that_is_silent_since_another_day_has_the_day() -> None:
    before = time.time() - 50 * 3600
    assert watch._clock(before).startswith(time.strftime("%Y-%m-%d ", time.localtime(before)))
    assert len(watch._clock(time.time())) == len("12:34:56")


def test_without_an_estimate_the_code_is_3(watched: Watched) -> None:
    from dataclasses import replace

    watched.publish("east")
    made = status(7, "north", watched.digest)
    empty = replace(made.result, estimate=(), unprojected=(), half_width=())
    watched.sites["north"].publisher(replace(made, result=empty, state="gathering"))
    done = run(str(watched.file), "--once")
    assert done.exit_code == 3, done.output
    assert "gathering" in done.output


def test_json_lines(watched: Watched) -> None:
    watched.publish("north")
    watched.sites["east"].publisher.close()
    done = run(str(watched.file), "--once", "--json")
    assert done.exit_code == 1
    lines = {line["agent"]: line for line in map(json.loads, done.stdout.splitlines())}
    assert lines["north"]["kind"] == "status"
    assert lines["north"]["estimate"] == [48.5]
    assert lines["east"]["kind"] == "silent"
    assert abs(lines["east"]["since"] - time.time()) < 60


def test_it_watches_until_it_is_asked_to_end(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.publish("north")
    watched.publish("east")
    shown, show = [], watch._line_of_text

    def noted(event: Any) -> None:
        show(event)
        shown.append(event.status["state"])

    monkeypatch.setattr(watch, "_line_of_text", noted)

    def later() -> None:
        wait_for(lambda: shown.count("running") == 2, "both sites")
        watched.publish("north", state="done")
        wait_for(lambda: "done" in shown, "the end of north")
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=later, daemon=True).start()
    done = run(str(watched.file))
    assert done.exit_code == 0, done.output
    assert "north: running, round 7" in done.output
    assert "north: done, round 7" in done.output


WRONG = {
    "sites": ('north = "tls', 'nort = "tls', "no member of suppliers"),
    "endpoint": ("tls/127.0.0.1:", "http://127.0.0.1:", "is not an endpoint"),
    "host": ("tls/127.0.0.1:", "tls/north..example:", "is no name of a host"),
    "keys": (
        'folder = "keys"',
        'folder = "kees"',
        "is missing; `veilsum keys request control-room",
    ),
    "role": ('name = "control-room"', 'name = "north"', "is for a member"),
    "scenario": ("scenario =", 'scenario = "away.toml" #', "scenario: there is no scenario"),
    "home": ('folder = "keys"', 'folder = "~no-such-user/keys"', "no user of this machine"),
    "a table": ("[sites]", "[site]", "sites: missing; add a section [sites]"),
    "a key": ("scenario =", "scenarios =", 'did you mean "scenario"'),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_a_watch_file(case: str, watched: Watched) -> None:
    old, new, says = WRONG[case]
    text = watched.file.read_text()
    assert old in text
    watched.file.write_text(text.replace(old, new))
    done = run(str(watched.file), "--once")
    assert done.exit_code in (1, 2)
    assert says in done.output
    assert "watch.toml" in done.output


def test_a_page_is_on_loopback(watched: Watched) -> None:
    done = run(str(watched.file), "--once", "--page", "0.0.0.0:8090")
    assert done.exit_code == 2
    assert "ssh -L 8090:127.0.0.1:8090" in done.output


@pytest.mark.parametrize("protected", [True, False])
def test_a_page_shows_estimates_only_where_sites_send_them(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    from veilsum.agents.observers import Watch
    from veilsum.live import fleet_server

    if not protected:
        scenario = watched.file.with_name("scenario.toml")
        asked = 'protect = "signal"\nepsilon = 1.0\nradius = inf'
        scenario.write_text(SCENARIO.replace(asked, 'protect = "nothing"'))
    made = []

    class NotedServer(fleet_server.FleetServer):
        def __init__(self, *terms: Any) -> None:
            super().__init__(*terms)
            made.append(self)

    monkeypatch.setattr(fleet_server, "FleetServer", NotedServer)
    with ExitStack() as running:
        watch._page(Watch.load(watched.file), "127.0.0.1:0", running)
    (server,) = made
    assert server.page.hub.snapshot["sites"] == {"west": {"unwatched": True}}, "it has no address"
    assert server.page.terms.estimates is protected
    assert bool(server.page.terms.expected) is protected
