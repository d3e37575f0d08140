"""An algorithm is one file: a new one is listed, run, guaranteed, predicted, audited and tested.

The file is written to a folder that a fresh process adds to the path of `veilsum.algorithms`; nothing
else knows of it. The weakened twins are the same file with one coefficient of noise missing.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAME = "lazy-average"
FILE = '''
"""lazy-average: half of the own estimate, half of the average over the neighbours.

    nu_0 = xi + d,    nu_t = (nu_{t-1} + A nu_{t-1})/2
"""

from dataclasses import dataclass

from veilsum.algorithms.base import Algorithm, Coefficients


@dataclass(frozen=True)
class LazyAverage(Algorithm):
    """nu_t = (nu_{t-1} + A nu_{t-1})/2."""

    name = "lazy-average"
    reference = "a test"
    formula = "nu_t = 1/2 nu_{t-1} + 1/2 A nu_{t-1},  nu_0 = xi + d"
    start = Coefficients(innovation=1.0, noise=1.0)
    offered = True

    def coefficients(self, t):
        """Half and half."""
        return Coefficients(own=0.5, mixing=0.5)
'''
BARE_START = ("innovation=1.0, noise=1.0", "innovation=1.0, noise=0.0")
BARE_LATER = (
    "Coefficients(own=0.5, mixing=0.5)",
    "Coefficients(0.5, 0.4, innovation=0.1 * (t == 3))",
)
SCENARIO = f"""
name = "lazy"
seed = 3
replicas = 2
network.graph = "ring:7"
family = {{ name = "normal", sigma = 1.0 }}
signals.draw = {{ mu = 3.0 }}
privacy = {{ protect = "signal", epsilon = 1.0, radius = 1.0 }}
algorithm = {{ name = "{NAME}", rounds = 5 }}
"""
PROOF = """
import json
import numpy as np
import veilsum as vs
from veilsum import algorithms, auditing, networks, privacy, theory
from veilsum.auditing.exact import Messages, exact_loss, signal_moves
from veilsum.simulation import Problem, SyntheticSignals

net, family, asked = networks.metropolis("ring:7"), vs.families.Normal(1.0), privacy.SignalDP(0.7, radius=1.0)
answers = vs.estimate(np.arange(7.0), net, family, asked, algorithm="Lazy Average", rounds=40, rng=1)
made = algorithms.get("lazy-average", net)
promise = privacy.guarantee_of(asked, made, 12, family)
source = SyntheticSignals(family, {"mu": 0.0}, net.size, seed=1)
problem = Problem(net, made, family, source, asked, 12)
sent = Messages(tuple((2, t) for t in range(13)))
A, b = net.weights.toarray(), 1 / 0.7
lazy = np.linalg.matrix_power((np.eye(7) + A) / 2, 12)
plan = theory.plan(problem, error=30.0, rounds=12)
print(json.dumps({
    "names": algorithms.names(),
    "ran": [answers.result.problem.algorithm.name, answers.result.problem.rounds],
    "spread": float(np.ptp(answers.result.trace.private[-1])),
    "promise": [str(promise.status), promise.epsilon, promise.erratum],
    "predicted": float(theory.expected(problem).privacy[-1, 0]),
    "trace": float(np.sqrt(2 * b**2 * np.sum(lazy**2))),
    "loss": exact_loss(problem, signal_moves(problem, 2, 1.0), sent),
    "audit": auditing.audit_problem(problem, trials=20_000, rng=1).refuted,
    "planned": sorted({c.algorithm for c in plan.candidates}),
}))
"""
STATUS = """
from veilsum import algorithms, networks, privacy
made = algorithms.get("lazy-average", networks.metropolis("ring:7"))
for asked in (privacy.SignalDP(1.0), privacy.NetworkDP(1.0)):
    print(privacy.guarantee_of(asked, made, 12).status)
