"""What may happen to a site: each function does all of one kind to a fleet, and leaves the checker to judge.

s0      the site to which it happens            other, twin    copies of it, which see other readings
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.fleets import mean
from tests.fleet.safety.watching import HOURLY, SavedFleet, WatchedFleet
from veilsum.fleet.membership import Witnesses, following
from veilsum.fleet.post import short
from veilsum.fleet.release import Releases

OTHER = 7  # readings that a copy or a later state sees
LONGEST = 400  # moments of a step


@dataclass
class Lab:
    """Makes fleets, of the shipped classes or of twins."""

    folder: Path
    patch: pytest.MonkeyPatch
    releases: type[Releases] = Releases
    made: int = 0

    def fleet(
        self, sites: int = 1, hours: int = 2, table: bool = True, **more: Any
    ) -> WatchedFleet:
        """Some hours old, with a stream and a question of the whole table."""
        self.made += 1
        fleet = WatchedFleet(
            self.folder / f"fleet{self.made}" / "x", sites, self.patch, self.releases, **more
        )
        self.all.append(fleet)
        fleet.ask(mean("pool", schedule=HOURLY))
        if table:
            fleet.ask(mean("pool"))
        for _ in range(hours):
            fleet.go(hours=1)
        return fleet

    def __post_init__(self) -> None:
        self.all: list[WatchedFleet] = []

    def clean(self) -> None:
        """Raise for what any checker found."""
        for fleet in self.all:
            fleet.clean()

    @property
    def faults(self) -> set[str]:
        """What all checkers found."""
        return {rule for fleet in self.all for rule in fleet.checker.faults}


def moments(fleet: WatchedFleet, kept: SavedFleet) -> Iterator[int]:
    """Of a step, while there are some; everything is as it was before each."""
    for at in range(LONGEST):
        kept.restore()
        fleet.now += 3600
        yield at
        if fleet.moments.count <= at:
            return
    raise AssertionError("a step of so many moments is not in these scenarios")


def members(needed: int, count: int, silent: int = 0) -> Witnesses:
    """The last so many sites."""
    return Witnesses(tuple(f"s{k + 1}" for k in range(count)), needed, silent)


# ---- crashes


def crashed_at_every_moment(lab: Lab) -> None:
    """The process ends; the next one sees other readings."""
    fleet = lab.fleet()
    kept = fleet.keep()
    for at in moments(fleet, kept):
        fleet.interrupted("s0", at)
        fleet.sources["s0"] = fleet.sources[fleet.copy("s0", "unused", OTHER)]
        for _ in range(3):
            fleet.go("s0", hours=1)


def crashed_and_restored(lab: Lab) -> None:
    """The process ends; its disk is lost, too, and restored from a backup of an hour before."""
    fleet = lab.fleet()
    kept = fleet.keep()
    for at in moments(fleet, kept):
        fleet.copy("s0", "other", OTHER)
        fleet.interrupted("s0", at)
        for _ in range(3):
            fleet.go("other")
            fleet.now += 3600


def crashed_with_member_witnesses(lab: Lab) -> None:
    """So does a witness, of whom two must hold each release."""
    fleet = lab.fleet(3, hours=4, table=False, witnesses=members(2, 2))
    kept = fleet.keep()
    for who in ("s0", "s1"):
        for at in moments(fleet, kept):
            fleet.interrupted(who, at)
            for _ in range(2):
                fleet.go(hours=1)


# ---- states that come back


def states_of(fleet: WatchedFleet, kept: SavedFleet) -> Iterator[str]:
    """Copies of s0 after every durable step, and a fleet that has gone on after each."""

    def copied() -> None:
        fleet.copy("s0", "other", OTHER)

    for at in range(LONGEST):
        kept.restore()
        fleet.now += 3600
        if not fleet.interrupted("s0", at, copied):
            return
        if fleet.moments.names[at].startswith("did"):
            yield "other"


def rolled_back_to_every_state(lab: Lab) -> None:
    """Restored from a backup of each moment, at once or hours later; its readings have been corrected."""
    for witnesses, sites in ((None, 1), (members(2, 2), 3)):
        fleet = lab.fleet(sites, table=False, hours=3, witnesses=witnesses)
        kept = fleet.keep()
        for later in (0, 1, 3):
            for other in states_of(fleet, kept):
                for _ in range(later):
                    fleet.go(hours=1)
                for _ in range(3):
                    fleet.go(other, *list(fleet.keys)[2:], hours=1)


def copied_and_both_run(lab: Lab) -> None:
    """A copy of each moment, which takes turns with the original."""
    for witnesses, sites in ((None, 1), (members(2, 2), 3)):
        fleet = lab.fleet(sites, table=False, hours=3, witnesses=witnesses)
        kept = fleet.keep()
        for turn in (0, 1):
            for other in states_of(fleet, kept):
                pair = ("s0", other) if turn else (other, "s0")
                for _ in range(4):
                    fleet.go(*pair, *list(fleet.keys)[2:], hours=1)


def copied_and_asleep(lab: Lab) -> None:
    """A copy that sleeps at each moment of its step, while the original releases one to three times."""
    fleet = lab.fleet(table=False)
    kept = fleet.keep()
    for awake in (1, 3):
        for at in moments(fleet, kept):
            fleet.copy("s0", "other", OTHER)
            asleep(fleet, "other", at, awake)


def copied_within_a_step_and_asleep(lab: Lab) -> None:
    """The same for a copy that was made after the draw, and holds the same release as the original."""
    fleet = lab.fleet(table=False)
    fleet.now += 3600
    drawn: list[str] = []
    for at in range(LONGEST):
        kept = fleet.keep()
        fleet.interrupted("s0", at, lambda: drawn.append(fleet.copy("s0", "other", OTHER)))
        if fleet.moments.names[at].startswith("put claim"):
            break
        kept.restore()
    kept = fleet.keep()
    for at in moments(fleet, kept):
        asleep(fleet, "other", at, 3)


def copies_of_different_questions(lab: Lab) -> None:
    """A copy answers one question and the original another, as the store hides: one budget for both."""
    for witnesses, sites in ((None, 1), (members(2, 2), 3)):
        fleet = lab.fleet(sites, hours=4, table=False, epsilon=2.0, witnesses=witnesses)
        for name, hidden in (("s0", "one"), ("other", "two")):
            terms = fleet.ask(mean("pool", nonce=hidden)).terms
            hides = f"question-{short(terms)}"
            fleet.view(name).withheld = hider(hides)
        kept = fleet.keep()
        rest = list(fleet.keys)[2:]
        for at in moments(fleet, kept):
            fleet.copy("s0", "other", OTHER)

            for _ in range(3 if rest else 1):
                fleet.interrupted("other", at, partial(fleet.go, *3 * ["s0", *rest]))
                fleet.go(*rest or ("desk",))
            for _ in range(3):
                fleet.go("other", *rest, "s0")


def hider(ending: str) -> Callable[[str], bool]:
    """Of names with an ending."""
    return lambda name: name.endswith(ending)


def asleep(fleet: WatchedFleet, name: str, at: int, awake: int) -> None:
    """It sleeps at a moment; then both go on."""

    def meanwhile() -> None:
        for _ in range(awake):
            fleet.go("s0", hours=1)

    fleet.interrupted(name, at, meanwhile)
    for _ in range(3):
        fleet.go(name, "s0", hours=1)


def refused_and_then_the_store_forgets(lab: Lab) -> None:
    """A copy is refused; later the store goes back, and somebody starts the copy again."""
    fleet = lab.fleet(table=False)
    before, kept = dict(fleet.objects), fleet.keep()
    for at in moments(fleet, kept):
        fleet.copy("s0", "other", OTHER)
        fleet.interrupted("other", at, partial(fleet.go, "s0"))
        if fleet.moments.names[at].startswith("put claim"):
            break
    fleet.objects.clear()
    fleet.objects.update(before)
    for _ in range(2):
        fleet.go("other")


def disk_full_at_every_commit(lab: Lab) -> None:
    """A commit fails, and the process goes on."""
    fleet = lab.fleet()
    kept = fleet.keep()

    def fails() -> None:
        if fleet.moments.names[-1] == "commit":
            raise sqlite3.OperationalError("database or disk is full")

    for at in moments(fleet, kept):
        fleet.interrupted("s0", at, fails)
        for _ in range(2):
            fleet.go("s0", hours=1)
        with fleet.open("s0") as site:
            if site.file.get("stopped") is not None:
                fleet.checker.fault("stopped", "a full disk stopped the site for good")


def restored_with_its_store(lab: Lab) -> None:
    """Ledger and store go back together; the readings are the same, and so are the bits."""
    fleet = lab.fleet()
    kept = fleet.keep()
    fleet.go("s0", hours=1)
    opened = dict(fleet.objects)
    shutil.rmtree(fleet.folder)
    shutil.copytree(kept.place, fleet.folder)
    fleet.objects.clear()
    fleet.objects.update(kept.objects)
    fleet.go("s0")
    fleet.go("s0", hours=1)
    del opened


def restored_with_its_store_beside_a_member(lab: Lab) -> None:
    """The same with other readings; but one member has its own memory, and says so before."""
    fleet = lab.fleet(2, table=False)
    kept = fleet.keep()
    fleet.go("s0", "s1", hours=1)
    fleet.go("s0", "s1")
    shutil.rmtree(fleet.folder / "s0")
    shutil.copytree(kept.place / "s0", fleet.folder / "s0")
    fleet.objects.clear()
    fleet.objects.update(kept.objects)
    fleet.sources["s0"] = fleet.sources[fleet.copy("s0", "other", OTHER)]
    for _ in range(3):
        fleet.go("s1", "s0", hours=1)


def store_rolled_back(lab: Lab) -> None:
    """The store alone goes back to each hour before."""
    fleet = lab.fleet(2, hours=0)
    states = []
    for _ in range(4):
        states.append(dict(fleet.objects))
        fleet.go(hours=1)
    kept = fleet.keep()
    for state in states:
        kept.restore()
        fleet.objects.clear()
        fleet.objects.update(state)
        for _ in range(3):
            fleet.go(hours=1)


# ---- keys


def lost_and_rekeyed(lab: Lab) -> None:
    """The disk is lost at each moment of a step; a new key goes on, with other readings."""
    fleet = lab.fleet(2)
    kept = fleet.keep()
    for at in moments(fleet, kept):
        fleet.interrupted("s0", at)
        fleet.sources["s0"] = fleet.sources[fleet.copy("s0", "unused", OTHER)]
        fleet.rekey("s0")
        for _ in range(3):
            fleet.go("s0", "s1", hours=1)


def lost_and_asked_again(lab: Lab) -> None:
    """The disk is lost; then more is asked of the same readings than the budget allows."""
    fleet = lab.fleet()
    fleet.sources["s0"] = fleet.sources[fleet.copy("s0", "unused", OTHER)]
    fleet.rekey("s0")
    for nonce in ("a", "b", "c"):
        fleet.ask(mean("pool", nonce=nonce))
        fleet.go("s0", hours=1)


def lost_when_questions_are_over(lab: Lab) -> None:
    """The disk is lost long after a question was over and forgotten; then others are asked."""
    for witnesses in (None, members(2, 2)):
        fleet = lab.fleet(3, table=False, hours=0, epsilon=2.0, witnesses=witnesses)
        fleet.ask(mean("pool", nonce="early", deadline=fleet.now + 10 * 3600))
        for _ in range(4):
            fleet.go(hours=1)
        fleet.now += 60 * 86_400
        fleet.go()
        fleet.sources["s0"] = fleet.sources[fleet.copy("s0", "unused", OTHER)]
        fleet.rekey("s0")
        for nonce in ("a", "b", "c"):
            fleet.ask(mean("pool", nonce=nonce))
            for _ in range(3):
                reports = fleet.go("s1", "s2", "s0")
            if "not shown" in repr(reports):
                fleet.checker.fault("waits", "a new key waits for what is over")


def hidden_from_the_new_key(lab: Lab) -> None:
    """The store hides from a new key what the earlier one released; a member's list names it."""
    fleet = lab.fleet(3, hours=4, epsilon=2.0, witnesses=members(2, 2))
    old = f"post/{fleet.keys['s0'].hex()[:20]}"
    fleet.sources["s0"] = fleet.sources[fleet.copy("s0", "unused", OTHER)]
    fleet.rekey("s0")
    fleet.view("s0").withheld = lambda name: name.startswith(old)
    for nonce in ("a", "b"):
        fleet.ask(mean("pool", nonce=nonce))
        for _ in range(4):
            fleet.go("s1", "s2", "s0")


