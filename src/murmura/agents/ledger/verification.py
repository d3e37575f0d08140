"""Read a ledger, and check that it is what the agent last wrote.

Every row of every table is covered: releases and changes of terms by the chain, the index of
origins by comparison with the releases, origins of readings that were passed over by a chain,
metadata by its seal, the mixing state and what is remembered of neighbours by checksums, and their
number by the metadata. Detected without a key: damage of the file, a modified, missing or
additional row, a table or trigger that does not belong, and a ledger with fewer releases than its
lock file records. Not detected without a key: a modification by somebody who computed everything
again. Never detected here: a complete older copy together with its lock file, or an older state or
status put back; neighbours detect that, since they remember rounds.
"""

from __future__ import annotations

import hmac
import json
import sqlite3
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from murmura.agents.ledger import records
from murmura.agents.ledger.budget import BudgetStatus, BudgetTracker, Spending
from murmura.agents.ledger.clock import MACHINE
from murmura.agents.ledger.meters import Charge
from murmura.agents.ledger.records import (
    EpsilonDelta,
    LedgerChange,
    LedgerEntry,
    LedgerIdentity,
)
from murmura.agents.ledger.store import (
    SCHEMA,
    LockRecord,
    Store,
    as_ledger_errors,
    explain,
    read_lock,
)
from murmura.errors import LedgerError

NO_KEY = (
    "without the key: a modification by somebody who computed chain and seal again, "
    "and any modification of the mixing state or of what is remembered of neighbours"
)
NO_SEAL = "it was made without a key: whoever can write the file can modify it undetected"
OLD_COPY = "a complete older copy, lock file included: only neighbours, who remember rounds, see it"
BUDGET_CHANGE, RESTORED = "budget", "restored"  # kinds of changes in the chain
SECRET_BYTES = 32  # proves to the agent what it sent before; never printed


