"""The order of agents in memory: a permutation that brings neighbours together."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

from veilsum.errors import NetworkError
from veilsum.networks import arrange, kernels, load, metropolis, permuted
from veilsum.networks.order import BITS, morton


def shuffled(matrix: Any, seed: Any = 0) -> Any:
    return permuted(matrix, np.random.default_rng(seed).permutation(matrix.shape[0]))


def spread(matrix: Any) -> Any:
    """Mean distance in memory between an agent and its neighbours."""
    entries = matrix.tocoo()
    return np.abs(entries.row - entries.col).mean()


def sparse(size: Any, seed: Any) -> Any:
    rng = np.random.default_rng(seed)
    return csr_array(random_array((size, size), density=0.2, rng=rng))


@pytest.mark.thorough
@pytest.mark.parametrize("large", [0, 10**9])
@given(size=st.integers(2, 40), seed=st.integers(0, 10**6))
def test_permuted_is_p_a_p(large: Any, size: Any, seed: Any) -> None:
    matrix, order = sparse(size, seed), np.random.default_rng(seed).permutation(size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "LARGE", large)
        moved = permuted(matrix, order)
    assert np.array_equal(moved.toarray(), matrix.toarray()[np.ix_(order, order)])
    assert moved.indices.dtype == moved.indptr.dtype == np.int32
    assert moved.has_sorted_indices


@pytest.mark.parametrize("length", [5, 50, 3000])
def test_long_rows_are_sorted_too(length: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(kernels, "LARGE", 0)
    matrix = metropolis(f"star:{length}").weights
    order = np.random.default_rng(1).permutation(length)
    moved, expected = permuted(matrix, order), matrix[order][:, order]
    expected.sort_indices()
    assert np.array_equal(moved.indices, expected.indices)
    assert np.array_equal(moved.data, expected.data)


@pytest.mark.thorough
def test_row_pointers_grow_past_what_32_bits_count(monkeypatch: Any) -> None:
    matrix = shuffled(metropolis("random-geometric:300,0.15,1").weights)
    order = arrange(matrix)
    narrow = permuted(matrix, order)
    monkeypatch.setattr("veilsum.networks.rows.NARROW_BELOW", 100)
    for large in (0, 10**9):
        monkeypatch.setattr(kernels, "LARGE", large)
        wide = permuted(matrix, order)
        assert (wide.indptr.dtype, wide.indices.dtype) == (np.int64, np.int32)
        x = np.arange(300.0)
        assert np.array_equal(wide @ x, narrow @ x)
        if large == 0:
            assert np.array_equal(arrange(wide), arrange(narrow))
        again = permuted(wide, np.argsort(order))
        assert np.array_equal(again.toarray(), matrix.toarray())


@pytest.mark.parametrize("window", [1, 7, 512])
@pytest.mark.parametrize("places", [True, False])
def test_arrange_is_a_permutation_and_the_same_each_time(window: Any, places: Any) -> None:
    graph = load("random-geometric:1500,0.06,3")
    matrix = graph.adjacency
    positions = graph.positions if places else None
    order = arrange(matrix, positions, window)
    assert order.dtype == np.int64
    assert np.array_equal(np.sort(order), np.arange(1500))
    assert np.array_equal(order, arrange(matrix, positions, window))


@pytest.mark.parametrize("places", [True, False])
def test_neighbours_come_together(places: Any) -> None:
    graph = load("random-geometric", size=20_000, mean_degree=6, seed=1)
    ordered = permuted(
        graph.adjacency, arrange(graph.adjacency, graph.positions if places else None)
    )
    assert spread(ordered) < spread(graph.adjacency) / 10
    shuffle = np.random.default_rng(0).permutation(20_000)
    assert spread(permuted(graph.adjacency, shuffle)) > spread(graph.adjacency) / 2  # no order


@pytest.mark.parametrize("name", ["random-geometric:3000,0.03,2", "us-power-grid", "star:40"])
def test_the_compiled_cuthill_mckee_is_as_good_as_scipys(name: Any, monkeypatch: Any) -> None:
    matrix = shuffled(load(name).adjacency)  # of several components, in the first case
    known = permuted(matrix, arrange(matrix, window=1))
    monkeypatch.setattr(kernels, "LARGE", 0)
    order = arrange(matrix, window=1)
    assert np.array_equal(np.sort(order), np.arange(matrix.shape[0]))
    assert spread(permuted(matrix, order)) < 1.1 * spread(known)


def test_windows_are_sorted_by_length_and_nothing_leaves_its_window() -> None:
    graph = load("random-geometric:1100,0.08,3")
    assert graph.positions is not None
    near, order = morton(graph.positions), arrange(graph.adjacency, graph.positions)
    for start in range(0, 1100, 512):
        window = order[start : start + 512]
        assert set(window) == set(near[start : start + 512])
        keys = [(-graph.degrees[i], np.flatnonzero(near == i)[0]) for i in window]
        assert keys == sorted(keys)  # stable: equal lengths keep the order of the curve


def test_morton_interleaves_the_bits() -> None:
    points = np.random.default_rng(2).random((200, 2)) * 5 - 3
    low, side = points.min(axis=0), np.ptp(points, axis=0).max()
    cells = ((points - low) * ((2**BITS - 1) / side)).astype(int)

    def key(x: Any, y: Any) -> Any:
        return sum((x >> k & 1) << 2 * k | (y >> k & 1) << 2 * k + 1 for k in range(BITS))

    expected = sorted(range(200), key=lambda i: key(*map(int, cells[i])))
    assert morton(points).tolist() == expected


def test_points_in_one_place_keep_their_order() -> None:
    assert morton(np.ones((9, 2))).tolist() == list(range(9))


def test_what_is_refused() -> None:
    matrix = load("ring:5").adjacency
    with pytest.raises(NetworkError, match=r"positions must have shape \(5, 2\); found \(4, 2\)"):
        arrange(matrix, np.zeros((4, 2)))
    with pytest.raises(NetworkError, match="window must be a whole number of at least 1"):
        arrange(matrix, window=0)
    with pytest.raises(NetworkError, match=r"order must have shape \(5,\)"):
        permuted(matrix, np.arange(4))
    for order in ([0, 1, 2, 3, 3], [0, 1, 2, 3, -1], [0, 1, 2, 3, 5]):
        with pytest.raises(NetworkError, match="every agent once"):
            permuted(matrix, np.array(order))


def test_places_that_are_not_all_known_are_not_used() -> None:
    graph = load("random-geometric:100,0.2,1")
    assert graph.positions is not None
    places = graph.positions.copy()
    places[3] = np.nan
    assert np.array_equal(arrange(graph.adjacency, places), arrange(graph.adjacency))