"""
SUITES = {  # file -> how many tests of it name every algorithm
    "tests/algorithms/test_algorithms_contract.py": 5,
    "tests/testing/test_contract.py": 1,
    "tests/parity/test_one_algorithm_three_ways.py": 4,  # networks times requests
    "tests/agents/protocol/test_protocol_parity.py": 3,  # agents can run it
    "tests/simulation/test_describe.py": 1,
    "tests/theory/test_theory_exact.py": 2,
    "tests/auditing/test_exact.py": 1,
    "tests/auditing/test_transcripts.py": 1,
}


class Installed:
    """A file in the folder of algorithms, as a fresh process sees it."""

    def __init__(self, folder: Path, text: str) -> None:
        self.folder = folder
        for name in ("plugin", "algorithms"):
            (folder / name).mkdir()
        (folder / "algorithms" / "lazy_average.py").write_text(text.lstrip(), encoding="utf-8")
        appended = f"veilsum.algorithms.__path__.append({str(folder / 'algorithms')!r})"
        (folder / "plugin" / "one_file.py").write_text(
            f"import veilsum.algorithms\n{appended}\n", encoding="utf-8"
        )

    def python(self, *words: str, cwd: Path | None = None) -> str:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
        paths = [str(self.folder / "plugin"), str(ROOT / "src")]
        done = subprocess.run(
            [sys.executable, "-W", "error", *words], capture_output=True, text=True, check=False,
            cwd=cwd or self.folder, env=kept | {"PYTHONPATH": os.pathsep.join(paths)},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, code: str) -> str:
        return self.python("-c", f"import one_file\n{code}")

    def cli(self, *words: str) -> Any:
        called = f"import sys; sys.argv[1:] = {list(words)!r}\nfrom veilsum.cli import main\nmain()"
        return json.loads(self.run(called))


@pytest.fixture
def lazy(tmp_path: Path) -> Installed:
    return Installed(tmp_path, FILE)


def test_it_is_listed_run_guaranteed_predicted_planned_and_audited(lazy: Installed) -> None:
    found = json.loads(lazy.run(PROOF))
    assert NAME in found["names"]
    assert found["names"] == sorted(found["names"])
    assert found["ran"] == [NAME, 40]
    assert found["spread"] < 0.5  # the estimates of all agents after 40 rounds, from 0 to 6
    assert found["promise"] == ["proved", 0.7, None]
    assert found["predicted"] == pytest.approx(found["trace"], rel=1e-9)
    assert found["loss"] == pytest.approx(0.7, rel=1e-9)  # whoever sees nu_0 sees the release
    assert found["audit"] is False
    assert NAME in found["planned"]


def test_the_command_line_knows_it(lazy: Installed) -> None:
    (lazy.folder / "lazy.toml").write_text(SCENARIO, encoding="utf-8")
    listed = lazy.cli("algorithms", "--json")["algorithms"]
    assert NAME in [row["name"] for row in listed]
    ran = json.dumps(lazy.cli("run", "lazy.toml", "--json"))
    assert NAME in ran
    assert "proved" in ran


@pytest.mark.parametrize("weaker", [BARE_START, BARE_LATER], ids=["start", "later"])
def test_a_weakened_twin_is_guaranteed_nothing(
    weaker: tuple[str, str], lazy: Installed, tmp_path: Path
) -> None:
    assert lazy.run(STATUS).split() == ["proved", "none"]  # Network DP needs noise in every round
    assert weaker[0] in FILE
    (tmp_path / "weaker").mkdir()
    broken = Installed(tmp_path / "weaker", FILE.replace(*weaker))
    assert broken.run(STATUS).split() == ["none", "none"]


def test_the_suites_of_all_algorithms_run_on_it_and_pass(lazy: Installed) -> None:
    words = ["-v", "-n", "0", "-p", "one_file", "-p", "no:cacheprovider", "-k", NAME]
    report = lazy.python("-m", "pytest", *words, *SUITES, cwd=ROOT)
    passed = Counter(re.findall(r"(?m)^(tests/\S+?)::\S*lazy-average\S* PASSED", report))
    assert {suite: passed[suite] for suite in SUITES} == SUITES, report
