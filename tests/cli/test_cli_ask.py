"""veilsum ask, questions and codebook: words become questions, mistakes get a remedy, files stay."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.front.studies import call
from veilsum.cli.asked import parsed, questions_of
from veilsum.questions import QUESTIONS
from veilsum.questions.histograms import Histogram
from veilsum.questions.means import Mean
from veilsum.questions.options import FORMS, Option, made, spelling

VALUES = np.random.default_rng(1).normal(12, 4, 300)


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """300 rows, in the folder where we are."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{k},{v:.2f},{'north' if k % 3 else 'south'}" for k, v in enumerate(VALUES)]
    path = Path("households.csv")
    path.write_text("\n".join(["person,kwh,region", *rows]) + "\n")
    return path


def ask(text: str) -> Any:
    return call("ask", *text.split())


def test_one_line_gives_an_answer_a_promise_and_what_is_left() -> None:
    done = ask("mean kwh households.csv --between 0 40 --eps 1 --limit 3")
    assert done.exit_code == 0, done.output
    said = " ".join(done.stdout.split())
    assert said.startswith("Mean of kwh, households.csv 300 rows, drawn now; may be published")
    assert "were any other, anything published is at most 2.72 times more likely" in said
    assert "Spent 1 of 3 epsilon on households.csv" in said
    files = sorted(path.name for path in Path().iterdir())
    assert files == ["households.budget", "households.csv"]


def test_asking_again_costs_nothing_and_writes_files_where_they_are_asked_for() -> None:
    first = json.loads(ask("mean kwh households.csv --between 0 40 --eps 1 --json").stdout)
    again = ask("mean kwh households.csv --between 0 40 --eps 1 --json -o answer")
    found = json.loads(again.stdout)
    assert found["answers"][0]["value"] == first["answers"][0]["value"]
    assert (first["stored"], found["stored"]) == (False, True)
    assert found["epsilon_spent"] == first["epsilon_spent"] == 1
    assert found["files"] == ["answer.html", "answer.csv"]
    assert Path("answer.csv").exists()


def test_json_has_what_a_program_needs() -> None:
    found = json.loads(
        ask("histogram kwh households.csv --between 0 40 --bins 4 --eps 1 --json").stdout
    )
    keys = {"answers", "promises", "warnings", "table", "records", "unit", "epsilon", "delta",
            "stored", "epsilon_spent", "epsilon_limit", "budget", "files", "title"}  # fmt: skip
    assert keys <= found.keys()
    (answer,) = found["answers"]
    assert answer["labels"] == ["0 to 10", "10 to 20", "20 to 30", "30 to 40"]
    assert len(answer["value"]) == len(answer["low"]) == len(answer["high"]) == 4
    assert answer["guarantee"]["status"] == answer["status"] == "proved"


def test_the_data_is_never_replaced(table: Path) -> None:
    before = table.read_text()
    done = ask("mean kwh households.csv --between 0 40 --eps 1 -o households")
    assert done.exit_code == 2
    assert "households.csv is there already" in done.stderr
    assert table.read_text() == before


@pytest.mark.parametrize("kind", ["pdf", "svg"])
def test_a_figure(kind: str) -> None:
    done = ask(f"mean kwh households.csv --between 0 40 --eps 1 --plot fig.{kind}")
    assert done.exit_code == 0, done.output
    assert Path(f"fig.{kind}").stat().st_size > 1000


def test_a_figure_that_cannot_be_drawn_costs_nothing() -> None:
    done = ask("mean kwh households.csv --between 0 40 --eps 1 --plot fig.doc")
    assert done.exit_code == 2
    assert not Path("households.budget").exists()


