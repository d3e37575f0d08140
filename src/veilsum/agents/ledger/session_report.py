"""What a ledger says of a masked sum: its queries, what was sent, withdrawn and refunded; no value."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from veilsum.agents.ledger.contents import LedgerContents
from veilsum.agents.ledger.records import REINSTATED, LedgerEntry, refunded
from veilsum.agents.ledger.session_rows import from_bitmap


class SentValue(NamedTuple):
    """A masked value that was sent, without the value.

    Attributes
    ----------
    query, attempt : int
        Which query of its run, and which attempt, from 1.
    members : int
        How many members its roster has.
    refunded : bool
        Whether its charge was taken back.
    """

    query: int
    attempt: int
    members: int
    refunded: bool


def sent_values(contents: LedgerContents) -> dict[int, SentValue]:
    """Every masked value that was sent, by the number of its release.

    Parameters
    ----------
    contents : LedgerContents
        What `read_ledger` returns.

    Returns
    -------
    dict
        By `LedgerEntry.seq`.
    """
    queries = {row.number: row.query for row in contents.queries}
    rosters = {
        (row.query, row.attempt + 1): len(from_bitmap(row.members))
        for row in contents.sessions
        if row.stage == "sent"
    }
    gone = refunded(contents.changes)
    return {
        entry.seq: SentValue(
            queries[entry.reading],
            entry.attempt,
            rosters.get((entry.reading, entry.attempt), 0),
            entry.seq in gone,
        )
        for entry in contents.entries
        if entry.attempt
    }


def readings_in(entries: tuple[LedgerEntry, ...]) -> int:
    """How many readings were released; those of a query once, whatever its attempts."""
    return sum({(e.reading, bool(e.attempt)): e.readings for e in entries}.values())


def query_words(contents: LedgerContents) -> list[str]:
    """The queries and sessions of a masked sum, in sentences; none where there are none.

    Parameters
    ----------
    contents : LedgerContents
        What `read_ledger` returns.

    Returns
    -------
    list of str
        Lines.
    """
    queries = contents.queries
    if not queries:
        return []
    ends = Counter(row.reason or "open" for row in queries)
    stages = Counter(row.stage for row in contents.sessions)
    taken_back = len(refunded(contents.changes))
    false = sum(change.kind == REINSTATED for change in contents.changes)
    counts = ", ".join(f"{count:,} {reason}" for reason, count in sorted(ends.items()))
    return [
        f"Queries of a masked sum: {len(queries):,} ({counts})",
        f"  {len(contents.sessions):,} sessions: {stages['sent']:,} sent, "
        f"{stages['withdrawn']:,} withdrawn, {taken_back:,} refunded"
        + (f", {false:,} refunded and taken again" if false else ""),
    ]
