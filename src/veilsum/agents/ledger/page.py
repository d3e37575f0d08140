"""What a ledger says to the one who signs, as a printable page: what was really spent.

Numbers, times, costs and hashes only: no reading, no noised value and no noise.
"""

from __future__ import annotations

import math

from veilsum import __version__
from veilsum._numbers import upward
from veilsum.agents.ledger.budget import totals
from veilsum.agents.ledger.contents import LedgerContents
from veilsum.agents.ledger.limits import budget_limits
from veilsum.agents.ledger.report import (
    LISTED,
    amount_words,
    change_words,
    guarantee_words,
    moment,
    period_totals,
)
from veilsum.agents.ledger.session_report import query_words, readings_in
from veilsum.agents.ledger.verification import Verification
from veilsum.front.odds import in_words
from veilsum.front.page import page


def ledger_page(contents: LedgerContents, found: Verification) -> str:
    """The page of one agent's ledger.

    Parameters
    ----------
    contents : LedgerContents
        What `read_ledger` returns.
    found : Verification
        What `verify` returns for the same ledger.

    Returns
    -------
    str
        HTML that fetches nothing and runs nothing.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from veilsum import agents
    >>> from veilsum.agents.ledger import Ledger, read_ledger, verify
    >>> from veilsum.privacy import Budget
    >>> from veilsum.scenario import Scenario, template
    >>> manifest = agents.Manifest.of(Scenario.parse(template()).build("average").problem, "ring")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "0.ledger"
    ...     Ledger.open(path, manifest, "0", Budget(1.0)).close()
    ...     page = agents.ledger_page(read_ledger(path), verify(path))
    >>> "Nothing was released." in page
    True
    """
    zone = contents.identity.zone
    return page(
        "ledger.html",
        f"Ledger of agent {contents.identity.agent}: what was released",
        contents=contents,
        found=found,
        spent=_spent(contents),
        guarantee=guarantee_words(contents),
        limits=_limits(contents) if contents.entries else [],
        periods=[_period(contents, name) for name in LISTED] if contents.entries else [],
        queries=query_words(contents) if contents.queries else [],
        changes=[
            (moment(change.time, zone), change.kind, change.by, change.reason, change_words(change))
            for change in contents.changes
        ],
        now=moment(contents.now, zone),
        version=__version__,
    )


def _spent(contents: LedgerContents) -> list[tuple[str, str]]:
    identity, status, zone = contents.identity, contents.status, contents.identity.zone
    rows: list[tuple[str, str]] = []
    if contents.entries:
        spent = totals(identity, contents.charged)
        one, everything = spent.event, spent.stream
        ends = (moment(contents.entries[k].time, zone) for k in (0, -1))
        rows += [
            (
                "Released",
                f"{len(contents.entries):,} releases of {readings_in(contents.entries):,} readings",
            ),
            ("From and to", " to ".join(ends)),
            ("One reading", _cost(one.epsilon, one.delta)),
            ("All readings together", _cost(everything.epsilon, everything.delta)),
        ]
    if any(status.reserved):
        rows.append(("Reserved by the open query", amount_words(*status.reserved)))
    rows.append(("Left for the next reading", amount_words(*status.remaining)))
    if status.refills_at is not None:
        rows.append(("Refilled from", moment(status.refills_at, zone)))
    return rows


def _period(contents: LedgerContents, name: str) -> tuple[str, list[tuple[str, ...]]]:
    """The latest days, weeks, months or years, with a caption."""
    rows = period_totals(contents, name)
    shown = rows[-LISTED[name] :]
    left = f", the last {len(shown)} of {len(rows)}" if len(shown) < len(rows) else ""
    cells: list[tuple[str, ...]] = [
        (
            moment(row.start, contents.identity.zone)[:10],
            f"{row.releases:,}",
            f"{row.readings:,}",
            upward(row.epsilon, 6),
            in_words(row.epsilon, row.delta),
        )
        for row in shown
    ]
    return f"Per {name}{left}", cells


def _limits(contents: LedgerContents) -> list[dict[str, str]]:
    """What the dearest day, month and year have cost, the latest, and the most that the budget allows."""
    limits = budget_limits(contents.identity)
    rows = []
    for name in ("day", "month", "year"):
        found = period_totals(contents, name)
        epsilon, delta = limits[f"a {name}"]
        row = {
            "span": name,
            "allowed": "no limit"
            if contents.identity.budget is None
            else amount_words(epsilon, delta),
            "words": in_words(epsilon, delta)
            if math.isfinite(epsilon)
            else "not limited in number",
        }
        for key, one in (("most", max(found, key=lambda row: row.epsilon)), ("last", found[-1])):
            row[key] = amount_words(one.epsilon, one.delta)
            row[f"{key}_from"] = moment(one.start, contents.identity.zone)[:10]
        rows.append(row)
    return rows


def _cost(epsilon: float, delta: float) -> str:
    return f"{amount_words(epsilon, delta)}: whatever is seen is {in_words(epsilon, delta)}"
