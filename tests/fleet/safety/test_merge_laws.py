"""The laws of a board: it is a set, and what is no post of a member changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from tests.fleet.fleets import mean
from veilsum.errors import FleetError
from veilsum.fleet.board import Board, Fork
from veilsum.fleet.membership import ASKER, KEEPER, SITE, Member, Membership, Witnesses, following
from veilsum.fleet.pool import PoolRegister, pooled
from veilsum.fleet.post import Header, Kind, Post, pack, public, sealed

QUESTION = mean("pool")
KINDS = (Kind.POOL, Kind.DEAL, Kind.CONSENT)
NAMES = ("ann", "bob", "eve")


def key(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(name.encode().ljust(32, b"."))


def membership(number: int = 1, clock: int = 60) -> Membership:
    members = tuple(Member(name, public(key(name)).hex(), (SITE, KEEPER, ASKER)) for name in NAMES)
    made = Membership(
        "north",
        public(key("authority")).hex(),
        number,
        members,
        Witnesses(),
        ("memory",),
        {},
        clock,
    )
    return made.signed(key("authority"))


def post(name: str, kind: Kind, number: int, body: bytes, draws: int = 1) -> Post:
    header = Header(
        kind, QUESTION.digest, public(key(name)), number, number, number, draws, 5 * draws,
        digest=sealed(bytes(16), body),
    )  # fmt: skip
    return Post(header.signed(key(name)), bytes(16), body)


@cache
def posts() -> tuple[Post, ...]:
    """Two versions of each number: there are forks."""
    return tuple(
        post(name, kind, number, PoolRegister((total,), (total,), 5).data)
        for name, kind, number, total in product(NAMES, KINDS, (1, 2, 3), (10, 20))
    )


@dataclass(frozen=True)
class Piece:
    """What a board may be given: a post, its header alone, or a membership."""

    kind: str
    place: int

    def put_on(self, board: Board) -> None:
        if self.kind == "epoch":
            board.take_membership(EPOCHS[self.place % len(EPOCHS)])
        elif self.kind == "header":
            board.take(pack((posts()[self.place].header.data,)))
        else:
            board.take(pack((posts()[self.place].data,)))


EPOCHS = (membership(1), membership(2), membership(2, clock=90), membership(3))
PIECES = st.builds(
    Piece, st.sampled_from(("post", "post", "header", "epoch")), st.integers(0, len(posts()) - 1)
)
SETS = st.lists(PIECES, max_size=12)


def board_of(pieces: list[Piece]) -> Board:
    board = Board(membership(1))
    for piece in pieces:
        piece.put_on(board)
    return board


def union(*boards: Board) -> Board:
    found = Board(membership(1))
    for board in boards:
        found.merge(board)
    return found


def answer(board: Board) -> object:
    found = pooled(board, QUESTION)
    return found if found is None else (found.steps, found.sites, found.draws, found.records)


@given(SETS, SETS, SETS)
def test_merging_is_idempotent_commutative_and_associative(
    one: list[Piece], two: list[Piece], three: list[Piece]
) -> None:
    a, b, c = board_of(one), board_of(two), board_of(three)
    assert union(a, a).digest == union(a).digest == a.digest
    assert union(a, b).digest == union(b, a).digest
    assert union(union(a, b), c).digest == union(a, union(b, c)).digest


@given(st.lists(SETS, min_size=2, max_size=4), st.randoms())
def test_copies_that_exchanged_everything_are_equal(
    sets: list[list[Piece]], random: object
) -> None:
    boards = [board_of(pieces) for pieces in sets]
    for _ in range(2):
        order = random.sample(boards, len(boards))  # type: ignore[attr-defined]
        for one, other in pairwise([*order, order[0]]):
            other.merge(one)
    for one, other in product(boards, boards):
        one.merge(other)
    assert len({board.digest for board in boards}) == 1
    assert len({answer(board) for board in boards}) == 1


@given(SETS, st.randoms())
def test_one_set_has_one_answer_in_every_order(pieces: list[Piece], random: object) -> None:
    board, other = board_of(pieces), board_of(random.sample(pieces, len(pieces)))  # type: ignore[attr-defined]
    assert board.registers == other.registers
    assert answer(board) == answer(other)
    halves = union(board_of(pieces[::2]), board_of(pieces[1::2]))
    assert halves.registers == board.registers
    assert answer(halves) == answer(board)


@given(SETS)
def test_a_fork_is_evidence_for_anyone_and_changes_no_answer(pieces: list[Piece]) -> None:
    board = board_of(pieces)
    stranger = Board(membership(1))
    for fork in board.forks.values():
        assert Fork.parse(fork.data) == fork
        assert stranger.take_fork(fork.data)
        assert not stranger.take_fork(fork.data)
    assert set(stranger.forks) == set(board.forks)
    before = answer(board)
    board.forks.clear()
    assert answer(board) == before


@given(SETS)
def test_two_memberships_of_one_number_stay_known(pieces: list[Piece]) -> None:
    board = board_of(pieces)
    if board.two_authorities:
        assert board.membership is not None
        assert board.membership.fork is not None or board.membership.number > 2
        stranger = Board(membership(1))
        stranger.take_fork(
            next(f.data for (t, _), f in board.forks.items() if t.kind is Kind.MEMBERSHIP)
        )
        assert stranger.two_authorities


@given(SETS, st.integers(0, len(posts()) - 1), st.data())
def test_what_was_changed_on_its_way_is_nothing(
    pieces: list[Piece], place: int, data: st.DataObject
) -> None:
    board = board_of(pieces)
    text = pack((posts()[place].data, posts()[(place + 1) % len(posts())].header.data))
    at = data.draw(st.integers(0, len(text) - 1))
    bit = data.draw(st.integers(1, 255))
    changed = data.draw(
        st.sampled_from(
            (text[:at], text[:at] + bytes([text[at] ^ bit]) + text[at + 1 :], text[at:])
        )
    )
    board.take(changed)
    signed = {one.data for one in posts()}
    headers = {one.header.data for one in posts()}
    for keys in board.registers.values():
        for register in keys.values():
            assert register.header is None or register.header.data in headers
            assert {one.data for one in register.opened} <= signed


@given(SETS, st.integers(0, len(posts()) - 1))
def test_what_came_before_changes_nothing_when_it_comes_again(
    pieces: list[Piece], place: int
) -> None:
    board = board_of([*pieces, Piece("post", place)])
    before = board.digest
    for piece in [*pieces, Piece("post", place)]:
        if piece.kind != "epoch":
            piece.put_on(board)
    assert board.digest == before


@pytest.mark.parametrize("case", ["foreign", "forged", "large", "truncated", "newer"])
def test_what_is_no_post_of_a_member_is_dropped_and_counted(case: str) -> None:
    board = board_of([Piece("post", 0)])
    good = posts()[1]
    large = bytes(Kind.CONSENT.largest + 1)
    header = Header(
        Kind.CONSENT, QUESTION.digest, public(key("ann")), 1, digest=sealed(bytes(16), large)
    ).signed(key("ann"))
    data = {
        "foreign": post("mallory", Kind.POOL, 9, b"[[1],[],1]").data,
        "forged": good.header.data[:-1] + bytes([good.header.data[-1] ^ 1]) + good.salt + good.body,
        "large": header.data + bytes(16) + large,
        "truncated": good.data[:-1],
        "newer": b"\2" + good.data[1:],
    }[case]
    before = board.digest
    assert not board.take(pack((data,)))
    assert board.digest == before
    assert sum(board.dropped.values()) == 1
    if case == "newer":
        assert "format 2" in next(iter(board.dropped))
        assert "upgrade veilsum" in next(iter(board.dropped))


def test_a_newer_membership_is_refused_by_name() -> None:
    body = membership().body.replace(b'"format":1', b'"format":2')
    salt = bytes(16)
    found = membership().post
    assert found is not None
    header = Header(
        Kind.MEMBERSHIP, found.header.terms, found.header.key, 1, digest=sealed(salt, body)
    )
    with pytest.raises(FleetError, match="format 2, and this veilsum knows format 1"):
        Membership.of(Post(header.signed(key("authority")), salt, body))


def test_keys_are_never_forgotten() -> None:
    first = membership()
    with pytest.raises(FleetError, match="must stay"):
        following(first, first.members[1:])
