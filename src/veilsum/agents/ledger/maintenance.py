"""What is done to a ledger while its agent does not run: change its budget, back it up, restore it.

A changed budget is an entry in the chain: what was spent stays spent, and is compared with the new
budget from then on.

A restored backup may lack releases that were made after it. What can be known of them:

- the lock file beside the lost ledger records how many there were: if the backup has fewer, it is
  not restored;
- every neighbour remembers the number and the hash of the releases it has heard of. A release that
  none of them has heard of has reached nobody, so that drawing its reading again reveals nothing
  twice. A restored ledger therefore releases nothing until *all* neighbours have sent what they
  remember; if one knows of a release that the backup lacks, the agent ends without having released
  anything (`conflicting-releases`), and can only go on under a new name with later readings.

The restored ledger starts a new incarnation, far above those that the lost one may have used.

A masked value that is prepared and not sent is in no backup: if it is withdrawn, nobody has it.
"""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from veilsum.agents.ledger import records
from veilsum.agents.ledger.budget import BudgetTracker
from veilsum.agents.ledger.clock import MACHINE, LedgerClock, SystemClock
from veilsum.agents.ledger.contents import LedgerContents
from veilsum.agents.ledger.lock import Lock, LockRecord, lock_path, read_lock
from veilsum.agents.ledger.opening import (
    NEVER_CHANGE,
    allows_more,
    anchor_of,
    check_identity,
    check_original,
    verified,
    write_meta,
)
from veilsum.agents.ledger.records import BUDGET_CHANGE, RESTORED, LedgerChange, LedgerIdentity
from veilsum.agents.ledger.session_rows import reservation
from veilsum.agents.ledger.store import Store, as_ledger_errors
from veilsum.agents.masked.entries import Stage
from veilsum.errors import LedgerError
from veilsum.privacy.accounting import BudgetExceeded

BEYOND = 1 << 20  # added to starts and incarnation on restoring: more than a lost ledger had


class BackupReport(NamedTuple):
    """What a backup contains, or what was restored from one.

    Attributes
    ----------
    agent : str
        Label of the agent.
    releases : int
        How many releases it has.
    time : float
        The last time in the ledger, in seconds since 1970.
    """

    agent: str
    releases: int
    time: float


def amend(
    path: str | Path,
    identity: LedgerIdentity,
    key: bytes | None,
    *,
    by: str,
    reason: str = "",
    allow_raise: bool = False,
    clock: SystemClock = MACHINE,
) -> LedgerChange | None:
    """Change the budget of a ledger that is not in use; what was spent stays spent.

    Parameters
    ----------
    path : str or Path
        The ledger's file.
    identity : LedgerIdentity
        The agent and terms that it has, and the new budget.
    key : bytes, optional
        The key that seals it.
    by, reason : str
        Who changes it, and why; both are recorded.
    allow_raise : bool
        Whether the change may allow more than before.
    clock : SystemClock
        The clocks of the machine; for tests.

    Returns
    -------
    LedgerChange or None
        What was recorded; None if the budget is the same.

    Raises
    ------
    LedgerError
        If the ledger is in use, fails its verification, belongs to another agent or other terms,
        or the change allows more and `allow_raise` is not set.

    Examples
    --------
    >>> identity = LedgerIdentity("north", "terms", "stream", 0, 1.0, 0.0)
    >>> amend("nowhere.ledger", identity, None, by="ana")
    Traceback (most recent call last):
    ...
    veilsum.errors.LedgerError: there is no ledger at nowhere.ledger; check the path
    """
    file = _existing(Path(path))
    with ExitStack() as undo, as_ledger_errors(file, "change its budget"):
        lock = Lock(file)
        undo.callback(lock.close)
        store = Store(file)
        undo.callback(store.close)
        header, _ = verified(store, file, lock, key)
        check_original(file, header)
        _check_key(file, header, key)
        old = header.identity
        kept = {name: getattr(identity, name) for name in NEVER_CHANGE}
        check_identity(file, header, old._replace(**kept))
        identity = identity._replace(terms=old.terms)
        if identity == old:
            return None
        if (old.budget is None) != (identity.budget is None):
            raise LedgerError(
                f"ledger {file} {'guarantees nothing' if old.budget is None else 'has a budget'}, "
                "which no change of its budget alters; use a new ledger with new readings"
            )
        if not allow_raise and allows_more(old, identity):
            raise LedgerError(
                f"the new budget of ledger {file} allows more than the old one: {identity.words} "
                f"instead of {old.words}; nothing was changed; if that is meant, say so with "
                "--raise; what was spent stays spent"
            )
        _check_reserved(store, file, identity)
        texts = (json.dumps(old.terms_of_budget), json.dumps(identity.terms_of_budget))
        made = _record(store, header, key, clock, (BUDGET_CHANGE, by, reason, *texts), identity)
        lock.record(int(header.meta["count"]), made.hash, int(header.meta["steps"]), pid=0)
        return made


