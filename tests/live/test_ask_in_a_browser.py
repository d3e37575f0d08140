"""The page that asks in a real browser: fill in, see what it would buy, ask; nothing is spent before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.live.conftest import OpenPage
from veilsum.live.ask import AskServer

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.integration

FORGED = "<img src=x onerror=document.title='ran'>"  # as the name of a column
PATIENCE = 30_000  # milliseconds: the first picture loads matplotlib


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = "".join(f"{k},{10 + k % 7},{'north' if k % 2 else 'south'},x\n" for k in range(900))
    (tmp_path / "households.csv").write_text(f"household,kwh,region,{FORGED}\n{rows}")
    return tmp_path


@pytest.fixture
def url(folder: Path) -> Iterator[str]:
    with AskServer(folder) as server:
        yield server.start()


def expect(place: Any) -> Any:
    """As of playwright, which is imported where there is a browser."""
    from playwright.sync_api import expect as expecting

    return expecting(place)


def fill(page: Page, epsilon: str = "1") -> None:
    """A mean of kwh."""
    page.get_by_label("File").fill("households.csv")
    page.get_by_label("File").blur()
    expect(page.locator("#about-table")).to_contain_text("household, kwh, region")
    mean = page.get_by_role("group", name="mean", exact=True)
    mean.get_by_label("column").fill("kwh")
    mean.get_by_label("low").fill("0")
    mean.get_by_label("high").fill("40")
    page.get_by_label("Epsilon").fill(epsilon)


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_a_question_is_planned_then_asked(
    folder: Path,
    url: str,
    open_page: OpenPage,
    screenshot: Callable[[Page, str], bytes],
    width: int,
    dark: bool,
) -> None:
    budget = folder / "households.budget"
    page = open_page(url, width=width, dark=dark)
    ask = page.locator("#ask")
    expect(ask).to_be_disabled()
    fill(page)
    expect(ask).to_be_disabled()
    page.get_by_role("button", name="What would it buy?").click()
    bought = page.get_by_role("article", name="What it would buy")
    expect(bought).to_contain_text("±", timeout=PATIENCE)
    assert not budget.exists()
    screenshot(page, "bought")
    ask.click()
    answer = page.get_by_role("article", name="Answer")
    expect(answer).to_contain_text("2.72 times more likely", timeout=PATIENCE)
    expect(answer).to_contain_text("Spent 1 of 1 epsilon")
    expect(answer.locator("figure svg")).to_be_visible()
    expect(bought).to_be_hidden()
    assert budget.exists()
    screenshot(page, "answer")
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width
    assert page.title() == "Ask", "a name in the table is text"


def test_a_change_takes_the_price_back(url: str, open_page: OpenPage) -> None:
    page = open_page(url)
    fill(page)
    page.get_by_role("button", name="What would it buy?").click()
    ask = page.get_by_role("button", name="Ask, for epsilon 1")
    expect(ask).to_be_enabled(timeout=PATIENCE)
    page.get_by_label("Epsilon").fill("2")
    expect(ask).to_be_disabled()
    expect(page.locator("#bought")).to_be_hidden()


def test_a_histogram_of_categories_by_its_own_fields(url: str, open_page: OpenPage) -> None:
    page = open_page(url)
    fill(page)
    page.get_by_label("What to ask").select_option("histogram")
    expect(page.get_by_role("group", name="mean", exact=True)).to_be_hidden()
    histogram = page.get_by_role("group", name="histogram", exact=True)
    histogram.get_by_label("column").fill("region")
    histogram.get_by_label("categories").fill("north, south")
    page.get_by_role("button", name="What would it buy?").click()
    page.get_by_role("button", name="Ask, for epsilon 1").click(timeout=PATIENCE)
    expect(page.get_by_role("article", name="Answer")).to_contain_text("north", timeout=PATIENCE)


def test_an_error_is_an_alert(url: str, open_page: OpenPage, complaints: list[str]) -> None:
    page = open_page(url)
    fill(page)
    page.get_by_role("group", name="mean", exact=True).get_by_label("high").fill("-1")
    page.get_by_role("button", name="What would it buy?").click()
    expect(page.get_by_role("alert")).to_contain_text("bounds are two finite numbers")
    expect(page.locator("#ask")).to_be_disabled()
    assert all("422" in text for text in complaints)
    complaints.clear()


def test_without_the_token_the_page_says_what_to_open(url: str, open_page: OpenPage) -> None:
    page = open_page(url.partition("#")[0])
    expect(page.get_by_role("alert")).to_contain_text("by the address that veilsum ask printed")
