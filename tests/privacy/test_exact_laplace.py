"""Exact mechanisms: rounding is paid for, epsilon holds exactly, errors show no input."""

import math
from dataclasses import FrozenInstanceError
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from veilsum.errors import PrivacyError
from veilsum.privacy import MECHANISMS, Status
from veilsum.privacy.exact.grid import floor_log2, from_grid, paid_steps, saturate, to_grid
from veilsum.privacy.mechanisms import DiscreteLaplaceMechanism, LaplaceMechanism
from veilsum.testing import PredictableEntropy

FALSE_ALARM, SURE = 1e-7, 1e-12
STEADY = settings(deadline=None, derandomize=True)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
EXPONENTS = st.integers(-1074, 900)
EPSILONS = st.floats(1e-9, 1e3)
SENSITIVITIES = st.floats(1e-12, 1e12)
HALF = Fraction(1, 2)


def stream(seed: Any) -> Any:
    return PredictableEntropy(seed, simulation_only=True)


def power(exponent: Any) -> Any:
    return Fraction(2) ** exponent


def grid_point(x: Any, exponent: Any) -> Any:
    return int(to_grid(np.array([x]), exponent)[0])


@STEADY
@given(x=FINITE, exponent=EXPONENTS)
def test_rounding_to_the_grid_is_exact(x: Any, exponent: Any) -> None:
    assert grid_point(x, exponent) == math.floor(Fraction(x) / power(exponent) + HALF)


@STEADY
@given(k=st.integers(-(2**55), 2**55), quarters=st.integers(-3, 3), nudge=st.integers(-1, 1))
def test_rounding_is_exact_next_to_ties(k: Any, quarters: Any, nudge: Any) -> None:
    x = math.nextafter(k + quarters / 4, nudge * math.inf) if nudge else k + quarters / 4
    assert grid_point(x, 0) == math.floor(Fraction(x) + HALF)


@STEADY
@given(x=FINITE, y=FINITE, exponent=EXPONENTS)
def test_neighbours_land_within_the_paid_steps(x: Any, y: Any, exponent: Any) -> None:
    distance = abs(Fraction(x) - Fraction(y)) / power(exponent)
    assert abs(grid_point(x, exponent) - grid_point(y, exponent)) <= paid_steps(distance, 1)


@STEADY
@given(points=st.lists(st.tuples(*[st.floats(-99, 99)] * 2), min_size=1, max_size=5))
def test_coordinates_pay_one_step_each_at_most(points: Any) -> None:
    distance = sum((abs(Fraction(x) - Fraction(y)) for x, y in points), Fraction(0))
    moved = sum(abs(grid_point(x, 0) - grid_point(y, 0)) for x, y in points)
    assert moved <= paid_steps(distance, len(points))


def test_every_paid_step_is_needed() -> None:
    """Three coordinates that move by 1e-9 each cross three ties: 3 = ceil(3e-9) + 2."""
    moved = sum(grid_point(0.5, 0) - grid_point(0.5 - 1e-9, 0) for _ in range(3))
    assert moved == paid_steps(Fraction(3, 10**9), 3) == 3


@STEADY
@given(k=st.integers(-(2**53), 2**53), exponent=EXPONENTS)
def test_points_up_to_53_bits_are_floats(k: Any, exponent: Any) -> None:
    found = float(from_grid(np.array([k]), exponent)[0])
    assert Fraction(found) == k * power(exponent)
    assert grid_point(found, exponent) == k


@STEADY
@given(k=st.integers(-(2**62), 2**62), exponent=EXPONENTS)
def test_both_ways_back_from_the_grid_agree(k: Any, exponent: Any) -> None:
    quick, slow = np.array([k]), np.array([k], dtype=object)
    assert from_grid(quick, exponent) == from_grid(slow, exponent)


def test_points_beyond_every_float_become_the_largest() -> None:
    huge = np.array([2**2000, -(2**2000)], dtype=object)
    assert from_grid(huge, 0).tolist() == [np.finfo(float).max, -np.finfo(float).max]
    assert from_grid(np.array([2**62]), 970).tolist() == [np.finfo(float).max]
    assert saturate(huge).tolist() == [2**63 - 1, -(2**63) + 1]


@STEADY
@given(x=st.fractions(Fraction(1, 10**30), 10**30))
def test_floor_log2(x: Any) -> None:
    assert power(floor_log2(x)) <= x < 2 * power(floor_log2(x))


