"""Every example is checked here, and those that take seconds are run."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from veilsum import theory
from veilsum.errors import DivergenceWarning, PrivacyWarning, ScenarioError
from veilsum.privacy import MaskedDP
from veilsum.scenario import Scenario, run

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_there_are_examples() -> None:
    assert len(list(EXAMPLES.glob("*.toml"))) >= 5


def test_the_main_example_is_the_papers() -> None:
    specs = Scenario.load(EXAMPLES / "us-power-grid.toml").variants
    reported = [(s.name, s.algorithm.name, s.privacy.protect, s.algorithm.rounds) for s in specs]
    assert reported == [
        ("offline-network", "average", "network", 99),
        ("offline-signal", "average", "signal", 99),
        ("offline-jacobi", "jacobi", "signal", 99),
        ("local", "jacobi", "signal", 99),
        ("local-average", "average", "signal", 99),
        ("masked", "masked-sum", "signal", 230),
        ("masked-absent", "masked-sum", "signal", 230),
        ("online-network", "learn-network", "network", 100),
        ("online-alg5", "learn-network", "signal", 100),
        ("online-signal", "learn", "signal", 100),
        ("online-local", "learn", "signal", 100),
        ("masked-online", "masked-learn", "signal", 100),
    ]
    published = [
        s for s in specs if s.name.startswith(("offline", "online")) and "local" not in s.name
    ]
    assert {(s.privacy.delta, s.privacy.sensitivity, s.replicas) for s in published} == {
        (0.01, "smooth-as-published", 10)
    }
    assert {s.privacy.epsilon for s in specs} == {(1.0,)}


def test_each_run_of_the_main_example_changes_one_thing() -> None:
    """Of what is protected, the noise, the algorithm and who is absent; masks stand for the middle two."""
    jobs = Scenario.load(EXAMPLES / "us-power-grid.toml").jobs()
    problems: dict[str, Any] = {job.name: job.problem for job in jobs}
    first, *_ = problems.values()
    for problem in problems.values():
        assert problem.family == first.family
        assert problem.source.parameters == first.source.parameters
        assert problem.privacy.radius == first.privacy.radius
        assert problem.network is first.network or problem.network.size == first.network.size

    def aspects(name: str) -> dict[str, Any]:
        problem = problems[name]
        algorithm, privacy = problem.algorithm, problem.privacy
        if algorithm.session is not None:
            found: dict[str, Any] = {"masked": True, "absent": algorithm.session.missing}
        else:
            found = {
                "masked": False,
                "noise": privacy.sensitivity,
                "way": algorithm.name,
                "absent": 0,
            }
            found["rounds"] = problem.rounds
        return found | {"protects": privacy.protects}

    offline = [name for name, problem in problems.items() if not problem.algorithm.online]
    online = [name for name, problem in problems.items() if problem.algorithm.online]
    for group in (offline, online):
        for one, other in pairwise(group):
            before, after = aspects(one), aspects(other)
            assert sum(before[k] != after[k] for k in before.keys() & after.keys()) == 1, other


def test_the_main_example_runs() -> None:
    with pytest.warns(PrivacyWarning, match="Refuted"):
        results = run(Scenario.load(EXAMPLES / "us-power-grid.toml").with_(replicas=1)).results
    for name, result in results.items():
        proved = "local" in name or "masked" in name
        assert result.trace.private is not None
        assert result.trace.private.shape[1] == 12
        assert result.guarantee.status == ("proved" if proved else "refuted"), name
        assert result.guarantee.epsilon == 1.0
        assert abs(result.estimate["mu"] - 10) < 0.1
    masked = results["masked"].problem
    assert masked.algorithm.session is not None
    assert masked.rounds == masked.algorithm.session.arrival
    assert isinstance(masked.privacy, MaskedDP)
    assert masked.privacy.colluders + masked.privacy.absent == round(0.3 * 4941)
    absent = results["masked-absent"].problem.algorithm.session
    assert absent is not None
    assert absent.missing == masked.privacy.absent
    # against the mean of the signals, and against E xi
    errors = {name: result.errors.total for name, result in results.items()}
    assert errors["masked"] < 0.06 < errors["offline-jacobi"] < errors["local"]  # noise costs
    assert errors["local"] < errors["offline-signal"] < errors["local-average"]
    assert errors["masked-online"] < 0.5 < errors["online-signal"] < errors["online-local"]
    assert errors["online-local"] < errors["online-alg5"] < errors["online-network"]


def test_what_absence_costs_the_main_example_is_sampling() -> None:
    """0.0167 with everyone and 0.334 with as many absent as are covered, exactly."""
    jobs = Scenario.load(EXAMPLES / "us-power-grid.toml").jobs()
    problems = {job.name: job.problem for job in jobs}
    everyone, absent = (theory.expected(problems[name]) for name in ("masked", "masked-absent"))
    assert everyone.total[-1, 0] == pytest.approx(0.0167, abs=5e-5)
    assert everyone.decentralisation[-1] == 0
    assert absent.total[-1, 0] == pytest.approx(0.334, abs=5e-4)
    assert absent.decentralisation[-1] == pytest.approx(math.sqrt(4941 / (4941 - 494) - 1))
    assert absent.privacy[-1, 0] < 0.02


def test_bounds_make_the_guarantee_proved_and_jacobi_makes_it_quick() -> None:
    results = run(Scenario.load(EXAMPLES / "bounded-loads.toml").with_(replicas=1)).results
    assert {result.guarantee.status for result in results.values()} == {"proved"}
    assert results["jacobi"].errors.total < results["average"].errors.total / 2


def test_masked_sums_of_a_stream_leave_sampling() -> None:
    results = run(Scenario.load(EXAMPLES / "masked-stream.toml").with_(replicas=20)).results
    masked, local = results["masked"], results["local"]
    assert (masked.guarantee.status, local.guarantee.status) == ("proved", "proved")
    assert masked.guarantee.epsilon == local.guarantee.epsilon == 1.0
    assert masked.errors.privacy < masked.errors.total / 5
    assert masked.errors.total < local.errors.total


def test_failing_links_and_the_rule_that_diverges() -> None:
    scenario = Scenario.load(EXAMPLES / "ring-with-failing-links.toml").with_(replicas=2)
    with pytest.warns(DivergenceWarning, match="learn-dynamic-as-published"):
        results = run(scenario).results
    assert results["corrected"].errors.total < results["as-published"].errors.total / 10
    assert results["alg-4"].errors.total < results["corrected"].errors.total


def test_one_way_links_need_push_sum() -> None:
    results = run(Scenario.load(EXAMPLES / "one-way-links.toml")).results
    apart = {name: result.errors.decentralisation for name, result in results.items()}
    assert apart["push-sum"] < 1e-3 < apart["weighted-mean"]


def test_households_come_from_a_file_of_the_user(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.delenv("VEILSUM_DATA", raising=False)
    with pytest.raises(
        ScenarioError,
        match=r"signals\.file: .* there is no file .*set the environment variable VEILSUM_DATA$",
    ):
        run(EXAMPLES / "households.toml")
    kwh = np.random.default_rng(0).lognormal(2, 1, (537, 49)).round(3)
    rows = (f"{1000 + h},{d},{kwh[h, d]}\n" for h in range(537) for d in range(49))
    (tmp_path / "households_daily_kwh.csv").write_text("household,day,kwh\n" + "".join(rows))
    monkeypatch.setenv("VEILSUM_DATA", str(tmp_path))
    results = run(Scenario.load(EXAMPLES / "households.toml").with_(seed=11, replicas=1)).results
    assert results["signals"].errors.total < results["signals-and-neighbours"].errors.total
