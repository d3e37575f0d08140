"""What moves, and what it becomes on a grid, in a sum and beside a weight: against brute force."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilsum.errors import PrivacyError
from veilsum.families import Support
from veilsum.privacy import (
    MECHANISMS,
    DiscreteLaplace,
    MaskedParameters,
    ScaleRule,
    Statistic,
    Status,
    best,
)

HALF = Fraction(1, 2)
GRIDS = st.sampled_from([Fraction(1), Fraction(1, 8), Fraction(3), Fraction(1, 3), Fraction(2**20)])
PLACES = st.integers(-96, 96)  # in parts of 32 of a step: every 32nd is half way between two points
NORMS = st.floats(1e-6, 1e6)


def on_grid(x: Fraction, g: Fraction) -> int:
    """floor(x/g + 1/2)."""
    return math.floor(x / g + HALF)


def moved(x: Any, other: Any, g: Fraction) -> tuple[int, float]:
    """How many steps two vectors are apart on the grid, in l1 and l2 norm."""
    steps = [abs(on_grid(a, g) - on_grid(b, g)) for a, b in zip(x, other, strict=True)]
    return sum(steps), math.sqrt(sum(step**2 for step in steps))


def lower(x: Fraction) -> float:
    """A norm that came out of floats two units too low in the last place."""
    found = math.nextafter(float(x), 0.0)
    return math.nextafter(found, 0.0)


@st.composite
def neighbours(draw: Any) -> tuple[Statistic, Any, Any, Fraction]:
    """The norms of a move, both ends as they are computed, and a grid."""
    g, d = draw(GRIDS), draw(st.integers(1, 5))
    unit = g / 32
    ends = [[draw(PLACES) * unit for _ in range(d)] for _ in range(2)]
    error = draw(st.integers(0, 40)) * unit
    moves = [abs(a - b) for a, b in zip(*ends, strict=True)]
    l1, l2 = sum(moves, Fraction(0)), math.sqrt(sum(move**2 for move in moves))
    seen = [[x + draw(st.sampled_from((-1, 0, 1))) * error for x in end] for end in ends]
    known = float(error) if Fraction(float(error)) >= error else math.nextafter(float(error), 1e9)
    return Statistic(lower(l1), max(lower(Fraction(l2)), 0.0), d, error=known), *seen, g


@given(neighbours())
def test_no_move_is_longer_on_a_grid_than_is_said(case: Any) -> None:
    """Ties, several dimensions, computed values that are off, norms that are low in the last places."""
    statistic, x, other, g = case
    l1, l2 = moved(x, other, g)
    steps = statistic.steps(g)
    assert l1 <= steps[0]
    assert l2 <= steps[1] * (1 + 1e-12)
    assert steps[1] <= steps[0]
    assert abs(Fraction(sum(x)) - sum(other)) <= statistic.distance() + Fraction(1, 10**9) * g


PARTS = 24


def longest(d: int, length: int, parts: int = PARTS) -> tuple[int, float]:
    """The longest moves on a grid of 1 of all vectors of d places that are length/parts apart."""
    unit, start = Fraction(1, parts), range(parts)
    one = [
        max(
            abs(on_grid((x + m) * unit, Fraction(1)) - on_grid(x * unit, Fraction(1)))
            for x in start
        )
        for m in range(length + 1)
    ]
    splits = [
        split for split in itertools.product(range(length + 1), repeat=d) if sum(split) <= length
    ]
    return max(sum(one[m] for m in split) for split in splits), max(
        math.sqrt(sum(one[m] ** 2 for m in split)) for split in splits
    )


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("length", [9, 24, 27, 39])
def test_one_more_step_a_coordinate_but_one_is_needed_and_is_enough(d: int, length: int) -> None:
    """All moves of a lattice; the weakened twin forgets `dimension - 1`."""
    statistic = Statistic(length / PARTS, dimension=d)
    l1, l2 = longest(d, length)
    found = statistic.steps(1.0)
    slack = 1 if length % PARTS == 0 else 0  # ceil(d (1 + 2^-50)), where d is a whole number
    assert l1 <= found[0] <= l1 + slack
    assert l2 <= found[1]
    forgotten = Statistic(length / PARTS).steps(1.0)[0]
    assert (forgotten < l1) == (d - 1 > slack)


@given(
    st.integers(1, 9), st.sampled_from([1.0, 0.5, 3.0]), st.integers(1, 8), st.integers(1, 4)
)  # fmt: skip
def test_multiples_of_the_step_pay_nothing(k: int, step: float, finer: int, d: int) -> None:
    """Between grid points of a grid that divides the step there is nothing to round."""
    g = Fraction(step) / finer
    whole = Statistic(k * step, k * step / d**0.5, d, step=step)
    l1, l2 = whole.steps(g)
    assert l1 == k * finer
    assert l2 == pytest.approx(k * finer / d**0.5)
    lost = replace(whole, step=None).steps(g)
    assert lost[0] > l1
    coarse = whole.steps(2 * Fraction(step))  # a grid that does not hold all values
    assert coarse == replace(whole, step=None).steps(2 * Fraction(step))


@pytest.mark.parametrize("error", [0.75, 2.0])
def test_whole_values_that_are_computed_with_an_error_pay_for_it(error: float) -> None:
    """Values 0 and 1 that are computed as -error and 1 + error are further apart than 1."""
    try:
        statistic = Statistic(1.0, step=1.0, error=error)
    except PrivacyError:
        return  # a multiple of the step has no such error
    apart = on_grid(1 + Fraction(error), Fraction(1)) - on_grid(-Fraction(error), Fraction(1))
    assert statistic.steps(1.0)[0] >= apart > 1


def test_an_error_below_half_a_step_does_not_move_whole_values() -> None:
    tie = Fraction(1, 2) - Fraction(1, 2**40)
    for k in (-3, 0, 7):
        assert on_grid(k + tie, Fraction(1)) == on_grid(k - tie, Fraction(1)) == k


@given(NORMS, st.integers(1, 9), st.floats(0.0, 1e3))
def test_the_distance_is_more_than_floats_may_have_lost(l1: float, d: int, error: float) -> None:
    found = Statistic(l1, dimension=d, error=error)
    assert found.distance() >= Fraction(math.nextafter(l1, math.inf)) + 2 * d * Fraction(error)
    assert found.distance(released=False) == Statistic(l1).distance()
    with pytest.raises(PrivacyError, match="nothing limits how far a computed value"):
        replace(found, error=math.inf).distance()


@st.composite
def statistics(draw: Any) -> Statistic:
    d = draw(st.integers(1, 4))
    low = [draw(st.integers(-20, 20)) / 4 for _ in range(d)]
    high = [end + draw(st.integers(0, 40)) / 4 for end in low]
    l1, share = draw(NORMS), draw(st.floats(1 / math.sqrt(d), 1.0))  # all that a vector has
    return Statistic(
        l1, l1 * share, d, low, high, draw(st.sampled_from([None, 1.0, 0.25])),
        status=draw(st.sampled_from(list(Status))), reason="as drawn",
    )  # fmt: skip


@given(statistics(), st.integers(1, 1000), st.integers(0, 2**32))
def test_a_sum_has_the_norms_of_one_and_the_bounds_of_all(
    one: Statistic, records: int, seed: int
) -> None:
    total = one.total(records)
    kept = "l1", "l2", "dimension", "step", "error", "status", "reason", "scale"
    for name in kept:
        assert getattr(total, name) == getattr(one, name)
        assert getattr(one.total(), name) == getattr(one, name)
    assert total.low == tuple(records * end for end in one.low)
    assert total.high == tuple(records * end for end in one.high)
    low, high = one.range
    rng = np.random.default_rng(seed)
    rows = rng.uniform(low, high, (min(records, 30), one.dimension))
    rows = np.concatenate([rows, np.broadcast_to(high, (records - len(rows), one.dimension))])
    assert total.clip(rows.sum(axis=0)) == pytest.approx(rows.sum(axis=0), rel=1e-9, abs=1e-9)
    assert not one.total().bounded
    assert one.bounded
    assert total.steps(1.0) == one.steps(1.0)


@given(statistics(), st.floats(0.0, 1e6), st.floats(1e-3, 1e3))
def test_the_larger_of_a_statistic_and_a_weight_is_no_less_than_either(
    one: Statistic, weight: float, times: float
) -> None:
    larger = one.at_least(weight, times)
    assert larger.l1 == max(times * one.l1, weight)
    assert one.l2 is not None
    assert larger.l2 is not None
    assert larger.l2 >= max(times * one.l2, weight)
    assert (larger.dimension, larger.status) == (one.dimension, one.status)
    off = replace(one, error=0.25).at_least(weight, times).error
    assert off >= max(times * 0.25, 0.25)
    assert not larger.bounded  # a message has other bounds than the statistic in it
    for g in (1.0, 2.0**-10):
        beside = one.at_least(weight).steps(g)
        for either in (one, Statistic(weight)):
            assert all(a >= b for a, b in zip(beside, either.steps(g), strict=True))


@given(st.floats(0.0, 3.0), st.floats(0.1, 10.0))
def test_a_rule_beside_a_weight_is_no_less_than_either_and_as_smooth(
    weight: float, times: float
) -> None:
    rule = ScaleRule(lambda s: 1 / s, np.log, 0.7, 1.0, Support(1.0, 9.0), least=1 / 9)
    one = Statistic(1.0, status=Status.PROVED, scale=rule)
    larger = one.at_least(weight, times)
    s = np.linspace(1.0, 9.0, 81)
    assert (larger.at(s) == np.maximum(times * one.at(s), weight)).all()
    assert larger.scale is not None
    assert larger.scale.smoothing == 0.7
    assert larger.at(s).max() <= larger.l1 * (1 + 1e-12)
    assert 0 < larger.scale.least <= larger.at(s).min() * (1 + 1e-12)
    near = larger.at(np.minimum(s + 1, 9.0))
    assert (np.abs(np.log(larger.at(s) / near)) <= 0.7).all()
    unknown = replace(one, scale=replace(rule, least=0.0)).at_least(weight, times)
    assert unknown.scale is not None
    assert unknown.scale.least == 0


def test_values_are_clipped_by_component() -> None:
    both = Statistic(1.0, dimension=2, low=(-2.0, 0.0), high=(3.0, 9.0))
    assert both.clip([[-5.0, -1.0], [5.0, 10.0], [1.0, 2.0]]).tolist() == [
        [-2.0, 0.0], [3.0, 9.0], [1.0, 2.0]
    ]  # fmt: skip
    one = both.between((0.0, 0.0), 1.0)
    assert (one.low, one.high, one.l1) == ((0.0, 0.0), (1.0, 1.0), 1.0)
    number = Statistic(1.0, low=0.0, high=1.0)
    assert number.clip([-1.0, 0.5, 2.0]).tolist() == [0.0, 0.5, 1.0]


def test_a_statistic_without_an_l2_norm_has_that_of_its_l1_norm() -> None:
    """Which is never less; one that is stated above it says nothing new."""
    assert Statistic(3.0, dimension=5).l2 == 3.0
    assert Statistic(3.0, 7.0).l2 == 3.0
    assert Statistic(3.0, 2.0, dimension=5).l2 == 2.0
    assert not Statistic(math.inf).finite
    assert Statistic(1.0).status is Status.CLAIMED


# A histogram of 969 people in 20 public bins: one who moves leaves one bin and enters another.
PEOPLE, HONEST = 969, 683
BINS = Statistic(2.0, 2**0.5, dimension=20, low=0, high=1, step=1)


def test_a_histogram_of_a_trusted_server_has_the_stated_error() -> None:
    chosen = best(BINS, 1.0)
    made: Any = chosen.mechanism
    assert made == MECHANISMS["discrete-laplace"].fit(BINS, 1.0)
    assert chosen.others["laplace"] > 1
    law = made.law
    assert law == DiscreteLaplace(Fraction(BINS.steps(1.0)[0]))
    deviation = math.sqrt(law.variance) / PEOPLE
    assert f"{deviation:.3g}" == "0.00289"
    assert deviation == pytest.approx(math.sqrt(chosen.variance) / PEOPLE)
    drawn = law.draw(50_000) / PEOPLE
    assert drawn.std() == pytest.approx(deviation, rel=6 * math.sqrt(5 / 4 / 50_000))


def test_a_histogram_of_a_secure_sum_has_the_stated_error() -> None:
    """The parts of all 969 are in the sum, and those of any 683 are one full draw."""
    moved_by, l2 = BINS.steps(1.0)
    terms = MaskedParameters(
        PEOPLE, PEOPLE - HONEST, 0, 1.0, moved_by, dimension=BINS.dimension, l2_steps=l2,
        largest_steps=1, range_steps=(0, 1),
    )  # fmt: skip
    assert terms.honest == HONEST
    chosen: Any = best(BINS, 1.0).mechanism
    law = chosen.law
    assert terms.law == law
    together = law.part(Fraction(PEOPLE, HONEST))
    assert terms.sum_noise(PEOPLE) == together
    deviation = math.sqrt(terms.mean_variance(PEOPLE))
    assert f"{deviation:.3g}" == "0.00344"
    assert f"{math.sqrt(together.variance) / PEOPLE:.3g}" == "0.00344"
    assert together.variance == pytest.approx(PEOPLE * float(terms.noise.variance))
    drawn = together.sample(100_000, np.random.default_rng(5)) / PEOPLE
    assert drawn.std() == pytest.approx(deviation, rel=6 * math.sqrt(5 / 4 / 100_000))
    weak = law.sample(100_000, np.random.default_rng(5)) / PEOPLE  # that of a trusted server
    assert abs(weak.std() / deviation - 1) > 6 * math.sqrt(5 / 4 / 100_000)
