"""What tests of sums on a board need: an exact sum, members that lie, and twins of the protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fleet.fleets import NOW, mean
from tests.fleet.safety.watching import WatchedFleet, WatchedStore
from veilsum.errors import FleetError
from veilsum.fleet import sums
from veilsum.fleet.answers import BoardAnswer, Posted, questions_on
from veilsum.fleet.board import Board
from veilsum.fleet.encoding import encode
from veilsum.fleet.post import HEADER, SALT, Header, Kind, Post, pack, sealed, short, unpack
from veilsum.fleet.protocol import PROTOCOLS
from veilsum.fleet.question import FleetQuestion
from veilsum.fleet.release_rules import SECURE_SUM
from veilsum.fleet.secure_sum import deal as secure_deal
from veilsum.fleet.secure_sum.query import SumQuery
from veilsum.fleet.secure_sum.roster import SumRoster, propose
from veilsum.fleet.secure_sum.total import total
from veilsum.fleet.sum_posts import PostedQuery, dealt, posted_query
from veilsum.fleet.sums import SumProtocol, proposed

DAY = 86_400
DEADLINE = NOW + DAY


def asked(**more: Any) -> FleetQuestion:
    """The question of most tests."""
    return mean(SECURE_SUM, deadline=DEADLINE, **more)


class NoNoise:
    """In place of a law: the sum is then exact."""

    def draw(self, length: int, entropy: Any) -> Any:
        del entropy
        return np.zeros(length, np.int64)


class ShownStore(WatchedStore):
    """It keeps what was ever put."""

    shown: dict[Post, None]

    def put(self, name: str, data: bytes, new: bool = False) -> bool:
        if name.startswith("post/") and "membership" not in name:
            self.shown.update(dict.fromkeys(parts_of(data)))
        return super().put(name, data, new)


class SumFleet(WatchedFleet):
    """A watched fleet that knows each vector that was dealt; without noise unless asked for."""

    def __init__(
        self,
        folder: Path,
        sites: int,
        patch: pytest.MonkeyPatch,
        *,
        noise: bool = False,
        **more: Any,
    ) -> None:
        self.dealt: dict[str, list[int]] = {}
        self.shown: dict[Post, None] = {}  # all opened posts that ever left a member
        shipped = secure_deal.deal

        def deal(query: SumQuery, site: str, vector: Sequence[int], seed: bytes) -> bytes:
            self.dealt[site] = list(vector)
            return shipped(query, site, vector, seed)

        patch.setattr(sums, "deal", deal)
        if not noise:
            patch.setattr(
                sums, "noise_for", lambda question, _: [NoNoise()] * len(question.lengths)
            )
        more.setdefault("epsilon", 100.0)
        super().__init__(folder, sites, patch, **more)
        self.names = [f"s{k}" for k in range(sites)]

    def view(self, name: str) -> WatchedStore:
        found = super().view(name)
        if not isinstance(found, ShownStore):
            self.views[name] = made = ShownStore(objects=self.objects)
            made.checker, made.moments, made.shown = self.checker, self.moments, self.shown
            return made
        return found

    def again(self) -> None:
        """A saved state was restored: only what stands in the store was shown."""
        self.shown.clear()
        for name, data in self.objects.items():
            if name.startswith("post/") and "membership" not in name:
                self.shown.update(dict.fromkeys(parts_of(data)))

    def joined(self, name: str, data: bool = True) -> bytes:
        key = super().joined(name, data)
        file = self.folder / name / "site.toml"
        file.write_text(file.read_text().replace("[budget]", "[budget]\ndelta = 0.01"))
        return key

    def exact(self, question: FleetQuestion, *names: str) -> tuple[int, ...]:
        """The sum of these sites, or of all."""
        tables = [self.sources[name].rows for name in names or self.names]
        vectors = [encode(question, dict(rows)).steps for rows in tables]
        return tuple(map(sum, zip(*vectors, strict=True)))

    def rounds(self, count: int = 4, *names: str) -> list[str]:
        """Steps of these, or of all; what they said."""
        said = []
        for _ in range(count):
            for report in self.go(*names):
                said += [*report.done, *report.waiting, *report.problems]
        return said

    def approve(self, question: FleetQuestion) -> None:
        """Persons say yes, as a policy approves no delta."""
        for name in self.names:
            with self.open(name) as site, site.file.transaction():
                site.file.decide(site.seat().fleet, question.digest, "yes", "", "person", self.now)

    def read(self, question: FleetQuestion, name: str = "desk") -> BoardAnswer | None:
        """The answer on a member's board."""
        return self.answer(name, question)

    def stage(self, question: FleetQuestion, name: str = "desk") -> str:
        """What a member's board says that it waits for."""
        with self.open(name) as site:
            board = site.seat().board
            (posted,) = [p for p in questions_on(board) if p.terms == question.digest]
            return SumProtocol.stage(PROTOCOLS[SECURE_SUM](), board, posted, self.now)  # type: ignore[arg-type]

    def on(self, name: str, question: FleetQuestion) -> tuple[Board, Posted]:
        """A member's copy of the board, and the question there."""
        with self.open(name) as site:
            board = site.seat().board
        (posted,) = [p for p in questions_on(board) if p.terms == question.digest]
        return board, posted

    def query(self, question: FleetQuestion, name: str = "desk") -> PostedQuery:
        """The query on a member's board."""
        found = posted_query(*self.on(name, question))
        assert found is not None
        return found

    def left(self, kind: Kind, name: str | None = None) -> list[Post]:
        """All opened posts of a kind that ever left a member that is honest."""
        posts = [post for post in self.shown if post.header.key in self.checker.sites]
        return [
            post
            for post in posts
            if post.header.kind is kind and name in (None, self.checker.sites[post.header.key])
        ]

    def key_files(self) -> list[str]:
        """Of all keepers."""
        return sorted(f"{p.parent.name}/{p.name}" for p in self.folder.glob("*/keeper-*"))

    def spent(self, name: str) -> float:
        """By a site's ledger."""
        with self.open(name) as site:
            return site.ledger.spent("data").epsilon


