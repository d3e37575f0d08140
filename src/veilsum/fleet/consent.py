"""Who says yes: a site's policy, what it checks before it agrees, and what its person is shown.

    question ── check ──> Declined(reason)        it cannot be answered here; the reason may be posted
             ── policy ─> Approved | NeedsPerson(reason)

A reason that may be posted says nothing of the rows, of other columns, or of what others asked. A question
that no policy approves waits for a person, for ever: silence is no.

What the person is shown (`Preview`) has no number that is computed from rows. The exact bytes before consent
would be the true vector with other noise each time it is looked at, and k looks together cost k epsilon: the
person at the site may see the rows anyway, but a screen is copied, sent and printed, and a file of
previews would be releases that no ledger has. So the example is noise alone, for the vector of a site
without rows: the same length, the same law, nothing else, and the preview says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from veilsum import _validate
from veilsum._numbers import upward
from veilsum._toml import choose
from veilsum.asking.forecasting import forecast_at
from veilsum.errors import FleetError
from veilsum.fleet.question import FleetQuestion
from veilsum.fleet.release_rules import RULES, noise_for
from veilsum.privacy.exact.entropy import SYSTEM, Entropy
from veilsum.privacy.guarantee import Guarantee
from veilsum.questions import QUESTIONS, Forecast

if TYPE_CHECKING:
    from veilsum.asking.codebook_contents import Codebook

PERIODS = ("question", "day", "month", "year")
USUAL_RECORDS_SHOWN = 1000  # of each site, assumed
LONGEST_REASON = 400  # characters
EXAMPLE = 8  # components of the example that are shown


@dataclass(frozen=True)
class Consent:
    """What a site says to a question: one of the three that follow."""

    reason: str = ""


@dataclass(frozen=True)
class Approved(Consent):
    """Yes, by the policy."""


@dataclass(frozen=True)
class NeedsPerson(Consent):
    """Only a person can say yes; why, for this site alone."""


@dataclass(frozen=True)
class Declined(Consent):
    """It cannot be answered here; why, in a sentence that may be posted."""


@dataclass(frozen=True)
class ConsentPost:
    """What a site says to a question, as it is posted: yes, or no with the reason that it gives."""

    yes: bool
    reason: str = ""

    @property
    def data(self) -> bytes:
        """As bytes."""
        return json.dumps(
            {"reason": self.reason[:LONGEST_REASON], "yes": self.yes}, sort_keys=True
        ).encode()

    @classmethod
    def read(cls, data: bytes) -> ConsentPost | None:
        """Of bytes; None if it is none."""
        try:
            found = json.loads(data)
            yes, reason = found["yes"], found["reason"]
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        return cls(yes, reason) if isinstance(yes, bool) and isinstance(reason, str) else None


@dataclass(frozen=True)
class SiteFacts:
    """What a site knows of itself when it is asked."""

    columns: Sequence[str]
    epsilon_left: float  # of its budget, for these records
    delta_left: float
    asker: str  # the member that asks
    spent: Callable[[str], float]  # epsilon it approved in this day, month or year
    records: int  # of a table the number of its rows
    codebook: Codebook | None = None
    protocols: Sequence[str] = tuple(RULES)  # in which it can take part now


@dataclass(frozen=True)
class Policy:
    """What a site says yes to without asking a person: all of it must hold.

    >>> from veilsum.fleet.question import Worded
    >>> policy = Policy(kinds=("count",), columns=(), max_epsilon=1.0)
    >>> facts = SiteFacts((), 3.0, 0.0, asker="ada", spent=lambda _: 0.0, records=500)
    >>> decide(FleetQuestion(asks=(Worded("count", ()),), epsilon=1.0, protocol="pool"), facts, policy)
    Approved(reason='')
    """

    kinds: tuple[str, ...]
    columns: tuple[str, ...]  # that a question may read, filter or group by
    max_epsilon: float  # per `per`, of questions together, for a person with rows here
    per: str = "question"
    min_records: int = 1  # that the site must have
    protocols: tuple[str, ...] = tuple(RULES)
    askers: tuple[str, ...] = ()  # members; all without

    def __post_init__(self) -> None:
        """Refuse what no policy can be."""
        for name, known in (("kinds", QUESTIONS), ("protocols", RULES)):
            for one in getattr(self, name):
                if one not in known:
                    raise FleetError(f"{name}: {choose(one, known)}")
        if self.per not in PERIODS:
            raise FleetError(f"per: {choose(self.per, PERIODS)}")
        _validate.positive(FleetError, max_epsilon=self.max_epsilon)
        _validate.at_least(FleetError, 1, min_records=self.min_records)

    def allows(self, question: FleetQuestion, facts: SiteFacts) -> str:
        """Why it is for a person to decide; empty where it is not."""
        asked = [*(one.name for one in question.asks), *(["clipped"] if question.clipped else [])]
        kinds = [name for name in asked if name not in self.kinds]
        if kinds:
            return f"the policy does not approve a {kinds[0]}"
        others = [name for name in columns_of(question) if name not in self.columns]
        if others:
            return f"the policy does not approve column {others[0]}"
        if question.protocol not in self.protocols:
            return f"the policy does not approve {question.protocol}"
        if self.askers and facts.asker not in self.askers:
            return f"the policy does not approve questions of {facts.asker}"
        if question.event.delta:
            return f"the policy approves no delta, and this question has {question.event.delta:g}"
        if facts.records < self.min_records:
            return f"this site has fewer than {self.min_records:,} records"
        if question.timetable is not None and self.per == "question":
            return "this question is asked again and again, and the policy is per question"
        before = 0.0 if self.per == "question" else facts.spent(self.per)
        if before + question.event.epsilon > self.max_epsilon * (1 + 1e-9):
            already = f" after {before:g}" if before else ""
            return (
                f"epsilon {question.event.epsilon:g}{already} is more than the {self.max_epsilon:g} "
                f"per {self.per} of the policy"
            )
        return ""


def columns_of(question: FleetQuestion) -> list[str]:
    """What is read of a site's table."""
    settled = question.settled()
    return settled.view.names([one.question for one in settled.asked])