REFUSED = {
    "meen kwh households.csv --between 0 40 --eps 1": "did you mean mean?",
    "median kwh households.csv --between 0 40 --eps 1": "quantiles COLUMN --between LOW HIGH --at 0.5",
    "average kwh households.csv --between 0 40 --eps 1": "an average is asked as: mean COLUMN",
    "max kwh households.csv --between 0 40 --eps 1": "no single row can be published",
    "mean kwh households.csv --between 0 40": "--eps is missing: how much may anyone learn",
    "mean kwh households.csv --eps 1": "known without a look at the data",
    "mean kwh --between 0 40 --eps 1": "a column or the table is missing",
    "--eps 1": "a question is missing",
    "mean kwh and households.csv --eps 1": "no question is called 'households.csv'",
    "mean kwh and --eps 1": "`and` stands between two questions",
    "mean kwh nowhere.csv --between 0 40 --eps 1": "there is no table at nowhere.csv",
    "mean kwh households.csv --betwen 0 40 --eps 1": "did you mean --between?",
    "mean kwh households.csv --between 0 40 --epsi 1": "did you mean --eps?",
    "mean kwh households.csv --between 0 --eps 1": "--between takes 2 values, as in mean COLUMN --between",
    "histogram kwh households.csv --eps 1": "(--between 0 40 --bins 8), or categories",
    "mean kwh households.csv --between 0 forty --eps 1": "found --between 0 forty",
    "mean kwh region households.csv --between 0 40 --eps 1": "found 2 columns, kwh, region",
    "mean kwh households.csv --between 0 40 --bins 3 --eps 1": "mean does not take --bins",
    "mean kwh households.csv --between 0 40 --eps 1 --where region": "--where region=north,south",
    "mean kwh households.csv --between 0 40 --eps 0": "epsilon must be",
}


