"""One authority with certificates of a site and of observers, and the manifest of the fleet."""

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from tests.agents.config.setups import LINKS, SCENARIO
from veilsum.agents.pki import Authority, Role
from veilsum.agents.scenario_terms import problem_and_manifest
from veilsum.scenario import Scenario

HERE = ("localhost", "127.0.0.1")


@pytest.fixture(scope="session")
def authority(tmp_path_factory: Any) -> Authority:
    made = Authority.create(tmp_path_factory.mktemp("fleet"))
    for name in ("north", "east", "west"):
        made.issue(name, HERE)
    for name in ("control-room", "stranger"):
        made.issue(name, role=Role.OBSERVER)
    yesterday = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    made.issue("old", not_after=yesterday, role=Role.OBSERVER)
    return made


@pytest.fixture(scope="session")
def foreign(tmp_path_factory: Any) -> Authority:
    made = Authority.create(tmp_path_factory.mktemp("foreign"))
    made.issue("control-room", role=Role.OBSERVER)
    made.issue("north", HERE)
    return made


@pytest.fixture(scope="session")
def manifest(tmp_path_factory: Any) -> Any:
    folder: Path = tmp_path_factory.mktemp("scenario")
    (folder / "links.csv").write_text(LINKS)
    (folder / "scenario.toml").write_text(SCENARIO)
    return problem_and_manifest(Scenario.load(folder / "scenario.toml"))[1]
