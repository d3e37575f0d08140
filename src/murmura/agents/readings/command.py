"""The lines that a command prints."""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Sequence

from murmura.agents.ledger import ReadingOrigin
from murmura.agents.readings.base import OriginCheck, Readings, SourceState, Value, joined, number
from murmura.errors import SignalError

FIRST = "first"  # the key of a command's lines: the first value of each


class CommandReadings(Readings):
    """The lines that a command prints: one reading each, components separated by commas.

    What is printed after a restart counts as new, so a command must not repeat itself, unless it is
    `keyed`: then a line whose key was released is skipped.

    Parameters
    ----------
    command : sequence of str
        Program and arguments; started at once.
    keyed : bool
        Whether the first value of each line identifies the reading (a message number, a time
        stamp).

    Raises
    ------
    SignalError
        If the command cannot be started.

    Examples
    --------
    >>> import time
    >>> readings = CommandReadings(["echo", "42.5"])
    >>> value = readings.next()
    >>> while value is SourceState.WAITING:
    ...     time.sleep(0.01)
    ...     value = readings.next()
    >>> value
    42.5
    >>> readings.close()
    """

    def __init__(self, command: Sequence[str], keyed: bool = False) -> None:
        """Start the command, and a thread that reads its lines."""
        self.command = list(command)
        self.keyed = keyed
        self.naming = "key first" if keyed else "its number"
        try:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
            )
        except OSError as problem:
            raise SignalError(
                f"cannot start {self.command[0]!r} for readings: {problem.strerror}"
            ) from None
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._count = 0
        threading.Thread(target=self._read, daemon=True).start()

    def skip(self, count: int, check: OriginCheck | None = None) -> None:  # noqa: ARG002 - lines are new
        """Continue counting from what was released: the lines to come are new ones."""
        self._count = 0 if self.keyed else count

    def next(self) -> Value | SourceState:
        """The next line, if there is one."""
        try:
            line = self._lines.get_nowait()
        except queue.Empty:
            return SourceState.WAITING
        if line is None:
            self._lines.put(None)
            return SourceState.END
        self._count += 1
        where, self.origin = f"line {self._count} of {self.command[0]}", None
        cells = line.split(",")
        if self.keyed:
            self.origin = ReadingOrigin(cells.pop(0).strip(), keyed=True)
            if not cells:
                raise SignalError(f"{where} has a key and no value; expected both, with a comma")
        return joined(number(cell, where) for cell in cells)

    def close(self) -> None:
        """Terminate the command."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(2)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.strip():
                    self._lines.put(line.strip())
        self._lines.put(None)
