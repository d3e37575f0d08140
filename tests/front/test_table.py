"""The long table: every number has its verdict, and CSV and JSON hold the same numbers."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.front.studies import GROUPS, MEASURED, SEVERAL, call, study, vector
from veilsum.front.sheet import VERDICTS, Answer, Answers
from veilsum.front.table import COLUMNS, Row, as_csv, as_dict, long_table, rows_of
from veilsum.scenario import Scenario, run

pytestmark = pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")
NUMBERS = ("epsilon", "delta", "value", "low", "high")


def read(text: str) -> list[Row]:
    """A CSV file as the rows that it was made from."""
    found = list(csv.DictReader(io.StringIO(text)))
    return [Row(**{k: _typed(k, v) for k, v in row.items()}) for row in found]


def _typed(name: str, text: str) -> Any:
    if name == "round":
        return int(text) if text else None
    if name in NUMBERS:
        return float(text) if text else None
    return text


@pytest.mark.parametrize("text", [SEVERAL, GROUPS, vector(5)], ids=["several", "groups", "vector"])
def test_csv_holds_every_number_to_the_last_digit(text: str) -> None:
    answers = run(Scenario.parse(text))
    made = as_csv(answers)
    assert read(made) == long_table(answers)
    assert made.splitlines()[0] == ",".join(COLUMNS)
    assert "\r" not in made


@pytest.mark.parametrize("text", [SEVERAL, GROUPS], ids=["several", "groups"])
def test_every_number_carries_its_verdict(text: str) -> None:
    answers = run(Scenario.parse(text))
    status = {name: str(r.guarantee.status) for name, r in answers.results.items()}
    rows = read(as_csv(answers))
    assert rows
    for row in rows:
        assert row.status == status[row.run]
        assert row.status in VERDICTS
        assert row.kind
        assert row.method
        assert row.quantity
        assert (row.epsilon is None) == (row.status == "none")


def test_errors_of_every_round_belong_to_one_epsilon() -> None:
    answers = run(Scenario.parse(SEVERAL))
    rows = [row for row in long_table(answers) if row.run == "sweep" and row.quantity == "noise"]
    trace = answers.results["sweep"].trace
    for k, epsilon in enumerate((0.5, 2.0)):
        mine = np.array([row.value for row in rows if row.epsilon == epsilon], dtype=float)
        np.testing.assert_allclose(mine, trace.privacy[:, k].mean(axis=-1) / math.sqrt(7))


def test_vectors_are_listed_component_by_component() -> None:
    answers = run(Scenario.parse(vector(5)))
    rows = rows_of(answers.best)
    assert [row.quantity for row in rows] == [f"p[{k}]" for k in range(5)]
    assert [row.value for row in rows] == answers.value.tolist()
    low, high = answers.low, answers.high
    assert [(row.low, row.high) for row in rows] == list(
        zip(low.tolist(), high.tolist(), strict=True)
    )
    assert {row.status for row in rows} == {"proved"}
    assert as_dict(answers)["answers"][0]["value"] == answers.value.tolist()


def test_what_is_no_finite_number_is_empty() -> None:
    rows = (Answer("a", "x", math.inf, -math.inf, math.nan, epsilon=math.inf, status="none"),)
    answers = Answers("n", "t", "a", rows)
    (row,) = long_table(answers)
    assert (row.value, row.low, row.high, row.epsilon) == (None,) * 4
    assert "inf" not in as_csv(answers)
    assert "nan" not in as_csv(answers)
    json.dumps(answers.to_dict(), allow_nan=False)


def test_names_with_commas_quotes_and_lines_come_back() -> None:
    name = 'a, "b"\nc;=1+1'
    answers = Answers("n", "t", "a", (Answer(name, "x", 1.5, status="proved"),))
    (row,) = read(as_csv(answers))
    assert (row.run, row.value) == (name, 1.5)


@pytest.mark.parametrize("text", [SEVERAL, MEASURED], ids=["drawn", "measured"])
def test_json_is_all_of_stdout_and_has_the_numbers_of_the_table(tmp_path: Path, text: str) -> None:
    done = call("run", study(tmp_path, text), "--json", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["files"] == [str(tmp_path / "out.html"), str(tmp_path / "out.csv")]
    table = read((tmp_path / "out.csv").read_text())
    answers = [(a["name"], a["status"], a["epsilon"], a["value"]) for a in said["answers"]]
    assert answers == [(r.run, r.status, r.epsilon, r.value) for r in table[: len(answers)]]
    for answer in said["answers"]:
        assert answer["guarantee"]["status"] == answer["status"]
        assert answer["guarantee"]["sentence"]
    assert said["secret"] is False
