"""What a ledger says to the one who signs for it: released when, at what cost, and what is left.

Nothing here contains a reading, a noised value or noise: numbers, times, costs and hashes only.
"""

from __future__ import annotations

import csv
import io
import json
import math
from datetime import UTC, datetime
from typing import Any, NamedTuple

from veilsum._numbers import upward
from veilsum.agents.ledger.budget import totals
from veilsum.agents.ledger.contents import LedgerContents
from veilsum.agents.ledger.meters import Charge
from veilsum.agents.ledger.periods import FIXED, NAMED, Period
from veilsum.agents.ledger.records import (
    BUDGET_CHANGE,
    EVENT,
    REFUND,
    STREAM,
    WINDOW,
    CostSum,
    LedgerChange,
    LedgerIdentity,
)
from veilsum.agents.ledger.session_report import SentValue, query_words, readings_in, sent_values
from veilsum.agents.ledger.verification import Verification

COLUMNS = (
    "number", "time", "round", "readings", "last_reading", "epsilon", "delta", "hash",
)  # fmt: skip
LISTED = {"day": 31, "week": 13, "month": 24, "year": 10}  # how many periods a report lists


class PeriodTotal(NamedTuple):
    """What was released in one day, week, month or year of the calendar.

    Attributes
    ----------
    start : float
        Its first moment, in seconds since 1970.
    releases, readings : int
        How many releases, and readings in them.
    epsilon, delta : float
        What they cost all of these readings together.
    """

    start: float
    releases: int
    readings: int
    epsilon: float
    delta: float


def moment(time: float, zone: str = "UTC") -> str:
    """A time as text: ISO 8601 with its offset."""
    from zoneinfo import ZoneInfo

    where = UTC if zone in ("", "UTC") else ZoneInfo(zone)
    return datetime.fromtimestamp(time, where).isoformat(" ", "seconds")


def export_rows(contents: LedgerContents) -> list[dict[str, Any]]:
    """One row for each release, without its value.

    Parameters
    ----------
    contents : LedgerContents
        What `read_ledger` returns.

    Returns
    -------
    list of dict
        By the names in `COLUMNS`; of a masked sum also those of `SentValue`.
    """
    sent = sent_values(contents)
    return [
        {
            "number": entry.reading,
            "time": datetime.fromtimestamp(entry.time, UTC).isoformat(timespec="milliseconds"),
            "round": entry.round,
            "readings": entry.readings,
            "last_reading": entry.last,
            "epsilon": "inf" if math.isinf(entry.epsilon) else entry.epsilon,
            "delta": entry.delta,
            "hash": entry.hash,
            **(sent[entry.seq]._asdict() if entry.seq in sent else {}),
        }
        for entry in contents.entries
    ]


def export(contents: LedgerContents, kind: str) -> str:
    """All releases as CSV or JSON.

    Parameters
    ----------
    contents : LedgerContents
        What `read_ledger` returns.
    kind : str
        "csv" or "json".

    Returns
    -------
    str
        The text of a file.
    """
    rows = export_rows(contents)
    if kind == "json":
        identity = contents.identity
        head = {
            "agent": identity.agent,
            "network": contents.name,
            "manifest": contents.manifest,
            "budget": identity.words,
            "changes": [change._asdict() for change in contents.changes],
        }
        return json.dumps({**head, "releases": rows}, indent=1) + "\n"
    out = io.StringIO()
    columns = (*COLUMNS, *SentValue._fields) if contents.queries else COLUMNS
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def period_totals(contents: LedgerContents, name: str) -> list[PeriodTotal]:
    """What each day, week, month or year cost, in the zone of the budget, the latest last.

    Parameters
    ----------
    contents : LedgerContents
        What `read_ledger` returns.
    name : str
        "day", "week", "month" or "year".

    Returns
    -------
    list of PeriodTotal
        Of those in which something was released.
    """
    zone = contents.identity.zone or "UTC"
    found: list[tuple[float, int, int, CostSum]] = []
    end = -math.inf
    for entry in contents.charged:
        cost = Charge.of(entry).group
        if entry.time >= end:
            start, end = _bounds(name, zone, entry.time)
            found.append((start, 0, 0, CostSum()))
        start, releases, readings, total = found[-1]
        found[-1] = start, releases + 1, readings + entry.readings, total.plus(cost)
    return [PeriodTotal(*row[:3], *row[3].rounded) for row in found]


def _bounds(name: str, zone: str, moment: float) -> tuple[float, float]:
    """First moment of the day, week, month or year that contains a moment, and of the next one."""
    if name != "year":
        return Period(name, FIXED, zone).bounds(moment)
    from zoneinfo import ZoneInfo

    where = UTC if zone == "UTC" else ZoneInfo(zone)
    year = datetime.fromtimestamp(moment, where).year
    first, following = (datetime(k, 1, 1, tzinfo=where).timestamp() for k in (year, year + 1))
    return first, following


def amount_words(epsilon: float, delta: float) -> str:
    """A cost or a limit, never rounded down."""
    size = "no limit" if math.isinf(epsilon) else f"epsilon = {upward(epsilon, 6)}"
    return size + (f" and delta = {upward(delta, 3)}" if delta else "")


def change_words(change: LedgerChange) -> str:
    """What a change in the chain changed, in words.

    Parameters
    ----------
    change : LedgerChange
        As a ledger stores it.

    Returns
    -------
    str
        The budgets before and after, the charge that was taken back, or what was restored.
    """
    if change.kind == BUDGET_CHANGE:
        before, now = (
            LedgerIdentity("", "", *json.loads(text)).words for text in (change.before, change.now)
        )
        return f"{before} -> {now}"
    if change.kind == REFUND:
        gone = json.loads(change.before)
        cost = amount_words(gone["epsilon"], gone["delta"])
        return f"{cost} of query {gone['query']}, attempt {gone['attempt']}"
    return f"{change.before} -> {change.now}"


