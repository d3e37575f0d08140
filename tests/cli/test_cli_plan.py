"""veilsum plan: a screen, a page, a table, JSON, and clear refusals."""

import csv
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


def pasted(screen: str) -> str:
    """The lines for the study, as somebody would copy them."""
    start = screen.index("    [[variant]]")
    lines = screen[start:].splitlines()
    return "\n".join(line for k, line in enumerate(lines) if all(
        each.startswith("    ") for each in lines[: k + 1]))  # fmt: skip


def test_smallest_budget_with_page_and_table(folder: Any) -> None:
    done = call("--error", 0.3)
    assert done.exit_code == 0, done.output
    assert "Use " in done.stdout
    assert "epsilon = " in done.stdout
    for word in ("sampling", "privacy", "disagreement", "PROVED", "    [[variant]]\n"):
        assert word in done.stdout
    assert {path.name for path in folder.iterdir()} == {
        "small.toml", "small-plan.html", "small-plan.csv",
    }  # fmt: skip


def test_the_lines_of_a_plan_are_a_variant_that_runs(folder: Any) -> None:
    lines = json.loads(call("--error", 0.3, "--json").stdout)
    path = folder / "again.toml"
    path.write_text(f"{TEXT}\n{lines['paste']}")
    made = Scenario.load(path).build("planned").problem
    best = lines["plan"]["best"]
    assert (made.algorithm.name, made.rounds) == (best["algorithm"], best["rounds"])
    assert made.run_epsilons == (best["epsilon"],)
    assert made.network.scheme == best["weights"]


def test_json_is_all_of_stdout() -> None:
    done = call("--error", 0.3, "--epsilon", 2, "--variant", "stream", "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    first, best = said["answers"][0], said["plan"]["best"]
    assert said["plan"]["solved"] == "rounds"
    assert best["algorithm"] in ("learn", "learn-network")
    assert best["error"] == first["value"] <= 0.3
    assert first["status"] == best["guarantee"] == "proved"
    assert set(best["split"]) == {"sampling", "privacy", "disagreement"}
    assert said["files"] == ["small-plan.html", "small-plan.csv"]


def test_the_norm_is_a_choice() -> None:
    agent, l2 = (
        json.loads(call("--rounds", 20, "--norm", norm, "--json").stdout)["answers"][0]["value"]
        for norm in ("agent", "l2")
    )
    assert l2 == pytest.approx(agent * 30**0.5)


def test_the_long_table_has_the_parts_and_the_trade_off(folder: Any) -> None:
    said = json.loads(call("--error", 0.3, "--json").stdout)
    with (folder / "small-plan.csv").open() as file:
        table = list(csv.DictReader(file))
    best = said["plan"]["best"]
    mine = [row for row in table if row["run"] == said["answers"][0]["name"]]
    for part, value in best["split"].items():
        assert [float(r["value"]) for r in mine if r["quantity"] == part] == [value]
    over = [r for r in mine if r["quantity"] == "error" and r["rounds"] == str(best["rounds"])]
    errors = [float(r["value"]) for r in sorted(over, key=lambda r: float(r["epsilon"]))]
    assert len(errors) > 30
    assert errors == sorted(errors, reverse=True)
    assert {row["status"] for row in table} == {"proved"}


def test_out_of_reach_and_refusals() -> None:
    short = call("--error", 1e-9)
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
    done = call("--error", 0.01, "--out", "here", "--plot", "there.pdf")
    assert done.exit_code == 0, done.output
    assert "epsilon" not in done.stdout.partition("error:")[0]
    page = (folder / "here.html").read_text()
    assert page.count("<svg") == 1
    assert (folder / "there.pdf").read_bytes().startswith(b"%PDF")


def test_a_file_that_is_not_ours_is_refused_before_anything_is_computed(folder: Any) -> None:
    (folder / "small-plan.csv").write_text("readings,of,somebody\n")
    done = call("--error", 0.3)
    assert done.exit_code == 2
    assert (folder / "small-plan.csv").read_text() == "readings,of,somebody\n"
    assert not (folder / "small-plan.html").exists()


MASKED = TEXT.replace(
    "epsilon = 1.0", 'epsilon = 1.0\nmode = "masked"\ncolluders = 5\nabsent = 2'
).replace('"average"\nrounds = 30', '"masked-sum"\nrounds = 60')


def test_the_guaranteed_epsilon_is_printed(folder: Any) -> None:
    (folder / "small.toml").write_text(MASKED.partition("[[variant]]")[0])
    done = call()
    assert done.exit_code == 0, done.output
    assert "a session" not in done.stdout
    said = json.loads(call("--json").stdout)
    assert {row["epsilon"] for row in said["answers"]} == {1.0}


@pytest.mark.parametrize("options", [(), ("--colluders", 1)])
def test_a_masked_plan_and_a_local_one_are_printed_as_they_run(folder: Any, options: Any) -> None:
    """On a scenario of the other mode, too: each states its own."""
    for base in (TEXT, MASKED):
        text = base.partition("[[variant]]")[0]
        (folder / "small.toml").write_text(text)
        done = call(*options)
        assert done.exit_code == 0, done.output
        problem = Scenario.parse(f"{text}\n{pasted(done.stdout)}").build("planned").problem
        assert problem.privacy.masked == (base is MASKED or bool(options))


def test_absent_without_colluders_is_refused() -> None:
    done = call("--absent", 3)
    assert done.exit_code == 1
    assert "absent = 3 belongs to a masked sum" in done.stderr


def test_a_stream_is_offered_batches() -> None:
    done = call("--error", 0.3, "--variant", "stream")
    assert done.exit_code == 0, done.output
    said = " ".join(done.stdout.split())
    assert "In [privacy]: batches = { growth = 2.0, longest = 3 }" in said
    assert "lacks up to 2" in said


@pytest.mark.parametrize(
    ("options", "changes"), [((), ""), (("--variant", "no-privacy"), "no-privacy")]
)
def test_the_printed_variant_runs_at_the_end_of_the_scenario(
    folder: Any, options: Any, changes: str
) -> None:
    text = template()
    (folder / "small.toml").write_text(text)
    done = call(*options)
    assert done.exit_code == 0, done.output
    said = " ".join(done.stdout.split())
    assert (f"with what else {changes} changes" in said) == bool(changes)
    job = Scenario.parse(f"{text}\n{pasted(done.stdout)}").build("planned")
    assert job.problem.privacy.adds_noise == (not changes)
    assert job.problem.algorithm.name == "chebyshev"
    assert job.problem.rounds == 60
    job.run()


def test_what_agents_cannot_run_is_named_with_the_reason() -> None:
    done = call("--agents")
    assert done.exit_code == 0, done.output
    left = json.loads(call("--agents", "--json").stdout)["plan"]["left_out"]
    said = " ".join(done.stdout.split())
    assert left
    for each in left:
        assert f"{each['algorithm']} on {each['weights']}" in said
        assert each["reason"] in said
