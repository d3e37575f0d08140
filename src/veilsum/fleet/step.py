"""`step`: a site reads its boards, does what is due, writes its posts, and is done.

    read ── check ── take over ── open what was drawn ── consent ── do what is due ── open ── write

Everything that must last is in site.db before the next thing begins, so that a step may end anywhere and the
next one goes on. A store that does not answer makes a step shorter, never wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from veilsum.errors import FleetError, StoppedError, StoreError, VeilsumError
from veilsum.fleet.answers import Posted, questions_on
from veilsum.fleet.consent import Approved, ConsentPost, NeedsPerson, SiteFacts, columns_of, decide
from veilsum.fleet.keeper_key import erase_over
from veilsum.fleet.ledger import BudgetSpentError
from veilsum.fleet.membership import ASKER, KEEPER, SITE, Member
from veilsum.fleet.periods import CalendarPeriods
from veilsum.fleet.post import Header, Kind, Topic, digest, short
from veilsum.fleet.protocol import Work, protocol_of
from veilsum.fleet.release import Releases
from veilsum.fleet.seat import SPENT, NotAdmittedError, Seat, Traffic
from veilsum.fleet.site import Site

YES, NO, POLICY, PERSON = "yes", "no", "policy", "person"
ALL_READ = 100  # members of a fleet, up to which each of them reads all posts
READERS = {Kind.CONSENT: {ASKER}, Kind.DEAL: {ASKER, KEEPER}}  # of a larger one
KEPT = 30 * 86_400  # seconds after a deadline during which late posts are read


@dataclass
class SeatReport:
    """What a step did in one fleet."""

    fleet: str
    done: list[str] = field(default_factory=list)  # posted and released
    waiting: list[str] = field(default_factory=list)  # what a person should know or do
    problems: list[str] = field(default_factory=list)  # will be tried again
    traffic: Traffic = field(default_factory=Traffic)


def step(site: Site, now: int) -> list[SeatReport]:
    """Do what is due, in all fleets of a site; a StoppedError ends it for good."""
    reports = []
    for seat in site.seats.values():
        report = SeatReport(seat.name, traffic=seat.traffic)
        reports.append(report)
        try:
            SeatStep(site, seat, now, report).run()
        except StoppedError:
            raise
        except NotAdmittedError as error:
            report.waiting.append(str(error))
        except FleetError as error:
            report.problems.append(str(error))
        report.problems += list(seat.traffic.failed)
        report.problems += [*seat.traffic.rolled_back, *seat.traffic.withheld]
    return reports


class SeatStep:
    """A step in one fleet."""

    made = Releases  # a test has others

    def __init__(self, site: Site, seat: Seat, now: int, report: SeatReport) -> None:
        """Without doing anything."""
        self.site, self.seat, self.now, self.report = site, seat, now, report
        self.releases = type(self).made(seat, site.ledger, now)

    def run(self) -> None:
        """All of it; what is drawn is written even if something else fails."""
        self.seat.read(self.wants)
        if self.seat.board.two_authorities:  # which everyone is to see
            self.seat.write(self.now)
        self.seat.check_membership()
        self.seat.name_withheld(self.now)
        self.report.fleet = self.seat.name
        member = self.seat.member
        self.releases.check()
        self.open()
        try:
            posted = questions_on(self.seat.board)
            self.take_over(member, {one.terms: one for one in posted})
            if self.site.file.get(taken_over(self.seat)) is None:
                with self.site.file.transaction():
                    self.site.file.set(taken_over(self.seat), b"yes")
            for one in posted:
                if closed(one, self.now):
                    self.seat.forget(one.terms)
                else:
                    self.consider(member, one)
            going = [one.terms for one in posted if one.open and not closed(one, self.now)]
            erase_over(self.site.folder, self.seat.fleet, going)
            self.open()
        finally:
            self.seat.write(self.now)

    def wants(self, topic: Topic) -> bool:
        """Whether this member does something with a post: of a large fleet it reads nothing else."""
        found = self.seat.board.membership
        own = None if found is None else found.present(self.seat.public)
        if found is None or own is None or len(found.members) <= ALL_READ:
            return True
        readers = READERS.get(topic.kind)
        return readers is None or bool(readers & set(own.roles))

    def open(self) -> None:
        """Claim and open what is drawn; what a store did not do is left for the next step."""
        try:
            for post in self.releases.advance():
                self.report.done.append(
                    f"opened {post.header.topic.name}, number {post.header.number}"
                )
        except StoreError as error:
            self.report.problems.append(str(error))

    def take_over(self, member: Member, posted: Mapping[bytes, Posted]) -> None:
        """As a new key: what the keys before have released is spent, and is not released again (rule 4)."""
        for key in member.keys[1:]:
            if self.site.data is None:
                return
            self.seat.claims(key)
            self._all_shown(key)
            for topic, registers in self.seat.board.registers.items():
                header = registers[key].header if key in registers else None
                if header is None or topic.kind not in SPENT:
                    continue
                if topic.terms not in posted:
                    if self._taken_over(topic.terms):
                        continue
                    raise FleetError(
                        f"an earlier key of this site released {topic.name}, whose question is not shown: "
                        "nothing is released until it is"
                    )
                self._carry(posted[topic.terms], header)

    def all_taken_over(self) -> bool:
        """Whether this key may release: before its first release all fleets of the site have admitted it.

        What an earlier key spent in a fleet is known once that fleet has admitted this one.
        """
        known = {
            topic.kind
            for seat in self.site.seats.values()
            for topic in seat.file.releases(seat.fleet)
        }
        others = [seat for seat in self.site.seats.values() if seat is not self.seat]
        waiting = [seat.name for seat in others if self.site.file.get(taken_over(seat)) is None]
        if waiting and not known & set(SPENT):
            self.report.waiting.append(
                f"waits until {', '.join(waiting)} has admitted this key, too: an earlier key may have spent "
                "there; or take that [[fleet]] out of site.toml"
            )
            return False
        return True

    def _taken_over(self, terms: bytes) -> bool:
        """Whether the ledger has what a question cost that is over and forgotten."""
        over = Topic(Kind.QUESTION, terms) not in self.seat.board.registers
        return (
            over and self.site.ledger.until(self.site.needed_data().source, terms.hex()) is not None
        )

    def _all_shown(self, key: bytes) -> None:
        """Wait while a member lists more releases of an earlier key than the store shows."""
        for one in self.seat.seen.values():
            if self.seat.membership.present(one.key) is None:
                continue
            for topic, number in one.of(key):
                shown = self.seat.board.register(topic, key).header
                known = topic.kind not in SPENT or self._taken_over(topic.terms)
                if not known and (shown is None or shown.number < number):
                    raise FleetError(
                        f"{self.seat.membership.keys[one.key].name} holds number {number} of {topic.name} of "
                        "an earlier key of this site, which is not shown here: nothing is released until "
                        "it is"
                    )

    def _carry(self, posted: Posted, header: Header) -> None:
        times = header.draws
        if posted.question.timetable is not None:  # how many it moves is private: at most so many
            times = header.readings or posted.question.most_records * header.draws
        event = posted.question.event.times(max(times, header.draws, 1))
        with self.site.file.transaction():
            for start, end in protocol_of(posted.question.protocol).carry(posted, header.last):
                self.site.ledger.carry(
                    self.site.needed_data().source, start, end, event, self.now, posted.terms.hex(),
                    self.seat.fleet.hex(),
                )  # fmt: skip

    def consider(self, member: Member, posted: Posted) -> None:
        """Propose what this member asked; decide about the question, and do what is due for it."""
        if not posted.open:
            return
        protocol = protocol_of(posted.question.protocol)
        try:
            if posted.asker.public == self.seat.public:
                protocol.propose(
                    self.work(posted, self.since(digest("veilsum asked 1", posted.terms), PERSON))
                )
            if not {SITE, KEEPER} & set(member.roles):
                return
            verdict = self.verdict(posted)
            if verdict is not None:
                self.seat.publish(Kind.CONSENT, posted.terms, verdict.data, self.now)
                if verdict.yes and self.all_taken_over():
                    protocol.due(self.work(posted, self.since(posted.terms, POLICY)))
        except BudgetSpentError as error:
            self.report.waiting.append(f"{posted.question.title()}: {error}")
        except (StoppedError, StoreError):
            raise
        except VeilsumError as error:
            self.report.problems.append(f"{posted.question.title()}: {error}")

    def work(self, posted: Posted, since: int) -> Work:
        """What a protocol is given."""
        return Work(
            posted, self.seat, self.releases, self.site.data, self.site.folder, self.now, since,
            self.report.done.append,
        )  # fmt: skip

    def since(self, place: bytes, by: str) -> int:
        """When this member asked, or agreed: now, the first time."""
        known = self.site.file.decision(self.seat.fleet, place)
        if known is None:
            with self.site.file.transaction():
                self.site.file.decide(self.seat.fleet, place, YES, "", by, self.now)
            return self.now
        return known[3]

    def verdict(self, posted: Posted) -> ConsentPost | None:
        """What this site says, decided now or before; None where a person has to."""
        known = self.site.file.decision(self.seat.fleet, posted.terms)
        if known is not None:
            return ConsentPost(known[0] == YES, known[1])
        deadline = posted.question.deadline
        if deadline is not None and self.now > deadline:
            return None
        found = decide(
            posted.question, facts_of(self.site, posted, self.now), self.site.config.policy
        )
        if isinstance(found, NeedsPerson):
            self.report.waiting.append(
                f"{posted.asker.name} asks {posted.question.title()} for epsilon "
                f"{posted.question.epsilon:g}: {found.reason}; veilsum fleet inbox shows it, veilsum fleet "
                f"approve {short(posted.terms)[:8]} says yes"
            )
            return None
        yes = isinstance(found, Approved)
        with self.site.file.transaction():
            self.site.file.decide(
                self.seat.fleet, posted.terms, YES if yes else NO, found.reason, POLICY, self.now
            )
        self.report.done.append(
            f"{'approved' if yes else 'refused'} {posted.question.title()} of {posted.asker.name}"
            + (f": {found.reason}" if found.reason else "")
        )
        return ConsentPost(yes, found.reason)


def taken_over(seat: Seat) -> str:
    """In site.db: that what earlier keys spent in a fleet is charged."""
    return f"taken over {seat.fleet.hex()}"


def closed(posted: Posted, now: int) -> bool:
    """Whether a question that is asked once was over long ago."""
    deadline = posted.question.deadline
    return deadline is not None and now > deadline + KEPT


def facts_of(site: Site, posted: Posted, now: int) -> SiteFacts:
    """What a site knows of itself when it is asked."""
    data, policy = site.data, site.config.policy
    if data is None:
        return SiteFacts((), 0.0, 0.0, posted.asker.name, lambda _: 0.0, 0)
    left = site.ledger.left(data.source, now)
    least = 1 if policy is None else policy.min_records
    records = least if least <= 1 else data.records()

    def approved(period: str) -> float:
        start = CalendarPeriods(period).bounds(CalendarPeriods(period).at(now))[0]
        rows = site.file.rows(
            "select terms from decisions where verdict = ? and by = ? and at >= ?",
            YES,
            POLICY,
            start,
        )
        terms = {bytes(row[0]) for row in rows}
        return sum(
            one.question.epsilon
            for other in site.seats.values()
            for one in questions_on(other.board)
            if one.terms in terms
        )

    return SiteFacts(
        data.columns() or columns_of(posted.question),
        left.epsilon,
        left.delta,
        posted.asker.name,
        approved,
        records,
        data.book,
    )
