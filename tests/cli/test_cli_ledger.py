"""murmura ledger show and verify: words, JSON and exit codes."""

import json
import sqlite3
from typing import Any

import pytest
from typer.testing import CliRunner

from murmura import algorithms, families, networks
from murmura.agents.ledger import Ledger, key_of
from murmura.agents.manifest import Manifest
from murmura.cli.ledger import ledger
from murmura.privacy import Budget, PrivacyEvent, SignalDP
from murmura.simulation import Problem
from murmura.simulation.sources import SyntheticSignals


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
    row = {"reading": 3, "round": 3, "epsilon": 0.25, "delta": 0.0, "value": [1.25]}
    assert said["last"] == [row]


def test_show_json(path: Any) -> None:
    said = json.loads(call("show", path, "--json").output)
    assert (said["agent"], said["releases"], said["incarnation"]) == ("0", 3, 1)
    assert said["spent"] == {"epsilon": 0.75, "delta": 0.0}
    assert said["remaining"] == {"epsilon": 0.25, "delta": 0.0}
    assert "value" not in said["last"][0]
    assert call("show", path, "--last", 0).exit_code == 0


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
