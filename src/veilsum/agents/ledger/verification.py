"""Read a ledger, and check that it is what the agent last wrote.

Every row of every table is covered: releases, changes of terms and refunds by the chain, the index
of origins by comparison with the releases, origins of readings that were passed over, queries and
sessions by chains of their own, metadata by its seal, the mixing state and what is remembered of
neighbours by checksums, and their number by the metadata. Detected without a key: damage of the
file, a modified, missing or additional row, a table or trigger that does not belong, and a ledger
with fewer releases or steps of sessions than its lock file records. Not detected without a key: a
modification by somebody who computed everything again. Never detected here: a complete older copy
together with its lock file, or an older state or status put back; neighbours detect that, since they
remember rounds.
"""

from __future__ import annotations

import hmac
import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from veilsum.agents.ledger import records
from veilsum.agents.ledger.budget import BudgetStatus, BudgetTracker
from veilsum.agents.ledger.contents import (
    LedgerContents,
    contents_of,
    first_format,
    first_identity,
    header_of,
)
from veilsum.agents.ledger.lock import LockRecord, read_lock
from veilsum.agents.ledger.meters import Charge
from veilsum.agents.ledger.records import (
    LedgerIdentity,
)
from veilsum.agents.ledger.refunds import check_refunds
from veilsum.agents.ledger.session_rows import QueryRow, SessionRow, reservation
from veilsum.agents.ledger.store import SCHEMAS, Store, as_ledger_errors, explain
from veilsum.errors import LedgerError

NO_KEY = (
    "without the key: a modification by somebody who computed chain and seal again, "
    "and any modification of the mixing state or of what is remembered of neighbours"
)
NO_SEAL = "it was made without a key: whoever can write the file can modify it undetected"
OLD_COPY = "a complete older copy, lock file included: only neighbours, who remember rounds, see it"


@dataclass(frozen=True)
class Verification:
    """The outcome of `verify`.

    Attributes
    ----------
    ok : bool
        Whether there is no problem.
    problems : tuple of str
        What is wrong.
    limitations : tuple of str
        What this check cannot detect.
    agent : str
        Label of the agent; empty if the file cannot be read.
    releases : int
        Number of releases.
    status : BudgetStatus or None
        What was spent of the budget, and what is left; None if the file cannot be read.
    head : str
        Last hash of the chain.
    """

    ok: bool
    problems: tuple[str, ...]
    limitations: tuple[str, ...]
    agent: str
    releases: int
    status: BudgetStatus | None
    head: str


def verify(path: str | Path, key: bytes | None = None) -> Verification:
    """Check a ledger without modifying it; it may be in use.

    Parameters
    ----------
    path : str or Path
        The ledger's file.
    key : bytes, optional
        The key that seals it, as `key_of` derives it from the key file.

    Returns
    -------
    Verification
        What is wrong, and what this check cannot detect.

    Raises
    ------
    LedgerError
        If there is no file, or its format is not read by this version.

    Examples
    --------
    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile() as file:
    ...     _ = file.write(b"not a ledger, whatever its name says"), file.flush()
    ...     found = verify(file.name)
    >>> found.ok, found.problems
    (False, ('it is not a ledger, or damaged (file is not a database)',))
    """
    file = Path(path)
    record = read_lock(file)  # first: a ledger in use may only have more by the time it is read
    try:
        store = _reader(file)
    except sqlite3.Error as problem:
        return _unreadable(problem)
    try:
        store.db.execute("BEGIN")
        found, header, chain = check_store(store, key, record)
        status = chain.tracker.status(header.now, int(header.meta["passed"]))
        return replace(found, status=status)
    except (sqlite3.Error, ValueError, KeyError, TypeError) as problem:
        return _unreadable(problem)
    finally:
        store.close()


