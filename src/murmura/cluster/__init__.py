"""More than one process: the simulator over MPI, sweeps over processes, and what both will cost.

    mpiexec -n 4 murmura run scenario.toml --engine mpi

Names are imported when first used; mpi4py is needed by those that talk to other ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from murmura._lazy import lazily

if TYPE_CHECKING:
    from murmura.cluster.comm import together, world
    from murmura.cluster.drive import simulate
    from murmura.cluster.load import load_slices
    from murmura.cluster.model import Machine, Workload, predict
    from murmura.cluster.network import DistributedNetwork
    from murmura.cluster.partition import Partition, divide
    from murmura.cluster.readings import SlicedSignals, load_signals
    from murmura.cluster.sweeps import Task, run_jobs
    from murmura.cluster.watch import hush, session

# No name here may also be a submodule's: importing the submodule would replace the function.
_HOMES = {
    "DistributedNetwork": "network",
    "Machine": "model",
    "Partition": "partition",
    "SlicedSignals": "readings",
    "Task": "sweeps",
    "Workload": "model",
    "divide": "partition",
    "hush": "watch",
    "load_signals": "readings",
    "load_slices": "load",
    "predict": "model",
    "run_jobs": "sweeps",
    "session": "watch",
    "simulate": "drive",
    "together": "comm",
    "world": "comm",
}

__all__ = [
    "DistributedNetwork",
    "Machine",
    "Partition",
    "SlicedSignals",
    "Task",
    "Workload",
    "divide",
    "hush",
    "load_signals",
    "load_slices",
    "predict",
    "run_jobs",
    "session",
    "simulate",
    "together",
    "world",
]

__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
