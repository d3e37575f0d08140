"""What a site and a relay say before bytes are copied, and the copying.

    site -> relay   "veilsum-relay 1 await" or "veilsum-relay 1 call NAME", and a line feed
    relay -> site   empty lines while it waits; then "ok", or "error" and why

An awaiting connection is joined with the next that calls its name; from "ok" on, all bytes are the
members'. Lines are bounded, and so is every wait.
"""

from __future__ import annotations

import asyncio
import re
import socket
from contextlib import suppress
from typing import NamedTuple

from veilsum.errors import AgentError

VERSION = 1
GREETING = "veilsum-relay"
MOST_LINE = 512  # bytes
PULSE = 15.0  # seconds between the empty lines that keep an address translation alive
HANDSHAKE = 10.0  # seconds for TLS and the first line
IDLE = 60.0  # seconds without a byte after which a link is taken for dead; zenoh sends some every second
CHUNK = 1 << 16
NAME = re.compile(r"[^\x00-\x20\x7f]{1,200}")


class Request(NamedTuple):
    """What a site asks of a relay; `name` is empty where it awaits."""

    name: str = ""

    def line(self) -> bytes:
        """As it is sent."""
        verb = f"call {self.name}" if self.name else "await"
        return f"{GREETING} {VERSION} {verb}\n".encode()

    @classmethod
    def parse(cls, line: bytes) -> Request:
        """Read what `line` wrote; raise `AgentError` for anything else, and quote none of it."""
        try:
            words = line.decode().rstrip("\n").split(" ")
        except UnicodeDecodeError:
            raise AgentError("not a request of a site") from None
        if len(words) < 3 or words[0] != GREETING:
            raise AgentError("not a request of a site")
        if words[1] != str(VERSION):
            raise AgentError(f"another version of the relay; this one speaks {VERSION}")
        if words[2:] == ["await"]:
            return cls()
        if len(words) == 4 and words[2] == "call" and NAME.fullmatch(words[3]):
            return cls(words[3])
        raise AgentError("neither await nor call NAME")


async def read_line(reader: asyncio.StreamReader) -> bytes:
    """One line with its line feed; raise `AgentError` where it is too long or cut off."""
    try:
        line = await reader.readuntil(b"\n")
    except asyncio.LimitOverrunError:
        raise AgentError(f"a line of more than {MOST_LINE} bytes") from None
    except asyncio.IncompleteReadError:
        raise AgentError("the connection ended") from None
    if len(line) > MOST_LINE:
        raise AgentError(f"a line of more than {MOST_LINE} bytes")
    return line


def notice_loss(writer: asyncio.StreamWriter) -> None:
    """Have a connection end when what was written is not acknowledged for as long as an idle one."""
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        made = writer.get_extra_info("socket")
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * IDLE))


async def join(
    one: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    other: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> tuple[int, int]:
    """Copy bytes both ways until either end closes, or both are idle; how many went each way."""
    counts, clock = [0, 0], asyncio.get_running_loop().time
    last = clock()

    async def copy(k: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal last
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                counts[k] += len(data)
                writer.write(data)
                await writer.drain()
                last = clock()

    async def idle() -> None:
        """An address translation forgets a link without a word to either end."""
        while (left := last + IDLE - clock()) > 0:
            await asyncio.sleep(left)

    ways = [
        asyncio.ensure_future(copy(0, one[0], other[1])),
        asyncio.ensure_future(copy(1, other[0], one[1])),
        asyncio.ensure_future(idle()),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for writer in (one[1], other[1]):
            writer.transport.abort()
    return counts[0], counts[1]
