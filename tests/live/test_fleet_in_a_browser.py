"""The fleet page in a real browser: a run by real processes, and statuses of every kind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.live.conftest import OpenPage, overlapping_texts
from veilsum.live.fleet import FleetPage, FleetTerms
from veilsum.live.fleet_layout import place
from veilsum.live.fleet_server import FleetServer
from veilsum.live.security import PageAddress

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.integration

SCENARIO = """
name = "line"
title = "Eight meters in a row"
network = {graph = "path:8", weights = "lazy-metropolis"}
family = {name = "normal", sigma = 1.0, unit = "kW", bounds = [0.0, 10.0]}
signals = {draw = {mu = 5.0}}
privacy = {protect = "signal", epsilon = 1.0}
algorithm = {name = "average", rounds = 50000}
"""
HOSTILE = "<img src=x onerror=alert(1)>"
Take = Callable[["Page", str], bytes]


@contextmanager
def running(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`veilsum up --page` of the scenario in two processes, and the address of its page."""
    (folder / "scenario.toml").write_text(SCENARIO)
    command = ["up", "scenario.toml", "--processes", "2", "--page", "127.0.0.1:0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "veilsum.cli", *command, "--page-for", "60"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://\S+", line)
        assert found, line
        yield process, found[0]
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def workers(process: int) -> list[int]:
    """The worker processes in the order of their start."""
    listed = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return sorted(int(each) for each in listed)


def number(page: Page, name: str) -> float:
    """The first number in an element."""
    found = re.search(r"[0-9.e-]+", page.locator(f"#{name}").text_content() or "")
    return float(found[0]) if found else float("nan")


def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing changed in time"
        time.sleep(0.05)


def test_a_run_by_processes_that_are_frozen_and_killed(
    tmp_path: Path, open_page: OpenPage, screenshot: Take
) -> None:
    from playwright.sync_api import expect

    with running(tmp_path) as (process, url):
        page = open_page(url, width=1360, server_may_end=True)
        expect(page.locator("#heard")).to_have_text("8 of 8", timeout=60_000)
        until(lambda: number(page, "round") >= 1)
        first, wide = number(page, "round"), number(page, "spread")
        until(lambda: number(page, "round") > first)  # rounds advance
        until(lambda: number(page, "spread") <= wide / 2)  # and the fan closes, or has before
        expect(page.locator("#fan polyline.one")).to_have_count(8)
        expect(page.locator("#run")).to_have_text("2 processes are running")
        expect(page.locator("#guarantee")).to_contain_text("between any two values of its domain")
        screenshot(page, "running")

        frozen = workers(process.pid)[-1]
        os.kill(frozen, signal.SIGSTOP)
        grey = page.locator("#map circle.node.silent")
        expect(grey).to_have_count(4, timeout=20_000)
        expect(page.locator("#attention")).to_contain_text("4 silent: 4, 5, 6, 7")
        expect(page.locator("#heard-note")).to_have_text("4 silent")
        screenshot(page, "silent")
        os.kill(frozen, signal.SIGCONT)
        expect(grey).to_have_count(0, timeout=20_000)

        os.kill(frozen, signal.SIGKILL)
        expect(grey).to_have_count(4, timeout=20_000)
        expect(page.locator("#run")).to_contain_text("the run failed: process-2 exited")
        expect(page.locator('#map circle.node[data-state="stopped"]')).to_have_count(4)
        page.set_viewport_size({"width": 390, "height": 844})
        page.emulate_media(color_scheme="dark")
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        screenshot(page, "narrow-dark")
        assert process.poll() is None  # the page stays


def terms(size: int, **changes: Any) -> FleetTerms:
    links = [(k, (k + 1) % size) for k in range(size)]
    given: dict[str, Any] = {
        "labels": (HOSTILE, *(f"site-{k}" for k in range(1, size))),
        "edges": tuple(links), "positions": tuple((x, y) for x, y in place(size, links)),
        "bounds": (0.0, 10.0), "unit": "kW", "guarantee": "In words.", "rounds": 0,
        "name": "ring", "manifest": "ab" * 32, "quorum": size,
    }  # fmt: skip
    return FleetTerms(**(given | changes))


def status(estimate: float, **changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "state": "running", "round": 7, "estimate": [estimate], "half_width": [0.4],
        "version": "0.1.0", "manifest": "ab" * 32, "links": {"a": "open"}, "certificate_days": 90.0,
    }  # fmt: skip
    return given | changes


@contextmanager
def served(size: int, **changes: Any) -> Iterator[tuple[FleetPage, str]]:
    server = FleetServer(terms(size, **changes), PageAddress("127.0.0.1", 0))
    try:
        yield server.page, server.start()
    finally:
        server.close()


