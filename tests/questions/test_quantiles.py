"""Quantiles and the CDF: least squares against dense formulas, targets, coverage, weakened twins."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import veilsum.questions as q
from tests.questions.make import EPSILONS, SIZES
from tests.questions.staged import answered, noises
from veilsum.errors import QuestionError
from veilsum.questions import By, Category, NoisedVector, Question, priced
from veilsum.questions._monotone import isotonic
from veilsum.questions._tree import Tree, best_tree
from veilsum.questions._zoom import ZoomedQuantiles

Floats = NDArray[np.float64]
NINETEEN = tuple(k / 20 for k in range(1, 20))
BINS = 1024
SHAPES = ((20, 3), (37, 4), (64, 2), (10, 10), (9, 2))


def between_0_and_1(at: Any, bins: int = BINS) -> Question:
    found: Question = q.quantiles("x", between=(0, 1), at=at, bins=bins)
    return found


def dense(tree: Tree) -> Floats:
    """Nodes from leaves."""
    return tree.expand(np.eye(tree.bins, dtype=np.int64)).T.astype(float)


@pytest.mark.parametrize(("bins", "branching"), SHAPES)
def test_two_passes_are_least_squares(bins: int, branching: int) -> None:
    tree, rng = Tree(bins, branching), np.random.default_rng(1)
    a = dense(tree)
    z = a @ np.full(bins, 10.0) + rng.normal(0, 5, tree.dimension)
    free = np.linalg.lstsq(a, z, rcond=None)[0]
    np.testing.assert_allclose(tree.leaves(z), free, atol=1e-9)
    covariance, one = np.linalg.inv(a.T @ a), np.ones(bins)
    lack = 10.0 * bins - free.sum()
    fixed = free + covariance @ one * lack / (one @ covariance @ one)
    np.testing.assert_allclose(tree.leaves(z, 10.0 * bins), fixed, atol=1e-9)


@pytest.mark.parametrize(("bins", "branching"), SHAPES)
def test_prefix_variances_are_those_of_the_dense_covariance(bins: int, branching: int) -> None:
    tree = Tree(bins, branching)
    a, one, prefix = dense(tree), np.ones(bins), np.tril(np.ones((bins, bins)))
    private = np.linalg.inv(a.T @ a)
    public = private - np.outer(private @ one, private @ one) / (one @ private @ one)
    np.testing.assert_allclose(
        np.diag(prefix @ public @ prefix.T), tree.variances(True)[1:], atol=1e-9
    )
    for share in (0.0, 0.3, 1.0):
        score = prefix - share
        np.testing.assert_allclose(
            np.diag(score @ private @ score.T), tree.variances(False, share)[1:], atol=1e-9
        )


def test_least_squares_agrees_with_opendp() -> None:
    """Its consistency postprocessor, for a whole tree with a noised root, which ours has not."""
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    tree, rng = Tree(16, 4), np.random.default_rng(2)
    nodes = 5 * (tree.expand(rng.integers(0, 30, 16)) + rng.integers(-9, 10, tree.dimension))
    ours = tree.leaves(nodes.astype(float))
    total = round(float(ours.sum()))  # a root that says what the others do: whole, as d = 4/5
    consistent = dp.t.make_consistent_b_ary_tree(4)
    theirs = np.array(consistent([total, *nodes.tolist()]))
    np.testing.assert_allclose(theirs[-16:], ours, atol=1e-9)


def test_branching_has_the_least_prefix_error() -> None:
    """rms over 1,023 thresholds in counts at epsilon 1, by l1 = 2 a level."""
    rms = {b: Tree(BINS, b).rms() * 2 * Tree(BINS, b).height * math.sqrt(2) for b in (2, 4, 16, 32)}
    assert [round(x, 1) for x in rms.values()] == [29.2, 20.8, 19.9, 18.2]
    best = best_tree(BINS)
    assert best.rms() * 2 * best.height * math.sqrt(2) <= 18.2
    assert best_tree(BINS, gaussian=True).branching < 8 < best.branching


def test_a_price_with_a_delta_chooses_its_tree() -> None:
    one = q.cdf("x", between=(0, 1))
    assert one.tuned(1.0).branching == best_tree(BINS).branching
    assert one.tuned(1.0, 0.01).branching == best_tree(BINS, gaussian=True).branching
    assert By(question=one, group=Category("g", ("a",))).tuned(1.0, 0.01).question.branching == 2  # type: ignore[attr-defined]


def test_measured_prefix_error_is_the_exact_one() -> None:
    """400 replicas of 1,023 thresholds: the ratio of rms has a deviation of about 2%; five of them."""
    one = q.cdf("x", between=(0, 1))
    noise, rng = noises(one, 1.0)[0], np.random.default_rng(3)
    drawn = noise.law.sample((400, one.tree.dimension), rng).astype(float)
    off = np.cumsum(one.tree.leaves(drawn, 0.0), axis=1)[:, :-1]
    assert np.sqrt((off**2).mean()) == pytest.approx(18.1, rel=0.1)


def test_isotonic_is_the_nearest_rising_sequence() -> None:
    optimize = pytest.importorskip("scipy.optimize")
    rng = np.random.default_rng(4)
    for m in (1, 2, 50, 300):
        y, w = rng.normal(size=m).cumsum(), rng.uniform(0.5, 2, m)
        np.testing.assert_allclose(isotonic(y), optimize.isotonic_regression(y).x, atol=1e-9)
        np.testing.assert_allclose(
            isotonic(y, w), optimize.isotonic_regression(y, weights=w).x, atol=1e-9
        )


SHAPES_OF_DATA: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "beta": lambda rng, n: rng.beta(2, 5, n),
    "even": lambda rng, n: rng.random(n),
    "narrow": lambda rng, n: np.clip(rng.normal(0.43, 0.1, n), 0, 1),
    "skewed": lambda rng, n: np.clip(rng.lognormal(0, 0.8, n) / 30, 0, 1),
    "spike": lambda rng, n: np.where(rng.random(n) < 0.6, 0.3337, rng.random(n)),
}


def measured(
    at: Any, data: str, replicas: int, epsilon: float = 1.0, count: int = 969, partial: bool = False,
    **how: Any,
) -> tuple[float, Floats, float]:  # fmt: skip
    """rms of the rank error, coverage of each level, and the share of answers that refuse."""
    question = between_0_and_1(at)
    question = question.within() if partial else question
    rng = np.random.default_rng([count, replicas])
    levels = np.ravel(np.asarray(at))
    off, inside = [], []
    for _ in range(replicas):
        x = SHAPES_OF_DATA[data](rng, count)
        found = answered(question, {"x": x}, epsilon, rng, **how)[0]
        value, low, high = (np.ravel(end) for end in (found.value, found.low, found.high))
        if np.isnan(value).any():
            continue
        ranked = np.sort(x)
        bins = np.minimum((ranked * BINS).astype(int), BINS - 1)
        place = np.minimum((value * BINS).astype(int), BINS - 1)
        below, up_to = (np.searchsorted(bins, place, side) for side in ("left", "right"))
        off.append(
            (np.maximum(below - levels * count, 0) + np.maximum(levels * count - up_to, 0)) / count
        )
        true = ranked[np.ceil(levels * count).astype(int) - 1]
        inside.append((low <= true + 1e-9) & (true <= high + 1e-9))
    if not off:
        return math.nan, np.full(len(levels), math.nan), 1.0
    return (
        float(np.sqrt(np.mean(np.square(off)))), np.mean(inside, axis=0), 1 - len(off) / replicas,
    )  # fmt: skip


@pytest.mark.parametrize("data", SHAPES_OF_DATA)
def test_the_median_is_off_by_a_rank_of_less_than_one_percent(data: str) -> None:
    """Target 0.90% + 10%, and 0.92 on average: 200 replicas are within 5% at one deviation."""
    rms, covered, _ = measured(0.5, data, 200)
    assert rms < 0.0099 * 1.15
    assert covered.min() > 0.95 - 5 * math.sqrt(0.95 * 0.05 / 200)


@pytest.mark.parametrize("data", SHAPES_OF_DATA)
def test_19_quantiles_are_off_by_a_rank_of_at_most_1_41_percent(data: str) -> None:
    """Target 1.28% + 10%; the levels of an answer go together, so 60 replicas are within 4%."""
    rms, covered, _ = measured(NINETEEN, data, 60)
    assert rms < 0.0141 * 1.12
    assert covered.mean() > 0.93


def test_few_quantiles_are_zoomed_in_on_because_that_is_nearer() -> None:
    for at in (0.5, (0.25, 0.5, 0.75)):
        zoomed = between_0_and_1(at)
        assert isinstance(zoomed, ZoomedQuantiles)
        rng = np.random.default_rng(5)
        x = {"x": rng.beta(2, 5, 969)}
        widths = [
            np.mean([np.mean(np.subtract(f.high, f.low)) for f in (
                answered(one, x, 1.0, rng)[0] for _ in range(40))])
            for one in (zoomed, zoomed.at_once())
        ]  # fmt: skip
        assert widths[0] < 0.95 * widths[1]
    assert len(between_0_and_1(NINETEEN).stages) == 1


def test_where_the_number_of_records_is_private_intervals_cover_too() -> None:
    for at in (0.5, (0.1, 0.3, 0.5, 0.7, 0.9)):
        _, covered, refused = measured(at, "beta", 150, partial=True)
        assert covered.min() > 0.95 - 5 * math.sqrt(0.95 * 0.05 / 150)
        assert refused == 0


def test_the_band_holds_the_whole_curve() -> None:
    """Simultaneously: 0.93 to 0.97, here within five deviations of 300 replicas."""
    cdf = q.cdf("x", between=(0, 1), bins=128)
    for question in (cdf, cdf.within()):
        held = curves_held(question, 300)
        assert held > 0.95 - 5 * math.sqrt(0.95 * 0.05 / 300)
        assert held < 0.995


def test_a_weakened_twin_of_the_band_is_found() -> None:
    """It draws twice the noise that it states, as whoever states half of it does."""
    question = q.cdf("x", between=(0, 1), bins=128)
    assert curves_held(question, 100, shrunk=0.5) < 0.6


def curves_held(question: Any, replicas: int, shrunk: float = 1.0) -> float:
    rng = np.random.default_rng(6)
    held = 0
    for _ in range(replicas):
        x = rng.beta(2, 5, 969)
        stated = noises(question, 1.0, shrunk)
        drawn = noises(question, 1.0)
        curve = answered(question, {"x": x}, 1.0, rng, stated=stated, drawn=drawn)[-1]
        true = np.searchsorted(np.sort(x), question.edges[1:-1]) / 969
        held += bool(np.all((curve.low <= true + 1e-9) & (true <= curve.high + 1e-9)))
    return held / replicas


def test_a_population_has_wider_intervals() -> None:
    rng = np.random.default_rng(7)
    x = {"x": rng.beta(2, 5, 300)}
    for question in (between_0_and_1(0.5), between_0_and_1(NINETEEN), q.cdf("x", between=(0, 1))):
        both = [
            answered(question, x, 10.0, np.random.default_rng(8), population=p)[0]
            for p in (False, True)
        ]
        widths = [float(np.mean(np.subtract(found.high, found.low))) for found in both]
        assert widths[1] > 1.3 * widths[0]


def test_the_stages_together_cost_epsilon() -> None:
    """sum over stages of l1/scale is at most epsilon, for every way to ask; twice that for half the noise."""
    for question in (
        between_0_and_1(0.5),
        between_0_and_1(0.5).within(),
        between_0_and_1(NINETEEN),
    ):
        for shrunk in (1.0, 0.5):
            cost = sum(
                statistic.steps(noise.step)[0] / noise.law.scale  # type: ignore[attr-defined]
                for statistic, noise in zip(
                    question.stage_statistics, noises(question, 1.0, shrunk), strict=True
                )
            )
            assert (cost <= 1) is (shrunk == 1.0)


def moves(edges_of: Callable[[Floats], tuple[int, ...]]) -> float:
    """The largest l1 move of cells' counts when one of ten records is replaced, edges found by a rule."""
    rng = np.random.default_rng(9)
    worst = 0.0
    for _ in range(300):
        x = rng.beta(2, 5, 10)
        y = x.copy()
        y[0] = rng.random()
        counts = []
        for one in (x, y):
            asked = ZoomedQuantiles(column=q.Number("x", 0, 1), at=(0.5,))._cells(edges_of(one))
            counts.append(asked.expand(asked.total({"x": one}, priced(
                [asked.statistic], [1.0], 1.0).parts[0].step)))  # fmt: skip
        worst = max(worst, float(np.abs(counts[0] - counts[1]).sum()))
    return worst


