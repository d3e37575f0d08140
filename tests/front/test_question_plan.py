"""The sheet of what a question would be worth: numbers by formula, useless ones said first, no cell cut."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tests.front.studies import call
from tests.front.terminals import WIDTHS
from veilsum import questions
from veilsum.asking.forecasting import forecasts
from veilsum.errors import QuestionError
from veilsum.front.of_question_plan import of_question_plan
from veilsum.front.screen import screen

MEAN = questions.mean("kwh", between=(0, 40))
HISTOGRAM = questions.histogram("kwh", between=(0, 40), bins=100)
PLAN = "plan mean kwh --between 0 40 --rows 300 --eps 1"


def test_error_bars_have_their_formulas() -> None:
    """One Laplace draw of scale 1/eps: 40 log(20)/300; of m of them, nearly sqrt(m) times as far."""
    found = forecasts([MEAN], 300, epsilon=1.0)
    halves = {one.name: one.forecasts[0].half for one in found.holdings}
    assert halves["one holder"] == pytest.approx(40 * math.log(20) / 300, rel=1e-3)
    many = halves["300 sites, each with its own noise"]
    assert many == pytest.approx(1.96 * 40 * math.sqrt(2 * 300) / 300, rel=0.01)
    secure, own = (halves[f"5 sites, {way}"] for way in (
        "secure sum, 1 may collude", "each with its own noise"))  # fmt: skip
    assert halves["one holder"] < secure < own < many
    assert (round(halves["one holder"], 2), round(secure, 2), round(own, 2)) == (0.40, 0.44, 0.84)


def test_what_reaches_an_error_bar_reaches_it() -> None:
    found = forecasts([MEAN], 300, epsilon=1.0, target=0.1)
    target, epsilon, rows = found.wanted[0]
    assert epsilon == pytest.approx(4.0, rel=0.02)
    assert rows == pytest.approx(1200, rel=0.02)
    assert epsilon is not None
    assert rows is not None
    richer = forecasts([MEAN], 300, epsilon=epsilon).holdings[0].forecasts[0].half
    longer = forecasts([MEAN], rows, epsilon=1.0).holdings[0].forecasts[0].half
    assert max(richer, longer) <= 1.011 * target


def test_gaussian_noise_adds_up_too() -> None:
    found = forecasts([HISTOGRAM], 5000, epsilon=1.0, delta=1e-6, sites=[4], by=("g", ("a", "b")))
    one, secure, own = (each.forecasts[0].half for each in found.holdings)
    assert one < secure < own
    assert own == pytest.approx(2 * one, rel=0.15)


def test_more_sites_than_rows_are_left_out_and_nonsense_is_refused() -> None:
    assert len(forecasts([MEAN], 20, epsilon=1.0).holdings) == 3
    with pytest.raises(QuestionError, match="rows"):
        forecasts([MEAN], 0, epsilon=1.0)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_screen_has_every_way_and_no_cell_is_cut(width: int) -> None:
    sheet = of_question_plan(forecasts([MEAN, HISTOGRAM], 300, epsilon=1.0))
    text = screen(sheet, width)
    assert max(map(len, text.splitlines())) <= width
    said = " ".join(text.split())
    for row in sheet.rows:
        assert " ".join(row.name.split()) in said
        assert row.cells["error bar, 95%"] in said
    assert "Nothing is read or spent." in said


def test_a_question_that_says_too_little_says_so_first_and_what_would_help() -> None:
    sheet = of_question_plan(forecasts([HISTOGRAM], 40, epsilon=0.1))
    assert sheet.about.startswith("Histogram of kwh would say too little")
    helps = sheet.about.partition("what would help: ")[2]
    assert "epsilon " in helps
    assert " rows" in helps
    assert "bins" in helps
    assert not sheet.promises
    assert {row.status for row in sheet.rows} == {"not useful"}


def test_the_command_reads_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = call(*PLAN.split())
    assert done.exit_code == 0, done.output
    assert "one holder                          ± 0.40" in done.stdout
    assert "For ± 0.2 at one holder: epsilon 2, or 600 rows." in done.stdout
    assert not list(tmp_path.iterdir())
    found = json.loads(call(*PLAN.split(), "--json").stdout)
    assert [row["status"] for row in found["answers"]] == ["useful"] * 3 + ["not useful"]
    assert call(*PLAN.split(), "-o", "worth").exit_code == 0
    assert Path("worth.html").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plan mean kwh --between 0 40 --eps 1", "--rows is missing"),
        ("plan mean kwh --between 0 40 --rows 300", "--eps is missing"),
        ("plan mean kwh --rows 300 --eps 1", "mean of kwh needs --between LOW HIGH"),
        ("plan meen kwh --rows 300 --eps 1", "did you mean mean?"),
        (f"{PLAN} --rounds 3", "this is a question, and --rounds is not for that"),
        ("plan no.toml", "no.toml"),
        ("plan s.toml --rows 3", "s.toml is a scenario, and --rows is not for that"),
        ("plan s.toml --target 0.1", "s.toml is a scenario, and --target is not for that"),
    ],
)
def test_mistakes(text: str, said: str) -> None:
    done = call(*text.split())
    assert done.exit_code == 2
    assert said in done.stderr
