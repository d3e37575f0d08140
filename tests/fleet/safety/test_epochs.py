"""Two memberships of one number stop everyone; a replaced key stops; the next authority is followed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.fleet.fleets import SmallFleet, mean
from tests.fleet.safety.watching import HOURLY, readings
from veilsum.errors import StoppedError
from veilsum.fleet.membership import following
from veilsum.fleet.post import Kind, public
from veilsum.fleet.step import step


@pytest.fixture
def fleet(tmp_path: Path) -> SmallFleet:
    made = SmallFleet(tmp_path, 3, rows=lambda _, k: readings(k))
    made.ask(mean("pool", schedule=HOURLY))
    for _ in range(2):
        made.now += 3600
        made.step()
    return made


def releases(fleet: SmallFleet, name: str) -> int:
    with fleet.open(name) as site:
        return sum(number for number, _, _ in site.file.releases(site.seat().fleet).values())


def test_two_memberships_of_one_number_stop_everyone_for_good(fleet: SmallFleet) -> None:
    first = fleet.membership
    other = replace(following(first, first.members), clock=90)
    fleet.admit(following(first, first.members))
    fleet.step("s0")
    shown = dict(fleet.store.objects)  # type: ignore[attr-defined]
    fleet.admit(other)
    fleet.step("s0")
    membership = next(name for name in shown if "/membership-" in name)
    fleet.store.put(membership, shown[membership])  # the second one is not shown to anyone else
    before = {name: releases(fleet, name) for name in ("s0", "s1", "s2")}
    for _ in range(3):
        fleet.now += 3600
        for name in ("s0", "s1", "s2"):
            (report,) = fleet.step(name)
            assert "two memberships of one number" in report.problems[0]
    assert {name: releases(fleet, name) for name in before} == before


def test_a_site_whose_key_was_replaced_stops_for_good(fleet: SmallFleet, tmp_path: Path) -> None:
    old = tmp_path / "old"
    (tmp_path / "s0").rename(old)
    (tmp_path / "s0").mkdir()
    fleet.rekey("s0")
    for _ in range(2):
        with fleet.open("s0", old) as site, pytest.raises(StoppedError, match="another key"):
            step(site, fleet.now)


def test_the_next_authority_is_followed(fleet: SmallFleet) -> None:
    heir = Ed25519PrivateKey.from_private_bytes(bytes(31) + b"h")
    handed = following(fleet.membership, fleet.membership.members, successor=public(heir).hex())
    fleet.admit(handed)
    fleet.step("s0")
    fleet.admit(replace(following(fleet.membership, fleet.membership.members), clock=77), heir)
    fleet.step("s0")
    board = fleet.board("s0")
    assert board.membership.number == 3
    assert board.membership.clock == 77
    assert not any(topic.kind is Kind.MEMBERSHIP for topic, _ in board.forks)