def guarantee_words(contents: LedgerContents) -> list[str]:
    """What the releases in a ledger guarantee, in words.

    Parameters
    ----------
    contents : LedgerContents
        What `read_ledger` returns.

    Returns
    -------
    list of str
        Sentences.
    """
    identity = contents.identity
    if identity.budget is None:
        return ["Nothing is guaranteed: releases carry no noise."]
    if not contents.entries:
        return ["Nothing was released."]
    spent = totals(identity, contents.charged)
    how = "contributed to one query" if contents.queries else "released once"
    said = [
        f"Each reading was {how}, at a cost of at most "
        f"{amount_words(spent.event.epsilon, spent.event.delta)}.",
        f"All readings together have cost {amount_words(*contents.status.spent_in_all)}.",
    ]
    limit, period = amount_words(identity.epsilon, identity.delta), identity.period
    changed = any(change.kind == BUDGET_CHANGE for change in contents.changes)
    if changed and (period is not None or identity.unit != STREAM):  # a stream counts all releases
        said.append(
            "The budget was changed: what was released before kept to the budget of its time, and what "
            "follows is said of releases since the last change."
        )
    if period is not None:
        which = (
            f"within any {period.seconds:,.0f} s ({period.name})"
            if period.refill != FIXED
            else f"within one {period.name} of the calendar ({period.zone})"
            if period.name in NAMED
            else f"within one period of {period.seconds:,.0f} s"
        )
        said.append(f"All readings released {which} cost at most {limit} together.")
        if period.refill == FIXED:
            said.append(
                "A period that crosses a boundary of the calendar may see up to twice that."
            )
        said.append("A reading belongs to the time of its release.")
    elif identity.unit == WINDOW and spent.window is not None:
        most = amount_words(spent.window.epsilon, spent.window.delta)
        said.append(
            f"Any {identity.window} consecutive readings cost at most {limit} together; "
            f"the most so far is {most}."
        )
    elif identity.unit == STREAM:
        in_all = contents.status.spent_in_all  # above the budget, if that was lowered since
        most = amount_words(max(identity.epsilon, in_all[0]), max(identity.delta, in_all[1]))
        said.append(f"They can never cost more than {most}.")
    elif identity.unit == EVENT:
        which = "No reading released since" if changed else "No reading"
        said.append(f"{which} can ever cost more than {limit}; their number is not limited.")
    if contents.queries:
        said.append(
            "This holds against as many colluding members as the manifest states, and against nobody "
            "who can break the encryption of the masks."
        )
    return said


def report(contents: LedgerContents, found: Verification) -> str:
    """The report for the one who signs.

    Parameters
    ----------
    contents : LedgerContents
        What `read_ledger` returns.
    found : Verification
        What `verify` returns for the same ledger.

    Returns
    -------
    str
        Text of several paragraphs.
    """
    identity, status, zone = contents.identity, contents.status, contents.identity.zone
    readings = readings_in(contents.entries)
    lines = [
        f"Ledger of agent {identity.agent}, network {contents.name}, epoch {contents.epoch}",
        f"manifest {contents.manifest}",
        f"as of {moment(contents.now, zone)}; last hash {found.head}",
        "",
        *_verdict(found),
        "",
        f"Budget: {identity.words}",
        f"Spent on {status.spent_on}: {amount_words(*status.spent)}",
        f"Spent in all: {amount_words(*status.spent_in_all)}",
        f"Left for the next reading: {amount_words(*status.remaining)}",
    ]
    if contents.queries:
        lines.append(f"Reserved by the open query: {amount_words(*status.reserved)}")
    if status.refills_at is not None:
        lines.append(f"Refilled from {moment(status.refills_at, zone)}")
    lines += ["", "Guarantee"]
    lines += [f"  {sentence}" for sentence in guarantee_words(contents)]
    lines += ["", f"Released: {len(contents.entries):,} releases of {readings:,} readings"]
    if contents.entries:
        ends = contents.entries[0].time, contents.entries[-1].time
        lines.append(f"  from {moment(ends[0], zone)} to {moment(ends[1], zone)}")
        for name in LISTED:
            lines += _table(name, period_totals(contents, name), zone)
    lines += ["", *query_words(contents)] if contents.queries else []
    if contents.changes:
        lines += ["", "Changes"]
    for change in contents.changes:
        why = f" ({change.reason})" if change.reason else ""
        lines.append(
            f"  {moment(change.time, zone)}  {change.kind} by {change.by}{why}, after "
            f"{change.after:,} releases: {change_words(change)}"
        )
    return "\n".join([*lines, "", "Signed: ______________________  Date: ____________", ""])


def _verdict(found: Verification) -> list[str]:
    if found.ok:
        return ["Verified: intact", *(f"  not detected: {what}" for what in found.limitations)]
    return ["NOT INTACT, do not sign", *(f"  {problem}" for problem in found.problems)]


def _table(name: str, rows: list[PeriodTotal], zone: str) -> list[str]:
    shown = rows[-LISTED[name] :]
    left = f", the last {len(shown)} of {len(rows)}" if len(shown) < len(rows) else ""
    lines = [
        "",
        f"Per {name}{left}",
        f"  {'from':<12}{'releases':>10}{'readings':>10}{'epsilon':>12}",
    ]
    for row in shown:
        day, epsilon = moment(row.start, zone)[:10], upward(row.epsilon, 6)
        lines.append(f"  {day:<12}{row.releases:>10,}{row.readings:>10,}{epsilon:>12}")
    return lines