def fills(page: Page) -> set[str]:
    found: list[str] = page.eval_on_selector_all(
        "#map circle.node", "nodes => nodes.map((node) => node.getAttribute('fill'))"
    )
    return set(found)


def test_a_range_below_the_error_bar_has_one_colour(open_page: OpenPage) -> None:
    from playwright.sync_api import expect

    with served(6) as (fleet, url):
        for k, label in enumerate(fleet.terms.labels):
            fleet.update(label, status(5 + 0.01 * k), at=time.time())
        page = open_page(url, server_may_end=True)
        expect(page.locator("#answer")).to_have_text(
            "5.02 ± 0.40 kW"
        )  # 5.025: digits of its interval
        note = page.locator("#scale-note")
        expect(note).to_contain_text(
            "Sites differ by 0.05 kW now, less than the error bar of ± 0.4 kW"
        )
        expect(note).to_contain_text("5 kW to 5.05 kW")
        assert len(fills(page)) == 1
        for k, label in enumerate(fleet.terms.labels):  # the weakened variant: an exact estimate
            fleet.update(label, status(5 + 0.01 * k, half_width=[0.001]), at=time.time())
        expect(note).not_to_contain_text("drawn alike")
        assert len(fills(page)) == 6


def test_earlier_rounds_can_be_looked_at_and_a_replay_stopped(open_page: OpenPage) -> None:
    from playwright.sync_api import expect

    with served(4, rounds=100) as (fleet, url):
        for t in range(1, 101):
            fleet.record(t, {label: 5.0 + k / t for k, label in enumerate(fleet.terms.labels)})
        page = open_page(url, server_may_end=True)
        shown, note, play = (page.locator(f"#{n}") for n in ("scrub-round", "scale-note", "play"))
        expect(shown).to_have_text("100")
        page.locator("#scrub").fill("2")
        expect(shown).to_have_text("2")
        expect(note).to_contain_text("Sites differ by 1.5 kW after round 2")
        page.locator("#follow").click()
        expect(shown).to_have_text("100")
        play.click()
        page.locator("#follow").click()
        assert play.is_enabled(), "a replay goes on that was stopped"
        expect(shown).to_have_text("100")
    with served(61, rounds=100) as (fleet, url):  # beyond 60 sites only bands are kept of a round
        for t in range(1, 5):
            fleet.record(t, dict.fromkeys(fleet.terms.labels, 5.0 + t))
        page = open_page(url, server_may_end=True)
        expect(page.locator("#fan-note")).to_contain_text("Bands: all sites")
        expect(page.locator("#replay")).to_be_hidden()


def test_what_needs_attention_is_named_and_flagged(open_page: OpenPage, screenshot: Take) -> None:
    from playwright.sync_api import expect

    with served(5) as (fleet, url):
        page = open_page(url, server_may_end=True)
        expect(page.locator("#attention")).to_contain_text("5 not heard yet")
        fleet.leave_out("site-4")
        expect(page.locator("#attention")).to_contain_text("4 not heard yet")
        expect(page.locator("#heard")).to_have_text("0 of 4")
        expect(page.locator("#sites tr[data-label=site-4]")).to_contain_text("not watched")
        for label in fleet.terms.labels:
            fleet.update(label, status(5.0), at=time.time())
        expect(page.locator("#attention")).to_have_text("Nothing needs attention.")
        fleet.update("site-1", status(5.0, version="0.0.9"), at=time.time())
        fleet.update("site-2", status(5.0, manifest="cd" * 32), at=time.time())
        fleet.update("site-3", status(5.0, links={"site-4": "down"}), at=time.time())
        fleet.update("site-4", status(5.0, certificate_days=3.0), at=time.time())
        began = time.time() - 50 * 3600  # a time of day alone would look like today's
        fleet.silent(HOSTILE, since=began, reason="it does not answer")
        listed = page.locator("#attention")
        for text in (
            f"1 silent: {HOSTILE} (it does not answer)", "1 with another manifest: site-2",
            "1 with another version than 0.1.0: site-1 (0.0.9)", "site-3 (site-4 down)",
            "1 with a certificate that expires within 30 days: site-4 (3 days)",
        ):  # fmt: skip
            expect(listed).to_contain_text(text)
        expect(page.locator("#map line.broken")).to_have_count(1)
        expect(listed).to_contain_text(f"since {time.strftime('%Y-%m-%d', time.localtime(began))} ")
        expect(page.locator("#sites .flag")).to_have_count(4)
        expect(page.locator("#sites tr.silent th")).to_have_text(HOSTILE)  # as text
        screenshot(page, "attention")


