"""What `veilsum run` writes, Python writes too: the folders are compared file by file."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import veilsum
from veilsum.cli.app import app
from veilsum.errors import CommandError, PrivacyError, VeilsumError
from veilsum.results import Result, dataset, write_all
from veilsum.scenario import ExecutionOptions, Scenario, run

SYNTHETIC = """\
name = "small"
title = "A small ring"
seed = 3
replicas = 2
[network]
graph = "ring:7"
[family]
name = "normal"
sigma = 1.0
[signals]
draw = { mu = 3.0 }
[privacy]
protect = "signal"
epsilon = 1.0
[algorithm]
name = "average"
rounds = 5
[[variant]]
name = "private"
[[variant]]
name = "sweep"
privacy.epsilon = [0.5, 2.0]
[[variant]]
name = "open"
privacy.protect = "nothing"
"""
MEASURED = """\
name = "meters"
seed = 5
[network]
graph = "ring:7"
[family]
name = "normal"
sigma = 1.0
bounds = [0.0, 9.0]
[signals]
file = "meters.csv"
[privacy]
protect = "signal"
epsilon = 1.0
[algorithm]
name = "average"
rounds = 5
[record]
evaluate = true
"""


def scenario_file(folder: Path, text: str) -> Path:
    rows = "".join(f"{k},{k + 0.5}\n" for k in range(7))
    (folder / "meters.csv").write_text(f"agent,value\n{rows}")
    (folder / "s.toml").write_text(text)
    return folder / "s.toml"


def without_time(summary: Any) -> Any:
    for variant in summary["variants"].values():
        variant.pop("seconds", None)
    return summary


def assert_same_file(one: Path, two: Path) -> None:
    if one.suffix == ".json":
        first, second = (json.loads(path.read_text()) for path in (one, two))
        assert without_time(first) == without_time(second)
    elif one.suffix == ".nc":
        xr.testing.assert_identical(xr.load_dataset(one), xr.load_dataset(two))
    else:
        assert one.read_bytes() == two.read_bytes()


def assert_same_folder(one: Path, two: Path) -> set[str]:
    names = {str(path.relative_to(one)) for path in one.rglob("*") if path.is_file()}
    assert names == {str(path.relative_to(two)) for path in two.rglob("*") if path.is_file()}
    for name in names:
        assert_same_file(one / name, two / name)
        assert stat.S_IMODE((one / name).stat().st_mode) == stat.S_IMODE(
            (two / name).stat().st_mode
        )
    return names


def by_command(file: Path, out: Path, *words: str) -> None:
    done = CliRunner().invoke(app, ["run", str(file), "--out", str(out), *words])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("text", [SYNTHETIC, MEASURED], ids=["synthetic", "measured"])
def test_python_writes_the_folder_of_the_command(tmp_path: Path, text: str) -> None:
    file = scenario_file(tmp_path, text)
    by_command(file, tmp_path / "command")
    veilsum.run(file, out=tmp_path / "python").results
    names = assert_same_folder(tmp_path / "command", tmp_path / "python")
    expected = {"summary.json", "compare.png", "compare.svg", "network.png", "network.svg"}
    assert expected <= names
    secret = {name for name in names if "secret" in name}
    assert bool(secret) == (text is MEASURED)


def test_a_result_writes_the_folder_of_a_command_with_one_variant(tmp_path: Path) -> None:
    file = scenario_file(tmp_path, MEASURED)
    by_command(file, tmp_path / "command")
    (result,) = run(file).results.values()
    written = result.write(tmp_path / "python", evaluate=True)
    names = assert_same_folder(tmp_path / "command", tmp_path / "python")
    assert {str(path.relative_to(tmp_path / "python")) for path in written} == names


def test_figures_and_evaluations_can_be_left_out(tmp_path: Path) -> None:
    file = scenario_file(tmp_path, MEASURED.replace("evaluate = true", ""))
    by_command(file, tmp_path / "command", "--no-figures")
    results = run(file).results
    write_all(results, tmp_path / "python", figures=False)
    names = assert_same_folder(tmp_path / "command", tmp_path / "python")
    assert names == {"summary.json", "results.nc"}
    run(file, out=tmp_path / "evaluated", figures=False, evaluate=True).results
    by_command(file, tmp_path / "asked", "--no-figures", "--evaluate")
    names |= {"evaluation.secret.json", "evaluation.secret.nc"}
    assert assert_same_folder(tmp_path / "asked", tmp_path / "evaluated") == names


def test_several_processes_give_the_results_of_one(tmp_path: Path) -> None:
    file = scenario_file(tmp_path, SYNTHETIC)
    alone = run(file).results
    pooled = run(
        file, options=ExecutionOptions(jobs=2), out=tmp_path / "out", figures=False
    ).results
    for name, result in alone.items():
        assert np.array_equal(result.trace.total, pooled[name].trace.total)
    assert not (tmp_path / "out" / "tasks").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"engine": "gpu"}, "engine must be one of local, mpi"),
        ({"jobs": 0}, "jobs must be a whole number of at least 1"),
        ({"engine": "mpi", "jobs": 2}, "is for one machine"),
        ({"checkpoint_every": 5}, "needs engine mpi"),
        ({"engine": "mpi", "checkpoint_every": 0}, "checkpoint_every must be"),
    ],
)
def test_execution_options_that_contradict_one_another(options: dict[str, Any], words: str) -> None:
    with pytest.raises(CommandError, match=words):
        ExecutionOptions(**options)


def test_a_run_resumes_only_where_something_was_stored(tmp_path: Path) -> None:
    scenario = Scenario.parse(SYNTHETIC)
    with pytest.raises(CommandError, match="stores nothing"):
        run(scenario, options=ExecutionOptions(resume=True), out=tmp_path).results
    with pytest.raises(CommandError, match="folder of the interrupted run"):
        run(scenario, options=ExecutionOptions(jobs=2, resume=True)).results


def test_strict_refuses_before_anything_runs() -> None:
    published = 'privacy.delta = 0.01\nprivacy.sensitivity = "smooth-as-published"'
    text = SYNTHETIC.replace('privacy.protect = "nothing"', published)
    text = text.replace('name = "normal"', 'name = "log-normal"\nbounds = [1.0, inf]')
    seen: list[str] = []
    with pytest.raises(PrivacyError, match="proved guarantees only"):
        run(Scenario.parse(text), progress=lambda name, *_: seen.append(name), strict=True).results
    assert seen == []


def one() -> Result:
    return run(Scenario.parse(SYNTHETIC)).results["private"]


def test_a_result_knows_where_it_comes_from() -> None:
    result = one()
    assert result.provenance is not None
    assert (result.provenance.name, result.provenance.title) == ("small", "A small ring")
    assert result.provenance.seed == 3
    assert result.seconds is not None
    assert result.seconds >= 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"level": 95}, "no option 'level'.* try confidence=0.95"),
        ({"confidence": 95}, "confidence must lie strictly between 0 and 1; found 95; try 0.95"),
        ({"confidence": 95, "of": "readings"}, "confidence must lie strictly between 0 and 1"),
        ({"of": "agents"}, "of must be one of readings, population"),
    ],
)
def test_wrong_options_of_intervals_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(VeilsumError, match=words):
        one().intervals(**options)


def test_notes_are_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a large network they take seconds; the dataset, the summary and the page have them."""
    family = veilsum.families.Normal(sigma=1.0, bounds=(0.0, 4.0))
    result = veilsum.sweep(
        {"mu": 2.0},
        "ring:9",
        family,
        veilsum.privacy.SignalDP(1.0),
        "average",
        5,
        replicas=2,
        rng=1,
    ).result
    counted: list[Any] = []
    of = dataset.notes

    def counting(*given: Any) -> list[str]:
        counted.append(given)
        return of(*given)

    monkeypatch.setattr(dataset, "notes", counting)
    result.write(tmp_path, figures=False)
    result.notes.append("not everyone's")
    assert result.notes == of(result.problem, result.noise)
    assert len(counted) == 1
