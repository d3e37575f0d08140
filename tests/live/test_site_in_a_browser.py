"""The page of a site in a real browser: three agents with certificates, one of them with a page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.agents.runtime.test_node import node, problem
from tests.agents.runtime.test_status import status
from tests.live.conftest import OpenPage, overlapping_texts
from tests.live.sites import SITES, Sites
from veilsum.live.security import PageAddress
from veilsum.live.site import SitePage, point

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.integration
PATIENCE = 60_000  # milliseconds


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[Sites]:
    made = Sites(tmp_path)
    made.feed(12)
    for name in SITES:
        made.start(name, *(["--page", "127.0.0.1:0"] if name == "north" else []))
    yield made
    made.close()


def check_without_a_mouse(page: Page) -> None:
    """The keyboard reaches the lists that scroll and the links; a state is a word, not a colour alone."""
    reached = []
    for _ in range(4):
        page.keyboard.press("Tab")
        focus = page.locator(":focus")
        reached.append(focus.evaluate("found => found.textContent.trim().split(/\\s/)[0]"))
    assert reached == ["Skip", "neighbourstatewhat", "timelevelkindtext", "status.json"]
    words = [mark.inner_text().strip() for mark in page.locator(".state").all()]
    assert len(words) > 5
    assert all(words)


def test_values_appear_and_change_and_a_killed_neighbour_turns_grey(
    sites: Sites, open_page: OpenPage, screenshot: Callable[[Page, str], bytes]
) -> None:
    from playwright.sync_api import expect

    page = open_page(sites.url("north"))
    expect(page.locator("#connection")).to_have_text("connected", timeout=PATIENCE)
    estimate = page.locator("#estimate")
    expect(estimate).to_have_text(re.compile(r"^\d+(\.\d+)? ± \d+(\.\d+)? kWh$"), timeout=PATIENCE)
    expect(page).to_have_title(re.compile(r"^\d+(\.\d+)? ± \d+(\.\d+)? kWh · north$"))
    expect(page.locator("#coverage")).to_have_text("3 of 3 members, quorum 2", timeout=PATIENCE)
    expect(page.locator("#guarantee")).to_contain_text("epsilon = 0.5")
    expect(page.locator("#guarantee")).to_contain_text("10 of 100 kWh")
    expect(page.locator("#certificate")).to_have_text("89 days left")
    expect(page.locator("#certificate")).to_have_attribute("data-state", "good")
    expect(page.locator("#reading-age")).to_have_text(re.compile(r"ago|just now"))
    spent = page.locator("#budget")
    expect(spent).to_have_text(re.compile(r"of ε = 40 left"))
    links = page.locator("#links tr")
    expect(links).to_have_count(2)
    expect(links.filter(has_text="west").locator(".state")).to_have_text("open")

    before, first = spent.inner_text(), estimate.inner_text()
    for _ in range(4):
        sites.feed(6)
        page.wait_for_timeout(1200)
    expect(spent).not_to_have_text(before, timeout=PATIENCE)
    expect(estimate).not_to_have_text(first, timeout=PATIENCE)
    check_without_a_mouse(page)
    screenshot(page, "wide")

    sites.kill("west")
    west = links.filter(has_text="west").locator(".state")
    expect(west).to_have_text(re.compile("down|dropped"), timeout=PATIENCE)
    expect(west).to_have_attribute("data-state", "")
    expect(page.locator("#log")).to_contain_text("west is down", timeout=PATIENCE)
    screenshot(page, "killed")
    reloaded = open_page(page.url, width=390, height=844, dark=True)
    expect(reloaded.locator("#log")).to_contain_text("west is down", timeout=PATIENCE)
    expect(reloaded.locator("#estimate-chart polyline")).to_have_count(1, timeout=PATIENCE)
    wide = reloaded.locator("html").evaluate("page => page.scrollWidth")
    assert wide <= 390, "nothing is wider than the screen"
    screenshot(reloaded, "phone-dark")
    light = open_page(page.url, width=390, height=844)
    expect(light.locator("#estimate-chart polyline")).to_have_count(1, timeout=PATIENCE)
    screenshot(light, "phone")
    dark = open_page(page.url, dark=True)
    expect(dark.locator("#estimate-chart polyline")).to_have_count(1, timeout=PATIENCE)
    screenshot(dark, "dark")


def test_the_page_reconnects_after_its_agent_restarts(sites: Sites, open_page: OpenPage) -> None:
    """On the same port; its open stream does not hold the agent's end up."""
    from playwright.sync_api import expect

    url = sites.url("north")
    address = url.removeprefix("http://").rstrip("/")
    page = open_page(url, server_may_end=True)
    connection, body = page.locator("#connection"), page.locator("body")
    expect(page.locator("#coverage")).to_have_text("3 of 3 members, quorum 2", timeout=PATIENCE)
    assert sites.stop("north") == 0, sites.log("north")
    expect(page.locator("#state")).to_have_text("stopped", timeout=PATIENCE)
    expect(connection).not_to_have_text("connected", timeout=PATIENCE)
    expect(body).to_have_class("stale")
    sites.start("north", "--page", address)
    assert sites.url("north", starts=2) == url
    expect(connection).to_have_text("connected", timeout=PATIENCE)
    expect(body).not_to_have_class("stale")
    expect(page.locator("#state")).to_have_text("running", timeout=PATIENCE)
    sites.kill("north")
    expect(connection).to_have_text(re.compile("reconnecting|does not answer"), timeout=PATIENCE)


