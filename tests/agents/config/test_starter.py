"""`veilsum init --agent`: a file that loads, and that lacks only what a site has."""

import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.agents.config.setups import write_setup
from tests.scenario.schema_rules import problems
from veilsum.agents.config import Setup, agent_schema
from veilsum.agents.doctor import CheckOutcome, checks
from veilsum.cli.app import app

TWO_DAYS = 'name = "learn"\nrounds = 48'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_setup(tmp_path, keys=True)
    (tmp_path / "agent.toml").unlink()
    text = (tmp_path / "scenario.toml").read_text()
    text = text.replace('name = "average"\nrounds = 60', TWO_DAYS).replace(
        "radius = inf", "radius = 20.0"
    )
    (tmp_path / "scenario.toml").write_text(text)
    return tmp_path


def init(folder: Path, name: str, *more: str) -> str:
    words = ["init", str(folder / "agent.toml"), "--agent", name]
    done = CliRunner().invoke(app, [*words, "--scenario", str(folder / "scenario.toml"), *more])
    assert done.exit_code == 0, done.output
    return (folder / "agent.toml").read_text()


@pytest.mark.parametrize(("name", "peers"), [("north", ["east"]), ("east", ["north", "west"])])
def test_the_file_names_the_neighbours_and_pays_for_every_reading(
    folder: Path, name: str, peers: list[str]
) -> None:
    text = init(folder, name)
    assert problems(agent_schema(), tomllib.loads(text)) == []
    config = Setup.load(folder / "agent.toml").config
    assert list(config.peers) == peers
    assert config.scenario == "scenario.toml"
    assert config.budget.epsilon == 48.0
    assert re.search(r"^epsilon = 48 +# 48 readings at 1$", text, re.M)


@pytest.mark.thorough
def test_the_numbers_of_two_days_make_sense(folder: Path) -> None:
    """Three sites, 48 readings each, epsilon = 1 for a change of up to 20: +- 9 within [0, 100]."""
    init(folder, "north")
    text = (folder / "agent.toml").read_text().replace("0.0.0.0:7447", "127.0.0.1:0")
    (folder / "agent.toml").write_text(text)
    found = {r.check: r for r in checks(Setup.load(folder / "agent.toml"))}
    assert {r.outcome for r in found.values()} == {CheckOutcome.OK}, found
    assert found["accuracy"].found.startswith("about +- 9.44 (95%) within [0, 100]")


def test_a_stranger_and_an_existing_file_are_refused(folder: Path) -> None:
    words = ["init", str(folder / "agent.toml"), "--scenario", str(folder / "scenario.toml")]
    done = CliRunner().invoke(app, [*words, "--agent", "nroth"])
    assert done.exit_code == 1
    assert "no member of suppliers is called 'nroth'" in done.stderr
    assert not (folder / "agent.toml").exists()
    init(folder, "north")
    assert CliRunner().invoke(app, [*words, "--agent", "north"]).exit_code == 2
    assert CliRunner().invoke(app, [*words, "--agent", "north", "--force"]).exit_code == 0


def test_a_stream_without_an_end_has_a_budget_for_each_reading(tmp_path: Path) -> None:
    """One for the whole stream would be spent by the first batch, and `veilsum doctor` refuses it."""
    from veilsum.agents.fleet import Fleet
    from veilsum.agents.starter import starter

    Fleet("demo", ("north", "east", "west")).write(tmp_path)
    text = starter(tmp_path / "scenario.toml", "north")
    assert 'unit = "event"' in text
    assert "on each reading" in text
