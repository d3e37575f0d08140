"""The status and the metrics of an agent replace no file that is something else."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.agents.config.setups import write_setup
from tests.agents.doctor.broken import replace_in
from veilsum.agents.config import Setup
from veilsum.agents.outputs import check_outputs
from veilsum.agents.runtime.metrics import Metrics
from veilsum.cli.app import app
from veilsum.errors import AgentError

USED = {
    "north.ledger": "the ledger",
    "north.ledger-wal": "the log of the ledger",
    "north.ledger.lock": "the lock of the ledger",
    "north.ledger.key": "the key of the ledger",
    "north.ledger.spool": "the spool of the ledger",
    "agent.toml": "the agent's file",
    "scenario.toml": "the scenario",
    "readings.csv": "the file of the readings",
    "keys/../readings.csv": "the file of the readings",
    "links.csv": "exists and ",  # of no use to the agent itself
    "keys/north.key": "exists and ",
    "keys": "exists and ",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_setup(tmp_path, keys=True)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("name", "what"), USED.items(), ids=list(USED))
def test_a_file_that_is_in_use_is_not_replaced(folder: Path, name: str, what: str) -> None:
    before = contents(folder)
    refused = CliRunner().invoke(
        app, ["agent", str(folder / "agent.toml"), "--metrics-file", str(folder / name)]
    )
    assert refused.exit_code == 1
    assert f"--metrics-file: {folder / name}" in refused.output
    assert what in refused.output
    assert contents(folder) == before, "nothing was made or changed"
    replace_in(folder / "agent.toml", "[readings]", f'[status]\nfile = "{name}"\n[readings]')
    before = contents(folder)
    for words in ([], ["--check"]):
        refused = CliRunner().invoke(app, ["agent", str(folder / "agent.toml"), *words])
        assert refused.exit_code == 1
        assert f"line 18: status.file: {folder / name}" in refused.output
        assert what in refused.output
    assert contents(folder) == before


def test_a_link_to_a_file_in_use_is_not_replaced(folder: Path) -> None:
    (folder / "x.prom").symlink_to("north.ledger")  # which is not there yet
    with pytest.raises(AgentError, match="is the ledger, and would be replaced"):
        check_outputs(Setup.load(folder / "agent.toml"), folder / "x.prom")


def test_both_in_one_file_are_refused(folder: Path) -> None:
    setup = Setup.load(folder / "agent.toml")
    with pytest.raises(AgentError, match="is the file of the status too"):
        check_outputs(setup, setup.status_file)


def test_check_looks_at_the_metrics_file_too(folder: Path) -> None:
    words = ["--check", "--metrics-file", str(folder / "links.csv")]
    refused = CliRunner().invoke(app, ["agent", str(folder / "agent.toml"), *words])
    assert refused.exit_code == 1
    assert "failure outputs: --metrics-file: " in refused.output


def test_files_of_ours_and_empty_ones_are_replaced(folder: Path) -> None:
    setup = Setup.load(folder / "agent.toml")
    prom = folder / "x.prom"
    check_outputs(setup, prom)
    Metrics().write(prom)
    needed = ("agent", "state", "time", "complete", "estimate", "half_width", "coverage")
    setup.status_file.write_text("{" + ", ".join(f'"{key}": 0' for key in needed) + "}")
    check_outputs(setup, prom)
    for file in (prom, setup.status_file):
        file.write_text("")
        check_outputs(setup, prom)
        file.write_text("load\n42.5\n")
        with pytest.raises(AgentError, match="would be replaced; choose another file"):
            check_outputs(setup, prom)
        file.unlink()
