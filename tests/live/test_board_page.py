"""The page of a board: its data, and in a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

from tests.fleet.fleets import NOW
from tests.fleet.status.test_status import HOUR, seen_by, streaming
from tests.fleet.status.test_status_screen import large
from tests.live.conftest import OpenPage
from veilsum.errors import FleetError
from veilsum.fleet.status import FleetStatus
from veilsum.live.board_page import BoardHistory, BoardServer, places
from veilsum.live.security import PageAddress

if TYPE_CHECKING:
    from playwright.sync_api import Page

Take = Callable[["Page", str], bytes]
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def server() -> Iterator[BoardServer]:
    with BoardServer(PageAddress("127.0.0.1", 0)) as made:
        yield made


def closing_in(steps: int) -> list[FleetStatus]:
    """Answers of a fleet of 50 whose sites come one after the other."""
    found = []
    for k in range(steps):
        status = large(50)
        (one,) = status.questions
        number = one.found[0]
        half = 6.0 / (k + 1)
        value = 49.6 + half / 3 * (-1) ** k
        number = replace(number, values=(value,), low=(value - half,), high=(value + half,))
        one = replace(one, inside=k + 1, found=(number,))
        found.append(replace(status, at=NOW + 60 * k, questions=(one,)))
    return found


def test_history_is_bounded_and_keeps_its_ends() -> None:
    history = BoardHistory(most=20)
    statuses = closing_in(100)
    for status in statuses:
        history.take(status)
        history.take(status)  # nothing new
    (rows,) = history.rows.values()
    assert len(rows) <= 20
    assert rows[0][0] == NOW
    assert rows[-1][0] == statuses[-1].at
    times = [row[0] or 0 for row in rows]
    assert times == sorted(times)


@pytest.mark.parametrize("sites", [1, 2, 8, 40, 41, 500])
def test_places_are_apart_and_within_the_square(sites: int) -> None:
    status = large(max(sites, 6))
    found = places(replace(status, members=status.members[:sites]))
    assert len(set(map(tuple, found.values()))) == sites
    assert all(0 <= x <= 1 and 0 <= y <= 1 for x, y in found.values())


def test_only_this_machine_is_served() -> None:
    with pytest.raises(FleetError, match="ssh -L 8090"):
        BoardServer(PageAddress("0.0.0.0", 8090))


def test_a_fleet_without_members_is_shown(server: BoardServer) -> None:
    server.update(replace(large(8), members=(), questions=(), budgets=()))
    with urlopen(server.url) as found:
        assert "script-src 'self'" in found.headers["content-security-policy"]


@pytest.mark.integration
def test_a_real_fleet_in_a_browser(
    tmp_path: Path, server: BoardServer, open_page: OpenPage, screenshot: Take
) -> None:
    from playwright.sync_api import expect

    fleet = streaming(tmp_path, sites=5)
    server.update(seen_by(fleet, "s0"))
    page = open_page(server.url)
    expect(page.get_by_role("heading", level=1)).to_have_text("north")
    expect(page.locator("#covers")).to_have_text("5 of 5")
    expect(page.locator("#epoch")).to_have_text("1")
    expect(page.locator("#forks")).to_have_text("none")
    assert page.locator("#map [data-state=in]").count() == 5
    for k in range(5):
        fleet.now += HOUR
        fleet.step("desk", "s0", "s1", "s2", *(["s3"] if k < 4 else []))
        server.update(seen_by(fleet, "s0"))
    expect(page.locator("#map [data-site=s4]")).to_have_attribute("data-state", "silent")
    expect(page.locator("#map [data-site=s3]")).to_have_attribute("data-state", "behind")
    expect(page.locator("#attention")).to_contain_text("s4 silent for 5 h")
    assert page.locator("#closing polyline").count() == 2
    assert page.locator("#closing polygon.band").count() == 1
    page.locator("#filter").fill("silent")
    expect(page.locator("#members tbody tr")).to_have_count(1)
    page.locator("#filter").fill("")
    assert screenshot(page, "wide")


@pytest.mark.integration
@pytest.mark.parametrize(
    ("sites", "dark", "width"), [(50, False, 1280), (500, True, 1280), (50, True, 390)]
)
def test_fleets_of_any_size_dark_and_on_a_phone(
    server: BoardServer, open_page: OpenPage, screenshot: Take, sites: int, dark: bool, width: int
) -> None:
    from playwright.sync_api import expect

    page = open_page(server.url, dark=dark, width=width)
    for status in closing_in(30):
        server.update(replace(status, members=large(sites).members))
    members = list(status.members if sites == 50 else large(sites).members)
    members[0] = replace(members[0], forks=("number 3 of pool-ab12",))
    server.update(replace(status, members=tuple(members)))
    expect(page.locator("#forks")).to_have_text("1")
    expect(page.locator("#forks-note")).to_have_text("site-0")
    expect(page.locator("#map .node")).to_have_count(sites)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert screenshot(page, f"{sites}-{width}")


@pytest.mark.integration
def test_names_are_text(server: BoardServer, open_page: OpenPage, complaints: list[str]) -> None:
    """What others wrote is shown as it is, and never run."""
    from playwright.sync_api import expect

    status = large(8)
    (question,) = status.questions
    question = replace(
        question, title=HOSTILE, label=HOSTILE, left_out={"chur": HOSTILE}, stage=HOSTILE
    )
    members = tuple(replace(one, left_out=HOSTILE) for one in status.members)
    server.update(replace(status, fleet=HOSTILE, questions=(question,), members=members))
    page = open_page(server.url)
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    assert page.locator("main img").count() == 0
    assert not complaints