def old_key_awake(lab: Lab) -> None:
    """The site with the old key sleeps at each moment of a step, while a new one releases."""
    fleet = lab.fleet(2, table=False)
    fleet.ask(mean("pool"))
    kept = fleet.keep()
    for at in moments(fleet, kept):
        fleet.copy("s0", "old", OTHER)

        def meanwhile() -> None:
            fleet.rekey("s0")
            for _ in range(3):
                fleet.go("s0", hours=1)

        fleet.interrupted("old", at, meanwhile)
        for _ in range(3):
            fleet.go("old", "s0", hours=1)


def old_key_with_member_witnesses(lab: Lab) -> None:
    """The store hides the new key from the old one, and the witnesses do not."""
    fleet = lab.fleet(3, table=False, hours=4, witnesses=members(2, 2))
    fleet.copy("s0", "old", OTHER)
    before = {name: data for name, data in fleet.objects.items() if "membership" in name}
    fleet.rekey("s0")
    for _ in range(4):
        fleet.go("s1", "s2", "s0", hours=1)
        with_new = dict(fleet.objects)
        fleet.objects.update(before)
        fleet.go("old")
        fleet.objects.update({n: d for n, d in with_new.items() if "membership" in n})
        fleet.go("s1", "s2")


# ---- witnesses


