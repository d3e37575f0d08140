"""The sessions of a masked sum in the ledger on disk: what an agent must not forget of them.

    sessions = ledger.sessions(terms)
    sessions.begin_query(1, cost, attempts=2, readings=1, last=1, origins=(origin,))   # reserves
    ...                                     a `Session` calls open, prepare, ready, send, withdraw
    sessions.conclude_query(1, "sum", summed)                          # frees what was not charged

Which step may follow is decided in `veilsum.agents.masked.rules` (R1, R5, R6); R5's budget in
`QueryLog.begin`. Every call is one transaction, on the disk when it returns. A withdrawn value is
overwritten in the database, and the log that had it is emptied.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from veilsum import _validate
from veilsum.agents.ledger.meters import Charge
from veilsum.agents.ledger.origins import KnownReadings
from veilsum.agents.ledger.queries import SUPERSEDED, OpenQuery, QueryLog, run_name
from veilsum.agents.ledger.records import (
    REFUND,
    REINSTATED,
    LedgerChange,
    LedgerEntry,
    names_text,
    refunded,
)
from veilsum.agents.ledger.refunds import evidence_of
from veilsum.agents.ledger.session_rows import QueryRow, SessionRow
from veilsum.agents.ledger.store import Store
from veilsum.agents.ledger.writer import LedgerWriter
from veilsum.agents.masked import rules
from veilsum.agents.masked.entries import Prepared, SessionEntry, Stage, StoredSum
from veilsum.errors import LedgerError
from veilsum.privacy.accounting import PrivacyEvent

if TYPE_CHECKING:
    from veilsum.agents.masked.records import SignedRecord
    from veilsum.agents.masked.terms import MaskedTerms

REMEMBERED = 16  # concluded queries whose sessions stay in memory: their records are still sent
Entries = tuple[SessionEntry, ...]


@dataclass
class _Step:
    """The open query, its sessions after a step, and what the step releases."""

    row: QueryRow
    after: Entries
    release: LedgerEntry | None = None


class DiskSessionLedger:
    """The queries of one run and their sessions; `Ledger.sessions` makes it.

    Parameters
    ----------
    writer : LedgerWriter
        The open file.
    readings : KnownReadings
        Its readings.
    terms : MaskedTerms
        What all members agree on: it names the run.
    """

    def __init__(self, writer: LedgerWriter, readings: KnownReadings, terms: MaskedTerms) -> None:
        """Load the open query; one of another run is concluded."""
        if terms.manifest.hex() != writer.meta["manifest"] or writer.agent not in terms.numbers:
            raise LedgerError(
                f"ledger {writer.path} is of agent {writer.agent} under manifest "
                f"{writer.meta['manifest'][:12]}, and the terms of the masked sum are of "
                f"{terms.manifest.hex()[:12]} or lack the agent; use the terms of its manifest"
            )
        self.terms, self._writer = terms, writer
        run = run_name(terms.manifest, terms.nonce)
        self._queries = QueryLog(writer, readings, run)
        self._ended: dict[int, Entries] = {}
        self._log_has_value = not writer.store.log_emptied  # a reader was there at the start
        with writer.reading() as store:
            self._entries = self._load(store, self._queries.open)
        if self._queries.open is not None and self._queries.open.run != run:
            self._conclude("supersede", SUPERSEDED, None)

    @property
    def last_query(self) -> int:
        """Number of the last concluded query of this run; 0 if there is none."""
        return self._queries.last

    @property
    def continued(self) -> bool:
        """Whether the ledger has queries of an earlier run: numbers of this one begin anew."""
        return self._queries.continued

    @property
    def last_reason(self) -> str:
        """Why that query ended; empty if there is none."""
        return self._queries.find(self._queries.last).reason if self._queries.last else ""

    def open_query(self) -> OpenQuery | None:
        """The query that is not concluded, if there is one."""
        row = self._queries.open
        if row is None:
            return None
        return OpenQuery(row.query, row.readings, row.last, row.names, row.attempts)

    def concluded(self) -> tuple[StoredSum, ...]:
        """The sums of the concluded queries of this run, in order."""
        return self._queries.sums()

    def begin_query(
        self,
        query: int,
        cost: PrivacyEvent,
        attempts: int,
        *,
        readings: int = 1,
        last: int,
        origins: Sequence[str] = (),
    ) -> None:
        """R5: admit a query if all of its attempts fit the budget, and reserve that.

        Parameters
        ----------
        query : int
            Its number, above those of all queries before.
        cost : PrivacyEvent
            What one attempt costs each reading in it.
        attempts : int
            How many sessions it may send in.
        readings : int
            How many readings are in it.
        last : int
            Number of the last of them.
        origins : sequence of str
            Hashes of their origins (`Ledger.hash_origin`), in order of their numbers up to `last`,
            empty for a number that is not in it.

        Raises
        ------
        BudgetExceeded
            If not all attempts fit the budget.
        LedgerError
            If another query is open, this one began with other numbers, a reading of it was
            released or passed over, or the ledger cannot be written.
        """
        names = tuple(origins)
        _validate.at_least(LedgerError, 1, query=query, attempts=attempts, readings=readings)
        _validate.at_least(LedgerError, max(readings, len(names)), last=last)
        if names and len(names) < readings:
            raise LedgerError(
                f"query {query} is of {readings} readings with {len(names)} origins; give one for "
                "each; nothing was drawn"
            )
        with self._writer.mutex:
            self._writer.usable()
            place = attempts, readings, last, self._writer.clock.now()
            paid = float(cost.epsilon), float(cost.delta)
            row = QueryRow(0, self._queries.run, query, *place, *paid, names_text(names))
            known = self._queries.is_open(query)
            self._queries.begin(row)
            if not known:
                self._entries = ()

    def begin(self, query: int, epsilon: Fraction, attempts: int) -> None:
        """Check that `begin_query` admitted it; its session may go on."""
        row = self._queries.find(query)
        if (Fraction(row.epsilon), row.attempts) != (epsilon, attempts):
            raise LedgerError(
                f"query {query} began with {row.attempts} attempts at epsilon = {row.epsilon:g}, "
                f"and its session has {attempts} at {float(epsilon):g}; nothing was drawn; the "
                "manifest fixes both"
            )

    def entries(self, query: int) -> Entries:
        """Every view of the query, in order; none of one that this agent did not begin."""
        if self._queries.is_open(query):
            return self._entries
        if query not in self._ended:
            with self._writer.reading() as store:
                row = store.find_query(self._queries.run, query)
                found = self._load(store, row)
            if row is None:
                return ()
            self._remember(query, found)
        return self._ended[query]

    def open(self, query: int, entry: SessionEntry) -> None:
        """A new view: R5."""
        if entry.sid != self.terms.sid(query, entry.attempt, entry.view):
            raise LedgerError(f"query {query}: the session has the name of another one")
        with self._step("open", query) as step:
            step.after = rules.opened(query, step.row.attempts, self._entries, entry)

    def prepare(self, query: int, prepared: Prepared) -> None:
        """Store the masked value: R6."""
        with self._step("prepare", query) as step:
            step.after = rules.prepared(query, self._entries, prepared)

    def ready(self, query: int, gamma: bytes) -> None:
        """Store which commitments this agent is ready for: R6."""
        with self._step("ready", query) as step:
            step.after = rules.ready(query, self._entries, gamma)

    def send(self, query: int) -> Prepared:
        """Charge, and chain the masked value: R1."""
        with self._step("send", query) as step:
            step.after = rules.sent(query, self._entries)
            entry, row = step.after[-1], step.row
            assert entry.prepared is not None
            place = row.number, entry.attempt + 1, row.last, row.readings, entry.view
            paid = self._writer.clock.now(), row.epsilon, row.delta
            words = entry.prepared.words
            step.release = LedgerEntry(0, *place, *paid, words, 0, row.names, "", "")
        return entry.prepared

    def withdraw(self, query: int) -> None:
        """Overwrite the masked value, in the log too: R1."""
        with self._step("withdraw", query) as step:
            step.after = rules.withdrawn(query, self._entries)

    def refund(self, query: int, attempt: int, withdraws: tuple[SignedRecord, ...]) -> None:
        """Take a charge back; the session has checked the evidence, which is chained with it."""
        from veilsum.agents.masked.records import encode_record  # loads cryptography

        needed = self.terms.withdrawals_needed
        with self._writer.mutex:
            after = rules.refunded(query, self.entries(query), attempt, withdraws, needed)
            evidence = json.dumps([encode_record(one).hex() for one in withdraws])
            why = f"{len(withdraws)} members withdrew"
            self._change_charge("refund", REFUND, query, attempt, why, evidence, after)

    def evidence(self, query: int) -> tuple[SignedRecord, ...]:
        """The withdrawals that refunds of the query rest on, or rested on."""
        with self._writer.reading() as store:
            row = store.find_query(self._queries.run, query)
            sent = {one.seq for one in store.sent(row.number)} if row is not None else set()
            changes = [c for c in store.changes() if c.kind == REFUND] if sent else []
        ours = [c for c in changes if json.loads(c.before)["release"] in sent]
        return tuple(one for change in ours for one in evidence_of(change))

    def reinstate(self, query: int, attempt: int) -> None:
        """Take a refunded charge again, even beyond the budget; that is chained too."""
        with self._writer.mutex:
            after = rules.reinstated(query, self.entries(query), attempt)
            why = "the refund was false"
            self._change_charge("reinstate", REINSTATED, query, attempt, why, "", after)

    def _change_charge(
        self, call: str, kind: str, query: int, attempt: int, why: str, text: str, after: Entries
    ) -> None:
        """Chain that a charge was taken back, or again; count what was spent anew."""
        writer, row = self._writer, self._queries.find(query)
        with writer.reading() as store:
            sent = next(e for e in store.sent(row.number) if e.attempt == attempt + 1)
        charge = {"query": query, "attempt": attempt + 1, "release": sent.seq}
        cost = {"epsilon": sent.epsilon, "delta": sent.delta}
        needed = {"needed": self.terms.withdrawals_needed} if kind == REFUND else {}
        what = kind, writer.agent, why, json.dumps({**charge, **cost, **needed}), text
        change = LedgerChange(0, 0, writer.clock.now(), *what, "", "")
        chained: list[LedgerChange] = []
        self._queries.write(call, lambda _: chained.append(writer.append_change(change)), chained)
        writer.count_again()
        if self._queries.is_open(query):
            self._entries = after
        else:
            self._remember(query, after)
        self._reserve()

    def conclude_query(self, query: int, reason: str, summed: StoredSum | None) -> None:
        """Store how a query ended, and free what it has not charged.

        Parameters
        ----------
        query : int
            Its number: that of the open query, or a later one if none is open and this agent
            contributed nothing to it.
        reason : str
            "sum", or why there is none.
        summed : StoredSum or None
            The sum.

        Raises
        ------
        LedgerError
            If another query is open, or it was concluded otherwise; a sum may follow where there
            was none, and one of an earlier attempt.
        """
        if not reason or (summed is not None and summed.query != query):
            raise LedgerError(f"query {query} needs a reason, and a sum of its own if there is one")
        with self._writer.mutex:
            self._writer.usable()
            if self._queries.is_open(query):
                self._conclude("conclude_query", reason, summed)
            elif query > self._queries.last:
                self._queries.end_unasked(query, reason, summed)
            else:
                self._queries.end_again(query, reason, summed)

    def _conclude(self, call: str, reason: str, summed: StoredSum | None) -> None:
        """The open query; a value that was neither sent nor withdrawn is overwritten."""
        row, after = self._queries.open, self._entries
        assert row is not None
        has_value = bool(after) and after[-1].stage is Stage.PREPARED
        if has_value:
            after = rules.withdrawn(row.query, after)

        def more(store: Store) -> None:
            if has_value:
                self._save(store, row, after)

        released = any(entry.sent for entry in after)
        self._queries.end(call, reason, summed, released, more)
        if row.run == self._queries.run:
            self._remember(row.query, after)
        self._entries = ()
        if has_value:
            self._empty_log()

    def _remember(self, query: int, entries: Entries) -> None:
        self._ended[query] = entries
        while len(self._ended) > REMEMBERED:
            del self._ended[next(iter(self._ended))]

    def _load(self, store: Store, query: QueryRow | None) -> Entries:
        if query is None:
            return ()
        sent = {entry.attempt: entry for entry in store.sent(query.number)}
        gone = refunded(store.changes()) if sent else frozenset()
        found = []
        for row in store.sessions(query.number):
            release = sent.get(row.attempt + 1) if row.stage == Stage.SENT.value else None
            found.append(row.entry(release, release is not None and release.seq in gone))
        return tuple(found)

    def _reserve(self) -> None:
        self._queries.reserve(sum(entry.sent for entry in self._entries))

    @contextmanager
    def _step(self, call: str, query: int) -> Iterator[_Step]:
        """The block decides what the sessions are after a step; then that is written."""
        writer, withdrawing = self._writer, call == "withdraw"
        with writer.mutex:
            writer.usable()
            row = self._queries.open
            if row is None or not self._queries.is_open(query):
                raise LedgerError(
                    f"query {query} is not open in ledger {writer.path}; nothing was sent"
                )
            if not withdrawing:
                writer.check_confirmed("a value of this query")
            step = _Step(row, self._entries)
            yield step
            chained: list[LedgerEntry] = []

            def work(store: Store) -> None:
                if step.release is not None:
                    chained.append(writer.append(step.release))
                self._save(store, row, step.after)

            self._queries.write(call, work, chained)
            self._entries = step.after
            if chained:
                writer.budget.add(Charge.of(chained[0]))
                self._reserve()
            if withdrawing or self._log_has_value:
                self._empty_log()

    def _save(self, store: Store, query: QueryRow, after: Entries) -> None:
        """Add or replace the last session, in a transaction."""
        meta, count = self._writer.meta, int(self._writer.meta["sessions"])
        new = len(after) > len(self._entries)
        row = SessionRow.of(count + new, query.number, after[-1])
        if new:
            row = row.after(meta["sessions_head"])
            store.add_session(row)
        else:
            row = row.after(store.previous_of_session(row.number))
            store.change_session(row)
        self._writer.put(sessions=count + new, sessions_head=row.hash)

    def _empty_log(self) -> None:
        """A withdrawn value is in the log until it is emptied, which a reader may delay."""
        self._log_has_value = not self._writer.empty_log()
        self._writer.probe("log emptied")
