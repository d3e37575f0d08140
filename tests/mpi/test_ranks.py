"""The numbers of several ranks are those of one machine, and weakened twins that go wrong are noticed."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.mpi import cases
from tests.mpi.agree import assert_same, differences
from tests.mpi.namespace import needs_namespace, run
from veilsum import networks
from veilsum.networks import Graph
from veilsum.simulation import Record, simulate

JOB = str(cases.HERE / "job.py")
pytestmark = needs_namespace


FILES = ("graph.parquet", "graph.npz", "pairs.npy", "ends.npz", "graph.csv", "lazy.csv")


def save(graph: Graph, folder: Any, rng: Any) -> None:
    """The same graph in every format, links in any order and direction, some of them twice."""
    import pyarrow as pa
    from pyarrow import parquet

    links = np.array(graph.links)[rng.permutation(len(graph.links))]
    flipped = rng.random(len(links)) < 0.5
    links[flipped] = links[flipped][:, ::-1]
    links = np.concatenate([links, links[:7][:, ::-1]])
    table = pa.table({"source": links[:, 0], "weight": links[:, 0] * 0.5, "target": links[:, 1]})
    parquet.write_table(table, folder / "graph.parquet", row_group_size=100)
    np.savez(folder / "graph.npz", links=graph.links, size=graph.size, directed=False)
    np.save(folder / "pairs.npy", links)
    np.savez(folder / "ends.npz", u=links[:, 0], v=links[:, 1])
    lines = [f"{a}, {b}" for a, b in links]
    (folder / "graph.csv").write_text("# links\nsource,target\n" + "\n".join(lines))
    (folder / "lazy.csv").write_text("\n".join([*lines[:9], "", "# more", *lines[9:]]) + "\n")


FAULTY = {
    "loop.csv": ("7,7", "self-loop at agent 7"),
    "words.csv": ("a,b", "not two whole numbers"),
    "negative.csv": ("3,-1", "agent -1 is out of range"),
    "gap.csv": ("21,25", "agent 22 has no link"),
    "apart.csv": ("21,22", "no path joins agent 0 and agent 21"),
    "wide.csv": ("1,2,3", "not two whole numbers"),
    "even.csv": ("20,0", "lazy-metropolis"),
    "links.txt": ("", "must end in"),
    "missing.parquet": (None, "cannot be read"),
}
TWO = ["learn", "chebyshev", "push-sum", "sequence", "dealt"]
SWEPT = ("average", "learn")
VERBS = ("parity", "unreadable", "wrong", "arranged", "refuse", "sliced", "memory", "sweep")


@pytest.fixture(scope="module")
def traces() -> Any:
    return {name: simulate(cases.case(name), Record(every=5)) for name in cases.SHORT}


@pytest.fixture(scope="module")
def values() -> Any:
    return cases.readings()(cases.mixing())


@pytest.fixture(scope="module")
def two(tmp_path_factory: Any, values: Any) -> Any:
    """A folder for each verb, after one job of two ranks has gone through all of them."""
    import pyarrow as pa
    from pyarrow import parquet

    place = tmp_path_factory.mktemp("two")
    folders = {verb: place / verb for verb in VERBS}
    for folder in folders.values():
        folder.mkdir()
    good = "\n".join(f"{k},{k + 1}" for k in range(20))
    for name, (line, _) in FAULTY.items():
        if line is not None:
            (folders["refuse"] / name).write_text(f"{good}\n{line}")
    save(cases.graph(), folders["sliced"], np.random.default_rng(2))
    readings = values.data.values
    np.save(folders["sliced"] / "signals.npy", readings)
    table = pa.table({str(t): readings[:, t] for t in range(readings.shape[1])})
    parquet.write_table(table, folders["sliced"] / "signals.parquet", row_group_size=50)
    more = {"parity": TWO, "refuse": list(FAULTY), "sweep": list(SWEPT)}
    words = [[verb, str(folder), *more.get(verb, ()), "+"] for verb, folder in folders.items()]
    run(2, JOB, *(word for verb in words for word in verb))
    return folders


def said(folder: Any) -> Any:
    return json.loads((folder / "said.json").read_text())


@pytest.mark.parametrize("name", TWO)
def test_two_ranks_give_the_numbers_of_one_machine(name: Any, two: Any, traces: Any) -> None:
    assert_same(traces[name], two["parity"] / f"{name}.npz")


@pytest.mark.parametrize(("ranks", "names"), [(1, ["average", "edges"]), (4, cases.SHORT)])
def test_every_algorithm_gives_the_numbers_of_one_machine(
    ranks: Any, names: Any, traces: Any, tmp_path: Any
) -> None:
    run(ranks, JOB, "parity", str(tmp_path), *names)
    for name in names:
        assert_same(traces[name], tmp_path / f"{name}.npz")


@pytest.mark.parametrize("weakened", ["local-noise", "no-halo"])
def test_the_comparison_notices_a_rank_that_goes_wrong(
    weakened: Any, two: Any, traces: Any
) -> None:
    found = differences(traces["average-network"], two["wrong"] / f"{weakened}.npz")
    assert found["private"] == np.inf
    assert found["total"] > 1e-6


def test_large_networks_keep_the_order_of_one_machine(two: Any) -> None:
    trace = simulate(cases.arranged(), Record())
    for method in ("order", "metis"):
        assert_same(trace, two["arranged"] / f"{method}.npz")


def test_slices_load_the_matrix_of_one_machine_exactly(tmp_path: Any) -> None:
    graph = cases.graph()
    save(graph, tmp_path, np.random.default_rng(2))
    run(3, JOB, "load", str(tmp_path), *FILES)
    for name in FILES:
        scheme = networks.lazy_metropolis if "lazy" in name else networks.metropolis
        whole = scheme(graph)
        with np.load(tmp_path / f"{name}.out.npz") as got:
            assert np.array_equal(got["lengths"], np.diff(whole.weights.indptr)), name
            assert np.array_equal(got["columns"], whole.weights.indices), name
            assert np.array_equal(got["data"], whole.weights.data), name
            assert np.array_equal(got["largest"], whole.largest_neighbour_weight), name
            assert got["held"].max() < 1.15 * whole.weights.nnz / 3, name


def test_faults_of_a_file_are_reported_by_every_rank(two: Any) -> None:
    heard = said(two["refuse"])
    assert len(heard) == len(FAULTY)
    for sentence, (_, expected) in zip(heard, FAULTY.values(), strict=True):
        assert expected in sentence


def test_signals_are_read_by_slices_too(two: Any, values: Any) -> None:
    whole = cases.case("learn")
    drawn = cases.blocked(whole.network)
    sources = {"drawn": whole.source, "blocked": drawn, "npy": values, "parquet": values}
    for name, source in sources.items():
        trace = simulate(replace(whole, source=source), Record(every=5))
        assert_same(trace, two["sliced"] / f"{name}.npz")


def test_a_family_that_cannot_be_described_has_one_fresh_key_and_no_checkpoint(two: Any) -> None:
    """Used to: its type alone was in the key, and another family's checkpoint was taken up."""
    reported = said(two["unreadable"])
    first, second = reported["keys"]
    assert len(set(first)) == len(set(second)) == 1, "all ranks draw the same noise"
    assert first != second
    assert "the family of this run cannot be distinguished from others" in reported["refused"]
    assert "statistic" in reported["refused"]
    assert not reported["files"]


def test_a_rank_holds_its_part_of_a_graph_and_no_more(two: Any) -> None:
    held = said(two["memory"])
    assert held["two"] < 0.65 * held["one"], held


def test_a_sweep_over_ranks_gives_the_same_numbers_and_is_resumed(two: Any, traces: Any) -> None:
    reported = said(two["sweep"])
    names = [f"{algorithm}, epsilon {e}" for algorithm in SWEPT for e in ("0.5", "2")]
    assert sorted({name for name, _, _ in reported}) == sorted(names)
    assert [done for _, done, _ in reported] == [1, 2, 3, 4] * 2
    assert {of for _, _, of in reported} == {4}
    assert len(list((two["sweep"] / "cache").glob("*.npz"))) == 4
    for algorithm in SWEPT:
        for k, e in enumerate(("0.5", "2")):
            with np.load(two["sweep"] / f"{algorithm}, epsilon {e}.npz") as got:
                assert np.array_equal(got["private"], traces[algorithm].private[:, :, k : k + 1])
                assert np.array_equal(got["total"], traces[algorithm].total[:, k : k + 1])
