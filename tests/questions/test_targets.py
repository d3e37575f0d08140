"""How exact answers are: numbers derived by hand, and errors against their formulas.

The central setting of the derivations: 969 records, epsilon 1, one record replaced by any other, their
number public. 4,000 replicas know an rms to 1.1% (normal) or 1.8% (Laplace): 10% is 5 deviations, a false
alarm below 1e-6.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.questions.make import answers, noise_of, noises_of, records, released, vector
from veilsum import questions
from veilsum.questions import By, Category, Decoded, Question

N, REPLICAS = 969, 4000


def errors(question: Question, rows: dict[str, np.ndarray], *places: int) -> np.ndarray:
    """(replicas, components): released minus true values of some findings, the first by default."""
    rng = np.random.default_rng(11)
    noises = noises_of(question, 1.0)
    (true,) = answers(question, rows, noises, N, rng, 1, silent=True)
    found = answers(question, rows, noises, N, rng, REPLICAS)

    def values(answer: tuple[Decoded, ...]) -> np.ndarray:
        return np.concatenate([np.ravel(answer[place].value) for place in places or (0,)])

    return np.asarray(np.array([values(answer) for answer in found]) - values(true))


def rms(question: Question, rows: dict[str, np.ndarray]) -> float:
    return float(np.sqrt(np.mean(errors(question, rows) ** 2)))


def test_a_share_of_a_histogram() -> None:
    histogram = questions.histogram("x", between=(0, 1), bins=20)
    assert noise_of(histogram, 1.0).sd / N == pytest.approx(0.00289, abs=5e-6)


def test_a_proportion() -> None:
    proportion = questions.proportion("c", values=["a"])
    rows = {"c": np.random.default_rng(1).integers(0, 2, N)}
    assert noise_of(proportion, 1.0).sd / N == pytest.approx(0.00140, abs=5e-6)
    assert rms(proportion, rows) == pytest.approx(0.00140, rel=0.1)


@pytest.mark.parametrize(("bins", "target"), [(10, 0.0102), (20, 0.0200), (50, 0.0496)])
def test_the_total_variation_of_a_histogram(bins: int, target: float) -> None:
    """Within 10%: the derivation does not say of which distribution; here all bins are equally likely."""
    histogram = questions.histogram("x", between=(0, 1), bins=bins)
    rows = {"x": np.random.default_rng(1).random(N)}
    distance = np.abs(errors(histogram, rows)).sum(axis=1).mean() / 2
    assert distance < 1.1 * target


def test_a_mean_with_its_variance_costs_an_eighth_more_than_a_mean_alone() -> None:
    mean = questions.mean("x", between=(0.0, 10.0))
    variance = questions.variance("x", between=(0.0, 10.0))
    x = np.random.default_rng(1).normal(0.5, 0.15, N).clip(0, 1)
    rows = {"x": x}
    alone = rms(mean, rows)
    spread, also = np.sqrt(np.mean(errors(variance, rows, 0, 2) ** 2, axis=0))
    formula = 10 * math.sqrt(2) / N
    assert alone == pytest.approx(formula, rel=0.1)
    assert also == pytest.approx(1.125 * formula, rel=0.1)
    assert 1.125 * formula == pytest.approx(0.0164, abs=5e-5)
    assert spread == pytest.approx(0.082, rel=0.1)
    law, other = noise_of(mean, 1.0), noise_of(variance, 1.0)
    assert other.sd / 2 <= 1.13 * law.sd  # u moves by 2 where s moves by 1


@pytest.mark.parametrize("m", [0.0, 0.1, 0.3, 0.5, 0.9, 1.0])
def test_a_mean_of_some_with_its_variance_costs_at_most_1_118_times(m: float) -> None:
    """-m X_A + (1/2 - m) X_B + (1 - m) X_C against (1 - m) X_A - m X_B."""
    mean = questions.mean("x", between=(0, 1)).within()
    variance = questions.variance("x", between=(0, 1)).within()
    alone = noise_of(mean, 1.0).sd * math.hypot(1 - m, m)
    also = noise_of(variance, 1.0).sd * math.hypot(m, 0.5 - m, 1 - m)
    assert also <= math.sqrt(1.25) * alone * (1 + 1e-6)


@pytest.mark.parametrize(("groups", "target"), [
    (2, 0.0045), (10, 0.0228),
    pytest.param(5, 0.0113, marks=pytest.mark.slow), pytest.param(20, 0.048, marks=pytest.mark.slow),
])  # fmt: skip
def test_means_by_group(groups: int, target: float) -> None:
    """beta(2, 5) in groups of one size; 15% for 20 groups of 48, where the noise of a ratio has a tail."""
    rng = np.random.default_rng(1)
    names = Category("g", [f"g{k}" for k in range(groups)])
    by = By(question=questions.mean("x", between=(0, 1)), group=names)
    rows = {"x": rng.beta(2, 5, N), "g": np.arange(N) % groups}
    assert rms(by, rows) == pytest.approx(target, rel=0.15 if groups == 20 else 0.1)


def test_a_sum_a_count_and_the_sum_of_some() -> None:
    rng = np.random.default_rng(1)
    rows = {"x": rng.beta(2, 5, N)}
    total = questions.sum("x", between=(-2.0, 6.0))
    assert rms(total, rows) == pytest.approx(8 * math.sqrt(2), rel=0.1)
    assert rms(total.within(), rows) == pytest.approx(8 * math.sqrt(2), rel=0.1)
    r = math.exp(-1)
    assert rms(questions.count(), {"": np.zeros(400)}) == pytest.approx(
        math.sqrt(2 * r) / (1 - r), rel=0.1
    )


def test_the_power_of_a_test() -> None:
    test = questions.test("vote", value="yes", null=0.5, alternative=0.55)
    assert test.power(N, noise_of(test, 1.0)) == pytest.approx(0.93, abs=0.005)
    assert test.power(N, noise_of(test, 300.0)) == pytest.approx(0.93, abs=0.02)  # none: 0.915


def test_the_level_and_the_power_of_a_test_are_what_it_says() -> None:
    """20,000 tests of three categories: 5 sd of a probability is 0.008 at 0.05 and 0.018 at 1/2."""
    rng, n = np.random.default_rng(1), 300
    test = questions.test(
        "c",
        categories=("a", "b", "c"),
        null=(0.5, 0.3, 0.2),
        alternative=(0.42, 0.3, 0.28),
        clip=0.3,
    )
    noise = noise_of(test, 1.0)
    critical = test.critical(n, noise)
    for p, share, slack in (
        (test.null, test._beyond(test.null, critical, n, noise), 0.008),
        (test.alternative, test.power(n, noise), 0.018),
    ):
        counts = rng.multinomial(n, p, 20_000)
        found = counts @ test.scores + noise.law.sample(20_000, rng)
        assert np.mean(found >= critical) == pytest.approx(share, abs=slack)
    assert test._beyond(test.null, critical, n, noise) <= 0.05
    assert test._beyond(test.null, critical - 1, n, noise) > 0.05


def test_a_weakened_critical_value_that_forgets_the_noise_exceeds_the_level() -> None:
    """1.645 deviations of the count alone: size 0.05 without noise, far more with it at epsilon 0.1."""
    test = questions.test("vote", value="yes", null=0.5, alternative=0.55)
    noise, n = noise_of(test, 0.1), 969
    naive = math.ceil(n / 2 + 1.645 * math.sqrt(n) / 2)
    assert test._beyond(test.null, naive, n, noise) > 0.1
    assert test._beyond(test.null, test.critical(n, noise), n, noise) <= 0.05


def test_heavy_hitters_are_found_from_2_3_percent_on() -> None:
    """P(count + X >= t) >= 0.9 of 1,000 candidates; t exact, so that 5% of releases name an absent one."""
    hitters = questions.heavy_hitters("app", candidates=[f"app {k}" for k in range(1000)])
    noise = noise_of(hitters, 1.0)
    t = hitters.threshold(noise)
    draws = np.random.default_rng(1).laplace(0, 2, 200_000).round()
    needed = t - float(np.quantile(draws, 0.1))
    assert needed / N <= 0.023
    rng = np.random.default_rng(2)
    largest = np.array([noise.law.sample(1000, rng).max() for _ in range(4000)])
    assert np.mean(largest >= t) <= 0.05 + 5 * math.sqrt(0.05 * 0.95 / 4000)
    assert np.mean(largest >= t - 2) > 0.05 + 5 * math.sqrt(0.05 * 0.95 / 4000)


def test_heavy_hitters_names_the_frequent_and_counts_the_others() -> None:
    hitters = questions.heavy_hitters("app", candidates=["a", "b", "c"])
    noise = noise_of(hitters, 1.0)
    column = hitters.column.read(np.array(["a"] * 200 + ["b"] * 100 + ["z"] * 50))
    true = vector(hitters, {"app": column}, noise)
    assert true.tolist() == [200, 100, 0, 50]
    named, counts, _ = hitters.decode(released(hitters, true, noise, 350))
    assert named.labels == ("a", "b")
    assert counts.labels == ("a", "b", "c", "any other")


REPEATED = 400
CELLS = [(969, 1.0), (969, 10.0), (4941, 0.1)]
POPULATION = [
    questions.mean("x", between=(0.0, 10.0)),
    questions.mean("x", between=(0.0, 10.0)).within(),
    questions.proportion("c", values="a", categories=("a", "b")),
    questions.proportion("c", values="a", categories=("a", "b")).within(),
    questions.histogram("c", categories=("a", "b", "c")),
    questions.histogram("c", categories=("a", "b", "c")).within(),
]


@pytest.mark.parametrize("question", POPULATION)
@pytest.mark.parametrize(("count", "epsilon"), [
    (300, 1.0), *(pytest.param(*cell, marks=pytest.mark.slow) for cell in CELLS)
])  # fmt: skip
def test_intervals_of_a_population_cover_it(question: Question, count: int, epsilon: float) -> None:
    """New records and new noise in each of 400 replicas; 5 sd below 0.95 is 0.896."""
    asked, replicas = question.of_population(), REPEATED
    rng = np.random.default_rng([count, int(10 * epsilon)])
    noise = noise_of(asked, epsilon)
    kinds = len(asked.columns[0].values) if asked.columns[0].places else 0  # type: ignore[attr-defined]
    p = np.array([0.3, 0.7] if kinds == 2 else [0.2, 0.3, 0.5])
    truth = (
        p if isinstance(question, type(POPULATION[4])) else p[:1] if kinds else np.array([20 / 7])
    )
    hits = np.zeros(len(truth))
    for _ in range(replicas):
        values = rng.choice(len(p), count, p=p) if kinds else rng.beta(2, 5, count)
        steps = vector(asked, {asked.columns[0].name: values}, noise)
        found = asked.decode(
            released(
                asked, steps + noise.law.sample(len(steps), rng), noise, count, population=True
            )
        )[0]
        hits += (np.ravel(found.low) <= truth) & (truth <= np.ravel(found.high))
    assert (hits / replicas).min() > 0.95 - 5 * math.sqrt(0.95 * 0.05 / replicas)
    assert (hits / replicas).max() < 0.99


def test_without_sampling_such_an_interval_misses_the_population() -> None:
    """The weakened twin: the interval of these records, taken for one of the population."""
    question = questions.proportion("c", values="a", categories=("a", "b"))
    rng, noise = np.random.default_rng(1), noise_of(question, 1.0)
    hits = 0
    for _ in range(400):
        rows = {"c": rng.choice(2, 969, p=[0.3, 0.7])}
        steps = vector(question, rows, noise) + noise.law.sample(1, rng)
        found = question.decode(released(question, steps, noise, 969))[0]
        hits += found.low <= 0.3 <= found.high
    assert hits / 400 < 0.5


@pytest.mark.parametrize("question", [
    questions.count(), questions.distinct(), questions.sum("x", between=(0, 1)),
    questions.variance("x", between=(0, 1)), questions.heavy_hitters("c", candidates=["a"]),
])  # fmt: skip
def test_questions_without_a_population_say_so(question: Question) -> None:
    with pytest.raises(Exception, match=r"no interval of a population.*mean, proportion"):
        question.of_population()


def test_a_population_s_mean_has_the_vector_of_a_variance() -> None:
    mean, variance = (ask("x", between=(0, 1)) for ask in (questions.mean, questions.variance))
    assert mean.of_population().terms() == variance.terms()
    assert mean.of_population().name == "mean"
    by = By(question=mean, group=Category("g", ["p", "q"])).of_population()
    rows = records(by, 300, np.random.default_rng(1))
    noise = noise_of(by, 1.0)
    steps = vector(by, rows, noise)
    found = by.decode(replace(released(by, steps, noise, 300), population=True))
    assert found[0].quantity == "mean of x by g"
    assert "population" not in found[0].quantity


@pytest.mark.parametrize("beyond", [0.01, 0.05])
def test_records_beyond_the_bounds_are_seen_and_count_as_the_bound(beyond: float) -> None:
    """1% and 5% of records above: their share is above its noise, and the mean is that of clipped records."""
    rng, above = np.random.default_rng(1), round(beyond * N)
    values = np.concatenate([rng.uniform(0, 10, N - above), rng.uniform(20, 1000, above)])
    mean = questions.mean("x", between=(0.0, 10.0))
    share = questions.clipped("x", between=(0.0, 10.0))
    covered = np.zeros(2)
    for question, truth, k in ((mean, values.clip(0, 10).mean(), 0), (share, above / N, 1)):
        noise = noise_of(question, 1.0)
        true = vector(question, {"x": question.columns[0].read(values)}, noise)
        for _ in range(REPEATED):
            steps = true + noise.law.sample(len(true), rng)
            found = question.decode(released(question, steps, noise, N))[0]
            low, high = np.ravel(found.low)[-1], np.ravel(found.high)[-1]
            covered[k] += low <= truth <= high
            if beyond == 0.05:
                assert k == 0 or low > 0
    assert (covered / REPEATED > 0.95 - 5 * math.sqrt(0.95 * 0.05 / REPEATED)).all()


def test_a_clipped_share_says_how_many_count_as_a_bound() -> None:
    clipped = questions.clipped("x", between=(0.0, 10.0))
    noise = noise_of(clipped, 1.0)
    (found,) = clipped.decode(released(clipped, [0, 900, 100], noise, 1000))
    assert "10% above 10" in found.sentence
    assert found.labels == ("below 0", "0 to 10", "above 10")


@pytest.mark.parametrize("rows", [["1", "2"], ["1"] * 7])
def test_a_table_is_what_a_count_of_pairs_is(rows: list[str]) -> None:
    table = questions.table("a", "b", categories=(("1", "2"), ("u", "v", "w")))
    noise = noise_of(table, 1.0)
    a, b = np.array(rows), np.array(["w"] * len(rows))
    read = {"a": table.down.read(a), "b": table.across.read(b)}
    expected = [0, 0, rows.count("1"), 0, 0, rows.count("2")]
    assert vector(table, read, noise).tolist() == expected
