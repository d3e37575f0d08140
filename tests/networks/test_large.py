"""The compiled loops for large networks do what the numpy ones do, and refuse what they refuse."""

import subprocess
import sys
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import block_diag, coo_array, csr_array

from veilsum.errors import NetworkError
from veilsum.networks import (
    Graph,
    Mixing,
    as_graph,
    kernels,
    lazy_metropolis,
    load,
    max_degree,
    metropolis,
    validation,
)


def is_sound(matrix: Any) -> bool:
    return kernels.is_sound(matrix, validation.TOLERANCE)


@pytest.fixture
def large(monkeypatch: Any) -> None:
    monkeypatch.setattr(kernels, "LARGE", 0)


def both(make: Any) -> Any:
    """What numpy makes, and what the compiled loops make."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "LARGE", 10**9)
        small = make()
        patch.setattr(kernels, "LARGE", 0)
        return small, make()


@st.composite
def links(draw: Any) -> Any:
    size = draw(st.integers(2, 12))
    ends = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))
    pairs = draw(st.lists(ends.filter(lambda pair: pair[0] != pair[1]), max_size=40))
    return size, np.array(pairs, dtype=np.int64).reshape(-1, 2)


@pytest.mark.thorough
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
@given(links())
def test_links_are_sorted_alike(directed: Any, kind: Any, drawn: Any) -> None:
    size, pairs = drawn
    slow, fast = both(lambda: Graph(size, pairs.astype(kind), directed=directed))
    assert np.array_equal(slow.links, fast.links)
    assert slow.links.dtype == fast.links.dtype == np.int32
    again = both(lambda: Graph(size, slow.links, directed=directed))[1]
    assert again.links is slow.links or len(pairs) == 0  # read-only and in order: nothing to copy


@given(links())
def test_components_agree_with_networkx(drawn: Any) -> None:
    size, pairs = drawn
    oracle = nx.Graph()
    oracle.add_nodes_from(range(size))
    oracle.add_edges_from(pairs.tolist())
    for graph in both(lambda: _with_components(Graph(size, pairs))):
        groups = {frozenset(np.flatnonzero(graph.components == k)) for k in set(graph.components)}
        assert groups == set(map(frozenset, nx.connected_components(oracle)))


def _with_components(graph: Any) -> Any:
    assert graph.components is not None
    return graph


@pytest.mark.usefixtures("large")
def test_an_array_that_can_still_be_written_is_copied() -> None:
    pairs = np.array([[0, 1], [1, 2]], dtype=np.int32)
    graph = Graph(3, pairs)
    pairs[0, 1] = 2
    assert graph.links.tolist() == [[0, 1], [1, 2]]
    view = pairs.view()
    view.flags.writeable = False
    assert Graph(3, view).links is not view
    with pytest.raises(ValueError, match="read-only"):
        graph.links[0, 0] = 1


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([(0, 1), (2, 2)], r"self-loop at agent 2"),
        ([(0, 3)], r"link \(0, 3\) is out of range: agents are 0..2"),
        ([(0, 2**33)], r"out of range"),
    ],
)
@pytest.mark.usefixtures("large")
def test_bad_links_are_refused(pairs: Any, message: Any) -> None:
    with pytest.raises(NetworkError, match=message):
        Graph(3, np.array(pairs))


@pytest.mark.thorough
@pytest.mark.parametrize("weigh", [metropolis, lazy_metropolis, max_degree])
@pytest.mark.parametrize("name", ["us-power-grid", "star:7", "ring:9", "power-law:500,3,1"])
def test_weights_agree(weigh: Any, name: Any) -> None:
    slow, fast = both(lambda: weigh(load(name)))
    for part in ("indices", "indptr"):
        assert np.array_equal(getattr(slow.weights, part), getattr(fast.weights, part))
        assert getattr(fast.weights, part).dtype == np.int32
    np.testing.assert_allclose(fast.weights.data, slow.weights.data, atol=1e-15, rtol=0)
    assert validation.is_canonical(fast.weights)
    largest = both(lambda: kernels.largest_off_diagonal(fast.weights))
    assert np.array_equal(*largest)


@pytest.mark.thorough
def test_weights_past_what_32_bits_count(monkeypatch: Any) -> None:
    narrow = metropolis("us-power-grid")
    monkeypatch.setattr(kernels, "LARGE", 0)
    monkeypatch.setattr("veilsum.networks.rows.NARROW_BELOW", 1000)
    wide = metropolis("us-power-grid")
    assert (wide.weights.indptr.dtype, wide.weights.indices.dtype) == (np.int64, np.int32)
    x = np.arange(float(wide.size))
    np.testing.assert_allclose(wide.weights @ x, narrow.weights @ x, rtol=1e-14)
    assert np.array_equal(wide.largest_neighbour_weight, narrow.largest_neighbour_weight)


def below_diagonal(weights: Any) -> Any:
    """The middle one of the entries (i, j) with i > j."""
    rows = kernels.row_numbers(weights)
    found = np.flatnonzero(weights.indices < rows)
    at = found[len(found) // 2]
    return int(rows[at]), int(weights.indices[at])


def wrong(weights: Any, row: Any, column: Any, value: Any) -> Any:
    """A copy with one stored entry changed."""
    changed = weights.copy()
    at = changed.indptr[row] + np.searchsorted(
        changed.indices[changed.indptr[row] : changed.indptr[row + 1]], column
    )
    changed.data[at] = value
    return changed


@pytest.mark.usefixtures("large")
def test_soundness_is_seen_and_every_fault_too() -> None:
    good = metropolis("us-power-grid").weights
    assert is_sound(good)
    i, j = below_diagonal(good)
    for value in (np.nan, np.inf, -good[i, j], 0.0, good[i, j] * (1 + 1e-8)):
        assert not is_sound(wrong(good, i, j, value))
    swapped = good.copy()
    row = swapped.indices[swapped.indptr[i] : swapped.indptr[i + 1]]
    row[:] = row[::-1].copy()
    assert not is_sound(swapped)
    assert not is_sound(csr_array(good.toarray()[:, ::-1]))
    assert not is_sound(csr_array(np.array([[0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]])))
    off = csr_array(np.array([[0, 1.0], [1.0, 0]]))  # no diagonal stored
    assert not is_sound(off)
    for matrix in (good.astype(np.float32), good.tocsc(), good.toarray()):
        assert not is_sound(matrix)


@pytest.mark.usefixtures("large")
def test_asymmetric_rounding_is_seen_and_then_forgiven() -> None:
    """One bit between a_ij and a_ji is no fault, but it is not equality either."""
    good = metropolis("us-power-grid").weights
    i, j = below_diagonal(good)
    near = wrong(good, i, j, np.nextafter(good[i, j], 1))
    assert not is_sound(near)
    assert Mixing(near).size == 4941


PAIR = np.full((2, 2), 0.5)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.array([[0.5, 0.6], [0.6, 0.5]]), "row 0 sums to 1.1"),
        (np.array([[0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]]), "symmetric: agent 0 gives 0.5"),
        (
            block_diag([coo_array(PAIR), [[1.0]]]),
            r"agent 2 is isolated: .*\(1 such of 3.*networks.join",
        ),
        (
            block_diag([coo_array(PAIR), np.full((3, 3), 1 / 3), PAIR]),
            r"3 components of sizes 3, 2, 2; agent 0 is in the smallest.*networks.join\(graph\)",
        ),
        (np.array([[0, 1.0], [1.0, 0]]), r"periodic.*divisible by 2.*networks.lazy_metropolis"),
    ],
)
@pytest.mark.usefixtures("large")
def test_what_a_mixing_refuses(matrix: Any, message: Any) -> None:
    with pytest.raises(NetworkError, match=message):
        Mixing.of(matrix)


@pytest.mark.usefixtures("large")
def test_an_odd_ring_is_aperiodic_and_an_even_one_is_not() -> None:
    assert metropolis("ring:9").size == 9
    with pytest.raises(NetworkError, match="periodic"):
        metropolis("torus:4x6")


def test_links_as_an_array_and_large_adjacency_matrices() -> None:
    graph = as_graph(np.array([[2, 0], [1, 2], [0, 2]], dtype=np.uint16))
    assert (graph.size, graph.links.tolist()) == (3, [[0, 2], [1, 2]])
    graph = load("random-geometric:2000,0.05,1")
    slow, fast = both(lambda: as_graph(graph.adjacency))
    assert np.array_equal(fast.links, graph.links)
    assert np.array_equal(slow.links, graph.links)
    assert not fast.directed
    arcs = as_graph(csr_array((np.ones(2), ([0, 1], [1, 2])), shape=(3, 3)))
    assert arcs.directed


@pytest.mark.thorough
def test_small_networks_compile_nothing() -> None:
    code = (
        "import sys; from veilsum import networks; g = networks.load('us-power-grid'); "
        "networks.metropolis(g); networks.permuted(g.adjacency, networks.arrange(g.adjacency)); "
        "networks.load('random-geometric:969,0.1,0').components; print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "False"


TEN_MILLION = """
import re, time
from pathlib import Path
from veilsum import networks
start = time.perf_counter()
graph = networks.load(KIND)
built = time.perf_counter() - start
mixing = networks.lazy_metropolis(graph)
assert mixing.size >= 9_990_000 and isinstance(mixing.labels, range)
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())  # since the exec
print(built, int(peak[1]) / 2**20)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "'random-geometric', size=10**7, mean_degree=6, connect=True",
        "'torus:3162x3162'",
        "'watts-strogatz', size=10**7, neighbours=6, probability=0.1",
        "'power-law', size=10**7, links=3",
    ],
)
def test_ten_million_agents(kind: Any) -> None:
    code = TEN_MILLION.replace("KIND", kind)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    seconds, peak = map(float, done.stdout.split())
    assert seconds < 60  # 30 on an idle laptop
    assert peak < 2.0  # GiB
