"""What a program prints: one JSON object, one number, or a list of objects, each time a slot is due."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from veilsum.errors import FleetError
from veilsum.fleet.sources.base import SourceBusyError
from veilsum.fleet.sources.current import LARGEST, CurrentSource

CHUNK = 65_536


@dataclass(frozen=True, kw_only=True)
class CommandSource(CurrentSource):
    """What a program prints.

    What it writes to standard error is not shown, since it may contain readings.
    """

    name = "command"

    command: tuple[str, ...]  # no shell; has "{start}" and "{end}" of the slot

    def __post_init__(self) -> None:
        """Check the command."""
        super().__post_init__()
        if not self.command or not self.command[0]:
            raise FleetError(
                '[data] of source command needs command, a list such as ["/usr/local/bin/meter", "--json"]'
            )

    @property
    def where(self) -> str:
        """The program, without its arguments."""
        return f"the command {self.command[0]}"

    def _sent(self) -> Sequence[str]:
        return self.command

    def _fetch(self, sent: Sequence[str]) -> bytes:
        try:
            process = subprocess.Popen(
                list(sent),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # so that its children end with it
            )
        except OSError as problem:
            raise FleetError(
                f"cannot start {self.where}: {problem.strerror}; correct command in [data]"
            ) from None
        try:
            data = self._read(process)
            code = process.wait(self._seconds)
        except subprocess.TimeoutExpired:
            raise self._busy(f"takes more than {self._seconds} seconds") from None
        finally:
            _end(process)
        if code:
            how = f"exits with code {code}" if code > 0 else f"was ended by signal {-code}"
            raise self._busy(how)
        return data

    def _read(self, process: subprocess.Popen[bytes]) -> bytes:
        """All that it prints, within the limits of size and time."""
        assert process.stdout is not None
        end, data = time.monotonic() + self._seconds, b""
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            while True:
                if not ready.select(max(0.0, end - time.monotonic())):
                    raise subprocess.TimeoutExpired(self.command[0], self._seconds)
                chunk = os.read(process.stdout.fileno(), CHUNK)
                if not chunk:
                    return data
                data += chunk
                if len(data) > LARGEST:
                    raise self._busy(f"prints more than {LARGEST} bytes")

    def _busy(self, what: str) -> SourceBusyError:
        return SourceBusyError(
            f"{self.where} {what}; what it writes to standard error is not shown, as it may contain "
            "readings; run it by hand; it is started again with the next step"
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it with all its children, and wait for it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
