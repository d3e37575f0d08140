"""[readings] of agent.toml opens the source it names, with its passwords, and `--check` stays away."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.agents.readings.released import taken
from veilsum.agents.config import Setup
from veilsum.agents.readings import HttpReadings, MqttReadings, SqlReadings
from veilsum.errors import AgentError

SCENARIO = """
network = {graph = "ring:3", weights = "lazy-metropolis"}
family = {name = "normal", sigma = 1.0, bounds = [0.0, 100.0]}
signals = {draw = {mu = 50.0}}
privacy = {protect = "signal", epsilon = 1.0}
algorithm = {name = "average", rounds = 20}
"""
AGENT = """
name = "0"
scenario = "scenario.toml"
listen = ["tcp/127.0.0.1:0"]
ledger = {path = "0.ledger"}
budget = {epsilon = 1.0}

[readings]
"""
MQTT = 'mqtt = "mqtts://broker.example"\ntopic = "load"\nkey = "id"\ncolumn = "kwh"\nuser = "me"\n'
SQL = 'sql = "ADDRESS"\ntable = "loads"\nkey = "id"\ncolumn = "kwh"\n'
HTTP = 'http = "https://meter.example/"\nkey = "id"\ncolumn = "kwh"\ninterval = "1m"\n'
POSTGRES = "postgresql+psycopg://me@db.example/plant"
SECRET = "hunter2"


def setup(folder: Path, readings: str, mode: int = 0o600, address: str = POSTGRES) -> Setup:
    (folder / "scenario.toml").write_text(SCENARIO)
    (folder / "secret").write_text(SECRET)
    (folder / "secret").chmod(mode)
    path = folder / "agent.toml"
    path.write_text(AGENT + readings.replace("ADDRESS", address))
    return Setup.load(path)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (MQTT + 'password_file = "secret"\n', MqttReadings),
        (SQL + 'password_file = "secret"\n', SqlReadings),
        (HTTP + 'token_file = "secret"\n', HttpReadings),
    ],
)
def test_each_source_is_made_and_its_secret_is_read(tmp_path: Path, text: str, kind: Any) -> None:
    made = setup(tmp_path, text)
    made.check_readings()
    source = made.readings(connect=False)
    assert isinstance(source, kind)
    source.close()
    if isinstance(source, HttpReadings):
        assert source._request.unredirected_hdrs["Authorization"] == f"Bearer {SECRET}"
        assert source.interval == 60.0
    with pytest.raises(
        AgentError, match=r"agent.toml, line \d+: readings.*can be read by oth"
    ) as e:
        setup(tmp_path, text, 0o644).check_readings()
    assert SECRET not in str(e.value)


def test_a_password_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = setup(tmp_path, SQL + 'password_env = "METER_PASSWORD"\n')
    with pytest.raises(AgentError, match="no variable METER_PASSWORD"):
        made.check_readings()
    monkeypatch.setenv("METER_PASSWORD", SECRET)
    made.check_readings()


def test_the_name_of_the_client_is_that_of_network_and_agent(tmp_path: Path) -> None:
    made = setup(tmp_path, MQTT)
    source = made.readings(connect=False)
    assert isinstance(source, MqttReadings)
    assert source._client._client_id.decode() == f"veilsum-{made.manifest.name}-0"
    source.close()


def test_readings_come_from_the_file_that_is_named(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "meter.db")) as database, database:
        database.execute("CREATE TABLE loads (id INTEGER, kwh REAL)")
        database.execute("INSERT INTO loads VALUES (1, 42.5)")
    source = setup(tmp_path, SQL, address="sqlite:///meter.db").readings()  # beside agent.toml
    assert taken(source, 1) == [42.5]
    source.close()


@pytest.mark.parametrize("address", ["oracl://me@host/db", "sqlite://me@host/x"])
def test_an_address_that_no_driver_takes(tmp_path: Path, address: str) -> None:
    with pytest.raises(AgentError, match=r"line \d+: readings.sql: the database .* cannot be used"):
        setup(tmp_path, SQL, address=address).check_readings()
