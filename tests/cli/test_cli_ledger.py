"""veilsum ledger: words, JSON and exit codes."""

import json
import re
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from typer.testing import CliRunner

from veilsum import algorithms, families, networks
from veilsum.agents.config import Setup
from veilsum.agents.ledger import Ledger, key_of
from veilsum.agents.manifest import Manifest
from veilsum.cli.ledger import ledger
from veilsum.errors import AgentError
from veilsum.privacy import Budget, PrivacyEvent, SignalDP
from veilsum.simulation import Problem
from veilsum.simulation.sources import SyntheticSignals


@pytest.fixture
def path(tmp_path: Any) -> Any:
    net = networks.weigh(networks.load("ring:6"), "lazy-metropolis")
    family = families.Normal(1.0, bounds=(0.0, 1.0))
    source = SyntheticSignals(family, {"mu": 0.5}, 6, 1)
    problem = Problem(net, algorithms.ALGORITHMS["learn"](), family, source, SignalDP(0.25), 50)
    manifest = Manifest.of(problem, "town")
    (tmp_path / "0.key").write_bytes(b"a private key")
    made = Ledger.open(
        tmp_path / "0.ledger", manifest, "0", Budget(1.0), key=key_of(b"a private key")
    )
    with made:
        for reading in (1, 2, 3):
            made.charge(
                reading, reading, PrivacyEvent(0.25), lambda: (5 * 2 ** (manifest.unit - 2),)
            )
    return tmp_path / "0.ledger"


def call(*words: Any) -> Any:
    return CliRunner().invoke(ledger, [str(word) for word in words])


def test_show(path: Any) -> None:
    done = call("show", path)
    assert done.exit_code == 0, done.output
    for words in ("town, epoch 1", "epsilon = 1 per stream", "epsilon = 0.75", "epsilon = 0.25"):
        assert words in done.output
    assert "1.25" not in done.output


def test_values_only_when_asked(path: Any) -> None:
    assert "1.25" in call("show", path, "--values").output
    said = json.loads(call("show", path, "--values", "--last", 1, "--json").output)
    (last,) = said["last"]
    assert last.pop("time") > 1.7e9
    row = {"reading": 3, "round": 3, "epsilon": 0.25, "delta": 0.0, "value": [1.25]}
    assert last == row | {"readings": 1}


def test_show_json(path: Any) -> None:
    said = json.loads(call("show", path, "--json").output)
    assert (said["agent"], said["releases"], said["incarnation"]) == ("0", 3, 1)
    assert said["spent"] == {"epsilon": 0.75, "delta": 0.0}
    assert said["remaining"] == {"epsilon": 0.25, "delta": 0.0}
    assert "value" not in said["last"][0]
    assert call("show", path, "--last", 0).exit_code == 0


def test_a_masked_sum_is_shown_by_query(tmp_path: Any) -> None:
    from tests.agents.ledger.conftest import make_problem
    from tests.agents.ledger.session_world import Steps, a_sum, made_terms

    manifest = Manifest.of(make_problem(), "town")
    file, terms = tmp_path / "0.ledger", made_terms(manifest)
    with Ledger.open(file, manifest, "0", Budget(1.0)) as made:
        steps = Steps(made.sessions(terms), terms, 7).begin(last=2, readings=2)
        steps.sent()
        steps.refund()
        steps.sent(1)
        made.sessions(terms).conclude_query(7, "sum", a_sum(7, 1))
        Steps(made.sessions(terms), terms, 8).begin(last=3)
    said = json.loads(call("show", file, "--values", "--json").output)
    assert (said["queries"], said["open_query"]) == (2, 8)
    assert said["reserved"] == {"epsilon": 0.25, "delta": 0.0}
    assert said["remaining"] == {"epsilon": 0.5, "delta": 0.0}
    rows = [(r["query"], r["attempt"], r["members"], r["refunded"]) for r in said["last"]]
    assert rows == [(7, 1, 4, True), (7, 2, 4, False)]
    assert not any("value" in row for row in said["last"])
    text = call("show", file).output
    for words in ("2, 8 is open", "reserved by the open query", "refunded", "yes"):
        assert words in text
    assert str(2**64 - 5) not in text
    assert "Queries of a masked sum: 2 (1 open, 1 sum)" in call("report", file).output
    assert "epsilon = 0.25" in call("verify", file).output


