"""A proxy for TCP on loopback that delays, resets and cuts connections, for tests of real transports.

    agent --> FaultyProxy --> agent

It forwards bytes as they are, so TLS between the ends stays what it is. Each direction of a
connection is a thread with one chunk in its hands: the ends feel its pace by their own windows.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from veilsum.errors import AgentError

CHUNK = 65_536  # bytes
MOST_CONNECTIONS = 64
CONNECT = 5.0  # seconds
LOOPBACK = "127.0.0.1"
RESET = struct.pack("ii", 1, 0)  # SO_LINGER with 0 s: the other end sees a reset


class FaultyProxy:
    """Forwards a port of loopback to another one, badly if asked to.

    Parameters
    ----------
    target : int
        The port where the real end listens.
    delay : float
        Seconds by which every chunk is late, in both directions.
    port : int
        Where to listen; 0 takes any free port.

    Attributes
    ----------
    port : int
        Where it listens.
    connections : int
        How many there were.

    Raises
    ------
    AgentError
        If it cannot listen.

    Examples
    --------
    >>> import socket
    >>> listener = socket.create_server(("127.0.0.1", 0))
    >>> with FaultyProxy(listener.getsockname()[1]) as proxy:
    ...     near = socket.create_connection(("127.0.0.1", proxy.port))
    ...     far, _ = listener.accept()
    ...     near.sendall(b"hello")
    ...     far.recv(5)
    b'hello'
    >>> for part in (near, far, listener):
    ...     part.close()
    """

    def __init__(self, target: int, *, delay: float = 0.0, port: int = 0) -> None:
        """Listen at once."""
        self.target, self.delay, self.connections = target, delay, 0
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._passes, self._closed = threading.Event(), threading.Event()
        self._passes.set()
        try:
            self._listener = socket.create_server((LOOPBACK, port))
        except OSError as problem:
            raise AgentError(
                f"a proxy cannot listen on port {port} of loopback: {problem.strerror}; choose "
                "another one, or 0"
            ) from None
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True, name="proxy").start()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close everything."""
        self.close()

    def partition(self) -> None:
        """Forward nothing from now on, silently: connections stay, and new ones get no answer."""
        self._passes.clear()

    def heal(self) -> None:
        """Forward again, what has waited first."""
        self._passes.set()

    def reset(self) -> int:
        """Reset all connections.

        Returns
        -------
        int
            How many there were.
        """
        with self._lock:
            pairs = tuple(self._pairs)
        for pair in pairs:
            self._end(pair, reset=True)
        return len(pairs)

    def close(self) -> None:
        """Close all connections and stop listening; may be called twice."""
        self._closed.set()
        self._passes.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        with self._lock:
            pairs = tuple(self._pairs)
        for pair in pairs:
            self._end(pair)

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                full = len(self._pairs) >= MOST_CONNECTIONS
            if full:
                near.close()
            else:
                threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self._passes.wait()
        try:
            far = socket.create_connection((LOOPBACK, self.target), CONNECT)
        except OSError:
            near.close()
            return
        far.settimeout(None)
        pair = near, far
        with self._lock:
            self.connections += 1
            self._pairs.add(pair)
        back = threading.Thread(target=self._forward, args=(far, near, pair), daemon=True)
        back.start()
        self._forward(near, far, pair)
        back.join()
        for end in pair:
            end.close()

    def _forward(
        self, source: socket.socket, to: socket.socket, pair: tuple[socket.socket, socket.socket]
    ) -> None:
        try:
            while data := source.recv(CHUNK):
                time.sleep(self.delay)
                self._passes.wait()
                to.sendall(data)
        except OSError:
            pass
        finally:
            self._end(pair)

    def _end(self, pair: tuple[socket.socket, socket.socket], reset: bool = False) -> None:
        """End a connection, once; its own threads wake and close the sockets."""
        with self._lock:
            if pair not in self._pairs:
                return
            self._pairs.discard(pair)
        for end in pair:
            with suppress(OSError):
                if reset:  # nothing is sent before the reset
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    end.shutdown(socket.SHUT_RD)
                else:
                    end.shutdown(socket.SHUT_RDWR)
