"""The page: self-contained, escaped, and readable in a real browser."""

import re
from typing import Any

import pytest

from tests.browsing import PHONE, width_on_a_phone
from veilsum.front import style
from veilsum.results.page import BADGES, PageSection, Statement, render, verdict_badge


def page(tmp_path: Any) -> Any:
    figure = style.figure(4, 3)
    figure.subplots().plot([1, 2, 3])
    image = next(p for p in style.write(figure, tmp_path / "a") if p.suffix == ".png")
    sections = [
        PageSection(
            "fig-1", "A figure & more", "confirmed", "1 < 2 holds.", [image], how="veilsum x"
        ),
        PageSection(
            "table-1", "A table", "refuted", "no", (), ("algorithm", "error"), [["<b>", "1.5"]]
        ),
    ]
    return render(
        "The <page>", ["What was found."], sections, {"refuted": "does not hold"}, {"l2": "a norm"}
    )


def test_nothing_is_fetched_and_everything_is_escaped(tmp_path: Any) -> None:
    text = page(tmp_path)
    assert "<script" not in text
    assert not re.findall(r'(?:src|href)="(?!data:|#)', text)
    assert "The &lt;page&gt;" in text
    assert "<td>&lt;b&gt;</td>" in text
    assert '<td class="number">1.5</td>' in text
    assert text.count("data:image/png;base64,") == 1
    assert '<span class="badge bad">✗ refuted</span>' in text


def test_a_badge_has_a_sign_and_a_word_of_its_own() -> None:
    badges = [verdict_badge(verdict) for verdict in BADGES]
    signs = {re.sub("<[^>]*>", "", each).split()[0] for each in badges}
    assert len(signs) == len(BADGES)  # without colours they are still different
    assert all(verdict in each for verdict, each in zip(BADGES, badges, strict=True))


def test_every_statement_is_a_row_and_links_to_its_numbers() -> None:
    found = [
        Statement("confirmed", "the paper", f"Number {k} holds.", "It is 1.") for k in range(3)
    ]
    text = render("t", [], [PageSection("fig-1", "A figure", statements=found)])
    start = text.index('id="statements"')
    assert text.count('<a href="#fig-1">Number ', start) == 3
    assert text.count("✓ confirmed") == 6


def test_panels_are_shown_in_place_of_the_figure(tmp_path: Any) -> None:
    paths = [tmp_path / f"{name}.png" for name in ("a", "a-0-legend", "a-1", "a-2")]
    for path in paths:
        path.write_bytes(path.name.encode())
    section = PageSection("a", "A", images=paths[:1], panels=paths[1:])
    text = render("t", [], [section])
    assert text.count("<img ") == 3
    assert 'class="panels"' in text
    assert 'class="legend"' in text


@pytest.mark.integration
def test_a_real_browser_shows_it_on_a_phone(tmp_path: Any) -> None:
    file = tmp_path / "page.html"
    file.write_text(page(tmp_path), encoding="utf-8")
    assert width_on_a_phone(file) == PHONE