def _check_reserved(store: Store, path: Path, identity: LedgerIdentity) -> None:
    """Raise if a new budget lacks what an open query reserves: it may be charged at any moment."""
    queries = store.queries()
    kept = reservation(queries, {q.number: len(store.sent(q.number)) for q in queries[-1:]})
    if kept is None or identity.budget is None or not kept.times:
        return
    try:
        BudgetTracker.of(identity, store.charged(), store.charges_between).admit(kept)
    except BudgetExceeded as problem:
        raise LedgerError(
            f"ledger {path} has an open query, and the new budget is not enough for the attempts that "
            f"it may still make: {problem}; nothing was changed; let the agent conclude the query first"
        ) from problem


def backup(
    path: str | Path, to: str | Path, key: bytes | None = None, clock: SystemClock = MACHINE
) -> BackupReport:
    """Copy a ledger consistently, in use or not; the copy is marked as one and cannot be opened.

    Parameters
    ----------
    path, to : str or Path
        The ledger's file, and the new file.
    key : bytes, optional
        The key that seals it, which is needed if there is one; it is not copied.
    clock : SystemClock
        The clocks of the machine; for tests.

    Returns
    -------
    BackupReport
        What the backup contains.

    Raises
    ------
    LedgerError
        If the ledger cannot be read or fails its verification, or the new file exists.

    Examples
    --------
    >>> backup("nowhere.ledger", "copy")
    Traceback (most recent call last):
    ...
    veilsum.errors.LedgerError: there is no ledger at nowhere.ledger; check the path
    """
    file, target = _existing(Path(path)), Path(to)
    _absent(target)
    now = datetime.fromtimestamp(clock.wall(), UTC).isoformat(" ", "seconds")
    with as_ledger_errors(file, f"copy it to {target}"):
        return copy_marked(file, target, key, {"copy": now}, None)


def restore(
    source: str | Path,
    path: str | Path,
    key: bytes | None = None,
    *,
    by: str,
    clock: SystemClock = MACHINE,
) -> BackupReport:
    """Make a ledger of a backup; it releases nothing until all neighbours have confirmed it.

    Parameters
    ----------
    source, path : str or Path
        The backup, and the file of the ledger, which must not exist.
    key : bytes, optional
        The key that seals it.
    by : str
        Who restores it, which is recorded.
    clock : SystemClock
        The clocks of the machine; for tests.

    Returns
    -------
    BackupReport
        What was restored.

    Raises
    ------
    LedgerError
        If there is a ledger already, the lock file beside it records more releases than the
        backup has, or the backup fails its verification or is none.

    Examples
    --------
    >>> restore("nowhere.copy", "north.ledger", by="ana")
    Traceback (most recent call last):
    ...
    veilsum.errors.LedgerError: there is no ledger at nowhere.copy; check the path
    """
    file, target = _existing(Path(source)), Path(path)
    _absent(target)
    with ExitStack() as undo, as_ledger_errors(target, f"restore it from {file}"):
        lock = Lock(target)
        undo.callback(lock.close)
        store = Store(file, read_only=True)
        try:
            held = store.meta()
        finally:
            store.close()
        known = lock.earlier
        masked = bool(getattr(known, "steps", 0) or int(held.get("queries", 0)))
        for what, name in (("releases", "count"), ("steps", "steps")):
            found, has = getattr(known, what, 0), int(held.get(name, 0))
            if found > has:
                raise LedgerError(
                    f"the lock file {lock_path(target).name} records {found} {what} and the backup "
                    f"{file} has {has}: readings were released after it was made, or sessions went "
                    "on, and would be released again; nothing was restored; "
                    f"{_new_name(masked)}, and give it readings from now on only"
                )
        if not held.get("copy"):
            raise LedgerError(
                f"{file} is a ledger and no backup of one: two copies of it could release the same "
                "reading; nothing was restored; `veilsum ledger backup` makes one"
            )
        return copy_marked(file, target, key, {"copy": "", "restored": 1, "state": 0}, (by, clock))


def _new_name(masked: bool) -> str:
    """How a site goes on whose ledger is lost: neighbours remember the name, and what it signed."""
    if masked:
        return (
            "make keys under a new name with `veilsum keys request` on the site, have the others pin "
            "its signing key in a scenario with a new nonce and epoch"
        )
    return "make keys under a new name with `veilsum keys request` on the site"