def test_cells_of_released_numbers_move_by_two_and_those_of_raw_data_by_more() -> None:
    """The weakened twin cuts cells at the true mean: a bound that depends on data."""
    assert moves(lambda _: (0, 200, 400, BINS)) == 2.0

    def true_mean(x: Floats) -> tuple[int, ...]:
        return (0, min(max(int(x.mean() * BINS), 1), BINS - 1), BINS)

    assert moves(true_mean) > 2.0


def test_cells_are_the_same_for_whoever_has_the_released_vectors() -> None:
    question, rng = between_0_and_1(0.5), np.random.default_rng(10)
    noise = noises(question, 1.0)[0]
    first = question.stage(0, ())
    steps = first.expand(first.total({"x": rng.random(300)}, noise.step))
    values = (steps + noise.law.sample(len(steps), rng)).astype(np.float64)
    vector = NoisedVector(values, noise, 300, 300)
    assert question.stage(1, [vector]) == question.stage(1, [vector])


def test_nothing_is_said_of_nobody() -> None:
    for question in (between_0_and_1(0.5), between_0_and_1(NINETEEN), q.cdf("x", between=(0, 1))):
        rng = np.random.default_rng(11)
        found = answered(question.within(), {"x": np.empty(0)}, 1.0, rng)[0]
        some = np.isnan(np.ravel(found.value)).all()
        wide = np.ravel(found.high) - np.ravel(found.low) > 0.9
        assert some or wide.all()


