"""What a test leaves open: threads, child processes and sockets of this process.

Linux lists children and open files; elsewhere only threads are compared.
"""

import gc
import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from typing import NamedTuple

PATIENCE = 5.0  # seconds for what was closed to end: links and loops end in threads of their own
TASKS, FILES = Path("/proc/self/task"), "/proc/self/fd"


class Resources(NamedTuple):
    """What is open, by a text that identifies it."""

    threads: frozenset[str]
    children: frozenset[str]
    sockets: frozenset[str]

    @classmethod
    def now(cls) -> "Resources":
        """A tenth of a millisecond; more only with many threads or files."""
        threads = (f"{t.name} ({t.ident})" for t in threading.enumerate())
        return cls(frozenset(threads), frozenset(_children()), frozenset(_sockets()))

    def beyond(self, before: "Resources") -> list[str]:
        """What was not there before, in words."""
        kinds = ("thread", "process", "socket")
        return [
            f"{kind} {name}"
            for kind, mine, theirs in zip(kinds, self, before, strict=True)
            for name in sorted(mine - theirs)
        ]


def _children() -> Iterator[str]:
    """Numbers of children, of whichever thread, ended ones too if nobody waited for them.

    Not multiprocessing's resource tracker, which Python starts once and ends with this process.
    """
    tracker = str(getattr(resource_tracker._resource_tracker, "_pid", None))
    try:
        tasks = os.listdir(TASKS)
    except OSError:
        return
    for task in tasks:
        try:
            with open(f"{TASKS}/{task}/children", "rb") as listed:
                numbers = listed.read().decode().split()
        except OSError:  # the thread has just ended
            continue
        yield from (number for number in numbers if number != tracker)


def _sockets() -> Iterator[str]:
    try:
        files = os.listdir(FILES)
    except OSError:
        return
    for number in files:
        try:
            target = os.readlink(f"{FILES}/{number}")
        except OSError:  # the directory that was listed
            continue
        if target.startswith("socket:"):
            yield f"{number} ({target})"


def described(line: str) -> str:
    """With the command of a process, which says more than its number."""
    number = re.fullmatch(r"process (\d+)", line)
    if number is None:
        return line
    try:
        words = Path(f"/proc/{number[1]}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return line
    return f"{line}: {b' '.join(words).decode(errors='replace')[:200] or 'ended, not waited for'}"


@contextmanager
def nothing_left(patience: float = PATIENCE) -> Iterator[None]:
    """Fail if what is open afterwards was not open before."""
    before = Resources.now()
    yield
    left = Resources.now().beyond(before)
    if left:
        gc.collect()  # clients in cycles close their sockets when they are collected
    end = time.monotonic() + patience
    while left and time.monotonic() < end:
        subprocess._cleanup()  # type: ignore[attr-defined]  # children whose Popen is gone
        time.sleep(0.01)
        left = Resources.now().beyond(before)
    assert not left, f"this test leaves behind: {'; '.join(map(described, left))}"
