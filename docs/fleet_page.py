"""The picture of the fleet page: runs `veilsum up --page` and photographs it with Chromium.

    python docs/fleet_page.py        writes docs/images/fleet-page.png

It needs the extras of `veilsum up` and `live`, playwright, and Chromium of the system. The page is the
real one of a real run of examples/feeder.toml, looked at after round `ROUND`, before the sites agree.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
IMAGE = ROOT / "docs" / "images" / "fleet-page.png"
SIZE = {"width": 1360, "height": 1040}
ROUND = 4
PATIENCE = 180_000  # milliseconds for the run


@contextmanager
def served(scenario: Path) -> Iterator[str]:
    """The address of the page of a run, which ends with the block."""
    with TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "veilsum.cli", "up", str(scenario), "--page", "127.0.0.1:0"],
            cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            found = re.search(r"http://\S+", line)
            if found is None:
                raise SystemExit(f"veilsum up printed no address of a page: {line}")
            yield found[0]
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)


def photograph(url: str, image: Path) -> None:
    """Wait until the run has ended, go back to an early round, and take the picture."""
    from playwright.sync_api import expect, sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("there is no Chromium: apt-get install chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
        page.goto(url)
        expect(page.locator("#run")).to_contain_text("ended", timeout=PATIENCE)
        page.locator("#scrub").fill(str(ROUND))
        expect(page.locator("#scrub-round")).to_have_text(str(ROUND))
        page.locator("#scrub").blur()
        page.screenshot(path=image, animations="disabled")
        browser.close()


def main() -> None:
    """Renew the picture."""
    with served(ROOT / "examples" / "feeder.toml") as url:
        photograph(url, IMAGE)
    print(f"wrote {IMAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
