"""Pool: each site adds its own noise, and the answer is the sum of what is there.

    register of a site    sums of all its releases,  how many there were (draws),  of how many records
    answer                sum of registers:  steps = sum_i steps_i,  records = sum_i n_i,  draws = sum_i m_i

The noise of the answer is that of as many draws (`Law.part`), so the interval is exact whatever is missing:
an answer of 47 of 50 sites says so, and becomes one of 50 of 50. Nobody waits for anybody.

A site that lies moves the answer by what its register may be at most: one that honest releases could not
have (`far_limit`: all records at one end, and noise that comes once in 2^60) is left out by name. Clamping
at the question's own bounds instead would bias answers of honest sites.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from veilsum.errors import FleetError
from veilsum.fleet.answers import BoardAnswer, Posted, sites_of
from veilsum.fleet.board import Board
from veilsum.fleet.budget_units import FOREVER, Spending
from veilsum.fleet.encoding import far_limit
from veilsum.fleet.membership import Member
from veilsum.fleet.periods import LATEST
from veilsum.fleet.post import Header, Kind, Post, Topic
from veilsum.fleet.protocol import BoardProtocol, Work
from veilsum.fleet.question import FleetQuestion
from veilsum.fleet.release import Draft
from veilsum.fleet.release_rules import POOL
from veilsum.fleet.slots import next_release
from veilsum.privacy.exact.entropy import Entropy

LARGEST = 1 << 62  # of a component of a register, in steps


@dataclass(frozen=True)
class PoolRegister:
    """The body of a pool's post."""

    total: tuple[int, ...]  # of all releases, noise and all, in steps
    last: tuple[int, ...]  # the last release
    records: int  # of the last release; 0 where that is private

    @property
    def data(self) -> bytes:
        """As bytes."""
        found = [list(self.total), [] if self.last == self.total else list(self.last), self.records]
        return json.dumps(found, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, data: bytes, length: int) -> Self:
        """Of bytes."""
        try:
            total, last, records = json.loads(data)
        except (ValueError, TypeError, RecursionError):
            raise FleetError("a register of a pool is not written as one") from None
        last = last or total
        lists = isinstance(total, list) and isinstance(last, list)
        if not lists or any(
            type(one) is not int or abs(one) > LARGEST for one in [*total, *last, records]
        ):
            raise FleetError("a register of a pool is whole numbers")
        if not len(total) == len(last) == length:
            raise FleetError(f"a register of this pool is {length} whole numbers, twice")
        found = cls(tuple(total), tuple(last), records)
        if found.data != data:
            raise FleetError("a register of a pool is not written in the one form that it has")
        return found


def body(before: Post | None, steps: Sequence[int], records: int) -> bytes:
    """The register after one more release."""
    if before is None:
        return PoolRegister(tuple(steps), tuple(steps), records).data
    old = PoolRegister.parse(before.body, len(steps))
    return PoolRegister(
        tuple(a + b for a, b in zip(old.total, steps, strict=True)), tuple(steps), records
    ).data


def implausible(question: FleetQuestion, header: Header, register: PoolRegister) -> str:
    """Why no honest site can have such a register; empty if one can."""
    if header.draws != header.number:
        return f"it says {header.draws:,} draws in {header.number:,} releases"
    if wrong := _wrong_slots(question, header):
        return wrong
    if question.records_public and not 1 <= header.readings <= question.most_records * header.draws:
        return f"it says {header.readings:,} records in {header.draws:,} releases"
    if not question.records_public and header.readings:
        return "it says how many records it has, which is private here"
    ends = far_limit(question, header.readings, header.draws)
    if any(abs(step) > end for step, end in zip(register.total, ends, strict=True)):
        return "its sum is farther out than its records and its noise can be"
    most = min(header.readings, question.most_records) if question.records_public else 0
    if not min(most, 1) <= register.records <= most:
        return f"it says {register.records:,} records in its last release"
    last = far_limit(question, register.records, 1)
    if any(abs(step) > end for step, end in zip(register.last, last, strict=True)):
        return "its last release is farther out than its records and its noise can be"
    if header.draws == 1 and (register.last, register.records) != (register.total, header.readings):
        return "its one release is not its sum"
    return ""


def _wrong_slots(question: FleetQuestion, header: Header) -> str:
    """A table is one slot, released once; of slots each is released once, and they end before 9987."""
    times = question.timetable
    if times is None:
        once = (header.first, header.last, header.draws) == (1, 1, 1)
        return "" if once else "it says that a table was released more than once"
    if header.last > times.slot_at(LATEST) or header.draws > header.last:
        return f"it says {header.draws:,} releases up to slot {header.last:,}"
    return ""


