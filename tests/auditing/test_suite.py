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


@pytest.mark.parametrize("case", PROVED, ids=lambda e: e.name)
def test_a_proved_mechanism_is_not_refuted(case: Any) -> None:
    slow = case.name.startswith("exact") and "laplace" not in case.name  # integers of any size
    report = case.audit(trials=60_000 if slow else 400_000, rng=1)
    assert not report.refuted, str(report)
    assert report.lower_bound > 0.75  # the attack is a real one


@pytest.mark.parametrize("case", suite.broken(), ids=lambda e: e.name)
def test_a_broken_mechanism_is_refuted(case: Any) -> None:
    assert case.audit(trials=1_000_000, rng=1).refuted


def test_the_suite_has_every_mechanism_of_the_package() -> None:
    classes = [value for value in vars(mechanisms).values() if isinstance(value, type)]
    names = {getattr(one, "name", None) for one in classes} - {mechanisms.IdentityMechanism.name}
    alone = {"masked"}  # no noise of one agent: test_masked_audit.py audits the sum of all
    assert {name for name in names if isinstance(name, str)} - alone <= {c.name for c in PROVED}


def test_the_suite_has_the_exact_releases_of_all_that_agents_run() -> None:
    released = {f"exact {name}".replace("-", " ") for name in mechanisms.names() if name != "best"}
    assert released <= {case.name.replace("-", " ") for case in PROVED}


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
    assert [label.get_text().partition(" (")[0] for label in drawn.get_yticklabels()] == [
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
