"""What an agent has released, as one short head that neighbours remember.

    h_k = HMAC-SHA256(secret, h_{k-1}, release k),   the first 16 bytes,   in the ledger's order.

The number k and the head h_k travel with every message. Neighbours keep the last they saw of each
member, across lives, starts and epochs, and say it back when the member starts. The member, who
alone can compute heads, compares: a head that its ledger does not lead to means that somebody with
its name released something that this ledger does not know of.

The hash is keyed. Under Network DP a release is the noise that hides the neighbours' estimates: an
open hash would let anyone who tries all values of a release find it, and take it off the totals.
"""

from __future__ import annotations

import hmac

from murmura.agent.events import Released

SIZE = 16  # bytes of a head
NO_SECRET = b"murmura"  # where there is none, as in a rehearsal: equal for everyone


class History:
    """The heads of one agent's releases, oldest first."""

    def __init__(self, label: str, secret: bytes = b"") -> None:
        """Nothing was released."""
        self._key = hmac.digest(secret or NO_SECRET, f"releases\n{label}".encode(), "sha256")
        self._heads = bytearray()
        self._last, self._gaps = 0, set[int]()

    def __len__(self) -> int:
        """How many releases there are."""
        return len(self._heads) // SIZE

    @property
    def head(self) -> bytes:
        """h_k of the last release; empty before the first."""
        return self.at(len(self))

    def at(self, count: int) -> bytes:
        """h_k after so many releases; empty for none, or more than there are."""
        return bytes(self._heads[SIZE * (count - 1) : SIZE * count]) if count else b""

    def add(self, released: Released) -> bool:
        """Take in a release, unless it is there; whether it was new."""
        reading = released.reading
        if reading <= self._last and reading not in self._gaps:
            return False
        self._gaps.discard(reading)
        self._gaps.update(range(self._last + 1, reading))
        self._last = max(self._last, reading)
        numbers = " ".join(format(n, "x") for n in (reading, released.weight, *released.sums))
        said = self.head + numbers.encode()
        self._heads += hmac.digest(self._key, said, "sha256")[:SIZE]
        return True