@STEADY
@given(epsilon=EPSILONS, sensitivity=SENSITIVITIES, x=st.floats(-1e13, 1e13), part=st.floats(-1, 1))
def test_epsilon_holds_exactly_for_any_pair(
    epsilon: Any, sensitivity: Any, x: Any, part: Any
) -> None:
    mechanism = LaplaceMechanism(epsilon, sensitivity)
    y = x + part * sensitivity
    assume(abs(Fraction(x) - Fraction(y)) <= Fraction(sensitivity))
    here, there = (grid_point(v, mechanism.exponent) for v in (x, y))
    outputs = (here, there, 2 * here - there, 2 * there - here, (here + there) // 2)
    assert max(mechanism.law.loss(k, here, there) for k in outputs) <= Fraction(epsilon)


@STEADY
@given(epsilon=EPSILONS, sensitivity=SENSITIVITIES)
def test_a_scale_that_does_not_pay_for_rounding_breaks_epsilon(
    epsilon: Any, sensitivity: Any
) -> None:
    """Neighbours on either side of a tie: the weakened twin with scale Delta/eps spends more than eps."""
    mechanism = LaplaceMechanism(epsilon, sensitivity)
    g = power(mechanism.exponent)
    distance = mechanism.distance / g
    assume(distance.denominator > 1)
    moved = math.floor(HALF + distance) - math.floor(HALF)  # from just above a tie
    crossed = max(moved, math.ceil(distance))  # and, shifted, across one more
    assert crossed / mechanism.law.scale <= Fraction(epsilon)
    assert crossed / (distance / Fraction(epsilon)) > Fraction(epsilon)
    assert crossed / (mechanism.law.scale * Fraction(9, 10)) > Fraction(epsilon)


def test_the_pair_that_crosses_a_tie_exists_among_floats() -> None:
    g, sensitivity = 2.0**-40, 1 + 2.0**-41
    x = g * (0.5 - 2.0**-10)
    y = x + sensitivity
    assert Fraction(y) - Fraction(x) == Fraction(sensitivity)
    assert grid_point(y, -40) - grid_point(x, -40) == 2**40 + 1 > sensitivity / g


@STEADY
@given(epsilon=EPSILONS, sensitivity=SENSITIVITIES, dimension=st.integers(1, 9))
def test_the_scale_is_never_below_what_was_asked_and_hardly_above(
    epsilon: Any, sensitivity: Any, dimension: Any
) -> None:
    mechanism = LaplaceMechanism(epsilon, sensitivity, dimension=dimension)
    asked = Fraction(sensitivity) / Fraction(epsilon)
    exact = mechanism.law.scale * power(mechanism.exponent)
    assert exact <= Fraction(mechanism.release_scale) <= exact * (1 + Fraction(1, 2**52))
    assert asked < Fraction(mechanism.release_scale) < asked * (1 + Fraction(dimension, 2**19))
    assert math.frexp(mechanism.granularity)[0] == 0.5
    assert mechanism.granularity <= mechanism.release_scale / 2**40
    if epsilon > 2**-19:
        assert mechanism.granularity > mechanism.release_scale / 2**42


def test_input_errors_are_paid_for() -> None:
    mechanism = LaplaceMechanism(1.0, 1.0, dimension=2, input_error=0.25)
    assert mechanism.distance == 2 + Fraction(1, 2**50)
    assert mechanism.release_scale == pytest.approx(2.0)


@pytest.mark.thorough
@pytest.mark.parametrize(("epsilon", "sensitivity"), [(1.0, 1.0), (0.1, 3.0), (4.0, 1e-6)])
def test_released_noise_has_the_stated_scale_and_variance(epsilon: Any, sensitivity: Any) -> None:
    mechanism = LaplaceMechanism(epsilon, sensitivity)
    noise = mechanism.release(np.full(100_000, 5.0), entropy=stream(3)) - 5.0
    for factor in (0.9, 1.0, 1.1):
        distribution = stats.laplace(scale=factor * mechanism.release_scale)
        p = stats.kstest(noise, distribution.cdf).pvalue
        assert p > FALSE_ALARM if factor == 1 else p < SURE
    assert float(mechanism.release_variance(0.0)) == pytest.approx(
        2 * mechanism.release_scale**2, rel=1e-9
    )
    # The variance of a sample of n has a relative deviation of sqrt(5/n); 6 of them: below 1e-8.
    assert noise.var() == pytest.approx(
        float(mechanism.release_variance(0.0)), rel=6 * math.sqrt(5 / 100_000)
    )


def test_releases_are_multiples_of_the_granularity_whatever_the_input() -> None:
    mechanism = LaplaceMechanism(0.7, 0.3)
    values = np.array([[0.1, -2.5, 1e-9], [math.pi, 12.0, -0.0]])
    released = mechanism.release(values, entropy=stream(4))
    assert released.shape == values.shape
    assert np.all(released / mechanism.granularity % 1 == 0)
    assert mechanism.release(3.0).shape == ()
    assert mechanism.release([]).shape == (0,)


def test_huge_inputs_keep_their_value_next_to_the_noise() -> None:
    mechanism = LaplaceMechanism(1.0, 1e-6)
    values = np.array([1e30, -1e300, 2.0])
    released = mechanism.release(values, entropy=stream(5))
    assert released[:2].tolist() == values[:2].tolist()  # a float there is coarser than the noise
    assert 0 < abs(released[2] - 2.0) < 1e-3


def test_the_slow_path_draws_the_same_noise() -> None:
    """An input of 2^61 steps or more switches the release to Python integers: same numbers."""
    mechanism = LaplaceMechanism(1.0, 1.0)
    quick = mechanism.release(np.ones(1000), entropy=stream(6))
    slow = mechanism.release(np.append(np.ones(999), 1e9), entropy=stream(6))
    assert np.array_equal(quick[:999], slow[:999])


def test_whole_numbers_get_whole_noise() -> None:
    mechanism = DiscreteLaplaceMechanism(0.5, 2)
    counts = np.arange(50_000).reshape(-1, 10)
    released = mechanism.release(counts, entropy=stream(7))
    assert released.dtype == np.int64
    assert released.shape == counts.shape
    assert np.array_equal(released, mechanism.release(counts.astype(float), entropy=stream(7)))
    # Six standard deviations of the sample variance, whose kurtosis is below 6: below 1e-8.
    assert np.var(released - counts) == pytest.approx(
        mechanism.worst_variance, rel=6 * (5 / 50_000) ** 0.5
    )
    assert mechanism.worst_variance < 2 * mechanism.scale**2
    assert mechanism.law.loss(5, 0, 2) == -Fraction(1, 2)  # epsilon, spent exactly


def test_whole_numbers_at_the_edge_of_64_bits_are_clamped_after_the_noise() -> None:
    mechanism = DiscreteLaplaceMechanism(1.0)
    top = 2**63 - 1
    released = mechanism.release(np.full(64, top), entropy=stream(8))
    assert released.max() == top
    assert released.min() >= top - 64
    assert mechanism.release(np.array([2**64 - 1], dtype=np.uint64)).tolist() == [top]


RELEASING: Any = [  # every registered mechanism with an exact release, by its examples
    made for kind in MECHANISMS.values() for made in kind.examples() if made.status is Status.PROVED
]


def by_name(made: Any) -> str:
    return f"{made.name}-{made.worst_variance:.3g}"


def inputs(made: Any) -> Any:
    return sorted({x for pair in made.pairs for x in pair})


def standard_errors(made: Any, stated: Any, x: Any) -> tuple[float, float]:
    """How many lie between mean and variance of 4,000 releases and what is stated; 6: false 2e-9.

    Of the component that is furthest off.
    """
    z = made.release(np.broadcast_to(x, (4000, *np.shape(x))), entropy=stream(21)) - stated.mean(x)
    variance = np.asarray(stated.release_variance(x))
    off = (z**2).std(axis=0) / math.sqrt(len(z)) + 1e-3 * variance
    mean = np.abs(z.mean(axis=0)) / np.sqrt(variance / len(z))
    return float(mean.max()), float(np.abs(((z**2).mean(axis=0) - variance) / off).max())


def test_all_exact_mechanisms_are_here() -> None:
    assert {made.name for made in RELEASING} >= {
        "discrete-laplace", "duchi", "hybrid", "laplace", "piecewise", "smooth-laplace", "staircase"
    }  # fmt: skip


@pytest.mark.parametrize("made", RELEASING, ids=by_name)
def test_every_release_is_on_its_grid_fresh_and_of_the_shape_of_its_input(made: Any) -> None:
    g = power(made.exponent)
    given = np.array(inputs(made))
    values = given[np.resize(np.arange(len(given)), (20, 3))]
    released = made.release(values)
    assert released.shape == values.shape
    assert all((Fraction(float(z)) / g).denominator == 1 for z in released.ravel())
    assert not np.array_equal(released, made.release(values))
    assert np.array_equal(
        made.release(values, entropy=stream(1)), made.release(values, entropy=stream(1))
    )
    assert made.release(values[0, 0]).shape == given.shape[1:]
    assert made.release(values[:0, 0]).shape == (0, *given.shape[1:])


@pytest.mark.thorough
@pytest.mark.parametrize("made", RELEASING, ids=by_name)
def test_releases_are_unbiased_and_of_the_stated_variance(made: Any) -> None:
    x = inputs(made)[0]
    assert made.release_variance(x) == pytest.approx(made.variance(x), rel=1e-3)
    mean, spread = standard_errors(made, made, x)
    assert mean <= 6
    assert spread <= 6


@pytest.mark.thorough
@pytest.mark.parametrize("made", RELEASING, ids=by_name)
def test_releases_without_part_of_their_noise_have_another_variance(made: Any) -> None:
    """What `weakened` releases is what an audit of exact releases must find; or it releases nothing."""
    if made.weakened(0.3).status is not Status.PROVED:
        return
    assert standard_errors(made.weakened(0.3), made, inputs(made)[0])[1] > 6


SECRET = 1234.5678


@pytest.mark.parametrize(
    "values",
    [
        [SECRET, math.nan], [[SECRET, -math.inf]], math.inf, [f"{SECRET}"], [[SECRET], [1.0, 2.0]],
        [SECRET + 1j], [12345678 * 10**400], np.array([SECRET], dtype=np.longdouble), [None, SECRET],
    ],
)  # fmt: skip
@pytest.mark.parametrize("made", RELEASING, ids=by_name)
def test_no_error_of_any_release_shows_an_input(made: Any, values: Any) -> None:
    with pytest.raises(PrivacyError) as caught:
        made.release(values)
    assert "1234" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([SECRET, math.nan], r"values\[1\] is not a finite number"),
        ([[SECRET, -math.inf]], r"values\[0, 1\] is not a finite number"),
        (math.inf, "the value is not a finite number"),
        ([1, 12345678 * 2**36], r"values\[1\] exceeds 2\^53"),
        ([1, 12345678 * 2**40], r"values\[1\] exceeds 2\^53"),
        ([[1.5, 12345678 * 2**40]], r"values\[0, 1\] exceeds 2\^53"),
        ([f"{SECRET}"], "array of real numbers"),
        ([[SECRET], [1.0, 2.0]], "array of real numbers"),
        ([SECRET + 1j], "array of real numbers"),
        ([12345678 * 10**400], "array of real numbers"),
        (np.array([SECRET], dtype=np.longdouble), "convert to float64 exactly"),
    ],
)
def test_errors_do_not_show_an_input(values: Any, words: Any) -> None:
    with pytest.raises(PrivacyError, match=words) as caught:
        LaplaceMechanism(1.0, 1.0).release(values)
    assert "1234" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("bad", [SECRET, math.nan, math.inf])
