"""The roster of a query: which deals are summed, each by its hash.

    body = version, bitmap over the query's sites, 32-byte hash of each named deal, carried deals

The proposer is not trusted. Two deals of one site are two hashes, of which a roster can name one. A roster
may *carry* deals that other keepers may lack: the signed header and the body, for the board to verify like
any post. H(F) covers the query, the bitmap and the hashes, and not what is carried.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from veilsum.errors import FleetError
from veilsum.fleet.secure_sum.deal import valid_deal
from veilsum.fleet.secure_sum.field import digest
from veilsum.fleet.secure_sum.query import SumQuery

ROSTER_VERSION = 1


def deal_hash(query: SumQuery, site: str, body: bytes) -> bytes:
    """H(q, site, body): no header, salt or signature, of which one deal can have several."""
    return digest(b"deal", query.digest, site.encode(), body)


@dataclass(frozen=True)
class CarriedDeal:
    """A deal that a roster carries: its site, its signed header as the board writes it, its body."""

    site: str
    header: bytes
    body: bytes


@dataclass(frozen=True)
class SumRoster:
    """Sites and the hash of the deal of each, in the order of the query."""

    query: SumQuery
    deals: tuple[tuple[str, bytes], ...]  # site and hash
    carried: tuple[CarriedDeal, ...] = ()  # of sites that posted two

    def __post_init__(self) -> None:
        """Refuse sites that are strange, named twice or out of order."""
        places = [self.query.index.get(site, -1) for site, _ in self.deals]
        strange = any(deal.site not in self.query.index for deal in self.carried)
        if -1 in places or strange or places != sorted(set(places)):
            raise FleetError(
                f"a roster of query {self.query.name!r} must name sites of its epoch, each once, in order"
            )
        if any(len(name) != 32 for _, name in self.deals):
            raise FleetError("a roster names each deal by 32 bytes")

    @cached_property
    def _named(self) -> bytes:
        bits = sum(1 << self.query.index[site] for site, _ in self.deals)
        width = (len(self.query.sites) + 7) // 8
        return bits.to_bytes(width, "little") + b"".join(name for _, name in self.deals)

    @cached_property
    def digest(self) -> bytes:
        """H(F)."""
        return digest(b"roster", self.query.digest, self._named)

    @cached_property
    def body(self) -> bytes:
        """What is posted."""
        out = [struct.pack(">B", ROSTER_VERSION), self._named, struct.pack(">I", len(self.carried))]
        for deal in self.carried:
            out.append(
                struct.pack(">III", self.query.index[deal.site], len(deal.header), len(deal.body))
            )
            out += [deal.header, deal.body]
        return b"".join(out)

    @classmethod
    def read(cls, query: SumQuery, body: bytes) -> SumRoster:
        """The roster of a body; FleetError for anything that `body` would not write."""
        wrong = FleetError(f"a roster of query {query.name!r} is cut off or has bytes too many")
        width, at = (len(query.sites) + 7) // 8, 1
        if len(body) < 1 + width:
            raise wrong
        if body[0] != ROSTER_VERSION:
            raise FleetError(
                f"a roster of format {body[0]}; this version reads format {ROSTER_VERSION}"
            )
        bits = int.from_bytes(body[at : at + width], "little")
        if bits >> len(query.sites):
            raise FleetError(
                f"a roster of query {query.name!r} names a site that is not in its epoch"
            )
        sites = [label for i, (label, _) in enumerate(query.sites) if bits >> i & 1]
        at += width
        names = body[at : at + 32 * len(sites)]
        at += len(names)
        if len(names) != 32 * len(sites) or len(body) < at + 4:
            raise wrong
        (count,) = struct.unpack_from(">I", body, at)
        at, carried = at + 4, []
        for _ in range(count):
            if len(body) < at + 12:
                raise wrong
            site, header, content = struct.unpack_from(">III", body, at)
            at += 12
            if site >= len(query.sites) or len(body) < at + header + content:
                raise wrong
            label = query.sites[site][0]
            parts = body[at : at + header], body[at + header : at + header + content]
            carried.append(CarriedDeal(label, *parts))
            at += header + content
        if at != len(body):
            raise wrong
        named = zip(sites, (names[i : i + 32] for i in range(0, len(names), 32)), strict=True)
        return cls(query, tuple(named), tuple(carried))


def propose(
    query: SumQuery, deals: Iterable[tuple[str, bytes]], carried: Iterable[CarriedDeal] = ()
) -> SumRoster:
    """The roster of all valid deals (site, body); of two deals of one site, the one with the least hash."""
    names: dict[str, bytes] = {}
    for site, body in deals:
        if valid_deal(query, site, body):
            name = deal_hash(query, site, body)
            names[site] = min(name, names.get(site, name))
    ordered = sorted(names.items(), key=lambda item: query.index[item[0]])
    return SumRoster(query, tuple(ordered), tuple(carried))


def check_roster(
    query: SumQuery, roster: SumRoster, held: dict[bytes, tuple[str, bytes]]
) -> list[tuple[str, bytes]]:
    """Rule K4: the named deals (site, body) of a roster that a keeper may answer.

    `SumRoster` has seen to distinct sites of the epoch; `held` has the deals by hash. Refused with a reason:
    too few sites, or a deal that is not held or not valid.
    """
    if roster.query.digest != query.digest:
        raise FleetError(f"the roster is of another query than {query.name!r}")
    if len(roster.deals) < query.numbers.smallest:
        raise FleetError(
            f"the roster of query {query.name!r} names {len(roster.deals)} of {len(query.sites)} sites; "
            f"at least {query.numbers.smallest} must be summed"
        )
    chosen = []
    for site, name in roster.deals:
        owner, body = held.get(name, ("", b""))
        if owner != site:
            raise FleetError(
                f"the roster of query {query.name!r} names a deal of {site!r} that is not here"
            )
        if not valid_deal(query, site, body):
            raise FleetError(
                f"the roster of query {query.name!r} names a deal of {site!r} that is not valid"
            )
        chosen.append((site, body))
    return chosen
