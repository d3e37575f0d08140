"""Real processes on this machine, one scenario: started, watched and ended by one command.

Workers end when their standard input closes, so they cannot outlive the fleet even if it is killed.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from murmura.agent.fleet.plan import Plan
from murmura.errors import AgentError

GRACE = 30.0  # seconds for a worker to write down what it has and end
TAIL = 6  # lines of a failed worker's words that are shown

Status = dict[str, Any]


class Fleet:
    """The workers of a plan."""

    def __init__(self, plan: Plan) -> None:
        """Nothing is started yet."""
        self.plan, self.path = plan, plan.save()
        self.status: dict[str, Status] = {}
        self._processes: list[subprocess.Popen[str]] = []
        self._lines: queue.SimpleQueue[tuple[int, str | None]] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        """Start every worker."""
        for number in range(len(self.plan.shares)):
            self._processes.append(self._spawn(number))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every worker that is still there, by its id."""
        for process in self._processes:
            self._end(process, grace=2.0)

    @property
    def pids(self) -> list[int]:
        """The ids of the workers."""
        return [process.pid for process in self._processes]

    def wait(self, seconds: float | None, told: Callable[[], None] | None = None) -> None:
        """Wait until every agent is done; raises if a worker fails or the time is up."""
        end = None if seconds is None else time.monotonic() + seconds
        while not self.done:
            if end is not None and time.monotonic() > end:
                raise AgentError(
                    f"{self._finished} of {self._agents} agents were done after {seconds:g} s; "
                    f"give more time with --timeout, or look into {self.plan.folder}"
                )
            self._hear(0.2)
            if told is not None:
                told()

    def stop(self) -> None:
        """Tell every worker to write down what it has and end."""
        for process in self._processes:
            self._say_stop(process)
        for number, process in enumerate(self._processes):
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                raise AgentError(f"{self.plan.shares[number].device} does not end") from None
        self._hear(0.0)

    @property
    def done(self) -> bool:
        """Whether every agent of every worker has its estimate."""
        return self._finished == self._agents

    @property
    def _agents(self) -> int:
        return sum(len(share.agents) for share in self.plan.shares)

    @property
    def _finished(self) -> int:
        return sum(status["done"] for status in self.status.values())

    def _spawn(self, number: int) -> subprocess.Popen[str]:
        words = (Path(self.plan.folder) / f"words-{number}.txt").open("w", encoding="utf-8")
        process = subprocess.Popen(
            [sys.executable, "-m", "murmura.agent.fleet.worker", str(self.path), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        words.close()
        assert process.stdout is not None
        threading.Thread(target=self._read, args=(number, process.stdout), daemon=True).start()
        return process

    def _read(self, number: int, lines: IO[str]) -> None:
        with lines:
            for line in lines:
                self._lines.put((number, line))
        self._lines.put((number, None))

    def _hear(self, seconds: float) -> None:
        """Take in lines of status until the time is up or there are no more."""
        try:
            number, line = self._lines.get(timeout=seconds)
            while True:
                if line is None:
                    self._check(number)
                else:
                    self.status[self.plan.shares[number].device] = json.loads(line)
                number, line = self._lines.get_nowait()
        except queue.Empty:
            return

    def _check(self, number: int) -> None:
        """A worker that ended before it was told to has failed: say what it said last."""
        code = self._processes[number].wait()
        if code == 0:
            return
        said = (Path(self.plan.folder) / f"words-{number}.txt").read_text("utf-8", "replace")
        last = " | ".join(line for line in said.splitlines()[-TAIL:] if line.strip())
        device = self.plan.shares[number].device
        raise AgentError(f"{device} ended with code {code}: {last or 'it said nothing'}")

    def _say_stop(self, process: subprocess.Popen[str]) -> None:
        if process.stdin is not None and not process.stdin.closed:
            try:
                process.stdin.write("stop\n")
                process.stdin.close()
            except BrokenPipeError:
                pass

    def _end(self, process: subprocess.Popen[str], grace: float) -> None:
        if process.poll() is not None:
            return
        self._say_stop(process)
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
