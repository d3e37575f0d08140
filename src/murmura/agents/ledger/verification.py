"""Read a ledger, and check that it is what the agent last wrote.

Detected without a key: damage of the file, a broken chain, truncated releases, sums that do not add
up, and a ledger with fewer releases than its lock file records. Not detected without a key: a
modification by somebody who recomputed chain, head and sums. Never detected here: a complete older
copy restored together with its lock file; neighbours detect that, since they remember rounds.
"""

from __future__ import annotations

import hmac
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from murmura.agents.ledger import records
from murmura.agents.ledger.budget import BudgetTracker
from murmura.agents.ledger.records import CostSum, EpsilonDelta, LedgerEntry, LedgerIdentity
from murmura.agents.ledger.store import LockRecord, Store, as_ledger_errors, explain, read_lock
from murmura.errors import LedgerError

NO_KEY = (
    "without the key: a modification by somebody who recomputed the chain and the sums, "
    "and any modification of the mixing state"
)
NO_SEAL = "it was made without a key: whoever can write the file can modify it undetected"
OLD_COPY = "a complete older copy, lock file included: only neighbours, who remember rounds, see it"
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
    meta: dict[str, str]

    @property
    def budget(self) -> BudgetTracker:
        """What was spent and what remains."""
        return BudgetTracker.of(self.identity, self.entries)


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
        return check_store(store, key, record)[0]
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


def contents_of(store: Store) -> LedgerContents:
    """Everything in a store, unverified."""
    meta = store.meta()
    if int(meta["format"]) != records.FORMAT:
        raise LedgerError(
            f"the ledger of {meta['agent']} has format {meta['format']} and this version of "
            f"murmura reads format {records.FORMAT} only; nothing was released; use the version "
            "of murmura that wrote it"
        )
    if len(bytes.fromhex(meta.pop("secret"))) != SECRET_BYTES:
        raise ValueError
    identity = LedgerIdentity(
        meta["agent"],
        meta["terms"],
        meta["unit"],
        int(meta["window"]),
        float(meta["epsilon"]),
        float(meta["delta"]),
    )
    return LedgerContents(
        identity,
        meta["manifest"],
        meta["name"],
        int(meta["epoch"]),
        int(meta["incarnation"]),
        meta["closed"] == "1",
        bool(meta["seal"]),
        tuple(store.entries()),
        meta,
    )


def check_store(
    store: Store, key: bytes | None, record: LockRecord | None
) -> tuple[Verification, LedgerContents]:
    """Check everything that can be checked; `record` is the content of the lock file."""
    damage = tuple(f"the file is damaged: {found}" for found in store.integrity_errors())
    contents = contents_of(store)
    problems = (
        *damage,
        *_check_chain(contents),
        *_check_sums(contents),
        *_check_lock(contents, record),
        *_check_seal(contents, key),
        *_check_state(store, contents, key),
    )
    limitations = (NO_SEAL,) if not contents.sealed else (NO_KEY,) if key is None else ()
    budget = contents.budget
    return (
        Verification(
            not problems,
            problems,
            (*limitations, OLD_COPY),
            contents.identity.agent,
            len(contents.entries),
            budget.spent,
            budget.remaining,
            contents.meta["head"],
        ),
        contents,
    )


def _check_chain(contents: LedgerContents) -> list[str]:
    previous, head = records.genesis_hash(contents.identity), contents.meta["head"]
    for seq, entry in enumerate(contents.entries, 1):
        linked = entry.previous == previous and entry.seq == seq
        if not linked or records.entry_hash(previous, seq, *entry[1:8]) != entry.hash:
            return [f"release {seq} (reading {entry.reading}) breaks the chain"]
        previous = entry.hash
    if previous == head:
        return []
    return [f"the chain ends in {previous[:12]}, and {head[:12]} was recorded as its end"]


def _check_sums(contents: LedgerContents) -> list[str]:
    problems, found = [], len(contents.entries)
    if int(contents.meta["count"]) != found:
        problems.append(f"it has {found} releases, and {contents.meta['count']} were counted")
    total = CostSum()
    for entry in contents.entries:
        total = total.plus(entry.epsilon, entry.delta)
    recorded = recorded_spent(contents)
    if recorded != total.rounded:
        problems.append(
            f"the releases add up to epsilon = {total.rounded.epsilon:g}, "
            f"and {recorded.epsilon:g} was recorded"
        )
    return problems


def recorded_spent(contents: LedgerContents) -> EpsilonDelta:
    """The total that the ledger records, as opposed to the one its entries add up to."""
    meta = contents.meta
    return EpsilonDelta(float(meta["spent_epsilon"]), float(meta["spent_delta"]))


def _check_lock(contents: LedgerContents, record: LockRecord | None) -> list[str]:
    found = len(contents.entries)
    if record is None or record.releases <= found:
        return []
    return [
        f"the lock file records {record.releases} releases and the ledger has {found}: "
        "its write-ahead log was deleted, or it was replaced by an older copy"
    ]


def _check_seal(contents: LedgerContents, key: bytes | None) -> list[str]:
    if key is None:
        return []
    if not contents.sealed:
        return ["it has no seal although there is a key: the seal was removed, or never made"]
    expected = records.seal(
        key,
        contents.identity,
        len(contents.entries),
        contents.meta["head"],
        recorded_spent(contents),
        contents.incarnation,
    )
    if hmac.compare_digest(expected, contents.meta["seal"]):
        return []
    return ["the seal does not match: it was modified without the key, or this is another key"]


def _check_state(store: Store, contents: LedgerContents, key: bytes | None) -> list[str]:
    found = store.state()
    if found is None or (contents.sealed and key is None):
        return []
    state, _, checksum = found
    expected = records.state_checksum(key if contents.sealed else None, state)
    return [] if hmac.compare_digest(expected, checksum) else ["the mixing state was modified"]


def _unreadable(problem: Exception) -> Verification:
    if isinstance(problem, sqlite3.Error):
        text = explain(problem)[0]
    else:
        text = f"it does not have the contents of a ledger ({type(problem).__name__})"
    nothing = EpsilonDelta(0.0, 0.0)
    return Verification(False, (text,), (OLD_COPY,), "", 0, nothing, nothing, "")
