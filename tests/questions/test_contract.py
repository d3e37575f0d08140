"""Every question through one suite: sensitivity, coverage, error, weakened twins, terms."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tests.questions.make import (
    EPSILONS,
    SIZES,
    in_of,
    noise_of,
    only,
    records,
    released,
    vector,
)
from veilsum.questions import QUESTIONS, By, Category, GridNoise, Question
from veilsum.questions.noise import grid

REPLICAS = 400
GROUPS = Category("group", ("p", "q", "r"))


def instances() -> list[Question]:
    plain = [question for kind in QUESTIONS.values() for question in kind.examples()]
    return [*plain, *(By(question=one, group=GROUPS) for one in plain if not one.partial)]


def identity(question: Question) -> str:
    kinds = [type(question).__name__, *(["by"] if isinstance(question, By) else [])]
    some = "some" if question.partial else "all"
    return "-".join([question.name, *kinds, some, str(question.dimension)])


ALL = instances()
every_question = pytest.mark.parametrize("question", ALL, ids=map(identity, ALL))


def test_every_question_of_the_package_has_an_example() -> None:
    assert {one.name for one in ALL} == set(QUESTIONS.names())


@every_question
def test_no_move_of_a_record_exceeds_the_statistic(question: Question) -> None:
    """Pairs of corners and random records, and coordinate ascent from the worst of them."""
    rng = np.random.default_rng(1)
    statistic, step = question.statistic, grid(question.statistic)
    l1, l2 = statistic.steps(step)
    rows = corners_and_more(question, rng)
    each = [vector_of_one(question, rows, k, step) for k in range(len(next(iter(rows.values()))))]
    if question.partial:
        each.append(np.zeros_like(each[0]))
    x = np.array(each, dtype=float)
    moves = np.abs(x[:, None] - x[None])
    assert moves.sum(axis=2).max() <= l1
    assert np.sqrt((moves**2).sum(axis=2)).max() <= l2 * (1 + 1e-12)
    assert moves.sum(axis=2).max() >= 0.9 * l1  # not overstated: noise would be wasted


def corners_and_more(question: Question, rng: np.random.Generator) -> dict[str, np.ndarray]:
    many = records(question, 240, rng)
    for name, values in many.items():
        if values.dtype.kind == "f":
            many[name] = np.where(
                rng.random(240) < 0.7, rng.choice([0.0, 1.0, 0.5, 0.25], 240), values
            )
        else:
            many[name] = rng.integers(0, values.max() + 1, 240)
    return many


def vector_of_one(
    question: Question, rows: dict[str, np.ndarray], k: int, step: Fraction
) -> np.ndarray:
    one = {name: values[k : k + 1] for name, values in rows.items()}
    return question.expand(question.total(one, step))


@every_question
def test_totals_are_the_sum_of_the_records(question: Question) -> None:
    rng = np.random.default_rng(2)
    rows, step = records(question, 40, rng), grid(question.statistic)
    whole = question.expand(question.total(rows, step))
    one_by_one = sum(vector_of_one(question, rows, k, step) for k in range(40))
    np.testing.assert_array_equal(whole, one_by_one)


@every_question
def test_intervals_cover_the_statistic_of_these_records(question: Question) -> None:
    """0.93 to 0.97 for 400 replicas would fail 1 time in 30: the line is 5 sd, a false alarm below 1e-6.

    An interval on a lattice covers more than it says, where the next shorter one would not cover
    enough; so does one that is cut at a bound.
    """
    covered, refused = coverage(question, epsilon=1.0, count=969)
    sd = math.sqrt(0.95 * 0.05 / REPLICAS)
    assert refused < 0.5
    assert covered > 0.95 - 5 * sd


@every_question
def test_a_weakened_twin_with_half_the_noise_is_found_by_its_likelihood(question: Question) -> None:
    """The exact loss of a worst pair under the law: at most epsilon, and twice that for the weakened twin."""
    epsilon = 1.0
    noise = noise_of(question, epsilon)
    l1 = question.statistic.steps(noise.step)[0]
    assert l1 / float(noise.law.scale) <= epsilon * (1 + 1e-12)  # type: ignore[attr-defined]
    weakened = noise_of(question, epsilon, shrunk=0.5)
    assert l1 / float(weakened.law.scale) > 1.9 * epsilon  # type: ignore[attr-defined]


@every_question
def test_terms_are_plain_and_tell_questions_apart(question: Question) -> None:
    text = json.dumps(question.terms(), sort_keys=True)
    assert question.name in text
    if not question.partial:
        assert text != json.dumps(question.within().terms(), sort_keys=True)


@pytest.mark.slow
@every_question
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("count", SIZES)
def test_coverage_at_all_sizes(question: Question, epsilon: float, count: int) -> None:
    noise = noise_of(question, epsilon)
    forecast = question.forecast(count, noise)
    covered, refused = coverage(question, epsilon, count)
    print(
        f"{identity(question)} n={count} eps={epsilon}: covered {covered:.3f}, refused {refused:.3f}"
    )
    assert covered > 0.95 - 5 * math.sqrt(0.95 * 0.05 / REPLICAS) or not forecast.useful
    assert refused < 0.05 or not forecast.useful


def coverage(question: Question, epsilon: float, count: int) -> tuple[float, float]:
    """How often the worst-covered component's interval has the truth, and how often there is none."""
    rng = np.random.default_rng([count, int(10 * epsilon)])
    noise = noise_of(question, epsilon)
    rows = records(question, count, rng)
    rows = only(rows, in_of(question, count, rng))
    true = vector(question, rows, noise)
    tiny = noise_of(question, 300.0)
    truth = np.ravel(
        question.decode(released(question, true, tiny_at(noise, tiny), count))[0].value
    )
    noises = noise.law.sample((REPLICAS, len(true)), rng)
    hits, none = np.zeros(truth.size), np.zeros(truth.size)
    for replica in range(REPLICAS):
        found = question.decode(released(question, true + noises[replica], noise, count))[0]
        low, high = np.ravel(found.low).astype(float), np.ravel(found.high).astype(float)
        none += np.isnan(low)
        slack = 1e-9 * (1 + np.abs(truth))
        hits += (low - slack <= truth) & (truth <= high + slack)
    asked = REPLICAS - none
    known = ~np.isnan(truth) & (asked > 0)
    return float((hits[known] / asked[known]).min(initial=1.0)), float(none.max() / REPLICAS)


def tiny_at(noise: GridNoise, tiny: GridNoise) -> GridNoise:
    """A law next to nothing on the same grid, so that `decode` gives the true statistic."""
    return replace(tiny, step=noise.step)
