"""The watcher over real links: statuses as they come, silence and its reason, links made again.

What a lying site sends is not taken; the weakened twins accept it.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.agents.observers.observing import PublishedSite, site, status, wait_for
from veilsum.agents import wire
from veilsum.agents.messages import StatusMessage
from veilsum.agents.observers import ObservedStatus, SilentSite, StatusWatcher, publisher, watcher
from veilsum.agents.pki import Authority, Credentials
from veilsum.agents.transport.zenoh_config import Endpoint


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr(watcher, "SWEEP", 0.05)


def watching(
    authority: Authority, manifest: Any, sites: dict[str, Endpoint], name: str = "control-room"
) -> StatusWatcher:
    return StatusWatcher(name, authority.credentials(name), manifest, sites)


def test_statuses_of_all_sites_arrive(authority: Authority, manifest: Any) -> None:
    digest = manifest.digest.hex()
    with (
        site(authority, "control-room") as north,
        site(authority, "control-room", label="east") as east,
    ):
        north.publisher(status(1, manifest=digest))
        east.publisher(status(2, label="east", manifest=digest))
        sites = {"north": north.endpoint, "east": east.endpoint}
        with watching(authority, manifest, sites) as watched:
            wait_for(lambda: watched.heard_of_all, "both sites")
            events = watched.take(1.0)
            found = {e.label: e for e in events if isinstance(e, ObservedStatus)}
            assert {label: view.silent_since for label, view in watched.sites.items()} == {
                "north": None,
                "east": None,
            }
            event = found["east"]
            assert event.status["round"] == 2
            assert event.status["estimate"] == [48.5]
            assert abs(event.received_at - time.time()) < 60
            north.publisher(status(7, manifest=digest))
            wait_for(lambda: _round(watched, "north") == 7, "a new status")


def _round(watched: StatusWatcher, label: str) -> Any:
    last = watched.sites[label].last
    return None if last is None else last.status["round"]


def test_a_site_that_dies_is_silent_and_heard_again_when_it_is_back(
    authority: Authority, manifest: Any
) -> None:
    digest = manifest.digest.hex()
    north = PublishedSite(authority, ["control-room"])
    north.publisher(status(1, manifest=digest))
    with watching(authority, manifest, {"north": north.endpoint}) as watched:
        wait_for(lambda: _round(watched, "north") == 1, "a status")
        before = time.time()
        north.publisher.close()
        wait_for(lambda: watched.silent, "silence")
        assert before <= watched.silent["north"] <= time.time()
        view = watched.sites["north"]
        assert view.last is not None, "the last status stays"
        assert [e for e in watched.take(1.0) if isinstance(e, SilentSite)]
        again = publisher.StatusPublisher(
            "north", north.endpoint, authority.credentials("north"), "north", ["control-room"]
        )
        try:
            from veilsum.agents.runtime.log import Log

            again.start(Log(north.written))
            again(status(9, manifest=digest))
            wait_for(lambda: _round(watched, "north") == 9, "the site that is back")
            assert watched.silent == {}
        finally:
            again.close()


def test_who_was_done_is_not_silent(authority: Authority, manifest: Any) -> None:
    north = PublishedSite(authority, ["control-room"])
    north.publisher(status(60, manifest=manifest.digest.hex(), state="done"))
    with watching(authority, manifest, {"north": north.endpoint}) as watched:
        wait_for(lambda: _round(watched, "north") == 60, "a status")
        north.publisher.close()
        north.says("control-room is gone")
        time.sleep(0.3)
        assert watched.silent == {}
        assert watched.sites["north"].ended


def test_a_link_that_says_nothing_is_silent(
    authority: Authority, manifest: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "SILENT_AFTER", 0.3)
    with site(authority, "control-room") as north:
        north.publisher(status(1, manifest=manifest.digest.hex()))
        with watching(authority, manifest, {"north": north.endpoint}) as watched:
            wait_for(lambda: _round(watched, "north") == 1, "a status")
            received = watched.sites["north"].last
            wait_for(lambda: watched.silent, "silence")
            assert received is not None
            assert watched.silent["north"] == received.received_at
            assert "no status for" in watched.sites["north"].reason
            north.publisher(status(2, manifest=manifest.digest.hex()))
            wait_for(lambda: not watched.silent, "a word")


REASONS = {
    "nobody": "does not answer",
    "not allowed": "see the log of north",
    "another site": "a certificate for 'east'",
    "foreign": "its certificate is not accepted",
    "manifest": "another manifest",
}


@pytest.mark.parametrize("case", REASONS)
def test_why_a_site_is_silent(
    case: str, authority: Authority, foreign: Authority, manifest: Any
) -> None:
    where = {"another site": "east"}.get(case, "north")
    by = foreign if case == "foreign" else authority
    allow = [] if case == "not allowed" else ["control-room"]
    north = PublishedSite(by, allow, where)
    north.publisher(status(manifest="c0ffee11" * 8))
    if case == "nobody":
        north.publisher.close()
    began = time.time()
    try:
        with watching(authority, manifest, {"north": north.endpoint}) as watched:
            wait_for(lambda: REASONS[case] in watched.sites["north"].reason, case)
            assert watched.sites["north"].last is None
            assert began <= watched.silent["north"] <= time.time()
    finally:
        north.publisher.close()


def _lying(change: Any) -> Any:
    def encode(message: StatusMessage) -> bytes:
        return publisher_encode(change(message))

    return encode


publisher_encode = wire.encode_status
LIES = {
    "another's": lambda m: m._replace(sender="east"),
    "for another": lambda m: m._replace(receiver="stranger"),
    "about another": lambda m: m._replace(text=m.text.replace('"north"', '"east"')),
    "no JSON": lambda m: m._replace(text="{"),
    "deep": lambda m: m._replace(text="[" * 30_000),
    "NaN": lambda m: m._replace(text=m.text.replace("48.5", "NaN")),
    "escapes": lambda m: m._replace(text=m.text.replace("suppliers", "\\u001b[2Jsuppliers")),
    "a list": lambda m: m._replace(text=m.text.replace("[48.5]", f"[{'1,' * 500}1]")),
}


@pytest.mark.parametrize("case", LIES)
def test_what_a_lying_site_sends_is_not_taken(
    case: str, authority: Authority, manifest: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "encode_status", _lying(LIES[case]))
    with site(authority, "control-room") as north:
        north.publisher(status(manifest=manifest.digest.hex()))
        with watching(authority, manifest, {"north": north.endpoint}) as watched:
            wait_for(lambda: watched.sites["north"].reason, "a reason")
            assert watched.sites["north"].last is None


def test_a_weakened_twin_takes_a_lie(
    authority: Authority, manifest: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "encode_status", _lying(LIES["escapes"]))
    monkeypatch.setattr(watcher, "checked_status", json.loads)
    with site(authority, "control-room") as north:
        north.publisher(status(manifest=manifest.digest.hex()))
        with watching(authority, manifest, {"north": north.endpoint}) as watched:
            wait_for(lambda: watched.sites["north"].last, "the lie")


def test_what_is_too_long_is_not_read(
    authority: Authority, manifest: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "encode_status", lambda _: bytes(1 << 20))
    with site(authority, "control-room") as north:
        north.publisher(status())
        with watching(authority, manifest, {"north": north.endpoint}) as watched:
            wait_for(lambda: "at most 65,536" in watched.sites["north"].reason, "a reason")


def test_lost_statuses_are_counted(authority: Authority, manifest: Any) -> None:
    digest = manifest.digest.hex()
    with site(authority, "control-room") as north:
        north.publisher(status(1, manifest=digest))
        with watching(authority, manifest, {"north": north.endpoint}) as watched:
            wait_for(lambda: _round(watched, "north") == 1, "a status")
            (link,) = north.publisher._links
            link.offer("north", 5, json.dumps(status(5, manifest=digest).public()))
            wait_for(lambda: _round(watched, "north") == 5, "a later status")
            assert watched.sites["north"].missed == 3


def test_events_that_nobody_takes_are_dropped(
    authority: Authority, manifest: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "MOST_EVENTS", 5)
    made = watching(authority, manifest, {"north": Endpoint("tls", "127.0.0.1", 1)})
    for k in range(20):
        made._put(SilentSite("north", float(k), ""))
    assert [event.since for event in made.take(0.1) if isinstance(event, SilentSite)] == [
        15.0,
        16.0,
        17.0,
        18.0,
        19.0,
    ]


def test_pauses_between_attempts_grow(
    authority: Authority, manifest: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "LONGEST_PAUSE", 0.2)
    attempts: list[float] = []
    follow = StatusWatcher._follow

    async def counted(*arguments: Any) -> str:
        attempts.append(time.monotonic())
        return await follow(*arguments)

    monkeypatch.setattr(StatusWatcher, "_follow", counted)
    with watching(authority, manifest, {"north": Endpoint("tls", "127.0.0.1", 1)}):
        wait_for(lambda: len(attempts) >= 5, "attempts")
    assert (
        attempts[-1] - attempts[0] > 0.05 + 0.1 + 0.1
    )  # pauses of 0.05, 0.1, 0.2, 0.2, less a quarter


def test_a_member_cannot_watch(authority: Authority, manifest: Any) -> None:
    """The context is made, and the site refuses it: a member's certificate has another role."""
    credentials: Credentials = authority.credentials("east")
    with site(authority, "east") as north:
        north.publisher(status(manifest=manifest.digest.hex()))
        with StatusWatcher("east", credentials, manifest, {"north": north.endpoint}) as watched:
            wait_for(lambda: watched.silent, "a refusal")
            assert watched.sites["north"].last is None
        north.says("no observer's certificate")
