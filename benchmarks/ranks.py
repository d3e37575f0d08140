"""Rounds on 1, 2 and 4 ranks beside what the model of `veilsum.simulation.mpi.model` says of them.

    python -m benchmarks.ranks           writes benchmarks/ranks.json; a minute or two

The launcher runs in a network namespace with loopback only, because it listens on every interface.
Bandwidth, latency and the cost of a draw are measured in the same job, on as many ranks.
"""

import json
import os
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

HERE = Path(__file__).parent
SIZE, ROUNDS, RANKS = 1_000_000, 60, (1, 2, 4)
TRIAD = 4_000_000  # numbers in each of three vectors: far beyond a cache
PINGS = 200
PATCHES = (4, 16, 64, 256)


def bandwidth(comm: Any) -> Any:
    """Bytes per second that each rank gets while all of them work: a = b + s c, 24 bytes each."""
    import numba

    @numba.njit
    def triad(a: Any, b: Any, c: Any) -> None:
        for k in range(a.size):
            a[k] = b[k] + 3.0 * c[k]

    a, b, c = (np.ones(TRIAD // comm.size) for _ in range(3))
    times = []
    for _ in range(60):
        comm.Barrier()
        began = time.perf_counter()
        triad(a, b, c)
        comm.Barrier()
        times.append(time.perf_counter() - began)
    return 24 * a.size / usual(times[1:])


def usual(times: Any) -> Any:
    """The best of many: a shared machine is disturbed now and then, and never hurried."""
    return float(min(times))


def exchange(comm: Any, size: Any) -> Any:
    """Seconds that a message of so many numbers takes to the next rank, all ranks at once."""
    send, receive = np.zeros(size), np.zeros(size)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    times = []
    for _ in range(PINGS):
        began = time.perf_counter()
        comm.Sendrecv(send, right, recvbuf=receive, source=left)
        times.append(time.perf_counter() - began)
    return comm.allreduce(usual(times)) / comm.size


class Quiet:
    """Signals that cost nothing to draw, so that rounds are timed and samplers are not."""

    varies, measured = True, False

    def signals(self, t: Any, replicas: Any) -> Any:
        raise NotImplementedError("ranks draw their own agents' signals: signals_of")

    def signals_of(self, t: Any, replicas: Any, first: Any, last: Any) -> Any:
        del t
        return np.zeros((last - first, replicas))

    def expected(self, family: Any, rounds: Any) -> Any:
        del rounds
        return np.zeros(family.dimension)

    def check(self, family: Any, rounds: Any) -> None:
        pass


def problem(net: Any, algorithm: Any, replicas: Any, private: Any) -> Any:
    from veilsum import algorithms, families
    from veilsum.privacy import NoPrivacy, SignalDP
    from veilsum.simulation import Problem

    return Problem(
        net, algorithms.get(algorithm, net), families.get("normal", sigma=1.0), Quiet(),
        SignalDP(1.0) if private else NoPrivacy(), ROUNDS, replicas=replicas,
    )  # fmt: skip


def timed(comm: Any, made: Any) -> Any:
    """Seconds of a round, of the slowest rank, and the run."""
    from mpi4py import MPI

    run = begun(comm, made)
    rounds = run.advance([(t, t + 1) for t in range(ROUNDS + 1)])
    next(rounds)
    times = []
    for _ in range(ROUNDS):
        comm.Barrier()
        began = time.perf_counter()
        next(rounds)
        times.append(comm.allreduce(time.perf_counter() - began, op=MPI.MAX))
    return usual(times), run


def begun(comm: Any, made: Any) -> Any:
    """A run of one rank before its first round."""
    from veilsum.simulation.mpi.backend import MpiBackend
    from veilsum.simulation.run import Run
    from veilsum.simulation.workers import Workers

    return Run(MpiBackend(made, comm), Workers(1))


def held_by(comm: Any, path: Any, algorithm: Any, replicas: Any, private: Any) -> Any:
    """Bytes of arrays per rank: at the peak of loading, and held during a run."""
    from veilsum.simulation import mpi

    tracemalloc.start()
    net = mpi.load_slices(path)
    peak = tracemalloc.get_traced_memory()[1]
    run = begun(comm, problem(net, algorithm, replicas, private))
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert run.rows.own
    return comm.allreduce(peak) / comm.size, comm.allreduce(held) / comm.size


WORKS = (("average", 1, False), ("average", 8, False), ("learn", 8, True))


def rank_main(path: Any) -> None:
    """What a rank does: rank 0 prints one JSON object."""
    from veilsum.simulation import mpi

    comm = mpi.world()
    small = exchange(comm, 1) if comm.size > 1 else 0.0
    large = exchange(comm, 100_000) if comm.size > 1 else 0.0
    speed = bandwidth(comm)
    comm.Barrier()
    began = time.perf_counter()
    net = mpi.load_slices(path)
    loaded = time.perf_counter() - began
    rows = []
    for algorithm, replicas, private in WORKS:
        seconds, run = timed(comm, problem(net, algorithm, replicas, private))
        halo = comm.allreduce(len(run.rows.agents) - run.rows.own) / comm.size
        del run
        peak, held = held_by(comm, path, algorithm, replicas, private)
        rows.append(
            {
                "algorithm": algorithm, "streams": replicas, "groups": 1 + private, "online": private,
                "seconds": seconds, "halo": halo, "held": held, "peak": peak,
            }
        )  # fmt: skip
    entries = comm.allreduce(len(net.held.data))
    if comm.rank == 0:
        link = 800_000 / max(large - small, 1e-9) if comm.size > 1 else 0.0
        print(
            json.dumps(
                {
                    "ranks": comm.size, "agents": net.size, "degree": entries / net.size - 1,
                    "bandwidth": speed, "latency": small, "link": link, "load": loaded,
                    "rows": rows,
                }
            )
        )  # fmt: skip


def launched(ranks: Any, path: Any) -> Any:
    mpiexec = str(Path(sys.executable).with_name("mpiexec"))
    inside = 'ip link set lo up && exec "$@"'
    command = ["unshare", "-n", *([] if os.geteuid() == 0 else ["-r"]), "sh", "-c", inside, "sh"]
    command += [mpiexec, "-n", str(ranks), sys.executable, "-m", "benchmarks.ranks", str(path)]
    quiet = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, **quiet}
    )
    return json.loads(done.stdout)


