"""The engine of the reproduction: resuming, skipping, failing, recording."""

from __future__ import annotations

import json
from dataclasses import replace

import pandas as pd
import pytest

from murmura import __version__, paper
from murmura.errors import ScenarioError
from murmura.paper import registry, runner
from murmura.paper.data import MissingDataError
from murmura.paper.entry import Claim, Entry, Finding, Measured, Verdict, judged, worst
from murmura.paper.settings import US, Run
from murmura.report import style


def made(id="one", calls=None, fault=None, claims=None, **more):
    def measure(entry, context):
        context.tell(entry.runs[0].name)
        if calls is not None:
            calls.append(entry.id)
        if fault is not None:
            raise fault
        return Measured({"": pd.DataFrame({"x": [1.0, 2.0]}), "more": pd.DataFrame({"y": [3]})})

    def draw(measured):
        figure = style.figure(2, 2)
        figure.add_subplot().plot(measured.table.x)
        return figure

    claims = claims or (Claim("It holds.", lambda _: Finding(Verdict.CONFIRMED, "It is 1.")),)
    runs = (Run("run", US, "average"),)
    return Entry(id, "Title", "Figure 1", runs, measure, draw, claims, **more)


def test_outputs_and_record(tmp_path):
    (report,) = runner.reproduce([made()], tmp_path, seed=5, quick=True)
    assert report.outputs == ["one.png", "one.svg", "one.csv", "one-more.csv"]
    record = json.loads((tmp_path / "verdicts.json").read_text())
    (held,) = record["entries"]
    assert record["version"] == held["version"] == __version__
    assert (held["verdict"], held["seed"], held["quick"]) == ("confirmed", 5, True)
    assert held["command"] == "murmura reproduce one --seed 5 --quick"
    assert held["findings"] == [
        {"statement": "It holds.", "origin": "murmura", "verdict": "confirmed",
         "sentence": "It is 1.", "quote": ""}
    ]  # fmt: skip


def test_a_finished_entry_is_not_computed_again(tmp_path):
    calls, heard = [], []
    runner.reproduce([made("a", calls)], tmp_path)
    reports = runner.reproduce([made("a", calls), made("b", calls)], tmp_path, tell=heard.append)
    assert calls == ["a", "b"]
    assert heard == ["run", "run"]  # the bar moves for what was done before, too
    assert [report.verdict for report in reports] == ["confirmed", "confirmed"]
    runner.reproduce([made("a", calls)], tmp_path, fresh=True)
    assert calls == ["a", "b", "a"]


@pytest.mark.parametrize("change", ["seed", "quick", "settings", "file", "record"])
def test_what_changes_the_numbers_is_computed_again(change, tmp_path):
    calls = []
    runner.reproduce([made("a", calls)], tmp_path)
    entry, options = made("a", calls), {}
    if change == "seed":
        options = {"seed": 1}
    elif change == "quick":
        options = {"quick": True}
    elif change == "settings":
        entry = replace(entry, runs=(replace(entry.runs[0], replicas=3),))
    elif change == "file":
        (tmp_path / "a.csv").unlink()
    else:
        (tmp_path / "verdicts.json").write_text("{")
    runner.reproduce([entry], tmp_path, **options)
    assert calls == ["a", "a"]


def test_an_interruption_keeps_what_was_done(tmp_path):
    calls = []
    stopped = [made("a", calls), made("b", calls, fault=KeyboardInterrupt())]
    with pytest.raises(KeyboardInterrupt):
        runner.reproduce(stopped, tmp_path)
    runner.reproduce([made("a", calls), made("b", calls)], tmp_path)
    assert calls == ["a", "b", "b"]


def test_a_fault_or_missing_data_stops_no_other_entry(tmp_path):
    calls = []
    entries = [
        made("a", fault=ZeroDivisionError("nothing there")),
        made("b", fault=MissingDataError("no readings here")),
        made("c", calls),
    ]
    reports = runner.reproduce(entries, tmp_path)
    assert [report.verdict for report in reports] == ["failed", "skipped", "confirmed"]
    assert reports[0].sentence == "ZeroDivisionError: nothing there"
    assert reports[1].sentence == "no readings here"
    runner.reproduce([made("a", calls), made("b", calls)], tmp_path)
    assert calls == ["c", "a", "b"]  # neither counts as done


def test_the_verdict_of_an_entry_is_its_severest(tmp_path):
    says = [Finding(verdict, f"{verdict} 1.") for verdict in Verdict]
    claims = tuple(Claim("S.", lambda _, f=finding: f) for finding in says)
    (report,) = runner.reproduce([made(claims=claims)], tmp_path)
    assert (report.verdict, report.sentence) == ("refuted", "refuted 1.")
    assert worst(says[:2]) is Verdict.CORRECTED
    assert judged(True, "x").verdict is Verdict.CONFIRMED
    assert judged(False, "x").verdict is Verdict.REFUTED
    assert judged(False, "x", Verdict.CORRECTED).verdict is Verdict.CORRECTED


def test_the_registry_is_sane():
    assert len(paper.names()) == len(set(paper.names())) >= 15
    for id, entry in paper.ENTRIES.items():
        assert entry.id == id == id.lower()
        assert entry.title
        assert entry.reference
        assert entry.claims
        assert len({run.name for run in entry.runs}) == len(entry.runs)
        assert all(claim.statement.endswith(".") for claim in entry.claims)
        real = any(run.place.startswith("swiss") for run in entry.runs)
        assert entry.needs_data == real


def test_entries_are_found_by_id():
    assert [e.id for e in registry.find(["table-1", "fig-data", "table-1"])] == [
        "table-1",
        "fig-data",
    ]
    assert [e.id for e in registry.find()] == paper.names()
    with pytest.raises(ScenarioError, match="did you mean fig-data"):
        registry.find(["fig-dat"])
