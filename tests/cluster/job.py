"""What the ranks of a test's job run: python tests/cluster/job.py VERB ARGUMENTS."""

import json
import os
import sys
import time
import tracemalloc
import zlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import cases
from mpi4py import MPI

from murmura import cluster, laws
from murmura.cluster.comm import together
from murmura.cluster.sweeps import Task, apart
from murmura.engine import Drawn, Problem, Record
from murmura.errors import MurmuraError

FIELDS = (
    "total", "privacy", "decentralisation", "target", "private", "clean", "final", "mean",
    "disagreement", "noise_variance",
)  # fmt: skip


def write(path, trace):
    arrays = {name: getattr(trace, name) for name in FIELDS}
    there = {name: array for name, array in arrays.items() if array is not None}
    np.savez(path, share=trace.statistic_share, **there)


def parity(folder, *names):
    """Simulate cases; rank 0 alone has the estimates."""
    comm = cluster.world()
    for name in names:
        trace = cluster.simulate(cases.case(name), Record(every=5))
        if comm.rank == 0:
            write(Path(folder) / f"{name}.npz", trace)
        else:
            assert trace.private is None
            assert trace.final is None


def wrong(folder):
    """Twins: noise drawn by the number of a row, and estimates that never travel."""
    from murmura.cluster import halo, run

    comm = cluster.world()
    usual = run.localise

    def local(*arguments):
        part = usual(*arguments)
        return replace(part, agents=np.arange(len(part.agents), dtype=np.uint32))

    problem = cases.case("average-network")
    run.localise = local
    trace = cluster.simulate(problem, Record(every=5))
    run.localise = usual
    if comm.rank == 0:
        write(Path(folder) / "local-noise.npz", trace)
    methods = halo.Exchange.begin, halo.Exchange.finish
    halo.Exchange.begin = halo.Exchange.finish = lambda *_: None
    trace = cluster.simulate(problem, Record(every=5))
    halo.Exchange.begin, halo.Exchange.finish = methods
    if comm.rank == 0:
        write(Path(folder) / "no-halo.npz", trace)


