"""veilsum plan: a table, JSON, figures, and clear refusals."""

import json
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from veilsum.cli.plan import plan
from veilsum.scenario import Scenario, template

TEXT = """
name = "small"
[network]
graph = "random-geometric"
options = { size = 30, radius = 0.35, seed = 1 }
[family]
name = "normal"
sigma = 1.0
[signals]
draw = { mu = 2.0 }
[privacy]
protect = "signal"
epsilon = 1.0
[algorithm]
name = "average"
rounds = 30
[[variant]]
name = "once"
[[variant]]
name = "stream"
algorithm.name = "learn"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Any, monkeypatch: Any) -> Any:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(TEXT)
    return tmp_path


def call(*words: Any) -> Any:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(plan)
    return CliRunner().invoke(app, ["small.toml", *map(str, words)])


def test_smallest_budget_with_table_and_figures(folder: Any) -> None:
    done = call("--error", 0.3)
    assert done.exit_code == 0, done.output
    assert "Use " in done.stdout
    assert "epsilon = " in done.stdout
    for word in ("sampling", "privacy", "disagreement", "proved", "algorithm.name"):
        assert word in done.stdout
    written = {path.name for path in (folder / "veilsum-out" / "small-plan").iterdir()}
    assert written == {"plan.png", "plan.svg"}


def test_json_is_all_of_stdout() -> None:
    done = call("--error", 0.3, "--epsilon", 2, "--variant", "stream", "--json", "--no-figures")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["solved"] == "rounds"
    assert said["best"]["algorithm"] in ("learn", "learn-network")
    assert said["best"]["error"] <= 0.3
    assert set(said["best"]["split"]) == {"sampling", "privacy", "disagreement"}
    assert said["outputs"] == []


def test_the_norm_is_a_choice() -> None:
    agent, l2 = (
        json.loads(call("--rounds", 20, "--norm", norm, "--json", "--no-figures").stdout)
        for norm in ("agent", "l2")
    )
    assert l2["best"]["error"] == pytest.approx(agent["best"]["error"] * 30**0.5)


def test_out_of_reach_and_refusals() -> None:
    short = call("--error", 1e-9, "--no-figures")
    assert short.exit_code == 1
    assert "Not reached" in short.stdout
    wrong = call("--error", 0.1, "--epsilon", 1, "--rounds", 3)
    assert wrong.exit_code == 2
    assert "leave one" in wrong.stderr
    assert call("--variant", "none").exit_code == 2
    assert "Traceback" not in wrong.output


def test_without_protection_the_figure_is_a_curve(folder: Any) -> None:
    text = TEXT.replace('protect = "signal"\nepsilon = 1.0', 'protect = "nothing"')
    (folder / "small.toml").write_text(text)
    done = call("--error", 0.01, "--out", "here")
    assert done.exit_code == 0, done.output
    assert (folder / "here" / "plan.svg").stat().st_size > 1000


MASKED = TEXT.replace(
    "epsilon = 1.0", 'epsilon = 1.0\nmode = "masked"\ncolluders = 5\nabsent = 2'
).replace('"average"\nrounds = 30', '"masked-sum"\nrounds = 60')


def test_the_guaranteed_epsilon_is_printed(folder: Any) -> None:
    (folder / "small.toml").write_text(MASKED.partition("[[variant]]")[0])
    done = call("--no-figures")
    assert done.exit_code == 0, done.output
    assert "a session" not in done.stdout
    said = json.loads(call("--no-figures", "--json").stdout)
    assert {c["epsilon"] for c in said["candidates"]} == {1.0}


@pytest.mark.parametrize("options", [(), ("--colluders", 1)])
def test_a_masked_plan_and_a_local_one_are_printed_as_they_run(folder: Any, options: Any) -> None:
    """On a scenario of the other mode, too: each states its own."""
    for base in (TEXT, MASKED):
        text = base.partition("[[variant]]")[0]
        (folder / "small.toml").write_text(text)
        done = call("--no-figures", *options)
        assert done.exit_code == 0, done.output
        printed = done.output.partition("[[variant]]")[2]
        problem = Scenario.parse(f"{text}\n[[variant]]{printed}").build("planned").problem
        assert problem.privacy.masked == (base is MASKED or bool(options))


def test_absent_without_colluders_is_refused() -> None:
    done = call("--absent", 3, "--no-figures")
    assert done.exit_code == 1
    assert "absent = 3 belongs to a masked sum" in done.stderr


def test_a_stream_is_offered_batches() -> None:
    done = call("--error", 0.3, "--variant", "stream", "--no-figures")
    assert done.exit_code == 0, done.output
    assert "In [privacy]: batches = { growth = 2.0, longest = 3 }" in done.stdout
    assert "lacks up to 2" in done.stdout


@pytest.mark.parametrize(
    ("options", "changes"), [((), ""), (("--variant", "no-privacy"), "no-privacy")]
)
def test_the_printed_variant_runs_at_the_end_of_the_scenario(
    folder: Any, options: Any, changes: str
) -> None:
    text = template()
    (folder / "small.toml").write_text(text)
    done = call("--no-figures", *options)
    assert done.exit_code == 0, done.output
    before, _, printed = done.output.partition("[[variant]]")
    assert (f"with what else {changes} changes" in before) == bool(changes)
    job = Scenario.parse(f"{text}\n[[variant]]{printed}").build("planned")
    assert job.problem.privacy.adds_noise == (not changes)
    assert job.problem.algorithm.name == "chebyshev"
    assert job.problem.rounds == 60
    job.run()
