from typing import Any

import networkx as nx
import numpy as np
import pytest

from veilsum.errors import NetworkError
from veilsum.networks import load, names


def same(graph: Any, oracle: Any) -> Any:
    return {frozenset(e) for e in graph.links.tolist()} == {frozenset(e) for e in oracle.edges}


@pytest.mark.parametrize(
    ("name", "oracle"),
    [
        ("ring:20", nx.cycle_graph(20)),
        ("path:7", nx.path_graph(7)),
        ("star:6", nx.star_graph(5)),
        ("complete:8", nx.complete_graph(8)),
        ("erdos-renyi:30,0.2,5", nx.gnp_random_graph(30, 0.2, seed=5)),
        ("watts-strogatz:30,4,0.2,5", nx.watts_strogatz_graph(30, 4, 0.2, seed=5)),
        ("power-law:30,3,5", nx.barabasi_albert_graph(30, 3, seed=5)),
        ("random-regular:30,3,5", nx.random_regular_graph(3, 30, seed=5)),
        ("random-geometric:80,0.2,5", nx.random_geometric_graph(80, 0.2, seed=5)),
    ],
)
def test_graphs_are_those_of_networkx(name: Any, oracle: Any) -> None:
    graph = load(name)
    assert graph.size == len(oracle)
    assert same(graph, oracle)


@pytest.mark.parametrize(("rows", "columns"), [(3, 5), (4, 4), (2, 3), (2, 2)])
def test_torus(rows: Any, columns: Any) -> None:
    oracle = nx.convert_node_labels_to_integers(
        nx.grid_2d_graph(rows, columns, periodic=True), ordering="sorted"
    )
    assert same(load(f"torus:{rows}x{columns}"), oracle)


@pytest.mark.parametrize(("rows", "columns"), [(3, 5), (1, 4), (6, 1)])
def test_grid(rows: Any, columns: Any) -> None:
    oracle = nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, columns), ordering="sorted")
    graph = load(f"grid:{rows}x{columns}")
    assert same(graph, oracle)
    assert graph.positions is not None
    assert graph.positions[-1].tolist() == [columns - 1, rows - 1]


def test_hypercube() -> None:
    oracle = nx.relabel_nodes(
        nx.hypercube_graph(4), lambda bits: sum(b << k for k, b in enumerate(bits))
    )
    assert same(load("hypercube:4"), oracle)


def test_the_us_power_grid() -> None:
    grid = load("us-power-grid")
    assert (grid.size, len(grid.links)) == (4941, 6594)
    assert grid.is_connected
    assert grid.name == "us-power-grid"
    assert grid.labels == range(4941)


def test_the_paper_graph_is_that_of_networkx() -> None:
    graph, oracle = load("random-geometric:969,0.1,0"), nx.random_geometric_graph(969, 0.1, seed=0)
    assert len(graph.links) == 13_236
    assert same(graph, oracle)
    assert graph.positions is not None
    assert np.array_equal(graph.positions, [oracle.nodes[i]["pos"] for i in oracle])


@pytest.mark.parametrize(("name", "size", "leaves"), [("ieee-13", 13, 6), ("ieee-34", 34, 9)])
def test_ieee_feeders_are_trees(name: Any, size: Any, leaves: Any) -> None:
    graph = load(name)
    assert graph.size == len(set(graph.labels)) == size
    assert len(graph.links) == size - 1
    assert graph.is_connected
    assert np.count_nonzero(graph.degrees == 1) == leaves + 1  # and the substation


def test_ieee_13_links() -> None:
    graph = load("ieee-13")
    named = {frozenset((graph.labels[i], graph.labels[j])) for i, j in graph.links}
    assert frozenset((671, 684)) in named
    assert frozenset((650, 632)) in named
    assert graph.degrees[list(graph.labels).index(671)] == 4


def test_feeder_is_a_tree_of_the_size_guaranteed() -> None:
    graph = load("feeder", trunk=10, laterals=4, length=5)
    assert graph.size == 10 + 4 * 5
    assert len(graph.links) == graph.size - 1
    assert graph.is_connected
    assert graph.degrees.max() == 3


def test_labels_of_the_florentine_families() -> None:
    assert "Medici" in load("florentine families").labels


@pytest.mark.parametrize("name", [n.name for n in names()])
def test_every_name_is_described(name: Any) -> None:
    entry = next(n for n in names() if n.name == name)
    assert entry.description
    sizes = {"size": 20, "dimension": 3, "rows": 4, "radius": 0.4, "probability": 0.4, "degree": 4}
    sizes |= {"trunk": 5, "laterals": 2, "neighbours": 4}
    known = [option.partition("=")[0] for option in entry.options.split(", ")]
    wanted = {k: v for k, v in sizes.items() if k in known}
    assert load(name, **wanted).size >= 2


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("rng", {"size": 4}, "no graph is named 'rng': did you mean 'ring'.*known names: us-power"),
        ("us_power_gird", {}, "did you mean 'us-power-grid'"),
        ("ring", {}, r"ring takes the options \(size\): missing"),
        ("ring", {"sise": 4}, r"\(size\)"),
        ("ring:1,2", {}, "too many"),
        ("ring:abc", {}, "takes numbers .size. after the colon; found 'abc'"),
        ("ring:2", {}, "size must be a whole number of at least 3; found 2"),
        ("torus:1x4", {}, "rows must be"),
        ("complete:1000000", {}, "499999500000 links, too many"),
        ("erdos-renyi:10,1.5", {}, "probability must lie"),
        ("watts-strogatz:10,2,1.5", {}, "probability must lie"),
        ("watts-strogatz:10,10,0.5", {}, "neighbours must be below size"),
        ("power-law:3,3", {}, "links must be below size 3; found 3"),
        ("random-regular:5,3", {}, "size . degree even"),
        ("random-geometric:10,-1", {}, "radius must be"),
    ],
)
def test_what_is_refused(source: Any, options: Any, message: Any) -> None:
    with pytest.raises(NetworkError, match=message):
        load(source, **options)
