"""Boards of registers that nobody released: what a member can sign, honest or not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from veilsum.fleet.answers import BoardAnswer
from veilsum.fleet.board import Board
from veilsum.fleet.membership import Member, Membership, Witnesses
from veilsum.fleet.pool import PoolRegister, pooled
from veilsum.fleet.post import SALT, Header, Kind, Post, public, sealed
from veilsum.fleet.question import FleetQuestion


@cache
def key(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(sha256(name.encode()).digest())


@cache
def members_of(sites: int, keys: int = 1) -> Membership:
    """Sites s0, s1, ..., of which s0 has had so many keys: `s0.1`, `s0.2`, ..., and now `s0`."""
    closed = tuple(public(key(f"s0.{k}")).hex() for k in range(keys - 1, 0, -1))
    first = Member("s0", public(key("s0")).hex(), closed=closed)
    rest = (Member(f"s{k}", public(key(f"s{k}")).hex()) for k in range(1, sites))
    made = Membership(
        "north", public(key("authority")).hex(), 1, (first, *rest), Witnesses(), ("memory",), {}
    )  # fmt: skip
    return made.signed(key("authority"))


def register(
    question: FleetQuestion, name: str, total: Sequence[int], records: int, *, number: int = 1,
    draws: int | None = None, first: int = 1, last: int = 1, newest: Sequence[int] | None = None,
    newest_records: int | None = None, body: bytes | None = None,
) -> Post:  # fmt: skip
    """A post that a member signs; what is left out is as an honest site has it."""
    own = PoolRegister(
        tuple(total), tuple(total if newest is None else newest),
        records if newest_records is None else newest_records,
    )  # fmt: skip
    data = own.data if body is None else body
    header = Header(
        Kind.POOL, question.digest, public(key(name)), number, first, last,
        number if draws is None else draws, records, digest=sealed(bytes(SALT), data),
    )  # fmt: skip
    return Post(header.signed(key(name)), bytes(SALT), data)


def board_of(membership: Membership, posts: Sequence[Post]) -> Board:
    board = Board(membership)
    for post in posts:
        board.take_post(post)
    return board


def answered(
    question: FleetQuestion, posts: Sequence[Post], sites: int = 3, keys: int = 1
) -> BoardAnswer | None:
    return pooled(board_of(members_of(sites, keys), posts), question)