def pooled(board: Board, question: FleetQuestion) -> BoardAnswer | None:
    """The sum of all registers on the board; None if there is none."""
    steps, records, draws = [0] * question.length, 0, 0
    inside: list[str] = []
    left_out: dict[str, str] = {}
    slots = []
    for site in sites_of(board):
        found = list(_registers(board, question, site, left_out))
        for header, register in found:
            steps = [a + b for a, b in zip(steps, register.total, strict=True)]
            records += header.readings
            draws += header.draws
        if found:
            inside.append(site.name)
            slots.append(max(header.last for header, _ in found))
    if not inside:
        return None
    missing = tuple(site.name for site in sites_of(board) if site.name not in inside)
    latest = max(slots)
    return BoardAnswer(
        question, tuple(steps), records, Fraction(draws), tuple(inside), missing, left_out,
        latest=(latest, slots.count(latest)),
    )  # fmt: skip


def _registers(
    board: Board, question: FleetQuestion, site: Member, left_out: dict[str, str]
) -> Sequence[tuple[Header, PoolRegister]]:
    """Of a site under all its keys, unless one of them cannot be honest."""
    held = board.registers.get(Topic(Kind.POOL, question.digest), {})
    found, before = [], 0
    for key in reversed(site.keys):  # the first one first
        post = held[key].post if key in held else None
        if post is None:
            continue
        try:
            register = PoolRegister.parse(post.body, question.length)
            why = implausible(question, post.header, register)
        except FleetError as error:
            why = str(error)
        if post.header.first <= before:
            why = why or f"two of its keys have released slot {post.header.first:,}"
        if why:
            left_out[site.name] = why
            return []
        before = post.header.last
        found.append((post.header, register))
    return found


class Pool(BoardProtocol):
    """Registers of sites, each with its own noise."""

    name = POOL

    def answer(self, board: Board, posted: Posted) -> BoardAnswer | None:
        """The sum of registers."""
        return pooled(board, posted.question)

    def due(self, work: Work) -> None:
        """Release the table once, or the slots that are due."""
        topic = Topic(Kind.POOL, work.posted.terms)
        times = work.posted.question.timetable
        if work.data is None or any(
            p.header.topic == topic for p in work.seat.file.outbox(work.seat.fleet)
        ):
            return
        if times is not None:
            found = next_release(work, times, work.releases.covered(topic))
            if found is not None:
                slots = found.first, found.last
                self._draw(work, topic, slots, found.steps, found.records, found.spending)
        elif not work.releases.covered(topic):
            table = work.data.table(work.posted.question)
            self._draw(work, topic, (1, 1), table.steps, table.records, work.spending())

    def _draw(
        self, work: Work, topic: Topic, slots: tuple[int, int], steps: Sequence[int], records: int,
        spending: Spending,
    ) -> None:  # fmt: skip
        question = work.posted.question
        before = work.board.register(topic, work.seat.public).post
        draws, readings = (
            (0, 0) if before is None else (before.header.draws, before.header.readings)
        )

        def make(entropy: Entropy) -> bytes:
            noise = [
                int(step)
                for law, length in zip(question.laws, question.lengths, strict=True)
                for step in law.draw(length, entropy)
            ]
            return body(before, [a + b for a, b in zip(steps, noise, strict=True)], records)

        content = json.dumps([list(steps), records]).encode()
        work.releases.draw(
            Draft(topic, *slots, make, content, draws + 1, readings + records, spending)
        )
        work.say(f"released {question.title()}: {_covered(slots)}")

    def carry(self, posted: Posted, last: int) -> Sequence[tuple[int, int]]:
        """All time up to the last slot; a whole table."""
        times = posted.question.timetable
        return [(0, FOREVER if times is None else times.bounds(last)[1])]

    def stage(self, board: Board, posted: Posted, now: int) -> str:
        """Whom a one-shot waits for."""
        del now
        found = pooled(board, posted.question)
        inside = () if found is None else found.sites
        waiting = [site.name for site in sites_of(board) if site.name not in inside]
        return f"waits for {', '.join(waiting)}" if waiting else ""


def _covered(slots: tuple[int, int]) -> str:
    first, last = slots
    return "the table" if first == last == 1 else f"{last - first + 1} slots"
