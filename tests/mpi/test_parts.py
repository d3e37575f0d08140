"""What needs no ranks: cuts, slices of files, tasks, the model."""

import json
import math
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mpi import cases
from veilsum import families, networks
from veilsum.errors import MissingExtraError, NetworkError, VeilsumError
from veilsum.simulation import Record, simulate
from veilsum.simulation.mpi import Machine, Task, Workload, divide, predict, run_jobs
from veilsum.simulation.mpi.model import compare
from veilsum.simulation.mpi.partition import Partition, cut
from veilsum.simulation.mpi.slices import read_slice
from veilsum.simulation.mpi.sweeps import split_by_epsilon
from veilsum.simulation.recording import join


@given(st.lists(st.integers(1, 50), min_size=1, max_size=200), st.integers(1, 8))
def test_cuts_are_even_to_within_the_largest_item(work: Any, ranks: Any) -> None:
    if len(work) < ranks:
        with pytest.raises(VeilsumError, match="too few"):
            Partition(cut(np.array(work), ranks))
        return
    starts = cut(np.array(work), ranks)
    sums = [sum(work[a:b]) for a, b in pairwise(starts)]
    assert starts[0] == 0
    assert starts[-1] == len(work)
    assert min(np.diff(starts)) >= 1
    assert max(sums) <= sum(work) / ranks + max(work) * (ranks if len(work) < 2 * ranks else 1)


def test_a_partition_owns_every_agent_once_and_keeps_neighbours_together() -> None:
    net = cases.mixing()
    parts: Any = divide(net, 4, "order")
    assert sorted(parts.order) == list(range(net.size))
    assert np.array_equal(parts.order[parts.places()], np.arange(net.size))
    owner = parts.owners(parts.places())
    rows, columns = net.weights.nonzero()
    scattered = np.random.default_rng(0).permutation(owner)
    assert np.mean(owner[rows] != owner[columns]) < 0.3
    assert np.mean(scattered[rows] != scattered[columns]) > 0.5
    lengths = np.bincount(owner, np.diff(net.weights.indptr))
    assert lengths.max() < 1.1 * lengths.mean()


def test_metis_is_used_where_it_is_installed(monkeypatch: Any) -> None:
    net = cases.mixing()

    def part_graph(count: Any, xadj: Any, adjncy: Any, vweights: Any) -> Any:
        assert len(xadj) == net.size + 1
        assert len(adjncy) == net.weights.nnz - net.size
        assert np.array_equal(vweights, np.diff(net.weights.indptr))
        return 0, [k % count for k in range(net.size)]

    monkeypatch.setitem(sys.modules, "pymetis", SimpleNamespace(part_graph=part_graph))
    parts: Any = divide(net, 3)
    agents = [parts.order[slice(*parts.bounds(r))] for r in range(3)]
    assert all(set(part % 3) == {r} for r, part in enumerate(agents))
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(MissingExtraError, match="pymetis"):
        divide(net, 3, "metis")
    assert divide(net, 3).ranks == 3


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 9)), max_size=30), st.integers(1, 9)
)
def test_slices_of_text_have_every_line_once(tmp_path_factory: Any, pairs: Any, ranks: Any) -> None:
    path = tmp_path_factory.mktemp("lines") / "links.csv"
    path.write_text("".join(f"{a},{b}\n" for a, b in pairs))
    parts = [read_slice(path, r, ranks).pairs for r in range(ranks)]
    assert np.concatenate(parts).tolist() == [list(pair) for pair in pairs]


def test_slices_say_what_they_cannot_read(tmp_path: Any) -> None:
    np.savez_compressed(tmp_path / "packed.npz", links=np.zeros((3, 2), int))
    np.savez(tmp_path / "named.npz", links=np.zeros((3, 2), int), labels=["a", "b"])
    np.save(tmp_path / "flat.npy", np.zeros(4, int))
    np.save(tmp_path / "real.npy", np.zeros((4, 2)))
    for name, words in {
        "packed.npz": "is compressed",
        "named.npz": "labels of their own",
        "flat.npy": "shape",
        "real.npy": "whole numbers",
    }.items():
        with pytest.raises(NetworkError, match=words):
            read_slice(tmp_path / name, 0, 2)


def test_epsilons_split_and_joined_are_one_sweep() -> None:
    task = Task("learn", cases.case("learn"), Record(every=5))
    whole = simulate(task.problem, task.record)
    parts = split_by_epsilon(task)
    assert [p.name for p in parts] == ["learn, epsilon 0.5", "learn, epsilon 2"]
    traces = run_jobs(parts, "serial")
    again = join([traces[p.name] for p in parts])
    for name in ("total", "privacy", "private", "noiseless", "final", "mean", "noise_variance"):
        assert np.array_equal(getattr(whole, name), getattr(again, name)), name


def test_a_pool_gives_the_same_numbers_and_a_cache_stores_them(tmp_path: Any) -> None:
    tasks = split_by_epsilon(Task("learn", cases.case("learn"), Record(every=5)))
    reported: list[Any] = []
    options: Any = {"resume_folder": tmp_path, "progress": lambda *news: reported.append(news)}
    pooled: Any = run_jobs(tasks, "pool", workers=2, **options)
    alone: Any = run_jobs(tasks, "serial")
    kept: Any = run_jobs(tasks, "serial", **options)
    for task in tasks:
        for trace in (pooled[task.name], kept[task.name]):
            assert np.array_equal(trace.private, alone[task.name].private)
            assert trace.recorded_rounds == alone[task.name].recorded_rounds
    assert [(done, of) for _, done, of in reported] == [(1, 2), (2, 2)] * 2
    kinds = {path.suffix for path in tmp_path.iterdir()}
    assert kinds == {".npz"}


