"""The page of the reproduction, made by the command and opened in a real browser."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tests.browsing import COMPLAINTS, PHONE, browse, width_on_a_phone
from veilsum.cli.reproduce import reproduce
from veilsum.front import style
from veilsum.front.of_reproduction import MEANINGS, of_reproduction, readable, write_picture
from veilsum.front.page import BADGES, document
from veilsum.paper import EXPERIMENTS, ReproductionReport, Verdict
from veilsum.paper.experiment import counts
from veilsum.paper.reproduction import FAILED, SKIPPED

HOSTILE = '<script>alert(1)</script>" onload="x'


@pytest.fixture(scope="module")
def page(tmp_path_factory: Any) -> Any:
    out = tmp_path_factory.mktemp("paper")
    app = typer.Typer()
    app.command()(reproduce)
    done = CliRunner().invoke(app, ["fig-directed", "fig-dynamic", "--quick", "-o", str(out / "p")])
    assert done.exit_code == 0, done.output
    assert f"Page {out / 'p.html'}" in " ".join(done.output.split())
    return out / "p.html"


def test_the_page_holds_figures_verdicts_and_commands(page: Any) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count("<figure") == text.count("</svg>") == 2
    assert text.count('<figure class="wide"') == 1  # the one with two columns
    assert "veilsum reproduce fig-directed --seed 0 --quick" in text
    assert "Of the paper, measured: 2 confirmed." in text
    assert "Ours" not in text
    assert "<blockquote>“that is no longer minimum variance”</blockquote>" in text
    assert "A quick reproduction" in text
    assert '<span class="badge good">confirmed</span>' in text
    assert "<dt>epsilon ε</dt>" in text
    assert 'src="http' not in text
    assert "<script" not in text
    assert " style=" not in text


def test_every_link_of_the_page_leads_somewhere(page: Any) -> None:
    text = page.read_text(encoding="utf-8")
    links = set(re.findall(r'<a href="#([^"]+)"', text))
    assert links >= {"fig-directed", "fig-dynamic", "glossary"}
    assert not [link for link in links if text.count(f'id="{link}"') != 1]


@pytest.mark.integration
def test_a_browser_reads_it_on_a_phone(page: Any) -> None:
    assert width_on_a_phone(page) == PHONE
    said = browse(page, f"--screenshot={page.with_suffix('.png')}")
    assert not [word for word in COMPLAINTS if word in said]


def test_quotes_are_readable_and_verdicts_are_explained() -> None:
    quotes = [claim.quote for each in EXPERIMENTS.values() for claim in each.claims]
    shown = [readable(quote) for quote in quotes]
    assert not [quote for quote in shown if "\\" in quote or "$" in quote or "{" in quote]
    assert readable("plain words") == "plain words"
    assert list(MEANINGS) == [*map(str, Verdict), SKIPPED, FAILED]
    assert MEANINGS.keys() - BADGES.keys() == {"refuted", FAILED}  # these are red


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def hostile(folder: Any) -> ReproductionReport:
    """Every text of a report and of its table is markup."""
    finding = dict.fromkeys(("id", "statement", "sentence", "quote", "where"), HOSTILE)
    (folder / "x.csv").write_text(f'"{HOSTILE.replace(chr(34), "")}",y\n{HOSTILE[:8]},1\n')
    figure = style.figure(3, 2)
    figure.add_subplot().set_title(HOSTILE)
    picture = write_picture(figure, folder / "x", HOSTILE)
    return ReproductionReport(
        "x", HOSTILE, HOSTILE, "refuted",
        [finding | {"source": "paper", "verdict": "refuted", "can_fail": True}],
        HOSTILE, 0, False, HOSTILE, "", outputs=[picture.name, "x.csv"],
    )  # fmt: skip


def test_texts_of_a_report_are_escaped(tmp_path: Any) -> None:
    report = hostile(tmp_path)
    text = document(of_reproduction([report], tmp_path, counts(report.findings)))
    found = Tags()
    found.feed(text)
    assert "script" not in found.tags
    assert "onload" not in found.attributes
    assert "&lt;script&gt;" in text


@pytest.mark.parametrize(("points", "kind"), [(5, ".svg"), (20_000, ".png")])
def test_a_picture_is_kept_in_the_smaller_of_two_formats(
    points: int, kind: str, tmp_path: Any
) -> None:
    figure = style.figure(3, 2)
    figure.add_subplot().scatter(range(points), [k * k % 977 for k in range(points)], s=2)
    (tmp_path / "x.svg").write_text("an earlier one")
    (tmp_path / "x.png").write_text("an earlier one")
    path = write_picture(figure, tmp_path / "x", "Points")
    assert path == tmp_path / f"x{kind}"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    report = ReproductionReport("x", "Points", "", "confirmed", [], "", 0, False, "", "",
                                outputs=[path.name])  # fmt: skip
    text = document(of_reproduction([report], tmp_path, counts([])))
    shown = '<img alt="Points" width="288"' if kind == ".png" else 'aria-label="Points"'
    assert shown in text
    assert '<figure class="wide"' not in text
