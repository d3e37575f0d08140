"""A fleet of one query in memory, for tests: every secret of it is known, and derived from its name."""

import hashlib
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from veilsum.fleet.secure_sum.answer import CheckWords, answer
from veilsum.fleet.secure_sum.deal import deal, public_key, share, shares
from veilsum.fleet.secure_sum.field import Elements, P, lagrange, product, total_of
from veilsum.fleet.secure_sum.numbers import SumNumbers, suggested
from veilsum.fleet.secure_sum.query import Keeper, SumQuery, key_body
from veilsum.fleet.secure_sum.roster import SumRoster, deal_hash, propose

BOUND = 1 << 50


def secret(*parts: object) -> bytes:
    return hashlib.sha256(repr(parts).encode()).digest()


class SmallFleet:
    """n sites s0, s1, ..; the first of them keep; all deal.

    Parameters
    ----------
    numbers : SumNumbers or int
        Or a number of sites, with the suggested numbers.
    length : int
    name : str
    """

    def __init__(
        self, numbers: SumNumbers | int, length: int = 1, name: str = "q", **fields: Any
    ) -> None:
        if isinstance(numbers, int):
            numbers = suggested(numbers, length)
        self.sites = [f"s{i}" for i in range(numbers.sites)]
        self.keepers = [f"s{i}" for i in range(numbers.keepers)]
        self.secrets = {label: secret("keeper", name, label) for label in self.keepers}
        self.keys = {label: public_key(own) for label, own in self.secrets.items()}
        listed = tuple(
            Keeper(label, key, secret("post", key_body(name, key)))
            for label, key in self.keys.items()
        )
        base: dict[str, Any] = {
            "name": name,
            "terms": secret("terms"),
            "fleet": secret("authority"),
            "membership": secret("membership"),
            "epoch": 1,
            "sites": tuple((label, secret("site", label)) for label in self.sites),
            "keepers": listed,
            "proposer": secret("site", "s0"),
            "deadline": 1_800_000_000,
            "numbers": numbers,
            "length": length,
            "bound": BOUND,
        }
        self.query = SumQuery(**{**base, **fields})
        rng = random.Random(f"{name} {numbers.sites} {length}")
        self.vectors = {
            label: [rng.randrange(-(10**6), 10**6) for _ in range(length)] for label in self.sites
        }

    @property
    def numbers(self) -> SumNumbers:
        return self.query.numbers

    def seed(self, site: str) -> bytes:
        return secret("seed", self.query.name, site)

    @cached_property
    def deals(self) -> dict[str, bytes]:
        return {
            site: deal(self.query, site, self.vectors[site], self.seed(site)) for site in self.sites
        }

    @cached_property
    def roster(self) -> SumRoster:
        return propose(self.query, self.deals.items())

    def roster_of(self, sites: Iterable[str]) -> SumRoster:
        return propose(self.query, [(site, self.deals[site]) for site in sites])

    def answer(self, keeper: str, roster: SumRoster | None = None) -> tuple[bytes, CheckWords]:
        held = self.deals.items()
        return answer(self.query, keeper, self.secrets[keeper], roster or self.roster, held)

    @cached_property
    def answered(self) -> dict[str, tuple[bytes, CheckWords]]:
        return {keeper: self.answer(keeper) for keeper in self.keepers}

    @property
    def answers(self) -> dict[str, bytes]:
        return {keeper: body for keeper, (body, _) in self.answered.items()}

    @property
    def words(self) -> dict[str, bytes]:
        return {keeper: words.body for keeper, (_, words) in self.answered.items()}

    def sum(self, sites: Iterable[str] | None = None) -> tuple[int, ...]:
        chosen = [self.vectors[site] for site in (sites or self.sites)]
        return tuple(sum(column) for column in zip(*chosen, strict=True))

    def share(self, site: str, keeper: str, body: bytes | None = None) -> Elements:
        body = body or self.deals[site]
        return share(self.query, site, body, keeper, self.secrets[keeper])

    def own_share(self, keeper: str, sites: Iterable[str]) -> Elements:
        """What a colluding keeper adds up by itself."""
        deals = [(site, self.deals[site]) for site in sites]
        return total_of(shares(self.query, keeper, self.secrets[keeper], deals)[:, :-1])

    def name_of(self, site: str, body: bytes) -> bytes:
        return deal_hash(self.query, site, body)

    def with_numbers(self, **changed: int) -> SumNumbers:
        return replace(self.query.numbers, **changed)


def interpolated(
    query: SumQuery, shares_by_point: Mapping[int, Elements], degree_below: int
) -> list[int]:
    """What an attacker makes of shares: the polynomial through so many of them, at the secrets."""
    nodes = tuple(sorted(shares_by_point))[:degree_below]
    values = np.array([shares_by_point[j] for j in nodes], np.uint64).reshape(len(nodes), -1)
    return centred(product(lagrange(nodes, query.secrets), values).ravel())[: query.length]


def centred(values: Elements | Sequence[int]) -> list[int]:
    return [int(v) if int(v) <= P // 2 else int(v) - P for v in values]
