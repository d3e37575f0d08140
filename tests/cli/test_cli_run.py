"""run, sweep and init: outputs, JSON, exit codes and what goes to which stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from veilsum.cli.app import app
from veilsum.scenario import template

SMALL = """\
name = "small"
seed = 3
replicas = 2
[network]
graph = "ring:7"
[family]
name = "log-normal-1p"
sigma = 1.0
[signals]
draw = { mu = 3.0 }
[privacy]
protect = "signal"
epsilon = 1.0
[algorithm]
name = "average"
rounds = 5
"""
TWO = SMALL + '[[variant]]\nname = "a"\n[[variant]]\nname = "b"\nprivacy.protect = "nothing"\n'


def call(*words: str, **more: Any) -> Any:
    return CliRunner().invoke(app, list(map(str, words)), **more)


@pytest.fixture
def small(tmp_path: Any, monkeypatch: Any) -> Any:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(SMALL)
    (tmp_path / "two.toml").write_text(TWO)
    return tmp_path


def test_run_prints_the_answer_its_promise_and_the_page(small: Any) -> None:
    done = call("run", "small.toml")
    assert done.exit_code == 0, done.output
    assert "average" in done.stdout
    assert "PROVED" in done.stdout
    assert "anything seen is at most 2.72 times" in done.stdout
    assert "Page small.html" in done.stdout
    assert done.stderr == ""
    found = {path.name for path in small.iterdir()}
    assert found == {"small.html", "small.csv", "small.toml", "two.toml"}


def test_every_variant_has_its_own_rows(small: Any) -> None:
    done = call("run", "two.toml", "--out", "here", "--json")
    assert done.exit_code == 0, done.output
    a, b = json.loads(done.stdout)["answers"]
    assert (a["name"], a["status"]) == ("a", "proved")
    assert (b["name"], b["status"], b["epsilon"]) == ("b", "none", None)
    table = (small / "here.csv").read_text().splitlines()
    assert {line.split(",")[0] for line in table[1:]} == {"a", "b"}


def test_the_page_says_what_ran(small: Any) -> None:
    assert call("run", "small.toml", "--seed", "8").exit_code == 0
    page = (small / "small.html").read_text()
    again = page[page.index('id="again"') :]
    for name in ("seed", "veilsum", "python", "numpy", "scipy", "numba", "sha256 of the study"):
        assert f'<th scope="row">{name}</th>' in again
    assert '<td class="">8</td>' in again
    assert "protect = &#34;signal&#34;" in again
    low, high = (json.loads(call("run", "small.toml", "--json").stdout)["answers"][0][k]
                 for k in ("low", "high"))  # fmt: skip
    assert low < high


@pytest.mark.usefixtures("small")
def test_the_same_seed_gives_the_same_errors_to_the_bit() -> None:
    def table(*words: str) -> str:
        assert call("run", "two.toml", "--out", "o", *words).exit_code == 0
        return Path("o.csv").read_text()

    assert table() == table()
    assert table("--seed", "4") == table("--seed", "4") != table()


@pytest.mark.usefixtures("small")
def test_replicas_can_be_given() -> None:
    said = json.loads(call("run", "small.toml", "--json", "--replicas", "4").stdout)
    assert "errors over 4 runs" in said["about"]


@pytest.mark.usefixtures("small")
def test_sweep_has_a_row_for_each_epsilon() -> None:
    done = call("sweep", "two.toml", "--epsilon", "0.5:2:3", "--json", "--replicas", "2")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    rows = [row for row in said["answers"] if row["name"] == "a"]
    assert [row["epsilon"] for row in rows] == [0.5, 1.0, 2.0]
    assert float(rows[0]["cells"]["noise"]) > float(rows[2]["cells"]["noise"])
    assert len([row for row in said["answers"] if row["name"] == "b"]) == 1
    assert said["files"] == ["small-sweep.html", "small-sweep.csv"]
    table = call("sweep", "small.toml", "--epsilon", "0.5,2").stdout
    assert table.count("  small  ") == 2


@pytest.mark.usefixtures("small")
def test_init_writes_a_scenario_that_runs() -> None:
    done = call("init")
    assert done.exit_code == 0
    assert call("run", "scenario.toml", "--replicas", "1").exit_code == 0
    again = call("init", "scenario.toml")
    assert again.exit_code == 2
    assert "--force" in again.stderr
    assert call("init", "scenario.toml", "--force").exit_code == 0


@pytest.mark.parametrize(
    ("old", "new", "code", "part"),
    [
        ('"average"', '"avarage"', 2, 'line 15: algorithm.name: found "avarage"'),
        ('protect = "signal"', "protect = ", 2, "line 12: not valid TOML"),
        (
            '"ring:7"',
            '"ring:8"\nweights = "metropolis"',
            1,
            "line 6: network.weights: weights are periodic",
        ),
        ("ring:7", "nowhere.csv", 2, "there is no file"),
        ("log-normal-1p", "log-normal", 2, "infinite global sensitivity"),
        ("draw = { mu = 3.0 }", 'file = "r.csv"', 1, "signals"),
    ],
)
def test_errors_are_one_message_with_the_right_code(
    small: Any, old: Any, new: Any, code: Any, part: Any
) -> None:
    (small / "r.csv").write_text("agent,value\n0,1\n")
    (small / "wrong.toml").write_text(SMALL.replace(old, new))
    done = call("run", "wrong.toml")
    assert done.exit_code == code
    assert done.stdout == ""
    assert done.stderr.startswith("error: wrong.toml, line ")
    assert part in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("small")
def test_a_missing_scenario_is_wrong_usage() -> None:
    done = call("run", "none.toml")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "none.toml" in done.stderr


def test_outputs_that_cannot_be_written_fail_the_run(small: Any) -> None:
    (small / "file").write_text("")
    done = call("run", "small.toml", "--out", "file/deep")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("more", [{"words": ["--debug"]}, {"env": {"VEILSUM_DEBUG": "1"}}])
def test_debug_shows_the_error_itself(more: Any) -> None:
    done = call("run", "none.toml", *more.pop("words", []), **more)
    assert type(done.exception).__name__ == "ScenarioError"


def test_warnings_are_notes_on_stderr(small: Any) -> None:
    (small / "d.toml").write_text(SMALL.replace('"average"', '"naive-network"'))
    done = call("run", "d.toml", "--json")
    assert done.exit_code == 0, done.output
    json.loads(done.stdout)
    assert done.stderr.startswith("note: algorithm naive-network diverges")
    assert done.stderr.count("\n") == 1


@pytest.mark.usefixtures("small")
def test_an_interruption_is_clean(monkeypatch: Any) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("veilsum.scenario.build.solve", interrupt)
    done = call("run", "small.toml")
    assert done.exit_code == 130
    assert done.stderr == "interrupted\n"


@pytest.mark.parametrize("verb", ["run", "plan", "audit"])
def test_a_figure_of_somebody_else_is_not_replaced_and_a_wrong_name_costs_no_work(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(template())
    (tmp_path / "thesis.pdf").write_bytes(b"%PDF-1.4 mine")
    for name in ("thesis.pdf", "x.doc"):
        done = CliRunner().invoke(app, [verb, "s.toml", "--plot", name])
        assert done.exit_code == 2, done.output
        assert name in done.stderr
    assert (tmp_path / "thesis.pdf").read_bytes() == b"%PDF-1.4 mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.toml", "thesis.pdf"]


def test_a_figure_of_ours_is_replaced_and_a_folder_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(template())
    for _ in range(2):
        words = ["run", "s.toml", "--replicas", "1", "--out", ".", "--plot", "f.png"]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["f.png", "first.csv", "first.html", "s.toml"]
    (tmp_path / "file").write_text("x")
    done = CliRunner().invoke(app, ["run", "s.toml", "--out", "file/stem"])
    assert done.exit_code == 2
    assert "nothing can be written in" in done.stderr
