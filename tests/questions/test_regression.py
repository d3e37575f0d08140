"""Linear regression: its sensitivity is proved and attained, its coefficients are those of least squares."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from tests.questions.make import answers, noises_of, only, released, vector
from veilsum.errors import QuestionError
from veilsum.questions import QUESTIONS, NoisedVector, Question
from veilsum.questions._moments import UNIT, box_norms, pairs, products
from veilsum.questions.options import made, spelling

REPLICAS = 200
LEAST = 0.95 - 5 * math.sqrt(0.95 * 0.05 / REPLICAS)  # of coverage: a false alarm below 1e-6


def regression(columns: int) -> Question:
    names = [f"x{k}" for k in range(columns)]
    between = dict.fromkeys(["y", *names], (-1.0, 1.0))
    return QUESTIONS["regression"].make("y", *names, between=between)


def moments(v: Any) -> Any:
    """(..., m) -> v_i and v_i v_j, without rounding."""
    v = np.asarray(v, dtype=float)
    z = np.concatenate([np.ones((*v.shape[:-1], 1)), v], axis=-1)
    i, j = pairs(z.shape[-1], counted=False)
    return z[..., i] * z[..., j]


def norms(v: Any, w: Any) -> tuple[Any, Any]:
    moved = np.abs(moments(v) - moments(w))
    return moved.sum(-1), np.sqrt((moved**2).sum(-1))


@pytest.mark.parametrize("m", range(1, 9))
def test_both_norms_are_attained(m: int) -> None:
    """All 1 against all -1/(m + 1); floor(p/2) signs changed."""
    l1, l2 = box_norms(m)
    assert norms(np.ones(m), np.full(m, -1 / (m + 1)))[0] == pytest.approx(l1)
    changed = np.where(np.arange(m) < (m + 1) // 2, -1.0, 1.0)
    assert norms(np.ones(m), changed)[1] == pytest.approx(l2)


@pytest.mark.parametrize(("m", "step"), [(1, 1 / 64), (2, 1 / 6), (3, 1 / 2)])
def test_no_pair_of_a_grid_exceeds_them(m: int, step: float) -> None:
    ends = np.arange(-1, 1 + step / 2, step)
    every = np.array(list(itertools.product(ends, repeat=m)))
    l1, l2 = norms(every[:, None], every[None])
    assert l1.max() <= box_norms(m)[0] + 1e-12
    assert l2.max() <= box_norms(m)[1] + 1e-12
    assert l1.max() >= 0.95 * box_norms(m)[0]


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("norm", [0, 1])
def test_an_optimiser_comes_within_a_hundredth_and_not_beyond(m: int, norm: int) -> None:
    from scipy.optimize import differential_evolution

    def negative(vw: Any) -> float:
        return -float(norms(vw[:m], vw[m:])[norm])

    found = differential_evolution(
        negative, [(-1, 1)] * (2 * m), seed=m, maxiter=60 * m, tol=1e-10, popsize=12
    )
    stated = box_norms(m)[norm]
    assert 0.99 * stated <= -found.fun <= stated * (1 + 1e-12)


@pytest.mark.parametrize("m", [2, 4, 7])
def test_no_random_pair_exceeds_them_in_whole_steps(m: int) -> None:
    """Of the encoding itself: rounding costs nothing more."""
    rng = np.random.default_rng(m)
    question = regression(m - 1)
    rows = {c.name: rng.choice([0.0, 1.0, 0.25, 0.33, rng.random()], 400) for c in question.columns}
    l1, l2 = question.statistic.steps(1)
    each = question.encode(rows).parts
    assert each is not None
    assert (each == np.rint(each)).all()
    moved = np.abs(each[:, None] - each[None])
    assert moved.sum(-1).max() <= l1
    assert np.sqrt((moved**2).sum(-1)).max() <= l2
    assert l1 == pytest.approx(box_norms(m)[0] * UNIT, rel=1e-9)


def test_known_sensitivities() -> None:
    found = [round(box_norms(m)[0], 3) for m in (1, 2, 3, 4)]
    assert found == [2.25, 5.333, 9.375, 14.4]
    assert [box_norms(m)[1] ** 2 for m in (1, 2, 3, 4)] == pytest.approx([4, 8, 16, 24])


def test_the_law_is_laplace_to_five_moments_and_gaussian_beyond() -> None:
    laws = [noises_of(regression(k), 1.0, 1e-6)[0].law.name for k in (1, 2, 3, 4, 5)]
    assert laws == ["discrete Laplace"] * 3 + ["Gaussian"] * 2


def test_without_noise_it_is_least_squares_in_the_columns_own_units() -> None:
    rng = np.random.default_rng(1)
    between = {"kwh": (0, 40), "area": (20, 300), "people": (0, 8)}
    question = QUESTIONS["regression"].make("kwh", "area", "people", between=between)
    rows = {"area": rng.beta(2, 5, 500), "people": rng.random(500)}
    rows["kwh"] = np.clip(0.2 + 0.5 * rows["area"] + 0.1 * rng.standard_normal(500), 0, 1)
    slopes, intercept, residual = next(
        answers(question, rows, noises_of(question, 1.0), 500, rng, 1, silent=True)
    )
    x = np.stack([np.ones(500), 20 + 280 * rows["area"], 8 * rows["people"]], axis=1)
    y = 40 * rows["kwh"]
    best, squares = np.linalg.lstsq(x, y, rcond=None)[:2]
    assert slopes.labels == ("area", "people")
    np.testing.assert_allclose(slopes.value, best[1:], rtol=0.02, atol=2e-4)
    assert intercept.value == pytest.approx(best[0], abs=0.05)
    assert residual.value == pytest.approx(math.sqrt(squares[0] / 497), rel=0.01)


def standard(columns: int, count: int, rng: np.random.Generator) -> dict[str, Any]:
    """x even on [-1, 1], slopes of length 1/2, errors of deviation 0.2."""
    x = rng.uniform(-1, 1, (count, columns))
    y = x.sum(1) * (0.5 / math.sqrt(columns)) + 0.2 * rng.standard_normal(count)
    found = {f"x{k}": (x[:, k] + 1) / 2 for k in range(columns)}
    return found | {"y": np.clip((y + 1) / 2, 0, 1)}


@pytest.mark.parametrize(
    ("count", "coefficients", "target"),
    [(969, 2, 0.029), (969, 4, 0.073), (4941, 4, 0.0149), (20000, 6, 0.0057)],
)
def test_errors_of_slopes_are_within_a_tenth_of_the_target(
    count: int, coefficients: int, target: float
) -> None:
    """Root mean square over slopes and replicas; targets count the intercept among d coefficients."""
    question = regression(coefficients - 1)
    rng = np.random.default_rng(7)
    noises, true = noises_of(question, 1.0, 1e-6), 0.5 / math.sqrt(coefficients - 1)
    squares = []
    for _ in range(120):
        rows = standard(coefficients - 1, count, rng)
        (found,) = answers(question, rows, noises, count, rng, 1)
        squares.append(np.mean((found[0].value - true) ** 2))
    assert math.sqrt(np.mean(squares)) <= 1.1 * target


def covered(question: Question, columns: int, count: int, epsilon: float, population: bool) -> Any:
    """How often each finding's intervals hold, of these records or of the model."""
    rng = np.random.default_rng([count, columns, int(epsilon * 10)])
    noises = noises_of(question, epsilon)
    hits: list[Any] = []
    rows = standard(columns, count, rng)
    (exact,) = answers(question, rows, noises, count, rng, 1, silent=True)
    true = [0.5 / math.sqrt(columns), 0.0, 0.2] if population else [f.value for f in exact]
    for _ in range(REPLICAS):
        if population:
            rows = standard(columns, count, rng)
        (found,) = answers(question, rows, noises, count, rng, 1, population=population)
        hits.append([
            np.mean((f.low <= t) & (t <= f.high)) for f, t in zip(found, true, strict=True)
        ])  # fmt: skip
    return np.mean(hits, axis=0)


