"""Each function of lanes alone, against numpy: after an upgrade of numba this says which one broke."""

# What is compiled is typed by the compiler, from the arrays it is given.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,call-arg,var-annotated"

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from veilsum.simulation import lanes
from veilsum.simulation.lanes import (
    SLICE,
    add_first,
    add_in_turn,
    every,
    load,
    load_halves,
    load_rows,
    maximum,
    prefetch,
    repeat,
    splat,
    store,
    store_rows,
    take,
)

ROOT = Path(__file__).parents[2]
U = np.uint64
WIDTHS = (1, 2, 4, 8)
RNG = np.random.default_rng(1)
GRID = RNG.normal(size=(40, 24))
compiled: Any = numba.njit(error_model="numpy")


def like(width: int) -> tuple[float, ...]:
    return (0.0,) * width


def written(kernel: Any, width: int, *arguments: Any) -> Any:
    """What a kernel writes into the first `width` numbers of its last argument."""
    out = np.full((1, 64), np.nan)
    kernel(*arguments, out)
    assert np.isnan(out[0, width:]).all()
    return out[0, :width]


@compiled
def _loaded(like, array, row, column, out):
    store(out, U(0), U(0), load(like, array, row, column))


@compiled
def _halves(like, array, column, out):
    store(out, U(0), U(0), load_halves(like, array, column))


@compiled
def _computed(like, array, number, out):
    a, b = load(like, array, U(0), U(0)), load(like, array, U(1), U(0))
    store(out, U(0), U(0), maximum(a + b * number - splat(like, 0.5), number * (a - 1.0)))


@compiled
def _taken(like, wide, array, indices, column, out):
    store(out, U(0), U(0), take(like, wide, array, indices, U(3), column))


@compiled
def _repeated(like, numbers, out):
    store(out, U(0), U(0), repeat(like, numbers, U(2)))


@compiled
def _column(array, row, column, out):
    store(out, U(0), U(0), load_rows(array, row, column))


@compiled
def _spread(array, row, column, out):
    store_rows(out, row, column, load_rows(array, row, column))


@compiled
def _picked(like, before, all_rows, array, out):
    store(out, U(0), U(0), every(like, before, load(all_rows, array, U(0), U(0))))


@compiled
def _first(like, array, count, out):
    a, b = load(like, array, U(0), U(0)), load(like, array, U(1), U(0))
    store(out, U(0), U(0), add_first(a, b, count))


@compiled
def _fetched(array, place):
    prefetch(array, place)
    return array[0, 0]


@compiled
def _summed(like, array, start):
    return add_in_turn(start, load(like, array, U(0), U(0)))


@pytest.mark.parametrize("width", WIDTHS)
def test_load_and_store(width: int) -> None:
    found = written(_loaded, width, like(width), GRID, U(3), U(5))
    assert np.array_equal(found, GRID[3, 5 : 5 + width])


@pytest.mark.parametrize("width", WIDTHS)
def test_load_halves(width: int) -> None:
    found = written(_halves, width, like(width), GRID, U(5))
    part = min(width, 4)
    both = np.concatenate([GRID[0, 5 : 5 + part], GRID[1, 5 : 5 + part]])
    assert np.array_equal(found, both[:width])


@pytest.mark.parametrize("width", WIDTHS)
def test_arithmetic_with_lanes_and_plain_numbers(width: int) -> None:
    found = written(_computed, width, like(width), GRID, 0.3)
    a, b = GRID[0, :width], GRID[1, :width]
    assert np.array_equal(found, np.maximum(a + b * 0.3 - 0.5, 0.3 * (a - 1.0)))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("width", [1, 2])
def test_take(width: int, known: bool) -> None:
    array = np.ascontiguousarray(GRID[:, :width]) if known else GRID
    column = 0 if known else 7
    indices = RNG.integers(0, 40, 16).astype(np.uint32)
    wide = like(width) if known else ()
    found = written(_taken, SLICE * width, like(width), wide, array, indices, U(column))
    assert np.array_equal(found, array[indices[3:11], column : column + width].ravel())


@pytest.mark.parametrize("width", [1, 2])
def test_repeat(width: int) -> None:
    found = written(_repeated, SLICE * width, like(width), GRID[4].copy())
    assert np.array_equal(found, np.repeat(GRID[4, 2:10], width))


def test_load_rows_and_store_rows() -> None:
    assert np.array_equal(written(_column, SLICE, GRID, U(6), U(9)), GRID[6:14, 9])
    out = np.zeros_like(GRID)
    _spread(GRID, U(6), U(9), out)
    expected = np.zeros_like(GRID)
    expected[6:14, 9] = GRID[6:14, 9]
    assert np.array_equal(out, expected)


def test_every() -> None:
    for skip in (0, 1):
        found = written(_picked, SLICE, like(2), like(skip), like(16), GRID)
        assert np.array_equal(found, GRID[0, skip:16:2])


@pytest.mark.parametrize("count", [0, 3, 8])
def test_add_first(count: int) -> None:
    found = written(_first, 8, like(8), GRID, U(count))
    kept = np.where(np.arange(8) < count, GRID[0, :8] + GRID[1, :8], GRID[0, :8])
    assert np.array_equal(found, kept)


def test_add_in_turn_rounds_after_every_term() -> None:
    numbers = np.array([[1.0, 1e-16, 1e-16, 1e-16, 1e-16, 1e-16, 1e-16, -1.0]])
    assert _summed(like(8), numbers, 0.0) == 0.0  # any other order keeps a part of the small ones
    start = 0.1
    for value in GRID[0, :8]:
        start += value
    assert _summed(like(8), GRID, 0.1) == start


def test_prefetch_reads_nothing_even_beyond_the_array() -> None:
    assert _fetched(GRID, U(10**15)) == GRID[0, 0]


def test_nothing_is_taken_from_beneath_numbas_documented_surface() -> None:
    tree = ast.parse(Path(lanes.__file__).read_text())
    modules = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}
    assert {m for m in modules if m.startswith("numba")} == {"numba", "numba.extending"}


def test_numba_is_bounded_to_versions_that_this_was_tried_with() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (asked,) = [
        name
        for name in wanted["project"]["optional-dependencies"]["sim"]
        if name.startswith("numba")
    ]
    found = re.fullmatch(r"numba>=0\.(\d+),<0\.(\d+)", asked)
    assert found, f"{asked} has no upper bound: lanes.py may break with any minor version of numba"
    minor = int(numba.__version__.split(".")[1])
    assert int(found[1]) <= minor < int(found[2]), f"numba {numba.__version__} is not {asked}"
