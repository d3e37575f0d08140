"""Ids: what an id counts for, how far it moves a vector, and weakened twins that move it further."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.asking.tables import BINS, KWH, columns, totals, totals_of
from tests.questions.make import identity
from tests.questions.test_contract import ALL as CONTRACT
from veilsum import questions
from veilsum.asking.by_id import IdCodes, Lines, hashed
from veilsum.asking.settling import settle
from veilsum.asking.sums import HullSums
from veilsum.asking.tables import ArrayTable
from veilsum.asking.units import Capped, EachId, EachRow, RecordUnit, promise, unit_of
from veilsum.errors import QuestionError
from veilsum.privacy import Statistic
from veilsum.questions import Category, Number, Question
from veilsum.questions.noise import grid

ALL = [
    one if len(one.stages) == 1 else one.stage(0, ()) for one in CONTRACT
]  # of stages, the first
UNITS = {"id": EachId("person"), "cap": Capped("person", 3)}


def people(question: Question, rng: np.random.Generator, most: int = 5) -> list[dict[str, Any]]:
    """Rows of some people, as raw values: many at the ends of bounds, some beyond."""
    found = []
    for _ in range(24):
        rows = int(rng.integers(1, most + 1))
        one: dict[str, Any] = {}
        for column in question.columns:
            if isinstance(column, Category):
                one[column.name] = rng.choice(list(column.values), rows).astype(object)
            else:
                low, high = (column.low, column.high) if isinstance(column, Number) else (-9.0, 9.0)
                width = min(high, 9.0) - max(low, -9.0)
                share = rng.choice([0.0, 1.0, 0.5, 1 / 3, -0.5, rng.random()], rows)
                one[column.name] = max(low, -9.0) + width * share
        one["person"] = np.zeros(rows, dtype=np.int64)
        found.append(one)
    return found


def vector(question: Question, unit: RecordUnit, step: Fraction, rows: dict[str, Any]) -> Any:
    settled = settle([KWH], epsilon=1.0, id="person", missing="out")
    from veilsum.asking.passes import Pass

    codes = IdCodes(bytes(16))
    sums = unit.sums(question, step, codes)
    Pass(ArrayTable(rows), settled.view, [question], codes).run([sums])
    return sums.vector()


@pytest.mark.parametrize("question", ALL, ids=identity)
@pytest.mark.parametrize("kind", UNITS)
def test_no_id_moves_a_vector_further_than_its_statistic(question: Question, kind: str) -> None:
    unit = UNITS[kind]
    try:
        question = unit.ask(question)
        statistic = unit.statistic(question.statistic)
        step = grid(statistic)
        unit.sums(question, step, IdCodes())
    except QuestionError as error:
        pytest.skip(str(error))
    l1, l2 = statistic.steps(step)
    vectors = [
        vector(question, unit, step, rows) for rows in people(question, np.random.default_rng(3))
    ]
    if question.partial:
        vectors.append(0 * vectors[0])
    worst1 = worst2 = 0.0
    for a, b in itertools.combinations(vectors, 2):
        move = np.abs(np.asarray(a - b, dtype=float))
        worst1, worst2 = max(worst1, move.sum()), max(worst2, float(np.linalg.norm(move)))
    assert worst1 <= l1
    assert worst2 <= l2 * (1 + 1e-12)


def test_a_sum_of_rows_instead_of_their_mean_moves_further() -> None:
    """A weakened twin: rows of an id are added up."""

    class Added(HullSums):
        def _counted(self, lines: Lines, starts: Any, place: Any) -> Any:
            del starts, place
            return self.weight * lines.values

    unit = EachId("person")
    statistic = unit.statistic(BINS.statistic)
    step = Fraction(statistic.step or 0)
    rows = {"kwh": np.full(5, 1.0), "person": np.zeros(5, dtype=np.int64)}
    moved = []
    for kind in (HullSums, Added):

        class Weakened(EachId):
            def sums(self, question: Question, step: Fraction, codes: IdCodes) -> Any:
                del codes
                return kind(question, Fraction(1), int(1 / step))  # noqa: B023

        moved.append(int(np.abs(vector(BINS, Weakened("person"), step, rows)).sum()))
    assert moved[0] <= statistic.steps(step)[0] < moved[1]


def test_an_id_counts_for_the_mean_of_its_rows() -> None:
    rows = {"kwh": [0.0, 40.0, 10.0, 30.0, 20.0], "person": ["a", "a", "b", "b", "c"]}
    settled = settle([KWH, BINS], epsilon=1.0, id="person")
    mean, bins = totals_of(ArrayTable(rows), settled)
    assert mean[-1] == bins[-1] == 3
    step = float(settled.asked[0].noises[0].step)
    assert mean[0] * step == pytest.approx(1.5, abs=1e-8)
    found = np.array(bins[:-1]) * float(settled.asked[1].noises[0].step)
    np.testing.assert_allclose(found, [0.5, 0.5, 0, 1, 0, 0.5, 0.5], atol=1e-8)
    assert sum(bins[:-1]) == 3 * 2**29  # exactly: a point of the hull


@pytest.mark.parametrize("question", ALL, ids=identity)
def test_ids_with_one_row_each_count_as_rows_do(question: Question) -> None:
    rng = np.random.default_rng(4)
    each = people(question, rng, most=1)
    rows = {name: np.concatenate([one[name] for one in each]) for name in each[0]}
    rows["person"] = np.arange(len(each))
    for kind, unit in UNITS.items():
        try:
            asked = unit.ask(question)
            step = grid(unit.statistic(asked.statistic))
            found = vector(asked, unit, step, rows)
        except QuestionError as error:
            assert kind == "cap" or not question.of_ids or question.adds_rows, error  # noqa: PT017
            continue
        whole = question.statistic.step
        row = vector(asked, EachRow(), step if whole is None else Fraction(whole), rows)
        weight = 1 if whole is None else int(Fraction(whole) / step)
        np.testing.assert_array_equal(found, weight * row)


@pytest.mark.parametrize("question", ALL, ids=identity)
def test_an_id_of_equal_rows_counts_as_one_of_them(question: Question) -> None:
    unit = EachId("person")
    try:
        asked = unit.ask(question)
        step = grid(unit.statistic(asked.statistic))
        unit.sums(asked, step, IdCodes())
    except QuestionError as error:
        pytest.skip(str(error))
    for one in people(asked, np.random.default_rng(5), most=1):
        again = {name: np.repeat(values, 7) for name, values in one.items()}
        np.testing.assert_array_equal(
            vector(asked, unit, step, one), vector(asked, unit, step, again)
        )


def test_at_most_k_rows_of_an_id_count_and_each_is_chosen_as_often() -> None:
    """5 of 20 rows, 400 ids: a row is chosen with probability 1/4; false alarms below 1e-9 (6.1 sd)."""
    each, ids, cap = 20, 400, 5
    table = {
        "kwh": np.tile(np.arange(each) * 2 + 1.0, ids),
        "person": np.repeat(np.arange(ids), each),
    }
    bins = questions.histogram("kwh", between=(0, 40), bins=each)
    found = np.array(totals(table, bins, id="person", cap=cap)[0][:-1])
    assert found.sum() == cap * ids
    sd = np.sqrt(ids * 0.25 * 0.75)
    assert np.abs(found - ids / 4).max() < 6.1 * sd
    same = {"kwh": np.full(each * ids, 3.0), "person": table["person"]}
    assert sum(totals(same, bins, id="person", cap=cap)[0][:-1]) == cap * ids


def test_rows_of_equal_value_are_chosen_one_by_one() -> None:
    """90 rows in a bin and 10 in another, of which 10 count: 9 to 1 on average over 300 ids."""
    bins = questions.histogram("kwh", between=(0, 40), bins=2)
    values = np.tile([1.0] * 90 + [30.0] * 10, 300)
    table = {"kwh": values, "person": np.repeat(np.arange(300), 100)}
    low, high, _ = totals(table, bins, id="person", cap=10)[0]
    assert low + high == 3000
    assert abs(high - 300) < 6.1 * np.sqrt(3000 * 0.1 * 0.9)


def test_the_order_of_rows_does_not_matter() -> None:
    table = columns(500)
    order = np.random.default_rng(1).permutation(500)
    other = {k: [v[i] for i in order] for k, v in table.items()}
    for options in ({}, {"id": "person"}, {"id": "person", "cap": 2}):
        asked = (KWH, BINS)
        assert totals(table, *asked, **options) == totals(other, *asked, **options)


def test_a_missing_id_is_an_error_or_its_row_is_left_out() -> None:
    table = {"kwh": [1.0, 2.0, 3.0], "person": ["a", None, "a"]}
    with pytest.raises(QuestionError, match="row 2: column person has no id"):
        totals(table, KWH, id="person")
    left = {"kwh": [1.0, 3.0], "person": ["a", "a"]}
    assert totals(table, KWH, id="person", missing="out") == totals(
        left, KWH, id="person", missing="out"
    )


def test_which_unit_a_question_has() -> None:
    assert unit_of(KWH) == EachRow()
    assert unit_of(KWH, "person") == EachId("person")
    assert unit_of(KWH, "person", 3) == Capped("person", 3)
    with pytest.raises(QuestionError, match="say which column is the id"):
        unit_of(KWH, cap=3)
    for cap in (0, True, 1.5):
        with pytest.raises(QuestionError, match="cap is a whole number"):
            Capped("person", cap)  # type: ignore[arg-type]
    if "distinct" in questions.QUESTIONS:
        ids = questions.distinct()
        assert unit_of(ids, "person", 3) == EachId("person")
        with pytest.raises(QuestionError, match="counts ids"):
            EachRow().ask(ids)
    assert promise([EachRow(), EachRow()]) == "one row"
    assert "of which 3" in promise([EachId("person"), Capped("person", 3)])


def test_a_cap_costs_as_much_as_so_many_rows() -> None:
    row = Statistic(1.0, 1.0, low=0.0, high=1.0, step=1.0)
    assert Capped("p", 4).statistic(row).steps(1)[0] == 4
    real = Statistic(2.0, 2**0.5, 2, low=0.0, high=1.0)
    found = Capped("p", 4).statistic(real)
    step = Fraction(2) ** -28
    assert found.steps(step)[0] >= 4 * (real.steps(step)[0])  # each row is rounded by itself


def test_codes_of_ids_depend_on_key_and_text_alone() -> None:
    codes = IdCodes(bytes(16))
    texts = np.array(["7", "-3", "x", "007", " 7 ", None, ""], dtype=object)
    found, absent = codes.read(texts)
    assert absent.tolist() == [False] * 5 + [True] * 2
    assert len(set(found[:4].tolist())) == 4
    assert found[0] == found[4]
    numbers, _ = codes.read(np.array([7, -3]))
    assert numbers.tolist() == found[:2].tolist()
    marks = codes.keyed(found)
    again = IdCodes(bytes(16))
    reversed_, _ = again.read(texts[::-1])
    assert again.keyed(reversed_)[::-1].tolist()[:4] == marks.tolist()[:4]
    assert not set(IdCodes(b"other").keyed(numbers).tolist()) & set(marks.tolist())
    many = hashed(b"k", [np.arange(1 << 16)])
    assert len(np.unique(many)) == 1 << 16


def test_rows_that_add_nothing_count_in_the_mean_of_an_id() -> None:
    share = questions.proportion("region", values=["a"])
    table = {"region": ["a", "b", "b", "b", "a", "a"], "person": [1, 1, 1, 1, 2, 2]}
    (found,) = totals(table, share, id="person")
    assert found == [2**30 // 4 + 2**30, 2]
    assert totals(table, share, id="person", cap=4)[0][-1] == 2


def test_a_cap_chooses_among_all_rows_that_are_in() -> None:
    """1 of 4 rows has the value: of 1,000 ids with a cap of 1, 250 +- 6.1 sd."""
    share = questions.proportion("region", values=["a"])
    table = {"region": ["a", "b", "b", "b"] * 1000, "person": np.repeat(np.arange(1000), 4)}
    yes = totals(table, share, id="person", cap=1)[0][0]
    assert abs(yes - 250) < 6.1 * np.sqrt(1000 * 0.25 * 0.75)
