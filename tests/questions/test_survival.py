"""Survival: a plain Kaplan-Meier and scipy's log-rank as oracles, targets, bands, weakened twins."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import veilsum.questions as q
from tests.questions.make import EPSILONS, SIZES
from tests.questions.staged import answered, noises
from veilsum.errors import QuestionError
from veilsum.questions import By, Category, Decoded
from veilsum.questions._risk import at_risk, kaplan_meier, log_rank, without_difference
from veilsum.questions.survivals import Survival

Floats = NDArray[np.float64]
LONG, SHORT = 2.0, 1.0  # of follow-up: censoring is even on [0, this], time is asked up to 1


def one_arm(bins: int = 20) -> Survival:
    found: Survival = q.survival("t", between=(0, 1), event="e", bins=bins)
    return found


def two_arms(bins: int = 10) -> Survival:
    found: Survival = q.survival(
        "t", between=(0, 1), event="e", arm="arm", arms=("a", "b"), bins=bins
    )
    return found


def patients(
    count: int, rng: np.random.Generator, hazard_ratio: float = 1.0, follow_up: float = LONG
) -> dict[str, Any]:
    """Exponential times with hazard 1, and even censoring; as columns are read: 0 is an event."""
    arm = rng.integers(0, 2, count)
    time = rng.exponential(1.0, count) / np.where(arm == 1, hazard_ratio, 1.0)
    end = np.minimum(rng.uniform(0, follow_up, count), 1.0)
    return {
        "t": np.minimum(time, end), "e": (time > end).astype(np.int64), "arm": arm.astype(np.int64)
    }  # fmt: skip


def table_of(question: Survival, rows: dict[str, Any]) -> Floats:
    counts = question.total(rows, noises(question, 1.0)[0].step)
    return counts.reshape(len(question.arms), question.bins, 2).astype(np.float64)


def plain_kaplan_meier(rows: dict[str, Any], bins: int) -> list[float]:
    """Patient by patient: at the end of each bin."""
    place = [min(int(t * bins), bins - 1) for t in rows["t"]]
    found, share = [], 1.0
    for k in range(bins):
        here = [e for p, e in zip(place, rows["e"], strict=True) if p == k]
        risk = sum(p >= k for p in place)
        share *= 1 - (here.count(0) / risk if risk else 0)
        found.append(share)
    return found


def test_curves_are_those_of_a_plain_kaplan_meier() -> None:
    rng = np.random.default_rng(1)
    for follow_up in (SHORT, LONG):
        rows = patients(200, rng, follow_up=follow_up)
        found = kaplan_meier(table_of(one_arm(12), rows))[0]
        np.testing.assert_allclose(found, plain_kaplan_meier(rows, 12), atol=1e-12)


def test_log_rank_is_that_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(2)
    for ratio in (1.0, 2.0):
        rows = patients(150, rng, ratio)
        question = two_arms()
        bins = np.minimum((rows["t"] * 10).astype(int), 9)
        arms = []
        for arm in (0, 1):
            of_arm, event = rows["arm"] == arm, rows["e"] == 0
            arms.append(stats.CensoredData(
                uncensored=bins[of_arm & event], right=bins[of_arm & ~event]))  # fmt: skip
        theirs = stats.logrank(*arms)
        assert float(log_rank(table_of(question, rows))) == pytest.approx(theirs.statistic)


def test_the_null_table_keeps_numbers_and_has_one_hazard() -> None:
    rows = patients(800, np.random.default_rng(3), 2.0)
    table = table_of(two_arms(), rows)
    null = without_difference(table)
    np.testing.assert_allclose(null.sum(axis=(1, 2)), table.sum(axis=(1, 2)))
    assert float(log_rank(null)) == pytest.approx(0.0, abs=1e-9)
    hazard = null[..., 0] / at_risk(null)
    np.testing.assert_allclose(hazard[0], hazard[1], atol=1e-9)
    one = without_difference(table[:1])
    np.testing.assert_allclose(one, table[:1], atol=1e-9)


def test_who_has_no_event_by_the_end_is_censored() -> None:
    """At the end of the range, or beyond it: an event there is none of the range."""
    rows = {"t": np.array([0.5, 1.0, 1.0]), "e": np.array([0, 0, 1])}
    table = table_of(one_arm(4), rows)[0]
    assert table.tolist() == [[0, 0], [0, 0], [1, 0], [0, 2]]


def test_events_are_what_is_said() -> None:
    question = q.survival(
        "t", between=(0, 1), event="state", events=("dead", "gone"), censored=("alive",), bins=2
    )
    read = question.event.read(np.array(["gone", "alive", "dead", "other"]))
    rows = {"t": np.array([0.1, 0.1, 0.7, 0.7])[read >= 0], "state": read[read >= 0]}
    assert table_of(question, rows)[0].tolist() == [[1, 1], [1, 0]]


def test_curves_are_off_by_what_the_target_says() -> None:
    """rms over 20 bins <= 0.0108 + 10%, n = 969, epsilon 1; 100 replicas are within 4%."""
    question, rng = one_arm(), np.random.default_rng(4)
    off = []
    for _ in range(100):
        rows = patients(969, rng)
        found = answered(question, rows, 1.0, rng)[0]
        off.append(found.value - plain_kaplan_meier(rows, 20))
    assert np.sqrt(np.mean(np.square(off))) < 0.0108 * 1.1


def held(
    question: Any, replicas: int, epsilon: float = 1.0, count: int = 969, shrunk: float = 1.0,
    follow_up: float = LONG,
) -> tuple[Floats, float]:  # fmt: skip
    """How often the band has the curve of these records, at each bin; and the share that refuse."""
    rng = np.random.default_rng([count, replicas])
    stated, drawn = noises(question, epsilon, shrunk), noises(question, epsilon)
    hits = []
    for _ in range(replicas):
        rows = patients(count, rng, follow_up=follow_up)
        found = answered(question, rows, epsilon, rng, stated=stated, drawn=drawn)[0]
        true = kaplan_meier(table_of(question, rows)).ravel()
        if not np.isnan(found.low).any():
            hits.append((found.low <= true + 1e-9) & (true <= found.high + 1e-9))
    refused = 1 - len(hits) / replicas
    return (np.mean(hits, axis=0) if hits else np.full(1, math.nan)), refused


@pytest.mark.parametrize("partial", [False, True], ids=["all", "some"])
@pytest.mark.parametrize("follow_up", [SHORT, LONG])
def test_bands_cover(partial: bool, follow_up: float) -> None:
    """0.95 at each bin, within five deviations of 200 replicas; more where nobody is at risk."""
    question = one_arm().within() if partial else one_arm()
    covered, refused = held(question, 200, follow_up=follow_up)
    assert refused == 0
    assert covered.min() > 0.95 - 5 * math.sqrt(0.95 * 0.05 / 200)
    assert 0.92 < covered.mean() < 0.985


def test_a_weakened_twin_of_the_bands_is_found() -> None:
    """Noise of twice the stated deviation: about 0.67 are held."""
    covered, _ = held(one_arm(), 100, shrunk=0.5)
    assert covered.mean() < 0.8


def rejected(
    question: Survival, replicas: int, ratio: float, seed: int, order: float = 1.0
) -> float:
    """The share of answers that find a difference; `order` is how often the noise is drawn."""
    rng = np.random.default_rng(seed)
    found = 0
    stated = noises(question, 1.0 / math.sqrt(order))
    for _ in range(replicas):
        answer = answered(question, patients(969, rng, ratio), 1.0, rng, stated=stated)
        found += p_value(answer) <= 0.05
    return found / replicas


def p_value(answer: tuple[Decoded, ...]) -> float:
    (found,) = (one for one in answer if one.quantity.startswith("p-value"))
    return float(found.value)


def test_log_rank_finds_a_hazard_ratio_of_1_3() -> None:
    """Power 0.719 at epsilon 1 (0.84 without noise): 150 answers, five deviations below."""
    assert rejected(two_arms(), 150, 1.3, 5) > 0.719 - 5 * math.sqrt(0.72 * 0.28 / 150)
    assert rejected(two_arms(), 150, 1.0, 6) < 0.05 + 5 * math.sqrt(0.05 * 0.95 / 150)


def test_without_noise_in_the_critical_value_too_much_is_found() -> None:
    """The weakened twin compares with 1.96, as if there were no noise."""
    question, rng = two_arms(), np.random.default_rng(7)
    noise = noises(question, 0.5)[0]
    beyond = 0
    for _ in range(400):
        true = table_of(question, patients(969, rng)).ravel()
        noised = true + noise.law.sample(len(true), rng)
        beyond += abs(float(log_rank(question._table(noised, 969)))) > 1.96
    assert beyond / 400 > 0.08


@pytest.mark.slow
def test_log_rank_has_its_size_and_its_power() -> None:
    """Size 0.04 to 0.06 (1,500 answers: one deviation is 0.0056), power 0.719 central, 0.67 masked."""
    size, power = rejected(two_arms(), 1500, 1.0, 8), rejected(two_arms(), 500, 1.3, 9)
    masked = rejected(two_arms(), 500, 1.3, 10, order=969 / 683)
    print(f"size {size:.4f}, power {power:.3f}, masked {masked:.3f}")
    assert 0.04 - 2 * 0.0056 < size < 0.06 + 2 * 0.0056
    assert power > 0.719
    assert masked > 0.67


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("partial", [False, True], ids=["all", "some"])
def test_coverage_at_all_sizes(count: int, epsilon: float, partial: bool) -> None:
    """400 replicas, five deviations below 0.95 at the worst bin; a refusal where noise is too much."""
    question = one_arm().within() if partial else one_arm()
    covered, refused = held(question, 400, epsilon, count)
    useful = question.forecast(count, noises(question, epsilon)[0]).useful
    print(
        f"n={count} eps={epsilon}: covered {covered.min():.3f} to {covered.max():.3f}, refused "
        f"{refused:.3f}, forecast {'useful' if useful else 'not useful'}"
    )
    assert refused < 0.05 or not useful
    if useful:
        assert covered.min() > 0.95 - 5 * math.sqrt(0.95 * 0.05 / 400)


def test_answers_say_what_a_reader_needs() -> None:
    rng = np.random.default_rng(11)
    curves, test, numbers = answered(two_arms(), patients(4941, rng, 3.0), 1.0, rng)
    assert curves.labels[:2] == ("a: 0.1", "a: 0.2")
    assert "in a" in curves.sentence
    assert "have had no event by 1" in curves.sentence
    assert test.value < 0.01
    assert "The arms differ" in test.sentence
    assert numbers.labels == ("a", "b")
    assert numbers.low[0] < 4941 / 2 + 150
    assert numbers.detail


def test_too_few_are_not_answered_for() -> None:
    rng = np.random.default_rng(12)
    curves, test, _ = answered(two_arms(), patients(15, rng), 0.1, rng)
    assert np.isnan(curves.value).all()
    assert math.isnan(test.value)
    assert "oo few records" in curves.sentence
    assert not two_arms().forecast(15, noises(two_arms(), 0.1)[0]).useful


def test_a_population_has_wider_bands() -> None:
    rows = patients(300, np.random.default_rng(13))
    both = [
        answered(one_arm(), rows, 10.0, np.random.default_rng(14), population=p)[0]
        for p in (False, True)
    ]
    widths = [float(np.mean(one.high - one.low)) for one in both]
    assert widths[1] > 2 * widths[0]


def test_the_same_release_has_the_same_answer() -> None:
    rows = patients(300, np.random.default_rng(15))
    both = [answered(two_arms(), rows, 1.0, np.random.default_rng(16)) for _ in range(2)]
    assert p_value(both[0]) == p_value(both[1])
    np.testing.assert_array_equal(both[0][0].low, both[1][0].low)


def test_by_group() -> None:
    rng = np.random.default_rng(17)
    asked = By(question=one_arm(4), group=Category("site", ("x", "y")))
    rows = patients(2000, rng) | {"site": rng.integers(0, 2, 2000)}
    found = answered(asked, rows, 1.0, rng)[0]
    assert found.labels[0] == "x: 0.25"
    assert np.all(found.low <= found.value)
    arms = answered(By(question=two_arms(4), group=asked.group), rows, 1.0, rng)
    assert arms[0].labels[4] == "x: b: 0.25"
    assert arms[1].labels == ("x", "y")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"bins": 1}, "bins"),
        ({"arm": "arm"}, "arms"),
        ({"arms": ("a", "b")}, "arms"),
        ({"events": ()}, "happened"),
        ({"censored": ()}, "happened"),
        ({"between": (1, 0)}, "bounds"),
        ({"events": ("1",), "censored": ("1",)}, "different"),
    ],
)
def test_what_makes_no_question_is_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(QuestionError, match=says):
        q.survival("t", **({"between": (0, 1), "event": "e"} | wrong))


def test_pictures_are_drawn() -> None:
    figure = pytest.importorskip("matplotlib.figure")
    rng = np.random.default_rng(18)
    for question in (one_arm(), two_arms()):
        ax = figure.Figure().subplots()
        question.draw(answered(question, patients(500, rng), 1.0, rng), ax)
        assert len(ax.lines) == len(question.arms)
        assert ax.get_ylim() == (0.0, 1.0)
        assert ax.get_ylabel() == "share without e"
