"""A family is one file that registers itself: a new one in a folder of its own passes every suite.

Everything runs in a process of its own, in which the folder belongs to the package: there is nothing to
change in veilsum or in its tests. The same file with half the sensitivity must fail.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULUS = "moduli.power(self.support, radius, 2.0)"

RAYLEIGH = f'''
"""Wave heights: the length of a vector of two normal numbers."""

from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar

import numpy as np

from veilsum.families import moduli
from veilsum.families.scalar import POSITIVE, ScalarFamily, stats
from veilsum.families.support import Support


@dataclass(frozen=True)
class Rayleigh(ScalarFamily):
    """P(s > x) = exp(-x^2/(2 scale^2)):  xi(s) = s^2,  E xi = 2 scale^2 = sqrt(Var xi).

    s^2 is convex, so it moves most at the high end:  high^2 - (high - radius)^2.
    """

    name: ClassVar[str] = "rayleigh"
    _proved: ClassVar[bool] = True
    parameters: ClassVar[tuple[str, ...]] = ("scale",)
    formula: ClassVar[str] = "s^2"
    modulus: ClassVar[str] = "high^2 - (high - radius)^2"
    natural_support: ClassVar[Support] = Support(low=0.0)
    domain: ClassVar[Support] = POSITIVE
    mean_domain: ClassVar[tuple[float, float]] = (0.0, inf)
    variance_in_mean: ClassVar[tuple[float, float, float]] = (0.0, 0.0, 1.0)

    def _xi(self, s):
        return np.square(s)

    def _expectation(self, theta):
        return 2 * np.square(theta)

    def _inverse(self, m):
        return np.sqrt(m / 2)

    def _moves(self, radius):
        return self._increasing({MODULUS})

    def _draw(self, rng, size, theta):
        return rng.rayleigh(theta, size)

    def _marginals(self, scale):
        return [stats().rayleigh(scale=scale)]
'''
HALF = f"replace({MODULUS}, l1={MODULUS}.l1 / 2)"

JOINED = "import sys, veilsum.families; veilsum.families.__path__.append(sys.argv[1])\n"
USES = """
import math
import veilsum as vs
from veilsum import auditing
from veilsum.cli.families import families as verb

f = vs.families
assert "rayleigh" in f.names() and f.Rayleigh is f.FAMILIES["Rayleigh"] and "Rayleigh" in dir(f)
(row,) = (row for row in f.describe() if row.name == "rayleigh")
assert (row.statistic, row.parameters, row.support) == ("s^2", ("scale",), "s >= 0")
verb(as_json=True)

family = f.get("rayleigh", bounds=(0.0, 6.0))
moved = family.moves(0.5)
assert 0 <= moved.l1 - 5.75 < 1e-13 and moved.status is vs.privacy.Status.PROVED
assert not f.Rayleigh().moves().finite

ring = vs.networks.lazy_metropolis("ring:9")
privacy = vs.privacy.SignalDP(epsilon=1.0, radius=0.5)
draw = {"scale": 1.0}
run = dict(network=ring, family=family, algorithm="learn", rounds=40, rng=1)
estimate = vs.estimate(draw, privacy=privacy, **run)
assert str(estimate.guarantee.status) == "proved" and math.isfinite(estimate.value)
sweep = vs.sweep(draw, privacy=privacy, epsilons=[0.5, 1.0], replicas=3, **run)
assert sweep.result.trace.total.shape == (41, 2, 3)
exact = vs.estimate(draw, privacy=vs.privacy.NoPrivacy(), **run)
assert abs(exact.value - 1.0) < 0.1, exact.value

source = vs.simulation.SyntheticSignals(family, draw, ring.size, seed=1)
algorithm = vs.algorithms.get("learn", ring)
found = vs.privacy.guarantee_of(privacy, algorithm, family=family)
assert found.status is vs.privacy.Status.PROVED, found
problem = vs.simulation.Problem(ring, algorithm, family, source, privacy, rounds=40)
move = auditing.signal_moves(problem, agent=3, by=moved.l1)
loss = auditing.exact_loss(problem, move, auditing.Transcript((3,), 40))
assert 0.99 < loss <= 1 + 1e-9, loss
report = auditing.audit_problem(problem, trials=2000)
assert not report.refuted, report
print("used")
"""
SUITES = """
import pytest
suites = ("families_contract", "sensitivity_brute_force", "stated_norms")
files = [f"tests/families/test_{name}.py" for name in suites]
sys.exit(pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", "-k", "rayleigh", *files]))
"""


def joined(folder: Path, code: str, source: str) -> subprocess.CompletedProcess[str]:
    """A program in a process where the folder, with this family in it, belongs to the package."""
    (folder / "rayleigh.py").write_text(source)
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", JOINED + code, str(folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def test_a_family_in_one_new_file_is_listed_simulated_and_audited(tmp_path: Path) -> None:
    done = joined(tmp_path, USES, RAYLEIGH)
    assert done.returncode == 0, done.stderr
    assert '"name": "rayleigh"' in done.stdout
    assert done.stdout.endswith("used\n")


@pytest.mark.thorough
def test_it_passes_the_contract_suites_unasked(tmp_path: Path) -> None:
    done = joined(tmp_path, SUITES, RAYLEIGH)
    assert done.returncode == 0, done.stdout
    assert int(done.stdout.split("\n")[-2].split(" passed")[0]) > 15, done.stdout


@pytest.mark.thorough
def test_half_of_its_sensitivity_is_found(tmp_path: Path) -> None:
    source = RAYLEIGH.replace(MODULUS, HALF)
    assert source != RAYLEIGH
    done = joined(tmp_path, SUITES, source)
    failed = {line.split("[")[0] for line in done.stdout.splitlines() if line.startswith("FAILED")}
    assert failed == {
        "FAILED tests/families/test_sensitivity_brute_force.py::test_sensitivity_is_the_exact_modulus",
        "FAILED tests/families/test_sensitivity_brute_force.py::test_an_infinite_radius_is_the_whole_range",
        "FAILED tests/families/test_stated_norms.py::test_stated_norms_are_attained_and_never_exceeded",
    }, done.stdout
