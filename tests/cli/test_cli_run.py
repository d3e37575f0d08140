"""run, sweep and init: outputs, JSON, exit codes and what goes to which stream."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from veilsum.cli.app import app

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


def test_run_prints_a_table_the_guarantee_and_the_outputs(small: Any) -> None:
    done = call("run", "small.toml")
    assert done.exit_code == 0, done.output
    assert "average" in done.stdout
    assert "proved" in done.stdout
    assert "for an agent's signal that moves by at most" in done.stdout
    assert "Outputs in veilsum-out/small" in done.stdout
    assert done.stderr == ""
    found = {path.name for path in (small / "veilsum-out" / "small").iterdir()}
    assert found >= {"summary.json", "results.nc", "compare.png", "compare.svg", "network.png"}


def test_every_variant_has_its_own_file_and_row(small: Any) -> None:
    done = call("run", "two.toml", "--no-figures", "--out", "here")
    assert done.exit_code == 0, done.output
    assert {path.name for path in (small / "here").iterdir()} == {
        "summary.json", "results-a.nc", "results-b.nc",
    }  # fmt: skip
    said = json.loads((small / "here" / "summary.json").read_text())
    assert list(said["variants"]) == ["a", "b"]
    bare = said["variants"]["b"]
    assert bare["guarantee"]["status"] == "none"
    assert bare["guarantee"]["epsilon"] == "inf"
    assert bare["results"][0]["epsilon"] is None


def test_many_variants_are_drawn_in_several_figures(small: Any) -> None:
    many = SMALL + "".join(f'[[variant]]\nname = "v{k}"\n' for k in range(8))
    (small / "many.toml").write_text(many)
    done = call("run", "many.toml", "--out", "here")
    assert done.exit_code == 0, done.output
    assert (small / "here" / "figures-2" / "compare.png").is_file()


def test_the_summary_says_what_ran_and_what_came_out(small: Any) -> None:
    assert call("run", "small.toml", "--no-figures", "--seed", "8").exit_code == 0
    said = json.loads((small / "veilsum-out/small/summary.json").read_text())
    assert said["seed"] == 8
    assert set(said["versions"]) == {"veilsum", "python", "numpy", "scipy", "numba"}
    assert len(said["scenario_sha256"]) == 64
    one = said["variants"]["small"]
    assert one["algorithm"]["name"] == "average"
    assert one["network"].startswith("ring (7 agents")
    row = one["results"][0]
    assert set(row["errors"]) == {"total", "privacy", "decentralisation"}
    low, high = row["intervals"]["population"]["network"]["mu"]
    assert low < row["estimate"]["mu"] < high
    assert one["seconds"] >= 0


def test_json_is_all_of_stdout(small: Any) -> None:
    done = call("run", "two.toml", "--json", "--no-figures")
    said = json.loads(done.stdout)
    assert said["variants"]["a"]["guarantee"]["status"] == "proved"
    assert all((small / path).is_file() for path in said["outputs"])


@pytest.mark.usefixtures("small")
def test_the_same_seed_gives_the_same_errors_to_the_bit() -> None:
    def errors(*words: str) -> Any:
        said = json.loads(call("run", "two.toml", "--json", "--no-figures", *words).stdout)
        return [row["errors"] for one in said["variants"].values() for row in one["results"]]

    assert errors() == errors()
    assert errors("--seed", "4") == errors("--seed", "4") != errors()


@pytest.mark.usefixtures("small")
def test_replicas_can_be_given() -> None:
    said = json.loads(call("run", "small.toml", "--json", "--no-figures", "--replicas", "4").stdout)
    assert said["variants"]["small"]["replicas"] == 4


def test_sweep_has_a_row_for_each_epsilon(small: Any) -> None:
    done = call("sweep", "two.toml", "--epsilon", "0.5:2:3", "--json", "--replicas", "2")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    rows = said["variants"]["a"]["results"]
    assert [row["epsilon"] for row in rows] == [0.5, 1.0, 2.0]
    assert rows[0]["errors"]["privacy"] > rows[2]["errors"]["privacy"]
    assert len(said["variants"]["b"]["results"]) == 1
    assert (small / "veilsum-out/small-sweep/compare.svg").is_file()
    table = call("sweep", "small.toml", "--epsilon", "0.5,2", "--no-figures").stdout
    assert table.count("average ") == 4  # estimates, and errors


@pytest.mark.usefixtures("small")
def test_init_writes_a_scenario_that_runs() -> None:
    done = call("init")
    assert done.exit_code == 0
    assert call("run", "scenario.toml", "--no-figures", "--replicas", "1").exit_code == 0
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
    done = call("run", "wrong.toml", "--no-figures")
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
    assert done.exit_code == 1
    assert done.stderr.startswith("error: ")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("more", [{"words": ["--debug"]}, {"env": {"VEILSUM_DEBUG": "1"}}])
def test_debug_shows_the_error_itself(more: Any) -> None:
    done = call("run", "none.toml", *more.pop("words", []), **more)
    assert type(done.exception).__name__ == "ScenarioError"


def test_warnings_are_notes_on_stderr(small: Any) -> None:
    (small / "d.toml").write_text(SMALL.replace('"average"', '"naive-network"'))
    done = call("run", "d.toml", "--no-figures", "--json")
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


def test_a_bar_is_shown_only_after_two_seconds_and_on_a_terminal(monkeypatch: Any) -> None:
    from veilsum.cli import display

    for late, terminal, shown in ((True, True, True), (False, True, False), (True, False, False)):
        monkeypatch.setattr(display, "PATIENCE", -1.0 if late else 60.0)
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal)
        with display.Bar() as bar:
            bar.step("a", 1, 2)
            assert (bar.display is not None) == shown


def test_each_error_has_its_target_and_what_differs_is_said(small: Any) -> None:
    """Of a stream of masked sums also the rounds of each; in letters that every terminal has."""
    added = """
[[variant]]
name = "published"
family = { name = "log-normal", sigma = 1.0 }
signals.draw = { mu = 3.0 }
privacy = { sensitivity = "smooth-as-published", delta = 0.01 }
[[variant]]
name = "stream"
privacy = { mode = "masked", colluders = 1, absent = 0 }
algorithm = { name = "masked-learn", rounds = 5 }
"""
    (small / "mixed.toml").write_text(SMALL + added)
    done = call("run", "mixed.toml", "--no-figures")
    assert done.exit_code == 0, done.output
    table = done.stdout[done.stdout.index("error against") :].splitlines()
    (published,) = (line for line in table if line.startswith("published "))
    (stream,) = (line for line in table if line.startswith("stream "))
    assert "mean of signals" in published
    assert "5 x 15" in stream
    assert "E xi" in stream
    assert "The statistic xi is log s in published; log(1 + s) in stream:" in done.stdout
    assert "For log s no noise can be proved private without a public floor" in done.stdout
