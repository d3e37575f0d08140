"""One agent's behaviour in a masked sum: results, failures, and each rule of privacy."""

from typing import Any

import pytest

from murmura.agents.masked.session import Session
from tests.agents.masked.world import LABELS, World


def started(silent: str = "", **more: Any) -> World:
    world = World(**more)
    for label in LABELS:
        if label not in silent:
            world.start(label)
    return world


def results(world: World, labels: str = LABELS) -> set[Any]:
    return {getattr(world.sessions[label], "result", None) for label in labels}


def test_all_members_have_the_sum_to_the_bit() -> None:
    world = started()
    world.run()
    (result,) = results(world)
    assert result.members == tuple(LABELS)
    assert result.totals == world.expected(result)
    assert (result.attempt, result.view) == (0, 0)
    world.check(LABELS)
    assert {ledger.charged for ledger in world.ledgers.values()} == {0.5}
    assert {ledger.reserved for ledger in world.ledgers.values()} == {0}


@pytest.mark.parametrize("silent", LABELS)
def test_an_absent_member_is_left_out(silent: str) -> None:
    world = started(silent)
    world.run(silent)
    (result,) = results(world, LABELS.replace(silent, ""))
    assert result.members == tuple(LABELS.replace(silent, ""))
    assert result.totals == world.expected(result)
    assert world.ledgers[silent].charged == 0


def test_two_absent_members_are_too_many_and_cost_nothing() -> None:
    world = started("ab")
    world.run("ab", rounds=4)
    assert results(world, "cde") == {None}
    assert all(ledger.charged == ledger.reserved == 0 for ledger in world.ledgers.values())
