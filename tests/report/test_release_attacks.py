"""Nothing secret leaves in a file: planted signals, and an attacker with all that was left.

Noise comes from the operating system, so these tests draw new numbers every time. An attack counts
if half of the seven agents' signals are known to 1e-4 (by chance: below 1e-9 for each attempt), or
if a secret stands in a file to 9 digits (below 1e-9 for each file).
"""

import json
import stat
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from murmura import laws
from murmura.cli.app import app
from murmura.scenario import Scenario

sys.path.insert(0, str(Path(__file__).parent))
from attacks import Loot, Victim, recovered

pytestmark = [
    pytest.mark.filterwarnings("ignore::murmura.errors.PrivacyWarning"),
    pytest.mark.filterwarnings("ignore::murmura.errors.DivergenceWarning"),
]

AGENTS, ROUNDS = 7, 9
SIGNALS = np.exp(np.random.default_rng(20).normal(1.0, 0.6, (AGENTS, ROUNDS))) + 0.5
SEED = 6_172_839_405_162_738
SCENARIO = """
name = "planted"
replicas = 2
[network]
graph = "ring:7"
{network}
[family]
name = "log-normal"
sigma = 0.6
bounds = [0.5, 50.0]
[signals]
file = "meters.csv"
[privacy]
protect = "{protect}"
{privacy}
[law]
name = "{law}"
rounds = {rounds}
[record]
every = 1
agents = "all"
[[variant]]
name = "first"
[[variant]]
name = "second"
{second}
"""
KINDS = {
    "global": 'epsilon = [0.5, 1.0]\nradius = 1.0\nsensitivity = "global"',
    "smooth": 'epsilon = [0.5, 1.0]\ndelta = 0.01\nsensitivity = "smooth"',
    "smooth-printed": 'epsilon = [0.5, 1.0]\ndelta = 0.01\nsensitivity = "smooth-printed"',
    "nothing": "",
}
NETWORKS = {"push-sum": 'weights = "column-stochastic"', "learn-dynamic": "link_failures = 0.3"}
LAWS = sorted(laws.names())


def plant(folder: Path, law: str, kind: str, protect: str = "signal", seed: int | None = None):
    rows = [f"{i},{t},{float(SIGNALS[i, t])!r}" for i, t in np.ndindex(SIGNALS.shape)]
    (folder / "meters.csv").write_text("\n".join(["agent,time,value", *rows]))
    second = "" if kind == "nothing" else "privacy.radius = 2.0"
    protect = "nothing" if kind == "nothing" else protect
    text = SCENARIO.format(
        network=NETWORKS.get(law, 'weights = "metropolis"'), protect=protect, law=law,
        privacy=KINDS[kind], rounds=ROUNDS, second=second,
    )  # fmt: skip
    text = text if seed is None else f"seed = {seed}\n{text}"
    (folder / "planted.toml").write_text(text)
    return folder / "planted.toml"


def call(*words: object):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


def victims(scenario: Path) -> dict[str, Victim]:
    found = {}
    for job in Scenario.load(scenario).jobs():
        used = ROUNDS if job.problem.law.online else 1
        found[job.name] = Victim(job.problem, SIGNALS[:, :used])
    return found


def attack(folder: Path, scenario: Path, printed: str, seeds: tuple[int, ...] = ()) -> list[str]:
    loot = Loot(printed).take(folder, but=("meters.csv", "planted.toml"))
    assert loot.files
    return recovered(loot, victims(scenario), seeds)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("law", LAWS)
def test_run_leaves_nothing_that_tells_of_a_signal(law, kind, tmp_path):
    """Used to: the seed gave back smooth noise, and two epsilons or variants every signal."""
    scenario = plant(tmp_path, law, kind)
    printed = call("run", scenario, "--out", tmp_path / "out", "--no-figures")
    printed += call("run", scenario, "--out", tmp_path / "again", "--no-figures", "--json")
    assert attack(tmp_path, scenario, printed) == []
