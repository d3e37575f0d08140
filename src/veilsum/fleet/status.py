"""The status of a fleet as a member sees it: one model, plain data.

    Seat + ledger + now  ──  status_of.fleet_status  ──  FleetStatus  ──  screen, page, metrics, JSON

All that is here is public, or the member's own: posts, signed lists, and sums of its ledger; never a reading.
`attention` is what a person should look at: a site that is like the others has no line in it.

A new field is three places: here, where it is filled (`status_of`), and where it is shown (`front.of_fleet`,
or `static/board.js` for the page). JSON has every field by itself.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class FoundNumber:
    """An answer, or several components, with the interval that holds with 95%."""

    quantity: str
    values: tuple[float | None, ...]  # None where nothing can be said
    low: tuple[float | None, ...]  # of the interval that holds with 95%
    high: tuple[float | None, ...]
    labels: tuple[str, ...] = ()  # of components; empty for one number
    unit: str = ""
    detail: bool = False  # whether it stands behind another one


@dataclass(frozen=True)
class SlotFound:
    """What sites released last: one slot, or a batch of them."""

    first: int
    last: int
    start: int  # UTC seconds of the readings
    end: int
    sites: int  # that it covers
    found: tuple[FoundNumber, ...]


@dataclass(frozen=True)
class QuestionStatus:
    """A question, and how far it is."""

    terms: str  # its digest, in short
    title: str
    asker: str
    protocol: str
    label: str  # its name for people, if it has one
    epsilon: float  # of one release
    delta: float
    every: str = ""  # the length of its slots; empty if it is asked once
    zone: str = "UTC"
    deadline: int | None = None  # UTC seconds
    stage: str = ""  # whom it waits for; empty once it is answered
    inside: int = 0  # sites in the answer, of how many
    of: int = 0
    missing: tuple[str, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)  # posts no honest site makes, and why
    at_odds: tuple[str, ...] = ()  # keepers whose answers disagree with the others
    refused: dict[str, str] = field(default_factory=dict)  # sites that said no, and why
    agreed: tuple[str, ...] = ()  # members that said yes
    found: tuple[FoundNumber, ...] = ()  # of a stream the answer of all slots so far
    latest: SlotFound | None = None  # of a stream: the newest slot that most sites have
    late: int = 0  # of a stream: slots that are over, and nobody has released
    problem: str = ""  # why its answer cannot be read here

    @property
    def covers(self) -> str:
        """For people: "47 of 50 sites"."""
        return f"{self.inside} of {self.of} site{'s' if self.of != 1 else ''}"

    @property
    def answer(self) -> FoundNumber | None:
        """The first number that is an answer and no detail."""
        return next((one for one in self.found if not one.detail), None)


@dataclass(frozen=True)
class MemberRelease:
    """The newest release of a site for one question."""

    terms: str  # of the question, in short
    number: int
    last: int  # slot that it covers
    end: int | None  # of its readings, of a stream; UTC seconds
    behind: int  # slots that most sites have and this one has not
    opened: bool  # whether its body has left


@dataclass(frozen=True)
class MemberView:
    """A member, as this one sees it."""

    name: str
    roles: tuple[str, ...]  # none of one that left
    key: str  # in short
    own: bool = False  # whether it is this member
    rekeyed: int = 0  # how many keys it had before
    seen_at: int | None = None  # when it last said what it holds, by its clock; None: not read
    age: int | None = None  # seconds since then
    heard: bool = True  # whether it has ever written anything here
    silent: bool = False  # whether that is much longer ago than that of others
    ahead: int = 0  # seconds of its clock before this one, beyond the tolerance
    same: bool = False  # whether it holds the very set of posts that this member holds
    releases: tuple[MemberRelease, ...] = ()
    epsilon: float = 0.0  # spent here, as it posted
    forks: tuple[str, ...] = ()  # evidence that it said two things
    left_out: str = ""  # why its posts are in no answer

    @property
    def behind(self) -> MemberRelease | None:
        """The release that is farthest behind."""
        found = max(self.releases, key=lambda one: one.behind, default=None)
        return found if found is not None and found.behind else None


@dataclass(frozen=True)
class OwnBudget:
    """What this member has spent, of all fleets together, and what is left."""

    source: str
    spent: float  # epsilon of what counts at this moment
    left: float
    dearest: float  # epsilon spent at the dearest moment
    limit: float
    per: str
    until: int | None = None  # it is enough if all streams go on; None: no end is in sight


@dataclass(frozen=True)
class WaitingRelease:
    """A release that is drawn and charged, and whose body has not left."""

    topic: str
    number: int
    waits_for: str  # who must hold its header


@dataclass(frozen=True)
class OpenKey:
    """The file of a keeper's key whose query is not over."""

    name: str  # of the file
    since: int  # UTC seconds


@dataclass(frozen=True)
class StoreView:
    """A store of the board."""

    address: str
    witness: bool  # whether the membership makes it the witness of releases
    problem: str = ""  # why it could not be read


@dataclass(frozen=True)
class Trouble:
    """Something that a person should look at."""

    who: str  # a site, or a part of this one
    what: str
    remedy: str  # empty if it mends itself
    kind: str  # one word, for metrics and for the marks of the page


@dataclass(frozen=True)
class FleetStatus:
    """The status of a fleet as one member sees it."""

    at: int  # UTC seconds
    fleet: str
    epoch: int  # 0 before the membership has arrived
    authority: str  # its first key, in hexadecimal digits
    member: str  # who this is; empty if it is not admitted
    key: str
    digest: str  # of the board: equal digests are equal boards
    questions: tuple[QuestionStatus, ...] = ()
    members: tuple[MemberView, ...] = ()
    budgets: tuple[OwnBudget, ...] = ()  # of this member's data
    stores: tuple[StoreView, ...] = ()
    witnesses: str = ""  # who holds headers before bodies leave
    outbox: tuple[WaitingRelease, ...] = ()  # own releases that wait
    open_keys: tuple[OpenKey, ...] = ()  # of this keeper
    troubles: tuple[Trouble, ...] = ()  # those of sites are in `attention`
    stopped: str = ""  # why this site stopped for good

    @property
    def sites(self) -> tuple[MemberView, ...]:
        """Members that have readings."""
        return tuple(one for one in self.members if "site" in one.roles)

    @cached_property
    def attention(self) -> tuple[Trouble, ...]:
        """What a person should look at; a site that is like the others has no line."""
        from veilsum.fleet.attention import attention

        return attention(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and the page."""
        found = asdict(self)
        for one, question in zip(found["questions"], self.questions, strict=True):
            one["covers"] = question.covers
        return found | {"attention": [asdict(one) for one in self.attention]}