def objects_of(objects: dict[str, bytes], prefixes: list[str]) -> dict[str, bytes]:
    """Those in some folders."""
    return {n: d for n, d in objects.items() if n.startswith(tuple(prefixes))}


def split_view(lab: Lab, needed: int, count: int, silent: int) -> None:
    """A store shows one copy to some witnesses, another to the others; so many forget what they held."""
    for first in range(count - silent + 1):
        fleet = lab.fleet(count + 1, hours=4, table=False, witnesses=members(needed, count, silent))
        names = [f"s{k + 1}" for k in range(count)]
        forgets, rest = names[:silent], names[silent:]
        fleet.copy("s0", "other", OTHER)
        kept = fleet.keep()
        for again in range(3):
            fleet.go("s0", *forgets, *rest[:first], hours=0 if again else 1)
        gone = [f"post/{fleet.keys[name].hex()[:20]}" for name in ("s0", *forgets)]
        for name in forgets:
            shutil.rmtree(fleet.folder / name)
            shutil.copytree(kept.place / name, fleet.folder / name)
        for name in objects_of(fleet.objects, gone):
            fleet.objects.pop(name)
        fleet.objects.update(objects_of(kept.objects, [*gone, "seen/"]))
        for _ in range(4):
            fleet.go("other", *forgets, *rest[first:])


