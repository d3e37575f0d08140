"""Every extra brings what it is for and no more: the built wheel in a clean environment, one for each."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.distribution.conftest import BuiltDistributions
from tools.environments import CleanEnvironment, brought
from tools.locks import extras

SIMULATOR = {"scipy", "numba", "llvmlite", "pandas"}
FIGURES = {"matplotlib", "pillow", "fonttools"}
BROKERS = {"starlette", "uvicorn", "paho-mqtt", "sqlalchemy"}
NETWORK = BROKERS | {"eclipse-zenoh", "cryptography", "obstore"}
TESTS = {"opendp", "pytest", "hypothesis", "sphinx", "playwright", "python-graphblas", "mypy"}
NOT_BROUGHT = {  # by each extra alone
    "core": SIMULATOR | FIGURES | NETWORK | {"mpi4py", "cvxpy", "dp-accounting", "pyarrow"},
    "sim": FIGURES | NETWORK | {"cvxpy", "mpi4py", "pyarrow"},
    "plot": NETWORK | {"cvxpy", "mpi4py", "pyarrow"},
    "parquet": FIGURES | NETWORK | {"cvxpy", "mpi4py"},
    "tables": SIMULATOR | FIGURES | NETWORK | {"cvxpy", "mpi4py"},
    "agents": SIMULATOR | FIGURES | {"starlette", "sqlalchemy", "paho-mqtt"},
    "fleet": SIMULATOR | FIGURES | BROKERS | {"eclipse-zenoh"},
    "live": SIMULATOR | FIGURES | {"eclipse-zenoh"},
    "mqtt": SIMULATOR | FIGURES | {"sqlalchemy", "starlette"},
    "sql": SIMULATOR | FIGURES | {"paho-mqtt", "starlette"},
    "mpi": FIGURES | NETWORK,
    "solvers": FIGURES | NETWORK,
    "accounting": FIGURES | NETWORK | (SIMULATOR - {"scipy"}),  # dp_accounting needs scipy itself
    "all": set(),
}


@pytest.mark.parametrize("extra", NOT_BROUGHT)
def test_an_extra_does_not_bring_what_others_are_for(built: BuiltDistributions, extra: str) -> None:
    found = brought(built.wheel, extra)
    assert len(found) >= len(extras()["core"])
    assert not found & (NOT_BROUGHT[extra] | TESTS)


def test_every_extra_is_tested() -> None:
    assert NOT_BROUGHT.keys() == extras().keys()
    assert SMOKES.keys() == extras().keys() - {"all"}


def test_all_is_all_of_them(built: BuiltDistributions) -> None:
    each = [brought(built.wheel, extra) for extra in extras() if extra != "all"]
    assert brought(built.wheel, "all") == set().union(*each)


SCENARIO = """
name = "ring"
seed = 3
[network]
graph = "ring"
options = { size = 9 }
weights = "metropolis"
[family]
name = "normal"
sigma = 1.0
bounds = [0.0, 10.0]
[signals]
draw = { mu = 5.0 }
[privacy]
protect = "signal"
epsilon = 1.0
[algorithm]
name = "average"
rounds = 20
"""
ESTIMATE = """
import numpy as np, veilsum as vs
mixing = vs.networks.metropolis(vs.networks.load("ring:9"))
loads = np.random.default_rng(7).normal(5.0, 1.0, mixing.size)
family, privacy = vs.families.Normal(sigma=1.0), vs.privacy.SignalDP(epsilon=1.0, radius=1.0)
result = vs.estimate(loads, mixing, family, privacy, algorithm="jacobi", rounds=20, rng=7)
print(result.guarantee.status, result.value)
"""
SQL = """
import sqlite3, time
from veilsum.agents.readings import SqlReadings
with sqlite3.connect("meter.db") as database:
    database.execute("CREATE TABLE loads (id INTEGER PRIMARY KEY, kwh REAL)")
    database.execute("INSERT INTO loads VALUES (1, 42.5)")
database.close()
readings, value, end = SqlReadings("sqlite:///meter.db", "id", "kwh", table="loads"), None, time.time() + 30
while not isinstance(value, float) and time.time() < end:
    value = readings.next()
    time.sleep(0.01)
readings.close()
import psycopg
print("read", value)
"""
MQTT = """
from veilsum.agents.readings import MqttReadings
readings = MqttReadings("mqtt://127.0.0.1:1", "meters/north", "id", "kwh", client="n", connect=False)
print(readings.naming)
readings.close()
"""
SOLVERS = """
import veilsum as vs
mixing = vs.networks.fastest(vs.networks.load("ring:9"))
print(mixing.size, "agents")
"""
ACCOUNTING = """
from veilsum.privacy.accounting import PrivacyEvent, compose
tight, optimal = (compose([PrivacyEvent(0.1)] * 400, 1e-6, method=m) for m in ("tight", "optimal"))
print(0 < tight.epsilon <= optimal.epsilon * 1.001)
"""
PARQUET = """
import veilsum as vs
try:
    vs.networks.load("ring:9").save("ring.parquet")
    print(repr(vs.networks.load("ring.parquet")))
except vs.errors.MissingExtraError as error:
    print(error)
"""
ROWS = """
import duckdb
duckdb.sql("copy (select i % 10 as kwh from range(1000) t(i)) to 'rows.parquet'")
"""
FLEET = """
import obstore
from veilsum.fleet.store import open_store, probe_witness
store = open_store("board", create=True)
store.put("post/a", b"released")
print(store.get_many(store.names("post/")), probe_witness(store, one_file_system=True).able)
print(open_store("s3://bucket/board").address, open_store("https://host/board").address)
"""
LIVE = """
from urllib.request import urlopen
from veilsum.live.hub import Hub
from veilsum.live.security import PageAddress
from veilsum.live.server import PageServer, page_route
page = page_route("/", "base.html", title="north", subtitle="an agent")
server = PageServer([page], Hub(), PageAddress("127.0.0.1", 0))
url = server.start()
for path in ("", "static/base.css", "static/stream.js", "static/charts.js"):
    with urlopen(url.rstrip("/") + "/" + path) as found:
        print(path, found.status, len(found.read()))