def read_ledger(path: str | Path) -> LedgerContents:
    """Read a ledger without modifying it; it may be in use.

    Parameters
    ----------
    path : str or Path
        The ledger's file.

    Returns
    -------
    LedgerContents
        Identity, releases and metadata, unverified: see `verify`.

    Raises
    ------
    LedgerError
        If it cannot be read, or its format is not read by this version.

    Examples
    --------
    >>> read_ledger("nowhere.ledger")
    Traceback (most recent call last):
    ...
    veilsum.errors.LedgerError: there is no ledger at nowhere.ledger; check the path
    """
    file = Path(path)
    with as_ledger_errors(file, "read it"):
        store = _reader(file)
        try:
            store.db.execute("BEGIN")
            return contents_of(store)
        except (ValueError, KeyError, TypeError) as problem:
            raise LedgerError(
                f"ledger {file} does not have the contents of a ledger "
                f"({type(problem).__name__}); run `veilsum ledger verify` on it, or check the path"
            ) from problem
        finally:
            store.close()


def stored_epoch(path: str | Path) -> int | None:
    """The epoch in which a ledger was last used; None if there is no ledger.

    Parameters
    ----------
    path : str or Path
        The ledger's file; it may be in use.

    Raises
    ------
    LedgerError
        If it cannot be read.
    """
    file = Path(path)
    if not file.exists() or not file.stat().st_size:
        return None
    with as_ledger_errors(file, "read it"):
        store = _reader(file)
        try:
            return int(store.meta()["epoch"])
        except (ValueError, KeyError) as problem:
            raise LedgerError(
                f"ledger {file} does not have the contents of a ledger ({type(problem).__name__}); "
                "check the path"
            ) from problem
        finally:
            store.close()


def _reader(path: Path) -> Store:
    if not path.is_file():
        raise LedgerError(f"there is no ledger at {path}; check the path")
    return Store(path, read_only=True)


