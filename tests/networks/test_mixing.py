import math
from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import block_diag, coo_array, csr_array

from veilsum.errors import NetworkError
from veilsum.networks import (
    DirectedMixing,
    Mixing,
    Network,
    lazy_metropolis,
    load,
    metropolis,
)

GOOD = np.array([[0.5, 0.5, 0], [0.5, 0.25, 0.25], [0, 0.25, 0.75]])


def test_a_valid_matrix_and_its_properties() -> None:
    mixing = Mixing.of(GOOD, labels=["a", "b", "c"])
    assert np.array_equal(mixing.weights.toarray(), GOOD)
    assert (mixing.size, mixing.kind, mixing.dynamic) == (3, "doubly-stochastic", False)
    assert mixing.largest_neighbour_weight.tolist() == [0.5, 0.5, 0.25]
    assert mixing.stationary.tolist() == [1 / 3] * 3
    values = np.linalg.eigvalsh(GOOD)
    assert mixing.lambda_2 == pytest.approx(values[1], abs=1e-14)
    assert mixing.lambda_n == pytest.approx(values[0], abs=1e-14)
    assert mixing.beta_star == max(mixing.lambda_2, abs(mixing.lambda_n))
    assert mixing.spectral_gap == 1 - mixing.beta_star
    assert mixing.at(1) is mixing.at(7) is mixing.weights
    indices, weights = mixing.row(1)
    assert indices.tolist() == [0, 1, 2]
    assert weights.tolist() == [0.5, 0.25, 0.25]
    assert mixing.graph is not None
    assert mixing.graph.links.tolist() == [[0, 1], [1, 2]]
    assert repr(mixing) == "Mixing('custom' on 'custom', 3 agents)"
    assert isinstance(mixing, Network)


def test_rounds_to() -> None:
    mixing = lazy_metropolis("ring:12")
    rounds = mixing.rounds_to(1e-3)
    assert rounds == math.ceil(math.log(1e3) / math.log(1 / mixing.beta_star))
    assert mixing.beta_star**rounds <= 1e-3 < mixing.beta_star ** (rounds - 1)
    assert Mixing.of(np.full((4, 4), 0.25)).rounds_to(1e-6) == 1
    with pytest.raises(NetworkError, match="accuracy must lie"):
        mixing.rounds_to(1.5)


def test_weights_are_canonical_with_every_diagonal_stored() -> None:
    rows, columns = [0, 0, 1, 1, 2, 2, 0], [2, 1, 2, 0, 1, 0, 1]
    data = [0.5, 0.25, 0.5, 0.5, 0.5, 0.5, 0.25]  # unsorted, one entry in two parts
    weights = Mixing.of(coo_array((data, (rows, columns)), shape=(3, 3))).weights
    assert isinstance(weights, csr_array)
    assert weights.indices.dtype == weights.indptr.dtype == np.int32
    assert weights.data.dtype == np.float64
    assert weights.has_canonical_format
    assert weights.indices.tolist() == [0, 1, 2] * 3
    assert weights.diagonal().tolist() == [0, 0, 0]


def test_stored_zeros_off_the_diagonal_are_dropped() -> None:
    matrix = csr_array(np.array([[0.5, 0.5, 1.0], [0.5, 0.25, 0.25], [1.0, 0.25, 0.75]]))
    matrix.data[[2, 6]] = 0.0
    assert Mixing.of(matrix).weights.nnz == 7


def test_a_large_canonical_matrix_is_not_copied() -> None:
    weights = lazy_metropolis("ring:50").weights
    assert Mixing(weights).weights is weights


def with_entries(changes: Any) -> Any:
    matrix = GOOD.copy()
    for at, value in changes.items():
        matrix[at] = value
    return matrix


THREE_CYCLE = np.array([[0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]])
PAIR = np.full((2, 2), 0.5)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), r"square matrix.*\(2, 3\)"),
        (np.ones(3), r"square matrix.*\(3,\)"),
        (np.ones((0, 0)), "at least 2 agents; found 0"),
        (np.ones((1, 1)), "at least 2 agents; found 1"),
        ([["a", "b"], ["c", "d"]], "real numbers"),
        (with_entries({(0, 1): np.nan}), "finite: agent 0 gives nan to agent 1"),
        (with_entries({(2, 2): np.inf}), "finite: agent 2 gives inf to agent 2"),
        (with_entries({(0, 0): 1.25, (0, 1): -0.25}), "at least 0: agent 0 gives -0.25 to agent 1"),
        (
            with_entries({(1, 1): 0.35}),
            r"weights must be doubly stochastic: row 1 sums to 1.1, expected 1; "
            r"try networks.metropolis\(graph\)",
        ),
        (np.array([[0.5, 0.5], [1.0, 0.0]]), "doubly stochastic: column 0 sums to 1.5, expected 1"),
        (
            THREE_CYCLE,
            "symmetric: agent 0 gives 0.5 to agent 1, which gives 0 back.*DirectedMixing",
        ),
        (
            block_diag([coo_array(PAIR), [[1.0]]]),
            r"agent 2 is isolated: it has no neighbours \(1 such of 3",
        ),
        (
            block_diag([coo_array(PAIR), np.full((3, 3), 1 / 3), PAIR]),
            "connected: it has 3 components of sizes 3, 2, 2; agent 0 is in the smallest",
        ),
        (
            np.array([[0, 1.0], [1.0, 0]]),
            r"periodic.*beta\* = 1.*networks.lazy_metropolis\(graph\)",
        ),
    ],
)
def test_what_is_refused(matrix: Any, message: Any) -> None:
    with pytest.raises(NetworkError, match=message):
        Mixing.of(matrix)


def test_messages_use_the_labels() -> None:
    with pytest.raises(NetworkError, match=r"row 1 \(agent 'b'\) sums to 1.1"):
        Mixing.of(with_entries({(1, 1): 0.35}), labels=["a", "b", "c"])
    split = nx.Graph([("x", "y"), ("y", "z"), ("p", "q")])
    with pytest.raises(NetworkError, match=r"2 components of sizes 3, 2; agent 'p' \(index 3\)"):
        metropolis(split)
    with pytest.raises(NetworkError, match="labels must differ: 'a'"):
        Mixing.of(GOOD, labels=["a", "b", "a"])


def test_an_odd_cycle_with_zero_self_weights_is_aperiodic() -> None:
    mixing = metropolis("ring:9")
    assert np.all(mixing.weights.diagonal() == 0)
    assert mixing.beta_star == pytest.approx(math.cos(math.pi / 9), abs=1e-12)


def test_a_graph_of_another_size_is_refused() -> None:
    with pytest.raises(NetworkError, match="graph has 4 agents, weights 3"):
        Mixing(csr_array(GOOD), graph=load("ring:4"))


def test_unknown_rows() -> None:
    with pytest.raises(NetworkError, match=r"0..2; found 3"):
        Mixing.of(GOOD).row(3)


@pytest.mark.parametrize("make", [Mixing.of, DirectedMixing.of, Mixing])
@pytest.mark.parametrize("form", [np.array, csr_array])
def test_complex_weights_are_refused(make: Any, form: Any) -> None:
    matrix = form(np.full((2, 2), 0.5 + 0.5j))
    with pytest.raises(NetworkError, match="weights must be real numbers; found complex128"):
        make(matrix)


def test_directed_weights_need_a_graph_of_their_size() -> None:
    weights = csr_array(np.full((3, 3), 1 / 3))
    with pytest.raises(NetworkError, match="graph has 4 agents, weights 3"):
        DirectedMixing(weights, "row-stochastic", graph=load("ring:4"))