class LedgerContents(NamedTuple):
    """Everything in a ledger except the mixing state.

    Attributes
    ----------
    identity : LedgerIdentity
        Agent, terms and budget.
    manifest : str
        sha256 of the manifest, in hexadecimal.
    name : str
        Name of the network.
    epoch, incarnation : int
        Epoch of the manifest, and incarnation of the agent.
    closed : bool
        Whether the agent closed it.
    sealed : bool
        Whether it is sealed with a key.
    entries : tuple of LedgerEntry
        The releases, in order.
    changes : tuple of LedgerChange
        Changes of its terms, in order.
    meta : dict
        Other metadata as text.
    """

    identity: LedgerIdentity
    manifest: str
    name: str
    epoch: int
    incarnation: int
    closed: bool
    sealed: bool
    entries: tuple[LedgerEntry, ...]
    changes: tuple[LedgerChange, ...]
    meta: dict[str, str]

    @property
    def now(self) -> float:
        """The present time, or the ledger's last if that is later."""
        return max(MACHINE.wall(), float(self.meta["time"]))

    @property
    def budget(self) -> Spending:
        """What was spent and what remains now."""
        return BudgetTracker.of(self.identity, self.entries).spending(self.now)

    @property
    def status(self) -> BudgetStatus:
        """What is left of the budget now."""
        return BudgetTracker.of(self.identity, self.entries).status(self.now)


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
    spent, remaining : EpsilonDelta
        Of the budget.
    head : str
        Last hash of the chain.
    """

    ok: bool
    problems: tuple[str, ...]
    limitations: tuple[str, ...]
    agent: str
    releases: int
    spent: EpsilonDelta
    remaining: EpsilonDelta
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
        If there is no file, or it has the format of another version.

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
        spent, remaining, _ = chain.tracker.spending(header.now)
        return replace(found, spent=spent, remaining=remaining)
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
        If it cannot be read, or has the format of another version.

    Examples
    --------
    >>> read_ledger("nowhere.ledger")
    Traceback (most recent call last):
    ...
    murmura.errors.LedgerError: there is no ledger at nowhere.ledger; check the path
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
                f"({type(problem).__name__}); run `murmura ledger verify` on it, or check the path"
            ) from problem
        finally:
            store.close()


def _reader(path: Path) -> Store:
    if not path.is_file():
        raise LedgerError(f"there is no ledger at {path}; check the path")
    return Store(path, read_only=True)


def header_of(store: Store) -> LedgerContents:
    """Everything in a store but its secret and its releases, unverified."""
    meta = store.meta()
    if int(meta["format"]) != records.FORMAT:
        raise LedgerError(
            f"the ledger of {meta['agent']} has format {meta['format']} and this version of "
            f"murmura reads format {records.FORMAT} only; nothing was released; use the version "
            "of murmura that wrote it"
        )
    if len(bytes.fromhex(meta.pop("secret"))) != SECRET_BYTES:
        raise ValueError
    return LedgerContents(
        identity_of(meta),
        meta["manifest"],
        meta["name"],
        int(meta["epoch"]),
        int(meta["incarnation"]),
        meta["closed"] == "1",
        meta["sealed"] == "1",
        (),
        tuple(store.changes()),
        meta,
    )


def contents_of(store: Store) -> LedgerContents:
    """Everything in a store but its secret, unverified."""
    return header_of(store)._replace(entries=tuple(store.entries()))


def identity_of(meta: dict[str, str]) -> LedgerIdentity:
    """Agent, terms and budget from metadata."""
    return LedgerIdentity(
        meta["agent"], meta["terms"], meta["unit"], int(meta["window"]), float(meta["epsilon"]),
        float(meta["delta"]), meta["per"], meta["refill"], meta["zone"],
    )  # fmt: skip


def first_identity(header: LedgerContents) -> LedgerIdentity:
    """The identity that the ledger was created with, before all changes of its budget."""
    for change in header.changes:
        if change.kind == BUDGET_CHANGE:
            return LedgerIdentity(*header.identity[:2], *json.loads(change.before))
    return header.identity


class ChainScan:
    """One pass over the chain of a ledger: checks it and counts its costs."""

    def __init__(self, store: Store, header: LedgerContents, record: LockRecord | None) -> None:
        """Walk the chain once."""
        self.problems: list[str] = []
        self.count, self.time, self.last_number = 0, 0.0, 0
        self.head = records.genesis_hash(first_identity(header))
        self._changes, self._next_change = header.changes, 0
        self._recorded = record
        self._heads: set[str] = set()  # where the chain was when the lock file was written
        self._origins = dict(store.origins())
        self.tracker = BudgetTracker(
            header.identity, lambda low, high: map(Charge.of, store.between(low, high))
        )
        self._walk(store, header)

    def _walk(self, store: Store, header: LedgerContents) -> None:
        hash_of, origins, problems = records.entry_hash, self._origins, self.problems
        since = self.tracker.replays_from(float(header.meta["time"]))
        kinds: Counter[tuple[int, float, float]] = Counter()
        recent: list[Charge] = []
        self._take_changes()
        changed = {change.after for change in self._changes}
        recorded = -1 if self._recorded is None else self._recorded.releases
        head, moment, count, top = self.head, self.time, self.count, 0
        for row in store.rows():
            seq, _, last, readings, _, time, epsilon, delta, _, _, names, previous, made = row
            count += 1
            if previous != head or seq != count or hash_of(head, row) != made:
                problems.append(f"release {count} (reading {row[1]}) breaks the chain")
                return
            if time < moment:
                problems.append(f"release {seq} is earlier than the one before it")
            head, moment = made, time
            if last > top:
                top = last
            span = readings
            if names:
                listed = names.split()
                span = max(span, len(listed))
                for name in listed:
                    if name != "-" and origins.pop(name, 0) != seq:
                        problems.append(f"an origin of release {seq} is not in the index")
            kinds[readings, epsilon, delta] += 1
            if time >= since:
                recent.append(Charge(last - span + 1, last, readings, time, epsilon, delta))
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
        terms = [json.loads(c.now) for c in header.changes if c.kind == BUDGET_CHANGE]
        if terms and LedgerIdentity(*header.identity[:2], *terms[-1]) != header.identity:
            self.problems.append("its budget is not the one that the last change of it states")
        self._check_lock()

    def _check_lock(self) -> None:
        record = self._recorded
        if record is None or record.releases < 0:
            return
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
        *_check_schema(store),
        *chain.problems,
        *_check_passed(store, header),
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
            *chain.tracker.spending(last)[:2],
            header.meta["head"],
        ),
        header,
        chain,
    )


def _check_schema(store: Store) -> list[str]:
    return [] if store.schema() == sorted(SCHEMA) else ["it has other tables than a ledger"]


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
    nothing = EpsilonDelta(0.0, 0.0)
    return Verification(False, (text,), (OLD_COPY,), "", 0, nothing, nothing, "")
