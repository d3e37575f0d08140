"""What ranks do together: find each other, and fail as one.

A rank that raises while others wait for its message leaves them waiting for ever. So an error in a
block that all ranks enter is told to all of them and raised by each (`together`), and one that
only a single rank can have ends the job (`session` in `watch`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura.errors import MissingExtraError, MurmuraError

_EVERYWHERE = "_raised_by_every_rank"


def world() -> Any:
    """All ranks that the launcher started; one without a launcher."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as problem:  # the second if no MPI library can be loaded
        raise MissingExtraError(
            f'engine "mpi" needs mpi4py and an MPI library ({problem}); '
            'try: pip install "murmura[mpi]"'
        ) from problem
    return MPI.COMM_WORLD


@contextmanager
def together(comm: Any) -> Iterator[None]:
    """Enter and leave with all ranks; what one of them raises, each of them raises."""
    mine: MurmuraError | OSError | None = None
    try:
        yield
    except (MurmuraError, OSError) as problem:
        mine = problem
    faults = comm.allgather(None if mine is None else _portable(mine))
    found = next((f for f in faults if f is not None), None)
    if found is None:
        return
    kind, text = found
    error = mine if mine is not None else kind(text)
    setattr(error, _EVERYWHERE, True)
    raise error


def _portable(problem: MurmuraError | OSError) -> tuple[type[MurmuraError], str]:
    return (type(problem) if isinstance(problem, MurmuraError) else MurmuraError), str(problem)


def is_everywhere(problem: BaseException) -> bool:
    """Whether every rank raises this error, so that none of them waits for another."""
    return getattr(problem, _EVERYWHERE, False)


def total(comm: Any, values: Any) -> NDArray[Any]:
    """The sum over ranks of an array, on every rank."""
    mine = np.ascontiguousarray(values)
    out = np.empty_like(mine)
    comm.Allreduce(mine, out)
    return out


def swap(comm: Any, parts: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Send parts[q] to rank q and return what each rank sent here, as buffers, not objects.

    All parts have one dtype and the same shape but for their first axis.
    """
    from mpi4py import MPI

    kind, rest = parts[0].dtype, parts[0].shape[1:]
    sizes = np.array([len(part) for part in parts], dtype=np.int64)
    coming = np.empty_like(sizes)
    comm.Alltoall(sizes, coming)
    received = [np.empty((n, *rest), dtype=kind) for n in coming.tolist()]
    requests = [comm.Irecv(r, source=q) for q, r in enumerate(received) if r.size]
    requests += [
        comm.Isend(np.ascontiguousarray(part), dest=q) for q, part in enumerate(parts) if part.size
    ]
    MPI.Request.Waitall(requests)
    return received
