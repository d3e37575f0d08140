"""The sheet of a reproduction: counts, groups, whole sentences at any width, and the long table."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from veilsum.front.screen import screen
from veilsum.front.table import as_csv, long_table
from veilsum.paper import ReproductionReport, sheet

RECORD = Path(__file__).parents[2] / "docs" / "verdicts.json"


@pytest.fixture(scope="module")
def reports() -> list[ReproductionReport]:
    """The whole paper, as it was judged last."""
    held = json.loads(RECORD.read_text(encoding="utf-8"))["experiments"]
    return [ReproductionReport(quick=False, inputs="", **each) for each in held]


def one(reports: list[ReproductionReport], id: str) -> list[ReproductionReport]:
    return [report for report in reports if report.id == id]


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_the_whole_paper_is_one_screen_of_whole_sentences(
    width: int, reports: Any, tmp_path: Any
) -> None:
    answers = sheet(reports, tmp_path)
    text = screen(answers, width, [Path("paper.html"), Path("paper.csv")])
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= (30 if width < 80 else 24)
    said = " ".join(text.split())
    shown = [row for row in answers.rows if f"{row.name}: " in said]
    assert shown
    assert all(f"{row.name}: {row.sentences[0]}" in said for row in shown)
    assert f"... and {len(answers.rows) - len(shown)} more, in paper.csv" in said
    assert [line for line in lines if line.isupper()] == [
        "CONFIRMED", "TRUE, UNINFORMATIVE", "CORRECTED", "REFUTED",
    ]  # fmt: skip


def test_counts_come_first_and_distinguish_the_paper_from_us(reports: Any, tmp_path: Any) -> None:
    text = str(sheet(reports, tmp_path))
    counted = " ".join(text.split("\n\n")[0].split())
    for whose in ("Of the paper, measured", "Of the paper, decided by proof", "Ours, measured"):
        assert f"{whose}: " in counted
    assert " 0 " not in counted


def test_a_statement_that_is_ours_says_so(reports: Any, tmp_path: Any) -> None:
    answers = sheet(one(reports, "fig-data"), tmp_path)
    said = " ".join(str(answers).split())
    assert "degrees: Ours: A log-normal distribution fits" in said
    assert "sizes: 969 households" in said
    assert [row.cells["whose"] for row in answers.rows] == ["the paper", "ours"]


def test_few_statements_have_their_numbers_and_many_say_where_these_are(
    reports: Any, tmp_path: Any
) -> None:
    few = sheet(one(reports, "fig-directed"), tmp_path)
    said = " ".join(str(few).split())
    assert all(" ".join(row.sentences) in said for row in few.rows)
    many = sheet(one(reports, "theorems"), tmp_path)
    said = " ".join(screen(many, 80, [Path("paper.html"), Path("paper.csv")]).split())
    assert not [row for row in many.rows if row.sentences[1] in said]
    assert said.endswith("Page paper.html (also there: what was found)")


def test_the_best_verdict_is_first_and_what_was_not_judged_last(tmp_path: Any) -> None:
    def report(id: str, verdict: str, **more: Any) -> ReproductionReport:
        return ReproductionReport(id, "T", "R", verdict, [], "", 0, False, "", "", **more)

    made = [report("a", "failed", reason="ValueError: x"), report("b", "skipped", reason="no data")]
    answers = sheet(made, tmp_path)
    assert [(row.name, row.status) for row in answers.rows] == [("b", "skipped"), ("a", "failed")]
    said = " ".join(str(answers).split())
    assert "No statement was judged." in said
    assert "FAILED a: ValueError: x" in said


def test_the_long_table_has_every_statement_and_every_number_with_a_verdict(
    reports: Any, tmp_path: Any
) -> None:
    (report,) = one(reports, "tightness")
    (tmp_path / "tightness.csv").write_text(
        "variant,round,epsilon,te,cop\nring,3,0.5,1.25,\nstar,4,,2,inf\n"
    )
    answers = sheet([replace(report, outputs=["tightness.csv"])], tmp_path)
    rows = long_table(answers)
    stated, numbers = rows[: len(answers.rows)], rows[len(answers.rows) :]
    assert [row.run for row in stated] == list(answers)
    assert all(row.status and row.quantity.endswith(".") for row in stated)
    found = [(r.run, r.status, r.method, r.round, r.epsilon, r.quantity, r.value) for r in numbers]
    assert found == [
        ("tightness", "refuted", "ring", 3, 0.5, "te", 1.25),
        ("tightness", "refuted", "star", 4, None, "te", 2.0),
    ]
    assert numbers[0].of == f"{tmp_path.name}/tightness.csv:2"
    assert as_csv(answers).count("\n") == 1 + len(rows)
