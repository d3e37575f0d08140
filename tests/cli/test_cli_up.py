"""`veilsum up` writes the two files of `veilsum run`, under a name of its own."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from veilsum.agents.local_cluster import cluster
from veilsum.cli.app import app

SCENARIO = """
name = "four"
network = {graph = "links.csv", weights = "lazy-metropolis"}
family = {name = "normal", sigma = 1.0, unit = "kW", bounds = [0.0, 1.0]}
signals = SIGNALS
privacy = {protect = "signal", epsilon = 1.0}
algorithm = {name = "average", rounds = 6}
"""
DRAWN, MEASURED = "{draw = {mu = 0.5}}", '{file = "meters.csv"}'


def up(folder: Path, signals: str, *words: str) -> Any:
    (folder / "s.toml").write_text(SCENARIO.replace("SIGNALS", signals))
    (folder / "links.csv").write_text("source,target\na,b\nb,c\nc,d\nd,a\n")
    (folder / "meters.csv").write_text("agent,load\na,0.2\nb,0.4\nc,0.6\nd,0.8\n")
    return CliRunner().invoke(app, ["up", "s.toml", "--insecure", "--processes=1", *words])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_its_files_are_beside_those_of_run(here: Path) -> None:
    done = up(here, DRAWN)
    assert done.exit_code == 0, done.output
    assert "PROVED" in done.stdout
    assert "Page four-agents.html" in done.stdout
    made = {path.name for path in here.iterdir()} - {"s.toml", "links.csv", "meters.csv"}
    assert made == {"four-agents.html", "four-agents.csv"}
    again = up(here, DRAWN, "--json", "--out", "other")
    found = json.loads(again.stdout)
    assert found["files"] == ["other.html", "other.csv"]
    (answer,) = found["answers"]
    assert (answer["status"], answer["unit"], answer["epsilon"]) == ("proved", "kW", 1.0)


def test_the_truth_of_readings_is_in_secret_files_only(here: Path) -> None:
    done = up(here, MEASURED, "--json", "--truth")
    assert done.exit_code == 0, done.output
    assert "error" not in (here / "four-agents.csv").read_text()
    for kind in ("html", "csv"):
        secret = here / f"four-agents.secret.{kind}"
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
        assert "error" in secret.read_text()


def test_a_file_of_another_program_is_kept_and_nothing_starts(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "up", lambda *_: pytest.fail("agents were started"))
    monkeypatch.setattr("veilsum.agents.local_cluster.up", cluster.up)
    done = up(here, DRAWN, "--out", "meters")
    assert done.exit_code == 2
    assert "meters.csv" in done.stderr
    assert (here / "meters.csv").read_text().startswith("agent,load\n")