class ChainScan:
    """One pass over the chain of a ledger: checks it and counts its costs."""

    def __init__(self, store: Store, header: LedgerContents, record: LockRecord | None) -> None:
        """Walk the chain once."""
        self.problems: list[str] = []
        self.count, self.time, self.last_number = 0, 0.0, 0
        self._queries = store.queries()
        open_one = self._queries and not self._queries[-1].reason
        self.open_query = self._queries[-1].number if open_one else 0
        self.sent: Counter[int] = Counter()  # masked values by query
        self.head = records.genesis_hash(first_identity(header), first_format(header))
        self._changes, self._next_change = header.changes, 0
        self._recorded, self._steps = record, header.meta["steps"]
        self._heads: set[str] = set()  # where the chain was when the lock file was written
        self._origins = dict(store.origins())
        self.tracker = BudgetTracker(header.identity, store.charges_between)
        self._walk(store, header)
        self.tracker.reserve(reservation(self._queries, self.sent))

    def _walk(self, store: Store, header: LedgerContents) -> None:
        hash_of, origins, problems = records.entry_hash, self._origins, self.problems
        since = self.tracker.replays_from(float(header.meta["time"]))
        kinds: Counter[tuple[int, float, float]] = Counter()
        recent: list[Charge] = []
        gone, again = records.refunded(self._changes), self.tracker.counts_attempts
        before: tuple[int, str] = 0, ""  # the last query with a masked value, and its origins
        self._take_changes()
        changed = {change.after for change in self._changes}
        recorded = -1 if self._recorded is None else self._recorded.releases
        head, moment, count, top = self.head, self.time, self.count, 0
        for row in store.rows():
            seq, number, attempt, last, readings, _, time, epsilon, delta, _, _, names = row[:12]
            previous, made = row[12:]
            count += 1
            if previous != head or seq != count or hash_of(head, row) != made:
                problems.append(f"release {count} (reading {row[1]}) breaks the chain")
                return
            if time < moment:
                problems.append(f"release {seq} is earlier than the one before it")
            head, moment = made, time
            if last > top and not (attempt and number == self.open_query):
                top = last
            span = readings
            repeated = attempt and before[0] == number
            if attempt:
                self.sent[number] += 1
                if repeated and names != before[1]:
                    problems.append(f"release {seq} has other readings than the attempt before it")
                before = number, names
            if names:
                listed = names.split()
                span = max(span, len(listed))
                for name in listed:
                    if name != "-" and not repeated and origins.pop(name, 0) != seq:
                        problems.append(f"an origin of release {seq} is not in the index")
            if seq not in gone:
                kinds[readings, epsilon, delta] += 1
                if time >= since or (again and attempt):
                    place = last - span + 1, last, readings
                    recent.append(Charge(*place, time, epsilon, delta, attempt))
            if count == recorded or count in changed:
                self.head, self.time, self.count = head, moment, count
                self._take_changes()
                head, moment = self.head, self.time
        self.head, self.time, self.count, self.last_number = head, moment, count, top
        if self._next_change < len(self._changes):
            problems.append("a change of terms is recorded after more releases than there are")
        if origins:
            problems.append("the index of origins has more than the releases")
        self.tracker.restore(kinds, recent)
        self._check_end(header)

    def _take_changes(self) -> None:
        """The changes of terms after so many releases, and what the lock file may then record."""
        then = self._recorded is not None and self._recorded.releases == self.count
        if then:
            self._heads.add(self.head)
        while self._next_change < len(self._changes):
            change = self._changes[self._next_change]
            if change.after != self.count:
                return
            self._next_change += 1
            linked = change.previous == self.head and change.number == self._next_change
            if not linked or records.change_hash(self.head, change) != change.hash:
                self.problems.append(f"change {change.number} of the terms breaks the chain")
            self.head, self.time = change.hash, max(self.time, change.time)
            if then:
                self._heads.add(self.head)

    def _check_end(self, header: LedgerContents) -> None:
        recorded = header.meta["head"]
        if self.head != recorded:
            text = (
                f"the chain ends in {self.head[:12]}, and {recorded[:12]} was recorded as its end"
            )
            self.problems.append(text)
        if int(header.meta["count"]) != self.count:
            text = f"it has {self.count} releases, and {header.meta['count']} were counted"
            self.problems.append(text)
        if float(header.meta["time"]) < self.time:
            self.problems.append("its last time is earlier than that of its last release")
        terms = [json.loads(c.now) for c in header.changes if c.kind == records.BUDGET_CHANGE]
        if terms and LedgerIdentity(*header.identity[:2], *terms[-1]) != header.identity:
            self.problems.append("its budget is not the one that the last change of it states")
        self._check_lock()

    def _check_lock(self) -> None:
        record = self._recorded
        if record is None or record.releases < 0:
            return
        steps = int(self._steps)
        if record.steps > steps:
            self.problems.append(
                f"the lock file records {record.steps} steps of sessions and the ledger has {steps}: "
                "its write-ahead log was deleted, or it was replaced by an older copy"
            )
        if record.releases > self.count:
            self.problems.append(
                f"the lock file records {record.releases} releases and the ledger has "
                f"{self.count}: its write-ahead log was deleted, or it was replaced by an older copy"
            )
        elif record.head and record.head not in self._heads:
            self.problems.append(
                f"the lock file records other releases than the first {record.releases} of the "
                "ledger: it was replaced by another copy"
            )


def check_store(
    store: Store, key: bytes | None, record: LockRecord | None
) -> tuple[Verification, LedgerContents, ChainScan]:
    """Check everything that can be checked; `record` is the content of the lock file."""
    damage = [f"the file is damaged: {found}" for found in store.integrity_errors()]
    header = header_of(store)
    chain = ChainScan(store, header, record)
    problems = (
        *damage,
        *_check_schema(store, header),
        *chain.problems,
        *_check_passed(store, header),
        *_check_sessions(store, header, chain),
        *_check_seal(header, store.meta(), key),
        *_check_rows(store, header, key),
    )
    limitations = (NO_SEAL,) if not header.sealed else (NO_KEY,) if key is None else ()
    last = float(header.meta["time"])  # not the wall clock: the tracker goes on with the ledger's
    return (
        Verification(
            not problems,
            problems,
            (*limitations, OLD_COPY),
            header.identity.agent,
            chain.count,
            chain.tracker.status(last, int(header.meta["passed"])),
            header.meta["head"],
        ),
        header,
        chain,
    )