@pytest.mark.parametrize(("text", "said"), REFUSED.items(), ids=range(len(REFUSED)))
def test_a_mistake_gets_its_remedy_and_costs_nothing(text: str, said: str) -> None:
    done = ask(text)
    assert done.exit_code in (1, 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not Path("answer.html").exists()


def test_a_column_that_does_not_exist() -> None:
    done = ask("mean kvh households.csv --between 0 40 --eps 1")
    assert done.exit_code != 0
    assert "households.csv has no column 'kvh'; did you mean kwh?" in done.stderr


def test_the_budget_refuses() -> None:
    assert ask("mean kwh households.csv --between 0 40 --eps 1 --limit 1.5").exit_code == 0
    done = ask("histogram kwh households.csv --between 0 40 --bins 4 --eps 1")
    assert done.exit_code == 1
    assert "budget" in done.stderr
    as_json = ask("histogram kwh households.csv --between 0 40 --bins 4 --eps 1 --json")
    assert "budget" in json.loads(as_json.stdout)["error"]


def test_filters_groups_and_several_questions() -> None:
    done = ask("mean kwh households.csv --between 0 40 --eps 1 --where region=north --limit 20")
    assert done.exit_code == 0, done.output
    assert "where region north" in done.stdout
    assert "number of rows private" in done.stdout
    done = ask("mean kwh households.csv --between 0 40 --eps 3 --by region=north,south")
    assert done.exit_code == 0, done.output
    assert "Mean of kwh by region" in done.stdout
    done = ask(
        "mean kwh and histogram kwh --bins 4 and histogram region --categories north,south "
        "households.csv --between 0 40 --eps 3 --json"
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert len({each["name"] for each in found["answers"]}) == 3


# Words


def asked(text: str, table: bool = True) -> list[Any]:
    return questions_of(parsed(text.split(), table)[0])


def test_an_option_belongs_to_its_part_and_one_behind_the_table_to_all_that_take_it() -> None:
    mean, histogram = asked(
        "mean kwh --between 0 9 and histogram kwh --bins 3 t.csv --between -5 40"
    )
    assert isinstance(mean, Mean)
    assert isinstance(histogram, Histogram)
    assert (mean.column.low, mean.column.high) == (0, 9)
    assert histogram.labels[0] == "-5 to 10"
    (plain,) = asked("mean kwh --between=-5 40", table=False)
    assert plain.column.low == -5


def test_an_option_that_does_not_fit_its_question_is_not_forced_on_it() -> None:
    mean, histogram = asked("mean kwh and histogram region --categories a,b t.csv --between 0 40")
    assert mean.column.high == 40
    assert histogram.labels == ("a", "b")


@pytest.mark.parametrize("name", QUESTIONS.names())
def test_every_option_of_every_question_can_be_written(name: str) -> None:
    """A keyword of `make` whose annotation no form knows would be out of reach."""
    import inspect

    keywords = [
        parameter.name for parameter in inspect.signature(QUESTIONS[name].make).parameters.values()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]  # fmt: skip
    assert [option.name for option in spelling(name).options] == keywords
    assert spelling(name).usage.startswith(name)
    assert QUESTIONS[name].about


def option(annotation: str) -> Option:
    form = next(form for key, form in FORMS if key in annotation)
    return Option("x", form, True, annotation)


@pytest.mark.parametrize(
    ("annotation", "given", "value"),
    [
        ("tuple[float, float] | None", [["0", "1e3"]], (0.0, 1000.0)),
        ("Sequence[str]", [["a, b,c"]], ("a", "b", "c")),
        ("Sequence[float] | None", [["0.5,0.9"]], (0.5, 0.9)),
        ("int | None", [["7"]], 7),
        ("float", [["0.5"]], 0.5),
        ("bool", [[]], True),
        ("str | None", [["a"]], "a"),
        ("Mapping[str, tuple[float, float]]", [["u", "0", "1"], ["v", "2", "3"]],
         {"u": (0.0, 1.0), "v": (2.0, 3.0)}),
        ("Mapping[str, Sequence[str]]", [["u=a,b"]], {"u": ("a", "b")}),
        ("Sequence[tuple[float, float]]", [["0", "1"], ["2", "3"]], ((0.0, 1.0), (2.0, 3.0))),
    ],
)  # fmt: skip
def test_words_become_what_the_annotation_says(annotation: str, given: Any, value: Any) -> None:
    assert option(annotation).value("q", given) == value


def test_made_fills_from_a_codebook() -> None:
    found = made("mean", ["kwh"], {}, lambda *_: {"between": (0, 40)})
    assert isinstance(found, Mean)
    assert found.column.high == 40


# Other verbs


def test_questions_are_listed_with_how_they_are_asked() -> None:
    done = call("questions")
    assert done.exit_code == 0
    for name in QUESTIONS:
        assert f"\n{name} " in f"\n{done.stdout}" or f"\n{name}\n" in f"\n{done.stdout}"
    assert max(map(len, done.stdout.splitlines())) <= 80
    one = json.loads(call("questions", "mean", "--json").stdout)["questions"]
    assert [each["usage"] for each in one] == ["mean COLUMN --between LOW HIGH"]
    assert call("questions", "meen").exit_code == 2


def test_help_is_short_and_says_where_the_rest_is() -> None:
    done = call("ask", "--help")
    assert done.exit_code == 0
    assert "veilsum questions" in done.stdout
    assert len(done.stdout.splitlines()) <= 60


def test_a_codebook_is_drafted_filled_in_and_used() -> None:
    done = call("codebook", "households.csv")
    assert done.exit_code == 0, done.output
    book = Path("households.codebook.toml")
    text = book.read_text()
    assert "kwh" in text
    assert "12." not in text, "no value"
    assert call("codebook", "households.csv").exit_code == 2, "it is not replaced"
    book.write_text(
        '[columns.kwh]\nkind = "number"\nbetween = [0, 40]\n'
        '[columns.region]\nkind = "category"\nvalues = ["north", "south"]\n'
    )
    done = ask("mean kwh and histogram region households.csv --eps 1")
    assert done.exit_code == 0, done.output
    assert call("codebook", "households.csv", "--mock", "50").exit_code == 0
    assert len(Path("households.mock.csv").read_text().splitlines()) == 51
    assert call("ask", "mean", "kwh", "households.mock.csv", "--between", 0, 40, "--eps", 1,
                "--anyway").exit_code == 0  # fmt: skip


def test_small_cells_are_not_shown_and_cost_nothing() -> None:
    text = "histogram kwh households.csv --between 0 40 --bins 8 --eps 1 --json"
    whole = json.loads(ask(text).stdout)
    shown = json.loads(ask(f"{text} --min-count 20 --round 5 -o small").stdout)
    assert shown["epsilon_spent"] == whole["epsilon_spent"] == 1
    (values,) = (each["value"] for each in shown["answers"])
    assert None in values
    known = [300 * value for value in values if value is not None]
    assert all(abs(count / 5 - round(count / 5)) < 1e-9 and count >= 15 for count in known)
    assert "fewer than 20 records" in " ".join(shown["warnings"])
    assert "<svg" in Path("small.html").read_text()
    plain = ask("histogram kwh households.csv --between 0 40 --bins 8 --eps 1 --min-count 20")
    assert "nan" not in plain.stdout
    assert "too few" not in plain.stdout
    assert "fewer than 20" in plain.stdout
    assert "fewer than 20" in Path("small.html").read_text()


def test_groups_without_values_are_those_of_the_codebook() -> None:
    text = "mean kwh households.csv --between 0 40 --eps 1 --by region"
    done = ask(text)
    assert done.exit_code == 1
    assert "--by region=A,B, or in a codebook" in " ".join(done.stderr.split())
    Path("households.codebook.toml").write_text(
        '[columns.kwh]\nkind = "number"\nbetween = [0, 40]\n'
        '[columns.region]\nkind = "category"\nvalues = ["north", "south"]\n'
    )
    done = ask(f"{text} --json")
    assert json.loads(done.stdout)["answers"][0]["labels"] == ["north", "south"]
    terms = ["plan", "mean", "kwh", "--rows", "300", "--eps", "1", "--json"]
    plan = call(*terms, "--by", "region", "--codebook", "households.codebook.toml")
    given = call(*terms, "--between", "0", "40", "--by", "region=north,south")
    assert json.loads(plan.stdout)["answers"] == json.loads(given.stdout)["answers"]


def test_a_budget_is_shown_raised_and_mended() -> None:
    assert ask("mean kwh households.csv --between 0 40 --eps 1 --limit 1.5").exit_code == 0
    shown = call("budget", "households.budget")
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.startswith("households.budget: 1 of 1.5 epsilon spent, 1 answer\n")
    assert "mean of kwh" in shown.stdout
    assert "rows of households.csv" in shown.stdout
    assert json.loads(call("budget", "households.budget", "--json").stdout)["epsilon_spent"] == 1
    done = call("budget", "households.budget", "--raise", 3)
    assert "is epsilon 3 now" in " ".join(done.stdout.split())
    assert ask("mean kwh households.csv --between 0 41 --eps 1").exit_code == 0
    Path("households.budget").unlink()
    assert "--mend" in ask("mean kwh households.csv --between 0 41 --eps 1").stderr
    assert call("budget", "households.budget", "--mend").exit_code == 0
    assert "charged for releases that were lost" in call("budget", "households.budget").stdout
    both = call("budget", "households.budget", "--mend", "--raise", 3)
    assert both.exit_code == 2
    assert call("budget", "no.budget").exit_code == 1


def test_a_mean_needs_neither_scipy_nor_pages_nor_pictures() -> None:
    code = (
        "import sys; sys.argv = 'veilsum ask mean kwh households.csv --between 0 40 --eps 1'.split()\n"
        "from veilsum.cli import main\n"
        "try: main()\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    heavy = {"scipy", "pandas", "matplotlib", "jinja2", "rich", "networkx", "numba"}
    assert sorted(loaded & heavy) == []
    assert not {"veilsum.simulation", "veilsum.agents", "veilsum.scenario"} & set(
        done.stderr.split()
    )