def decide(question: FleetQuestion, facts: SiteFacts, policy: Policy | None = None) -> Consent:
    """What a site says to a question, before a row is read."""
    if reason := impossible(question, facts):
        return Declined(reason)
    if policy is None:
        return NeedsPerson("this site has no [policy]")
    reason = policy.allows(question, facts)
    return NeedsPerson(reason) if reason else Approved()


def impossible(question: FleetQuestion, facts: SiteFacts) -> str:
    """Why a site cannot answer, in a sentence that may be posted; empty where it can."""
    try:
        wanted = columns_of(question)
    except FleetError as error:
        return str(error)[:LONGEST_REASON]
    if question.protocol not in facts.protocols:
        return f"this site cannot take part in a {question.protocol}"
    for name in wanted:
        if name not in facts.columns:
            return f"this site has no column {name!r}"
    if question.codebook is not None:
        if facts.codebook is None:
            return "this site has no codebook, and the question is for sites that share one"
        if facts.codebook.digest(wanted) != question.codebook:
            return "this site's codebook says another thing of these columns than the asker's"
    over = question.event.epsilon > facts.epsilon_left * (1 + 1e-9)
    if over or question.event.delta > facts.delta_left * (1 + 1e-9):
        return "this site's budget has less left than the question costs"
    return ""


@dataclass(frozen=True)
class Preview:
    """What a person is shown before yes: nothing in it is computed from rows."""

    title: str
    columns: tuple[str, ...]  # that are read
    promise: Guarantee
    epsilon: float  # what it costs a record here
    delta: float
    epsilon_after: float  # what is left then
    quality: tuple[tuple[str, Forecast], ...]  # of each question
    sites: int
    records: int  # assumed, not counted
    example: tuple[int, ...]  # of what a site *without rows* would add to the sum: noise alone
    length: int  # how many numbers there are

    def sentences(self) -> list[str]:
        """All of it, in words."""
        reads = ", ".join(self.columns) or "no column, only how many rows there are"
        delta = f" and delta {self.delta:g}" if self.delta else ""
        found = [
            f"Asked: {self.title}. It reads {reads}.",
            f"It costs epsilon {upward(self.epsilon)}{delta} of this site's budget; "
            f"{max(self.epsilon_after, 0.0):g} is left then.",
        ]
        found += [
            f"With {self.sites} sites and {self.records:,} records together, noise would move "
            f"{one.of or title} by ± {one.half:.3g} {one.unit}".rstrip()
            + "."
            for title, one in self.quality
        ]
        more = ", ..." if self.length > len(self.example) else ""
        numbers = "one number" if self.length == 1 else f"{self.length:,} numbers"
        found.append(
            f"What would leave is {numbers}. An example, of noise alone, as if this site had no rows: "
            f"{', '.join(map(str, self.example))}{more}. It is drawn anew each time it is shown, and never "
            "from your rows: that would be a release."
        )
        return [*found, str(self.promise)]


def preview(
    question: FleetQuestion, *, promise: Guarantee, sites: int, draws: Fraction | int, share: Fraction | int,
    left: tuple[float, float], entropy: Entropy = SYSTEM,
) -> Preview:  # fmt: skip
    """What a person is shown: `draws` of noise in the sum, of which this site adds `share` (1, or 1/h)."""
    settled, records = question.settled(), sites * USUAL_RECORDS_SHOWN
    quality = tuple(
        (one.question.name, forecast_at(one, one.unit.most(records), Fraction(draws)))
        for one in settled.asked
    )
    noise = (
        int(step)
        for law, length in zip(noise_for(question, share), question.lengths, strict=True)
        for step in law.draw(min(length, EXAMPLE), entropy)
    )
    return Preview(
        question.title(), tuple(columns_of(question)), promise, question.event.epsilon,
        question.event.delta, left[0] - question.event.epsilon, quality,
        sites, records, tuple(noise)[:EXAMPLE], question.length,
    )  # fmt: skip
