"""Numbers that are missing below the highest one: of slots that went without a release.

A stream may have more slots without a release than with one, and none of them is ever forgotten. They
are stored as runs of consecutive numbers,

    starts[k] .. ends[k],   starts[0] <= ends[0] < starts[1] - 1 < ...

and every run but the last ends with a release: there are never more runs than releases, however many
slots there are. As text the lengths of runs and of what is between them are packed.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise

from veilsum.errors import LedgerError

BITS = 7  # of a length in each byte; the eighth says that more follow


class Gaps:
    """A set of numbers from 1, in runs; numbers are added above all that there are.

    Parameters
    ----------
    numbers : iterable of int
        In ascending order.

    Examples
    --------
    >>> gaps = Gaps(range(1, 10_001))
    >>> gaps.discard(5000)
    >>> 4999 in gaps, 5000 in gaps, len(gaps), gaps.runs
    (True, False, 9999, 2)
    >>> Gaps.parse(gaps.text()) == gaps, len(gaps.text())
    (True, 20)
    """

    __slots__ = ("_ends", "_starts", "_text")

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        """Gather the runs."""
        self._starts, self._ends = array("q"), array("q")
        self._text: str | None = ""  # as long as nothing changes
        for number in numbers:
            self.extend(number, number)

    def extend(self, first: int, last: int) -> None:
        """Add the numbers from one to another, above all that there are; none if it ends before.

        Raises
        ------
        ValueError
            If they are not above all others.
        """
        if last < first:
            return
        highest = self._ends[-1] if self._ends else 0
        if first <= highest:
            raise ValueError(
                f"numbers are added in ascending order: {first} is not above {highest}"
            )
        self._text = None
        if highest and first == highest + 1:
            self._ends[-1] = last
        else:
            self._starts.append(first)
            self._ends.append(last)

    def discard(self, number: int) -> None:
        """Take a number out, if it is there: its run is shortened or parted."""
        if number not in self:
            return
        place = bisect_right(self._starts, number) - 1
        first, last = self._starts[place], self._ends[place]
        self._text = None
        del self._starts[place], self._ends[place]
        for one, other in ((number + 1, last), (first, number - 1)):
            if one <= other:
                self._starts.insert(place, one)
                self._ends.insert(place, other)

    @property
    def runs(self) -> int:
        """How many runs of consecutive numbers there are."""
        return len(self._starts)

    def text(self) -> str:
        """All of them as text, for `parse`; empty if there are none."""
        if self._text is None:
            runs = zip(self._starts, self._ends, strict=True)
            edges = [0, *chain.from_iterable((first, last + 1) for first, last in runs)]
            packed = b"".join(_packed(after - before) for before, after in pairwise(edges))
            self._text = base64.b64encode(zlib.compress(packed, 9)).decode() if packed else ""
        return self._text

    @classmethod
    def parse(cls, written: str | list[int]) -> Gaps:
        """Read what `text` wrote, or a list of all numbers in ascending order.

        Raises
        ------
        LedgerError
            If it is neither.
        """
        try:
            if isinstance(written, list):
                return cls(written)
            made, edge = cls(), 0
            lengths = _unpacked(zlib.decompress(base64.b64decode(written))) if written else iter(())
            for skipped, length in zip(lengths, lengths, strict=True):
                made.extend(edge + skipped, edge + skipped + length - 1)
                edge += skipped + length
            return made
        except (binascii.Error, zlib.error, ValueError, TypeError, OverflowError) as problem:
            raise LedgerError(
                f"the state's numbers without a release cannot be read: {problem}; begin a new "
                "incarnation with the releases of its ledger"
            ) from None

    def __contains__(self, number: int) -> bool:
        """Whether a number is missing."""
        place = bisect_right(self._starts, number) - 1
        return place >= 0 and number <= self._ends[place]

    def __iter__(self) -> Iterator[int]:
        """All of them, in ascending order."""
        for first, last in zip(self._starts, self._ends, strict=True):
            yield from range(first, last + 1)

    def __len__(self) -> int:
        """How many numbers."""
        return sum(self._ends) - sum(self._starts) + self.runs

    def __eq__(self, other: object) -> bool:
        """Whether another has the same numbers."""
        if not isinstance(other, Gaps):
            return NotImplemented
        return (self._starts, self._ends) == (other._starts, other._ends)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """How many they are."""
        return f"Gaps({len(self)} numbers in {self.runs} runs)"


def _packed(length: int) -> bytes:
    """A length in as few bytes as it needs, the lowest bits first."""
    found = bytearray()
    while length >> BITS:
        found.append(length & 0x7F | 0x80)
        length >>= BITS
    return bytes([*found, length])


def _unpacked(data: bytes) -> Iterator[int]:
    length = shift = 0
    for byte in data:
        length |= (byte & 0x7F) << shift
        shift += BITS
        if not byte >> BITS:
            yield length
            length = shift = 0
    if shift:
        raise ValueError("its last length has no end")
