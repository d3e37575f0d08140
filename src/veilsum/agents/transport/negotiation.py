"""Which version of the wire each neighbour reads: agreed on for each link, by the Hellos on it.

A Hello says which version is the newest that its sender reads. Until a neighbour has said Hello, it is
written to in the oldest version that is read here, and from then on in the newest that both ends speak.
A neighbour that went down is unknown again: it may come back as an earlier version.

Between N + 1 and N one Hello is lost at most: N + 1 greets in N, its oldest, which N reads; the first of N
may be in N - 1, which N + 1 does not read, and the answer is in N. Mass and registers are cumulative and
records are compared, so what was refused in between is not missed.
"""

from __future__ import annotations

from collections.abc import Callable

from veilsum.agents.messages import Hello, Message
from veilsum.agents.versions import WIRE, Format
from veilsum.agents.wire import encode

Heard = Callable[[Hello, int], None]  # a Hello, and the version that it was written in


class LinkVersions:
    """The version of every neighbour of one device's agents.

    Parameters
    ----------
    spoken : Format
        What this end reads; for tests of later versions.

    Examples
    --------
    >>> from veilsum.agents.messages import CumulativeMass
    >>> versions, mass = LinkVersions(), CumulativeMass("a", "b", 1, 1, 3, 2, (20,), 4)
    >>> versions.encode(mass)[2]
    5
    >>> versions.hear(Hello("b", "a", 1, 0, 1, bytes(32), (), speaks=9), 5)
    >>> versions.encode(mass)[2]
    6
    """

    def __init__(self, spoken: Format = WIRE) -> None:
        """No neighbour has said Hello."""
        self._spoken, self._peers = spoken, dict[str, int]()

    def encode(self, message: Message) -> bytes:
        """The bytes of a message, in the version that its receiver reads."""
        version = self._peers.get(message[1], self._spoken.oldest)
        if type(message) is Hello:
            message = message._replace(speaks=self._spoken.newest)
        return encode(message, version)

    def hear(self, hello: Hello, version: int) -> None:
        """Take a neighbour's Hello, which came in this version and under the neighbour's key."""
        self._peers[hello.sender] = min(self._spoken.newest, max(version, hello.speaks))

    def forget(self, peer: str) -> None:
        """A neighbour went down."""
        self._peers.pop(peer, None)