def arranged(folder):
    """A network large enough to be put in order, divided along it and against it."""
    scattered = SimpleNamespace(
        part_graph=lambda count, xadj, **_: (0, np.arange(len(xadj) - 1) // 100 % count)
    )
    sys.modules["pymetis"] = scattered
    for method in ("order", "metis"):
        trace = cluster.simulate(cases.arranged(), Record(), method=method)
        if cluster.world().rank == 0:
            write(Path(folder) / f"{method}.npz", trace)
    del sys.modules["pymetis"]


def memory(folder):
    """Numbers that a rank holds of a graph: alone, and as one of two."""
    comm = cluster.world()
    pairs = np.stack([np.arange(200_000), np.arange(1, 200_001)], axis=1)
    path = Path(folder) / "line.npy"
    if comm.rank == 0:
        np.save(path, pairs)
    comm.Barrier()
    held = {}
    cluster.load_slices(path, comm)  # what is loaded once is not counted
    for name, ranks in (("two", comm), ("one", MPI.COMM_SELF)):
        tracemalloc.start()
        cluster.load_slices(path, ranks)
        held[name] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    say(folder, held)


def load(folder, *files):
    """Load graphs by slices and bring their rows together, for the test alone."""
    comm = cluster.world()
    whole = cases.case("average")
    for name in files:
        weights = "lazy-metropolis" if "lazy" in name else "metropolis"
        net = cluster.load_slices(Path(folder) / name, weights=weights)
        for wrong in (lambda net=net: laws.get("chebyshev", net), lambda net=net: net.at(1)):
            with pytest.raises(MurmuraError, match="distributed network"):
                wrong()
        assert laws.get(whole.law, net) is whole.law
        rows = comm.gather((np.diff(net.held.indptr), net.held.columns, net.held.data))
        largest = comm.gather(net.largest_neighbour_weight)
        if comm.rank == 0:
            lengths, columns, data = (np.concatenate(parts) for parts in zip(*rows, strict=True))
            np.savez(
                Path(folder) / f"{name}.out.npz", lengths=lengths, columns=columns, data=data,
                largest=np.concatenate(largest), held=[len(part[1]) for part in rows],
            )  # fmt: skip


def refuse(folder, *files):
    """Every rank raises the same error."""
    comm, heard = cluster.world(), []
    for name in files:
        try:
            cluster.load_slices(Path(folder) / name)
        except MurmuraError as problem:
            said = comm.allgather(str(problem))
            assert len(set(said)) == 1
            heard.append(said[0])
    say(folder, heard)


def sliced(folder):
    """Run on a distributed network, signals drawn and read by slices."""
    comm = cluster.world()
    net = cluster.load_slices(Path(folder) / "graph.parquet")
    whole = cases.case("learn")
    drawn = Drawn(whole.family, {"mu": 3.0}, net.size, 5)
    for name, source in (
        ("drawn", drawn),
        ("blocked", cases.blocked(net)),
        ("npy", cluster.load_signals(Path(folder) / "signals.npy", net)),
        ("parquet", cluster.load_signals(Path(folder) / "signals.parquet", net)),
    ):
        problem = Problem(
            net, whole.law, whole.family, source, whole.want, whole.rounds, whole.epsilons,
            whole.replicas, seed=whole.seed,
        )  # fmt: skip
        trace = cluster.simulate(problem, Record(every=5))
        if comm.rank == 0:
            write(Path(folder) / f"{name}.npz", trace)


def checkpoints(folder, *names):
    """Keep checkpoints, go on from the last one, and from one that was tampered with."""
    comm = cluster.world()
    for name in names:
        place, problem = Path(folder) / name, cases.case(name)
        first = []

        def told(t, rounds, first=first):
            del rounds
            first.append(t)

        whole = cluster.simulate(problem, Record(every=5), checkpoint=place, every=3)
        again = cluster.simulate(
            problem, Record(every=5), told, checkpoint=place, every=3, resume=True
        )
        comm.Barrier()
        if comm.rank == 0:
            write(Path(folder) / f"{name}.npz", again)
            (Path(folder) / f"{name}.txt").write_text(" ".join(sorted(os.listdir(place))))
            tamper(place)
        comm.Barrier()
        twin = cluster.simulate(problem, Record(every=5), checkpoint=place, resume=True)
        if comm.rank == 0:
            assert first[0] == 10, first
            same = [np.array_equal(getattr(whole, f), getattr(again, f)) for f in FIELDS]
            assert all(same), dict(zip(FIELDS, same, strict=True))
            assert not np.array_equal(whole.private, twin.private)


def tamper(place):
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


def foreign(folder):
    """Checkpoints that are damaged, of another problem, unfinished, or must not be."""
    place, said = Path(folder) / "checkpoints", []

    def attempt(name, **options):
        try:
            cluster.simulate(cases.case(name), checkpoint=place, **options)
        except MurmuraError as problem:
            said.append(str(problem))

    attempt("average", every=5)
    attempt("shares", resume=True)
    attempt("measured", every=5)
    comm = cluster.world()
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
    cluster.simulate(problem, None, lambda t, _: begun.append(t), checkpoint=place, resume=True)
    say(folder, {"said": said, "begun": begun})


def unreadable(folder):
    """The key of each rank for a family that cannot be described, and why it has no checkpoint."""
    from murmura.cluster.ground import Whole
    from murmura.cluster.run import Run

    comm, problem = cluster.world(), cases.unreadable(measured=True)
    keys = []
    for _ in range(2):
        run = Run(problem, Whole(problem.network, comm), comm)
        keys.append(comm.allgather(str(run.key)))
    place = Path(folder) / "unreadable"
    with pytest.raises(MurmuraError) as refused:
        cluster.simulate(cases.unreadable(measured=False), checkpoint=place, every=5)
    say(folder, {"keys": keys, "refused": str(refused.value), "files": place.exists()})


def endless(folder):
    """Take rounds, with checkpoints, until somebody ends it; ranks say who they are."""
    comm = cluster.world()
    place = Path(folder) / "checkpoints"
    with cluster.session(comm, place):
        pids = comm.gather(os.getpid())
        if comm.rank == 0:
            (Path(folder) / "pids.json").write_text(json.dumps(pids))
        slow = (lambda *_: time.sleep(0.1)) if comm.rank == 0 else None
        cluster.simulate(cases.case("long"), None, slow, checkpoint=place, every=4)


def resumed(folder):
    """Go on from where `endless` was ended; the same without stopping, for comparison."""
    comm = cluster.world()
    place, problem, told = Path(folder) / "checkpoints", cases.case("long"), []
    again = cluster.simulate(
        problem, None, lambda t, _: told.append(t), checkpoint=place, resume=True
    )
    whole = cluster.simulate(problem)
    if comm.rank == 0:
        exact = all(np.array_equal(getattr(whole, f), getattr(again, f)) for f in FIELDS)
        print(json.dumps({"first": told[0], "exact": exact}))
        write(Path(folder) / "resumed.npz", again)


def fail(kind):
    """One rank raises and the others wait for it, or all raise together."""
    comm = cluster.world()
    cluster.hush(comm)
    with cluster.session(comm):
        if kind == "together":
            with together(comm):
                if comm.rank == 1:
                    raise MurmuraError("the second rank found a fault")
        if comm.rank == 1:
            raise MurmuraError("only the second rank found a fault")
        comm.Barrier()


def broken():
    """A rank that fails in the middle of a run, where nobody opened a session."""

    def fault(t, rounds):
        del rounds
        if t == 3:
            raise ZeroDivisionError("a fault of the caller")

    cluster.simulate(cases.case("average"), None, fault)


def sweep(folder, *names):
    """Tasks over ranks; a second time they come from the shelf."""
    comm = cluster.world()
    tasks = [part for n in names for part in apart(Task(n, cases.case(n), Record(every=5)))]
    told = []
    for _ in range(2):
        traces = cluster.run_jobs(
            tasks, "mpi", resume_folder=Path(folder) / "shelf",
            progress=lambda name, done, of: told.append((name, done, of)),
        )  # fmt: skip
        assert bool(traces) == (comm.rank == 0)
        for name, trace in traces.items():
            write(Path(folder) / f"{name}.npz", trace)
    say(folder, told)


def say(folder, what):
    """What a test asks of a verb; rank 0 says it."""
    if cluster.world().rank == 0:
        (Path(folder) / "said.json").write_text(json.dumps(what))


def main(words):
    """One verb after another, `+` between them: starting ranks takes longer than most verbs."""
    while words:
        end = words.index("+") if "+" in words else len(words)
        globals()[words[0]](*words[1:end])
        words = words[end + 1 :]


if __name__ == "__main__":
    main(sys.argv[1:])