def test_ends_of_intervals_are_edges_and_the_value_lies_between() -> None:
    rng = np.random.default_rng(12)
    for question in (between_0_and_1(0.5, 64), between_0_and_1(NINETEEN, 64)):
        found = answered(question, {"x": rng.random(500)}, 1.0, rng)[0]
        for end in (found.low, found.high):
            np.testing.assert_allclose(
                np.asarray(end) * 64, np.rint(np.asarray(end) * 64), atol=1e-9
            )
        assert np.all(
            (np.asarray(found.low) <= found.value) & (found.value <= np.asarray(found.high))
        )
        assert "edges of bins" in found.sentence


def test_labels_of_edges_tell_them_apart() -> None:
    one = q.cdf("x", between=(1e6, 1e6 + 1))
    rng = np.random.default_rng(17)
    shown, curve = answered(one, {"x": rng.random(300)}, 1.0, rng)
    assert len(set(curve.labels)) == BINS - 1
    assert len(shown.labels) == 19
    assert shown.together


@pytest.mark.parametrize("at", [0, 1, 1.5, (), (0.9, 0.1), (0.5, 0.5), "half", None])
def test_levels_that_are_none_are_refused(at: Any) -> None:
    with pytest.raises(QuestionError, match="between 0 and 1"):
        between_0_and_1(at)


