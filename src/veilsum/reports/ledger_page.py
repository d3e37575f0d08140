"""What a ledger says to the one who signs, as a printable page: what was really spent.

Numbers, times, costs and hashes only: no reading, no noised value and no noise.
"""

from __future__ import annotations

import math

from veilsum import __version__
from veilsum._html import Markup, badge, bullets, document, element, facts, join, section, table
from veilsum.agents.ledger import LedgerContents, Verification
from veilsum.agents.ledger.budget import totals
from veilsum.agents.ledger.report import (
    LISTED,
    PeriodTotal,
    amount_words,
    change_words,
    guarantee_words,
    moment,
    period_totals,
)
from veilsum.agents.ledger.session_report import query_words, readings_in
from veilsum.privacy.odds import in_words, upward
from veilsum.reports.periods import budget_limits
from veilsum.reports.sign_off import signature


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
    >>> import veilsum.agents as agents, tempfile
    >>> from pathlib import Path
    >>> from veilsum.agents.ledger import Ledger, read_ledger, verify
    >>> from veilsum.privacy import Budget
    >>> from veilsum.scenario import Scenario, template
    >>> manifest = agents.Manifest.of(Scenario.parse(template()).build("average").problem, "ring")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "0.ledger"
    ...     Ledger.open(path, manifest, "0", Budget(1.0)).close()
    ...     page = ledger_page(read_ledger(path), verify(path))
    >>> "Nothing was released." in page
    True
    """
    identity, zone = contents.identity, contents.identity.zone
    title = f"Ledger of agent {identity.agent}: what was released"
    body = [
        element("h1", title),
        element("p", f"Network {contents.name}, epoch {contents.epoch}", class_="faint"),
        *_verdict(found),
        section("What was spent", *_spent(contents), name="spent"),
        section("Guarantee", bullets(guarantee_words(contents)), name="guarantee"),
        section("A day, a month, a year", *_periods(contents), name="periods"),
    ]
    if contents.queries:
        lines = query_words(contents)
        body.append(section("Queries of a masked sum", bullets(lines), name="queries"))
    if contents.changes:
        body.append(section("Changes of its terms", _changes(contents), name="changes"))
    rows: list[tuple[object, object]] = [
        ("as of", moment(contents.now, zone)),
        ("manifest", element("span", contents.manifest, class_="hash")),
        ("last hash of the chain", element("span", found.head, class_="hash")),
        ("sealed with a key", "yes" if contents.sealed else "no"),
        ("veilsum", __version__),
    ]
    body += [
        section("Versions and hashes", facts(rows), name="versions"),
        section("Signature", signature(), name="signature"),
    ]
    return document(title, body)


def _verdict(found: Verification) -> list[Markup]:
    if found.ok:
        text = "The ledger is intact as far as this check can see; what it cannot see is listed."
        intact = element("span", "intact", class_="badge good")
        said = [element("p", intact, f" {text}", class_="lead")]
        if found.limitations:
            said += [element("p", "Not detected by this check:"), bullets(found.limitations)]
        return said
    return [element("p", "NOT INTACT: do not sign.", class_="stop"), bullets(found.problems)]


def _spent(contents: LedgerContents) -> list[Markup]:
    identity, status, zone = contents.identity, contents.status, contents.identity.zone
    rows: list[tuple[object, object]] = [("Budget", identity.words)]
    if identity.budget is None:
        rows.append(("Guarantee", badge("none")))
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
    return [facts(rows)]


def _periods(contents: LedgerContents) -> list[Markup]:
    if not contents.entries:
        return [element("p", "Nothing was released.")]
    made = [_limits(contents)]
    for name, most in LISTED.items():
        rows = period_totals(contents, name)
        shown = rows[-most:]
        left = f", the last {len(shown)} of {len(rows)}" if len(shown) < len(rows) else ""
        cells = [
            (
                moment(row.start, contents.identity.zone)[:10],
                f"{row.releases:,}",
                f"{row.readings:,}",
                upward(row.epsilon, 6),
                in_words(row.epsilon, row.delta),
            )
            for row in shown
        ]
        heads = ("from", "releases", "readings", "epsilon", "whatever is seen is")
        made.append(table(heads, cells, f"Per {name}{left}", stacked=True))
    return made


def _limits(contents: LedgerContents) -> Markup:
    """What the dearest day, month and year have cost, the latest, and the most that the budget allows."""
    limits = budget_limits(contents.identity)
    rows = []
    for name in ("day", "month", "year"):
        totals_of = period_totals(contents, name)
        dearest = max(totals_of, key=lambda row: row.epsilon)
        last = totals_of[-1]
        epsilon, delta = limits[f"a {name}"]
        rows.append(
            (
                f"a {name} of the calendar",
                _since(contents, dearest),
                _since(contents, last),
                amount_words(epsilon, delta)
                if contents.identity.budget is not None
                else "no limit",
                in_words(epsilon, delta) if math.isfinite(epsilon) else "not limited in number",
            )
        )
    heads = ("all of", "most spent", "last spent", "the budget allows", "whatever is seen is then")
    return table(heads, rows, "What was spent, and the most that may be", stacked=True)


def _since(contents: LedgerContents, row: PeriodTotal) -> Markup:
    """A total, and where its period begins: a date in one piece."""
    day = moment(row.start, contents.identity.zone)[:10]
    return join(
        [amount_words(row.epsilon, row.delta), element("span", f" (from {day})", class_="piece")]
    )


def _changes(contents: LedgerContents) -> Markup:
    rows = [
        (
            moment(change.time, contents.identity.zone),
            change.kind,
            change.by,
            change.reason,
            change_words(change),
        )
        for change in contents.changes
    ]
    return table(("when", "what", "by", "why", "terms"), rows, stacked=True)


def _cost(epsilon: float, delta: float) -> str:
    return f"{amount_words(epsilon, delta)}: whatever is seen is {in_words(epsilon, delta)}"
