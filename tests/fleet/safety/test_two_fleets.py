"""A site of two fleets that gets a new key: what the old one spent in either counts before it releases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.fleet.fleets import SmallFleet, mean
from veilsum.fleet.membership import ASKER, Member, Membership, Witnesses, following
from veilsum.fleet.post import Kind, public, short
from veilsum.fleet.step import SeatStep
from veilsum.fleet.store import MemoryStore

SOUTH = Ed25519PrivateKey.from_private_bytes(bytes(reversed(range(32))))
NORTH_ADDRESS, SOUTH_ADDRESS = "memory", "memory:south"


class TwoFleets:
    """A site in two fleets, with a budget of one question."""

    def __init__(self, folder: Path) -> None:
        self.stores = {a: MemoryStore(a) for a in (NORTH_ADDRESS, SOUTH_ADDRESS)}
        self.north = SmallFleet(
            folder, 1, store=self.stores[NORTH_ADDRESS], epsilon=1.0,
            stores=lambda _, address: self.stores[SOUTH_ADDRESS if "south" in address else NORTH_ADDRESS],
        )  # fmt: skip
        keys = self.north.keys
        members = (Member("desk", keys["desk"].hex(), (ASKER,)), Member("s0", keys["s0"].hex()))
        self.south = Membership(
            "south", public(SOUTH).hex(), 1, members, Witnesses(), (SOUTH_ADDRESS,), {}
        )
        self.show(self.south)
        for name in ("desk", "s0"):
            self.in_both(name)

    def in_both(self, name: str) -> None:
        toml = self.north.folder / name / "site.toml"
        fleet = f'[[fleet]]\naddress = "{SOUTH_ADDRESS}"\nauthority = "{public(SOUTH).hex()}"\n'
        toml.write_text(toml.read_text().replace("[[fleet]]", f"{fleet}[[fleet]]", 1))

    def show(self, membership: Membership) -> None:
        self.south = membership.signed(SOUTH)
        post = self.south.post
        assert post is not None
        name = f"post/{short(post.header.key)}/{post.header.topic.name}"
        self.stores[SOUTH_ADDRESS].put(name, post.data)

    def ask(self, address: str) -> None:
        with self.north.open("desk") as site:
            seat = site.seat(address)
            seat.read()
            question = mean("pool")
            seat.publish(Kind.QUESTION, question.digest, question.canonical(), self.north.now)
            seat.write(self.north.now)

    def released(self, address: str) -> int:
        """How many keys of the site have opened a release there."""
        with self.north.open("desk") as site:
            seat = site.seat(address)
            seat.read()
            return len(seat.board.opened(Kind.POOL, mean("pool").digest))


def lose_and_return(tmp_path: Path) -> TwoFleets:
    """The site answers in the south, is lost, and is admitted in the north with a new key."""
    both = TwoFleets(tmp_path)
    both.ask(SOUTH_ADDRESS)
    both.north.step("s0")
    both.north.step("s0")
    assert both.released(SOUTH_ADDRESS) == 1
    both.north.rekey("s0")
    both.in_both("s0")
    both.ask(NORTH_ADDRESS)
    for _ in range(2):
        both.north.step("s0")
    return both


def test_nothing_is_released_until_all_fleets_have_admitted_the_new_key(tmp_path: Path) -> None:
    both = lose_and_return(tmp_path)
    assert both.released(NORTH_ADDRESS) == 0
    said = [text for report in both.north.step("s0") for text in report.waiting]
    assert any("has admitted this key, too" in text for text in said)
    old = both.south.member("s0")
    new = replace(old, key=both.north.keys["s0"].hex(), closed=(old.key,))
    both.show(following(both.south, [both.south.member("desk"), new]))
    for _ in range(3):
        both.north.step("s0")
    assert both.released(NORTH_ADDRESS) == 0, "the budget was spent in the south"
    with both.north.open("s0") as site:
        assert site.ledger.spent("data").epsilon == pytest.approx(1.0)


def test_a_key_that_does_not_wait_overspends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SeatStep, "all_taken_over", lambda _: True)
    assert lose_and_return(tmp_path).released(NORTH_ADDRESS) == 1
