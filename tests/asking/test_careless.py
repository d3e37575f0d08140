"""What people pass without care: each has a clear answer, and no message shows a value of the table."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.asking.tables import KWH, columns, totals
from veilsum import asking, questions
from veilsum.asking.budget import BudgetFile
from veilsum.asking.tables import open_table
from veilsum.errors import PrivacyError, QuestionError, VeilsumError
from veilsum.questions import Category

REGION = questions.histogram("region", categories=("a", "b"))
SECRET = "4711.25x"

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("text", {"kwh": [1.0, SECRET]}, "row 2: column kwh is not a number"),
    ("thousands", {"kwh": ["1", "4,711,250"]}, "row 2: .* mark between thousands"),
    ("underscore", {"kwh": ["1", "4_711"]}, "row 2: .* mark between thousands"),
    ("apostrophe", {"kwh": ["1", "4'711"]}, "row 2: .* mark between thousands"),
    ("comma", {"kwh": ["1", "47,11"]}, "row 2: .* add --decimal ,"),
    ("missing", {"kwh": [1.0, None]}, "row 2: column kwh has no value: fill it"),
    ("nan", {"kwh": [1.0, math.nan]}, "row 2: column kwh has no value"),
    ("nan in text", {"kwh": ["1", "NaN"]}, "row 2: column kwh has no value"),
    ("date", {"kwh": np.array(["2024-01-01"] * 2, "datetime64[D]")}, "row 1: column kwh is a date, of which"),
    ("date in text", {"kwh": ["1", "2024-01-01"]}, "row 2: column kwh is a date, of which"),
    ("code", {"kwh": ["1", "NA"]}, "row 2: .* say so in a codebook"),
    ("no rows", {"kwh": []}, "has no rows: there is nothing to ask"),
    ("one row", {"kwh": [1.0]}, "would make this useful"),
    ("unknown column", {"kWh": [1.0]}, "no column 'kwh'; did you mean kWh"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("table", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_careless_tables_are_refused_and_cost_nothing(
    table: dict[str, Any], message: str, tmp_path: Path
) -> None:
    budget = tmp_path / "b.budget"
    with pytest.raises(QuestionError, match=message) as caught:
        asking.ask(table, KWH, epsilon=1.0, budget=budget)
    for value in ("4711", "4_711", "4'711", "47,11", "2024"):
        assert value not in str(caught.value)
    with BudgetFile.of(open_table(table), budget) as file:
        assert file.spent() == 0.0


ACCEPTED: list[tuple[str, Any, list[float]]] = [
    ("infinite", [1.0, math.inf, -math.inf], [1.0, 40.0, 0.0]),
    ("huge", [1e18, -1e18, 1e308], [40.0, 0.0, 40.0]),
    ("big integers", [10**18, 0, 1], [40.0, 0.0, 1.0]),
    ("beyond 64 bits", [10**30, 0, 1], [40.0, 0.0, 1.0]),
    ("numbers as text", ["1", " 2.5 ", "1e1"], [1.0, 2.5, 10.0]),
    ("mixed", ["1", 2.5, 3], [1.0, 2.5, 3.0]),
    ("booleans", [True, False, True], [1.0, 0.0, 1.0]),
    ("constant", [7.0, 7.0, 7.0], [7.0, 7.0, 7.0]),
    ("negative zero", [-0.0, 0.0, 1.0], [0.0, 0.0, 1.0]),
    ("small integers", np.array([200, 3, 4], dtype=np.uint8), [40.0, 3.0, 4.0]),
    ("single precision", np.array([0.5, 3, 4], dtype=np.float32), [0.5, 3.0, 4.0]),
]


@pytest.mark.parametrize(
    ("values", "same"), [case[1:] for case in ACCEPTED], ids=[case[0] for case in ACCEPTED]
)
def test_what_counts_as_a_number(values: Any, same: list[float]) -> None:
    """Infinite and huge values count as the bound; a reply says so."""
    assert totals({"kwh": values}, KWH) == totals({"kwh": same}, KWH)


def test_a_value_in_no_category_is_an_error_or_left_out() -> None:
    table = {"region": ["a", "b", "zebra", "", None]}
    with pytest.raises(
        QuestionError, match="row 3: column region has no value that is in the list"
    ) as caught:
        totals(table, REGION)
    assert "zebra" not in str(caught.value)
    (found,) = totals(table, REGION, missing="out")
    assert found == [1, 1, 5]


def test_a_missing_value_counts_as_what_is_said() -> None:
    table = {"region": ["a", "", None], "kwh": [1.0, math.nan, 3.0]}
    assert totals(table, REGION, missing="b")[0] == [1, 2, 3]
    found = totals(table, REGION, KWH, missing={"region": "b", "kwh": 2.0})
    assert found == totals({"region": ["a", "b", "b"], "kwh": [1.0, 2.0, 3.0]}, REGION, KWH)
    for wrong in ("zebra", {"kwh": "x"}, {"nothing": 1}, math.nan):
        with pytest.raises(QuestionError, match="missing is None"):
            totals(table, REGION, missing=wrong)
    with pytest.raises(
        QuestionError, match="row 3: column region has no value that is in the list"
    ):
        totals({"region": ["a", None, "zebra"]}, REGION, missing="b")


def test_a_group_without_a_row_has_no_mean(tmp_path: Path) -> None:
    table = {"kwh": [10.0] * 400, "region": ["a"] * 400}
    reply = asking.ask(table, KWH, epsilon=1.0, by=("region", ("a", "b")), budget=tmp_path / "b")
    mean = reply.decoded[0][0]
    assert mean.value[0] == pytest.approx(10, abs=2)
    assert math.isnan(mean.value[1])


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"epsilon": 0.0}, "epsilon must be"),
    ({"epsilon": math.nan}, "epsilon must be"),
    ({"delta": 1.5}, "delta"),
    ({"cap": 3}, "say which column is the id"),
    ({"id": "persson"}, "no column 'persson'; did you mean person"),
    ({"where": {"regio": "a"}}, "no column 'regio'; did you mean region"),
    ({"where": "region=a"}, "where is a mapping"),
    ({"where": {"region": ()}}, "categories are a list"),
    ({"by": ("region", ("a", "a"))}, "categories are a list"),
    ({"decimal": ";"}, "decimal mark"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_careless_arguments(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"epsilon": 1.0, "budget": tmp_path / "b"} | options
    with pytest.raises((QuestionError, PrivacyError), match=message):
        asking.ask(columns(), KWH, **given)


def test_what_is_asked_must_be_a_question(tmp_path: Path) -> None:
    for asked in ((), ("mean",), (questions.mean,)):
        with pytest.raises(QuestionError, match="question"):
            asking.ask(columns(), *asked, epsilon=1.0, budget=tmp_path / "b")
    with pytest.raises(QuestionError, match="say where the budget of the table is kept"):
        asking.ask(columns(), KWH, epsilon=1.0)
    with pytest.raises(VeilsumError):
        asking.ask(columns(), Category("region", ("a",)), epsilon=1.0, budget=tmp_path / "b")  # type: ignore[arg-type]
