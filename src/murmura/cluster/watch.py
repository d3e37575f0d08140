"""How a job ends when a rank does not finish.

A launcher ends all ranks once one has died, at once and without a word of why or of what to do.
So rank 0 leaves a small process beside it, which holds one end of a pipe and nothing else: if the
pipe closes before rank 0 has said that it is done, the process prints what happened and how to go
on. An error that one rank alone has ends the job the same way, its message printed by that rank.
"""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from murmura.cluster import manual
from murmura.cluster.comm import is_everywhere, world
from murmura.errors import MurmuraError

_LAST_WORDS = """
import sys
if not sys.stdin.buffer.read(1):
    import importlib.util
    spec = importlib.util.spec_from_file_location("manual", sys.argv[1])
    manual = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(manual)
    words = f"error: {sys.argv[2]}; {manual.how_to_go_on(sys.argv[3])}"
    print(words, file=sys.stderr, flush=True)
"""


_open: list[bool] = []  # whether a session is on


@contextmanager
def session(comm: Any = None, checkpoint: str | Path | None = None) -> Iterator[Any]:
    """Run a job on all ranks: it ends on all of them, and says why, if it ends on one.

    Inside another session it does nothing. What every rank raises (`comm.together`) is raised as
    usual; anything else, on more than one rank, ends the job with exit code 1.
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


def hush(comm: Any) -> None:
    """Let rank 0 alone print, from now on: the others have the same to say."""
    if comm.rank != 0:
        sys.stdout = sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - until the end


def _watch(ranks: int, checkpoint: str | Path | None) -> subprocess.Popen[bytes]:
    """Its own session, so that what ends rank 0 does not end it."""
    about = f"a rank of {ranks} died, or was killed, before the run was finished"
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _LAST_WORDS, manual.__file__, about, _text(checkpoint)],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def _dismiss(watcher: subprocess.Popen[bytes] | None) -> None:
    if watcher is not None:
        watcher.communicate(b".")


def _text(checkpoint: str | Path | None) -> str:
    return "" if checkpoint is None else str(Path(checkpoint).absolute())


def _abort(comm: Any, problem: BaseException, checkpoint: str | Path | None) -> None:
    """Say what went wrong on this rank and what to do, and end all."""
    told = isinstance(problem, MurmuraError | OSError)
    words = str(problem) if told else "".join(traceback.format_exception(problem))
    how = manual.how_to_go_on(_text(checkpoint))
    said = f"error: rank {comm.rank} of {comm.size}: {words}; {how}"
    print(said, file=sys.__stderr__, flush=True)
    comm.Abort(1)
    os._exit(1)  # some libraries come back from Abort
