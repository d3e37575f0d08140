"""What zenoh's TLS says of handshakes that it refused: the only trace of them on the listening side.

zenoh writes its warnings to descriptor 1, as text, and calls nobody. `TransportLog` puts a pipe there,
gives Python's standard output another descriptor, and reads the pipe: refusals go to a function, everything
else to where it was meant for. The lines have no address. A certificate that has expired is recognised by its
end, to the second, which is enough to know whose it was if that device has proved it before.
"""

from __future__ import annotations

import datetime as dt
import io
import os
import re
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self

from veilsum.agents.transport.zenoh import load_zenoh

FILTER = "zenoh_link_tls=warn"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
REFUSED = re.compile(r"\bzenoh_link_tls::unicast: (?P<reason>.+?)\. Hint: increase the system")
EXPIRED = re.compile(r"certificate expired:.* not valid after (?P<end>\d+)")
REASONS = (
    ("invalid peer certificate", "its certificate is not of this fleet's authority"),
    ("peer sent no certificates", "it showed no certificate"),
    ("corrupt message", "it does not speak TLS"),
    ("handshake timed out", "its handshake took too long"),
)


class RefusedHandshake(NamedTuple):
    """A handshake that TLS refused.

    Attributes
    ----------
    reason : str
        Why.
    end : int or None
        When the certificate that was shown expired, in seconds of the epoch.
    """

    reason: str
    end: int | None = None

    @classmethod
    def parse(cls, line: str) -> RefusedHandshake | None:
        """Of a line of zenoh's log, if it is about one.

        Examples
        --------
        >>> line = "WARN acc-0 zenoh_link_tls::unicast: peer sent no certificates. Hint: increase the system"
        >>> RefusedHandshake.parse(line)
        RefusedHandshake(reason='it showed no certificate', end=None)
        """
        found = REFUSED.search(COLOURS.sub("", line))
        if found is None:
            return None
        said = found["reason"]
        expired = EXPIRED.search(said)
        if expired is not None:
            end = int(expired["end"])
            when = dt.datetime.fromtimestamp(end, dt.UTC)
            return cls(f"its certificate expired at {when:%Y-%m-%d %H:%M:%S} UTC", end)
        for begin, meaning in REASONS:
            if begin in said:
                return cls(f"{meaning} ({said})" if "certificate is" in meaning else meaning)
        return cls(said)


class TransportLog:
    """Reads zenoh's log while it is entered; in a process whose standard output is descriptor 1.

    Parameters
    ----------
    handle : callable
        Called with each refused handshake, from a thread of its own.
    """

    def __init__(self, handle: Callable[[RefusedHandshake], None]) -> None:
        """Nothing is redirected yet."""
        self._handle = handle
        self._kept = -1
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Begin, unless RUST_LOG asks for zenoh's log itself, or output does not go to descriptor 1."""
        if os.environ.get("RUST_LOG") or not _is_plain(sys.stdout):
            return self
        sys.stdout.flush()
        load_zenoh().init_log_from_env_or(FILTER)
        self._kept = os.dup(1)
        reading, writing = os.pipe()
        os.dup2(writing, 1)
        os.close(writing)
        self._before = sys.stdout
        sys.stdout = io.TextIOWrapper(
            io.FileIO(self._kept, "w", closefd=False),
            encoding=self._before.encoding,
            errors=self._before.errors,
            write_through=True,
        )
        self._thread = threading.Thread(
            target=self._read, args=(reading,), daemon=True, name="veilsum-log"
        )
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Put descriptor 1 back, and hand over what is left."""
        if self._thread is None:
            return
        sys.stdout.flush()
        sys.stdout = self._before
        os.dup2(self._kept, 1)  # the last end of the pipe for writing: its reader ends
        self._thread.join(1.0)
        if not self._thread.is_alive():  # otherwise it still writes there
            os.close(self._kept)

    def _read(self, descriptor: int) -> None:
        with open(descriptor, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                found = RefusedHandshake.parse(line)
                if found is None:
                    os.write(self._kept, line.encode("utf-8", "replace"))
                else:
                    self._handle(found)


def _is_plain(stream: object) -> bool:
    try:
        return isinstance(stream, io.TextIOWrapper) and stream.fileno() == 1
    except (OSError, ValueError):
        return False