@pytest.mark.parametrize("bins", [0, 1, 1.5, 2**21])
def test_bins_that_are_none_are_refused(bins: Any) -> None:
    for make in (q.quantiles, q.cdf):
        with pytest.raises(QuestionError, match="bins"):
            make("x", between=(0, 1), bins=bins)


def test_by_group_quantiles_are_asked_at_once() -> None:
    group = Category("g", ("a", "b"))
    asked = By(question=between_0_and_1(0.5, 64), group=group)
    assert len(asked.stages) == 1
    assert asked.statistic.l1 == 2 * best_tree(64).height
    rng = np.random.default_rng(13)
    rows = {"x": rng.random(2000), "g": rng.integers(0, 2, 2000)}
    found = answered(asked, rows, 1.0, rng)[0]
    assert found.labels == ("a", "b")
    assert np.all(np.abs(found.value - 0.5) < 0.15)


def test_forecasts_say_what_will_be() -> None:
    """Half the width of an interval, where values are spread evenly: within a factor of 2."""
    rng = np.random.default_rng(14)
    x = {"x": (np.arange(969) + 0.5) / 969}
    for question in (between_0_and_1(0.5), between_0_and_1(NINETEEN), q.cdf("x", between=(0, 1))):
        forecast = question.forecast(969, noises(question, 1.0)[0])
        found = [answered(question, x, 1.0, rng)[0] for _ in range(20)]
        half = float(np.mean([np.subtract(one.high, one.low) for one in found])) / 2
        assert 0.45 < forecast.half / half < 2
        assert forecast.useful
        assert not question.forecast(15, noises(question, 0.1)[0]).useful


def test_pictures_are_drawn() -> None:
    figure = pytest.importorskip("matplotlib.figure")
    rng = np.random.default_rng(15)
    for question in (between_0_and_1(0.5), between_0_and_1(NINETEEN), q.cdf("x", between=(0, 1))):
        ax = figure.Figure().subplots()
        question.draw(answered(question, {"x": rng.random(300)}, 1.0, rng), ax)
        assert ax.get_xlim() == (0.0, 1.0)
        assert ax.get_xlabel() == "x"


def test_an_answer_from_a_table(tmp_path: Path) -> None:
    asking = pytest.importorskip("veilsum.asking")
    rng = np.random.default_rng(16)
    table = {"x": rng.beta(2, 5, 969)}
    reply = asking.ask(
        table, between_0_and_1(0.5), epsilon=1.0, budget=tmp_path / "x.budget", limit=2.0
    )
    found = reply.decoded[0][0]
    assert found.low <= found.value <= found.high
    assert abs(np.searchsorted(np.sort(table["x"]), found.value) / 969 - 0.5) < 0.06
    assert reply.event.epsilon == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("at", [0.5, (0.1, 0.3, 0.5, 0.7, 0.9)], ids=["median", "five"])
@pytest.mark.parametrize("partial", [False, True], ids=["all", "some"])
def test_coverage_at_all_sizes(at: Any, count: int, epsilon: float, partial: bool) -> None:
    """At least 0.95 of 400 answers hold the true quantile: five deviations below are a failure."""
    for data in ("beta", "spike"):
        rms, covered, refused = measured(at, data, 400, epsilon, count, partial)
        print(
            f"{data} n={count} eps={epsilon}: rank rms {100 * rms:.2f}%, covered {covered.min():.3f} "
            f"to {covered.max():.3f}, refused {refused:.3f}"
        )
        if refused < 1:
            assert covered.min() > 0.95 - 5 * math.sqrt(0.95 * 0.05 / (400 * (1 - refused)))
