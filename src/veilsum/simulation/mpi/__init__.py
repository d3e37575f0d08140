"""More than one process: the simulator over MPI, sweeps over processes, and a model of their cost.

    mpiexec -n 4 veilsum run scenario.toml --engine mpi

Names are imported when first used; mpi4py is needed by those that talk to other ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from veilsum._lazy import lazily

if TYPE_CHECKING:
    from veilsum.simulation.mpi.communicator import session, silence_other_ranks, together, world
    from veilsum.simulation.mpi.model import Machine, Workload, predict
    from veilsum.simulation.mpi.network import DistributedNetwork, load_slices
    from veilsum.simulation.mpi.partition import Partition, divide
    from veilsum.simulation.mpi.runner import simulate
    from veilsum.simulation.mpi.slices import SlicedSignals, load_signals
    from veilsum.simulation.mpi.sweeps import Task, run_jobs

# No name here may also be a submodule's: importing the submodule would replace the function.
_HOMES = {
    "DistributedNetwork": "network",
    "Machine": "model",
    "Partition": "partition",
    "SlicedSignals": "slices",
    "Task": "sweeps",
    "Workload": "model",
    "divide": "partition",
    "load_signals": "slices",
    "load_slices": "network",
    "predict": "model",
    "run_jobs": "sweeps",
    "session": "communicator",
    "silence_other_ranks": "communicator",
    "simulate": "runner",
    "together": "communicator",
    "world": "communicator",
}

__all__ = [
    "DistributedNetwork",
    "Machine",
    "Partition",
    "SlicedSignals",
    "Task",
    "Workload",
    "divide",
    "load_signals",
    "load_slices",
    "predict",
    "run_jobs",
    "session",
    "silence_other_ranks",
    "simulate",
    "together",
    "world",
]

__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
