"""What the ranks of a test run: `namespace.start` calls `python tests/mpi/job.py VERB ARGUMENTS`."""

import json
import os
import sys
import time
import tracemalloc
import zlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from mpi4py import MPI

from tests.mpi import cases
from veilsum import algorithms
from veilsum.errors import VeilsumError
from veilsum.simulation import Problem, Record, SyntheticSignals, mpi
from veilsum.simulation.mpi.communicator import together
from veilsum.simulation.mpi.sweeps import Task, split_by_epsilon

FIELDS = (
    "total", "privacy", "decentralisation", "target", "private", "noiseless", "final", "mean",
    "disagreement", "noise_variance",
)  # fmt: skip


def write(path: Any, trace: Any) -> None:
    arrays = {name: getattr(trace, name) for name in FIELDS}
    there = {name: array for name, array in arrays.items() if array is not None}
    np.savez(path, gain=trace.statistic_gain, **there)


def parity(folder: Any, *names: Any) -> None:
    """Simulate cases; rank 0 alone has the estimates."""
    comm = mpi.world()
    for name in names:
        trace = mpi.simulate(cases.case(name), Record(every=5))
        if comm.rank == 0:
            write(Path(folder) / f"{name}.npz", trace)
        else:
            assert trace.private is None
            assert trace.final is None


def wrong(folder: Any) -> None:
    """Weakened twins: noise drawn by the number of a row, and estimates that never travel."""
    import veilsum.simulation.mpi.backend as module
    from veilsum.simulation.mpi import partition

    comm, backend = mpi.world(), cast(Any, module)
    usual = backend.localise

    def local(*arguments: Any) -> Any:
        part = usual(*arguments)
        return replace(part, agents=np.arange(len(part.agents), dtype=np.uint32))

    problem = cases.case("average-network")
    backend.localise = local
    trace = mpi.simulate(problem, Record(every=5))
    backend.localise = usual
    if comm.rank == 0:
        write(Path(folder) / "local-noise.npz", trace)
    kind: Any = partition.Exchange
    methods = kind.begin, kind.finish
    kind.begin = kind.finish = lambda *_: None
    trace = mpi.simulate(problem, Record(every=5))
    kind.begin, kind.finish = methods
    if comm.rank == 0:
        write(Path(folder) / "no-halo.npz", trace)


