import pickle
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilsum.errors import NetworkError
from veilsum.networks import (
    Network,
    as_graph,
    asleep,
    from_callable,
    lazy_metropolis,
    link_failures,
    load,
    sequence,
)


def lazy_by_hand(size: Any, links: Any) -> Any:
    d = np.bincount(np.ravel(links).astype(int), minlength=size)
    A = np.zeros((size, size))
    for i, j in links:
        A[i, j] = A[j, i] = 1 / (2 * max(d[i], d[j]))
    return A + np.diag(1 - A.sum(axis=1))


@pytest.mark.parametrize("make", [link_failures, asleep])
@settings(deadline=None, max_examples=50)
@given(
    size=st.integers(3, 20),
    probability=st.floats(0, 0.99),
    seed=st.integers(0, 2**40),
    t=st.integers(1, 10**9),
)
def test_every_round_is_symmetric_doubly_stochastic_and_below_the_bound(
    make: Any, size: Any, probability: Any, seed: Any, t: Any
) -> None:
    schedule = make(nx.wheel_graph(size + 1), probability, seed)
    A = schedule.at(t)
    dense = A.toarray()
    assert np.array_equal(dense, dense.T)
    assert np.all(dense >= 0)
    np.testing.assert_allclose(dense.sum(axis=0), 1, atol=1e-13)
    assert np.all(dense.diagonal() >= 0.5 - 1e-15)
    off = dense - np.diag(dense.diagonal())
    assert np.all(off.max(axis=1) <= schedule.largest_neighbour_weight + 1e-15)
    assert np.array_equal(A.data, schedule.at(t).data)
    up = schedule.graph.links[schedule.up(t)]
    np.testing.assert_allclose(dense, lazy_by_hand(schedule.size, up), atol=1e-15)


@pytest.mark.parametrize("make", [link_failures, asleep])
def test_at_is_a_pure_function_of_t_and_of_the_seed(make: Any) -> None:
    one, same, other = (
        make("torus:5x5", 0.3, 7),
        make("torus:5x5", 0.3, 7),
        make("torus:5x5", 0.3, 8),
    )
    backwards = {t: same.at(t).toarray() for t in range(9, 0, -1)}
    assert all(np.array_equal(one.at(t).toarray(), backwards[t]) for t in range(1, 10))
    assert not np.array_equal(one.at(1).toarray(), one.at(2).toarray())
    assert not np.array_equal(one.at(1).toarray(), other.at(1).toarray())
    assert np.array_equal(pickle.loads(pickle.dumps(one)).at(3).toarray(), one.at(3).toarray())


def test_the_fraction_of_links_down_is_the_probability() -> None:
    failures = link_failures("torus:50x50", 0.3, 1)
    rate = np.mean([failures.up(t).mean() for t in range(1, 21)])
    assert abs(rate - 0.7) < 6 * np.sqrt(0.21 / 100_000)  # false alarm: 2e-9
    sleepers = asleep("torus:50x50", 0.3, 1)
    rate = np.mean([sleepers.up(t).mean() for t in range(1, 21)])
    assert abs(rate - 0.49) < 0.02


def test_the_pattern_is_fixed_and_down_links_are_stored_zeros() -> None:
    schedule = link_failures("torus:5x5", 0.5, 1)
    assert schedule.at(1).nnz == schedule.at(2).nnz == 25 + 100
    assert np.array_equal(schedule.at(1).indices, schedule.at(2).indices)
    assert schedule.at(1).indices.dtype == np.int32
    assert np.count_nonzero(schedule.at(1).data) < 125


def test_agents_without_a_link_keep_their_value() -> None:
    schedule = asleep("ring:30", 0.6, 3)
    A = schedule.at(1).toarray()
    d = np.bincount(schedule.graph.links[schedule.up(1)].ravel(), minlength=30)
    assert np.any(d == 0)
    assert np.all(A.diagonal()[d == 0] == 1)


def test_the_bound_one_half_is_reached() -> None:
    schedule = link_failures("star:6", 0.7, 0)
    seen = [schedule.at(t).toarray() for t in range(1, 200)]
    assert max((A - np.diag(A.diagonal())).max() for A in seen) == 0.5
    assert np.all(link_failures("star:6", 0.0).largest_neighbour_weight == 0.1)


def test_products_of_rounds_converge_to_the_mean() -> None:
    schedule = link_failures("torus:5x5", 0.4, 2)
    x = np.arange(25.0)
    for t in range(1, 600):
        x = schedule.at(t) @ x
    np.testing.assert_allclose(x, 12, atol=1e-9)


def test_what_a_schedule_says_of_itself() -> None:
    schedule = link_failures(nx.Graph([("a", "b"), ("b", "c")]), 0.1)
    assert isinstance(schedule, Network)
    assert (schedule.size, schedule.kind, schedule.dynamic) == (3, "doubly-stochastic", True)
    assert list(schedule.labels) == ["a", "b", "c"]
    assert schedule.stationary.tolist() == [1 / 3] * 3
    assert repr(schedule) == "LinkFailures('lazy-metropolis, link failures', 3 agents)"


def test_sequence_repeats_and_only_the_union_need_be_connected() -> None:
    odd, even = nx.Graph([(0, 1), (2, 3)]), nx.Graph([(1, 2), (3, 0)])
    odd_graph = nx.empty_graph(4)
    odd_graph.add_edges_from(odd.edges)
    even_graph = nx.empty_graph(4)
    even_graph.add_edges_from(even.edges)
    schedule = sequence([odd_graph, even_graph])
    assert isinstance(schedule, Network)
    assert np.array_equal(schedule.at(1).toarray(), lazy_by_hand(4, [(0, 1), (2, 3)]))
    assert np.array_equal(schedule.at(2).toarray(), lazy_by_hand(4, [(1, 2), (0, 3)]))
    assert np.array_equal(schedule.at(101).toarray(), schedule.at(1).toarray())
    assert np.all(schedule.largest_neighbour_weight == 0.5)
    assert len(schedule.graph.links) == 4
    with pytest.raises(NetworkError, match="connected: it has 2 components"):
        sequence([odd_graph, odd_graph])
    with pytest.raises(NetworkError, match="same agents: graph 1"):
        sequence([odd_graph, nx.path_graph(3)])
    with pytest.raises(NetworkError, match="at least one graph"):
        sequence([])


