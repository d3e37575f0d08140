"""The unit that a scenario states reaches an agent's result, its status and what `status` prints."""

from pathlib import Path

import pytest

from veilsum.agents.config import Setup
from veilsum.agents.coverage import Coverage
from veilsum.agents.results import AgentResult
from veilsum.cli.agent import build

SCENARIO = """\
network = {{graph = "links.csv", weights = "lazy-metropolis"}}
signals = {{draw = {{mu = 0.5}}}}
privacy = {{protect = "signal", epsilon = 1.0}}
algorithm = {{name = "average", rounds = 5}}
[family]
name = "{family}"
sigma = 1.0
bounds = [0.0, 1.0]
unit = "kW"
"""
AGENT = """\
name = "a"
scenario = "scenario.toml"
listen = ["tcp/127.0.0.1:0"]
[ledger]
path = "a.ledger"
[readings]
csv = "readings.csv"
[budget]
epsilon = 1.0
"""


def setup_of(folder: Path, family: str) -> Setup:
    (folder / "scenario.toml").write_text(SCENARIO.format(family=family))
    (folder / "links.csv").write_text("source,target\na,b\nb,c\nc,a\n")
    (folder / "readings.csv").write_text("time,value\n1,0.5\n")
    (folder / "agent.toml").write_text(AGENT)
    return Setup.load(folder / "agent.toml")


@pytest.mark.parametrize(("family", "unit"), [("normal", "kW"), ("log-normal-1p", "")])
def test_a_result_has_the_unit_if_it_is_a_mean_of_signals(
    tmp_path: Path, family: str, unit: str
) -> None:
    setup = setup_of(tmp_path, family)
    assert setup.unit == "kW"
    node = build(setup, insecure=True, research=False, level="error")
    try:
        found = node.reporter.status(node.agents["a"]).to_json()
    finally:
        node.close()
    assert found["unit"] == unit


def test_the_sentence_of_a_result_has_it_behind_the_number() -> None:
    found = AgentResult(
        "a", "pair", "c0" * 32, 20, "rounds", (0.5,), (0.51,), (0.25,), None, 0.95,
        Coverage(("a", "b"), ("a", "b"), (1, 1)), 2, 1.0, 0.0, "", unit="kW",
    )  # fmt: skip
    assert "0.5 +- 0.25 kW (95% of the mean of these readings)" in found.sentence()
