"""A real browser for pages that are files: Chromium of the system, as a command and by playwright."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--hide-scrollbars", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--enable-logging=stderr",
)  # fmt: skip
PHONE = 390  # pixels
COMPLAINTS = ("CONSOLE", "Refused", "violates")


def browse(file: Path, *more: str) -> str:
    """Open a page in a process of its own; what the browser says on standard error."""
    done = subprocess.run(
        [_browser(), *FLAGS, f"--user-data-dir={file.parent / 'profile'}", *more, f"file://{file}"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return done.stderr


def width_on_a_phone(file: Path, shot: Path | None = None) -> int:
    """How wide a page is on a screen of 390 px; more than that scrolls sideways.

    Not by `--window-size`: windows of Chromium are at least 500 px wide, and a picture is cut to 390.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=_browser(), args=["--no-sandbox"])
        page = made.new_page(viewport={"width": PHONE, "height": 844})
        page.goto(f"file://{file}")
        found: int = page.evaluate("document.documentElement.scrollWidth")
        if shot is not None:
            page.screenshot(path=shot, full_page=True)
        made.close()
    return found


def _browser() -> str:
    if BROWSER is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    return BROWSER