def shown_another_header(lab: Lab) -> None:
    """The store shows one release to the witnesses, then takes it back and shows that of a copy."""
    fleet = lab.fleet(3, table=False, hours=4, witnesses=members(2, 2))
    mine = [f"post/{fleet.keys['s0'].hex()[:20]}", "seen/"]
    for _ in range(8):
        fleet.copy("s0", "other", OTHER)
        before = objects_of(fleet.objects, mine)
        fleet.go("s0", "s1", "s2", "s0", hours=1)
        after = objects_of(fleet.objects, mine)
        fleet.objects.update(before)
        fleet.go("other", "s1", "s2", "other")
        fleet.objects.update(after)


def split_2_of_2(lab: Lab) -> None:
    """Nobody forgets."""
    split_view(lab, 2, 2, 0)


def split_2_of_3(lab: Lab) -> None:
    """Nobody forgets."""
    split_view(lab, 2, 3, 0)


def split_3_of_4(lab: Lab) -> None:
    """One forgets."""
    split_view(lab, 3, 4, 1)


def split_5_of_7(lab: Lab) -> None:
    """Two forget."""
    split_view(lab, 5, 7, 2)


def own_witness_rolled_back(lab: Lab) -> None:
    """A site that is one of three witnesses forgets, as a witness too, when it is rolled back."""
    fleet = lab.fleet(3, hours=4, table=False, witnesses=Witnesses(("s0", "s1", "s2"), 2, 0))
    fleet.copy("s0", "other", OTHER)
    kept = fleet.keep()
    for hours in (1, 0, 0):
        fleet.go("s0", "s1", hours=hours)
    fleet.objects.clear()
    fleet.objects.update(kept.objects)
    for _ in range(4):
        fleet.go("other", "s2")


# ---- secure sums


def summing(lab: Lab, witnesses: Witnesses | None = None) -> WatchedFleet:
    """A fleet that is asked for a secure sum."""
    lab.made += 1
    fleet = WatchedFleet(
        lab.folder / f"fleet{lab.made}" / "x", 3, lab.patch, lab.releases, witnesses=witnesses
    )
    lab.all.append(fleet)
    fleet.ask(mean("secure-sum", deadline=fleet.now + 50 * 3600))
    return fleet


