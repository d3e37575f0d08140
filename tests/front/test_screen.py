"""The screen: nothing is cut, nothing is wider than the terminal, and a sheet of any size fits."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.front.studies import DRAWN, GROUPS, MEASURED, many, study, vector
from veilsum.front import screen as module
from veilsum.front.screen import screen, table
from veilsum.front.sheet import Answer, Answers
from veilsum.front.words import few, promises, with_bar
from veilsum.scenario import Scenario, run

pytestmark = pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")

WIDTHS = (60, 80, 100, 120)
words = st.text(alphabet="abcdefgh0123456789.-±", min_size=1, max_size=24)
cells = st.lists(words, min_size=0, max_size=4).map(" ".join)
names = st.lists(words, min_size=1, max_size=3).map(" ".join)
numbers = st.floats(-1e12, 1e12, allow_nan=False) | st.none()
vectors = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=20).map(np.array)


@st.composite
def answers_of(draw: Any) -> Answers:
    """Sheets of any verdicts, columns and numbers."""
    heads = draw(st.lists(words, max_size=6, unique=True))
    rows = []
    for _ in range(draw(st.integers(1, 20))):
        value = draw(numbers | vectors)
        half = draw(st.none() | st.floats(0, 1e3))
        ends = (None, None) if half is None or value is None else (value - half, value + half)
        rows.append(
            Answer(
                draw(names), draw(st.sampled_from(["mu", "p", ""])), value, ends[0], ends[1],
                unit=draw(st.sampled_from(["", "kWh"])),
                status=draw(st.sampled_from(["proved", "claimed", "refuted", "none", ""])),
                kind=draw(st.sampled_from(["", "a stream"])),
                cells={head: draw(cells) for head in draw(st.lists(st.sampled_from(heads)))}
                if heads else {},
            )
        )  # fmt: skip
    texts = st.lists(names, max_size=2).map(tuple)
    return Answers(
        "study", draw(names), draw(names), tuple(rows), draw(texts), draw(texts), draw(texts)
    )


def check_widths(text: str, width: int) -> None:
    """No line is longer than the width, unless what is too long is a single word."""
    for line in text.splitlines():
        assert len(line) <= width or len(line.split()) == 1, f"{len(line)} > {width}: {line!r}"


def shown(text: str) -> str:
    """All words in order, wherever lines end."""
    return f" {' '.join(text.split())} "


@settings(max_examples=150, deadline=None)
@given(answers_of(), st.integers(40, 130))
def test_no_line_is_too_long_and_no_cell_is_cut(answers: Answers, width: int) -> None:
    text = screen(answers, width)
    check_widths(text, width)
    rows, _ = module._chosen(answers.rows, width)
    everything = shown(text)
    for row in rows:
        assert f" {shown(row.name).strip()} " in everything
        number = with_bar(row.value, row.low, row.high, row.unit)
        if row.quantity or row.size:
            assert f" {number} " in everything
    left = re.search(r"Left out for want of room: (.*)\. $", shown(text))
    named = set() if left is None else set(re.split(r", | and ", left[1]))
    assert not named & {"mu", "p", module.ANSWER}, "answers are never left out"
    for row in rows:
        for head, cell in row.cells.items():
            if cell and head not in named:
                assert f" {cell} " in everything or f" {cell}, " in everything


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 5), st.data(), st.integers(40, 130))
def test_a_table_of_texts_loses_nothing(columns: int, data: Any, width: int) -> None:
    heads = data.draw(st.lists(words, min_size=columns, max_size=columns))
    row = st.tuples(names, *([cells] * (columns - 1)))
    rows = data.draw(st.lists(row, min_size=1, max_size=6))
    text = table(heads, rows, width)
    check_widths(text, width)
    for found in rows:
        for cell in found:
            assert set(cell.split()) <= set(text.split())


def test_the_checks_find_what_is_cut() -> None:
    with pytest.raises(AssertionError):
        check_widths("two words" * 9, 40)
    check_widths("oneword" * 9, 40)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_column_that_does_not_fit_is_named(width: int) -> None:
    answers = run(Scenario.parse(GROUPS))
    text = screen(answers, width, [Path("a.html"), Path("a.csv")])
    check_widths(text, width)
    heads = module.headings(module.lines_of(answers.rows))
    said = re.sub(r"[(),]", " ", text)
    missing = [head for head in heads if f" {head} " not in shown(said)]
    assert missing == [], "each is a heading, or named behind the page"
    assert ("(also there: " in text) == (width < 100)
    assert "rounds 5" in shown(text), "a constant column is in the heading"


@pytest.mark.parametrize("width", WIDTHS)
def test_vectors_are_drawn_with_bars(width: int) -> None:
    answers = run(Scenario.parse(vector(5)))
    lines = screen(answers, width).splitlines()
    bars = {
        k: line.count("#") for k in range(5) for line in lines if line.strip().startswith(f"p[{k}]")
    }
    assert len(bars) == 5
    largest = int(np.argmax(answers.value))
    assert bars[largest] == max(bars.values()) == module.BAR
    for k, value in enumerate(answers.value):
        assert bars[k] == round(module.BAR * max(value, 0) / answers.value.max())
        assert any(f"{value:.2f} (" in line for line in lines), "the number, not its ends alone"


def test_a_long_vector_and_many_vectors_stay_on_a_screen() -> None:
    assert "... and 18 more components" in str(run(Scenario.parse(vector(30))))
    variants = "".join(f'[[variant]]\nname = "v{k}"\n' for k in range(9))
    text = str(run(Scenario.parse(vector(12) + variants)))
    assert "the components of 7 more, in votes.csv" in text
    assert len(text.splitlines()) <= 60


@pytest.mark.parametrize("width", WIDTHS)
def test_a_sweep_of_hundreds_is_one_screen(width: int) -> None:
    """It used to be 918 lines."""
    epsilons = (0.5, 1.0, 2.0)
    answers = run(Scenario.parse(many(100)), epsilons=epsilons)
    assert len(answers.rows) == 300
    text = screen(answers, width)
    check_widths(text, width)
    assert len(text.splitlines()) <= (30 if width >= 80 else 34)
    assert f"... and {300 - module.MOST_ROWS} more, in small.csv" in text
    assert "epsilon" in text


def test_hundreds_of_different_promises_are_one_screen_too() -> None:
    one = next(iter(run(Scenario.parse(DRAWN)).results.values()))
    kinds = [replace(one.guarantee, epsilon=0.01 * k) for k in range(1, 200)]
    said = promises({f"v{k}": each for k, each in enumerate(kinds)})
    text = str(Answers("n", "t", "a", (Answer("v0", "mu", 1.0, status="proved"),), tuple(said)))
    assert len(said) > 100
    assert len(text.splitlines()) <= 30
    assert "more promises, on the page" in text
    same = promises({f"v{k}": one.guarantee for k in range(200)} | {"last": kinds[0]})
    assert max(map(len, same)) < 400
    assert few(["a", "b"]) == "a, b"
    assert few([str(k) for k in range(20)]).endswith("and 13 more")


def test_a_sweep_promises_what_holds_at_all_of_its_epsilons() -> None:
    """Of epsilons 0.5 and 2 it promised the first one's odds for both."""
    text = str(run(Scenario.parse(DRAWN), epsilons=(0.5, 2.0)))
    assert "at most 7.39 times" in shown(text)
    assert "1.65" not in text


