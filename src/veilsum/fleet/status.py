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
    """An answer, or several components, with the interval that holds with 95%.

    Parameters
    ----------
    quantity : str
        What it is.
    values, low, high : tuple of float or None
        None where nothing can be said.
    labels : tuple of str
        Of the components; empty for one number.
    unit : str
        Of the numbers.
    detail : bool
        Whether it stands behind another one.
    """

    quantity: str
    values: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    labels: tuple[str, ...] = ()
    unit: str = ""
    detail: bool = False


@dataclass(frozen=True)
class SlotFound:
    """What sites released last: one slot, or a batch of them.

    Parameters
    ----------
    first, last : int
        The slots.
    start, end : int
        UTC seconds of their readings.
    sites : int
        How many sites it covers.
    found : tuple of FoundNumber
        Its answer.
    """

    first: int
    last: int
    start: int
    end: int
    sites: int
    found: tuple[FoundNumber, ...]


@dataclass(frozen=True)
class QuestionStatus:
    """A question, and how far it is.

    Parameters
    ----------
    terms : str
        Its digest, in short.
    title, asker, protocol : str
        What is asked, by whom, and how it is protected.
    label : str
        Its name for people, if it has one.
    epsilon, delta : float
        What a release costs.
    every : str
        The length of its slots; empty if it is asked once.
    zone : str
        Of the slots.
    deadline : int, optional
        UTC seconds.
    stage : str
        Whom it waits for; empty once it is answered.
    inside, of : int
        How many sites are in the answer, of how many.
    missing : tuple of str
        Those that are not.
    left_out : mapping
        Sites whose posts no honest site could have made, and why.
    at_odds : tuple of str
        Keepers whose answers disagree with the others.
    refused : mapping
        Sites that said no, and why.
    agreed : tuple of str
        Members that said yes.
    found : tuple of FoundNumber
        The answer; of a stream that of all slots so far.
    latest : SlotFound, optional
        Of a stream: the newest slot that most sites have.
    late : int
        Of a stream: how many slots more are over, and nobody has released.
    problem : str
        Why its answer cannot be read here.
    """

    terms: str
    title: str
    asker: str
    protocol: str
    label: str
    epsilon: float
    delta: float
    every: str = ""
    zone: str = "UTC"
    deadline: int | None = None
    stage: str = ""
    inside: int = 0
    of: int = 0
    missing: tuple[str, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)
    at_odds: tuple[str, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)
    agreed: tuple[str, ...] = ()
    found: tuple[FoundNumber, ...] = ()
    latest: SlotFound | None = None
    late: int = 0
    problem: str = ""

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
    """The newest release of a site for one question.

    Parameters
    ----------
    terms : str
        Of the question, in short.
    number, last : int
        Of the release, and the last slot that it covers.
    end : int, optional
        Of a stream: when its readings end, UTC seconds.
    behind : int
        Slots that most sites have and this one has not.
    opened : bool
        Whether its body has left.
    """

    terms: str
    number: int
    last: int
    end: int | None
    behind: int
    opened: bool


@dataclass(frozen=True)
class MemberView:
    """A member, as this one sees it.

    Parameters
    ----------
    name : str
        Its name.
    roles : tuple of str
        None of one that left.
    key : str
        In short.
    own : bool
        Whether it is this member.
    rekeyed : int
        How many keys it had before.
    seen_at : int, optional
        When it last said what it holds, by its clock; None if that has not been read.
    age : int, optional
        Seconds since then.
    heard : bool
        Whether it has ever written anything here.
    silent : bool
        Whether that is much longer ago than that of others.
    ahead : int
        Seconds by which its clock is ahead of this one, beyond the fleet's tolerance.
    same : bool
        Whether it holds the very set of posts that this member holds.
    releases : tuple of MemberRelease
        Its newest ones.
    epsilon : float
        What it spent here, as it posted.
    forks : tuple of str
        Evidence that it said two things.
    left_out : str
        Why its posts are in no answer.
    """

    name: str
    roles: tuple[str, ...]
    key: str
    own: bool = False
    rekeyed: int = 0
    seen_at: int | None = None
    age: int | None = None
    heard: bool = True
    silent: bool = False
    ahead: int = 0
    same: bool = False
    releases: tuple[MemberRelease, ...] = ()
    epsilon: float = 0.0
    forks: tuple[str, ...] = ()
    left_out: str = ""

    @property
    def behind(self) -> MemberRelease | None:
        """The release that is farthest behind."""
        found = max(self.releases, key=lambda one: one.behind, default=None)
        return found if found is not None and found.behind else None


