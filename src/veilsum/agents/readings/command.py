"""The lines that a command prints.

The command is read only as fast as its lines are released: beyond a few kilobytes its pipe fills
and it waits. What it writes to standard error is counted and not shown, since it may contain
readings.

A command that exits with 0 has printed its last reading. One that fails is started again, after
pauses that grow, if a key identifies its readings; without a key a second run could repeat readings
unnoticed, so no more are taken and the failure is reported as an error.
"""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from collections.abc import Sequence

from veilsum.agents.ledger import ReadingOrigin
from veilsum.agents.readings import arguments
from veilsum.agents.readings.base import (
    Notice,
    OriginCheck,
    Pauses,
    Readings,
    SourceState,
    Value,
    joined,
    number,
    put_until,
)
from veilsum.errors import SignalError

FIRST = "first"  # the key of a command's lines: the first value of each
CHUNK = 8192
MOST_CHUNKS = 4  # in memory; then the command waits
LONGEST = 65536  # bytes of a line
STEADY = 60.0  # seconds after which a run counts as a good one: pauses begin anew


class CommandReadings(Readings):
    """The lines that a command prints: one reading each, components separated by commas.

    What is printed after a restart counts as new, so a command must not repeat itself, unless it is
    `keyed`: then a line whose key was released is skipped, and a command that fails is started
    again.

    Parameters
    ----------
    command : sequence of str
        Program and arguments; started at once.
    keyed : bool
        Whether the first value of each line identifies the reading (a message number, a time
        stamp).
    pauses : Pauses, optional
        How long to wait before a keyed command that failed is started again.

    Raises
    ------
    SignalError
        If the command cannot be started.
    AgentError
        If it is no list of texts.

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

    def __init__(
        self, command: Sequence[str], keyed: bool = False, pauses: Pauses | None = None
    ) -> None:
        """Start the command, and threads that read what it writes."""
        self.command, self.keyed = arguments.command(command), keyed
        self.naming = "key first" if keyed else "its number"
        self._pauses = pauses or Pauses()
        self._count, self._again_at = 0, 0.0
        self._notices: list[Notice] = []
        self._end: SourceState | None = None
        self._run: CommandProcess | None = CommandProcess(self.command)

    def skip(self, count: int, check: OriginCheck | None = None) -> None:  # noqa: ARG002 - lines are new
        """Continue counting from what was released: the lines to come are new ones."""
        self._count = 0 if self.keyed else count

    def next(self) -> Value | SourceState:
        """The next line, if there is one."""
        if self._end is not None:
            return self._end
        if self._run is None and not self._started_again():
            return SourceState.WAITING
        assert self._run is not None
        found = self._run.line()
        if found is None:
            return self._ended(self._run) if self._run.exited else SourceState.WAITING
        self._count += 1
        self.origin = None
        return self._parsed(found, f"line {self._count} of {self.command[0]}")

    def notices(self) -> list[Notice]:
        """How the command ended, and when it is started again."""
        found, self._notices = self._notices, []
        return found

    def close(self) -> None:
        """Terminate the command."""
        if self._run is not None:
            self._run.close()

    def _parsed(self, line: bytes, where: str) -> Value:
        if len(line) > LONGEST:
            raise SignalError(f"{where} has more than {LONGEST} bytes; expected a number")
        try:
            cells = line.decode("utf-8").split(",")
        except UnicodeDecodeError as problem:
            raise SignalError(
                f"{where} is not UTF-8 text, at its byte {problem.start + 1}"
            ) from None
        if self.keyed:
            self.origin = ReadingOrigin(cells.pop(0).strip(), keyed=True)
            if not cells:
                raise SignalError(f"{where} has a key and no value; expected both, with a comma")
        return joined(number(cell, where) for cell in cells)

    def _ended(self, run: CommandProcess) -> SourceState:
        """The command has ended and all its lines were taken."""
        code = run.close()
        if code == 0:
            self._end = SourceState.END
            return self._end
        how = f"exited with code {code}" if code > 0 else f"was ended by signal {-code}"
        text = f"the command {self.command[0]} {how} after {self._count} lines"
        if run.errors:
            text += (
                f", and wrote {run.errors} bytes to standard error, which are not shown because they "
                "may contain readings"
            )
        if not self.keyed:
            self._end = SourceState.FAILED
            text += (
                '; no further reading is taken: without [readings] key = "first" a second run could '
                "repeat readings; correct the command and start the agent again"
            )
            self._notices.append(Notice(text, "error"))
            return self._end
        self._retry_later(f"{text}; correct the command", run.seconds >= STEADY)
        return SourceState.WAITING

    def _retry_later(self, text: str, steady: bool = False) -> None:
        if steady:
            self._pauses.reset()
        pause = self._pauses.next()
        self._run, self._again_at = None, time.monotonic() + pause
        self._notices.append(Notice(f"{text}; it is started again in {pause:.0f} s", "error"))

    def _started_again(self) -> bool:
        if time.monotonic() < self._again_at:
            return False
        try:
            self._run = CommandProcess(self.command)
        except SignalError as problem:
            self._retry_later(str(problem))
        return self._run is not None


class CommandProcess:
    """One process of the command, and what it has written and was not yet taken."""

    def __init__(self, command: list[str]) -> None:
        """Start it."""
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        except OSError as problem:
            raise SignalError(
                f"cannot start {command[0]!r} for readings: {problem.strerror}"
            ) from None
        self.errors = 0  # bytes that were written to standard error
        self.ended = False
        self._began = time.monotonic()
        self._rest = b""
        self._chunks: queue.Queue[bytes] = queue.Queue(MOST_CHUNKS)
        self._closing = threading.Event()
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._read, self._count_errors)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def seconds(self) -> float:
        """How long ago it was started."""
        return time.monotonic() - self._began

    @property
    def exited(self) -> bool:
        """Whether it is gone and all its lines were taken."""
        return self.ended and self._process.poll() is not None

    def line(self) -> bytes | None:
        """The next line that is not blank; None if there is none yet, or `ended`."""
        while True:
            while b"\n" not in self._rest:
                try:
                    chunk = self._chunks.get_nowait()
                except queue.Empty:
                    return None
                if not chunk:
                    found, self._rest, self.ended = self._rest.strip(), b"", True
                    return found or None
                # Of a line that is too long only the beginning is kept, which is then refused.
                self._rest = self._rest[: LONGEST + 1] + chunk
            found, self._rest = self._rest.split(b"\n", 1)
            if found.strip():
                return found.strip()

    def close(self) -> int:
        """End the process if it runs; its exit code."""
        self._closing.set()
        if self._process.poll() is None:
            self._process.terminate()
        try:
            code = self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        for thread in self._threads:
            thread.join(2)
        return code

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            while chunk := stream.read1(CHUNK):  # type: ignore[attr-defined]
                if not self._put(chunk):
                    return
        self._put(b"")

    def _put(self, chunk: bytes) -> bool:
        return put_until(self._closing, self._chunks, chunk)

    def _count_errors(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            while chunk := stream.read1(CHUNK):  # type: ignore[attr-defined]
                self.errors += len(chunk)