def graph(folder: Any) -> Any:
    """A random geometric graph, agents numbered along the Morton curve, saved for all ranks."""
    from veilsum import networks
    from veilsum.networks.order import morton

    made = networks.random_geometric(SIZE, mean_degree=6, seed=1, connect=True)
    place = np.empty(SIZE, np.int64)
    assert made.positions is not None
    place[morton(made.positions)] = np.arange(SIZE)
    links = place[made.links]
    path = Path(folder) / "graph.npz"
    np.savez(path, links=links, size=SIZE, directed=False)
    return path, [perimeter(links, patches) for patches in PATCHES]


def perimeter(links: Any, patches: Any) -> Any:
    """How many agents a patch hears beyond it, and how many patches they are in."""
    both = np.concatenate([links, links[:, ::-1]])
    owner = both * patches // SIZE
    across = owner[:, 0] != owner[:, 1]
    heard = np.unique(owner[across, 0] * SIZE + both[across, 1])
    counts = np.bincount(heard // SIZE, minlength=patches)
    near = np.unique(owner[across, 0] * patches + owner[across, 1]) // patches
    return {
        "patches": patches, "agents": SIZE // patches, "mean": float(counts.mean()),
        "largest": int(counts.max()), "neighbours": int(np.bincount(near).max()),
    }  # fmt: skip


def main() -> None:
    with TemporaryDirectory() as folder:
        path, patches = graph(folder)
        jobs = []
        for ranks in RANKS:
            jobs.append(launched(ranks, path))
            print(json.dumps(jobs[-1]))
    report = {"cores": os.cpu_count(), "jobs": jobs, "patches": patches}
    (HERE / "ranks.json").write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    rank_main(sys.argv[1]) if len(sys.argv) > 1 else main()
