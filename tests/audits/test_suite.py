"""Every mechanism whose promise is proved survives our own attack; the broken ones do not."""

import numpy as np
import pytest

from murmura.audits import suite
from murmura.engine import noise
from murmura.errors import MurmuraError
from murmura.privacy import mechanisms
from murmura.privacy.exact import ExactLaplace, float_sum_support, numpy_support, support_attack
from murmura.report import evidence

PROVED = suite.proved()


@pytest.mark.parametrize("entry", PROVED, ids=lambda e: e.name)
def test_a_proved_mechanism_is_not_refuted(entry):
    report = entry.audit(trials=400_000, rng=1)
    assert not report.refuted, str(report)
    assert report.lower_bound > 0.75  # the attack is a real one


@pytest.mark.parametrize("entry", suite.broken(), ids=lambda e: e.name)
def test_a_broken_mechanism_is_refuted(entry):
    assert entry.audit(trials=1_000_000, rng=1).refuted


def test_the_suite_has_every_mechanism_of_the_package():
    made = {
        value.name
        for value in vars(mechanisms).values()
        if isinstance(value, type) and isinstance(getattr(value, "name", None), str)
    }
    assert made <= {entry.name for entry in PROVED}


def test_floating_point_noise_leaks_and_exact_noise_does_not():
    """One output tells 0 from 1 most of the time, for numpy and for the simulator's own noise."""

    def ours(values):
        return values + noise.laplace(3, 1, np.arange(len(values)), int(values[0]))

    def numpys(values):
        return np.random.default_rng(7 + int(values[0])).laplace(values, 1.0)

    exact = ExactLaplace(epsilon=1.0, sensitivity=1.0).release
    leak = support_attack(numpys, 0.0, 1.0, 20_000, numpy_support(1.0))
    assert leak.identified > 0.7
    assert leak.mistaken == 0
    assert support_attack(ours, 0.0, 1.0, 20_000, float_sum_support).refutes(1.0)
    for support in (numpy_support(1.0), float_sum_support):
        assert not support_attack(exact, 0.0, 1.0, 20_000, support).refutes(1.0)


def test_the_evidence_is_drawn(tmp_path):
    reports = [e.audit(trials=20_000) for e in [*PROVED[:2], *suite.broken()]]
    paths = evidence.save(reports, tmp_path)
    assert [p.name for p in paths] == ["evidence.png", "evidence.svg"]
    text = paths[1].read_text()
    assert "claim refuted" in text or "refuted" in text


def test_too_few_trials_are_refused():
    with pytest.raises(MurmuraError, match="trials must be a whole number of at least 100"):
        PROVED[0].audit(trials=0)
