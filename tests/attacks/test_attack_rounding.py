"""Statistics are computed in floating point: how much more than stated can they move?

Far from 0 and for a small radius, xi(s) moves by so little that its own rounding counts. The
sensitivity is a real number's, and so is the guarantee for ideal noise; what an agent releases is
the rounded statistic, and its noise pays for the rounding (`Statistic.error`).
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.attacks.attack_count import TRIED
from veilsum import families as f
from veilsum.errors import PrivacyError
from veilsum.privacy import LaplaceMechanism

HOLD = [
    (f.LogNormal(1.0, bounds=(0.1, None)), 1.0),
    (f.LogNormal(1.0, bounds=(100.0, None)), 1.0),
    (f.Weibull(2.5, bounds=(0.0, 1e4)), 1e-6),
    (f.NormalBoth(bounds=(-1e6, 1e6)), 1e-5),
    (f.Pareto(1e6), 1.0),
    (f.Normal(1.0, bounds=(1e8, 3e8)), 1e-3),
]
COUNTS = [  # the excess, relative to what is stated
    (f.LogNormal(1.0, bounds=(1e9, None)), 1e-3),  # 1.9e-3
    (f.GammaKnownRate(1.0, bounds=(1e8, 2e8)), 0.01),  # 1.8e-5
    (f.LogNormal1p(1.0, bounds=(1e7, None)), 0.1),  # 1.9e-7
    (f.Laplace(1e8, bounds=(0.0, 3e8)), 1e-3),  # 2.0e-6
]


def worst_rounded_move(family: Any, radius: Any) -> Any:
    """The largest computed move over many pairs at most a radius apart, near both edges."""
    rng, support = np.random.default_rng(1), family.support
    low = support.low if math.isfinite(support.low) else -1e9
    high = support.high if math.isfinite(support.high) else low + 1e3 * radius
    starts = np.concatenate([
        low + radius * rng.uniform(0, 50, 200_000), high - radius * rng.uniform(1, 50, 200_000)
    ])  # fmt: skip
    starts = np.clip(starts, low, high - radius)
    ends = starts + radius
    ends = np.where(ends - starts > radius, np.nextafter(ends, -np.inf), ends)
    fine = ~support.violations(np.stack([starts, ends], axis=1)).any(axis=1)
    xi = family.columns(np.stack([starts[fine], ends[fine]], axis=1))
    return float(np.abs(xi[:, 0] - xi[:, 1]).sum(axis=-1).max())


@pytest.mark.parametrize(("family", "radius"), HOLD, ids=lambda x: getattr(x, "name", x))
def test_the_computed_statistic_moves_no_further_than_stated(family: Any, radius: Any) -> None:
    excess = worst_rounded_move(family, radius) / family.moves(radius).l1 - 1
    TRIED["rounding of the statistic"] += 1
    assert excess <= 1e-9, f"{excess:.2e}"


@pytest.mark.parametrize(("family", "radius"), COUNTS, ids=lambda x: getattr(x, "name", x))
def test_where_its_rounding_counts_agents_pay_for_it_or_refuse(family: Any, radius: Any) -> None:
    """The ideal guarantee is about real numbers; a release pays for 2^-49 max |xi| on either side."""
    stated = family.moves(radius)
    excess = worst_rounded_move(family, radius) - stated.l1
    TRIED["rounding of the statistic"] += 1
    assert excess > 0  # else there is nothing to pay for
    try:
        made: Any = LaplaceMechanism.fit(stated, 1.0, released=True)
    except PrivacyError:
        return  # no bound on |xi|: an agent does not release it
    assert excess <= 2 * made.input_error
    assert made.distance >= stated.l1 + 2 * Fraction(made.input_error)
