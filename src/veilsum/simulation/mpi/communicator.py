"""What ranks do together: find each other, add up, exchange buffers, and fail as one.

A rank that raises while others wait for its message leaves them waiting for ever. So an error in a
block that all ranks enter is sent to all of them and raised by each (`together`), and one that only
a single rank can have ends the job (`session`).

A launcher ends all ranks once one has died, immediately and without an explanation. So rank 0 starts
a small process beside it, which holds one end of a pipe and nothing else: if the pipe closes before
rank 0 has reported its end, the process prints what happened and how to resume. An error that only
one rank has ends the job the same way; that rank prints its message.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum._extras import install_command
from veilsum.errors import MissingExtraError, VeilsumError

_EVERYWHERE = "_raised_by_every_rank"


def world() -> Any:
    """All ranks that the launcher started, as an mpi4py communicator; one without a launcher.

    Returns
    -------
    mpi4py.MPI.Comm
        COMM_WORLD.

    Raises
    ------
    MissingExtraError
        If mpi4py or an MPI library is not installed.

    Examples
    --------
    In a script that `mpiexec -n 4 python script.py` starts::

        comm = world()
        print(comm.rank, "of", comm.size)
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as problem:  # the second if no MPI library can be loaded
        raise MissingExtraError(
            f'engine "mpi" needs mpi4py and an MPI library ({problem}); '
            f"try: {install_command('mpi')}"
        ) from problem
    return MPI.COMM_WORLD


@contextmanager
def together(comm: Any) -> Iterator[None]:
    """Enter and leave a block with all ranks; what one of them raises, each of them raises.

    Parameters
    ----------
    comm
        The communicator.

    Yields
    ------
    None
        Once, when this rank enters.

    Raises
    ------
    VeilsumError
        The error of the first rank that had one; of an `OSError`, its message.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> with together(SimpleNamespace(allgather=lambda error: [error])):
    ...     pass
    """
    mine: VeilsumError | OSError | None = None
    try:
        yield
    except (VeilsumError, OSError) as problem:
        mine = problem
    errors = comm.allgather(None if mine is None else _portable(mine))
    found = next((e for e in errors if e is not None), None)
    if found is None:
        return
    kind, text = found
    error = mine if mine is not None else kind(text)
    setattr(error, _EVERYWHERE, True)
    raise error


def _portable(problem: VeilsumError | OSError) -> tuple[type[VeilsumError], str]:
    return (type(problem) if isinstance(problem, VeilsumError) else VeilsumError), str(problem)


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


_WATCHER = """
import sys
from pathlib import Path
{how_to_resume}
if not sys.stdin.buffer.read(1):
    print(f"error: {{sys.argv[1]}}; {{how_to_resume(sys.argv[2])}}", file=sys.stderr, flush=True)
"""


_open: list[bool] = []  # whether a session is open


@contextmanager
def session(comm: Any = None, checkpoint: str | Path | None = None) -> Iterator[Any]:
    """Run a job on all ranks: if it ends on one of them it ends on all, with an explanation.

    Inside another session it does nothing. What every rank raises (`together`) is raised as usual;
    anything else, on more than one rank, ends the job with exit code 1.

    Parameters
    ----------
    comm
        The communicator; by default `world()`.
    checkpoint
        The folder of checkpoints that the explanation refers to.

    Yields
    ------
    comm
        The communicator.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> with session(SimpleNamespace(size=1, rank=0)) as comm:  # one rank: nothing to watch
    ...     comm.size
    1
    """
    comm = world() if comm is None else comm
    if comm.size == 1 or _open:
        yield comm
        return
    watcher = _watch(comm.size, checkpoint) if comm.rank == 0 else None
    _open.append(True)
    try:
        yield comm
    except BaseException as problem:
        if not is_everywhere(problem) and not isinstance(problem, SystemExit):
            _abort(comm, problem, checkpoint)
        raise
    finally:
        _open.clear()
        _dismiss(watcher)


def silence_other_ranks(comm: Any) -> None:
    """Let rank 0 alone print from now on.

    Parameters
    ----------
    comm
        The communicator, such as `world()`.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> silence_other_ranks(SimpleNamespace(rank=0))  # rank 0 goes on printing
    """
    if comm.rank != 0:
        sys.stdout = sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - until the end


def how_to_resume(folder: str) -> str:
    """Name the newest complete checkpoint of a folder, and how to resume from it.

    Its source is run by a process without veilsum: it may use `Path` and nothing else.
    """
    if not folder:
        return "no checkpoints were asked for: run it again, with --checkpoint-every to save some"
    found = sorted(Path(folder).rglob("manifest.json"), key=lambda path: path.stat().st_mtime)
    if not found:
        return f"no checkpoint in {folder} was complete yet: run the same command again"
    return f"the checkpoint {found[-1].parent} is complete: run the same command with --resume"


def _watch(ranks: int, checkpoint: str | Path | None) -> subprocess.Popen[bytes]:
    """In a new session, so that what ends rank 0 does not end it."""
    about = f"a rank of {ranks} died, or was killed, before the run was finished"
    code = _WATCHER.format(how_to_resume=inspect.getsource(how_to_resume))
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code, about, _text(checkpoint)],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def _dismiss(watcher: subprocess.Popen[bytes] | None) -> None:
    if watcher is not None:
        watcher.communicate(b".")


def _text(checkpoint: str | Path | None) -> str:
    return "" if checkpoint is None else str(Path(checkpoint).absolute())


def _abort(comm: Any, problem: BaseException, checkpoint: str | Path | None) -> None:
    """Print what went wrong on this rank and what to do, and end all ranks."""
    expected = isinstance(problem, VeilsumError | OSError)
    text = str(problem) if expected else "".join(traceback.format_exception(problem))
    how = how_to_resume(_text(checkpoint))
    message = f"error: rank {comm.rank} of {comm.size}: {text}; {how}"
    print(message, file=sys.__stderr__, flush=True)
    comm.Abort(1)
    os._exit(1)  # some libraries come back from Abort