def test_errors_do_not_show_a_number_that_is_not_whole(bad: Any) -> None:
    with pytest.raises(PrivacyError, match=r"values\[1\] is not a whole number") as caught:
        DiscreteLaplaceMechanism(1.0).release([3.0, bad])
    assert "1234" not in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: LaplaceMechanism(0.0, 1.0),
        lambda: LaplaceMechanism(math.inf, 1.0),
        lambda: LaplaceMechanism(1.0, math.inf),
        lambda: LaplaceMechanism(1.0, -1.0),
        lambda: LaplaceMechanism(1.0, 1.0, dimension=0),
        lambda: LaplaceMechanism(1.0, 1.0, input_error=math.nan),
        lambda: LaplaceMechanism(1e-300, 1e10),
        lambda: DiscreteLaplaceMechanism(1.0, 0),
        lambda: DiscreteLaplaceMechanism(math.nan, 1),
    ],
)
def test_mechanisms_are_valid_when_constructed(make: Any) -> None:
    with pytest.raises(PrivacyError):
        make()


@pytest.mark.parametrize(
    "mechanism", [LaplaceMechanism(1.0, 2.0), DiscreteLaplaceMechanism(1.0, 2)]
)
def test_mechanisms_are_frozen_and_say_why_they_hold(mechanism: Any) -> None:
    with pytest.raises(FrozenInstanceError):
        mechanism.epsilon = 2.0


def test_tiny_and_large_scales_have_a_grid() -> None:
    for mechanism in (
        LaplaceMechanism(1.0, 5e-324),
        LaplaceMechanism(1.0, 1e280),
        LaplaceMechanism(1e-12, 1.0),
    ):
        released = mechanism.release(np.zeros(200), entropy=stream(9))
        assert np.all(np.isfinite(released))
        assert np.unique(released).size > 1
