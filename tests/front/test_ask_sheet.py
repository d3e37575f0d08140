"""The sheet of an answered question: the answer first, all labels, the promise, on a screen of any width."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.front.terminals import WIDTHS, on_terminal
from veilsum import questions
from veilsum._statistic import Status
from veilsum.asking import Reply
from veilsum.errors import VeilsumError
from veilsum.front.of_ask import number, of_ask, title_of
from veilsum.front.screen import TOO_FEW, screen
from veilsum.front.table import long_table
from veilsum.privacy.accounting import PrivacyEvent
from veilsum.questions import By, Category, Decoded, Question

HISTOGRAM = questions.histogram("kwh", between=(0, 40), bins=8)
MEAN = questions.mean("kwh", between=(0, 40))
BINS = [0.017, 0.23, 0.53, 0.2, 0.02, 0.003, 0.0, 0.0]


def shares(values: Any = BINS, half: float = 0.02) -> Decoded:
    value = np.array(values)
    labels = tuple(f"{5 * k} to {5 * k + 5}" for k in range(len(value)))
    return Decoded(
        "share by kwh", value, value - half, value + half, labels, "Most are in 10 to 15.", "",
        np.arange(len(value) + 1.0) * 5,
    )  # fmt: skip


def mean(value: float = 12.1) -> Decoded:
    return Decoded("mean of kwh", value, value - 0.4, value + 0.4, (), "About 12.1 kWh.", "kWh")


def reply(*asked: tuple[Question, tuple[Decoded, ...]], **changes: Any) -> Reply:
    asked = asked or ((HISTOGRAM, (shares(),)),)
    made = Reply(
        "households.csv", 300, "one row", [q for q, _ in asked], [d for _, d in asked],
        [1 / len(asked)] * len(asked), PrivacyEvent.of(1.0), 1.0, 3.0, "households.budget", False,
    )  # fmt: skip
    return replace(made, **changes)


@pytest.mark.parametrize("width", WIDTHS)
def test_every_label_number_and_word_is_there_and_nothing_is_cut(width: int) -> None:
    records = Decoded("records", 228.0, 220.0, 236.0, detail=True)
    asked = reply((HISTOGRAM, (shares(),)), (MEAN, (mean(), records)))
    text = screen(of_ask(asked), width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    said = " ".join(text.split())
    assert "12.10 ± 0.40 kWh" in said
    assert "records: 228.0 ± 8.0" in said
    for label in shares().labels[:1] + shares().labels[-1:]:
        assert label in said
    assert "Most are in 10 to 15." in said
    for promise in of_ask(asked).promises:
        assert promise in said


@pytest.mark.parametrize("width", WIDTHS)
def test_a_histogram_has_a_bar_for_each_bin(width: int) -> None:
    lines = screen(of_ask(reply()), width).splitlines()
    bars = [line.count("#") for line in lines if " to " in line and "±" in line]
    assert len(bars) == 8
    assert bars[2] == max(bars) == 24
    assert bars[-1] == 0


def test_the_screen_is_the_one_of_the_design() -> None:
    text = str(of_ask(reply(epsilon_spent=1.0)))
    assert text.splitlines()[:4] == [
        "Histogram of kwh, households.csv",
        "300 rows, drawn now; may be published",
        "",
        "  0 to 5    0.017 ± 0.020  #",
    ]
    assert text.endswith(
        "Proved: If one row of households.csv were any other, anything published is at\n"
        "  most 2.72 times more likely. Whoever holds the file sees all of it.\n"
        "Spent 1 of 3 epsilon on households.csv (households.budget)."
    )
    assert len(text.splitlines()) <= 24


def test_all_answers_so_far_are_promised_together() -> None:
    said = of_ask(reply(epsilon_spent=2.5)).promises[0]
    assert "this answer is at most 2.72 times more likely" in said
    assert "all answers so far together, at most 12.2 times more likely" in said


def test_who_is_protected_and_who_sees_all() -> None:
    answers = of_ask(reply(unit="all rows of one person", records=None))
    assert "If all rows of one person in households.csv were any other" in answers.promises[0]
    assert "number of records private, one for each person" in answers.about
    promise = answers.guarantee
    assert (promise.status, promise.epsilon, promise.event) == (
        Status.PROVED, 1.0, PrivacyEvent.of(1.0),
    )  # fmt: skip
    assert "all rows of one person of households.csv, replaced by any other" in str(promise)
    assert "everyone who sees what is published" in str(promise)
    assert "Whoever holds the data" in of_ask(reply(table="the table")).promises[0]


def test_a_stored_answer_says_when_it_was_drawn_and_that_it_is_free() -> None:
    about = of_ask(reply(stored=True, date="19 November 2026")).about
    assert about == "300 rows, stored answer of 19 November 2026, costs nothing; may be published"


def test_an_unproved_question_makes_an_unproved_promise() -> None:
    class Claimed(type(MEAN)):  # type: ignore[misc]
        @property
        def whole(self) -> Any:
            return replace(super().whole, status=Status.CLAIMED)

    asked = Claimed(column=MEAN.column)
    answers = of_ask(reply((HISTOGRAM, (shares(),)), (asked, (mean(),))))
    assert answers.promises[0].startswith("Claimed, not proved: If one row")
    assert answers.guarantee.status is Status.CLAIMED


def test_values_intervals_and_labels_are_for_programs() -> None:
    answers = of_ask(reply((MEAN, (mean(),)), (HISTOGRAM, (shares(),))))
    assert answers.value == 12.1
    assert answers.interval == (11.7, 12.5)
    assert answers.epsilon == 1.0
    shown = answers["histogram"]
    assert shown.coef_["10 to 15"] == 0.53
    assert "Mean" not in str(shown).split("\n", 2)[2]
    with pytest.raises(VeilsumError, match="one number"):
        _ = answers.coef_
    rows = long_table(answers)
    assert [row.quantity for row in rows][:2] == ["mean of kwh", "share by kwh[0 to 5]"]
    assert {row.status for row in rows} == {"proved"}
    assert len(answers.to_frame()) == 9


def test_one_label_is_a_list_of_one_in_json() -> None:
    found = Decoded("share", np.array([0.5]), np.array([0.4]), np.array([0.6]), ("north",))
    (entry,) = of_ask(reply((HISTOGRAM, (found,)))).to_dict()["answers"]
    assert (entry["value"], entry["labels"]) == ([0.5], ["north"])


def test_what_cannot_be_said_is_no_number() -> None:
    nan = math.nan
    few = Decoded("mean of kwh", nan, nan, nan, (), "Too few records.")
    answers = of_ask(reply((MEAN, (few,))))
    assert TOO_FEW in str(answers)
    assert number(answers.best) == TOO_FEW
    assert answers.to_dict()["answers"][0]["value"] is None
    some = Decoded("mean of kwh by region", np.array([3.0, nan]), np.array([2.0, nan]),
                   np.array([4.0, nan]), ("north", "south"))  # fmt: skip
    text = str(
        of_ask(reply((By(question=MEAN, group=Category("region", ("north", "south"))), (some,))))
    )
    assert "Mean of kwh by region" in text
    assert f"south  {TOO_FEW}" in text
    assert "nan" not in text


def test_negative_numbers_have_no_bars() -> None:
    found = Decoded("slope", np.array([2.0, -1.0]), np.array([1.0, -2.0]), np.array([3.0, 0.0]),
                    ("heat", "size"))  # fmt: skip
    lines = [
        line for line in str(of_ask(reply((HISTOGRAM, (found,))))).splitlines() if "size" in line
    ]
    assert lines == ["  size  -1.0 ± 1.0"]


def with_peak(size: int, peak: int) -> Decoded:
    return shares([0.3 if k == peak else 0.01 for k in range(size)])


@pytest.mark.parametrize("bins", [8, 20, 24])
def test_among_several_questions_a_histogram_has_all_its_bins(bins: int) -> None:
    found = with_peak(bins, 7)
    text = str(of_ask(reply((MEAN, (mean(),)), (HISTOGRAM, (found,)))))
    assert [label for label in found.labels if f"  {label} " not in text] == []
    assert "-o STEM writes all" not in text


@pytest.mark.parametrize("peak", range(50))
def test_of_more_bins_the_largest_is_shown_and_the_ends(peak: int) -> None:
    found = with_peak(50, peak)
    lines = str(of_ask(reply((MEAN, (mean(),)), (HISTOGRAM, (found,))))).splitlines()
    shown = [line.split("  ")[1] for line in lines if " to " in line and "±" in line]
    assert {found.labels[k] for k in (0, peak, 49)} <= set(shown)
    assert f"  ... {len(shown)} of 50: evenly spaced, and the largest; -o STEM writes all" in lines
    assert any("#" * 24 in line for line in lines)


def test_of_many_categories_the_largest_are_shown() -> None:
    labels = tuple(f"place {k}" for k in range(40))
    found = replace(with_peak(40, 33), labels=labels, axis=None)
    text = str(of_ask(reply((HISTOGRAM, (found,)))))
    assert "  place 33 " in text
    assert "... 12 of 40: the largest; -o STEM writes all" in text


def test_of_two_curves_both_are_shown() -> None:
    labels = tuple(f"{arm}: {k}" for arm in "AB" for k in range(20))
    found = replace(shares(np.linspace(1, 0, 40)), labels=labels, axis=None)
    text = str(of_ask(reply((HISTOGRAM, (found,)))))
    assert [text.count(f"  {arm}: ") for arm in "AB"] == [6, 6]


def test_a_cell_that_is_not_shown_says_so() -> None:
    nan = math.nan
    some = np.array([0.5, nan, nan])
    found = Decoded("share", some, some, some, ("a", "b", "c"), absent=("", "fewer than 10", ""))
    answers = of_ask(reply((HISTOGRAM, (found,))))
    text = str(answers)
    assert "  b  fewer than 10" in text
    assert f"  c  {TOO_FEW}" in text
    assert "share[b (fewer than 10)]" in {row.quantity for row in long_table(answers)}
    assert answers.to_dict()["answers"][0]["absent"] == ["", "fewer than 10", ""]
    few = Decoded("number of records", nan, nan, nan, absent=("fewer than 10",))
    assert number(of_ask(reply((MEAN, (few,)))).best) == "fewer than 10"


def test_one_row_is_one_row() -> None:
    assert of_ask(reply(records=1)).about.startswith("1 row, ")
    assert of_ask(reply(records=1, unit="all rows of one id")).about.startswith("1 record, ")


def test_of_a_long_line_evenly_spaced_points_are_shown() -> None:
    text = str(of_ask(reply((HISTOGRAM, (shares(np.linspace(0, 1, 101)),)))))
    assert "... 12 of 101" in text
    assert "  0 to 5 " in text
    assert "  500 to 505 " in text
    assert len(text.splitlines()) <= 24


def test_questions_of_one_name_have_names_of_their_own() -> None:
    other = questions.mean("age", between=(0, 120))
    answers = of_ask(reply((MEAN, (mean(),)), (other, (mean(40.0),))))
    assert list(answers) == ["Mean of kwh", "Mean of age"]
    assert answers["Mean of age"].value == 40.0
    assert title_of(other) == "Mean of age"
    bounds = {"kwh": (0, 40), "size": (0, 200), "rooms": (0, 9)}
    slopes = questions.regression("kwh", "size", "rooms", between=bounds)
    assert title_of(slopes) == "Regression of kwh on size, rooms"


def test_files_have_a_name_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("households.csv").write_text("kwh\n1\n")
    written = of_ask(reply(where="region north or south")).save()
    assert [path.name for path in written] == [
        "households-histogram-kwh-region-north-or-south.html",
        "households-histogram-kwh-region-north-or-south.csv",
    ]
    assert Path("households.csv").read_text() == "kwh\n1\n"
    page = written[0].read_text()
    assert "<svg" in page
    assert "10 to 15" in page
    assert "Proved: If one row" in page
    assert "<script" not in page


def test_the_picture_is_that_of_the_question() -> None:
    axes = of_ask(reply()).plot()
    assert axes.get_xlabel() == "kwh"
    assert len(axes.patches) == 8


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_real_answer_on_a_real_terminal(tmp_path: Path, columns: int) -> None:
    rng = np.random.default_rng(1)
    rows = "\n".join(f"{value:.2f}" for value in rng.normal(12, 4, 300))
    (tmp_path / "households.csv").write_text(f"kwh\n{rows}\n")
    shown = on_terminal(
        "ask", "histogram", "kwh", "households.csv", "--between", 0, 40, "--bins", 8, "--eps", 1,
        columns=columns, folder=tmp_path,
    )  # fmt: skip
    assert shown.code == 0, shown.errors
    assert max(map(len, shown.lines)) <= columns
    assert all(f"{5 * k} to {5 * k + 5}" in shown.text for k in range(8))
    assert "Spent 1 of 1 epsilon on households.csv" in " ".join(shown.text.split())
    assert len(shown.lines) <= 26 if columns == 60 else 24
