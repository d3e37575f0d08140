"""What an answer leaves out is said: readings, bounds that bite, what the interval assumes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import veilsum as vs
from veilsum.algorithms import Average, Coefficients
from veilsum.errors import AlgorithmError, FamilyError, LimitWarning, SignalError
from veilsum.front.of_runs import of_runs
from veilsum.front.table import as_csv
from veilsum.simulation.limits import clipping, limits, spread

pytestmark = pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")
RING = vs.networks.metropolis(vs.networks.load("ring:21"))
NONE = vs.privacy.NoPrivacy()
NORMAL = vs.families.Normal(1.0)


def readings(days: int, sd: float = 1.0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).normal(0, sd, (21, days))


def test_an_offline_algorithm_says_that_it_uses_the_first_reading() -> None:
    """49 days of readings used to become one in silence."""
    with pytest.warns(LimitWarning, match="average uses the first of 49 readings of each agent"):
        result = vs.estimate(readings(49), RING, NORMAL, NONE, "average", 5).result
    assert any("uses the first of 49 readings" in note for note in result.warnings)
    assert "uses the first of 49 readings" in " ".join(str(of_runs({"run": result})).split())
    with pytest.warns(LimitWarning, match=r"learn uses the first 10 of 49 .* rounds = 49"):
        vs.estimate(readings(49), RING, NORMAL, NONE, "learn", 10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vs.estimate(readings(49), RING, NORMAL, NONE, "learn", 49)
        vs.estimate(readings(1), RING, NORMAL, NONE, "average", 5)


def test_bounds_that_bite_are_said_with_the_bias() -> None:
    """Poisson(4) within (0, 5): the estimate is 0.41 too small, and no interval covers it."""
    family = vs.families.Poisson(bounds=(0, 5))
    with pytest.warns(LimitWarning, match=r"move 21\.5% of the signals .* off by -0\.41"):
        result = vs.sweep({"rate": 4.0}, RING, family, NONE, "average", 5).result
    assert any("off by -0.41" in note for note in result.warnings)
    found = clipping(result.problem)
    assert found is not None
    assert not found.secret
    assert found.bias == pytest.approx([-0.4103], abs=1e-4)


def test_bounds_that_do_not_bite_are_not_mentioned() -> None:
    family = vs.families.Poisson(bounds=(0, 60))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = vs.sweep({"rate": 4.0}, RING, family, NONE, "average", 5).result
    assert not any("off by" in note for note in result.warnings)


def test_what_was_clipped_of_measured_signals_is_reported_on_request_alone() -> None:
    signals = vs.signals.as_signals(np.arange(21.0)).clip(0.0, 10.0)
    result = vs.estimate(
        signals, RING, vs.families.Normal(1.0, bounds=(0.0, 10.0)), NONE, rounds=5
    ).result
    found = clipping(result.problem)
    assert found is not None
    assert found.secret
    assert found.fraction == pytest.approx(10 / 21)
    answers = of_runs({"run": result})
    reported = " ".join(
        [*result.notes, *result.warnings, str(answers), answers._repr_html_(), as_csv(answers)]
    )
    assert f"{100 * found.fraction:.3g}" not in reported
    assert "%" not in " ".join(limits(result.problem))
    inside = vs.signals.as_signals(np.linspace(0.0, 10.0, 21)).clip(0.0, 10.0)
    same = vs.estimate(
        inside, RING, vs.families.Normal(1.0, bounds=(0.0, 10.0)), NONE, rounds=5
    ).result
    assert limits(same.problem) == limits(result.problem)  # nothing that depends on a reading


def test_the_assumed_spread_is_stated_and_the_seen_one_is_not() -> None:
    """sd 50 under Normal(sigma=1): of measured signals no interval takes sigma for granted."""
    drawn = vs.sweep({"mu": 0.0}, RING, NORMAL, NONE, rounds=5).result
    assert any("assumes normal signals with sigma = 1 as given" in note for note in drawn.notes)
    result = vs.estimate(readings(1, sd=50.0), RING, NORMAL, NONE, rounds=5).result
    assert any("drawn from it at random, and nothing else" in note for note in result.notes)
    found = spread(result.problem)
    assert found is not None
    assert 20 < found.ratio < 80
    assert f"{found.seen:.3g}" not in str(of_runs({"run": result}))


def test_streams_are_assumed_independent_and_it_is_said() -> None:
    result = vs.sweep({"mu": 0.0}, RING, NORMAL, NONE, "learn", 5).result
    assert any("from reading to reading" in note for note in result.notes)


@pytest.mark.parametrize(
    "statistic",
    [lambda s: s * np.nan, lambda s: np.where(s == 3, np.inf, s), lambda s: s * 1j,
     lambda s: s.astype(str), lambda s: s.sum()],
)  # fmt: skip
def test_a_statistic_that_is_no_number_is_refused(statistic: Any) -> None:
    """NaN used to run to the end and was "proved nan"; complex numbers lost a part."""
    family = vs.families.Custom(statistic, vs.families.Support(low=0.0, high=30.0), 1.0)
    with pytest.raises(FamilyError, match=r"statistic|real numbers"):
        vs.sweep(np.arange(21.0), RING, family, vs.privacy.SignalDP(1.0), rounds=3)


def test_the_agent_whose_statistic_is_infinite_is_named() -> None:
    family = vs.families.Custom(
        lambda s: np.where(s == 3, np.inf, s), vs.families.Support(low=0.0, high=30.0), 1.0
    )
    with pytest.raises(FamilyError, match="for the signal of agent 3 at time 0"):
        vs.estimate(np.arange(21.0), RING, family, vs.privacy.SignalDP(1.0), rounds=3)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1j, None, "1"])
def test_a_coefficient_that_is_no_number_is_refused(value: Any) -> None:
    """A NaN used to be "Proved: differential privacy", with errors of nan."""

    class Own(Average):
        def coefficients(self, t: int) -> Coefficients:
            return Coefficients(mixing=value if t == 2 else 1.0)

    with pytest.raises(AlgorithmError, match="finite real numbers for round 2; mixing is not"):
        vs.sweep({"mu": 0.0}, RING, NORMAL, vs.privacy.SignalDP(1.0), Own(), 5)


def test_a_coefficient_that_turns_bad_later_is_refused_too() -> None:
    class Own(Average):
        def coefficients(self, t: int) -> Coefficients:
            return Coefficients(mixing=float("nan") if t == 40 else 1.0)

    with pytest.raises(AlgorithmError, match="for round 40"):
        vs.sweep({"mu": 0.0}, RING, NORMAL, vs.privacy.SignalDP(1.0), Own(), 50)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_the_remedy_for_what_is_not_finite_works(bad: float) -> None:
    """missing=0.0 was advised for an infinity, and did nothing about it."""
    signals = readings(2)
    signals[3, 1] = bad
    with pytest.raises(SignalError, match=r"agent 3 at time 1 is .*missing=0\.0"):
        vs.signals.as_signals(signals)
    filled = vs.signals.as_signals(signals, missing=0.0)
    assert filled.check(NORMAL).values[3, 1] == 0.0
    assert vs.signals.as_signals(signals, missing="drop-rounds").rounds == 1