@pytest.mark.parametrize(
    ("count", "columns", "epsilon"), [(300, 1, 1.0), (969, 2, 1.0), (300, 3, 10.0)]
)
def test_intervals_cover_slopes_intercept_and_residuals(
    count: int, columns: int, epsilon: float
) -> None:
    assert (covered(regression(columns), columns, count, epsilon, False) > LEAST).all()


@pytest.mark.parametrize("count", [300, 4941])
def test_intervals_of_a_population_cover_the_model(count: int) -> None:
    """The residuals' interval is of these records in any case."""
    found = covered(regression(1), 1, count, 1.0 if count > 300 else 10.0, True)
    assert (found[:2] > LEAST).all()
    noise_only = covered(regression(1), 1, 4941, 10.0, False)
    assert (noise_only > LEAST).all()


def test_an_interval_of_a_population_is_wider() -> None:
    rng = np.random.default_rng(3)
    question = regression(1)
    noise = noises_of(question, 10.0)[0]
    rows = standard(1, 300, rng)
    true = vector(question, rows, noise)
    widths = []
    for population in (False, True):
        slopes = question.decode(released(question, true, noise, 300, population))[0]
        widths.append(float(slopes.high[0] - slopes.low[0]))
    assert widths[1] > 1.5 * widths[0]


