"""Attacks on what a promise says: two tables that differ in one record, and all that is released of both."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.asking.tables import KWH, columns, parquet, totals, write_csv
from veilsum import asking, questions
from veilsum.asking.budget_log import RELEASE, BudgetLog
from veilsum.asking.tables import open_table
from veilsum.errors import QuestionError
from veilsum.front.of_ask import of_ask
from veilsum.privacy.mechanisms.gaussian import DiscreteGaussian
from veilsum.questions import Category
from veilsum.questions.columns import distinct
from veilsum.questions.intervals import summed

OTHERS = (
    "select * from read_csv('PATH')", "select * from 'PATH'", "select * from read_text('PATH')",
    "select count(*) as kwh from glob('*')", "from read_csv(['DATA', 'DATA'])",
    "with q as (from data) select * from read_csv('DATA')",
)  # fmt: skip
AMPLIFIED = (
    "select d.kwh from data d, range(100)", "select max(kwh) over () as kwh from data",
    "select kwh from data union all select kwh from data", "select unnest([kwh, kwh]) as kwh from data",
    "select kwh from data where kwh::double >= (select avg(kwh::double) from data)",
    "select sum(kwh::double) as kwh from data",
    "select kwh from data order by kwh limit 5", "select distinct kwh from data",
    "from query('select kwh from data, range(2)')", "select a.kwh from data a join data b using (kwh)",
    "with q as (from data) select 1 as kwh", "select 1 as kwh", "select column0 as kwh from hidden",
    "select range as kwh from range(5)", "summarize data",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("sql", OTHERS)
def test_a_select_reads_no_file(sql: str, kind: str, tmp_path: Path) -> None:
    data = write_csv(tmp_path / "a.csv", columns(20))
    other = write_csv(tmp_path / "secret.csv", columns(9))
    data = data if kind == "csv" else parquet(tmp_path, columns(20))
    text = sql.replace("PATH", str(other)).replace("DATA", str(data))
    with pytest.raises(QuestionError, match="SELECT"):
        open_table(data, sql=text)


@pytest.mark.parametrize("sql", AMPLIFIED)
@pytest.mark.parametrize("kind", ["csv", "mapping"])
def test_a_row_of_a_select_is_of_one_row_of_the_data(sql: str, kind: str, tmp_path: Path) -> None:
    hidden = {"column0": [1.0]}
    table: Any = columns(20)
    data = table if kind == "mapping" else write_csv(tmp_path / "a.csv", table)
    with pytest.raises(QuestionError, match="SELECT"):
        open_table(data, sql=sql)
    assert hidden


def test_what_makes_a_row_of_a_row_may_be_selected(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "a.csv", columns(20))
    for sql, rows in {
        "select * from (select 2 * kwh::double as kwh from data) order by kwh": 20,
        "select kwh from data where region in ('north', 'Zürich') and kwh::double > 0": 14,
    }.items():
        table = open_table(data, sql=sql)
        assert table.filtered == ("where" in sql)
        assert table.rows() <= rows


def test_how_many_rows_a_select_leaves_is_private(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "a.csv", columns(2000))
    reply = asking.ask(
        data, KWH, epsilon=1.0, sql="select * from data where region = 'north'", limit=9
    )
    assert reply.records is None
    assert reply.questions[0].partial
    whole = asking.ask(data, KWH, epsilon=1.0, sql="select kwh from data")
    assert whole.records == 2000


def test_a_row_does_not_choose_the_type_of_others(tmp_path: Path) -> None:
    code = questions.proportion("code", values="01")
    for last in ("02", "x"):
        path = write_csv(tmp_path / "a.csv", {"code": ["01"] * 50 + [last]})
        assert totals(path, code, sql="select * from data")[0][0] == 50
    with pytest.raises(QuestionError, match="column code has values of several types") as caught:
        totals({"code": [1, 2, "4711x"]}, code, sql="select * from data")
    assert "4711" not in str(caught.value)


def test_an_error_of_duckdb_shows_no_value(tmp_path: Path) -> None:
    table: dict[str, list[Any]] = {"kwh": ["1", "4711secret"] * 100}
    for data in (table, write_csv(tmp_path / "a.csv", table)):
        with pytest.raises(QuestionError, match="try_cast") as caught:
            totals(data, KWH, sql="select kwh::double as kwh from data")
        assert "4711" not in str(caught.value)
    broken = tmp_path / "b.csv"
    broken.write_text('kwh\n1\n2\n"4711secret\n' + "3\n" * 9)
    with pytest.raises(QuestionError) as caught:
        totals(broken, KWH, sql="select kwh from data")
    assert "4711" not in str(caught.value)


def test_a_value_is_read_without_the_others() -> None:
    """True == 1 and equal decimals with other digits are one key of a dict, and not one text."""
    from decimal import Decimal

    column = Category("c", ["1"])
    for first in (True, 1, 1.0, Decimal("1.0"), Decimal("1"), "1"):
        values = np.empty(5, dtype=object)
        values[:] = [first, 1, Decimal("1"), 1.0, "1"]
        assert column.read(values)[1:].tolist() == [0, 0, 0, 0]
    for table in ([1, 1, 1, 1], [True, 1, 1, 1]):
        found = totals({"c": table}, questions.proportion("c", values="1"))
        assert found[0][0] >= 3
    known, inverse = distinct(np.array([True, 1, None, float("nan"), "1"], dtype=object))
    assert [known[k] for k in inverse[:2]] == [True, 1]
    assert totals({"c": [float("inf"), "1"]}, questions.proportion("c", values="1"))[0][0] == 1


def test_no_value_shows_in_a_warning() -> None:
    """Warnings are errors here; on a screen they would say that a value is large."""
    small = questions.mean("x", between=(0, 1e-300))
    wide = questions.mean("x", between=(-8e307, 8e307))
    found = totals({"x": [1e18, -1e18, 0.0, 1.7e308, float("inf")]}, small, wide)
    assert found[0][0] == 3 * 2**30
    mass = summed(DiscreteGaussian(Fraction(400)), 1)
    assert abs(float(mass.sum()) - 1) < 1e-7


def test_the_same_rows_do_not_count_twice_for_the_price_of_one(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", columns(200))
    copy = shutil.copy(path, tmp_path / "copy.csv")
    for other in (path, copy):
        with pytest.raises(QuestionError, match=r"has the same rows as a\.csv"):
            asking.ask([path, other], KWH, epsilon=1.0, budget=tmp_path / "b")
    empty = [write_csv(tmp_path / f"{k}.csv", columns(0)) for k in "ef"]
    assert asking.ask([path, *empty], KWH, epsilon=1.0, budget=tmp_path / "b").records == 200


def test_a_private_number_of_records_is_kept_nowhere(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", columns(777))
    asked = asking.ask(path, questions.count(), epsilon=1.0)
    log = BudgetLog(Path(asked.budget))
    kept = json.dumps([log.answer(entry) for entry in log.of_kind(RELEASE)])
    log.close()
    assert '"records": 0' in kept
    again = asking.ask(path, questions.count(), epsilon=1.0)
    assert again.stored
    assert again.decoded[0][0].value == asked.decoded[0][0].value


def test_answers_that_hide_different_things_do_not_add_up(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", columns(2000))
    first = asking.ask(path, KWH, epsilon=1.0, limit=(9, 1e-6))
    again = asking.ask(path, KWH, epsilon=1.0, id="person")
    assert (first.adds_up, again.adds_up) == (True, False)
    assert "all answers so far together, at most" not in of_ask(again).promises[0]
    assert "no number is proved" in of_ask(again).promises[0]
    public = {"where": {"region": "north"}, "rows_public": True}
    assert not asking.ask(path, KWH, epsilon=1.0, **public).adds_up  # type: ignore[arg-type]


def test_what_all_answers_together_cost_has_their_delta(tmp_path: Path) -> None:
    table, budget = columns(2000), tmp_path / "b"
    cdf = questions.cdf("kwh", between=(0, 40))
    first = asking.ask(table, cdf, epsilon=1.0, delta=0.01, limit=(9, 0.1), budget=budget)
    assert first.event.delta == first.delta_spent == 0.01
    second = asking.ask(table, KWH, epsilon=1.0, budget=budget)
    said = of_ask(second).promises[0]
    assert "together, at most 7.39 times more likely, except with probability 0.01" in said


def test_a_gradient_does_not_depend_on_how_many_records_come_with_it() -> None:
    """Products of matrices round by the size of the batch, and so by whether another record is out."""
    names = [f"x{k}" for k in range(8)]
    logistic = questions.logistic(
        *names, outcome="y", between=dict.fromkeys(names, (0.0, 1.0)), norm=1.0
    )
    at = tuple(np.random.default_rng(1).normal(size=9).tolist())
    from veilsum.questions.logistic_regression import GradientStage

    stage = GradientStage(y=logistic.y, x=logistic.x, norm=1.0, at=at)
    rng = np.random.default_rng(2)
    rows = {name: rng.random(512) for name in names} | {"y": rng.integers(0, 2, 512)}
    scale = stage._scale
    object.__setattr__(
        stage, "_scale", lambda b: scale(b) * 1e-13
    )  # all digits, not those released
    whole = stage.encode(rows).parts
    assert whole is not None
    for k in range(512):
        alone = stage.encode({name: values[k : k + 1] for name, values in rows.items()}).parts
        assert alone is not None
        np.testing.assert_array_equal(alone[0], whole[k])
    assert stage.total(rows, Fraction(1)).shape == (9,)