def arranged(folder: Any) -> None:
    """A network large enough to be put in order, divided along it and against it."""
    scattered = SimpleNamespace(
        part_graph=lambda count, xadj, **_: (0, np.arange(len(xadj) - 1) // 100 % count)
    )
    sys.modules["pymetis"] = cast(Any, scattered)
    for method in ("order", "metis"):
        trace = mpi.simulate(cases.arranged(), Record(), method=method)
        if mpi.world().rank == 0:
            write(Path(folder) / f"{method}.npz", trace)
    del sys.modules["pymetis"]


def memory(folder: Any) -> None:
    """Numbers that a rank holds of a graph: alone, and as one of two."""
    comm = mpi.world()
    pairs = np.stack([np.arange(200_000), np.arange(1, 200_001)], axis=1)
    path = Path(folder) / "line.npy"
    if comm.rank == 0:
        np.save(path, pairs)
    comm.Barrier()
    held = {}
    mpi.load_slices(path, comm)  # what is loaded once is not counted
    for name, ranks in (("two", comm), ("one", MPI.COMM_SELF)):
        tracemalloc.start()
        mpi.load_slices(path, ranks)
        held[name] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    say(folder, held)


def load(folder: Any, *files: Any) -> None:
    """Load graphs by slices and bring their rows together, for the test alone."""
    comm = mpi.world()
    whole = cases.case("average")
    for name in files:
        weights = "lazy-metropolis" if "lazy" in name else "metropolis"
        net = mpi.load_slices(Path(folder) / name, weights=weights)
        for wrong in (lambda net=net: algorithms.get("chebyshev", net), lambda net=net: net.at(1)):
            with pytest.raises(VeilsumError, match="distributed network"):
                wrong()
        assert algorithms.get(whole.algorithm, net) is whole.algorithm
        rows = comm.gather((np.diff(net.held.indptr), net.held.columns, net.held.data))
        largest = comm.gather(net.largest_neighbour_weight)
        if comm.rank == 0:
            lengths, columns, data = (np.concatenate(parts) for parts in zip(*rows, strict=True))
            np.savez(
                Path(folder) / f"{name}.out.npz", lengths=lengths, columns=columns, data=data,
                largest=np.concatenate(largest), held=[len(part[1]) for part in rows],
            )  # fmt: skip


def refuse(folder: Any, *files: Any) -> None:
    """Every rank raises the same error."""
    comm, heard = mpi.world(), []
    for name in files:
        try:
            mpi.load_slices(Path(folder) / name)
        except VeilsumError as problem:
            said = comm.allgather(str(problem))
            assert len(set(said)) == 1
            heard.append(said[0])
    say(folder, heard)


def sliced(folder: Any) -> None:
    """Run on a distributed network, signals drawn and read by slices."""
    comm = mpi.world()
    net = mpi.load_slices(Path(folder) / "graph.parquet")
    whole = cases.case("learn")
    drawn = SyntheticSignals(whole.family, {"mu": 3.0}, net.size, 5)
    for name, source in (
        ("drawn", drawn),
        ("blocked", cases.blocked(net)),
        ("npy", mpi.load_signals(Path(folder) / "signals.npy", net)),
        ("parquet", mpi.load_signals(Path(folder) / "signals.parquet", net)),
    ):
        problem = Problem(
            net, whole.algorithm, whole.family, source, whole.privacy, whole.rounds, whole.epsilons,
            whole.replicas, seed=whole.seed,
        )  # fmt: skip
        trace = mpi.simulate(problem, Record(every=5))
        if comm.rank == 0:
            write(Path(folder) / f"{name}.npz", trace)


def checkpoints(folder: Any, *names: Any) -> None:
    """Keep checkpoints, go on from the last one, and from one that was tampered with."""
    comm = mpi.world()
    for name in names:
        place, problem = Path(folder) / name, cases.case(name)
        first: list[int] = []

        def reported(t: Any, rounds: Any, first: Any = first) -> None:
            del rounds
            first.append(t)

        whole: Any = mpi.simulate(problem, Record(every=5), checkpoint=place, every=3)
        again = mpi.simulate(
            problem, Record(every=5), reported, checkpoint=place, every=3, resume=True
        )
        comm.Barrier()
        if comm.rank == 0:
            write(Path(folder) / f"{name}.npz", again)
            (Path(folder) / f"{name}.txt").write_text(" ".join(sorted(os.listdir(place))))
            tamper(place)
        comm.Barrier()
        weakened: Any = mpi.simulate(problem, Record(every=5), checkpoint=place, resume=True)
        if comm.rank == 0:
            assert first[0] == 10, first
            same = [np.array_equal(getattr(whole, f), getattr(again, f)) for f in FIELDS]
            assert all(same), dict(zip(FIELDS, same, strict=True))
            assert not np.array_equal(whole.private, weakened.private)


def tamper(place: Any) -> None:
    """Move one estimate of the newest checkpoint, in a way that its checksum does not show."""
    newest = sorted(place.iterdir())[-1]
    part, manifest = newest / "part-00000.npz", newest / "manifest.json"
    with np.load(part) as file:
        arrays = {key: file[key] for key in file.files}
    arrays["state0"][0] += 1e-9
    np.savez(part, **arrays)
    about = json.loads(manifest.read_text())
    about["parts"][0] = [part.stat().st_size, zlib.crc32(part.read_bytes())]
    manifest.write_text(json.dumps(about))


def foreign(folder: Any) -> None:
    """Checkpoints that are damaged, of another problem, unfinished, or must not be."""
    place, said = Path(folder) / "checkpoints", []

    def attempt(name: Any, **options: Any) -> None:
        try:
            mpi.simulate(cases.case(name), checkpoint=place, **options)
        except VeilsumError as problem:
            said.append(str(problem))

    attempt("average", every=5)
    attempt("budget-fractions", resume=True)
    attempt("measured", every=5)
    comm = mpi.world()
    comm.Barrier()
    if comm.rank == 0:
        (place / "round-00000010" / "part-00001.npz").write_bytes(b"torn")
    comm.Barrier()
    attempt("average", resume=True)
    comm.Barrier()
    if comm.rank == 0:
        (place / "round-00000010" / "manifest.json").unlink()
    comm.Barrier()
    begun = []
    problem = cases.case("average")
    mpi.simulate(problem, None, lambda t, _: begun.append(t), checkpoint=place, resume=True)
    say(folder, {"said": said, "begun": begun})


def unreadable(folder: Any) -> None:
    """The key of each rank for a family that cannot be described, and why it has no checkpoint."""
    from veilsum.simulation.mpi.backend import MpiBackend
    from veilsum.simulation.run import Run
    from veilsum.simulation.workers import Workers

    comm, problem = mpi.world(), cases.unreadable(measured=True)
    keys = []
    for _ in range(2):
        run = Run(MpiBackend(problem, comm), Workers(1))
        keys.append(comm.allgather(str(run.key)))
    place = Path(folder) / "unreadable"
    with pytest.raises(VeilsumError) as refused:
        mpi.simulate(cases.unreadable(measured=False), checkpoint=place, every=5)
    say(folder, {"keys": keys, "refused": str(refused.value), "files": place.exists()})


def endless(folder: Any) -> None:
    """Take rounds, with checkpoints, until somebody ends it; ranks say who they are."""
    comm = mpi.world()
    place = Path(folder) / "checkpoints"
    with mpi.session(comm, place):
        pids = comm.gather(os.getpid())
        if comm.rank == 0:
            (Path(folder) / "pids.json").write_text(json.dumps(pids))
        slow = (lambda *_: time.sleep(0.1)) if comm.rank == 0 else None
        mpi.simulate(cases.case("long"), None, slow, checkpoint=place, every=4)


def resumed(folder: Any) -> None:
    """Go on from where `endless` was ended; the same without stopping, for comparison."""
    comm = mpi.world()
    place, problem, reported = Path(folder) / "checkpoints", cases.case("long"), []
    again = mpi.simulate(
        problem, None, lambda t, _: reported.append(t), checkpoint=place, resume=True
    )
    whole = mpi.simulate(problem)
    if comm.rank == 0:
        exact = all(np.array_equal(getattr(whole, f), getattr(again, f)) for f in FIELDS)
        print(json.dumps({"first": reported[0], "exact": exact}))
        write(Path(folder) / "resumed.npz", again)


def fail(kind: Any) -> None:
    """One rank raises and the others wait for it, or all raise together."""
    comm = mpi.world()
    mpi.silence_other_ranks(comm)
    with mpi.session(comm):
        if kind == "together":
            with together(comm):
                if comm.rank == 1:
                    raise VeilsumError("the second rank found a fault")
        if comm.rank == 1:
            raise VeilsumError("only the second rank found a fault")
        comm.Barrier()


def broken() -> None:
    """A rank that fails in the middle of a run, where nobody opened a session."""

    def fault(t: Any, rounds: Any) -> None:
        del rounds
        if t == 3:
            raise ZeroDivisionError("a fault of the caller")

    mpi.simulate(cases.case("average"), None, fault)


def sweep(folder: Any, *names: Any) -> None:
    """Tasks over ranks; a second time they come from the cache."""
    comm = mpi.world()
    tasks = [
        part for n in names for part in split_by_epsilon(Task(n, cases.case(n), Record(every=5)))
    ]
    reported = []
    for _ in range(2):
        traces = mpi.run_jobs(
            tasks, "mpi", resume_folder=Path(folder) / "cache",
            progress=lambda name, done, of: reported.append((name, done, of)),
        )  # fmt: skip
        assert bool(traces) == (comm.rank == 0)
        for name, trace in traces.items():
            write(Path(folder) / f"{name}.npz", trace)
    say(folder, reported)


def say(folder: Any, what: Any) -> None:
    """What a test asks of a verb; rank 0 says it."""
    if mpi.world().rank == 0:
        (Path(folder) / "said.json").write_text(json.dumps(what))


def main(words: Any) -> None:
    """One verb after another, `+` between them: starting ranks takes longer than most verbs."""
    while words:
        end = words.index("+") if "+" in words else len(words)
        globals()[words[0]](*words[1:end])
        words = words[end + 1 :]


if __name__ == "__main__":
    main(sys.argv[1:])