@dataclass(frozen=True)
class OwnBudget:
    """What this member has spent, of all fleets together, and what is left.

    Parameters
    ----------
    source : str
        Of its data.
    spent, left : float
        Epsilon of what counts at this moment.
    dearest : float
        Epsilon spent at the dearest moment.
    limit : float
        Epsilon.
    per : str
        What the limit is for.
    until : int, optional
        Until when it is enough if all streams go on; None if no end is in sight.
    """

    source: str
    spent: float
    left: float
    dearest: float
    limit: float
    per: str
    until: int | None = None


@dataclass(frozen=True)
class WaitingRelease:
    """A release that is drawn and charged, and whose body has not left.

    Parameters
    ----------
    topic : str
        Of the post.
    number : int
        Of the release.
    waits_for : str
        Who must hold its header.
    """

    topic: str
    number: int
    waits_for: str


@dataclass(frozen=True)
class OpenKey:
    """The file of a keeper's key whose query is not over.

    Parameters
    ----------
    name : str
        Of the file.
    since : int
        When it was made, UTC seconds.
    """

    name: str
    since: int


@dataclass(frozen=True)
class StoreView:
    """A store of the board.

    Parameters
    ----------
    address : str
        Where.
    witness : bool
        Whether the membership makes it the witness of releases.
    problem : str
        Why it could not be read.
    """

    address: str
    witness: bool
    problem: str = ""


@dataclass(frozen=True)
class Trouble:
    """Something that a person should look at.

    Parameters
    ----------
    who : str
        A site, or a part of this one.
    what : str
        What is not as it should be.
    remedy : str
        What to do; empty if it mends itself.
    kind : str
        One word, for metrics and for the marks of the page.
    """

    who: str
    what: str
    remedy: str
    kind: str


@dataclass(frozen=True)
class FleetStatus:
    """The status of a fleet as one member sees it.

    Parameters
    ----------
    at : int
        When this was so, UTC seconds.
    fleet : str
        Its name.
    epoch : int
        Number of the membership; 0 before it has arrived.
    authority : str
        The first key of the authority, in hexadecimal digits.
    member : str
        Who this is; empty if it is not admitted.
    key : str
        Its public key, in hexadecimal digits.
    digest : str
        Of the board: equal digests are equal boards.
    questions : tuple of QuestionStatus
        In the order of their digests.
    members : tuple of MemberView
        In the order of the membership.
    budgets : tuple of OwnBudget
        Of this member's data.
    stores : tuple of StoreView
        Where the board is.
    witnesses : str
        Who holds headers before bodies leave.
    outbox : tuple of WaitingRelease
        Own releases that wait.
    open_keys : tuple of OpenKey
        Keys of this keeper whose query is open.
    troubles : tuple of Trouble
        What was found about stores, posts and this member; those of sites are in `attention`.
    stopped : str
        Why this site stopped for good.
    """

    at: int
    fleet: str
    epoch: int
    authority: str
    member: str
    key: str
    digest: str
    questions: tuple[QuestionStatus, ...] = ()
    members: tuple[MemberView, ...] = ()
    budgets: tuple[OwnBudget, ...] = ()
    stores: tuple[StoreView, ...] = ()
    witnesses: str = ""
    outbox: tuple[WaitingRelease, ...] = ()
    open_keys: tuple[OpenKey, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    stopped: str = ""

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
