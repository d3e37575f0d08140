"""veilsum reproduce: the table, JSON, the listing, exit codes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from veilsum import paper
from veilsum.cli.reproduce import reproduce
from veilsum.paper import reproduction

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(reproduce)


def call(*words: Any) -> Any:
    return CliRunner().invoke(app, list(map(str, words)))


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: Any) -> None:
    monkeypatch.delenv("VEILSUM_DATA", raising=False)
    monkeypatch.delenv("VEILSUM_DATA_URL", raising=False)


def test_list_names_every_entry() -> None:
    done = call("--list")
    assert done.exit_code == 0, done.output
    assert all(name in done.stdout for name in paper.names())
    reported = json.loads(call("--list", "--json", "table-1").stdout)["experiments"]
    assert [entry["id"] for entry in reported] == ["table-1"]
    one, other = reported[0]["statements"]
    assert (one["source"], one["quote"]) == ("veilsum", "")
    assert other["source"] == "paper"
    reported = json.loads(call("--list", "--json", "fig-naive").stdout)["experiments"]
    (one,) = reported[0]["statements"]
    assert one["source"] == "paper"
    assert one["quote"]


def test_a_table_with_verdicts_and_where_the_outputs_are(tmp_path: Any) -> None:
    done = call("fig-directed", "--quick", "--seed", 3, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert "fig-directed" in done.stdout
    assert "Push-sum comes" in " ".join(done.stdout.split())
    assert f"Outputs in {tmp_path}" in done.stdout
    found = {path.name for path in tmp_path.iterdir()}
    assert found >= {"fig-directed.png", "fig-directed.svg", "fig-directed.csv", "verdicts.json"}


def test_counts_are_distinguished_for_the_paper_and_for_us(tmp_path: Any) -> None:
    """One tally used to count our own statements as the paper's."""
    done = call("fig-directed", "tightness", "--out", tmp_path)
    lines = done.stdout.splitlines()
    none = "0 confirmed, 0 true, uninformative, 0 corrected, 0 refuted"
    assert f"Statements of the paper, measured: {none.replace('0 conf', '1 conf')}" in lines
    proved = "0 confirmed, 0 true, uninformative, 2 corrected, 2 refuted"
    assert f"Statements of the paper, decided by proof: {proved}" in lines
    assert f"Statements of our own, measured: {none}" in lines
    reported = json.loads(call("fig-directed", "tightness", "--json", "--out", tmp_path).stdout)
    assert sum(reported["counts"]["paper"].values()) == 1
    assert reported["counts"]["paper, facts"]["refuted"] == 2
    assert sum(reported["counts"]["veilsum"].values()) == 0


def test_json_is_one_object_and_a_second_call_computes_nothing(tmp_path: Any) -> None:
    first = call("fig-directed", "--quick", "--json", "--out", tmp_path)
    before = (tmp_path / "fig-directed.png").stat().st_mtime_ns
    second = call("fig-directed", "--quick", "--json", "--out", tmp_path)
    assert first.stdout == second.stdout
    assert (tmp_path / "fig-directed.png").stat().st_mtime_ns == before
    (entry,) = json.loads(first.stdout)["experiments"]
    assert (entry["id"], entry["quick"]) == ("fig-directed", True)
    assert entry["command"] == "veilsum reproduce fig-directed --seed 0 --quick"


def test_skipping_is_no_failure(tmp_path: Any) -> None:
    done = call("headline-real", "--quick", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert "skipped" in done.stdout
    assert "VEILSUM_DATA" in done.stdout


def test_failing_is(tmp_path: Any, monkeypatch: Any) -> None:
    def fault(*_: Any) -> Any:
        raise ValueError("a fault")

    broken = replace(reproduction.EXPERIMENTS["fig-directed"], measure=fault)
    monkeypatch.setitem(reproduction.EXPERIMENTS, "fig-directed", broken)
    done = call("fig-directed", "--out", tmp_path)
    assert done.exit_code == 1
    assert "ValueError: a fault" in done.stdout


def test_an_unknown_id_is_wrong_usage(tmp_path: Any) -> None:
    done = call("fig-dirced", "--out", tmp_path)
    assert done.exit_code == 2
    assert "no experiment 'fig-dirced'; did you mean fig-directed? known: theorems," in done.stderr
    assert "no experiment 'nosuch'; known: theorems," in call("nosuch", "--out", tmp_path).stderr
    assert "Traceback" not in done.stderr
