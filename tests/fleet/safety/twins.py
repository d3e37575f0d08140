"""Twins: the shipped classes, each without one rule. Some scenario must find each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest

from tests.fleet.fleets import SmallFleet
from tests.fleet.safety.watching import WatchedFleet
from veilsum.fleet import seat as seat_module
from veilsum.fleet.database import SiteFile
from veilsum.fleet.draws import DerivedEntropy
from veilsum.fleet.membership import Member, Membership
from veilsum.fleet.post import Header, Post, Topic
from veilsum.fleet.release import (
    Claimed,
    Draft,
    MemberWitnesses,
    Releases,
    Witness,
    stopped,
    witness_of,
)  # fmt: skip
from veilsum.fleet.seat import Seat
from veilsum.fleet.step import SeatStep
from veilsum.privacy.exact.entropy import SYSTEM, Entropy

Patch = pytest.MonkeyPatch


class ChargedAfterwards(Releases):
    """Rule 1: drawn in one transaction, charged in the next."""

    def charge(self, draft: Draft) -> None:
        """Later."""

    def draw(self, draft: Draft) -> Post:
        post = super().draw(draft)
        with self.file.transaction():
            super().charge(draft)
        return post


class OpenedFirst(Releases):
    """Rule 2: the body leaves without a claim."""

    def advance(self) -> list[Post]:
        posts = self.file.outbox(self.seat.fleet)
        for post in posts:
            self.open(post)
        return posts


class NoSecondReading(Releases):
    """Rule 2: what was granted is opened."""

    def confirm(self, header: Header) -> bool:
        del header
        return True


class MembershipReadOnce(Releases):
    """Rule 2: the second reading is of the register alone."""

    def confirm(self, header: Header) -> bool:
        self.seat.look_again(header.topic)
        self.check()
        return not self.seat.witness.overtaken(self.seat, header)


class AnyEpoch(Releases):
    """Rule 2: a claim of the witnesses of another epoch counts."""

    def confirm(self, header: Header) -> bool:
        super().confirm(header)
        return True


class NextNumber(Releases):
    """Rule 3: a refused claim is tried again with the next number."""

    def advance(self) -> list[Post]:
        for post in self.file.outbox(self.seat.fleet):
            renumbered, found = post, self.seat.witness.claim(self.seat, post.header)
            while found is Claimed.REFUSED:
                header = replace(renumbered.header, number=renumbered.header.number + 1)
                with self.file.transaction():
                    self.file.opened(self.seat.fleet, renumbered.header)
                    renumbered = Post(header.signed(self.file.key), post.salt, post.body)
                    self.file.drawn(self.seat.fleet, renumbered, self.now)
                found = self.seat.witness.claim(self.seat, renumbered.header)
        return super().advance()


class StopsUntilRestarted(Releases):
    """Rule 3: the stop is not on the disk."""

    def stop(self, reason: str) -> None:
        raise stopped(reason)


class OwnKeyAlone(Releases):
    """Rule 4: a new key does not look at the slots of the keys before."""

    def covered(self, topic: Topic) -> int:
        return self.file.released(self.seat.fleet, topic)[2]


class FreshNoise(Releases):
    """Rule 5: noise from the system."""

    def entropy(self, draft: Draft, number: int) -> Entropy:
        del draft, number
        return SYSTEM


class NoiseOfTheNumber(Releases):
    """Rule 5: the content is not an input."""

    def entropy(self, draft: Draft, number: int) -> Entropy:
        place = f"{number} {draft.first} {draft.last}".encode()
        return DerivedEntropy(self.file.get("seed") or b"", draft.topic.terms, place)


class NoLists(Releases):
    """What members hold of this site is not looked at."""

    def _check_lists(self) -> None:
        """Nothing."""


def register_alone(patch: Patch) -> None:
    """Rule 2: the second reading does not look for higher claims."""
    patch.setattr(Witness, "overtaken", lambda *_: False)


def no_claims_of_earlier_keys(patch: Patch) -> None:
    """Rule 4: headers whose bodies may still leave are not taken over."""
    patch.setattr(Seat, "claims", lambda *_: None)


def nothing_carried(patch: Patch) -> None:
    """Rule 4: a new key begins with a full budget."""
    patch.setattr(SeatStep, "_carry", lambda *_: None)


def all_forgotten(patch: Patch) -> None:
    """Rule 4: what is over leaves the store, and what it cost."""
    patch.setattr(seat_module, "SPENT", ())


def shown_is_all(patch: Patch) -> None:
    """Rule 4: a new key takes over what the store shows, whatever members list."""
    patch.setattr(SeatStep, "_all_shown", lambda *_: None)


def key_outside_the_ledger(patch: Patch) -> None:
    """Rule 4: the key survives its ledger, which goes on where the board ends."""

    def adopts(self: Releases) -> None:
        for topic, keys in self.board.registers.items():
            header = keys[self.seat.public].header if self.seat.public in keys else None
            if header is not None and header.number > self.file.released(self.seat.fleet, topic)[0]:
                with self.file.transaction():
                    self.file.db.execute(
                        "insert or replace into released values (?, ?, ?, ?, ?, ?)",
                        (self.seat.fleet, topic.kind.code, topic.terms, header.number, header.hash,
                         header.last),
                    )  # fmt: skip

    def rekey(self: SmallFleet, name: str) -> None:
        with SiteFile(self.folder / name / "site.db", durable=False) as file:
            key = file.key.private_bytes_raw()
        (self.folder / name / "site.db").unlink()
        self.joined(name)
        with SiteFile(self.folder / name / "site.db", durable=False) as file, file.transaction():
            file.set("key", key)

    patch.setattr(Releases, "check", adopts)
    patch.setattr(WatchedFleet, "rekey", rekey)


def shown_before_stored(patch: Patch) -> None:
    """Witnesses: what is shown is the board, which a later header replaces."""

    def held(self: Seat) -> Iterable[tuple[Topic, bytes, int, bytes]]:
        for topic, registers in self.board.registers.items():
            for key, register in registers.items() if topic.kind.claimed else ():
                if register.header is not None:
                    yield topic, key, register.header.number, register.header.hash

    patch.setattr(Seat, "_held", held)


def keeps_the_last(seat: Seat, member: Member, header: Header) -> bool:
    seat.file.db.execute(
        "insert or replace into witnessed values (?, ?, ?, ?, ?, ?, ?, ?)",
        (seat.fleet, member.name, header.kind.code, header.terms, header.key, header.number,
         header.hash, header.last),
    )  # fmt: skip
    return True


def two_headers_of_one_number(patch: Patch) -> None:
    """Witnesses: a later header of a number replaces the one before."""
    patch.setattr(seat_module, "witnessed", keeps_the_last)


def slots_of_one_key(patch: Patch) -> None:
    """Witnesses: slots of other keys of a site do not count."""

    def witnessed(seat: Seat, member: Member, header: Header) -> bool:
        del member
        rows = seat.file.rows(
            "select max(last) from witnessed where terms = ? and key = ?", header.terms, header.key
        )
        if header.first <= (rows[0][0] or 0):
            return False
        return keeps_the_last(seat, seat.membership.keys[header.key], header)

    patch.setattr(seat_module, "witnessed", witnessed)


def one_witness_is_enough(patch: Patch) -> None:
    """Witnesses: W = 1."""

    def claim(self: MemberWitnesses, seat: Seat, header: Header) -> Claimed:
        lists = [seat.seen.get(one.public) for one in self.members if one.name != seat.member.name]
        for seen in lists:
            held = None if seen is None else seen.holds(header.topic, header.key)
            if held == (header.number, header.hash[:8]):
                return Claimed.GRANTED
        return Claimed.WAITING

    patch.setattr(MemberWitnesses, "claim", claim)


def fewer_witnesses(patch: Patch) -> None:
    """Witnesses: one less than 2 W > m + k asks for."""

    def fewer(membership: Membership) -> Witness:
        found = witness_of(membership)
        if isinstance(found, MemberWitnesses):
            return replace(found, needed=(len(found.members) + found.silent) // 2)
        return found

    patch.setattr(seat_module, "witness_of", fewer)


def own_word_counts(patch: Patch) -> None:
    """Witnesses: a site is a witness of its own releases."""

    def claim(self: MemberWitnesses, seat: Seat, header: Header) -> Claimed:
        held = [
            seat.seen[one.public].holds(header.topic, header.key)
            for one in self.members
            if one.public in seat.seen
        ]
        mine = held.count((header.number, header.hash[:8]))
        return Claimed.GRANTED if mine >= self.needed else Claimed.WAITING

    patch.setattr(MemberWitnesses, "claim", claim)


def board_ahead_of_the_disk(patch: Patch) -> None:
    """Rule 1: what a commit did not keep stays on the board, and leaves."""

    @contextmanager
    def keeping(self: Seat) -> Iterator[None]:
        with self.file.transaction():
            yield

    patch.setattr(Seat, "keeping", keeping)


@dataclass(frozen=True)
class Twin:
    """What lacks a rule, what finds it, and as what."""

    made: type[Releases] | Callable[[Patch], None]
    scenario: str
    fault: str

    @property
    def name(self) -> str:
        """Of the twin."""
        return self.made.__name__

    def put_on(self, patch: Patch) -> type[Releases]:
        """Instead of the shipped one."""
        if isinstance(self.made, type):
            return self.made
        self.made(patch)
        return Releases


TWINS = (
    Twin(ChargedAfterwards, "crashed_at_every_moment", "charged"),
    Twin(board_ahead_of_the_disk, "disk_full_at_every_commit", "kept"),
    Twin(OpenedFirst, "copied_and_asleep", "twice"),
    Twin(NoSecondReading, "copied_and_asleep", "twice"),
    Twin(MembershipReadOnce, "old_key_awake", "twice"),
    Twin(AnyEpoch, "witnesses_of_another_epoch", "twice"),
    Twin(OpenedFirst, "sum_copied_and_asleep", "twice"),
    Twin(register_alone, "copied_within_a_step_and_asleep", "twice"),
    Twin(NextNumber, "copied_and_asleep", "twice"),
    Twin(register_alone, "copies_of_different_questions", "budget"),
    Twin(StopsUntilRestarted, "refused_and_then_the_store_forgets", "twice"),
    Twin(NoLists, "restored_with_its_store_beside_a_member", "twice"),
    Twin(OwnKeyAlone, "lost_and_rekeyed", "twice"),
    Twin(no_claims_of_earlier_keys, "old_key_awake", "twice"),
    Twin(nothing_carried, "lost_and_asked_again", "budget"),
    Twin(all_forgotten, "lost_when_questions_are_over", "waits"),
    Twin(shown_is_all, "hidden_from_the_new_key", "budget"),
    Twin(key_outside_the_ledger, "lost_and_asked_again", "budget"),
    Twin(FreshNoise, "restored_with_its_store", "twice"),
    Twin(NoiseOfTheNumber, "crashed_and_restored", "shared"),
    Twin(shown_before_stored, "shown_another_header", "twice"),
    Twin(two_headers_of_one_number, "shown_another_header", "twice"),
    Twin(slots_of_one_key, "old_key_with_member_witnesses", "twice"),
    Twin(one_witness_is_enough, "split_2_of_2", "twice"),
    Twin(fewer_witnesses, "split_2_of_3", "twice"),
    Twin(fewer_witnesses, "split_3_of_4", "twice"),
    Twin(fewer_witnesses, "split_5_of_7", "twice"),
    Twin(own_word_counts, "own_witness_rolled_back", "twice"),
)
