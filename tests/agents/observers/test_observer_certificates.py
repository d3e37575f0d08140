"""Observers are held to their certificates: denied while they read, refused again; sites renew theirs."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.observers.observing import connect, receive, status, wait_for
from veilsum.agents.observers import StatusPublisher, StatusWatcher, publisher
from veilsum.agents.pki import Authority, KeyWatch, Role
from veilsum.agents.runtime.log import Log
from veilsum.agents.transport.zenoh_config import Endpoint

HERE = ("localhost", "127.0.0.1")


class ObservedSite:
    """A publisher that follows its files and the authority's deny list."""

    def __init__(self, home: Authority) -> None:
        self.written = io.StringIO()
        credentials = home.credentials("north")
        self.watch = KeyWatch(
            credentials, "north", denied=home.directory / "denied.json", pause=0.05
        )
        self.publisher = StatusPublisher(
            "north", Endpoint("tls", "127.0.0.1", 0), credentials, "north", ["room", "other"],
            self.watch,
        )  # fmt: skip
        self.port = self.publisher.start(Log(self.written))
        self.publisher(status())

    @property
    def log(self) -> str:
        return "\n".join(json.loads(line)["text"] for line in self.written.getvalue().splitlines())

    def close(self) -> None:
        self.publisher.close()
        self.watch.close()


@pytest.fixture
def home(tmp_path: Path) -> Authority:
    made = Authority.create(tmp_path / "ca")
    made.issue("north", HERE)
    for name in ("room", "other"):
        made.issue(name, role=Role.OBSERVER)
    return made


@pytest.fixture
def site(home: Authority) -> Iterator[ObservedSite]:
    made = ObservedSite(home)
    yield made
    made.close()


def test_a_denied_observer_loses_its_link_and_gets_none_again(
    home: Authority, site: ObservedSite
) -> None:
    room, other = home.credentials("room"), home.credentials("other")
    with connect(site.port, room) as link, connect(site.port, other) as beside:
        assert receive(link) is not None
        assert receive(beside) is not None
        home.revoke("room", reason="left")
        assert receive(link) is None, "the link is closed"
        wait_for(lambda: "room is gone: its name is on deny list 1" in site.log, "a line")
        site.publisher(status(round=4))
        assert receive(beside) is not None, "others read on"
    with connect(site.port, room) as link:
        assert receive(link) is None
    wait_for(lambda: "127.0.0.1 was refused: its name is on deny list 1" in site.log, "a line")


def test_a_weakened_twin_that_asks_nobody_serves_a_denied_observer(
    home: Authority, site: ObservedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "refusal", lambda *_: "")
    home.revoke("room")
    wait_for(lambda: site.watch.trust.denied.number, "the list")
    with connect(site.port, home.credentials("room")) as link:
        assert receive(link) is not None


def test_one_key_of_an_observer_is_denied_and_the_next_is_not(
    home: Authority, site: ObservedSite
) -> None:
    room = home.credentials("room")
    with connect(site.port, room) as link:
        assert receive(link) is not None
        home.issue("room", role=Role.OBSERVER, renew=True, new_key=True)
        home.revoke("room", old=True)
        assert receive(link) is None
    with connect(site.port, home.credentials("room")) as link:
        assert receive(link) is not None


def test_a_renewed_certificate_is_shown_to_who_connects_next(
    home: Authority, site: ObservedSite
) -> None:
    room = home.credentials("room")

    def shown(link: Any) -> str:
        return str((link.getpeercert() or {})["serialNumber"]).lower().lstrip("0")

    with connect(site.port, room) as link:
        before = shown(link)
        home.issue("north", renew=True, new_key=True)
        wait_for(lambda: site.watch.certificate is not None and _serial(site, room) != before, "it")
        site.publisher(status(round=4))
        assert receive(link) is not None, "links that are open go on"
    assert f"{site.watch.certificate.serial_number:x}" == _serial(site, room)


def _serial(site: ObservedSite, credentials: Any) -> str:
    with connect(site.port, credentials) as link:
        return str((link.getpeercert() or {})["serialNumber"]).lower().lstrip("0")


def test_an_observer_does_not_believe_a_denied_site(
    home: Authority, site: ObservedSite, manifest: Any
) -> None:
    sites = {"north": Endpoint("tls", "127.0.0.1", site.port)}
    watcher = StatusWatcher(
        "room", home.credentials("room"), manifest, sites, denied=home.directory / "denied.json"
    )
    site.publisher(status(manifest=manifest.digest.hex()))
    with watcher:
        wait_for(lambda: watcher.sites["north"].last, "a status")
        home.revoke("north", reason="stolen")
        wait_for(lambda: watcher._keys.trust.denied.number, "the list")
        site.publisher(status(round=9, manifest=manifest.digest.hex()))
        wait_for(lambda: "deny list 1" in watcher.sites["north"].reason, "it to be refused")
        last = watcher.sites["north"].last
        assert last is not None
        assert last.status["round"] != 9