def test_a_cache_ignores_what_is_damaged_or_of_another_problem(tmp_path: Any) -> None:
    task = Task("one", cases.case("bare"))
    trace = run_jobs([task], "serial", resume_folder=tmp_path)["one"]
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-9])
    again = run_jobs([task], "serial", resume_folder=tmp_path)["one"]
    assert np.array_equal(trace.decentralisation, again.decentralisation)
    other = Task("one", cases.case("average"))
    assert run_jobs([other], "serial", resume_folder=tmp_path)["one"].total.size
    assert len(list(tmp_path.iterdir())) == 2


def drawn(family: Any, net: Any = None) -> Any:
    problem: Any = cases.case("average")
    source = replace(problem.source, parameters={"mean": 3.0}, family=family)
    return Task(
        "one", replace(problem, family=family, source=source, network=net or problem.network)
    )


def normal(rng: Any, size: Any, mean: Any) -> Any:
    return rng.normal(mean, 1.0, size)


def test_a_cache_distinguishes_families_and_schedules_by_their_contents(tmp_path: Any) -> None:
    """Used to: a custom family was its bounds, and a schedule its first round."""
    support, net = families.Support(), cases.mixing()

    def family(L: Any) -> Any:
        return families.Custom(lambda s: s, support, L, mean=lambda mean: mean, sampler=normal)

    def later(t: Any) -> Any:
        return networks.from_callable(lambda s: net.weights if s < t else cases.graph(), net.size)

    tasks = [drawn(family(L)) for L in (1.0, 3.0)]
    tasks += [drawn(family(1.0), later(t)) for t in (5, 6)]
    for task in tasks:
        run_jobs([task], "serial", resume_folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == len(tasks)
    run_jobs(tasks[:1], "serial", resume_folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == len(tasks)


def test_a_task_that_cannot_be_described_is_not_kept(tmp_path: Any) -> None:
    task = Task("odd", cases.unreadable(measured=False))
    with pytest.raises(
        VeilsumError, match="the family of task 'odd' cannot be distinguished from others"
    ):
        run_jobs([task], "serial", resume_folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_errors_of_a_task_carry_its_name_and_measured_signals_stay_here(tmp_path: Any) -> None:
    measured = Task("meters", cases.case("measured"))
    with pytest.raises(VeilsumError, match="measured signals are not copied"):
        run_jobs([measured, Task("b", cases.case("bare"))], "pool")
    with pytest.raises(VeilsumError, match="'meters' runs on measured signals"):
        run_jobs([measured], "serial", resume_folder=tmp_path)
    wrong = Task("wrong", cases.case("average"), Record(agents=["nobody"]))
    with pytest.raises(VeilsumError, match="task 'wrong': record names agents"):
        run_jobs([wrong], "serial")
    with pytest.raises(VeilsumError, match="tasks must have different names"):
        run_jobs([measured, measured], "serial")


MACHINE = Machine(bandwidth=1e10, latency=1e-6, link=1e9)


def test_the_model_is_its_formula() -> None:
    work = Workload(10**6, degree=6, groups=2)
    alone = predict(work, MACHINE, 1)
    assert alone.seconds == pytest.approx(10**6 * (12 * 7 + 16 * 2) / 1e10)
    assert alone.exchange == alone.halo == 0
    four = predict(work, MACHINE, 4)
    assert four.halo == 5 * math.sqrt(250_000)
    assert four.exchange == pytest.approx(3e-6 + 8 * 2 * 2500 / 1e9)
    assert four.seconds == pytest.approx(alone.seconds / 4 + four.exchange)
    assert four.memory < alone.memory / 3.9
    online = Workload(10**6, groups=2, online=True)
    drawing = Machine(bandwidth=1e10, latency=1e-6, link=1e9, draw=1e-9)
    assert predict(online, drawing, 1).seconds == pytest.approx(alone.seconds + 1e-3)


def test_overlap_hides_the_smaller_of_the_two() -> None:
    hiding = Machine(bandwidth=1e10, latency=1e-6, link=1e9, overlap=1.0)
    found = predict(Workload(10**8), hiding, 64)
    assert found.seconds == pytest.approx(max(found.compute, found.exchange))
    assert found.hidden == min(found.compute, found.exchange) > 0


@given(st.integers(10**3, 10**9), st.integers(1, 4096))
def test_more_ranks_never_need_more_memory_each(agents: Any, ranks: Any) -> None:
    work = Workload(agents)
    assert predict(work, MACHINE, 2 * ranks).memory <= predict(work, MACHINE, ranks).memory * 1.7


def test_the_model_agrees_with_what_was_measured() -> None:
    """Time to a factor of 2.5, for the machine was shared; memory to a tenth."""
    path = Path(__file__).parents[2] / "benchmarks" / "ranks.json"
    found = compare(json.loads(path.read_text()))
    assert sorted({c.ranks for c in found}) == [1, 2, 4]
    for c in found:
        assert c.factor < 2.5, c
        assert c.model.memory == pytest.approx(c.held, rel=0.1), c
        assert c.model.loading == pytest.approx(c.peak, rel=0.1), c
    twice = [replace(c, held=2 * c.held) for c in found]  # a weakened twin that must be noticed
    assert all(c.model.memory != pytest.approx(c.held, rel=0.1) for c in twice)


def test_the_model_refuses_nonsense() -> None:
    with pytest.raises(VeilsumError, match="overlap"):
        Machine(bandwidth=1e10, latency=1e-6, link=1e9, overlap=2)
    with pytest.raises(VeilsumError, match="ranks"):
        predict(Workload(10), MACHINE, 0)
