"""Graphs in .npz and .parquet files: written, read back, and read from elsewhere."""

from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy.sparse import save_npz

from veilsum.errors import NetworkError
from veilsum.networks import Graph, as_graph, kernels, load, read

WORDS = Graph(4, np.array([[3, 1], [0, 2]]), ["z", "y", "x", "w"], name="words")
NUMBERS = Graph(4, np.array([[3, 1], [0, 2]]), [40, 7, -3, 12], directed=True, name="numbers")
LONELY = Graph(6, np.array([[0, 1]]), name="lonely")
GRAPHS = [WORDS, NUMBERS, LONELY, load("torus:4x5"), load("random-geometric:200,0.1,0")]


@pytest.mark.parametrize("ending", ["npz", "parquet", "pq"])
@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.name)
def test_what_is_saved_comes_back(tmp_path: Any, graph: Any, ending: Any) -> None:
    path = tmp_path / f"graph.{ending}"
    graph.save(path)
    again = load(path)
    assert np.array_equal(again.links, graph.links)
    assert list(again.labels) == list(graph.labels)
    assert isinstance(again.labels, range) == isinstance(graph.labels, range)
    assert (again.size, again.name, again.directed) == (graph.size, graph.name, graph.directed)
    if ending == "npz" and graph.positions is not None:
        assert again.positions is not None
        assert graph.positions is not None
        assert np.array_equal(again.positions, graph.positions)
    else:
        assert again.positions is None


def test_a_scenario_can_name_it(tmp_path: Any) -> None:
    WORDS.save(tmp_path / "links.parquet")
    assert list(load(str(tmp_path / "links.parquet")).labels) == ["z", "y", "x", "w"]
    assert as_graph(tmp_path / "links.parquet").size == 4
    assert load(str(tmp_path / "links.parquet"), directed=True).directed


def table(path: Any, **columns: Any) -> Any:
    parquet.write_table(pa.table(columns), path)
    return path


def test_parquet_from_elsewhere(tmp_path: Any) -> None:
    path = tmp_path / "links.parquet"
    graph = load(table(path, weight=[1.0, 2.0], source=[10, 7], target=[7, 30]))
    assert list(graph.labels) == [7, 10, 30]
    assert graph.links.tolist() == [[0, 1], [0, 2]]
    graph = load(table(path, Source=["b", "a"], Target=["a", "c"]))
    assert list(graph.labels) == ["b", "a", "c"]
    assert {frozenset((graph.labels[i], graph.labels[j])) for i, j in graph.links} == {
        frozenset("ab"), frozenset("ac"),
    }  # fmt: skip
    words = pa.array(["b", "a"]).dictionary_encode()
    assert list(load(table(path, source=words, target=["a", "c"])).labels) == ["b", "a", "c"]
    wide = pa.array([1, 2], pa.uint64())
    assert load(table(path, source=[0, 1], target=wide)).links.tolist() == [[0, 1], [1, 2]]
    arcs = load(table(path, target=[1, 2], source=[0, 0]), directed=True)
    assert arcs.links.tolist() == [[0, 1], [0, 2]]
    assert load(table(path, one=[0, 1], other=[1, 2])).labels == range(3)
    assert load(table(path, i=pa.array([0, 1], pa.uint8()), j=[1, 300])).labels == (0, 1, 300)


def test_npz_from_elsewhere(tmp_path: Any) -> None:
    oracle = nx.watts_strogatz_graph(30, 4, 0.2, seed=1)
    save_npz(tmp_path / "matrix.npz", nx.to_scipy_sparse_array(oracle))
    graph = load(tmp_path / "matrix.npz")
    assert (graph.name, graph.directed) == ("matrix", False)
    assert {tuple(sorted(e)) for e in oracle.edges} == set(map(tuple, graph.links.tolist()))
    np.savez(tmp_path / "plain.npz", source=[0, 1], target=[1, 2], size=5)
    assert load(tmp_path / "plain.npz").size == 5
    np.savez(tmp_path / "links.npz", links=np.array([[0, 1], [1, 2]]))
    assert load(tmp_path / "links.npz").size == 3


def test_large_files_go_the_compiled_way(tmp_path: Any, monkeypatch: Any) -> None:
    graph = load("random-geometric:3000,0.03,2")
    monkeypatch.setattr(kernels, "LARGE", 0)
    for name in ("g.npz", "g.parquet"):
        graph.save(tmp_path / name)
        assert np.array_equal(load(tmp_path / name).links, graph.links)
    save_npz(tmp_path / "matrix.npz", graph.adjacency)
    assert np.array_equal(load(tmp_path / "matrix.npz").links, graph.links)


def test_what_is_refused(tmp_path: Any) -> None:
    for name, message in [
        ("none.npz", "none.npz cannot be read: No such file"),
        ("none.parquet", "none.parquet cannot be read: No such file"),
    ]:
        with pytest.raises(NetworkError, match=message):
            load(tmp_path / name)
    for name, message in [("a.npz", "not an .npz file"), ("a.parquet", "not a Parquet file")]:
        (tmp_path / name).write_bytes(b"no such thing")
        with pytest.raises(NetworkError, match=f"{name}: {message}"):
            load(tmp_path / name)
    with pytest.raises(NetworkError, match=r"must end in .parquet, .pq, .npz; found '.csv'"):
        WORDS.save(tmp_path / "graph.csv")
    with pytest.raises(NetworkError, match="found 'no ending'"):
        read(tmp_path / "graph")
    with pytest.raises(NetworkError, match=r"cannot be written: No such file"):
        WORDS.save(tmp_path / "folder" / "graph.npz")
    with pytest.raises(NetworkError, match=r"option \(directed\); found 'size'"):
        load(tmp_path / "graph.npz", size=3)


def test_files_with_something_else_in_them(tmp_path: Any) -> None:
    np.savez(tmp_path / "a.npz", x=np.ones(3))
    with pytest.raises(NetworkError, match=r"a.npz: found the arrays x; expected links"):
        load(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", links=np.array([{}, {}], dtype=object))
    with pytest.raises(NetworkError, match="plain arrays"):
        load(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", links=np.empty((0, 2), dtype=np.int64))
    with pytest.raises(NetworkError, match="no links"):
        load(tmp_path / "a.npz")
    path = tmp_path / "a.parquet"
    with pytest.raises(NetworkError, match=r"found the columns a, b, c; expected source and"):
        load(table(path, a=[0], b=[1], c=[2]))
    with pytest.raises(NetworkError, match="1 links lack an end"):
        load(table(path, source=[0, None], target=[1, 2]))
    with pytest.raises(NetworkError, match="self-loop at agent 5"):
        load(table(path, source=[0, 5], target=[1, 5]))
    with pytest.raises(NetworkError, match="whole numbers or words; found double"):
        load(table(path, source=[0.5, 5], target=[1.5, 5]))


def test_labels_of_other_kinds_are_not_saved(tmp_path: Any) -> None:
    mixed = Graph(2, np.array([[0, 1]]), [("a", 1), "b"])
    with pytest.raises(NetworkError, match=r"all whole numbers or all words.*found tuple"):
        mixed.save(tmp_path / "graph.npz")
    both = Graph(2, np.array([[0, 1]]), ["a", 1])
    with pytest.raises(NetworkError, match=r"all whole numbers or all words.*found both"):
        both.save(tmp_path / "graph.parquet")