def _check_schema(store: Store, header: LedgerContents) -> list[str]:
    """The tables of its format, and that a migrated ledger says so."""
    problems = []
    if store.schema() != sorted(SCHEMAS[int(header.meta["format"])]):
        problems.append("it has other tables than a ledger")
    moved = [change.now for change in header.changes if change.kind == records.MIGRATED]
    last = moved[-1] if moved else f"format {first_format(header)}"
    if last != f"format {header.meta['format']}":
        problems.append("its format is not the one that it was created with or migrated to")
    return problems


def _check_passed(store: Store, header: LedgerContents) -> list[str]:
    """The chain of the readings that were passed over."""
    count, head = 0, ""
    for number, origin in store.passed():
        count += 1
        if number != count:
            break
        head = records.passed_hash(head, number, origin)
    if (str(count), head) == (header.meta["passed_count"], header.meta["passed_head"]):
        return []
    return ["a reading that was passed over was removed, added or modified"]


def _check_sessions(store: Store, header: LedgerContents, chain: ChainScan) -> list[str]:
    """The chains of queries and sessions, and that each masked value has one session."""
    queries, sessions = store.queries(), store.sessions()
    sent = Counter(row.query for row in sessions if row.stage == "sent")
    problems = []
    tables: dict[str, Sequence[QueryRow | SessionRow]]
    tables = {"queries": queries, "sessions": sessions}
    for what, rows in tables.items():
        head, sound = "", True
        for number, row in enumerate(rows, 1):
            sound = sound and row.number == number and row == row.after(head)
            head = row.hash
        meta = header.meta[what], header.meta[f"{what}_head"]
        if not sound or (str(len(rows)), head) != meta:
            problems.append(f"one of its {what} was removed, added or modified")
    if sent != chain.sent or not set(sent) <= {query.number for query in queries}:
        problems.append("a masked value has no session, or a session no masked value")
    else:
        problems += check_refunds(header.changes, store.all_sent(), sessions)
    return problems


def _check_seal(header: LedgerContents, meta: dict[str, str], key: bytes | None) -> list[str]:
    if meta["seal"].split(" ")[0] != records.SEALS[header.sealed]:
        return ["its metadata was modified: the seal is of another kind than it states"]
    if header.sealed and key is None:
        return []
    if key is not None and not header.sealed:
        return ["it has no seal although there is a key: the seal was removed, or never made"]
    if hmac.compare_digest(records.seal(key, meta), meta["seal"]):
        return []
    if key is None:
        return ["its metadata was modified"]
    return ["the seal does not match: it was modified without the key, or this is another key"]


def _check_rows(store: Store, header: LedgerContents, key: bytes | None) -> list[str]:
    """The mixing state and the neighbours: how many rows there are, and each of them."""
    problems, state, peers = [], store.state(), store.peers()
    if (state is not None) != (header.meta["state"] == "1"):
        problems.append("the mixing state was removed or added")
    if len(peers) != int(header.meta["peers"]):
        problems.append("what it remembers of a neighbour was removed or added")
    if header.sealed and key is None:
        return problems
    if state is not None:
        expected = records.state_checksum(key, header.incarnation, state[1], state[0])
        if not hmac.compare_digest(expected, state[2]):
            problems.append("the mixing state was modified")
    for member, (status, checksum) in peers.items():
        if not hmac.compare_digest(records.peer_checksum(key, member, status), checksum):
            problems.append(f"what it remembers of {member} was modified")
    return problems


def _unreadable(problem: Exception) -> Verification:
    if isinstance(problem, sqlite3.Error):
        text = explain(problem)[0]
    else:
        text = f"it does not have the contents of a ledger ({type(problem).__name__})"
    return Verification(False, (text,), (OLD_COPY,), "", 0, None, "")
