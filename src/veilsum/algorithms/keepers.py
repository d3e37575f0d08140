"""The keepers of a secure sum: how many there are, how many may collude, how many answers are needed.

Sites deal their values in shares to k keepers, at most c of whom collude. Any t answers give the sum,

    t = floor((k + c)/2) + 1,  or floor((2k + c)/3) + 1 if 4d > n - c',

and c keepers learn nothing else. All sites are keepers up to n = 500. Beyond, 200 are drawn, and c is the
least number that a draw from n sites, c' of them colluding, exceeds with probability 2^-40 at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Self

from veilsum import _validate
from veilsum.errors import PrivacyError

EVERYBODY = 500  # sites up to which each of them is a keeper
DRAWN = 200  # keepers of more sites
RISK = 40  # 2^-40: a draw has more colluders than are covered
HEADER, HASH, WORD = (
    170,
    32,
    8,
)  # bytes of a post's signed header, of a hash or key, of a field element


@dataclass(frozen=True)
class Keepers:
    """The keepers of n sites, of which c' may collude and d may be absent.

    Parameters
    ----------
    n : int
        Sites.
    colluders : int
        c', how many of them may collude.
    absent : int
        d, how many of them a roster may lack.

    Examples
    --------
    >>> grid = Keepers.usual(4941)
    >>> grid.count, grid.colluding, grid.needed, grid.silent
    (200, 83, 142, 58)
    >>> Keepers.usual(50).deal_bytes()
    522
    """

    n: int
    colluders: int
    absent: int

    def __post_init__(self) -> None:
        """Check that somebody honest is always there."""
        _validate.at_least(PrivacyError, 2, n=self.n)
        _validate.at_least(PrivacyError, 0, colluders=self.colluders, absent=self.absent)
        if self.honest < 1:
            raise PrivacyError(
                f"n - absent - colluders must be at least 1; found {self.n} - {self.absent} - "
                f"{self.colluders} = {self.honest}; cover fewer colluders or absent sites, or let more "
                "sites take part"
            )

    @classmethod
    def usual(cls, n: int, colluders: int | None = None, absent: int | None = None) -> Self:
        """20% of the sites collude and 10% are absent, rounded up, where nothing else is stated."""
        colluders = -(-n // 5) if colluders is None else colluders
        return cls(n, colluders, -(-n // 10) if absent is None else absent)

    @property
    def honest(self) -> int:
        """h = n - d - c', the least number of honest sites in a roster."""
        return self.n - self.absent - self.colluders

    @property
    def count(self) -> int:
        """k."""
        return self.n if self.n <= EVERYBODY else DRAWN

    @cached_property
    def colluding(self) -> int:
        """c, of the keepers."""
        if self.count == self.n:
            return self.colluders
        return _most_drawn(self.n, self.colluders, self.count)

    @property
    def needed(self) -> int:
        """t, the answers that give the sum."""
        k, c = self.count, self.colluding
        if 4 * self.absent > self.n - self.colluders:
            return (2 * k + c) // 3 + 1
        return (k + c) // 2 + 1

    @property
    def silent(self) -> int:
        """k - t, the keepers that may never answer."""
        return self.count - self.needed

    def columns(self, dimension: int) -> int:
        """Polynomials of a deal: packed coordinates of a vector, and the one that hides the check word."""
        packed = max(1, self.silent // 2)
        return -(-dimension // packed) + 1

    def deal_bytes(self, dimension: int = 1) -> int:
        """A site's post: its key, and k - t + 1 random elements a column."""
        return HEADER + HASH + WORD * (self.silent + 1) * self.columns(dimension)

    def roster_bytes(self, members: int) -> int:
        """The hashes of the posts."""
        return HEADER + HASH * members

    def answer_bytes(self, dimension: int = 1) -> int:
        """A keeper's post: the roster's hash, an element a coordinate and the check word."""
        return HEADER + HASH + WORD * self.columns(dimension)


@lru_cache(maxsize=64)
def _most_drawn(n: int, colluders: int, keepers: int) -> int:
    """The least c with P[more than c of the keepers drawn collude] <= 2^-RISK, exactly."""
    allowed, beyond = math.comb(n, keepers) >> RISK, 0
    for c in range(min(colluders, keepers), 0, -1):
        beyond += math.comb(colluders, c) * math.comb(n - colluders, keepers - c)
        if beyond > allowed:
            return c
    return 0
