"""What a board answers: a function of the set of posts, the same bits for the same set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from veilsum.errors import FleetError
from veilsum.fleet.board import Board
from veilsum.fleet.membership import ASKER, SITE, Member
from veilsum.fleet.post import Kind
from veilsum.fleet.question import FleetQuestion
from veilsum.fleet.secure_sum.numbers import SumNumbers


@dataclass(frozen=True)
class BoardAnswer:
    """The sum that a board answers, and whom it covers."""

    question: FleetQuestion
    steps: tuple[int, ...]  # noised; secret of nobody
    records: int  # 0 where that is private
    draws: Fraction  # of the question's noise that are in it
    sites: tuple[str, ...]  # whose records are in
    missing: tuple[str, ...]
    # posted what no honest site could have made, and why
    left_out: Mapping[str, str] = field(default_factory=dict)
    at_odds: tuple[str, ...] = ()  # keepers whose answers disagree with the others
    numbers: SumNumbers | None = None  # of a secure sum
    latest: tuple[int, int] = (0, 0)  # last slot of the newest register, and how many sites have it

    @property
    def covers(self) -> str:
        """For people: "47 of 50 sites"."""
        return f"{len(self.sites)} of {len(self.sites) + len(self.missing)} sites"


@dataclass(frozen=True)
class Posted:
    """A question on a board, and who asked it."""

    question: FleetQuestion
    asker: Member

    @property
    def open(self) -> bool:
        """Whether its asker still may ask."""
        return ASKER in self.asker.roles

    @property
    def terms(self) -> bytes:
        """Its digest."""
        return self.question.digest


def questions_on(board: Board) -> list[Posted]:
    """Questions, in the order of their digests; what is no question, or no asker's, is left out.

    Those of an asker that has left stay, for their answers; nobody agrees to them any more (`Posted.open`).
    """
    found = []
    for terms, posts in board.of_kind(Kind.QUESTION).items():
        for post in posts:
            asker = None if board.membership is None else board.membership.keys.get(post.header.key)
            if asker is None or (asker.roles and ASKER not in asker.roles):
                continue
            try:
                question = _parsed(post.body)
            except FleetError:
                continue
            if question.digest == terms:
                found.append(Posted(question, asker))
                break
    return found


@lru_cache(256)  # at each step
def _parsed(body: bytes) -> FleetQuestion:
    return FleetQuestion.parsed(body)


def sites_of(board: Board) -> Sequence[Member]:
    """Members that have readings."""
    return board.having(SITE)
