"""veilsum reproduce: the screen, the files, JSON, the listing, exit codes."""

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


def test_a_screen_with_verdicts_and_where_the_page_is(tmp_path: Any) -> None:
    done = call("fig-directed", "--quick", "--seed", 3, "--out", tmp_path / "p")
    assert done.exit_code == 0, done.output
    said = " ".join(done.stdout.split())
    assert "CONFIRMED directed-limit: On directed networks" in said
    assert "Push-sum comes" in said
    assert f"Page {tmp_path / 'p.html'}" in said
    assert {path.name for path in tmp_path.iterdir()} == {"p.html", "p.csv", "p.parts"}
    assert {path.name for path in (tmp_path / "p.parts").iterdir()} >= {
        "fig-directed.svg", "fig-directed.csv", "verdicts.json",
    }  # fmt: skip


def test_a_folder_gets_the_files_the_name_of_the_paper(tmp_path: Any) -> None:
    done = call("fig-directed", "--quick", "-o", tmp_path, "--plot", tmp_path / "figures")
    assert done.exit_code == 0, done.output
    found = {path.name for path in tmp_path.iterdir()}
    assert found == {"paper.html", "paper.csv", "paper.parts", "figures"}
    written = {path.name for path in (tmp_path / "figures").iterdir()}
    assert written == {"fig-directed.png", "fig-directed.svg"}


def test_a_file_of_another_is_never_replaced_and_nothing_is_computed(tmp_path: Any) -> None:
    (tmp_path / "p.csv").write_text("kwh\n1\n")
    done = call("fig-directed", "--quick", "-o", tmp_path / "p")
    assert done.exit_code == 2
    assert "p.csv is there already" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]


def test_counts_are_distinguished_for_the_paper_and_for_us(tmp_path: Any) -> None:
    """One tally used to count our own statements as the paper's."""
    done = call("fig-directed", "tightness", "--out", tmp_path)
    said = " ".join(done.stdout.split())
    assert (
        "Of the paper, measured: 1 confirmed. "
        "Of the paper, decided by proof: 2 corrected, 2 refuted. CONFIRMED"
    ) in said
    reported = json.loads(call("fig-directed", "tightness", "--json", "--out", tmp_path).stdout)
    assert sum(reported["counts"]["paper"].values()) == 1
    assert reported["counts"]["paper, facts"]["refuted"] == 2
    assert sum(reported["counts"]["veilsum"].values()) == 0


def test_json_is_one_object_and_a_second_call_computes_nothing(tmp_path: Any) -> None:
    first = call("fig-directed", "--quick", "--json", "--out", tmp_path)
    picture = tmp_path / "paper.parts" / "fig-directed.svg"
    before = picture.stat().st_mtime_ns
    second = call("fig-directed", "--quick", "--json", "--out", tmp_path)
    assert first.stdout == second.stdout
    assert picture.stat().st_mtime_ns == before
    reported = json.loads(first.stdout)
    assert reported["files"] == [str(tmp_path / f"paper.{kind}") for kind in ("html", "csv")]
    assert [(each["name"], each["status"]) for each in reported["answers"]] == [
        ("directed-limit", "confirmed"), ("directed-weights", "corrected"),
    ]  # fmt: skip
    assert reported["answers"][0]["cells"]["whose"] == "the paper"
    (entry,) = reported["experiments"]
    assert (entry["id"], entry["quick"]) == ("fig-directed", True)
    assert entry["command"] == "veilsum reproduce fig-directed --seed 0 --quick"


def test_skipping_is_no_failure(tmp_path: Any) -> None:
    done = call("headline-real", "--quick", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert "SKIPPED" in done.stdout.splitlines()
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
