"""Closing one link of a session: zenoh has no call for it, and the connection is this process's own.

A link names both of its addresses. The socket with these ends is found among the descriptors of this
process, and shut down; zenoh sees the end of the stream, and drops the link as when a peer is gone.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

DESCRIPTORS = "/dev/fd"


def close_connection(own: str, other: str) -> bool:
    """Shut down the connection between two addresses of a link.

    Parameters
    ----------
    own, other : str
        As `Link.src` and `Link.dst` have them, such as "tls/127.0.0.1:7447".

    Returns
    -------
    bool
        Whether there was such a connection.
    """
    wanted = _address(own), _address(other)
    for text in os.listdir(DESCRIPTORS):
        with suppress(OSError, ValueError), _held(int(text)) as held:
            if (_pair(held.getsockname()), _pair(held.getpeername())) == wanted:
                held.shutdown(socket.SHUT_RDWR)
                return True
    return False


@contextmanager
def _held(descriptor: int) -> Iterator[socket.socket]:
    """A copy of a socket of this process: its number may be reused at any moment."""
    copy = os.dup(descriptor)
    try:
        found = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
    with found:
        yield found


def _address(locator: str) -> tuple[str, int]:
    """Host and port of a locator, without its scheme and its options."""
    host, _, port = locator.partition("/")[2].partition("#")[0].rpartition(":")
    return _pair((host.strip("[]"), int(port)))


def _pair(name: Any) -> tuple[str, int]:
    """An address in one way of writing it: IPv4 within IPv6 is IPv4."""
    if not isinstance(name, tuple):
        raise ValueError
    found = ipaddress.ip_address(str(name[0]).partition("%")[0])
    return str(getattr(found, "ipv4_mapped", None) or found), int(name[1])
