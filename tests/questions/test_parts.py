"""Oracles of what questions are made of: intervals, rounding, exact totals, codes, columns."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.questions.make import noise_of, released
from veilsum import questions
from veilsum.errors import QuestionError
from veilsum.privacy.laws import DiscreteLaplace
from veilsum.privacy.noise_quantile import additive_quantile
from veilsum.questions import By, Category, Number, Question
from veilsum.questions.columns import Candidates, Sides, UnreadableValueError
from veilsum.questions.encoding import BLOCK, Encoded, add_up
from veilsum.questions.intervals import (
    bounded,
    fieller,
    ratio,
    reach,
    student_quantile,
    summed,
)
from veilsum.questions.moments import BERNSTEIN, CENTRED, Centred

LAWS = [DiscreteLaplace(Fraction(1, 5)), DiscreteLaplace(Fraction(2)), DiscreteLaplace(Fraction(20)),
        DiscreteLaplace(Fraction(2**20))]  # fmt: skip
WEIGHTS = [(1.0,), (1.0, 1.0), (0.7, 0.3), (0.9, 0.1, 0.1, 0.1, 0.1), (0.25, 0.5, 1.0)]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: str(law.scale))
@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
def test_noise_stays_within_its_reach(law: DiscreteLaplace, weights: tuple[float, ...]) -> None:
    """200,000 draws know 0.95 within 0.0005: 5 sd is 0.0024. Fine lattices are met from above, too."""
    draws = law.sample((200_000, len(weights)), np.random.default_rng(1)) @ np.array(weights)
    found = reach(law, weights)
    inside = np.mean(np.abs(draws) <= found * (1 + 1e-12))
    assert inside > 0.95 - 0.0024
    if law.scale > 100:
        assert inside < 0.95 + 0.0024


def test_a_weakened_reach_without_half_a_step_misses() -> None:
    """The integral over a smoothed lattice alone: 92 of 100, where 98 are the least that are 95."""
    law, weights = DiscreteLaplace(Fraction(1, 2)), (1.0, 1.0)
    draws = law.sample((100_000, 2), np.random.default_rng(1)).sum(axis=1)
    assert np.mean(np.abs(draws) <= reach(law, weights)) >= 0.95
    assert reach(law, weights) == 2
    sd = math.sqrt(law.variance)
    smoothed = additive_quantile(
        lambda u: np.exp(law.log_characteristic(np.asarray(u) / sd)), 1.0, 3.0, np.array([sd]),
        np.array([2.0]), 0.95, 0.0, 1.0,
    )  # fmt: skip
    assert np.mean(np.abs(draws) <= smoothed) < 0.93


@pytest.mark.parametrize(("value", "ends"), [(0.5, (0.4, 0.6)), (0.05, (0.0, 0.15)), (-0.3, (0.0, 0.1)),
                                             (1.3, (0.9, 1.0)), (-0.1, (0.0, 0.1))])  # fmt: skip
def test_an_interval_beyond_a_bound_is_no_certainty(
    value: float, ends: tuple[float, float]
) -> None:
    """It was "0%, and between 0% and 0%" where the noise was far below 0: as if nothing were unknown."""
    at, low, high = bounded(value, 0.1, 0.0, 1.0)
    assert (low, high) == pytest.approx(ends)
    assert low <= at <= high


@pytest.mark.parametrize(
    "question",
    [
        questions.mean("x", between=(2.0, 6.0)),
        questions.proportion("x", above=3.0),
        questions.sum("x", between=(2.0, 6.0)),
        questions.count().within(),
    ],
    ids=lambda q: q.name,
)
def test_no_number_is_said_to_be_certain(question: Question) -> None:
    """Noise far below, or above, what can be: the interval is never a point."""
    noise = noise_of(question, 1.0)
    for far in (-1000, 5000):
        found = question.decode(
            released(question, [far * round(1 / float(noise.step))], noise, 969)
        )[0]
        assert found.high > found.low


def test_the_law_of_a_sum_adds_up() -> None:
    law = DiscreteLaplace(Fraction(2))
    one, three = summed(law, 1), summed(law, 3)
    assert one.sum() == pytest.approx(1, abs=1e-6)
    assert three.sum() == pytest.approx(1, abs=1e-6)
    at = np.arange(len(three)) - len(three) // 2
    assert (three * at**2).sum() == pytest.approx(3 * float(law.variance), rel=1e-3)


def test_student_s_quantiles() -> None:
    """Of tables, to 4 digits: 4, 14, 299 degrees of freedom."""
    known = {14: 2.14479, 30: 2.04227, 299: 1.96793}
    for freedom, value in known.items():
        assert student_quantile(freedom) == pytest.approx(value, abs=2e-4)


@pytest.mark.parametrize("n", [969, 100_000, 10_000_000])
def test_an_interval_of_a_share_is_as_wide_as_its_noise(n: int) -> None:
    """Also where it is far narrower than the shares that are tried; at 0, 0.3 and 1."""
    noise = noise_of(questions.proportion("c", values=["a"]).within(), 1.0)
    for share in (0.0, 0.3, 1.0):
        top = share * n
        vector = released(questions.count(), [top, n - top], noise, n)
        low, high = fieller(vector, top, n)
        half = vector.half([1 - share, share]) / n
        assert low == pytest.approx(max(share - half, 0), abs=0.1 * half)
        assert high == pytest.approx(min(share + half, 1), abs=0.1 * half)


def test_an_interval_of_a_share_of_nobody_is_everything() -> None:
    noise = noise_of(questions.count(), 1.0)
    vector = released(questions.count(), [3.0, -5.0], noise, 10)
    assert ratio(vector, (1.0, 0.0), (1.0, 1.0), 3.0, -2.0) == (0.0, 1.0)


def test_rounding_moves_no_coordinate_further_than_is_paid() -> None:
    """floor(x + 1/2): a move by d is at most ceil(d) steps. Half to even, a move by 1 would be 2 steps."""
    x = np.array([0.5, 1.5])
    step = Fraction(1)
    a, b = (int(add_up(Encoded(parts=x[k : k + 1, None]), 1, 1, step)[0]) for k in (0, 1))
    assert abs(a - b) == 1
    assert abs(np.rint(x[1]) - np.rint(x[0])) == 2


def test_totals_are_exact_where_floats_are_not() -> None:
    """2^23 values of 2^30 + 1 steps add up to more than 2^53."""
    count, value = 2**23 + 3, 2.0**30 + 1
    assert count > BLOCK
    parts = np.full((count, 1), value)
    (total,) = add_up(Encoded(parts=parts), 1, 1, Fraction(1))
    assert int(total) == count * (2**30 + 1)
    (first, second) = add_up(Encoded(np.arange(count) % 2, parts), 2, 1, Fraction(1))
    assert int(first) + int(second) == count * (2**30 + 1)


@pytest.mark.parametrize("a", [0.25, 0.5, 1.0, 3.0])
def test_the_norms_of_the_centred_moments_by_brute_force(a: float) -> None:
    """All pairs of 4,097 places, rounded to 1/4,096 and not rounded."""
    code, step = Centred(a), Fraction(1, 4096)
    x = code.parts(np.linspace(0, 1, 4097))
    rounded = np.floor(x / float(step) + 0.5)
    l1, l2 = code.whole.steps(step)
    most = np.zeros(3)
    for row, other in zip(x, rounded, strict=True):
        moved, steps = np.abs(x - row), np.abs(rounded - other)
        most = np.maximum(most, [
            moved.sum(axis=1).max(), np.sqrt((moved**2).sum(axis=1)).max(), steps.sum(axis=1).max(),
        ])  # fmt: skip
    assert most[0] == pytest.approx(code.whole.l1, rel=1e-4)
    assert most[0] <= code.whole.l1 * (1 + 1e-12)
    assert most[1] == pytest.approx(code.whole.l2, rel=1e-4)
    assert most[1] <= float(code.whole.l2 or 0) * (1 + 1e-12)
    assert most[2] <= l1
    assert l2 >= most[1] * 4096


def test_the_worst_pair_of_the_centred_moments() -> None:
    first, second = CENTRED.parts(np.array([1.0, 0.25]))  # u = 1 and u = -1/2
    assert np.abs(first - second).sum() == CENTRED.whole.l1 == 2.25


def test_bernstein_s_parts_have_mass_one_and_both_moments() -> None:
    s = np.linspace(0, 1, 33)
    parts = BERNSTEIN.parts(s)
    np.testing.assert_allclose(parts.sum(axis=1), 1.0, rtol=0, atol=1e-15)
    n, first, second = BERNSTEIN.sums(parts, None)
    np.testing.assert_allclose(first / n, s, atol=1e-15)
    np.testing.assert_allclose(second / n, s * s, atol=1e-15)


def test_sides_keep_infinite_numbers_and_refuse_text() -> None:
    sides = Sides("x", 0.0, 10.0)
    values = np.array([-math.inf, -0.0, 10.0, 1e18, math.nan, math.inf])
    assert sides.read(values).tolist() == [0, 1, 1, 2, -1, 2]
    with pytest.raises(UnreadableValueError, match="is not a number") as caught:
        sides.read(np.array(["1", "secret"], dtype=object))
    assert caught.value.row == 1
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "bounds", [(1, 0), (math.nan, 1), (-math.inf, math.inf), ("a", 1), (math.inf, math.inf)]
)
def test_sides_refuse_bounds_that_are_none(bounds: tuple[float, float]) -> None:
    with pytest.raises(QuestionError, match="a bound is a number"):
        Sides("x", *bounds)


def test_candidates_tell_another_value_from_none() -> None:
    column = Candidates("app", ["mail", "3"])
    values = np.array(["mail", 3.0, "chess", "", None, math.nan, " mail "], dtype=object)
    assert column.read(values).tolist() == [0, 1, 2, -1, -1, -1, 0]


@pytest.mark.parametrize(("given", "why"), [
    ({}, "one of these; found none"),
    ({"above": 1.0, "values": ["a"]}, "found values, above"),
    ({"above": 1.0, "categories": ["a"]}, "a proportion is of values"),
    ({"values": ["z"], "categories": ["a", "b"]}, "values are some of the categories a, b; found z"),
])  # fmt: skip
def test_a_proportion_says_what_it_lacks(given: dict[str, object], why: str) -> None:
    with pytest.raises(QuestionError, match=why):
        questions.proportion("c", **given)


@pytest.mark.parametrize(("given", "why"), [
    ({"null": 0.5, "alternative": 0.5}, "hypotheses are the same"),
    ({"null": 0.5, "alternative": 0.6, "level": 1.0}, "level is above 0"),
    ({"null": 0.5, "alternative": 1.6}, "add up to 1"),
    ({"null": 0.5, "alternative": 1.0}, "add clip=1"),
])  # fmt: skip
def test_a_test_says_what_it_lacks(given: dict[str, float], why: str) -> None:
    with pytest.raises(QuestionError, match=why):
        questions.test("c", value="a", **given)


def test_a_test_is_not_asked_of_some_records_or_by_group() -> None:
    test = questions.test("c", value="a", null=0.5, alternative=0.6)
    with pytest.raises(QuestionError, match="public number of records"):
        test.within()
    with pytest.raises(QuestionError, match="public number of records"):
        By(question=test, group=Category("g", ["p", "q"]))


def test_a_group_without_records_is_not_answered() -> None:
    by = By(question=questions.mean("x", between=(0, 1)), group=Category("g", ["p", "q"]))
    noise = noise_of(by, 1.0)
    mean, count = by.decode(released(by, np.array([50, 50, 0, 0]) / float(noise.step), noise, 100))
    assert mean.value[0] == pytest.approx(0.5)
    assert math.isnan(mean.value[1])
    assert mean.sentence.endswith("Too few records to say it: q.")
    assert count.value.tolist() == [100, 0]


def test_no_records_have_no_mean() -> None:
    for question in (questions.mean("x", between=(0, 1)), questions.proportion("c", values=["a"]),
                     questions.variance("x", between=(0, 1)),
                     questions.histogram("x", between=(0, 1), bins=3)):  # fmt: skip
        noise = noise_of(question, 1.0)
        found = question.decode(released(question, np.zeros(question.dimension), noise, 0))
        assert np.isnan(found[0].value).all()


def test_bounds_that_are_wide_or_negative() -> None:
    """A sum moves by its whole range, or by its larger bound if a record may leave."""
    for low, high in ((-1e18, 1e18), (-5, -3), (0, 1e-9), (100, 101)):
        whole = questions.sum("x", between=(low, high))
        assert noise_of(whole, 1.0).sd * whole.unit == pytest.approx(
            math.sqrt(2) * (high - low), rel=1e-3
        )
        some, most = whole.within(), max(high - low, abs(low), abs(high))
        assert noise_of(some, 1.0).sd * some.unit == pytest.approx(math.sqrt(2) * most, rel=1e-3)
    assert Number("x", -1e18, 1e18).read(np.array([1e18, -1e18, 0.0])).tolist() == [1.0, 0.0, 0.5]