def copy_marked(
    file: Path,
    target: Path,
    key: bytes | None,
    changed: dict[str, str | int],
    restored: tuple[str, SystemClock] | None,
) -> BackupReport:
    """Copy through SQLite, check the copy, change it, and give it its name only then.

    `changed` is metadata, and `restored` says who makes a ledger of a backup.
    """
    part = target.with_name(f"{target.name}.part")
    part.unlink(missing_ok=True)
    record = read_lock(file)  # first: a ledger in use may only have more by the time it is copied
    source = Store(file, read_only=True)
    try:
        os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        into = sqlite3.connect(part)
        source.db.backup(into)
        into.execute("PRAGMA journal_mode = DELETE").fetchall()
        into.close()
    finally:
        source.close()
    try:
        report = _mark(part, file, key, changed, restored, record)
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.rename(target)
        folder = os.open(target.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        return report
    finally:
        for name in (part.name, f"{part.name}-wal", f"{part.name}-shm", f"{part.name}.lock"):
            part.with_name(name).unlink(missing_ok=True)


def _mark(
    part: Path,
    file: Path,
    key: bytes | None,
    changed: dict[str, str | int],
    restored: tuple[str, SystemClock] | None,
    record: LockRecord | None,
) -> BackupReport:
    with ExitStack() as undo:
        lock = Lock(part)
        undo.callback(lock.close)
        store = Store(part)
        undo.callback(store.close)
        header, _ = verified(store, file, lock, key)
        _check_key(file, header, key)
        if restored is None:
            check_original(file, header)
        if restored is None and record and record.releases > int(header.meta["count"]):
            raise LedgerError(
                f"ledger {file} has fewer releases than its lock file records; nothing was copied; "
                "run `veilsum ledger verify` on it"
            )
        store.begin()
        store.drop_state()  # it would be old when it is restored
        more = {**changed, "state": 0, "closed": 1, **_drop_value(store)}
        if restored is not None:
            more["starts"] = int(header.meta["starts"]) + BEYOND
            more["incarnation"] = header.incarnation + BEYOND
        write_meta(store, store.meta(), key, **more)
        store.commit()
        if restored is not None:
            by, clock = restored
            text = f"backup of {header.meta['copy']}", f"{header.meta['count']} releases"
            _record(store, header, key, clock, (RESTORED, by, "", *text), header.identity)
        store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        store.db.execute("PRAGMA journal_mode = DELETE").fetchall()
        meta = store.meta()
        return BackupReport(meta["agent"], int(meta["count"]), float(meta["time"]))


def _drop_value(store: Store) -> dict[str, str]:
    """Overwrite a masked value that is prepared; returns what changes in the metadata.

    The agent may withdraw it after the copy was made, and then nobody may ever have it. Its session
    is then as one whose key was lost, and can only be waited out; what the agent committed to stays.
    """
    rows = store.sessions()
    if not rows or rows[-1].stage != Stage.PREPARED.value:
        return {}
    kept = rows[-1]._replace(stage=Stage.OPENED.value, members=b"", words=b"", salt=b"")
    kept = kept.after(rows[-1].previous)
    store.change_session(kept)
    return {"sessions_head": kept.hash}


def _record(
    store: Store,
    header: LedgerContents,
    key: bytes | None,
    clock: SystemClock,
    what: tuple[str, str, str, str, str],
    identity: LedgerIdentity,
) -> LedgerChange:
    """Append a change to the chain."""
    meta = store.meta()
    now = LedgerClock(clock, anchor_of(meta), float(meta["time"])).now()
    number, after, head = len(header.changes) + 1, int(meta["count"]), meta["head"]
    made = LedgerChange(number, after, now, *what, head, "")
    made = made._replace(hash=records.change_hash(head, made))
    store.begin()
    store.add_change(made)
    budget = dict(zip(identity._fields[2:], identity.terms_of_budget, strict=True))
    write_meta(store, meta, key, head=made.hash, time=now, **budget)
    store.commit()
    return made


def _check_key(path: Path, header: LedgerContents, key: bytes | None) -> None:
    if header.sealed and key is None:
        raise LedgerError(
            f"ledger {path} is sealed with a key, without which it cannot be changed or copied; "
            "nothing was done; give the key that it was made with"
        )


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise LedgerError(f"there is no ledger at {path}; check the path")
    return path


def _absent(path: Path) -> None:
    if path.exists():
        raise LedgerError(f"{path} exists; nothing was written; move it away, or name another file")