def test_show_report_verify_and_the_agent_agree_on_what_was_spent(tmp_path: Any) -> None:
    """A budget for each reading, after three sums: 0.125 on a reading, 0.375 in all, 1 for the next."""
    from tests.agents.ledger.conftest import make_problem
    from tests.agents.ledger.session_world import Steps, a_sum, made_terms

    manifest = Manifest.of(make_problem(), "town")
    file, terms = tmp_path / "0.ledger", made_terms(manifest)
    names = ("spent", "spent_in_all", "remaining", "reserved")
    with Ledger.open(file, manifest, "0", Budget(1.0), unit="event") as made:
        for query in (1, 2, 3):
            Steps(made.sessions(terms), terms, query).begin(last=query).sent()
            made.sessions(terms).conclude_query(query, "sum", a_sum(query))
        Steps(made.sessions(terms), terms, 4).begin(last=4)
        now = made.budget_status()
        assert made.spent == now.spent
    assert [getattr(now, name).epsilon for name in names] == [0.125, 0.375, 1.0, 0.25]
    said = json.loads(call("show", file, "--json").output)
    checked = json.loads(call("verify", file, "--json").output)
    for name in names:
        expected = getattr(now, name)._asdict()
        assert (said[name], checked[name]) == (expected, expected), name
    text = call("report", file).output
    for words in (
        "Spent on the dearest reading: epsilon = 0.125",
        "Spent in all: epsilon = 0.375",
        "Left for the next reading: epsilon = 1",
        "Reserved by the open query: epsilon = 0.25",
        "All readings together have cost epsilon = 0.375.",
    ):
        assert words in text
    assert "spent on the dearest reading" in call("show", file).output


def test_verify(path: Any, tmp_path: Any) -> None:
    done = call("verify", path)
    assert done.exit_code == 0
    assert "intact; agent 0, 3 releases" in done.output
    assert "not detected by this check: without the key" in done.output
    done = call("verify", path, "--key", tmp_path / "0.key")
    assert done.exit_code == 0
    assert "without the key" not in done.output


def test_verify_finds_a_change(path: Any) -> None:
    db = sqlite3.connect(path)
    db.execute("UPDATE releases SET epsilon = 0.01 WHERE seq = 2")
    db.commit()
    db.close()
    done = call("verify", path)
    assert done.exit_code == 1
    assert "release 2 (reading 2) breaks the chain" in done.output
    said = json.loads(call("verify", path, "--json").output)
    assert said["ok"] is False
    assert said["problems"]


def test_what_is_not_there(tmp_path: Any) -> None:
    for verb in ("show", "verify"):
        done = call(verb, tmp_path / "none")
        assert done.exit_code == 2
        assert "there is no ledger at" in done.output


def test_export_has_every_release_and_no_value(path: Any, tmp_path: Any) -> None:
    done = call("export", path)
    assert done.exit_code == 0, done.output
    head, *rows = done.output.splitlines()
    assert head == "number,time,round,readings,last_reading,epsilon,delta,hash"
    assert [row.split(",")[0] for row in rows] == ["1", "2", "3"]
    assert call("export", path, "--format", "json", "--out", tmp_path / "out.json").exit_code == 0
    said = json.loads((tmp_path / "out.json").read_text())
    assert (said["agent"], said["budget"]) == ("0", "epsilon = 1 per stream")
    assert [row["epsilon"] for row in said["releases"]] == [0.25] * 3
    with closing(sqlite3.connect(path)) as db:
        value = db.execute("SELECT sums FROM releases").fetchone()[0]
    assert value not in done.output + (tmp_path / "out.json").read_text()