def test_a_site_that_the_roll_out_has_not_reached_is_marked(
    open_page: OpenPage, screenshot: Take
) -> None:
    from playwright.sync_api import expect

    with served(4, epoch=3, former=(("site-9", 3),)) as (fleet, url):
        page = open_page(url, server_may_end=True)
        for label in fleet.terms.labels:
            fleet.update(label, status(5.0, epoch=3), at=time.time())
        expect(page.locator("#attention")).to_have_text("Nothing needs attention.")
        expect(page.locator("#epoch")).to_have_text("3")
        expect(page.locator("#epoch-note")).to_have_text("4 members")
        expect(page.locator("#membership")).to_contain_text(
            "no member any more: site-9 (since epoch 3)"
        )
        fleet.update("site-2", status(5.0, epoch=2, manifest="cd" * 32), at=time.time())
        attention = page.locator("#attention")
        expect(attention).to_contain_text("1 behind epoch 3: site-2 (epoch 2): the roll-out")
        expect(attention).not_to_contain_text("another manifest")
        expect(page.locator("#epoch-note")).to_have_text("1 of 4 behind: site-2")
        expect(page.locator("#map circle.behind")).to_have_attribute("data-label", "site-2")
        expect(page.locator("#sites .flag")).to_have_text("2")
        screenshot(page, "behind")
        fleet.update("site-2", status(5.0, epoch=2, state="done", reason="rounds"), at=time.time())
        expect(page.locator("#map circle.behind")).to_have_count(0)  # it adopts when it is started
        fleet.update("site-1", status(5.0, epoch=4, manifest="ef" * 32), at=time.time())
        expect(attention).to_contain_text("this page follows epoch 3: a site is in epoch 4")
        expect(attention).to_contain_text("2 behind epoch 4")
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_an_open_page_follows_a_later_epoch(open_page: OpenPage, screenshot: Take) -> None:
    from playwright.sync_api import expect

    with served(3) as (fleet, url):
        page = open_page(url, server_may_end=True)
        for label in fleet.terms.labels:
            fleet.update(label, status(5.0, epoch=1), at=time.time())
        expect(page.locator("#attention")).to_have_text("Nothing needs attention.")
        labels = ("site-1", "site-2", "site-9")
        fleet.follow(
            terms(3, labels=labels, manifest="cd" * 32, epoch=2, former=((HOSTILE, 2),), quorum=3)
        )
        for label in ("site-1", "site-9"):
            fleet.update(label, status(6.0, epoch=2, round=1, manifest="cd" * 32), at=time.time())
        expect(page.locator("#attention")).to_contain_text("1 behind epoch 2: site-2 (epoch 1)")
        expect(page.locator("#sites tr.former")).to_contain_text("no member since epoch 2")
        expect(page.locator("#sites tr.former th")).to_have_text(HOSTILE)
        expect(page.locator('#map circle.node[data-label="site-9"]')).to_have_count(1)
        expect(page.locator("#map circle.node")).to_have_count(3)
        expect(page.locator("#round")).to_have_text("1")  # that of the others, not 7
        expect(page.locator("#answer")).to_have_text("6.00 ± 0.40 kW")
        screenshot(page, "next-epoch")
        kept = page.locator("#sites").inner_text()
        other = open_page(url, server_may_end=True)
        expect(other.locator("#round")).to_have_text("1")
        assert other.locator("#sites").inner_text() == kept  # events gave what a new page has


def test_it_works_without_a_mouse(open_page: OpenPage) -> None:
    from playwright.sync_api import expect

    with served(6) as (fleet, url):
        for k, label in enumerate(fleet.terms.labels):
            fleet.update(label, status(5 - k, round=k), at=time.time())
        page = open_page(url, width=390, server_may_end=True)
        expect(page.locator("#sites tbody tr")).to_have_count(6)
        page.locator("#map").focus()
        tip = page.locator("#tip")
        expect(tip).to_contain_text(HOSTILE)
        seen = set()
        for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp") * 3:
            page.keyboard.press(key)
            seen.add((tip.text_content() or "").split("\n")[0])
        assert len(seen) >= 4
        page.keyboard.press("Enter")
        expect(page.locator("#sites tr.chosen")).to_have_count(1)
        first = page.locator("#sites tbody tr th").first
        page.get_by_role("button", name="estimate (kW)").press("Enter")
        expect(first).to_have_text("site-5")
        page.get_by_role("button", name="estimate (kW)").press("Enter")
        expect(first).to_have_text(HOSTILE)
        expect(page.locator('#sites th[aria-sort="descending"]')).to_contain_text("estimate")
        page.locator("#filter").fill("site-3")
        expect(page.locator("#sites tbody tr")).to_have_count(1)


