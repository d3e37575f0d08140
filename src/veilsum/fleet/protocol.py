"""A protocol: what a site has to do for a question, and what the board answers; one class each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from veilsum.errors import FleetError
from veilsum.fleet.answers import BoardAnswer, Posted
from veilsum.fleet.board import Board
from veilsum.fleet.budget_units import FOREVER, Spending
from veilsum.fleet.consent import ConsentPost
from veilsum.fleet.encoding import EncodedSite
from veilsum.fleet.post import Kind
from veilsum.fleet.release import Releases
from veilsum.fleet.seat import Seat

if TYPE_CHECKING:
    from pathlib import Path

PROTOCOLS: dict[str, type[BoardProtocol]] = {}


class SiteData(Protocol):
    """What a protocol asks of a site's data."""

    source: str

    def table(self, question: Any) -> EncodedSite:
        """All rows, encoded for a question."""

    def readings(self, question: Any, start: int, end: int, now: int) -> EncodedSite | None:
        """Those of a time, encoded; None if they are not there yet."""

    def present(self, start: int, end: int, now: int) -> bool:
        """Whether there are readings of a time."""


@dataclass
class Work:
    """One question at one site, now."""

    posted: Posted
    seat: Seat
    releases: Releases
    data: SiteData | None  # None: a member without
    folder: Path
    now: int
    since: int  # when this site agreed, or asked
    say: Callable[[str], None]  # what a person should know

    @property
    def board(self) -> Board:
        """The site's copy."""
        return self.seat.board

    def publish(self, kind: Kind, body: bytes) -> None:
        """Post what is no release."""
        if self.seat.publish(kind, self.posted.terms, body, self.now) is not None:
            self.say(f"posted the {kind.word} of {self.posted.question.title()}")

    def spending(self, readings: int = 1, start: int = 0, end: int = FOREVER) -> Spending:
        """What a release costs; that of a whole table by default."""
        if self.data is None:
            raise FleetError("this member has no data")
        return Spending(
            self.data.source, start, end, readings, self.posted.question.event, self.now,
            self.posted.terms.hex(), self.seat.fleet.hex(),
        )  # fmt: skip


class BoardProtocol(ABC):
    """What sites do for a question, and what the board answers; abstract."""

    name: ClassVar[str]

    def __init_subclass__(cls) -> None:
        """Register by name."""
        super().__init_subclass__()
        PROTOCOLS[cls.name] = cls

    @abstractmethod
    def due(self, work: Work) -> None:
        """Do what is due at a site that agreed: draw a release, or post what is none."""

    def propose(self, work: Work) -> None:  # noqa: B027  nothing, for a protocol without a proposer
        """Do what is due at the member that asked."""

    @abstractmethod
    def answer(self, board: Board, posted: Posted) -> BoardAnswer | None:
        """The answer of a set of posts; None as long as there is none."""

    @abstractmethod
    def carry(self, posted: Posted, last: int) -> Sequence[tuple[int, int]]:
        """Times of the readings that slots up to `last` cover, which a new key takes over."""

    @abstractmethod
    def stage(self, board: Board, posted: Posted, now: int) -> str:
        """What the question waits for, for whom; empty once it is answered."""


def protocol_of(name: str) -> BoardProtocol:
    """By its name."""
    from veilsum.fleet import pool, sums

    del pool, sums
    return PROTOCOLS[name]()


def consents_of(board: Board, posted: Posted) -> dict[str, ConsentPost]:
    """What members say to a question, by name."""
    found = {}
    for key, post in board.opened(Kind.CONSENT, posted.terms).items():
        member = None if board.membership is None else board.membership.present(key)
        said = ConsentPost.read(post.body)
        if member is not None and said is not None:
            found[member.name] = said
    return found
