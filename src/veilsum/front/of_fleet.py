"""The status of a fleet in a terminal: answers first, then who needs a person; five sites or five hundred.

north, epoch 3, as basel                                        47 of 50 sites
mean of load, every 1 h, pool, epsilon 0.01
  13:00 to 14:00  50.8 ± 1.9      all slots  49.6 ± 0.4
chur  silent for 1 h 20 min     veilsum fleet remove chur, if it is gone for good
sion  1 slot behind
47 sites are in, none later than 20 s
budget 0.42 of 1 per year spent, enough until 14 March
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from veilsum.fleet.attention import few, length
from veilsum.fleet.periods import zone_of
from veilsum.front.screen import GAP, Lines, components, wrapped
from veilsum.front.sheet import Answer
from veilsum.front.words import small, with_bar

if TYPE_CHECKING:
    from veilsum.fleet.check import FleetCheck
    from veilsum.fleet.status import FleetStatus, FoundNumber, QuestionStatus, Trouble

MOST_QUESTIONS = 6
MOST_COMPONENTS = 6
MOST_NUMBERS = 3  # of a question with several answers
NARROW_NAME = 18  # a longer name has a line of its own
SHOWN = 16  # digits of a digest or a key


def status_lines(status: FleetStatus, width: int) -> Lines:
    """The screen."""
    out = _head(status, width)
    for question in status.questions[:MOST_QUESTIONS]:
        out += _question(question, status.at, width)
    if more := status.questions[MOST_QUESTIONS:]:
        waiting = sum(bool(one.stage) for one in more)
        said = f"... and {len(more)} more questions, {waiting} of which wait; --json has all"
        out += wrapped(said, width)
    if not status.questions:
        out += wrapped("No question has been asked.", width)
    out += troubles(status.attention, width)
    for line in (*_others(status), *_budgets(status), *_last(status)):
        out += wrapped(line, width)
    return out


def _head(status: FleetStatus, width: int) -> Lines:
    own = f", as {status.member}" if status.member else ""
    epoch = f", epoch {status.epoch}" if status.epoch else ""
    sites = len(status.sites)
    return [*beside(f"{status.fleet}{epoch}{own}", f"{sites:,} sites" if sites else "", width)]


def beside(left: str, right: str, width: int) -> Lines:
    """Two texts at both ends of a line, or below each other."""
    if not right:
        return wrapped(left, width)
    room = width - len(left) - len(right)
    if room >= GAP:
        return [f"{left}{' ' * room}{right}"]
    return [*wrapped(left, width), *wrapped(f"  {right}", width, "    ")]


def _question(one: QuestionStatus, now: int, width: int) -> Lines:
    every = f", every {one.every}" if one.every else ""
    name = f"{one.label}: {one.title}" if one.label else one.title
    said = f"{name}{every}, {one.protocol}, epsilon {one.epsilon:g}"
    out = ["", *beside(said, one.covers if one.found else "", width)]
    parts = list(_parts(one, now))
    line = "      ".join(parts)
    if line and len(line) + GAP <= width:
        out.append(f"  {line}")
    else:
        out += [row for part in parts for row in wrapped(f"  {part}", width, "    ")]
    for found in one.found:
        if len(found.values) > 1 and not found.detail:
            out += _components(found, width)
    stage = one.problem or one.stage
    if one.found and one.every:
        stage = one.problem  # who is missing of a stream has a line below
    return [*out, *(wrapped(f"  {stage}", width, "    ") if stage else [])]


def _components(found: FoundNumber, width: int) -> Lines:
    shown = components(_as_answer(found), width, MOST_COMPONENTS)
    more = len(found.values) - MOST_COMPONENTS
    if more <= 0:
        return shown
    end = next(k for k, line in enumerate(shown) if line.startswith("  ..."))
    return [*shown[:end], *wrapped(f"  ... and {more:,} more components; --json has all", width)]


def _parts(one: QuestionStatus, now: int) -> Iterator[str]:
    """Single numbers: of a stream the newest slot and all of them."""
    if one.latest is not None:
        start, end = (moment(at, now, one.zone) for at in (one.latest.start, one.latest.end))
        few_sites = f" of {one.latest.sites} sites" if one.latest.sites < one.inside else ""
        yield from (
            f"{start} to {end} {one.zone}  {text}{few_sites}" for text in _texts(one.latest.found)
        )
        yield from (f"all slots  {text}" for text in _texts(one.found))
    else:
        yield from _texts(one.found)


def _texts(found: Sequence[FoundNumber]) -> list[str]:
    single = [one for one in found if len(one.values) == 1 and not one.detail][:MOST_NUMBERS]
    name = len(single) > 1
    return [f"{one.quantity} {_number(one)}" if name else _number(one) for one in single]


def _number(one: FoundNumber) -> str:
    """With its interval; words where nothing can be said."""
    if one.values[0] is None:
        return "too few to say"
    return with_bar(one.values[0], one.low[0], one.high[0], one.unit)


def _as_answer(one: FoundNumber) -> Answer:
    value, low, high = (
        np.array([np.nan if x is None else x for x in row])
        for row in (one.values, one.low, one.high)
    )
    return Answer(
        "", one.quantity, value, low, high, unit=one.unit, labels=one.labels, ordered=True
    )


def troubles(found: Sequence[Trouble], width: int) -> Lines:
    """Who, what, and what to do: beside each other where it fits, and never cut."""
    if not found:
        return []
    names = max((len(one.who) for one in found if len(one.who) <= NARROW_NAME), default=0)
    texts = [f"{one.who:<{names}}  {one.what}" for one in found]
    remedies = [len(one.remedy) for one in found if one.remedy]
    fits = [len(text) for text in texts if len(text) + 4 + max(remedies, default=0) <= width]
    column = max(fits, default=0) + 4
    out: Lines = [""]
    for one, text in zip(found, texts, strict=True):
        if one.remedy and len(text) < column and column + len(one.remedy) <= width:
            out.append(f"{text:<{column}}{one.remedy}")
            continue
        indent = " " * (names + GAP) if names < width // 3 else "    "
        out += [text] if len(text) <= width else wrapped(text, width, indent)
        if one.remedy:
            out += wrapped(f"{indent}{one.remedy}", width, f"{indent}  ")
    return [*out, ""]


def _others(status: FleetStatus) -> Iterator[str]:
    ages = [one.age for one in status.sites if one.age is not None and not (one.silent or one.own)]
    if ages:
        which = "1 other site writes" if len(ages) == 1 else f"{len(ages):,} other sites write"
        yield f"{which}, none silent for more than {length(max(ages))}."
    elif status.sites and not status.attention:
        yield "No other site has been heard."


def _budgets(status: FleetStatus) -> Iterator[str]:
    for one in status.budgets:
        spent = one.spent or one.dearest
        until = ""
        if one.until is not None:
            until = f", enough until {day(one.until, status.at)}"
        which = f" of {one.source}" if len(status.budgets) > 1 else ""
        yield f"Budget{which}: epsilon {small(spent)} of {one.limit:g} per {one.per} is spent{until}."


def _last(status: FleetStatus) -> Iterator[str]:
    most = max(status.sites, key=lambda one: one.epsilon, default=None)
    if most is not None and most.epsilon:
        yield f"Most was spent by {most.name}: epsilon {small(most.epsilon)}, as it posted."
    if status.open_keys:
        count = len(status.open_keys)
        key = f"{count} keys" if count > 1 else "The key"
        yield f"{key} of this keeper for open queries: never copied, in no backup."
    where = few((store.address for store in status.stores), 3)
    yield f"Board {status.digest[:SHOWN]} at {where}; authority {status.authority[:SHOWN]}."


def moment(at: int, now: int, zone: str = "UTC") -> str:
    """An hour, with its day unless that is today: "13:00", "2 Mar 13:00"."""
    local, today = (datetime.fromtimestamp(t, zone_of(zone)) for t in (at, now))
    clock = local.strftime("%H:%M")
    if local.date() == today.date():
        return clock
    year = "" if local.year == today.year else f" {local.year}"
    return f"{local.day} {local.strftime('%b')}{year} {clock}"


def day(at: int, now: int) -> str:
    """A day, with its year unless that is this one."""
    local = datetime.fromtimestamp(at, UTC)
    year = "" if local.year == datetime.fromtimestamp(now, UTC).year else f" {local.year}"
    return f"{local.day} {local.strftime('%B')}{year}"


def check_lines(found: Sequence[FleetCheck], width: int) -> Lines:
    """The checks of a site, each with what was found, and what to do."""
    out: Lines = []
    for one in found:
        out += wrapped(f"{'ok' if one.ok else 'wrong':<8}{one.what}: {one.found}", width, " " * 10)
        if one.remedy:
            out += wrapped(f"{'':8}{one.remedy}", width, " " * 10)
    bad = sum(not one.ok for one in found)
    said = "all is well" if not bad else f"{bad} of {len(found)} need a person"
    return [*out, f"{len(found)} checks: {said}."]