class Liar:
    """Whoever has the key of a member, and writes into the store what it likes."""

    def __init__(self, fleet: SumFleet, name: str) -> None:
        self.fleet, self.name = fleet, name
        with fleet.open(name) as site:
            self.key = site.file.key
        self.public = fleet.keys[name]

    def post(
        self,
        kind: Kind,
        terms: bytes,
        body: bytes,
        number: int = 1,
        salt: bytes = bytes(SALT),
        **more: Any,
    ) -> Post:
        """A signed post."""
        header = Header(kind, terms, self.public, number, digest=sealed(salt, body), **more)
        return Post(header.signed(self.key), salt, body)

    def shows(self, *posts: Post) -> None:
        """These posts stand in the store, and no other of theirs."""
        topic = posts[0].header.topic
        self.fleet.objects[f"post/{short(self.public)}/{topic.name}"] = pack(
            tuple(post.data for post in posts)
        )

    def says(self, kind: Kind, terms: bytes, body: bytes, number: int = 1, **more: Any) -> Post:
        """A post that stands in the store."""
        post = self.post(kind, terms, body, number, **more)
        self.shows(post)
        return post


def lying_query(
    fleet: SumFleet,
    question: FleetQuestion,
    change: Callable[[SumQuery], SumQuery],
    number: int = 1,
) -> SumQuery:
    """The desk posts a query of its own making, once it holds the Keys."""
    fleet.rounds(1, "desk")  # takes the Keys, and posts the right query
    board, posted = fleet.on("desk", question)
    held = posted_query(board, posted)
    query = held.query if held else proposed(board, posted, fleet.keys["desk"], fleet.names)
    made = change(query)
    Liar(fleet, "desk").says(Kind.QUERY, question.digest, PostedQuery(made).body, number)
    return made


def lying_roster(
    fleet: SumFleet, question: FleetQuestion, sites: Sequence[str], number: int = 1, by: str = ""
) -> SumRoster:
    """The desk names these sites, of those whose Deals stand in the store."""
    query = fleet.query(question, by or fleet.names[-1]).query
    deals = []
    for site in sites:
        data = fleet.objects[fleet.object(site, Kind.DEAL, question.digest)]
        deals += [(site, dealt(query, post.body) or b"") for post in parts_of(data)[:1]]
    roster = propose(query, deals)
    Liar(fleet, "desk").says(Kind.ROSTER, question.digest, roster.body, number)
    return roster


def twin(patch: pytest.MonkeyPatch, **instead: Any) -> type[SumProtocol]:
    """The shipped protocol with other methods, in its place."""
    shipped = PROTOCOLS[SECURE_SUM]
    made = type("SumTwin", (SumProtocol,), instead)  # which registers it
    PROTOCOLS[SECURE_SUM] = shipped
    patch.setitem(PROTOCOLS, SECURE_SUM, made)
    return made


def opened_sums(
    query: SumQuery, answers: Sequence[tuple[str, bytes]]
) -> dict[bytes, tuple[int, ...]]:
    """Every sum that somebody who has all these answers can compute, by roster."""
    groups: dict[bytes, dict[str, bytes]] = {}
    for keeper, body in answers:
        groups.setdefault(body[:32], {})[keeper] = body
    found = {}
    for roster, group in groups.items():
        try:
            one = total(replace(query, bound=1 << 59), group)
        except FleetError:
            one = None
        if one is not None:
            found[roster] = one.values
    return found


def answers_left(fleet: SumFleet) -> list[tuple[str, bytes]]:
    """All Answers that ever left, by keeper."""
    names = fleet.checker.sites
    return [(names[p.header.key], p.body) for p in fleet.left(Kind.ANSWER) if p.body]


def parts_of(data: bytes) -> list[Post]:
    """The opened posts of an object."""
    return [Post.parse(part) for part in unpack(data) if len(part) > HEADER]