def test_a_reader_that_fell_behind_has_a_new_snapshot(open_page: OpenPage) -> None:
    from playwright.sync_api import expect

    with served(4) as (fleet, url):
        page = open_page(url, server_may_end=True)
        expect(page.locator("#connection")).to_have_text("connected")
        fleet.interval = 0.0  # every change is an event
        (reader,) = fleet.hub._subscriptions
        assert reader._loop is not None
        reader._loop.call_soon_threadsafe(time.sleep, 1.0)  # nobody takes what is published now
        time.sleep(0.2)
        turn = 200
        for t in range(1, turn + 1):
            fleet.update("site-1", status(5.0, round=t), at=float(t))
        assert fleet.hub.dropped
        row = page.locator('#sites tr[data-label="site-1"] td')
        expect(row.nth(1)).to_have_text(str(turn))
        kept = page.locator("#sites").inner_text()
        other = open_page(url, server_may_end=True)
        expect(other.locator('#sites tr[data-label="site-1"] td').nth(1)).to_have_text(str(turn))
        assert other.locator("#sites").inner_text() == kept  # events gave what a new page has


def test_a_page_that_was_open_all_along_draws_the_rounds_that_a_new_one_has(
    open_page: OpenPage,
) -> None:
    """More of them than are kept: the page and the server drop the same, and none of the first."""
    from playwright.sync_api import expect

    last = 1500
    with served(3, rounds=last) as (fleet, url):
        page = open_page(url, server_may_end=True)
        expect(page.locator("#connection")).to_have_text("connected")
        labels = fleet.terms.labels
        for t in range(1, last + 1):
            fleet.record(t, {label: 5 + (k - 1) / t for k, label in enumerate(labels)})
            if t % 100 == 0:
                fleet.flush()
        other = open_page(url, server_may_end=True)
        for each in (page, other):
            expect(each.locator("#scrub-round")).to_have_text(str(last))
            expect(each.locator("#fan polyline.one")).to_have_count(3)
            assert each.locator("#scrub").get_attribute("min") == "1"
        lines = [
            each.locator("#fan polyline.one").last.get_attribute("points") for each in (page, other)
        ]
        assert lines[0] == lines[1]
        phone = open_page(url, width=390, server_may_end=True)
        expect(phone.locator("#fan polyline.one")).to_have_count(3)
        for each in (page, phone):
            for chart in ("#fan", "#gap"):
                assert overlapping_texts(each, chart) == []
        assert len((lines[0] or "").split()) == len(fleet.hub.snapshot["rounds"]) < 600


def test_sessions_of_a_masked_sum(open_page: OpenPage, screenshot: Take) -> None:
    from playwright.sync_api import expect

    with served(6, masked=True, rounds=1, attempts=2) as (fleet, url):
        page = open_page(url, server_may_end=True)
        stages = ("opened", "prepared", "prepared", "sent", "sent", "sent")
        for label, stage in zip(fleet.terms.labels, stages, strict=True):
            session = {"query": 1, "attempt": 1, "view": 1, "stage": stage}
            nothing = {"estimate": [], "half_width": [], "round": 0, "session": session}
            fleet.update(label, status(0.0) | nothing, at=time.time())
        shown = page.locator("#sessions")
        expect(shown).to_contain_text("Query 1 of 1, attempt 1 of 2")
        for text in ("prepared: 2", "sent: 3", f"opened: 1 ({HOSTILE})"):
            expect(shown).to_contain_text(text)
        expect(page.locator("#map circle.stage-sent")).to_have_count(3)
        head = page.locator("#sites thead")
        expect(head).to_contain_text("query")  # a masked sum has no rounds
        expect(head).not_to_contain_text("round")
        screenshot(page, "sessions")


def test_many_sites_are_drawn_as_a_picture_and_bands(open_page: OpenPage) -> None:
    from playwright.sync_api import expect

    with served(320) as (fleet, url):
        for t in (1, 2, 4):
            labels = fleet.terms.labels
            fleet.record(t, {label: 5 + (k % 7 - 3) / t for k, label in enumerate(labels)})
        for label in fleet.terms.labels:
            fleet.update(label, status(5.0), at=time.time())
        fleet.silent("site-9", since=time.time())
        page = open_page(url, server_may_end=True)
        expect(page.locator("#map canvas")).to_have_count(1)
        expect(page.locator("#map svg")).to_have_count(0)
        expect(page.locator("#fan polygon.inner")).to_have_count(1)
        expect(page.locator("#legend")).to_contain_text("silent (crossed): 1")
