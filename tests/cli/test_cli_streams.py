"""What goes to stdout and stderr: JSON errors, and pipes whose reader has gone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from veilsum.cli.app import app


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["run", "none.toml", "--json"], 2, "cannot read the scenario none.toml"),
        (["sweep", "none.toml", "--json", "--epsilon", "x"], 2, "found 'x' where an epsilon"),
        (["run", "none.toml", "--json", "--nope"], 2, "--nope"),
        (["run", "--json"], 2, "SCENARIO"),
        (["run", "none.toml", "--json", "--jobs", "0"], 2, "--jobs"),
        (["graph", "rng:7", "--json"], 2, "rng"),
        (["ledger", "show", "none.ledger", "--json"], 2, "there is no ledger"),
        (["nothing", "--json"], 2, "nothing"),
    ],
)
def test_errors_of_json_are_json_too(
    words: list[str], code: int, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == code, done.output
    found = json.loads(done.stdout)
    assert set(found) == {"error"}
    assert part in found["error"]
    assert done.stderr.strip()
    assert "Traceback" not in done.stderr
    without = CliRunner().invoke(app, [word for word in words if word != "--json"])
    assert (without.exit_code, without.stdout) == (code, "")


@pytest.mark.parametrize("words", [["families"], ["algorithms"], ["algorithms", "--json"]])
def test_a_reader_that_stops_is_no_error(words: list[str]) -> None:
    """`veilsum run ... | head -1` prints a line and nothing on stderr."""
    command = [sys.executable, "-m", "veilsum.cli", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()  # before anything is printed
        errors = process.stderr.read()
        process.wait(timeout=120)
    assert errors == b""


def test_run_into_head(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    assert CliRunner().invoke(app, ["init", str(file)]).exit_code == 0
    options = f"--replicas 1 --out {tmp_path / 'out'}"
    command = f"{sys.executable} -m veilsum.cli run {file} {options} | head -1"
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.startswith("Twenty-one agents on a ring")
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
