"""Small fleets for tests: sites in a folder of the test, stores in memory, time as an argument."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from veilsum.fleet.answers import BoardAnswer, Posted, questions_on
from veilsum.fleet.database import SiteFile
from veilsum.fleet.membership import ASKER, KEEPER, SITE, Member, Membership, Witnesses, following
from veilsum.fleet.post import Kind, Topic, public, short
from veilsum.fleet.protocol import protocol_of
from veilsum.fleet.question import FleetQuestion, Worded
from veilsum.fleet.seat import Seat
from veilsum.fleet.site import Site
from veilsum.fleet.sources import DataSource
from veilsum.fleet.step import SeatReport, step
from veilsum.fleet.store import MemoryStore, Store

NOW = 1_800_000_000
EVERYTHING = """
[policy]
kinds = ["mean", "count", "histogram", "sum", "proportion", "survival", "variance"]
columns = ["kwh", "at", "days", "event", "arm"]
max_epsilon = 1000.0
per = "year"
"""


@dataclass(frozen=True)
class Rows(DataSource):
    """Rows in memory: a table, and readings by the column "at" where there is one."""

    name = "rows"
    rows: Mapping[str, Sequence[Any]]

    def table(self) -> Any:
        return {name: np.asarray(values) for name, values in self.rows.items()}

    def readings(self, start: int, end: int, now: int | None = None) -> dict[str, Any] | None:
        del now
        at = np.asarray(self.rows["at"])
        inside = (at >= start) & (at < end)
        if not inside.any():
            return None
        return {name: np.asarray(values)[inside] for name, values in self.rows.items()}

    def columns(self) -> list[str]:
        return list(self.rows)


def mean(protocol: str = "pool", epsilon: float = 1.0, **more: Any) -> FleetQuestion:
    """The question that most tests ask."""
    asked = Worded("mean", ("kwh",), {"--between": [["0", "40"]]})
    return FleetQuestion(asks=(asked,), epsilon=epsilon, protocol=protocol, **more)


class SmallFleet:
    """An authority, an asker and sites, each of which steps when the test says so."""

    def __init__(
        self, folder: Path, sites: int | Sequence[str], *, witnesses: Witnesses | None = None,
        policy: str = EVERYTHING, epsilon: float = 100.0, per: str = "reading",
        store: Store | None = None, stores: Callable[[str, str], Store] | None = None,
        rows: Callable[[str, int], Mapping[str, Sequence[Any]]] | None = None,
    ) -> None:  # fmt: skip
        self.folder, self.now = folder, NOW
        self.authority = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
        self.store = store or MemoryStore()
        self._stores = stores or (lambda *_: self.store)
        names = [f"s{k}" for k in range(sites)] if isinstance(sites, int) else list(sites)
        self.sources: dict[str, Rows] = {}
        self.policy, self.epsilon, self.per = policy, epsilon, per
        self._rows = rows or (lambda _, k: {"kwh": [10.0 + k] * 50})
        self.keys = {"desk": self.joined("desk", data=False)}
        for k, name in enumerate(names):
            self.sources[name] = Rows(self._rows(name, k))
            self.keys[name] = self.joined(name)
        members = [Member("desk", self.keys["desk"].hex(), (ASKER,))]
        members += [Member(name, self.keys[name].hex()) for name in names]
        first = Membership(
            "north", public(self.authority).hex(), 1, tuple(members), witnesses or Witnesses(),
            ("memory",), {},
        )  # fmt: skip
        self.membership = first
        self.admit(first)

    def joined(self, name: str, data: bool = True) -> bytes:
        """A folder with site.toml and a new key; the public key."""
        place = self.folder / name
        place.mkdir(parents=True, exist_ok=True)
        given = '[data]\npath = "rows.csv"\n' if data else ""
        (place / "site.toml").write_text(
            f'name = "{name}"\n{given}[budget]\nepsilon = {self.epsilon}\nper = "{self.per}"\n'
            f'[[fleet]]\naddress = "memory"\nauthority = "{public(self.authority).hex()}"\n{self.policy}'
        )
        with SiteFile(place / "site.db", new=True, durable=False) as file:
            return public(file.key)

    def admit(
        self, membership: Membership, authority: Ed25519PrivateKey | None = None
    ) -> Membership:
        """Sign and show the next epoch."""
        self.membership = membership.signed(authority or self.authority)
        post = self.membership.post
        assert post is not None
        name = f"post/{short(post.header.key)}/{post.header.topic.name}"
        self.store.put(name, post.data)
        return self.membership

    def rekey(self, name: str) -> None:
        """The folder is lost; the site joins with a new key, and is admitted."""
        shutil.rmtree(self.folder / name)
        self.keys[name] = self.joined(name)
        members = [
            Member(m.name, self.keys[name].hex(), m.roles, (m.key, *m.closed))
            if m.name == name
            else m
            for m in self.membership.members
        ]
        self.admit(following(self.membership, members))

    def open(self, name: str, folder: Path | None = None) -> Site:
        """The site, open."""
        return Site(
            folder or self.folder / name, durable=False,
            stores=lambda address: self._stores(name, address), source=self.sources.get(name),
        )  # fmt: skip

    def step(self, *names: str) -> list[SeatReport]:
        """A step of these, or of all."""
        found = []
        for name in names or tuple(self.keys):
            with self.open(name) as site:
                found += step(site, self.now)
        return found

    def ask(self, question: FleetQuestion) -> Posted:
        """Post a question of the desk."""
        with self.open("desk") as site:
            seat = site.seat()
            seat.read()
            seat.publish(Kind.QUESTION, question.digest, question.canonical(), self.now)
            seat.write(self.now)
            (posted,) = [p for p in questions_on(seat.board) if p.terms == question.digest]
        return posted

    def answer(self, name: str, question: FleetQuestion) -> BoardAnswer | None:
        """What a member's board says."""
        with self.open(name) as site:
            board = site.seat().board
            for posted in questions_on(board):
                if posted.terms == question.digest:
                    return protocol_of(question.protocol).answer(board, posted)
        return None

    def board(self, name: str) -> Any:
        """A member's copy of the board."""
        with self.open(name) as site:
            return site.seat().board

    def object(self, name: str, kind: Kind, terms: bytes) -> str:
        """The name of a member's register in a store."""
        return f"post/{short(self.keys[name])}/{Topic(kind, terms).name}"


__all__ = ["KEEPER", "NOW", "SITE", "Rows", "Seat", "SmallFleet", "mean"]
