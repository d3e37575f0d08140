"""The real meters of shared/data (not in the repository; VEILSUM_DATA overrides the path)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from veilsum import families as f
from veilsum.errors import SignalError
from veilsum.signals import Signals, as_signals

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"
DATA = Path(os.environ.get("VEILSUM_DATA", BESIDE))
pytestmark = pytest.mark.skipif(
    not (DATA / "households_daily_kwh.csv").is_file(), reason=f"no household data in {DATA}"
)


@pytest.fixture(scope="module")
def daily() -> Signals:
    return as_signals(DATA / "households_daily_kwh.csv")


@pytest.fixture(scope="module")
def hourly() -> Signals:
    return as_signals(DATA / "households_hourly_kwh.parquet")


def test_shapes(daily: Signals, hourly: Signals) -> None:
    assert repr(daily) == "Signals(537 agents, 49 rounds)"
    assert repr(hourly) == "Signals(537 agents, 1176 rounds)"
    assert hourly.labels == daily.labels
    assert (daily.times[0], hourly.times[0]) == (0, "h0000")


def test_hours_add_up_to_days(daily: Signals, hourly: Signals) -> None:
    days = hourly.values.reshape(537, 49, 24).sum(axis=-1)
    np.testing.assert_allclose(days, daily.values, rtol=1e-3, atol=1e-2)


def test_zeros_stop_the_logarithm_and_name_the_line(daily: Signals) -> None:
    with pytest.raises(SignalError) as caught:
        daily.check(f.LogNormal(1.0))
    message = str(caught.value)
    lines = (DATA / "households_daily_kwh.csv").read_text().splitlines()
    first = next(k for k, line in enumerate(lines) if line.endswith((",0", ",0.0")))
    household, day, _ = lines[first].split(",")
    assert f"agent {household} at time {day}, line {first + 1} of households_daily" in message
    assert "(459 other readings likewise)" in message
    assert "use LogNormal1p" in message


def test_negative_readings_stop_log1p_until_clipped(hourly: Signals) -> None:
    with pytest.raises(SignalError, match=r"row \d+ of households_hourly.*signals.clip\(0, None\)"):
        hourly.check(f.LogNormal1p(1.0))
    clipped = hourly.clip(0, None).check(f.LogNormal1p(1.0))
    assert clipped.clipped == int((hourly.values < 0).sum()) > 0
    assert np.isfinite(f.LogNormal1p(1.0).statistic(clipped.values)).all()


def test_a_floor_and_a_clip_serve_the_logarithm(daily: Signals) -> None:
    family = f.LogNormal(1.0, bounds=(0.1, None))
    with pytest.raises(SignalError, match=r"signals.clip\(0.1, None\)"):
        daily.check(family)
    clipped = daily.clip(0.1, None).check(family)
    assert clipped.clipped >= 460
    assert family.statistic(clipped.values).min() == pytest.approx(np.log(0.1))


def test_daily_readings_fit_log1p_as_they_are(daily: Signals) -> None:
    family = f.LogNormal1p(1.04)
    xi = family.columns(daily.check(family).values)
    mu = family.parameter(xi.mean(axis=(0, 1)))["mu"]
    assert 1 < mu < 4
