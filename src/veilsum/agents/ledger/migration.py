"""Migrating a ledger: from the previous format to the present one, when its agent starts.

    1. the ledger is checked in its own format: whole, the agent's own, with its key
    2. a backup of it is made beside it, PATH.format-6, which the version before can restore
    3. in one transaction its tables and metadata change, the chain gets an entry that says so, and the
       result is checked in the new format; only then it is committed

A crash before the commit leaves the ledger as it was: the next start begins again with 1. After it the
ledger is migrated. Releases, budget, sessions, readings that were passed over, what is remembered of
neighbours and the mixing state stay what they are; so does the incarnation. A version that does not
know the new format refuses the ledger (`LedgerContents`); the backup is its way back.

Formats: 6 is the first that is read. 7 records its migrations: a chain entry of the kind "migrated",
and the format in which the chain began, which its first hash contains.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from veilsum import __version__
from veilsum.agents.ledger import records
from veilsum.agents.ledger.clock import LedgerClock
from veilsum.agents.ledger.contents import LedgerContents
from veilsum.agents.ledger.lock import Lock
from veilsum.agents.ledger.maintenance import copy_marked
from veilsum.agents.ledger.opening import (
    Opening,
    anchor_of,
    check_identity,
    check_key,
    check_original,
    verified,
    write_meta,
)
from veilsum.agents.ledger.records import MIGRATED, LedgerChange
from veilsum.agents.ledger.store import Store
from veilsum.agents.ledger.verification import check_store
from veilsum.agents.versions import LEDGER
from veilsum.errors import LedgerError

Probe = Callable[[str], None]
Step = Callable[
    [Store], dict[str, str | int]
]  # changes tables; returns what changes in the metadata


def _to_7(_: Store) -> dict[str, str | int]:
    """Format 6 had no place for the format that the chain began with: it was the only one."""
    return {"first_format": 6}


STEPS: dict[int, Step] = {6: _to_7}  # by the format that a step starts from


def backup_path(path: Path, version: int) -> Path:
    """Where a ledger of this format is kept when it is migrated."""
    return path.with_name(f"{path.name}.format-{version}")


def migrate(store: Store, opening: Opening, lock: Lock, probe: Probe = lambda _: None) -> int:
    """Bring a ledger to the present format, if it has the one before.

    Parameters
    ----------
    store : Store
        Its open file.
    opening : Opening
        How it is to be opened.
    lock : Lock
        Held.
    probe : callable
        Called with the name of each step; for tests of crashes.

    Returns
    -------
    int
        The format that it had; 0 if there was nothing to do.

    Raises
    ------
    LedgerError
        If it fails its verification, belongs to another agent, terms or budget, or the backup cannot
        be made; the ledger is then as it was.
    """
    path, found = opening.path, _format_of(store)
    if found not in STEPS:
        return 0
    header, _ = verified(store, path, lock, opening.key)
    check_original(path, header)
    check_identity(path, header, opening.identity)
    check_key(path, header, opening.key)
    probe("checked")
    _back_up(opening, found)
    probe("backed up")
    try:
        _change(store, opening, lock, header, probe)
    finally:
        store.rollback()
    return found


def _format_of(store: Store) -> int:
    """The format; 0 of a new file, and of one that the verification is to name."""
    try:
        return 0 if store.empty else int(store.meta()["format"])
    except (ValueError, KeyError, sqlite3.DatabaseError):
        return 0


def _back_up(opening: Opening, version: int) -> None:
    """The ledger as it was, marked as a backup; it replaces that of a migration that was cut off."""
    now = datetime.fromtimestamp(opening.clock.wall(), UTC).isoformat(" ", "seconds")
    target = backup_path(opening.path, version)
    copy_marked(opening.path, target, opening.key, {"copy": now}, None)


def _change(
    store: Store, opening: Opening, lock: Lock, header: LedgerContents, probe: Probe
) -> None:
    """One transaction: the steps, the entry in the chain, and the check of the result."""
    meta, first = store.meta(), int(header.meta["format"])
    store.begin()
    changed: dict[str, str | int | float] = {"format": LEDGER.newest}
    for version in range(first, LEDGER.newest):
        changed.update(STEPS[version](store))
        probe(f"from {version}")
    clock = LedgerClock(opening.clock, anchor_of(meta), float(meta["time"]))
    place = len(header.changes) + 1, int(meta["count"]), clock.now()
    words = f"veilsum {__version__}", "", f"format {first}", f"format {LEDGER.newest}"
    made = LedgerChange(*place, MIGRATED, *words, meta["head"], "")
    made = made._replace(hash=records.change_hash(meta["head"], made))
    store.add_change(made)
    write_meta(store, meta, opening.key, head=made.hash, time=made.time, **changed)
    result, _, _ = check_store(store, opening.key, lock.earlier)
    if not result.ok:
        raise LedgerError(
            f"ledger {opening.path} could not be migrated: {'; '.join(result.problems)}; it is as it "
            "was, and nothing was released; go on with the version of veilsum that wrote it, and report "
            "this"
        )
    probe("changed")
    store.commit()
    probe("committed")
    lock.record(int(meta["count"]), made.hash, int(meta["steps"]), pid=0)