server.close()
"""


def core(env: CleanEnvironment, folder: Path) -> None:
    assert "normal" in env.run("veilsum", "families", cwd=folder)
    assert "jacobi" in env.run("veilsum", "algorithms", cwd=folder)
    assert "scenario.toml" in env.run("veilsum", "init", cwd=folder)
    assert "ring-report.html" in env.run("veilsum", "report", "ring.toml", cwd=folder)
    assert "metropolis" in env.run("veilsum", "graph", "ring:9", cwd=folder)
    for line, extra in (
        ("run scenario.toml", "sim"),
        ("keys init authority", "agents"),
        ("agent agent.toml", "agents"),
        ("status agent.toml", "agents"),
        ("watch watch.toml", "agents"),
        ("init --fleet demo north east", "agents"),
    ):
        said = env.run("veilsum", *line.split(), cwd=folder, code=1)
        assert f"[{extra}]" in said
        assert "Traceback" not in said


def sim(env: CleanEnvironment, folder: Path) -> None:
    assert "proved" in env.run("python", "-c", ESTIMATE, cwd=folder)
    said = env.run("veilsum", "run", "ring.toml", cwd=folder)
    assert "PROVED" in said
    assert said.count("[plot]") == 1  # one line says what was not drawn
    assert "[plot]" in env.run("veilsum", "run", "ring.toml", "--plot", "a.pdf", cwd=folder, code=1)
    assert "[parquet]" in env.run("python", "-c", PARQUET, cwd=folder)


def plot(env: CleanEnvironment, folder: Path) -> None:
    env.run("veilsum", "run", "ring.toml", "--plot", "figure.pdf", cwd=folder)
    assert (folder / "figure.pdf").read_bytes().startswith(b"%PDF")
    assert "<svg" in (folder / "ring.html").read_text()


def parquet(env: CleanEnvironment, folder: Path) -> None:
    assert "Graph" in env.run("python", "-c", PARQUET, cwd=folder)


def tables(env: CleanEnvironment, folder: Path) -> None:
    env.run("python", "-c", ROWS, cwd=folder)
    said = env.run(
        "veilsum", *["ask", "mean", "kwh", "rows.parquet", "--between", "0", "10", "--eps", "1"], cwd=folder
    )  # fmt: skip
    assert "Proved" in said


def agents(env: CleanEnvironment, folder: Path) -> None:
    env.run("veilsum", "keys", "init", "authority", cwd=folder)
    env.run("veilsum", "init", "agent.toml", "--agent", "0", "--scenario", "ring.toml", cwd=folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp/127.0.0.1:{free.getsockname()[1]}"
    file = folder / "agent.toml"
    file.write_text(re.sub(r"tls/[\w.]+:7447", address, file.read_text()))
    (folder / "readings.csv").write_text("load\n5.0\n")
    said = env.run("veilsum", "agent", "agent.toml", "--check", "--insecure", cwd=folder)
    assert "Proved" in said
    assert "0 failures" in said
    assert "ring-report.html" in env.run("veilsum", "report", "ring.toml", cwd=folder)
    assert "COMMANDS.md" in env.run(
        "veilsum", "init", "--fleet", "demo", "north", "east", cwd=folder
    )


def fleet(env: CleanEnvironment, folder: Path) -> None:
    said = env.run("python", "-c", FLEET, cwd=folder)
    assert "{'post/a': b'released'} True" in said
    assert "s3://bucket/board https://host/board" in said


def live(env: CleanEnvironment, folder: Path) -> None:
    assert env.run("python", "-c", LIVE, cwd=folder).count(" 200 ") == 4


def mqtt(env: CleanEnvironment, folder: Path) -> None:
    assert "mqtt topic meters/north" in env.run("python", "-c", MQTT, cwd=folder)


def sql(env: CleanEnvironment, folder: Path) -> None:
    assert "read 42.5" in env.run("python", "-c", SQL, cwd=folder)


def mpi(env: CleanEnvironment, folder: Path) -> None:
    env.run("mpiexec", "-n", "2", "veilsum", "run", "ring.toml", "--engine", "mpi", cwd=folder)
    assert (folder / "ring.csv").exists()


def solvers(env: CleanEnvironment, folder: Path) -> None:
    assert "9 agents" in env.run("python", "-c", SOLVERS, cwd=folder)


def accounting(env: CleanEnvironment, folder: Path) -> None:
    assert "True" in env.run("python", "-c", ACCOUNTING, cwd=folder)


SMOKES: dict[str, Callable[[CleanEnvironment, Path], None]] = {
    use.__name__: use
    for use in (
        core,
        sim,
        plot,
        parquet,
        tables,
        agents,
        fleet,
        live,
        mqtt,
        sql,
        mpi,
        solvers,
        accounting,
    )
}


@pytest.mark.integration
@pytest.mark.parametrize("extra", SMOKES)
def test_an_extra_alone_does_what_it_is_for(
    built: BuiltDistributions, extra: str, tmp_path: Path
) -> None:
    env = CleanEnvironment(tmp_path / "env")
    env.link(built.wheel, extra)
    assert env.installed() == brought(built.wheel, extra)
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "ring.toml").write_text(SCENARIO)
    SMOKES[extra](env, folder)
