"""What a person should look at in the status of a fleet: sites that are not like the others, and the rest.

Five sites or five hundred: what several sites have in common is one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from veilsum.fleet.status import Trouble

if TYPE_CHECKING:
    from veilsum.fleet.status import FleetStatus, MemberView, QuestionStatus

MOST_NAMES = 5  # in a line
MOST_LINES = 3  # of sites with the same trouble; more are one line
HOUR, DAY = 3600, 86_400
FORKED, LEFT_OUT, SILENT, BEHIND, CLOCK = "forked", "left-out", "silent", "behind", "clock"
ABSENT, REFUSED, LATE, STOPPED, ODDS = "absent", "refused", "late", "stopped", "at-odds"
WAITING, KEYS, BUDGET, UNREADABLE = "waiting", "open-keys", "budget", "unreadable"
SOON, WEEK = 14 * DAY, 7 * DAY
WORK = {"site", "keeper", "witness"}


def attention(status: FleetStatus) -> tuple[Trouble, ...]:
    """The lines, gravest first."""
    return (*_own(status), *status.troubles, *_questions(status), *_together(_sites(status)))


def length(seconds: int) -> str:
    """A length of time for people: "1 h 20 min"."""
    if seconds < 120:
        return f"{seconds} s"
    if seconds < HOUR:
        return f"{seconds // 60} min"
    if seconds < 2 * DAY:
        hours, minutes = divmod(seconds // 60, 60)
        return f"{hours} h {minutes} min" if minutes and hours < 10 else f"{hours} h"
    return f"{seconds // DAY} days"


def few(names: Iterable[str], most: int = MOST_NAMES) -> str:
    """Names with commas; of many the first ones, and how many more there are."""
    found = list(names)
    shown = found if len(found) <= most + 1 else found[:most]
    more = len(found) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _own(status: FleetStatus) -> Iterator[Trouble]:
    if status.stopped:
        remedy = (
            "end the other copy, join again in an empty folder, and be admitted with the new key"
        )
        yield Trouble("this site", f"has stopped for good: {status.stopped}", remedy, STOPPED)
    for one in status.outbox:
        yield Trouble(
            "this site", f"{one.topic}, number {one.number}, waits for {one.waits_for}", "", WAITING
        )
    for key in status.open_keys:
        if status.at > key.since + WEEK:
            yield Trouble(
                "this site", f"{key.name} is open since {length(status.at - key.since)}",
                "veilsum fleet step; ask the asker whether the query still goes on", KEYS,
            )  # fmt: skip
    for budget in status.budgets:
        if budget.until is not None and budget.until < status.at + SOON:
            when = length(max(0, budget.until - status.at))
            remedy = "a larger [budget] in site.toml, if the site agrees"
            yield Trouble("this site", f"the budget ends in {when}", remedy, BUDGET)


def _questions(status: FleetStatus) -> Iterator[Trouble]:
    for one in status.questions:
        if one.problem:
            yield Trouble(one.title, one.problem, "", UNREADABLE)
        if one.at_odds:
            yield Trouble(
                one.title, f"answers of {few(one.at_odds)} disagree with those of the other keepers",
                "the answer is right without them; ask why", ODDS,
            )  # fmt: skip
        if one.late > 1:
            yield Trouble(one.title, f"nobody has released the last {one.late} slots", "", LATE)


def _sites(status: FleetStatus) -> Iterator[Trouble]:
    streams = [one for one in status.questions if one.every and one.found]
    missing = {name: one for one in reversed(streams) for name in one.missing}
    going = [one for one in status.questions if one.deadline is None or one.deadline >= status.at]
    for one in status.members:
        yield from _member(one)
        refused = [(question, question.refused.get(one.name)) for question in going]
        said = [(question, why) for question, why in refused if why is not None]
        for question, why in said:
            yield Trouble(one.name, f"said no to {question.title}{why and f': {why}'}", "", REFUSED)
        if said:
            continue
        if one.name in missing and one.heard and not (one.silent or one.left_out):
            yield _missing(one, missing[one.name])


def _missing(one: MemberView, question: QuestionStatus) -> Trouble:
    said = question.agreed if one.name in question.agreed else ()
    remedy = "" if said else "veilsum fleet inbox there"
    what = "agreed to" if said else "no yes or no to"
    return Trouble(one.name, f"{what} {question.title}, but not in yet", remedy, ABSENT)


def _member(one: MemberView) -> Iterator[Trouble]:
    if one.forks:
        remedy = f"two copies of it run, or its key was stolen: admit {one.name} with a new key"
        yield Trouble(one.name, f"signed two posts as one: {few(one.forks, 2)}", remedy, FORKED)
    if one.left_out:
        yield Trouble(one.name, f"is left out: {one.left_out}", "", LEFT_OUT)
    works = WORK & set(one.roles)  # who only asks comes when it asks
    if works and not one.heard:
        yield Trouble(one.name, "never heard here", "veilsum fleet step there", ABSENT)
    elif works and one.silent:
        remedy = f"veilsum fleet remove {one.name}, if it is gone for good"
        remedy = "is its timer or cron running?" if one.own else remedy
        yield Trouble(one.name, f"silent for {length(one.age or 0)}", remedy, SILENT)
    elif one.behind is not None:
        slots = one.behind.behind
        yield Trouble(one.name, f"{slots} slot{'s' if slots > 1 else ''} behind", "", BEHIND)
    if one.ahead:
        what = f"its clock is {length(one.ahead)} ahead of this one"
        yield Trouble(one.name, what, "set both by NTP", CLOCK)


def _together(found: Iterable[Trouble]) -> Iterator[Trouble]:
    """What several sites have in common is one line."""
    kinds: dict[str, dict[str, list[Trouble]]] = {}
    for one in found:
        kinds.setdefault(one.kind, {}).setdefault(one.what, []).append(one)
    for kind, texts in kinds.items():
        if len(texts) <= MOST_LINES:
            for what, lines in texts.items():
                yield lines[0] if len(lines) == 1 else _line(what, lines)
        else:
            yield _line(COMMON[kind], [one for lines in texts.values() for one in lines])


def _line(what: str, lines: Sequence[Trouble]) -> Trouble:
    remedies = {one.remedy for one in lines}
    remedy = remedies.pop() if len(remedies) == 1 else ""
    names = few(one.who for one in lines)
    return Trouble(f"{len(lines)} sites", f"{what}: {names}", remedy, lines[0].kind)


COMMON = {
    FORKED: "signed two posts as one", LEFT_OUT: "are left out", SILENT: "are silent",
    BEHIND: "are behind", CLOCK: "have clocks that are ahead of this one", ABSENT: "are not in",
    REFUSED: "said no",
}  # fmt: skip
