"""The page of the reproduction, made by the command and opened in a real browser."""

from typing import Any

import pytest
from typer.testing import CliRunner

from tests.browsing import PHONE, width_on_a_phone
from veilsum.cli.app import app
from veilsum.paper import EXPERIMENTS, Verdict
from veilsum.paper.glossary import MEANINGS, readable
from veilsum.paper.reproduction import FAILED, SKIPPED
from veilsum.results.page import BADGES


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
    assert text.count("data:image/png;base64,") == 1 + 2  # one figure, and one in two columns
    assert "veilsum reproduce fig-directed --seed 0 --quick" in text
    assert "Statements of the paper, measured: " in text
    assert "Statements of our own, measured: 0 confirmed" in text
    assert "<blockquote>“that is no longer minimum variance”</blockquote>" in text
    assert "This is a quick reproduction" in text
    assert "✓ confirmed" in text
    assert "<dt>epsilon ε</dt>" in text
    assert 'src="http' not in text
    assert "<script" not in text


@pytest.mark.integration
def test_a_browser_reads_it_on_a_phone(page: Any) -> None:
    assert width_on_a_phone(page) == PHONE


def test_quotes_are_readable_and_terms_of_the_page_are_explained() -> None:
    quotes = [claim.quote for each in EXPERIMENTS.values() for claim in each.claims]
    shown = [readable(quote) for quote in quotes]
    assert not [quote for quote in shown if "\\" in quote or "$" in quote or "{" in quote]
    assert readable("plain words") == "plain words"
    assert (
        {str(verdict) for verdict in Verdict} | {SKIPPED, FAILED}
        == MEANINGS.keys()
        == BADGES.keys()
    )
