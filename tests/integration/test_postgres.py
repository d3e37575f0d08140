"""SQL against a real PostgreSQL: each row is released once, whatever is killed."""

import re
import signal
import time
from typing import Any

import pytest

from tests.agents.readings.released import taken
from tests.integration.conftest import Agents
from tests.integration.servers import SECRET, Postgres
from veilsum.agents.readings import Pauses, SqlReadings
from veilsum.errors import SignalError

pytestmark = pytest.mark.integration
NOISE = "7654321"
TABLE = "CREATE TABLE loads (id BIGSERIAL PRIMARY KEY, at TIMESTAMPTZ DEFAULT now(), kwh NUMERIC)"


def execute(database: Postgres, *statements: str) -> None:
    connection = database.connect()
    for statement in statements:
        connection.execute(statement)
    connection.close()


def insert(database: Postgres, count: int) -> None:
    execute(
        database,
        f"INSERT INTO loads (kwh) SELECT (k % 10) + 0.{NOISE} FROM generate_series(1, {count}) k",
    )


def described(database: Postgres) -> Any:
    options = {"table": "public.loads", "password": SECRET, "interval": 0.1}
    return ["sql", [database.url, "id", "kwh"], options]


def source(database: Postgres, **options: Any) -> SqlReadings:
    _, arguments, given = described(database)
    return SqlReadings(*arguments, **{**given, "pauses": Pauses(0.1, 0.5), **options})


def keys(count: int) -> list[str]:
    return [str(number) for number in range(1, count + 1)]


def test_each_row_is_released_once_though_the_agent_is_killed_in_every_commit(
    database: Postgres, agents: Agents
) -> None:
    execute(database, TABLE)
    insert(database, 24)
    agents.killed_at_every_stage(described(database), 24)
    released = agents.released()
    assert len(released) == 24
    assert set(released) == agents.origins(keys(24))
    assert NOISE not in agents.log
    assert SECRET not in agents.log


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_each_row_is_released_once_though_the_database_restarts(
    database: Postgres, agents: Agents, number: int
) -> None:
    execute(database, TABLE)
    insert(database, 10)
    process = agents.start(described(database), 20)
    agents.wait_for(5)
    database.end(number)
    time.sleep(1)
    database.start()
    insert(database, 10)
    assert agents.finish(process) == 0, agents.output
    released = agents.released()
    assert len(released) == 20
    connection = database.connect()
    rows = connection.execute("SELECT id FROM loads").fetchall()
    connection.close()
    assert set(released) == agents.origins([str(row[0]) for row in rows])
    assert re.search(r"cannot be (reached|read) ", agents.log)  # between two looks, or in one
    assert "is read again" in agents.log
    assert NOISE not in agents.log
    assert SECRET not in agents.log


def test_a_transaction_that_commits_late_is_not_passed_over(database: Postgres) -> None:
    execute(database, TABLE)
    slow = database.connect()
    slow.autocommit = False
    slow.execute("INSERT INTO loads (kwh) VALUES (1.5)")  # takes id 1, and is not yet visible
    execute(database, "INSERT INTO loads (kwh) VALUES (2.5)")
    readings = source(database)
    assert taken(readings, 1) == [2.5]
    slow.commit()
    slow.close()
    assert taken(readings, 1) == [1.5]
    readings.close()


def test_a_time_is_the_same_key_in_every_zone(database: Postgres) -> None:
    execute(database, TABLE, "INSERT INTO loads (at, kwh) VALUES ('2030-01-31 12:00+00', 1.5)")
    found = []
    for zone in ("UTC", "Asia/Tokyo"):
        execute(database, f"ALTER ROLE meter SET timezone TO '{zone}'")
        readings = SqlReadings(
            database.url, "at", "kwh", table="loads", password=SECRET, time="at", interval=0.1
        )
        assert taken(readings, 1) == [1.5]
        assert readings.origin is not None
        found.append((readings.origin.text, readings.observed_at))
        readings.close()
    assert found == [("2030-01-31T12:00:00", 1896091200.0)] * 2


def test_errors_have_no_row_and_no_password(database: Postgres) -> None:
    """A driver quotes the text it cannot convert."""
    execute(
        database,
        "CREATE TABLE texts (id INT, kwh TEXT)",
        "INSERT INTO texts VALUES (1, 'secret-77')",
    )
    query = "SELECT id, kwh::numeric AS kwh FROM texts"
    for options in ({"query": query, "table": None}, {"password": "wrong-secret"}):
        readings = source(database, **options)
        texts: list[str] = []
        end = time.monotonic() + 10
        while not texts and time.monotonic() < end:
            texts += [notice.text for notice in readings.notices()]
        readings.close()
        assert "cannot be re" in texts[0]
        assert not any(secret in texts[0] for secret in ("secret-77", "wrong-secret", SECRET))
    execute(
        database,
        "CREATE TABLE loads (id INT, kwh TEXT)",
        "INSERT INTO loads VALUES (1, 'secret-77')",
    )
    readings = source(database)
    with pytest.raises(SignalError, match="row 1 in the order of id, kwh is not a number"):
        taken(readings, 1)
    readings.close()