def test_the_best_run_s_promise_comes_first() -> None:
    first, *_ = run(Scenario.parse(GROUPS)).promises
    assert first.endswith(": good.")


def test_numbers_of_different_quantities_share_a_column() -> None:
    """The answer of a row is never what has no room."""
    rows = (Answer("a", "mu", 1.5), Answer("b", "rate", 2.5), Answer("c", cells={"answer": "none"}))
    lines = screen(Answers("n", "t", "a", rows), 40).splitlines()
    assert "  a    mu 1.5" in lines
    assert "  b  rate 2.5" in lines
    assert "  c      none" in lines


def test_measured_signals_have_an_answer_and_no_error(tmp_path: Path) -> None:
    text = str(run(study(tmp_path, MEASURED)))
    assert " kWh" in text
    assert not {"error", "noise", "disagreement"} & set(re.findall(r"\w+", text.split("Proved")[0]))


def test_a_title_of_several_lines_and_tabs_stays_within_the_width() -> None:
    answers = Answers("n", "one\ntwo\tthree " * 9, "a", (Answer("v", "mu", 1.0),))
    check_widths(screen(answers, 40), 40)
    assert "one two" in shown(screen(answers, 40))


def test_the_rest_is_in_the_table_and_a_figure_is_named() -> None:
    rows = tuple(Answer(f"v{k}", "mu", float(k), status="proved") for k in range(40))
    files = [Path("a.html"), Path("a.csv"), Path("fig.pdf")]
    text = screen(Answers("n", "t", "a", rows), 80, files)
    assert "... and 24 more, in a.csv" in text
    assert "Page a.html, figure fig.pdf" in text


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ((None,), "-"), ((1.23456,), "1.235"), ((10.0, 9.97, 10.03), "10.000 ± 0.030"),
        ((0.4, 0.07, 1.0), "0.40 (0.07 to 1.00)"), ((2.0, 2.0, 2.0), "2"),
        ((5.0, -np.inf, np.inf), "5"), ((np.ones(3),), "3 components"),
        ((10.0, 9.97, 10.03, "kWh"), "10.000 ± 0.030 kWh"),
    ],
)  # fmt: skip
def test_a_number_is_never_without_itself(given_: Any, said: str) -> None:
    assert with_bar(*given_) == said