def test_report_says_what_is_signed_for(path: Any, tmp_path: Any) -> None:
    done = call("report", path, "--key", tmp_path / "0.key")
    assert done.exit_code == 0, done.output
    for words in (
        "Ledger of agent 0, network town, epoch 1",
        "Verified: intact",
        "Budget: epsilon = 1 per stream",
        "Left for the next reading: epsilon = 0.25",
        "Each reading was released once, at a cost of at most epsilon = 0.25.",
        "All readings together have cost epsilon = 0.75.",
        "They can never cost more than epsilon = 1.",
        "Released: 3 releases of 3 readings",
        "Per day",
        "Per week",
        "Per month",
        "Signed:",
    ):
        assert words in done.output
    assert "1.25" not in done.output
    db = sqlite3.connect(path)
    db.execute("UPDATE releases SET epsilon = 0.01 WHERE seq = 2")
    db.commit()
    db.close()
    done = call("report", path)
    assert done.exit_code == 1
    assert "NOT INTACT, do not sign" in done.output


AGENT = """
name = "0"
scenario = "scenario.toml"
listen = ["tcp/127.0.0.1:0"]

[peers]
1 = "tcp/127.0.0.1:1"
5 = "tcp/127.0.0.1:1"

[ledger]
path = "a.ledger"

[budget]
epsilon = {epsilon}
{more}

[readings]
csv = "readings.csv"
column = "kwh"
"""
SCENARIO = """
name = "town"
network = {graph = "ring:6", weights = "lazy-metropolis"}
family = {name = "normal", sigma = 1.0, bounds = [0.0, 1.0]}
signals = {draw = {mu = 0.5}}
privacy = {protect = "signal", epsilon = 0.25}
algorithm = {name = "learn", rounds = 50}
"""


@pytest.fixture
def site(tmp_path: Any) -> Any:
    """Writes agent.toml with a budget."""
    (tmp_path / "scenario.toml").write_text(SCENARIO)

    def write(epsilon: float = 1.0, more: str = "") -> Any:
        path = tmp_path / "agent.toml"
        path.write_text(AGENT.format(epsilon=epsilon, more=more))
        return path

    return write


def test_a_changed_budget_backup_and_restore(site: Any, tmp_path: Any) -> None:
    setup = Setup.load(site())
    path = tmp_path / "a.ledger"
    with Ledger.open(path, setup.manifest, "0", Budget(1.0)) as made:
        made.charge(1, 1, PrivacyEvent(0.25), lambda: (1,))
    done = call("amend", site(2.0, 'per = "month"\nrefill = "fixed"'), "--by", "ana")
    assert done.exit_code == 1
    assert "--raise" in done.output
    done = call("amend", tmp_path / "agent.toml", "--raise", "--by", "ana", "--reason", "agreed")
    assert done.exit_code == 0, done.output
    change = "epsilon = 1 per stream -> epsilon = 2 per fixed month (UTC)"
    assert f"{change}, recorded as by ana" in done.output
    assert "nothing was changed" in call("amend", tmp_path / "agent.toml").output
    shown = call("report", path).output
    assert "Budget: epsilon = 2 per fixed month (UTC)" in shown
    assert f"budget by ana (agreed), after 1 releases: {change}" in shown
    assert "Refilled from" in shown
    assert json.loads(call("show", path, "--json").output)["period"] == "fixed month (UTC)"
    done = call("backup", path, tmp_path / "copy")
    assert (done.exit_code, "with 1 releases" in done.output) == (0, True), done.output
    for file in tmp_path.glob("a.ledger*"):
        file.unlink()
    done = call("restore", tmp_path / "copy", path, "--by", "ana")
    assert done.exit_code == 0, done.output
    assert "nothing until all neighbours have confirmed" in done.output
    assert call("verify", path).exit_code == 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('per = "fortnight"', "budget.per: allowed: day, week, month"),
        ('per = "day"\nunit = "event"', "leave out one of the two"),
        ('zone = "Europe/Madrid"', "zone with per only"),
        ('per = "day"\nrefill = "fixed"\nzone = "Mars/North"', "budget.zone: allowed: a time zone"),
    ],
)
def test_a_period_in_the_agents_file_is_checked_with_its_line(
    site: Any, more: str, said: str
) -> None:
    with pytest.raises(AgentError, match=re.escape(said)) as caught:
        Setup.load(site(1.0, more))
    assert "agent.toml, line" in str(caught.value)