def rounds_of(fleet: WatchedFleet, count: int = 4) -> Iterator[SavedFleet]:
    """States between which the sum goes on."""
    for _ in range(count):
        yield fleet.keep()
        fleet.go(hours=1)


def sum_crashed_at_every_moment(lab: Lab) -> None:
    """A site that is a keeper crashes in each step; it is restored from a backup, where it has one."""
    fleet = summing(lab)
    states = []
    for number, state in enumerate(rounds_of(fleet)):
        states.append(state.moved(f"round{number}"))
    for kept in states:
        for at in moments(fleet, kept):
            fleet.go("desk")
            fleet.copy("s0", "other", OTHER)
            fleet.interrupted("s0", at)
            name = "other" if at % 2 else "s0"
            for _ in range(2):
                fleet.go("desk", name, "s1", "s2", hours=1)


def sum_copied_and_asleep(lab: Lab) -> None:
    """A copy of it sleeps in each step."""
    fleet = summing(lab)
    states = [state.moved(f"round{number}") for number, state in enumerate(rounds_of(fleet))]
    for kept in states[1:]:
        for at in moments(fleet, kept):
            fleet.go("desk")
            fleet.copy("s0", "other", OTHER)
            fleet.interrupted("other", at, partial(fleet.go, "s0", hours=1))
            fleet.go("desk", "other", "s1", "s2", "s0", hours=1)


def epoch_within_a_sum(lab: Lab) -> None:
    """A site gets a new key, or leaves, at each stage of a sum."""
    fleet = summing(lab)
    states = [state.moved(f"round{number}") for number, state in enumerate(rounds_of(fleet))]
    first = fleet.membership
    for kept in states:
        for leaves in (False, True):
            kept.restore()
            fleet.membership = first
            if leaves:
                members = [replace(m, roles=()) if m.name == "s0" else m for m in first.members]
                fleet.admit(following(first, members))
            else:
                fleet.rekey("s0")
            for _ in range(3):
                fleet.go(hours=1)


# ---- epochs and clocks


def witnesses_of_another_epoch(lab: Lab) -> None:
    """A copy claims of the store and sleeps; meanwhile members become the witnesses."""
    fleet = lab.fleet(3, table=False, hours=3)
    first, kept = fleet.membership, fleet.keep()
    for at in moments(fleet, kept):
        fleet.copy("s0", "other", OTHER)
        fleet.membership = first
        before = objects_of(fleet.objects, [f"post/{fleet.keys['s0'].hex()[:20]}"])

        def meanwhile(before: dict[str, bytes] = before) -> None:
            fleet.admit(following(first, first.members, witnesses=members(2, 2)))
            for _ in range(3):
                fleet.go("s0", "s1", "s2")
            fleet.objects.update(before)

        fleet.interrupted("other", at, meanwhile)
        fleet.go("s1", "s2", "other", "s0", hours=1)


def clocks_that_jump(lab: Lab) -> None:
    """A clock goes ahead by a day and back by two, and so on; a copy has the right time."""
    fleet = lab.fleet(2)
    kept = fleet.keep()
    for jumps in ((24, -48, 25), (-2, 3, -1), (1000, -1000, 1), (-5000, 5001, 2)):
        kept.restore()
        fleet.copy("s0", "other", OTHER)
        for hours in jumps:
            fleet.go("s0", hours=hours)
            right = fleet.now
            fleet.now = kept.now + 3600
            fleet.go("other", "s1")
            fleet.now = right


SCENARIOS: dict[str, Callable[[Lab], None]] = {
    one.__name__: one
    for one in (
        crashed_at_every_moment, crashed_and_restored, crashed_with_member_witnesses,
        disk_full_at_every_commit, rolled_back_to_every_state, copied_and_both_run, copied_and_asleep,
        copied_within_a_step_and_asleep, copies_of_different_questions,
        refused_and_then_the_store_forgets, restored_with_its_store,
        restored_with_its_store_beside_a_member, store_rolled_back, lost_and_rekeyed, lost_and_asked_again,
        lost_when_questions_are_over, hidden_from_the_new_key,
        old_key_awake, old_key_with_member_witnesses, shown_another_header, split_2_of_2, split_2_of_3,
        split_3_of_4, split_5_of_7, own_witness_rolled_back, sum_crashed_at_every_moment,
        sum_copied_and_asleep, epoch_within_a_sum, witnesses_of_another_epoch, clocks_that_jump,
    )
}  # fmt: skip
