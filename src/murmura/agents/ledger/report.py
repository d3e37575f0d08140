"""What a ledger says to the one who signs for it: released when, at what cost, and what is left.

Nothing here contains a reading, a noised value or noise: numbers, times, costs and hashes only.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from murmura.agents.ledger.budget import totals
from murmura.agents.ledger.meters import Charge
from murmura.agents.ledger.periods import FIXED, NAMED, Period
from murmura.agents.ledger.records import (
    EVENT,
    STREAM,
    WINDOW,
    CostSum,
    LedgerEntry,
    LedgerIdentity,
)
from murmura.agents.ledger.verification import LedgerContents, Verification

COLUMNS = (
    "number", "time", "round", "readings", "last_reading", "epsilon", "delta", "hash",
)  # fmt: skip
LISTED = {"day": 31, "week": 13, "month": 24}  # how many periods a report lists


class PeriodTotal(NamedTuple):
    """What was released in one day, week or month of the calendar.

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


def export_rows(entries: Iterable[LedgerEntry]) -> list[dict[str, Any]]:
    """One row for each release, without its value.

    Parameters
    ----------
    entries : iterable of LedgerEntry
        The releases.

    Returns
    -------
    list of dict
        By the names in `COLUMNS`.
    """
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
        }
        for entry in entries
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
    rows = export_rows(contents.entries)
    if kind == "json":
        identity = contents.identity
        head = {
            "agent": identity.agent,
            "network": contents.name,
            "manifest": contents.manifest,
            "budget": budget_words(identity),
            "changes": [change._asdict() for change in contents.changes],
        }
        return json.dumps({**head, "releases": rows}, indent=1) + "\n"
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def period_totals(contents: LedgerContents, name: str) -> list[PeriodTotal]:
    """What each day, week or month cost, in the zone of the budget, the latest last.

    Parameters
    ----------
    contents : LedgerContents
        What `read_ledger` returns.
    name : str
        "day", "week" or "month".

    Returns
    -------
    list of PeriodTotal
        Of those in which something was released.
    """
    period = Period(name, FIXED, contents.identity.zone or "UTC")
    found: list[tuple[float, int, int, CostSum]] = []
    end = -math.inf
    for entry in contents.entries:
        cost = Charge.of(entry).group
        if entry.time >= end:
            start, end = period.bounds(entry.time)
            found.append((start, 0, 0, CostSum()))
        start, releases, readings, total = found[-1]
        found[-1] = start, releases + 1, readings + entry.readings, total.plus(cost)
    return [PeriodTotal(*row[:3], *row[3].rounded) for row in found]


def budget_words(identity: LedgerIdentity) -> str:
    """The budget in one phrase."""
    if identity.budget is None:
        return "none: nothing is guaranteed"
    return f"{_amount(identity.epsilon, identity.delta)} per {identity.per_what}"


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
    spent = totals(identity, contents.entries)
    said = [
        f"Each reading was released once, at a cost of at most "
        f"{_amount(spent.event.epsilon, spent.event.delta)}.",
        f"All readings together have cost {_amount(spent.stream.epsilon, spent.stream.delta)}.",
    ]
    limit, period = _amount(identity.epsilon, identity.delta), identity.period
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
        most = _amount(spent.window.epsilon, spent.window.delta)
        said.append(
            f"Any {identity.window} consecutive readings cost at most {limit} together; "
            f"the most so far is {most}."
        )
    elif identity.unit == STREAM:
        said.append(f"They can never cost more than {limit}.")
    elif identity.unit == EVENT:
        said.append(f"No reading can ever cost more than {limit}; their number is not limited.")
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
    readings = sum(entry.readings for entry in contents.entries)
    lines = [
        f"Ledger of agent {identity.agent}, network {contents.name}, epoch {contents.epoch}",
        f"manifest {contents.manifest}",
        f"as of {moment(contents.now, zone)}; last hash {found.head}",
        "",
        *_verdict(found),
        "",
        f"Budget: {budget_words(identity)}",
        f"Left for the next reading: {_amount(*status.remaining)}",
    ]
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
    if contents.changes:
        lines += ["", "Changes"]
    for change in contents.changes:
        why = f" ({change.reason})" if change.reason else ""
        lines.append(
            f"  {moment(change.time, zone)}  {change.kind} by {change.by}{why}, after "
            f"{change.after:,} releases: {change.before} -> {change.now}"
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
        day, epsilon = moment(row.start, zone)[:10], f"{row.epsilon:.6g}"
        lines.append(f"  {day:<12}{row.releases:>10,}{row.readings:>10,}{epsilon:>12}")
    return lines


def _amount(epsilon: float, delta: float) -> str:
    return f"epsilon = {epsilon:.6g}" + (f" and delta = {delta:.3g}" if delta else "")
