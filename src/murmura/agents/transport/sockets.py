"""Closing one link of a session: zenoh has no call for it, and the connection is this process's own.

A link names both of its addresses. The socket with these ends is found among the descriptors of this
process, and shut down; zenoh sees the end of the stream, and drops the link as when a peer is gone.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from contextlib import suppress
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
        with suppress(OSError, ValueError):
            held = socket.socket(fileno=os.dup(int(text)))  # a copy: the number may be reused
            with held:
                if (_pair(held.getsockname()), _pair(held.getpeername())) == wanted:
                    held.shutdown(socket.SHUT_RDWR)
                    return True
    return False


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
