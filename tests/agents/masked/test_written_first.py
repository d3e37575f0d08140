"""R1, R6: what the ledger could not write is not said, not even to whoever compares records later.

An agent that cannot write goes on in memory until its driver ends it. Everything in its set of records
is passed on by comparison, so a record must not enter the set before its entry is on the disk.
"""

from typing import Any

import pytest

from tests.agents.masked.adversary import exchange_among, without, world_of
from tests.agents.masked.world import LABELS, World
from veilsum.agents.masked.records import Masked, Ready, Roster
from veilsum.agents.masked.session import Session, _masked

WRITES = ("open", "prepare", "ready", "send", "withdraw")
KINDS = ("Present", "Commit", "Ready", "Masked", "Withdraw")


class SaysFirst(Session):
    """Weakened variant: the value is said, then written."""

    def _ready_or_send(self, entry: Any) -> None:
        labels = self.terms.labels_of(entry.prepared.members)
        if entry.gamma and self._all_ready(entry.sid, entry.rho, entry.gamma, labels):
            self._publish(_masked(self.label, entry.prepared, entry.gamma))
        super()._ready_or_send(entry)


def fails_at(world: World, write: str) -> Session:
    """a's session, whose ledger ends it at the first write of a kind."""
    ledger = world.ledgers["a"]
    usual = ledger._write

    def watched(name: str, *arguments: Any) -> Any:
        ledger.fuse = "before" if name == write else None
        return usual(name, *arguments)

    ledger._write = watched  # type: ignore[method-assign]
    session: list[Session] = []
    usual_kind = world.kind
    world.kind = lambda *given, **more: session.append(usual_kind(*given, **more)) or session[0]  # type: ignore[assignment, func-returns-value]
    world.start("a")
    world.kind = usual_kind
    return session[0]


def said_in_memory(session: Session) -> set[str]:
    return {one.place[1] for one in session.records if one.record.label == session.label}


@pytest.mark.parametrize(("write", "kind"), list(zip(WRITES, KINDS, strict=True)))
def test_nothing_is_said_that_could_not_be_written(write: str, kind: str) -> None:
    world = world_of(silent="a")
    session = fails_at(world, write)
    if write == "withdraw":
        exchange_among(world, LABELS, without("e", Ready))
        world.fire("a", "view")
    else:
        world.settle()
    assert world.sessions["a"] is None  # the write was tried
    earlier = set(KINDS[: KINDS.index(kind)]) - {"Masked"}
    assert said_in_memory(session) - {Roster.__name__} == earlier
    assert not world.sent("a")


def test_a_variant_that_says_first_has_said_a_value_that_was_not_charged() -> None:
    world = world_of(SaysFirst, silent="a")
    session = fails_at(world, "send")
    world.settle()
    assert world.sessions["a"] is None
    assert Masked.__name__ in said_in_memory(session)
    assert world.ledgers["a"].charged == 0
