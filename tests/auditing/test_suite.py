"""Every mechanism whose guarantee is proved survives our own attack; the broken ones do not."""

from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from veilsum.auditing import float_sum_support, numpy_support, suite, support_attack
from veilsum.errors import VeilsumError
from veilsum.front.pictures import BROKEN, evidence
from veilsum.privacy import mechanisms
from veilsum.privacy.mechanisms import LaplaceMechanism
from veilsum.simulation import noise

PROVED = suite.proved()
EXACT = {c.name.partition(" at ")[0] for c in PROVED if c.name.startswith("exact ")}


@pytest.mark.parametrize("case", PROVED, ids=lambda e: e.name)
def test_a_proved_mechanism_is_not_refuted(case: Any) -> None:
    slow = case.name.startswith("exact") and "laplace" not in case.name  # integers of any size
    report = case.audit(trials=60_000 if slow else 400_000, rng=1)
    assert not report.refuted, str(report)
    gaussian = "gaussian" in case.name  # which by itself costs 0.81 at its delta
    assert report.lower_bound > (0.5 if gaussian else 0.75)  # the attack is a real one


@pytest.mark.parametrize("case", suite.broken(), ids=lambda e: e.name)
def test_a_broken_mechanism_is_refuted(case: Any) -> None:
    assert case.audit(trials=1_000_000, rng=1).refuted


def test_the_suite_has_every_mechanism_of_the_package() -> None:
    names = set(mechanisms.MECHANISMS) - {mechanisms.IdentityMechanism.name}
    alone = {
        "masked",
        "secure-sum",
    }  # no noise of one agent: test_sum_audit.py audits the sum of all
    assert {"laplace", "smooth-laplace", "student-t"} <= names
    assert names - alone == {c.name.partition(" at ")[0] for c in PROVED} - EXACT


def test_the_suite_has_the_exact_releases_of_all_that_agents_run() -> None:
    assert {f"exact {name}" for name in mechanisms.names() if name != "best"} <= EXACT


def test_floating_point_noise_leaks_and_exact_noise_does_not() -> None:
    """One output tells 0 from 1 most of the time, for numpy and for the simulator's own noise."""

    def ours(values: Any) -> Any:
        return values + noise.laplace(3, 1, np.arange(len(values)), int(values[0]))

    def numpys(values: Any) -> Any:
        return np.random.default_rng(7 + int(values[0])).laplace(values, 1.0)

    exact = LaplaceMechanism(epsilon=1.0, sensitivity=1.0).release
    leak = support_attack(numpys, 0.0, 1.0, 20_000, numpy_support(1.0))
    assert leak.identified > 0.7
    assert leak.mistaken == 0
    assert support_attack(ours, 0.0, 1.0, 20_000, float_sum_support).refutes(1.0)
    for support in (numpy_support(1.0), float_sum_support):
        assert not support_attack(exact, 0.0, 1.0, 20_000, support).refutes(1.0)


def test_the_evidence_is_drawn() -> None:
    reports = [e.audit(trials=20_000) for e in [*PROVED[:2], *suite.broken()]]
    drawn = evidence(reports)
    assert [label.get_text().rpartition(" (")[0] for label in drawn.get_yticklabels()] == [
        report.name for report in reports
    ]
    drawn_bars: list[Any] = list(drawn.patches)
    bars = [bar for bar in drawn_bars if bar.get_facecolor()[:3] == to_rgb(BROKEN)]
    refuted = [max(r.lower_bound / r.epsilon, 0.0) for r in reports if r.refuted]
    assert [bar.get_width() for bar in bars] == refuted
    assert min(refuted) > 1


def test_too_few_trials_are_refused() -> None:
    with pytest.raises(VeilsumError, match="trials must be a whole number of at least 100"):
        PROVED[0].audit(trials=0)
