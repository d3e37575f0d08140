"""The reproduction: resuming, skipping, failing, recording."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from veilsum import __version__, paper
from veilsum.errors import ScenarioError
from veilsum.front import style
from veilsum.paper import baseline, reproduction, sweeps
from veilsum.paper.data import MissingDataError
from veilsum.paper.experiment import Claim, Experiment, Finding, Measurement, Verdict, judged, worst
from veilsum.scenario import Scenario

SCENARIO = """
[network]
graph = "ring:5"
[family]
name = "normal"
sigma = 1.0
[signals]
draw = { mu = 0.0 }
[privacy]
protect = "nothing"
[algorithm]
name = "average"
rounds = 3
[[variant]]
name = "run"
"""


def made(
    id: Any = "one", calls: Any = None, fault: Any = None, claims: Any = None, **more: Any
) -> Any:
    def measure(experiment: Any, context: Any) -> Any:
        (job,) = experiment.jobs(context)
        context.progress(job.name)
        if calls is not None:
            calls.append(experiment.id)
        if fault is not None:
            raise fault
        return Measurement({"": pd.DataFrame({"x": [1.0, 2.0]}), "more": pd.DataFrame({"y": [3]})})

    def draw(measured: Any) -> Any:
        figure = style.figure(2, 2)
        figure.add_subplot().plot(measured.table.x)
        return figure

    said = claims or (Claim("It holds.", always(Finding(Verdict.CONFIRMED, "It is 1."))),)

    class Stating(Experiment):
        claims = said

    return Stating(id, "Title", "Figure 1", measure, draw, (SCENARIO,), **more)


def test_outputs_and_record(tmp_path: Any) -> None:
    (report,) = reproduction.reproduce([made()], tmp_path, seed=5, quick=True)
    assert report.outputs == ["one.svg", "one.csv", "one-more.csv"]
    assert {path.name for path in tmp_path.iterdir()} == {*report.outputs, "verdicts.json"}
    record = json.loads((tmp_path / "verdicts.json").read_text())
    (held,) = record["experiments"]
    assert record["version"] == held["version"] == __version__
    assert (held["verdict"], held["seed"], held["quick"]) == ("confirmed", 5, True)
    assert held["command"] == "veilsum reproduce one --seed 5 --quick"
    (finding,) = held["findings"]
    said = {"statement": "It holds.", "source": "veilsum", "verdict": "confirmed",
            "sentence": "It is 1.", "quote": "", "can_fail": True, "threshold_by": ""}  # fmt: skip
    assert said.items() <= finding.items()


def test_a_finished_experiment_is_not_computed_again(tmp_path: Any) -> None:
    calls: list[str] = []
    heard: list[str] = []
    reproduction.reproduce([made("a", calls)], tmp_path)
    reports = reproduction.reproduce(
        [made("a", calls), made("b", calls)], tmp_path, progress=heard.append
    )
    assert calls == ["a", "b"]
    assert heard == ["run", "run"]  # the bar moves for what was done before, too
    assert [report.verdict for report in reports] == ["confirmed", "confirmed"]
    reproduction.reproduce([made("a", calls)], tmp_path, fresh=True)
    assert calls == ["a", "b", "a"]


@pytest.mark.parametrize("change", ["seed", "quick", "settings", "file", "record"])
def test_what_changes_the_numbers_is_computed_again(change: Any, tmp_path: Any) -> None:
    calls: list[str] = []
    reproduction.reproduce([made("a", calls)], tmp_path)
    experiment = made("a", calls)
    options: dict[str, Any] = {}
    if change == "seed":
        options = {"seed": 1}
    elif change == "quick":
        options = {"quick": True}
    elif change == "settings":
        experiment = replace(experiment, scenarios=(SCENARIO.replace("rounds = 3", "rounds = 4"),))
    elif change == "file":
        (tmp_path / "a.csv").unlink()
    else:
        (tmp_path / "verdicts.json").write_text("{")
    reproduction.reproduce([experiment], tmp_path, **options)
    assert calls == ["a", "a"]


def test_an_interruption_keeps_what_was_done(tmp_path: Any) -> None:
    calls: list[str] = []
    stopped = [made("a", calls), made("b", calls, fault=KeyboardInterrupt())]
    with pytest.raises(KeyboardInterrupt):
        reproduction.reproduce(stopped, tmp_path)
    reproduction.reproduce([made("a", calls), made("b", calls)], tmp_path)
    assert calls == ["a", "b", "b"]


def test_figures_are_written_where_they_are_asked_for(tmp_path: Any) -> None:
    """In full, once: a later call computes them only if they are missing or of other inputs."""
    calls: list[str] = []
    out, figures = tmp_path / "out", tmp_path / "figures"
    reproduction.reproduce([made("a", calls)], out)
    for _ in range(2):
        reproduction.reproduce([made("a", calls)], out, figures=figures)
    assert calls == ["a", "a"]
    assert {path.name for path in figures.iterdir()} == {"a.png", "a.svg"}
    (figures / "a.png").unlink()
    reproduction.reproduce([made("a", calls)], out)
    assert calls == ["a", "a"]
    reproduction.reproduce([made("a", calls)], out, figures=figures)
    assert calls == ["a", "a", "a"]
    reproduction.reproduce([made("a", calls)], out, seed=1)
    reproduction.reproduce([made("a", calls)], out, seed=1, figures=figures)
    assert len(calls) == 5  # the figures that were there are of another seed


def test_a_fault_or_missing_data_stops_no_other_experiment(tmp_path: Any) -> None:
    calls: list[str] = []
    experiments = [
        made("a", fault=ZeroDivisionError("nothing there")),
        made("b", fault=MissingDataError("no readings here")),
        made("c", calls),
    ]
    reports = reproduction.reproduce(experiments, tmp_path)
    assert [report.verdict for report in reports] == ["failed", "skipped", "confirmed"]
    assert reports[0].sentence == "ZeroDivisionError: nothing there"
    assert reports[1].sentence == "no readings here"
    reproduction.reproduce([made("a", calls), made("b", calls)], tmp_path)
    assert calls == ["c", "a", "b"]  # neither counts as done


def always(finding: Finding) -> Callable[[Measurement, Claim], Finding]:
    return lambda _measured, _claim: finding


def test_the_line_and_whose_it_is_stand_in_the_row() -> None:
    """The sentence has them, and so has the record."""
    found = Finding(Verdict.REFUTED, "It is 2.")
    claim = Claim("It holds.", always(found), value="at most 1", threshold=1, threshold_by="us",
                  can_fail=False, erratum=(3,))  # fmt: skip
    row = claim.finding(Measurement({}))
    assert row["sentence"] == "It is 2. The line is ours: at most 1."
    assert (row["threshold"], row["can_fail"], row["erratum"]) == (1, False, [3])
    assert replace(claim, threshold_by="paper").line == "The line is the paper's: at most 1."


def test_the_verdict_of_an_experiment_is_its_severest(tmp_path: Any) -> None:
    says = [Finding(verdict, f"{verdict} 1.") for verdict in Verdict]
    claims = tuple(Claim("S.", always(finding)) for finding in says)
    (report,) = reproduction.reproduce([made(claims=claims)], tmp_path)
    assert (report.verdict, report.sentence) == ("refuted", "refuted 1.")
    assert worst(list(Verdict)[:3]) is Verdict.CORRECTED
    assert judged(True, "x").verdict is Verdict.CONFIRMED
    assert judged(False, "x").verdict is Verdict.REFUTED
    assert judged(False, "x", Verdict.CORRECTED).verdict is Verdict.CORRECTED


def test_the_experiments_are_sane() -> None:
    assert len(paper.names()) == len(set(paper.names())) >= 15
    for id, experiment in paper.EXPERIMENTS.items():
        assert experiment.id == id == id.lower()
        assert experiment.title
        assert experiment.reference
        assert experiment.claims
        assert len(set(experiment.variants)) == len(experiment.variants)
        assert all(claim.statement.endswith(".") for claim in experiment.claims)
        assert experiment.needs_data == id.endswith("-real")


def test_every_shipped_scenario_is_valid_and_used() -> None:
    """What `veilsum run` accepts, with no file that no experiment reads."""
    used = [text for experiment in paper.find() for text in experiment.scenarios]
    files = sorted((Path(reproduction.__file__).parent / "scenarios").glob("*.toml"))
    assert sorted(used) == sorted(path.read_text(encoding="utf-8") for path in files)
    for path in files:
        assert Scenario.load(path).variants


def test_a_quick_context_shortens_what_the_scenario_says() -> None:
    experiment = paper.EXPERIMENTS["fig-directed"]
    full, quick = (experiment.jobs(paper.Context(3, quick=q)) for q in (False, True))
    assert [(j.problem.rounds, j.problem.replicas, j.problem.seed) for j in full] == [
        (150, 5, 3)
    ] * 2
    assert [(j.problem.rounds, j.problem.replicas, j.problem.seed) for j in quick] == [
        (20, 2, 3)
    ] * 2
    assert full[0].problem.network is quick[0].problem.network  # one copy, one spectrum


def test_the_authors_noise_is_put_in_by_the_adapter() -> None:
    """The one door for what a scenario cannot name: T times the noise of App. B."""
    experiment = paper.EXPERIMENTS["fig-mse-households"]
    jobs = {job.name: job.problem.algorithm for job in experiment.jobs(paper.Context(quick=True))}
    coded, published = (jobs[f"{name}.offline-signal"] for name in (sweeps.CODED, sweeps.PUBLISHED))
    assert coded == baseline.FirstOrderAsCoded(rounds=20)
    assert coded.sensitivities(1).signal == 20 * published.sensitivities(1).signal
    online = jobs[f"{sweeps.CODED}.online-network"]
    assert online == baseline.FirstOrderOnlineAsCoded(rounds=20)


def test_experiments_are_found_by_id() -> None:
    assert [e.id for e in reproduction.find(["table-1", "fig-data", "table-1"])] == [
        "table-1",
        "fig-data",
    ]
    assert [e.id for e in reproduction.find()] == paper.names()
    with pytest.raises(ScenarioError, match="did you mean fig-data"):
        reproduction.find(["fig-dat"])
