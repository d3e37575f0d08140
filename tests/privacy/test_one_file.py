"""A mechanism is one file: simulation, release, guarantee, interval, composition and audits know it.

Gaussian noise came as one file of src, and no other names it. A new mechanism is written to a folder
that a fresh process adds to the path of `veilsum.privacy.mechanisms`; nothing else knows of it, and the
contract suites run on it.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest

import veilsum as vs
from veilsum.agents import Manifest, ReleaseMechanism
from veilsum.auditing.suite import proved
from veilsum.privacy import SignalDP, Status, guarantee_of, plan
from veilsum.privacy.accounting.composition import epsilon_of
from veilsum.privacy.mechanisms.gaussian import cost
from veilsum.scenario import Scenario

ROOT = Path(__file__).resolve().parents[2]
EPSILON, DELTA = 1.0, 1e-6
ASKED = SignalDP(EPSILON, DELTA, mechanism="gaussian")
FAMILY = vs.families.Normal(1.0, bounds=(0.0, 2.0))


def test_no_other_file_of_the_sources_names_gaussian_noise() -> None:
    """But the rooms of questions, whose vectors of whole numbers take its law by itself."""
    named = re.compile(r'GaussianMechanism|mechanisms\.gaussian|"gaussian"')
    files = [
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src").rglob("*.py")
        if named.search(path.read_text(encoding="utf-8"))
    ]
    rooms = ("veilsum/questions/", "veilsum/asking/")
    others = [file for file in files if not file.startswith(rooms)]
    assert others == ["veilsum/privacy/mechanisms/gaussian.py"]


def deviation(found: vs.Answers, agents: int) -> float:
    """Of one agent's noise, from the cost of privacy of the start in all replicas."""
    return float(np.sqrt((found.result.trace.privacy[0] ** 2).mean() / agents))


def test_simulation_and_intervals_know_it() -> None:
    """20,500 draws: their deviation is within six standard errors of the stated one (2e-9)."""
    n, runs = 41, 500
    ring = vs.networks.metropolis(f"ring:{n}")
    found = vs.sweep({"mu": 1.0}, ring, FAMILY, ASKED, "average", rounds=1, replicas=runs, rng=3)
    made = plan(ASKED, FAMILY).mechanism()
    sigma = math.sqrt(made.worst_variance)
    assert deviation(found, n) == pytest.approx(sigma, rel=6 / math.sqrt(2 * runs * n))
    assert found.result.trace.noise_variance[0, 0, 0] == pytest.approx(sigma**2 / n)
    width = made.sum_quantile(np.array([1 / n]), np.array([n]), 0.95)
    assert width == pytest.approx(NormalDist().inv_cdf(0.975) * sigma / math.sqrt(n), rel=1e-6)


def test_the_guarantee_and_its_composition_know_it() -> None:
    made = guarantee_of(ASKED, vs.algorithms.Learn(), family=FAMILY)
    assert (made.status, made.epsilon, made.delta) == (Status.PROVED, EPSILON, DELTA)
    z = float(made.event.parameter)  # type: ignore[union-attr,arg-type]
    year = made.for_stream(365, delta=DELTA)
    assert year.epsilon == pytest.approx(cost(z / math.sqrt(365), DELTA))
    whole_orders = epsilon_of(lambda a: 365 * a / (2 * z * z), DELTA)
    assert 0.98 * whole_orders < year.epsilon < whole_orders
    unknown = vs.privacy.compose([vs.privacy.PrivacyEvent.of(EPSILON, 1e-9)] * 365, DELTA)
    assert year.epsilon < 0.7 * unknown.epsilon  # what (epsilon, delta) alone would cost


SCENARIO = """
name = "sites"
network = {graph = "ring:4", weights = "lazy-metropolis"}
family = {name = "normal", sigma = 1.0, bounds = [0.0, 2.0]}
signals = {draw = {mu = 0.5}}
privacy = {protect = "signal", epsilon = 1.0, delta = 1e-6, mechanism = "gaussian"}
algorithm = {name = "average", rounds = 20}
"""


def test_an_agent_releases_with_it_and_charges_its_event() -> None:
    problem = Scenario.parse(SCENARIO).build().problem
    agent = ReleaseMechanism(Manifest.of(problem, "ring"), problem, "0")
    event = agent.event(1)
    assert event is not None
    assert (event.epsilon, event.delta, event.mechanism) == (EPSILON, DELTA, "gaussian")
    assert agent.draw(1, 0.25) != agent.draw(1, 0.25)
    assert agent.guarantee.status is Status.PROVED


def test_audits_attack_it() -> None:
    attacked = [case for case in proved() if "gaussian" in case.name]
    assert {case.name.startswith("exact") for case in attacked} == {True, False}


