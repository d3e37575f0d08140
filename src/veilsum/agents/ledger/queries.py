"""The queries of a masked sum in a ledger: admitted by the budget, open one at a time, concluded.

What becomes of the readings of a query: while it is open they are its own, and are taken again after
a crash. Concluded with a value sent, they are released. Concluded without one they have cost nothing
and are in no estimate: they are passed over. If the terms change first, they are free again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from veilsum.agents.ledger.origins import KnownReadings
from veilsum.agents.ledger.records import LedgerChange, LedgerEntry
from veilsum.agents.ledger.session_rows import QueryRow, reservation, sum_text
from veilsum.agents.ledger.store import Store
from veilsum.agents.ledger.writer import LedgerWriter
from veilsum.agents.masked.entries import StoredSum
from veilsum.errors import LedgerError

SUPERSEDED = "superseded"  # the reason of a query that other terms left open
SAME = ("attempts", "readings", "last", "epsilon", "delta", "origins")  # of a query begun again


class OpenQuery(NamedTuple):
    """A query that is not concluded: the runtime takes the same readings again.

    Attributes
    ----------
    query : int
        Its number under these terms.
    readings, last : int
        How many readings are in it, and the number of the last.
    origins : tuple of str
        Hashes of their origins, in order of their numbers up to `last`.
    attempts : int
        How many sessions it may send in.
    """

    query: int
    readings: int
    last: int
    origins: tuple[str, ...]
    attempts: int


def run_name(manifest: bytes, nonce: bytes) -> str:
    """What the queries under one manifest and nonce are stored under."""
    return hashlib.sha256(b"run" + manifest + nonce).hexdigest()


class QueryLog:
    """The queries of one run.

    Parameters
    ----------
    writer : LedgerWriter
        The open file.
    readings : KnownReadings
        Its readings.
    run : str
        As of `run_name`.
    """

    def __init__(self, writer: LedgerWriter, readings: KnownReadings, run: str) -> None:
        """Find the open query, of whichever run."""
        self._writer, self._readings, self.run = writer, readings, run
        with writer.reading() as store:
            rows = store.queries()
        ended = (row.query for row in rows if row.run == run and row.reason)
        self.last = max(ended, default=0)
        self.continued = any(row.run != run for row in rows)
        self._open = rows[-1] if writer.open_query else None

    @property
    def open(self) -> QueryRow | None:
        """The open query; None also if another run has begun since."""
        row = self._open
        return row if row is not None and row.number == self._writer.open_query else None

    def is_open(self, query: int) -> bool:
        """Whether it is the open query."""
        return self.open is not None and (self.open.run, self.open.query) == (self.run, query)

    def find(self, query: int) -> QueryRow:
        """The row of a query of this run."""
        if self.open is not None and self.is_open(query):
            return self.open
        with self._writer.reading() as store:
            found = store.find_query(self.run, query)
        if found is None:
            raise LedgerError(f"ledger {self._writer.path} has no query {query}; begin it first")
        return found

    def sums(self) -> tuple[StoredSum, ...]:
        """The sums of the concluded queries, in order."""
        with self._writer.reading() as store:
            found = [row.result for row in store.queries() if row.run == self.run]
        return tuple(sorted(one for one in found if one is not None))

    def begin(self, asked: QueryRow) -> None:
        """R5: admit it if all of its attempts fit the budget, and reserve that."""
        writer = self._writer
        if self.open is not None and self.is_open(asked.query):
            self._check_same(asked, self.open)
            return
        writer.check_confirmed("these readings")
        self._check_new(asked)
        writer.budget.admit(asked.charge(asked.attempts))
        self._open = self._add("begin_query", asked)
        writer.open_query = self._open.number
        self.reserve(0)

    def _check_same(self, asked: QueryRow, row: QueryRow) -> None:
        """It is asked for again: after a crash, with the same readings."""
        for name in SAME:
            if getattr(asked, name) != getattr(row, name):
                raise LedgerError(
                    f"query {asked.query} is open in ledger {self._writer.path} with other {name}; "
                    "nothing was drawn; give it the readings that it began with"
                )

    def _check_new(self, asked: QueryRow) -> None:
        writer, charge = self._writer, asked.charge(asked.attempts)
        if writer.open_query:
            raise LedgerError(f"a query is open in ledger {writer.path}; conclude it first")
        if asked.query <= self.last:
            raise LedgerError(
                f"query {asked.query} comes after query {self.last}, which is concluded; a query is "
                "asked once; nothing was drawn"
            )
        if writer.count and not int(writer.meta["queries"]):
            raise LedgerError(
                f"ledger {writer.path} has releases with local noise, and a masked sum has its own; "
                "nothing was drawn; use a new ledger with new readings"
            )
        with writer.reading() as store:
            known = sum(store.has_origin(name) for name in asked.names if name)
            overlapping = len(store.between(charge.first, charge.last))
        if known or overlapping:
            raise LedgerError(
                f"ledger {writer.path}: {known or overlapping} of the readings of query "
                f"{asked.query} were released or passed over, and are not released again; nothing "
                "was drawn; leave them out"
            )

    def reserve(self, sent: int) -> None:
        """Set apart what the open query may still cost after so many masked values."""
        if self.open is not None:
            kept = reservation([self.open], {self.open.number: sent})
            self._writer.budget.reserve(kept)

    def end(
        self,
        call: str,
        reason: str,
        summed: StoredSum | None,
        released: bool,
        more: Callable[[Store], None],
    ) -> None:
        """Conclude the open query; `more` is written with it."""
        row, writer = self._open, self._writer
        assert row is not None
        ended = row._replace(reason=reason, summed=sum_text(summed)).after(row.previous)

        def write(store: Store) -> None:
            more(store)
            store.save_query(ended)
            if not released and reason != SUPERSEDED:
                named = [name for name in dict.fromkeys(row.names) if name]
                self._readings.write_passed(row.last, named)
            writer.put(queries_head=ended.hash)

        self.write(call, write)
        if released:
            writer.last_number = max(writer.last_number, row.last)
        if row.run == self.run:
            self.last = max(self.last, row.query)
        self._open, writer.open_query = None, 0
        writer.budget.reserve(None)

    def end_unasked(self, query: int, reason: str, summed: StoredSum | None) -> None:
        """Conclude a query that this agent contributes nothing to."""
        if self._writer.open_query or query <= self.last:
            raise LedgerError(
                f"query {query} cannot be concluded in ledger {self._writer.path}: another one is "
                "open, or a later one is concluded"
            )
        place = 0, 0, 0, self._writer.clock.now(), 0.0, 0.0
        row = QueryRow(0, self.run, query, *place, "", reason, sum_text(summed))
        self._add("conclude_query", row)
        self.last = query

    def end_again(self, query: int, reason: str, summed: StoredSum | None) -> None:
        """A sum came after all, or that of an earlier attempt; later rows are chained anew."""
        row, writer = self.find(query), self._writer
        if (row.reason, row.result) == (reason, summed):
            return
        better = summed is not None and (row.result is None or summed.attempt < row.result.attempt)
        if not better:
            raise LedgerError(f"query {query} was concluded otherwise ({row.reason})")
        chained: list[QueryRow] = []

        def write(store: Store) -> None:
            head = row.previous
            for one in store.queries()[row.number - 1 :]:
                if one.number == row.number:
                    one = one._replace(reason=reason, summed=sum_text(summed))
                chained.append(one.after(head))
                store.save_query(chained[-1])
                head = chained[-1].hash
            writer.put(queries_head=head)

        self.write("conclude_query", write)
        if self._open is not None:
            self._open = next(one for one in chained if one.number == writer.open_query)

    def _add(self, call: str, row: QueryRow) -> QueryRow:
        """Chain a new row."""
        writer = self._writer
        number = int(writer.meta["queries"]) + 1
        added = row._replace(number=number).after(writer.meta["queries_head"])

        def write(store: Store) -> None:
            store.save_query(added)
            writer.put(queries=number, queries_head=added.hash)

        self.write(call, write)
        return added

    def write(
        self,
        call: str,
        work: Callable[[Store], None],
        chained: Sequence[LedgerEntry | LedgerChange] = (),
    ) -> None:
        """One transaction, with a probe before, in and after it; `work` may fill `chained`."""
        writer = self._writer
        writer.probe(f"{call} checked")
        with writer.transaction(f"write a step of a session ({call})") as store:
            work(store)
            writer.put(steps=int(writer.meta["steps"]) + 1)
            writer.probe(f"{call} written")
        for entry in chained:
            writer.linked(entry)
        if not chained:
            writer.record()
        writer.probe(f"{call} committed")
