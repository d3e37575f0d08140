"""The page: self-contained, escaped, and readable in a real browser."""

import re
import shutil
import subprocess
from typing import Any

import pytest

from murmura.results import style
from murmura.results.page import PageSection, render

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")


def page(tmp_path: Any) -> Any:
    figure = style.figure(4, 3)
    figure.subplots().plot([1, 2, 3])
    image = next(p for p in style.write(figure, tmp_path / "a") if p.suffix == ".png")
    sections = [
        PageSection(
            "fig-1", "A figure & more", "confirmed", "1 < 2 holds.", [image], how="murmura x"
        ),
        PageSection(
            "table-1", "A table", "refuted", "no", (), ("algorithm", "error"), [["<b>", "1.5"]]
        ),
    ]
    return render("The <page>", "What was found.", sections)


def test_nothing_is_fetched_and_everything_is_escaped(tmp_path: Any) -> None:
    text = page(tmp_path)
    assert "<script" not in text
    assert not re.findall(r'(?:src|href)="(?!data:|#)', text)
    assert "The &lt;page&gt;" in text
    assert "<td>&lt;b&gt;</td>" in text
    assert '<td class="number">1.5</td>' in text
    assert text.count("data:image/png;base64,") == 1
    assert 'class="verdict refuted"' in text


@pytest.mark.integration
def test_a_real_browser_shows_it_on_a_phone(tmp_path: Any) -> None:
    if BROWSER is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    (tmp_path / "page.html").write_text(page(tmp_path), encoding="utf-8")
    flags = [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--hide-scrollbars", "--disable-background-networking", "--disable-component-update",
        "--disable-sync",
    ]  # fmt: skip
    done = subprocess.run(
        [
            str(BROWSER), *flags, f"--user-data-dir={tmp_path / 'profile'}", "--window-size=390,844",
            f"--screenshot={tmp_path / 'shot.png'}", "--dump-dom", f"file://{tmp_path}/page.html",
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "A figure &amp; more" in done.stdout
    assert (tmp_path / "shot.png").stat().st_size > 5_000