FILE = '''
"""Laplace noise of FACTOR times its scale, under a name and a kind of event of its own."""

from fractions import Fraction

from veilsum.privacy.accounting.events import EventKind, PrivacyEvent
from veilsum.privacy.mechanisms.laplace import LaplaceMechanism


class Kind(EventKind):
    """Any pure mechanism, under a name of its own."""

    name = "third-laplace"


class ThirdLaplaceMechanism(LaplaceMechanism):
    """Lap(Delta/(eps/FACTOR))."""

    name = "third-laplace"

    @classmethod
    def fit(cls, statistic, epsilon, delta=0.0, released=False):
        """For the l1 norm."""
        return super().fit(statistic, epsilon, delta, released)

    @property
    def scale(self):
        """FACTOR times that of Laplace."""
        return FACTOR * super().scale

    @property
    def law(self):
        """FACTOR times wider."""
        return type(super().law)(super().law.scale * FACTOR)

    def privacy_loss(self, x, other):
        """1/FACTOR of that of Laplace."""
        return super().privacy_loss(x, other) / FACTOR

    def event(self, released=False):
        """Its own kind."""
        return PrivacyEvent(self.epsilon, mechanism="third-laplace")
'''
PROOF = """
import json, numpy as np, veilsum as vs
from veilsum.privacy import *
family = vs.families.Normal(1.0, bounds=(0.0, 2.0))
asked = SignalDP(1.0, mechanism="third-laplace")
ring = vs.networks.metropolis("ring:31")
found = vs.sweep({"mu": 1.0}, ring, family, asked, "average", rounds=1, replicas=400, rng=3)
made = guarantee_of(asked, vs.algorithms.Learn(), family=family)
from veilsum.auditing.suite import proved
cases = [case for case in proved() if "third-laplace" in case.name]
print(json.dumps({
    "listed": "third-laplace" in MECHANISMS,
    "sd": float(np.sqrt((found.result.trace.privacy[0] ** 2).mean() / 31)),
    "event": made.event.mechanism, "status": str(made.status),
    "year": made.for_stream(365).epsilon,
    "width": plan(asked, family).mechanism().quantile(0.95),
    "refuted": [case.audit(trials=40_000, rng=1).refuted for case in cases],
}))
"""
SUITES = ("tests/privacy/test_mechanisms_noise.py", "tests/privacy/test_mechanisms_privacy.py")


class Installed:
    """A file in the folder of mechanisms, as a fresh process sees it."""

    def __init__(self, folder: Path, factor: str) -> None:
        (folder / "mechanisms").mkdir()
        text = FILE.replace("FACTOR", factor)
        (folder / "mechanisms" / "third_laplace.py").write_text(text.lstrip(), encoding="utf-8")
        place = str(folder / "mechanisms")
        (folder / "one_file.py").write_text(
            f"import veilsum.privacy.mechanisms as m\nm.__path__.append({place!r})\n",
            encoding="utf-8",
        )
        self.folder = folder

    def python(self, *words: str, cwd: Path, fails: bool = False) -> str:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
        kept["PYTHONPATH"] = os.pathsep.join((str(self.folder), str(ROOT / "src")))
        done = subprocess.run(
            [sys.executable, "-W", "error", *words], capture_output=True, text=True, check=False,
            cwd=cwd, env=kept,
        )  # fmt: skip
        assert bool(done.returncode) is fails, done.stdout + done.stderr
        return done.stdout

    def proof(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(
            self.python("-c", f"import one_file\n{PROOF}", cwd=self.folder)
        )
        return found


def test_a_new_file_is_simulated_guaranteed_composed_and_audited(tmp_path: Path) -> None:
    found = Installed(tmp_path, "1").proof()
    assert found["listed"] is True
    assert found["sd"] == pytest.approx(2 * math.sqrt(2), rel=0.05)  # 12,400 draws
    assert (found["event"], found["status"]) == ("third-laplace", "proved")
    assert found["year"] == 365.0
    assert found["width"] == pytest.approx(2 * math.log(20), rel=1e-3)
    assert found["refuted"] == [False] * 4  # two examples, sampled and exact


def test_a_weakened_twin_of_it_is_refuted(tmp_path: Path) -> None:
    """The same file with 0.6 of the scale: it claims its epsilon and spends 1/0.6 of it."""
    refuted = Installed(tmp_path, "Fraction(3, 5)").proof()["refuted"]
    assert isinstance(refuted, list)
    assert all(refuted)


@pytest.mark.parametrize("factor", ["1", "Fraction(3, 5)"], ids=["honest", "weakened"])
def test_the_contract_suites_run_on_it(factor: str, tmp_path: Path) -> None:
    words = ["-v", "-n", "0", "-p", "one_file", "-p", "no:cacheprovider", "-k", "third-laplace"]
    weak = factor != "1"
    report = Installed(tmp_path, factor).python(
        "-m", "pytest", *words, *SUITES, cwd=ROOT, fails=weak
    )
    ends = Counter(re.findall(r"(?m)^tests/\S+?::\S*third-laplace\S* (PASSED|FAILED)", report))
    assert (ends["FAILED"] > 0) is weak, report
    assert ends["PASSED"] >= 3, report