def test_from_callable_takes_graphs_and_matrices() -> None:
    graphs = from_callable(
        lambda t: load("ring", size=5) if t % 2 else load("star", size=5), 5, bound=0.5
    )
    assert isinstance(graphs, Network)
    assert np.array_equal(graphs.at(1).toarray(), lazy_metropolis("ring:5").weights.toarray())
    assert np.array_equal(graphs.at(2).toarray(), lazy_metropolis("star:5").weights.toarray())
    assert np.all(graphs.largest_neighbour_weight == 0.5)
    swap = from_callable(lambda t: np.roll(np.eye(3), t, axis=1), labels=["a", "b", "c"])
    assert swap.at(1).toarray().tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert swap.at(1).nnz == 6  # the diagonal is stored
    assert list(swap.labels) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("made", "options", "message"),
    [
        (
            np.array([[0.5, 0.6], [0.5, 0.4]]),
            {},
            "round 3: weights must be doubly .*row 0 sums to 1.1",
        ),
        (np.array([[0.5, 0.5], [1.0, 0.0]]), {}, "round 3: .*column 0 sums to 1.5"),
        (np.array([[np.nan, 0.5], [1.0, 0.0]]), {}, "round 3: .*finite"),
        (np.full((3, 3), 1 / 3), {}, "round 3: found 3 agents, expected 2"),
        (
            np.eye(2)[::-1].copy(),
            {"bound": 0.5},
            "round 3: a neighbour's weight is 1, above bound 0.5",
        ),
    ],
)
def test_from_callable_checks_every_round(made: Any, options: Any, message: Any) -> None:
    with pytest.raises(NetworkError, match=message):
        from_callable(lambda _: made, 2, **options).at(3)


def test_what_is_refused() -> None:
    with pytest.raises(
        NetworkError, match=r"probability must be a probability in \[0, 1\); found 1.0"
    ):
        link_failures("ring:5", 1.0)
    with pytest.raises(NetworkError, match="t must be a whole number of at least 1; found 0"):
        link_failures("ring:5", 0.5).at(0)
    with pytest.raises(NetworkError, match="seed must be"):
        asleep("ring:5", 0.5, -1)
    with pytest.raises(NetworkError, match="connected: it has 2 components"):
        asleep(nx.disjoint_union(nx.path_graph(2), nx.path_graph(3)), 0.5)
    with pytest.raises(NetworkError, match="undirected"):
        link_failures(nx.DiGraph([(0, 1), (1, 0)]), 0.5)
    with pytest.raises(NetworkError, match="give size or labels"):
        from_callable(lambda _: load("ring:5"))
    with pytest.raises(NetworkError, match="size must be"):
        from_callable(lambda _: as_graph("ring:5"), size=1)


def test_links_sit_between_the_agents_that_the_labels_name() -> None:
    turned = nx.Graph([(2, 0), (1, 2)])  # its nodes come in the order 2, 0, 1
    schedule = from_callable(lambda _: turned, size=3)
    assert np.array_equal(schedule.at(1).toarray(), lazy_by_hand(3, [(2, 0), (1, 2)]))
    named = nx.Graph([("c", "a"), ("b", "c")])
    schedule = from_callable(lambda _: named, labels=["a", "b", "c"])
    assert np.array_equal(schedule.at(1).toarray(), lazy_by_hand(3, [(2, 0), (1, 2)]))


def test_a_sequence_of_graphs_takes_the_order_of_the_first() -> None:
    first, second = nx.Graph([("a", "b"), ("b", "c")]), nx.Graph([("c", "a"), ("a", "b")])
    schedule = sequence([first, second])
    assert list(schedule.labels) == ["a", "b", "c"]
    assert np.array_equal(schedule.at(2).toarray(), lazy_by_hand(3, [(2, 0), (0, 1)]))
    placed = nx.Graph([("b", "a"), ("c", "b")])
    nx.set_node_attributes(placed, {"a": (0, 0), "b": (1, 0), "c": (2, 0)}, "pos")
    positions = sequence([first, placed]).graphs[1].positions
    assert positions is not None
    assert positions.tolist() == [[0, 0], [1, 0], [2, 0]]


def test_other_agents_are_refused() -> None:
    letters = nx.Graph([("a", "b"), ("b", "x")])
    with pytest.raises(NetworkError, match=r"round 2: .* 'x' is not among those expected"):
        from_callable(lambda _: letters, labels=["a", "b", "c"]).at(2)
    with pytest.raises(NetworkError, match=r"round 1: .*'a' is not among those expected"):
        from_callable(lambda _: letters, size=3).at(1)
    with pytest.raises(NetworkError, match=r"same agents: graph 1: .* 'x' is not among"):
        sequence([nx.path_graph(["a", "b", "c"]), letters])
    with pytest.raises(NetworkError, match=r"round 1: .*the same 4 agents were expected"):
        from_callable(lambda _: nx.path_graph(3), size=4).at(1)


@pytest.mark.parametrize("size", [5.0, np.nan, True, "5", 1, 2**40])
def test_from_callable_checks_the_size(size: Any) -> None:
    with pytest.raises(NetworkError, match="size must be"):
        from_callable(lambda _: load("ring:5"), size=size)
