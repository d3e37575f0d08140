"""murmura audit: what it prints, writes and answers with."""

import json

import pytest
from typer.testing import CliRunner

from murmura.cli.app import app

SCENARIO = """
name = "small"
[network]
graph = "florentine-families"
[family]
name = "{family}"
sigma = 1.0
[signals]
draw = {{ mu = 1.0 }}
[privacy]
protect = "{protect}"
epsilon = 1.0
{more}
[law]
name = "{law}"
rounds = 10
"""
PROVED = {"family": "log-normal-1p", "protect": "signal", "law": "learn", "more": ""}
PRINTED = 'delta = 0.01\nsensitivity = "smooth-printed"'


def call(folder, *options, **changes):
    path = folder / "s.toml"
    path.write_text(SCENARIO.format(**{**PROVED, **changes}))
    words = ["audit", str(path), "--trials", "20000", "--out", str(folder / "out"), *options]
    return CliRunner().invoke(app, words)


def test_a_promise_that_stands_is_answered_with_0(tmp_path):
    done = call(tmp_path)
    assert done.exit_code == 0, done.output
    assert "not refuted" in done.output
    assert (tmp_path / "out" / "evidence.png").exists()


def test_a_promise_that_falls_is_answered_with_1(tmp_path):
    done = call(tmp_path, family="log-normal", more=PRINTED)
    assert done.exit_code == 1
    assert "REFUTED" in done.output


@pytest.mark.parametrize(("law", "code"), [("learn-network", 0), ("average", 1)])
def test_under_network_protection_a_neighbour_is_attacked_too(law, code, tmp_path):
    done = call(tmp_path, "--json", "--no-figures", protect="network", law=law)
    assert done.exit_code == code, done.output
    signal, neighbour = json.loads(done.stdout)["reports"]
    assert not signal["refuted"]
    assert neighbour["name"].endswith("neighbour")
    assert neighbour["refuted"] == bool(code)


def test_strict_refuses_what_is_not_proved(tmp_path):
    path = tmp_path / "s.toml"
    for law, code in (("learn-network", 0), ("average", 1)):
        path.write_text(SCENARIO.format(**{**PROVED, "protect": "network", "law": law}))
        words = ["run", str(path), "--strict", "--no-figures", "--out", str(tmp_path / law)]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == code, done.output
        assert ("erratum 5" in done.output) == bool(code)
