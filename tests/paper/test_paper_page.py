"""The page of the reproduction, made by the command and opened in a real browser."""

import shutil
import subprocess
from typing import Any

import pytest
from typer.testing import CliRunner

from murmura.cli.app import app

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="module")
def page(tmp_path_factory: Any) -> Any:
    out = tmp_path_factory.mktemp("paper")
    ids = ["fig-directed", "fig-dynamic"]
    done = CliRunner().invoke(app, ["reproduce", *ids, "--quick", "--html", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "Everything on one page" in done.output
    return out / "reproduction.html"


def test_the_page_holds_figures_verdicts_and_commands(page: Any) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count("data:image/png;base64,") == 2
    assert "murmura reproduce fig-directed --seed 0 --quick" in text
    assert "Statements of the paper: " in text
    assert "Statements of our own: 0 confirmed" in text
    assert "<blockquote>that is no longer minimum variance</blockquote>" in text
    assert 'src="http' not in text
    assert "<script" not in text


@pytest.mark.integration
def test_a_browser_reads_it_on_a_phone(page: Any, tmp_path: Any) -> None:
    if BROWSER is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    shot = tmp_path / "shot.png"
    done = subprocess.run(
        [
            BROWSER, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--window-size=390,844",
            f"--screenshot={shot}", "--dump-dom", f"file://{page}",
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert 'id="fig-directed"' in done.stdout
    assert 'class="verdict' in done.stdout
    assert shot.stat().st_size > 10_000
