"""Pages in a real browser: on a phone and a desk, light, dark and printed, without a complaint."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.browsing import COMPLAINTS, PHONE, browse, width_on_a_phone
from tests.reports.test_sign_off import BASE
from veilsum.reports import sign_off
from veilsum.scenario import Scenario

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "local": lambda: sign_off(Scenario.parse(BASE), "local"),
    "masked": lambda: sign_off(Scenario.parse(BASE), "masked"),
    "feeder": lambda: sign_off(Scenario.load(ROOT / "examples" / "masked-feeder.toml"), audit=True),
}


@pytest.mark.integration
@pytest.mark.parametrize("name", list(PAGES))
def test_a_browser_shows_and_prints_it_without_a_complaint(name: str, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(PAGES[name](), encoding="utf-8")
    shots = {}
    for width in (600, 1200):
        for scheme in (0, 1):  # dark and light
            shot = tmp_path / f"{width}-{scheme}.png"
            said = browse(
                file, f"--window-size={width},1600", f"--screenshot={shot}",
                f"--blink-settings=preferredColorScheme={scheme}",
            )  # fmt: skip
            assert not [line for line in said.splitlines() if any(w in line for w in COMPLAINTS)]
            shots[width, scheme] = shot.read_bytes()
    assert len(set(shots.values())) == 4, "widths and schemes differ"
    browse(file, "--no-pdf-header-footer", f"--print-to-pdf={tmp_path / 'page.pdf'}")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.integration
@pytest.mark.parametrize("name", list(PAGES))
def test_nothing_is_wider_than_a_phone(name: str, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    text = PAGES[name]()
    file.write_text(text, encoding="utf-8")
    assert width_on_a_phone(file) == PHONE
    file.write_text(text.replace("<h1>", f"<h1>{'x' * 60}", 1).replace("break-word", "normal"))
    assert width_on_a_phone(file) > PHONE, "the weakened variant"


def sides(text: str, file: Path) -> int:
    """How many sides of paper a page is printed on."""
    file.write_text(text, encoding="utf-8")
    browse(file, "--no-pdf-header-footer", f"--print-to-pdf={file.with_suffix('.pdf')}")
    return len(re.findall(rb"/Type\s*/Page\b", file.with_suffix(".pdf").read_bytes()))


@pytest.mark.integration
@pytest.mark.parametrize("name", list(PAGES))
def test_what_is_signed_is_one_sheet_of_paper(name: str, tmp_path: Path) -> None:
    text = PAGES[name]()
    assert sides(text, tmp_path / "page.html") in (1, 2)
    screen = re.sub("<style>.*</style>", "", text, flags=re.DOTALL)  # the weakened variant
    assert sides(screen, tmp_path / "plain.html") > 2


@pytest.mark.integration
def test_the_browser_complains_of_a_style_that_the_policy_forbids(tmp_path: Path) -> None:
    """The weakened variant: one attribute `style`, and one script, in the same page."""
    file = tmp_path / "page.html"
    text = PAGES["local"]().replace(
        "<h1>", '<script>document.title = "x"</script><h1 style="color:red">'
    )
    file.write_text(text, encoding="utf-8")
    said = browse(file, f"--screenshot={tmp_path / 'shot.png'}")
    assert any(word in said for word in COMPLAINTS)
