"""A codebook: strict to read, drafted without a value, the source of what a question leaves out."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from veilsum import asking, questions
from veilsum.asking.codebook import (
    Coded,
    codebook_of,
    draft,
    parsed,
    place,
    read_codebook,
    resolve,
)
from veilsum.asking.codebook_contents import Codebook
from veilsum.asking.mock import as_csv, mock
from veilsum.asking.tables import ArrayTable, open_table
from veilsum.errors import QuestionError
from veilsum.questions import Category, Number
from veilsum.questions.histograms import Histogram
from veilsum.questions.means import Mean

TEXT = """\
id = "person"

[budget]
epsilon = 3
delta = 1e-6

[columns.person]
kind = "text"

[columns.kwh]
kind = "number"
unit = "kWh"
between = [0, 40]
missing = [-9, "NA"]

[columns."the region"]  # a name in quotes
kind = "category"
values = ["north", "south", 3]

[columns.temp]
kind = "number"
between = [-20, 40]
"""


@pytest.fixture
def book() -> Codebook:
    return parsed(TEXT)


def test_a_codebook_as_it_is_read(book: Codebook) -> None:
    assert (book.id, book.budget) == ("person", (3.0, 1e-6))
    assert book.number("kwh") == Number("kwh", 0, 40)
    assert book.columns["kwh"].unit == "kWh"
    assert book.columns["kwh"].missing == ("-9", "NA")
    assert book.category("the region") == Category("the region", ("north", "south", "3"))


def test_it_lies_beside_the_data(tmp_path: Path) -> None:
    data = tmp_path / "readings.csv"
    assert codebook_of(data) is None
    path = tmp_path / "readings.codebook.toml"
    assert place(data) == path
    path.write_text(TEXT, encoding="utf-8-sig")
    found = codebook_of(str(data))
    assert found is not None
    assert found == read_codebook(path) == codebook_of({"kwh": [1]}, path)
    assert codebook_of(data, found) is found
    assert codebook_of({"kwh": [1]}) is None


WRONG = [
    ('kind = "number"', 'kind = "numbr"', r'line 11: columns\.kwh\.kind: .*did you mean "number"'),
    ("between = [0, 40]", "between = [40, 0]", r"line 13: columns\.kwh\.between: .*\[low, high\]"),
    ("between = [0, 40]", "between = [0, inf]", r"line 13: columns\.kwh\.between"),
    ("between = [0, 40]", 'between = "0 to 40"', r"line 13: columns\.kwh\.between"),
    (
        "between = [0, 40]",
        "betwen = [0, 40]",
        r'line 13: columns\.kwh\.betwen: .*did you mean "between"',
    ),
    ("between = [0, 40]", 'values = ["a"]', r"line 13: columns\.kwh\.values: is of a category"),
    ('unit = "kWh"', "unit = 5", r"line 12: columns\.kwh\.unit: found 5; allowed: text"),
    ('missing = [-9, "NA"]', "missing = []", r"line 14: columns\.kwh\.missing: .*not empty"),
    ('missing = [-9, "NA"]', "missing = [-9, -9]", r"line 14: columns\.kwh\.missing: .*different"),
    ('missing = [-9, "NA"]', "missing = [[1]]", r"line 14: columns\.kwh\.missing"),
    ('id = "person"', 'id = "persn"', r'line 1: id: found "persn"; .*did you mean "person"'),
    ('id = "person"', "id = 5", r"line 1: id: found 5"),
    ("epsilon = 3", "epsilon = 0", r"line 4: budget\.epsilon: found 0.*above 0"),
    ("epsilon = 3", 'epsilon = "3"', r"line 4: budget\.epsilon: found \"3\"; allowed: a number"),
    ("epsilon = 3", "eps = 3", r"line 4: budget\.eps: .*epsilon"),
    ("delta = 1e-6", "delta = 1", r"line 5: budget\.delta: .*probability"),
    ('id = "person"', "sites_per_person = 2", r"line 1: sites_per_person: there is no such key"),
    ('id = "person"', "site = 2", r"line 1: site: there is no such key"),
    ('kind = "text"', "", r"columns\.person\.kind: missing; add kind"),
    ("[budget]", "[budget", r"line 3: not valid TOML"),
    (TEXT, "", r"columns: missing; add a section \[columns\.NAME\]"),
    (TEXT, "columns = 3", r"line 1: columns: found 3"),
    (TEXT, "[columns]\nkwh = 3", r"line 2: columns\.kwh: found 3"),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG, ids=[new[:30] for _, new, _ in WRONG])
def test_errors_name_the_line_and_the_key(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(QuestionError, match=message):
        parsed(TEXT.replace(old, new, 1))


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(QuestionError) as caught:
        parsed(TEXT.replace("[0, 40]", "[40, 0]").replace("epsilon = 3", "epsilon = -1"))
    assert [line.split(":")[0][-2:].strip() for line in str(caught.value).splitlines()] == [
        "4",
        "13",
    ]


def test_a_question_takes_what_it_leaves_out(book: Codebook) -> None:
    assert book.question("mean", "kwh") == Mean.make("kwh", between=(0, 40))
    assert book.question("mean", "kwh", between=(0, 10)) == Mean.make("kwh", between=(0, 10))
    assert book.question("histogram", "kwh", bins=4) == Histogram.make(
        "kwh", between=(0, 40), bins=4
    )
    regions = Histogram.make("the region", categories=("north", "south", "3"))
    assert book.question("histogram", "the region") == regions
    both = book.question("table", "the region", "the region")
    assert (
        both.terms()
        == questions.table(
            "the region", "the region", categories=[("north", "south", "3")] * 2
        ).terms()
    )
    bounds = {"kwh": (0, 40), "temp": (-20, 40)}
    fit = book.question("regression", "kwh", "temp")
    assert fit == questions.regression("kwh", "temp", between=bounds)
    assert book.filled("heavy-hitters", ["the region"], {}) == {
        "candidates": ("north", "south", "3")
    }


def test_a_threshold_is_no_bound(book: Codebook) -> None:
    assert book.filled("proportion", ["kwh"], {"above": 20}) == {"above": 20}
    among = book.filled("proportion", ["the region"], {"values": ["north"]})
    assert among["categories"] == ("north", "south", "3")
    tested = {"null": 0.5, "alternative": 0.6, "above": 20}
    assert book.filled("test", ["kwh"], tested) == tested


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda b: b.question("mean", "kw"), "no column 'kw'; did you mean kwh"),
        (lambda b: b.number("person"), r"no bounds of person: add between.*\[columns\.person\]"),
        (lambda b: b.category("kwh"), "no categories of kwh"),
        (lambda b: b.category("the region", ["nord"]), "no category 'nord'.*did you mean north"),
    ],
)
def test_what_it_does_not_say_is_an_error(book: Codebook, ask: Any, message: str) -> None:
    with pytest.raises(QuestionError, match=message):
        ask(book)


def test_what_is_given_wins(book: Codebook) -> None:
    found = resolve(book, ["kwh"])
    assert (found.id, found.limit, found.budget) == ("person", None, (3.0, 1e-6))
    assert found.digest == book.digest(["kwh"])
    assert found.terms == {"codes": {"kwh": ["-9", "NA"]}}
    assert resolve(book, ["the region"]).terms == {}
    found = resolve(book, ["kwh"], id="house", limit=1)
    assert (found.id, found.limit) == ("house", (1.0, 0.0))
    assert resolve(None, id="house").terms == {}


def test_groups_are_those_of_the_codebook_never_of_the_rows(tmp_path: Path) -> None:
    data = {
        "kwh": [1.0, 2.0] * 50,
        "the region": ["north", "south"] * 50,
        "person": list(range(100)),
    }
    mean = questions.mean("kwh", between=(0, 40))
    options: dict[str, Any] = {"epsilon": 1, "budget": tmp_path / "b", "anyway": True}
    with pytest.raises(QuestionError, match="the groups of the region are missing"):
        asking.ask(data, mean, by="the region", **options)
    with pytest.raises(QuestionError, match="has no categories of kwh"):
        asking.ask(data, mean, by="kwh", codebook=parsed(TEXT), **options)
    with pytest.raises(QuestionError, match="did you mean the region"):
        asking.ask(data, mean, by="the regio", codebook=parsed(TEXT), **options)
    assert not (tmp_path / "b").exists()
    reply = asking.ask(data, mean, by="the region", codebook=parsed(TEXT), **options)
    assert reply.decoded[0][0].labels == ("north", "south", "3")


def test_a_unit_reaches_the_numbers_that_are_in_it(tmp_path: Path) -> None:
    data = {"kwh": np.linspace(0, 40_000, 4000), "the region": ["north", "south"] * 2000}
    asked = [
        make("kwh", between=(0, 40_000))
        for make in (questions.mean, questions.sum, questions.quantiles, questions.variance)
    ]
    asked.append(questions.histogram("kwh", between=(0, 40_000), bins=4))
    book = parsed(TEXT.replace('id = "person"', "").replace("epsilon = 3", "epsilon = 99"))
    reply = asking.ask(
        data, *asked, epsilon=8, where={"the region": "north"}, budget=tmp_path / "b", codebook=book,
        rows_public=True, anyway=True,
    )  # fmt: skip
    units = {one.quantity: one.unit for found in reply.decoded for one in found if not one.detail}
    assert units == {"mean of kwh": "kWh", "sum of kwh": "kWh", "median of kwh": "kWh",
                     "variance of kwh": "", "share by kwh": ""}  # fmt: skip
    assert "e+" not in " ".join(one.sentence for found in reply.decoded for one in found)
    by = asking.ask(
        data, questions.mean("kwh", between=(0, 40_000)), by="the region", epsilon=8,
        budget=tmp_path / "b", codebook=book,
    )  # fmt: skip
    assert [(one.quantity, one.unit) for one in by.decoded[0]] == [
        ("mean of kwh by the region", "kWh"), ("records by the region", ""),
    ]  # fmt: skip


def test_its_hash_is_of_what_shapes_an_answer(book: Codebook) -> None:
    layout = "# a comment\n" + TEXT.replace("[0, 40]", "[ 0.0,\n 40.0 ]")
    assert parsed(layout).digest() == book.digest()
    assert parsed(TEXT.replace("epsilon = 3", "epsilon = 4")).digest() == book.digest()
    for old, new in (("[0, 40]", "[0, 41]"), ('"south", 3', '3, "south"'), ("-9", "-8"),
                     ('id = "person"\n', "")):  # fmt: skip
        assert parsed(TEXT.replace(old, new)).digest() != book.digest()
    other = parsed(TEXT.replace('"south", 3', '3, "south"'))
    assert other.digest(["kwh"]) == book.digest(["kwh"])
    assert other.digest(["the region"]) != book.digest(["the region"])


def test_codes_of_missing_values_are_no_values(book: Codebook) -> None:
    columns = {"kwh": [1, -9, 40, 3], "the region": ["north", "NA", "south", "3"]}
    table = Coded(ArrayTable(columns), book)
    (batch,) = table.batches(["kwh", "the region"])
    assert batch["kwh"].tolist() == [1, None, 40, 3]
    assert batch["the region"].tolist() == columns["the region"]
    assert (table.rows(), table.columns) == (4, ("kwh", "the region"))
    (texts,) = Coded(ArrayTable({"kwh": ["-9", "NA", " 2"]}), book).batches(["kwh"])
    assert texts["kwh"].tolist() == [None, None, " 2"]
    (floats,) = Coded(ArrayTable({"kwh": np.array([-9.0, 1.5])}), book).batches(["kwh"])
    assert floats["kwh"].tolist() == [None, 1.5]


VALUES = "person,kwh,region,2 words,ümlaut\n4711,13.25,Uetikon,0.125,77\n4712,-9,Elsewhere,,88\n"


def test_a_draft_has_names_and_kinds_and_no_value(tmp_path: Path) -> None:
    path = tmp_path / "readings.csv"
    path.write_text(VALUES, encoding="utf-8")
    text = draft(open_table(path))
    names, *rows = csv.reader(io.StringIO(VALUES))
    for value in {value for row in rows for value in row if value}:
        assert value not in text
    found = parsed(text)
    assert list(found.columns) == names
    assert [c.kind for c in found.columns.values()] == [
        "number",
        "number",
        "category",
        "number",
        "number",
    ]
    assert all(c.between is None and c.values is None for c in found.columns.values())
    assert (found.id, found.budget) == (None, None)


@pytest.mark.parametrize("first", ["4711,13.25", "a,,c"])
def test_a_file_without_names_has_no_draft(first: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{first}\n" + ",".join("1" for _ in first.split(",")) + "\n")
    with pytest.raises(QuestionError, match="first line must name the columns") as caught:
        draft(open_table(path))
    assert "4711" not in str(caught.value)


def test_mock_rows_are_drawn_from_the_codebook_alone(book: Codebook, tmp_path: Path) -> None:
    rows = mock(book, 400, np.random.default_rng(1))
    assert list(rows) == list(book.columns)
    codes = set(rows["kwh"].tolist()) & {"-9"}
    assert codes
    numbers = [v for v in rows["kwh"].tolist() if v != "-9"]
    assert min(numbers) >= 0
    assert max(numbers) <= 40
    assert set(rows["the region"].tolist()) == {"north", "south", "3"}
    assert 100 < len(set(rows["person"].tolist())) <= 200
    again = mock(book, 400, np.random.default_rng(1))
    assert all((rows[name] == again[name]).all() for name in rows)
    path = tmp_path / "mock.csv"
    path.write_text(as_csv(rows))
    table = Coded(open_table(path), book)
    assert (table.rows(), table.columns) == (400, tuple(book.columns))


def test_mock_needs_bounds_and_categories() -> None:
    for kind in ("number", "category"):
        with pytest.raises(QuestionError, match="of x: add"):
            mock(parsed(f'[columns.x]\nkind = "{kind}"'), 5, np.random.default_rng(1))
    with pytest.raises(QuestionError, match="rows"):
        mock(parsed('[columns.x]\nkind = "text"'), 0, np.random.default_rng(1))