def test_axes_are_readable_from_the_first_point_on(
    tmp_path: Path, open_page: OpenPage, screenshot: Callable[[Page, str], bytes]
) -> None:
    from playwright.sync_api import expect

    made = node(problem("average", rounds=8), tmp_path, [[1.0], [5.0], [9.0]])
    served = SitePage("0", made.manifest, PageAddress("127.0.0.1", 0))
    try:
        url = served.start()
        for points, width in ((1, 1280), (2, 390), (40, 390)):
            while len(served.hub.snapshot["history"]) < points:
                at = 1.7e9 + 60.0 * len(served.hub.snapshot["history"])
                served.status(replace(status(), time=at))
            page = open_page(url, width=width, server_may_end=True)
            expect(page.locator("#estimate-chart circle")).to_have_count(1)
            for chart in ("#estimate-chart", "#budget-chart"):
                assert overlapping_texts(page, chart) == []
                assert page.locator(f"{chart} text", has_text=re.compile(r"^\d\d:\d\d")).count() > 0
            screenshot(page, f"{points}-points")
    finally:
        served.close()


def test_the_epoch_and_who_is_gone_are_shown(
    tmp_path: Path, open_page: OpenPage, screenshot: Callable[[Page, str], bytes]
) -> None:
    from playwright.sync_api import expect

    made = node(problem("average", rounds=8), tmp_path, [[1.0], [5.0], [9.0]])
    served = SitePage("0", made.manifest, PageAddress("127.0.0.1", 0))
    try:
        page = open_page(served.start(), server_may_end=True)
        data = status((2, 1, 1)).public() | {"epoch": 4, "links": {"1": "open", "2": "mismatched"}}
        data["coverage"] |= {"left": ["2"], "former": ["8", "9"]}
        served.hub.publish("status", {"status": data, "point": point(data)})
        expect(page.locator("#epoch")).to_have_text("epoch 4, 3 members")
        expect(page.locator("#left")).to_have_text("Left, and handed over: 2")
        expect(page.locator("#former")).to_have_text("No member any more: 8, 9")
        expect(page.locator("#lost")).to_be_hidden()
        expect(page.locator("#differs")).to_contain_text("perhaps another epoch: 2")
        screenshot(page, "epoch")
    finally:
        served.close()


def test_members_are_named_only_if_it_is_known_who_is_in_the_estimate(
    tmp_path: Path, open_page: OpenPage
) -> None:
    """Of a status whose list of missing members was cut, those cut off would be named as present."""
    from playwright.sync_api import expect

    made = node(problem("average", rounds=8), tmp_path, [[1.0], [5.0], [9.0]])
    served = SitePage("0", made.manifest, PageAddress("127.0.0.1", 0))
    try:
        data = status((2, 0, 0)).public()
        assert data["coverage"]["missing"] == ["1", "2"]
        page = open_page(served.start(), server_may_end=True)
        for missing, left_out, named in ((["1", "2"], {}, "0"), (["1"], {"missing": 1}, "")):
            coverage = data["coverage"] | {"missing": missing}
            shown = data | {"coverage": coverage, "left_out": left_out}
            served.hub.publish("status", {"status": shown, "point": point(shown)})
            expect(page.locator("#members")).to_have_text(named)
            expect(page.locator("#coverage")).to_have_text(re.compile("^1 of 3 members"))
    finally:
        served.close()
