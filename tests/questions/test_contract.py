"""Every question through one suite: sensitivity, totals, exact likelihoods, coverage, terms."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import veilsum.questions
from tests.questions.make import (
    EPSILONS,
    SIZES,
    answers,
    identity,
    in_of,
    instances,
    noise_for,
    noises_of,
    on_grid,
    only,
    records,
    stages_of,
    vector,
)
from tests.questions.search import Pair, by_optimiser, every_record, pair_of, worst_pair
from veilsum.privacy.laws import DiscreteLaplace
from veilsum.questions import QUESTIONS, By, GridNoise, Question
from veilsum.questions.noise import grid

REPLICAS = 400
QUICK = 200  # of them where it is not the statistic that takes time


def least(replicas: int) -> float:
    """5 sd below 0.95: a false alarm below 1e-6 a component."""
    return 0.95 - 5 * math.sqrt(0.95 * 0.05 / replicas)


ALL = instances()
NUMBERS = [  # whose bounds somebody might read off the data
    one for one in ALL if len(one.stages) == 1 and not all(c.places for c in one.columns)
]
SIMPLE = [one for one in ALL if sum(not c.places for c in one.columns) <= 1]
every_question = pytest.mark.parametrize("question", ALL, ids=map(identity, ALL))


def test_every_question_of_the_package_has_an_example() -> None:
    assert {one.name for one in ALL} == set(QUESTIONS.names())


def test_no_file_hides_the_question_of_its_name() -> None:
    """`questions.count` is a maker: a module `count.py` would take the name of the package."""
    files = {path.stem for path in Path(veilsum.questions.__file__).parent.glob("*.py")}
    hidden = {name for name in QUESTIONS.names() if name.replace("-", "_") in files}
    assert not hidden, f"rename {hidden}, such as to the plural"


@every_question
def test_no_move_of_a_record_exceeds_the_statistic(question: Question) -> None:
    """Corners, random records and coordinate ascent from the worst of them, at each stage.

    The first stage attains it, or noise is wasted; a later one covers whatever was released before.
    """
    for stage, (one, statistic) in enumerate(stages_of(question)):
        step = grid(statistic)
        l1, l2 = statistic.steps(step)
        worst = worst_pair(one, step, np.random.default_rng(1))
        assert worst.l1 <= l1
        assert worst.l2 <= l2 * (1 + 1e-12)
        assert stage or max(worst.l1 / l1, worst.l2 / l2) >= 0.9, "overstated: noise is wasted"


@every_question
def test_no_pair_of_a_coarse_grid_exceeds_it_after_rounding(question: Question) -> None:
    """All pairs of 17 places a number, on grids so coarse that rounding counts."""
    for one, statistic in stages_of(question):
        rows = every_record(one, 17)
        if rows is None:
            continue
        steps = [grid(statistic)] if statistic.step else [Fraction(1, k) for k in (2, 5, 16)]
        for step in steps:
            l1, l2 = statistic.steps(step)
            count = len(next(iter(rows.values())))
            x = np.array([on_grid(one, only(rows, slice(k, k + 1)), step) for k in range(count)])
            if one.partial:
                x = np.concatenate([x, np.zeros((1, x.shape[1]), dtype=x.dtype)])
            for row in x:
                moved = np.abs(x - row).astype(float)
                assert moved.sum(axis=1).max() <= l1
                assert np.sqrt((moved**2).sum(axis=1)).max() <= l2 * (1 + 1e-12)


@pytest.mark.slow
@every_question
@pytest.mark.parametrize("norm", [1, 2])
def test_no_pair_that_an_optimiser_finds_exceeds_it(question: Question, norm: int) -> None:
    for one, statistic in stages_of(question):
        step = grid(statistic)
        most = by_optimiser(one, step, norm, seed=norm)
        assert most <= statistic.steps(step)[norm - 1] * (1 + 1e-12)


@every_question
def test_totals_add_up_over_any_split_of_the_rows(question: Question) -> None:
    """Of one file or of sites, in any order, one of them without rows: the same whole numbers."""
    rng = np.random.default_rng(2)
    for one, statistic in stages_of(question):
        rows, step = records(one, 60, rng), grid(statistic)
        whole = on_grid(one, rows, step)
        mixed = only(rows, rng.permutation(60))
        np.testing.assert_array_equal(whole, on_grid(one, mixed, step))
        ends = [0, *sorted(rng.integers(0, 61, 2).tolist()), 60, 60]
        sites = [only(rows, slice(a, b)) for a, b in pairwise(ends)]
        np.testing.assert_array_equal(whole, sum(on_grid(one, site, step) for site in sites))
        each = sum(on_grid(one, only(rows, slice(k, k + 1)), step) for k in range(60))
        np.testing.assert_array_equal(whole, each)
        assert np.issubdtype(whole.dtype, np.integer)


@every_question
def test_the_exact_likelihood_of_a_worst_pair_is_within_epsilon(question: Question) -> None:
    """log P(o | D)/P(o | D') by the law's probabilities, where it is largest; half the noise exceeds it."""
    for one, statistic in stages_of(question):
        step = grid(statistic)
        worst = worst_pair(one, step, np.random.default_rng(1))
        for epsilon in (0.5, 1.0):
            assert loss(worst, noise_for(statistic, epsilon)) <= epsilon * (1 + 1e-9)
            weakened = noise_for(statistic, epsilon, shrunk=0.5)
            if worst.l1 >= 0.9 * statistic.steps(step)[0]:
                assert loss(worst, weakened) > 1.6 * epsilon
        delta = 1e-6
        assert spent_delta(worst, statistic.steps(step)[1], delta) <= delta
        if worst.l2 >= 0.9 * statistic.steps(step)[1]:
            assert spent_delta(worst, statistic.steps(step)[1] / 2, delta) > 10 * delta


def loss(pair: Pair, noise: GridNoise) -> float:
    """The largest log likelihood ratio: at outputs that are the vector of one of both records."""
    law = noise.law
    assert isinstance(law, DiscreteLaplace)
    at_0 = law.pmf(0)[0]
    moved = [int(k) for k in np.abs(pair.a - pair.b) if k]
    return sum(math.log(at_0 / law.pmf(k)[1]) for k in moved)


def spent_delta(pair: Pair, stated: float, delta: float, epsilon: float = 1.0) -> float:
    """Of Gaussian noise for a stated move, at epsilon, by its curve."""
    from veilsum.privacy.mechanisms.gaussian import multiplier

    cdf, m = NormalDist().cdf, pair.l2 / (multiplier(epsilon, delta) * stated)
    return cdf(m / 2 - epsilon / m) - math.exp(epsilon) * cdf(-m / 2 - epsilon / m)


@pytest.mark.parametrize("question", NUMBERS, ids=map(identity, NUMBERS))
def test_a_weakened_twin_with_bounds_from_the_data_exceeds_epsilon(question: Question) -> None:
    """Its bounds are the largest value of each number: one larger value moves all other records."""
    numbers = [c.name for c in question.columns if not c.places]
    rng = np.random.default_rng(4)
    noise = noise_for(question.statistic, 1.0)
    rows = records(question, 50, rng)
    rows |= {name: 0.1 + 0.3 * rows[name] for name in numbers}
    other = {name: values.copy() for name, values in rows.items()}
    for name in numbers:
        other[name][0] = 1.0

    def narrowed(table: dict[str, Any]) -> dict[str, Any]:
        return table | {name: table[name] / table[name].max() for name in numbers}

    a, b = (vector(question, narrowed(table), noise) for table in (rows, other))
    assert loss(Pair({}, {}, a, b, 0.0, 0.0), noise) > 2.0
    a, b = (vector(question, table, noise) for table in (rows, other))
    assert loss(Pair({}, {}, a, b, 0.0, 0.0), noise) <= 1 + 1e-9


@every_question
def test_intervals_cover_the_statistic_of_these_records(question: Question) -> None:
    """At least 0.95 - 5 sd: 0.93 to 0.97 for 400 replicas would fail 1 time in 30."""
    found = coverage(question, 1.0, 969, QUICK)
    if question.forecast(969, noises_of(question, 1.0)[0]).useful:
        assert not found.unjust()
    assert found.least > least(QUICK)


@every_question
def test_terms_are_plain_and_tell_questions_apart(question: Question) -> None:
    text = json.dumps(question.terms(), sort_keys=True)
    others = [json.dumps(one.terms(), sort_keys=True) for one in ALL if one != question]
    assert text not in others


@every_question
def test_answers_have_one_shape(question: Question) -> None:
    """A value of each label between its ends, or NaN in all three; a sentence; plain labels."""
    rng = np.random.default_rng(5)
    rows = only(records(question, 300, rng), in_of(question, 300, rng))
    for found in answers(question, rows, noises_of(question, 1.0), 300, rng, 5):
        assert not found[0].detail
        for one in found:
            value, low, high = (
                np.ravel(np.asarray(x, dtype=float)) for x in (one.value, one.low, one.high)
            )
            assert value.shape == low.shape == high.shape == (len(one.labels) or value.size,)
            assert one.sentence.endswith(".") or (one.detail and not one.sentence)
            known = ~np.isnan(low)
            assert (low[known] <= high[known] + 1e-12).all()


@every_question
def test_every_answer_has_a_picture(question: Question) -> None:
    """Of many records, and of so few that there may be no answer."""
    from matplotlib.figure import Figure

    rng = np.random.default_rng(6)
    for count, epsilon in ((300, 1.0), (2, 0.1)):
        rows = records(question, count, rng)
        (found,) = answers(question, rows, noises_of(question, epsilon), count, rng, 1)
        figure = Figure()
        question.draw(found, figure.add_subplot())
        figure.canvas.draw()


@pytest.mark.parametrize("question", SIMPLE, ids=map(identity, SIMPLE))
def test_a_forecast_is_near_what_comes(question: Question) -> None:
    """Half an interval of some component within a factor of 2: records are not spread evenly here."""
    rng = np.random.default_rng(7)
    noises, count = noises_of(question, 1.0), 4941
    rows = only(records(question, count, rng), in_of(question, count, rng))
    halves = np.median([
        np.ravel(np.asarray(found[0].high, dtype=float) - np.asarray(found[0].low, dtype=float)) / 2
        for found in answers(question, rows, noises, count, rng, 9)
    ], axis=0)  # fmt: skip
    forecast = question.forecast(count, noises[0]).half
    assert np.nanmin(halves) / 2 < forecast < np.nanmax(halves) * 2


def test_the_worst_pair_of_a_mean_is_its_range() -> None:
    """The search is judged by a case that is known."""
    mean = veilsum.questions.mean("x", between=(0.0, 1.0))
    step = grid(mean.statistic)
    assert worst_pair(mean, step, np.random.default_rng(1)).l1 == 1 / step
    one = {"x": np.array([0.25])}
    assert pair_of(mean, one, {"x": np.array([0.5])}, step).l1 == Fraction(1, 4) / step


@pytest.mark.slow
@every_question
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("count", SIZES)
def test_coverage_at_all_sizes(question: Question, epsilon: float, count: int) -> None:
    """Printed; at least 0.95 - 5 sd where noise is at most three times sampling.

    More than 0.97 in 4,000 replicas (5.8 sd above 0.95) is allowed where the noise's lattice is coarse,
    where intervals are cut at a bound, or where they hold all at once: which of these it is, is looked up.
    """
    useful = question.forecast(count, noises_of(question, epsilon)[0]).useful
    found = coverage(question, epsilon, count)
    note = "" if useful else " (noise is more than three times sampling)"
    print(f"{identity(question)} n={count} eps={epsilon}: {found}{note}")
    if not useful:
        return
    assert not found.unjust(), "refused, though noise is at most three times sampling"
    assert found.least > least(REPLICAS)
    if found.least > 0.97:
        again = coverage(question, epsilon, count, 10 * REPLICAS)
        assert again.least <= 0.97 or again.why, f"{again} without a reason"


@dataclass
class Coverage:
    """How often intervals have the truth, by component; why more often than they say."""

    hits: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    none: Counter[str] = field(default_factory=Counter)
    ends: Counter[tuple[str, str, float]] = field(default_factory=Counter)
    replicas: int = 0
    sd: float = 0.0  # of the noise, in steps
    together: bool = False
    margin: str = ""  # of the question
    small: frozenset[str] = frozenset()  # groups with so few records that an answer is not useful

    @property
    def least(self) -> float:
        """Of the component that is covered least often, of those that are rarely refused."""
        often = [k for k in self.asked if self.none[k] <= 0.05 * self.replicas]
        return min((self.hits[k] / self.asked[k] for k in often), default=1.0)

    def unjust(self) -> list[str]:
        """What is refused in more than 5%, though not in a small group."""
        return [
            label
            for label, count in self.none.items()
            if count > 0.05 * self.replicas and label.partition(": ")[0] not in self.small
        ]

    @property
    def refused(self) -> float:
        """Of the component that is left without an answer most often."""
        return max(self.none.values(), default=0) / self.replicas

    @property
    def why(self) -> str:
        """What explains an interval that covers more than it says; "" for nothing."""
        if self.together or self.margin:
            return self.margin or "simultaneous"
        if self.sd < 10:
            return "coarse lattice"
        cut = sum(count for count in self.ends.values() if count > 0.02 * self.replicas)
        return "cut at a bound" if cut else ""

    def __str__(self) -> str:
        why = f" ({self.why or 'unexplained'})" if self.least > 0.97 else ""
        return f"covered {self.least:.3f}{why}, refused {self.refused:.3f}"


def coverage(question: Question, epsilon: float, count: int, replicas: int = REPLICAS) -> Coverage:
    rng = np.random.default_rng([count, int(10 * epsilon)])
    noises = noises_of(question, epsilon)
    rows = only(records(question, count, rng), in_of(question, count, rng))
    (truth,) = answers(question, rows, noises, count, rng, 1, silent=True)
    true = by_label(truth[0].labels, truth[0].value)
    sd = min(math.sqrt(n.law.variance) for n in noises)
    small = small_groups(question, rows, noises[0])
    found = Coverage(replicas=replicas, sd=sd, small=small, margin=question.margin)
    for answer in answers(question, rows, noises, count, rng, replicas):
        first = answer[0]
        found.together = first.together
        low, high = by_label(first.labels, first.low), by_label(first.labels, first.high)
        held: dict[str, bool] = {}
        for label, value in low.items():
            here = true.get(label, 0.0)
            if math.isnan(value) or math.isnan(here):
                found.none[label] += math.isnan(value)
                continue
            slack = 1e-9 * (1 + abs(here))
            hit = value - slack <= here <= high[label] + slack
            if first.together:
                group = label.partition(": ")[0] if ": " in label else ""
                held[group] = held.get(group, True) and hit
            else:
                found.asked[label] += 1
                found.hits[label] += hit
            for end, at in (("low", value), ("high", high[label])):
                found.ends[label, end, at] += 1
        for group, all_hold in held.items():
            found.asked[group] += 1
            found.hits[group] += all_hold
    return found


def small_groups(question: Question, rows: dict[str, Any], noise: GridNoise) -> frozenset[str]:
    """Groups in which noise is more than three times sampling, or nobody is."""
    if not isinstance(question, By):
        return frozenset()
    counts = np.bincount(rows[question.group.name], minlength=question.groups)
    return frozenset(
        group
        for group, count in zip(question.group.values, counts.tolist(), strict=True)
        if not count or not question.question.forecast(count, noise).useful
    )


def by_label(labels: tuple[str, ...], values: Any) -> dict[str, float]:
    ravelled = np.ravel(np.asarray(values, dtype=float)).tolist()
    return dict(zip(labels or map(str, range(len(ravelled))), ravelled, strict=True))
