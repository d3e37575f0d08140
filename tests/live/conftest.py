"""A real browser for the tests of pages: Chromium of the system, driven by playwright.

    def test_it(open_page: OpenPage) -> None:
        page = open_page("http://127.0.0.1:8080/", width=390, dark=True)
        expect(page.get_by_role("heading", level=1)).to_have_text("north")

Whatever the browser complains of (console errors, exceptions of scripts, violations of the policy)
fails the test at its end. Pictures are written to the folder VEILSUM_SCREENSHOTS, if it is set.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
)  # fmt: skip
AWAY = "net::ERR_"  # what the browser says of a server that is not there, or has ended


class OpenPage(Protocol):
    """Opens an address in a window of its own."""

    def __call__(
        self,
        url: str,
        *,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        server_may_end: bool = False,
        **context: Any,
    ) -> Page: ...


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium; one for each module, because playwright's loop stays in this thread."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield made
        made.close()


@pytest.fixture
def complaints() -> list[str]:
    """What the browser complained of in this test; whatever is left at its end fails it."""
    return []


@pytest.fixture
def open_page(browser: Browser, complaints: list[str]) -> Iterator[OpenPage]:
    """Opens pages, and fails the test if the browser complained of one."""
    contexts = []

    def complain(text: str, may_end: bool) -> None:
        if not (may_end and AWAY in text):
            complaints.append(text)

    def opening(
        url: str,
        *,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        server_may_end: bool = False,
        **context: Any,
    ) -> Page:
        made = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            **context,
        )
        made.set_default_timeout(15_000)
        contexts.append(made)
        page = made.new_page()
        page.on(
            "console",
            lambda said: (
                complain(said.text, server_may_end) if said.type in ("error", "warning") else None
            ),
        )
        page.on("pageerror", lambda problem: complain(str(problem), server_may_end))
        page.goto(url, wait_until="load")
        return page

    yield opening
    for context in contexts:
        context.close()
    assert not complaints, complaints


@pytest.fixture
def screenshot(request: pytest.FixtureRequest) -> Callable[[Page, str], bytes]:
    """Takes a picture of the whole page; also written to VEILSUM_SCREENSHOTS, if that is set."""

    def take(page: Page, name: str) -> bytes:
        content = page.screenshot(full_page=True, animations="disabled")
        folder = os.environ.get("VEILSUM_SCREENSHOTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            (Path(folder) / f"{request.node.name}-{name}.png").write_bytes(content)
        return content

    return take


def overlapping_texts(page: Page, chart: str) -> list[tuple[str, str]]:
    """Pairs of texts of a chart, one of which is drawn over the other."""
    found: list[dict[str, Any]] = page.eval_on_selector_all(
        f"{chart} text",
        """texts => texts.map((text) => {
          const { left, right, top, bottom } = text.getBoundingClientRect();
          return { said: text.textContent, left, right, top, bottom };
        })""",
    )
    assert found, f"{chart} has no text"

    def meet(a: dict[str, Any], b: dict[str, Any]) -> bool:
        beside = a["right"] <= b["left"] or b["right"] <= a["left"]
        return not (beside or a["bottom"] <= b["top"] + 2 or b["bottom"] <= a["top"] + 2)

    pairs = itertools.combinations(found, 2)
    return [(a["said"], b["said"]) for a, b in pairs if meet(a, b)]