def test_where_noise_hides_it_nothing_is_said() -> None:
    question = regression(2)
    noise = noises_of(question, 0.1)[0]
    found = question.decode(NoisedVector(np.zeros(question.dimension), noise, 15, 15))
    assert np.isnan(found[0].value).all()
    assert np.isnan(found[0].low).all()
    assert "Noise hides" in found[0].sentence
    assert not question.forecast(15, noise).useful
    assert question.forecast(100_000, noises_of(question, 1.0)[0]).useful


def test_a_slope_near_zero_is_covered_by_an_interval_that_has_it() -> None:
    question = regression(1)
    rng = np.random.default_rng(5)
    rows = {"x0": rng.random(4941), "y": rng.random(4941)}
    (found,) = answers(question, rows, noises_of(question, 1.0), 4941, rng, 1)
    assert found[0].low[0] < 0 < found[0].high[0]


def test_some_records_have_a_noised_number() -> None:
    question = regression(1).within()
    rng = np.random.default_rng(6)
    rows = only(standard(1, 4941, rng), rng.random(4941) < 0.5)
    (found,) = answers(question, rows, noises_of(question, 1.0), 4941, rng, 1)
    count = found[-1]
    assert count.quantity == "records"
    assert count.low <= len(rows["y"]) <= count.high
    assert found[0].low[0] < 0.5 < found[0].high[0]


def test_a_weakened_twin_that_scales_by_the_data_moves_by_more() -> None:
    """Columns over their largest value: one record moves all others."""
    rng = np.random.default_rng(8)
    rows = standard(1, 50, rng)
    rows["x0"] = 0.5 + 0.2 * (rows["x0"] - 0.5)
    other = {k: v.copy() for k, v in rows.items()}
    other["x0"][0] = 1.0

    def scaled(table: dict[str, Any]) -> Any:
        v = np.stack([np.ones(50), 2 * table["x0"] - 1, 2 * table["y"] - 1], axis=1)
        v[:, 1] /= np.abs(v[:, 1]).max()
        return products(np.rint(v * 2**13), counted=False).sum(0)

    question = regression(1)
    moved = np.abs(scaled(rows) - scaled(other)).sum()
    assert moved > 2 * question.statistic.l1
    honest = [question.total(table, noises_of(question, 1.0)[0].step) for table in (rows, other)]
    assert np.abs(honest[0] - honest[1]).sum() <= question.statistic.l1


@pytest.mark.parametrize("names", [("y", "y"), ("y", *(f"x{k}" for k in range(31)))])
def test_a_regression_has_different_columns(names: tuple[str, ...]) -> None:
    with pytest.raises(QuestionError, match="is of one column on 1 to 30 different others"):
        QUESTIONS["regression"].make(*names, between=dict.fromkeys(names, (0, 1)))


def test_every_column_has_bounds_and_no_other() -> None:
    for between in ({"y": (0, 1)}, {"y": (0, 1), "x": (0, 1), "z": (0, 1)}):
        with pytest.raises(QuestionError, match="between= has the bounds of y, x, by name"):
            QUESTIONS["regression"].make("y", "x", between=between)


def test_it_is_asked_in_words() -> None:
    assert spelling("regression").usage.startswith("regression Y X OTHER ... --between")
    ends = {"--between": [["kwh", "0", "40"], ["area", "20", "300"], ["people", "0", "8"]]}
    found = made("regression", ["kwh", "area", "people"], ends)
    assert [(c.name, c.low, c.high) for c in found.columns] == [  # type: ignore[attr-defined]
        ("kwh", 0, 40), ("area", 20, 300), ("people", 0, 8),
    ]  # fmt: skip


def test_a_picture_has_a_point_for_each_column() -> None:
    from matplotlib.figure import Figure

    question = regression(2)
    rng = np.random.default_rng(9)
    (found,) = answers(question, standard(2, 969, rng), noises_of(question, 1.0), 969, rng, 1)
    ax = Figure().subplots()
    question.draw(found, ax)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["x0", "x1"]
    assert "over the range" in ax.get_xlabel()
