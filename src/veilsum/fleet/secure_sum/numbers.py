"""The numbers of a secure sum, and what they allow.

    n sites     k keepers     c colluding keepers     c' corrupt sites     d absent sites
    e keepers whose answers may be wrong     l coordinates in a polynomial

    t = floor((k + c)/2) + 1,  or  floor((2k + c)/3) + 1  if 4d > n - c'
    h = n - d - c'        shares of noise that make up the whole
    t + l - 1 + e         answers that give the sum, which errs sqrt(|F|/h) times a trusted server

Why t is what it is: `docs/secure-sum-proof.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

from veilsum import _validate
from veilsum.errors import FleetError
from veilsum.privacy.laws import Law

FEWEST = 3  # sites
ALL_KEEP = 500  # sites up to which each of them is a keeper
DRAWN = 200  # keepers of a larger fleet
MISSES = 40  # more than c corrupt keepers are drawn with a probability of at most 2^-40
WIDEST = 58  # bits of |F| range/step
FAR = 2.0**-60  # probability that honest noise makes a sum implausible


@dataclass(frozen=True)
class SumNumbers:
    """The numbers that the authority signs; a query may list fewer keepers, and packs as it likes.

    Examples
    --------
    >>> numbers = suggested(50)
    >>> numbers.threshold, numbers.honest, numbers.absent_keepers, round(numbers.error_factor(50), 3)
    (31, 35, 19, 1.195)
    """

    sites: int  # n
    keepers: int  # k
    colluding: int  # c keepers that may pool what they know with the corrupt sites
    corrupt: int  # c' sites; the promise is of all others
    absent: int  # d sites that a roster may leave out
    wrong: int = 0  # e keepers whose answers may be wrong
    pack: int = 1  # l coordinates in a polynomial: divides the bytes, asks for l - 1 more answers

    def __post_init__(self) -> None:
        """Refuse numbers that leave nobody protected, or no sum."""
        n, k, c, most = self.sites, self.keepers, self.colluding, self.corrupt
        _validate.at_least(FleetError, FEWEST, sites=n)
        _validate.at_least(FleetError, 1, keepers=k, pack=self.pack)
        _validate.at_least(
            FleetError, 0, colluding=c, corrupt=most, absent=self.absent, wrong=self.wrong
        )
        if most < c:
            raise FleetError(
                f"{c} colluding keepers are {c} corrupt sites at least; found corrupt = {most}"
            )
        if self.honest < 1:
            raise FleetError(
                f"of {n} sites, {self.absent} may be absent and {most} corrupt: nobody is left whose "
                "noise protects the sum; lower absent or corrupt, or admit more sites"
            )
        if self.needed + self.wrong > k:
            raise FleetError(
                f"{k} keepers of whom {c} may collude give {self.needed + self.wrong} answers never: "
                f"the threshold is {self.threshold}, {self.pack - 1} more are needed for packing and "
                f"{self.wrong} for wrong answers; list more keepers, or lower pack or wrong"
            )

    @property
    def threshold(self) -> int:
        """t, the least number that rule K2 allows: 2t > k + c, and (4d <= n - c' or 3t > 2k + c)."""
        if 4 * self.absent <= self.sites - self.corrupt:
            return (self.keepers + self.colluding) // 2 + 1
        return (2 * self.keepers + self.colluding) // 3 + 1  # more than the above, as c < k

    @property
    def honest(self) -> int:
        """h: each site adds 1/h of the noise."""
        return self.sites - self.absent - self.corrupt

    @property
    def smallest(self) -> int:
        """The fewest sites of a roster."""
        return self.sites - self.absent

    @property
    def needed(self) -> int:
        """Answers that fix the polynomials; `wrong` more must agree with them."""
        return self.threshold + self.pack - 1

    @property
    def absent_keepers(self) -> int:
        """Keepers that may never answer."""
        return self.keepers - self.needed - self.wrong

    def error_factor(self, present: int) -> float:
        """The error of a sum over so many sites, in errors of a trusted server."""
        return math.sqrt(present / self.honest)

    def listed(self, keepers: int, pack: int = 1) -> Self:
        """These numbers for a query that lists so many keepers: c stays as it is."""
        return replace(self, keepers=keepers, pack=pack)

    def packed(self, length: int) -> Self:
        """These numbers for a vector: half of the keepers that may be absent pay for fewer bytes."""
        spare = self.listed(self.keepers).absent_keepers
        return replace(self, pack=max(1, min(spare // 2, length)))

    def plausible(self, largest: int, law: Law) -> int:
        """The largest sum in steps that sites with values up to `largest` in size can have.

        Refused if log2 n + log2(range/step) + 2 > 60: a sum could then wrap around the field.
        """
        if self.sites * 2 * largest > 1 << WIDEST:
            raise FleetError(
                f"sums over {self.sites} sites of values up to {largest} steps take more than {WIDEST} "
                "bits; choose a coarser grid or closer bounds"
            )
        noise = law.part(Fraction(self.sites, self.honest))
        return self.sites * largest + noise.tail(FAR)


def suggested(sites: int, dimension: int = 1, wrong: int = 0) -> SumNumbers:
    """Numbers for a fleet: a fifth of the sites corrupt, a tenth absent (of 3 or 4: none).

    Fewer than 3 sites are refused: of two, each learns the value of the other from the sum.

    Examples
    --------
    >>> suggested(5).threshold, suggested(4941).colluding, suggested(50, 1024).pack
    (4, 83, 9)
    """
    if sites < FEWEST:
        raise FleetError(
            f"a secure sum takes at least {FEWEST} sites; found {sites}: with two, each would learn "
            "the other's noised value from the sum; use the pool"
        )
    corrupt = max(1, sites // 5)
    absent = max(1, sites // 10) if sites > 4 else 0
    keepers = sites if sites <= ALL_KEEP else DRAWN
    colluding = corrupt if keepers == sites else most_drawn(sites, corrupt, keepers)
    numbers = SumNumbers(sites, keepers, colluding, corrupt, absent, wrong)
    return numbers if dimension == 1 else numbers.packed(dimension)


def most_drawn(sites: int, corrupt: int, keepers: int, bits: int = MISSES) -> int:
    """The least c such that more than c corrupt keepers are drawn with probability at most 2^-bits."""
    allowed = math.comb(sites, keepers) >> bits
    c, ways = min(keepers, corrupt), 0
    while c > 0:
        ways += math.comb(corrupt, c) * math.comb(sites - corrupt, keepers - c)
        if ways > allowed:
            break
        c -= 1
    return c
