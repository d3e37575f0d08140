"""The ledger of one agent: a release is on disk before it is sent, and is never drawn twice.

    ledger = Ledger.open("north.ledger", manifest, "north", Budget(1.0))
    resumed = ledger.resume()                       # the state to continue from, the incarnation
    released = ledger.charge(1, 1, cost, draw)      # check the budget, draw, commit, then return
    ledger.save(state)                              # before anything is sent that relies on it
    ledger.close()

Charges always wait for the disk. With durability "process" the mixing state does not: it survives
`kill -9`, but after a power failure it may be old. `open` detects that by the machine's boot id and
starts a new incarnation: the neighbours roll back what they exchanged with the old one.

Whether the saved state can be continued is decided in the same transaction that marks the ledger as
open, so no crash can come between the two.
"""

from __future__ import annotations

import math
import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

from murmura import _validate
from murmura.agents.events import Released
from murmura.agents.ledger import budget as budgets
from murmura.agents.ledger import records
from murmura.agents.ledger.budget import BudgetTracker
from murmura.agents.ledger.records import (
    DEVICE_KEY,
    LEDGER_SECRET,
    EpsilonDelta,
    LedgerEntry,
    LedgerIdentity,
    OriginHasher,
    ReadingOrigin,
)
from murmura.agents.ledger.store import (
    Lock,
    Store,
    as_ledger_errors,
    failure,
    has_log,
    log_path,
)
from murmura.agents.ledger.verification import (
    SECRET_BYTES,
    LedgerContents,
    check_store,
    recorded_spent,
)
from murmura.agents.manifest import Manifest
from murmura.agents.messages import PeerStatus
from murmura.errors import LedgerError
from murmura.privacy.accounting import AccountTotals, Budget, PrivacyEvent

Draw = Callable[[], tuple[int, ...]]
Probe = Callable[[str], None]  # called with "checked", "drawn", "written", "committed" in a charge
FULL, PROCESS = "full", "process"
DURABILITIES = (FULL, PROCESS)
CLOSED = "it is closed"
RUN_BYTES = 8  # random bytes that distinguish one opening of a ledger from all others
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
FIELD_NAMES = {
    "agent": "agent",
    "terms": "terms of release (their sha256)",
    "unit": "unit of the budget",
    "window": "window",
    "epsilon": "budget epsilon",
    "delta": "budget delta",
}


class ResumePoint(NamedTuple):
    """Where an agent continues when its ledger is opened.

    Attributes
    ----------
    state : bytes or None
        The mixing state; without one the agent starts from its releases.
    incarnation : int
        How many times the agent started without its mixing state.
    """

    state: bytes | None
    incarnation: int


class Ledger:
    """The crash-safe record of one agent's releases; created by `Ledger.open`, for one process.

    Parameters
    ----------
    path : Path
        The file.
    lock, store : Lock, Store
        The open file, locked for this process.
    identity : LedgerIdentity
        Agent, release terms and budget.
    weight : int
        Weight of one release, in units of the manifest.
    key, durability, probe, device
        As for `Ledger.open`.

    Attributes
    ----------
    path : Path
        The file.
    identity : LedgerIdentity
        Agent, release terms and budget.
    secret : bytes
        Proves to this agent what it sent before; the same in every copy of the ledger.
    start : int
        How many times the ledger was opened.
    run : bytes
        Random; distinguishes this opening from that of any copy.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from murmura.agents import Ledger, Manifest
    >>> from murmura.privacy import Budget
    >>> from murmura.scenario import Scenario
    >>> scenario = Scenario.parse('''
    ... network = {graph = "ring:4", weights = "lazy-metropolis"}
    ... family = {name = "normal", sigma = 1.0, bounds = [0.0, 1.0]}
    ... signals = {draw = {mu = 0.5}}
    ... privacy = {protect = "signal", epsilon = 1.0}
    ... algorithm = {name = "average", rounds = 20}
    ... ''')
    >>> manifest = Manifest.of(scenario.build().problem, "ring")
    >>> with TemporaryDirectory() as folder:
    ...     with Ledger.open(Path(folder) / "0.ledger", manifest, "0", Budget(1.0)) as ledger:
    ...         ledger.releases, ledger.remaining
    (0, EpsilonDelta(epsilon=1.0, delta=0.0))
    """

    def __init__(
        self,
        path: Path,
        lock: Lock,
        store: Store,
        identity: LedgerIdentity,
        *,
        weight: int,
        key: bytes | None,
        durability: str,
        probe: Probe,
        device: bytes | None,
    ) -> None:
        """Use `open`."""
        self.path, self.identity = path, identity
        self._lock, self._store, self._weight, self._key = lock, store, weight, key
        self._waits, self._probe, self._pid = durability == FULL, probe, os.getpid()
        self._mutex = threading.RLock()
        self._broken = ""
        meta = store.meta()
        self._incarnation = int(meta["incarnation"])
        self._count, self._head = int(meta["count"]), meta["head"]
        self.secret = bytes.fromhex(meta["secret"])
        self.start, self.run = int(meta["starts"]), secrets.token_bytes(RUN_BYTES)
        self._origins = _origin_hasher(path, meta, device)
        self._budget = BudgetTracker.of(identity, store.entries())

    @classmethod
    def open(
        cls,
        path: str | Path,
        manifest: Manifest,
        agent: str,
        budget: Budget | None,
        *,
        unit: str = budgets.STREAM,
        window: int | None = None,
        key: bytes | None = None,
        durability: str = FULL,
        probe: Probe = lambda _: None,
        device: bytes | None = None,
    ) -> Ledger:
        """Open an agent's ledger, or create it if there is none.

        Under a manifest that differs in anything but the release terms (a new epoch) the releases
        stay, the mixing state is dropped and a new incarnation starts.

        Parameters
        ----------
        path : str or Path
            The ledger's file; its lock and log lie beside it.
        manifest : Manifest
            The terms of the network.
        agent : str
            Label of the agent.
        budget : Budget or None
            What may be spent; None where nothing is guaranteed.
        unit : str
            What the budget applies to: "stream", "window" or "event".
        window : int, optional
            Readings per window, with unit "window".
        key : bytes, optional
            Seals the ledger (`key_of`).
        durability : str
            "full": saving the mixing state waits for the disk. "process": it does not.
        probe : callable
            Called with the name of each step of a charge; for tests of crashes.
        device : bytes, optional
            A secret of the device (`Credentials.secret`), which outlives the ledger: it identifies
            readings, and lets the agent recognise what it sent even if the ledger is lost.

        Returns
        -------
        Ledger
            Open and locked until `close`.

        Raises
        ------
        LedgerError
            If the ledger is open elsewhere, fails its verification, cannot be written, or was
            created for another agent, other release terms, another unit or another budget.
        """
        _validate.one_of(LedgerError, DURABILITIES, durability=durability)
        file = Path(path)
        identity = LedgerIdentity.of(agent, manifest, budget, unit, window)
        BudgetTracker(identity)  # raises if the unit or window is invalid
        with ExitStack() as undo, as_ledger_errors(file, "open it"):
            lock = Lock(file)
            undo.callback(lock.close)
            store = _open_store(file, lock, identity, manifest, key, durability, device)
            undo.callback(store.close)
            made = cls(
                file,
                lock,
                store,
                identity,
                weight=1 << manifest.unit,
                key=key,
                durability=durability,
                probe=probe,
                device=device,
            )
            lock.record(made._count, made._head)
            undo.pop_all()
            return made

    @property
    def incarnation(self) -> int:
        """How many times the agent started without its mixing state."""
        return self._incarnation

    @property
    def spent(self) -> EpsilonDelta:
        """Spent in total, in the most expensive window or on the most expensive reading."""
        return self._budget.spent

    @property
    def remaining(self) -> EpsilonDelta:
        """What remains of the budget."""
        return self._budget.remaining

    @property
    def releases(self) -> int:
        """The number of releases."""
        return self._count

    def totals(self) -> AccountTotals:
        """What was spent per reading, per window and in total; reads the whole ledger."""
        if self.identity.budget is None:
            raise LedgerError(
                f"ledger {self.path} guarantees nothing, so there is nothing to total"
            )
        with self._mutex, as_ledger_errors(self.path, "read it"):
            return budgets.totals(self.identity, self._usable().entries())

    def released(self) -> tuple[Released, ...]:
        """Every release, in order."""
        with self._mutex, as_ledger_errors(self.path, "read it"):
            return tuple(entry.released for entry in self._usable().entries())

    def find(self, reading: int) -> Released | None:
        """The release of a reading, if there is one."""
        with self._mutex, as_ledger_errors(self.path, "read it"):
            found = self._usable().find(reading)
        return None if found is None else found.released

    def set_naming(self, naming: str) -> None:
        """Store what identifies a reading in its source; raise if releases were named otherwise.

        Under other names every reading would look new and be released a second time.
        """
        with self._mutex, as_ledger_errors(self.path, "read it"):
            stored = self._usable().meta().get("naming")
            if stored is None or not self._count:
                self._usable().put_meta(naming=naming)
            elif stored != naming:
                raise LedgerError(
                    f"ledger {self.path} identifies readings by {stored}, and the source now "
                    f"identifies them by {naming}: released readings could not be distinguished from new "
                    "ones; nothing was released; restore the former [readings] key, or use a new "
                    "ledger with readings that were never released"
                )

    def hash_origin(self, origin: ReadingOrigin | None, reading: int) -> str:
        """The keyed hash under which the origin of a reading is stored."""
        return self._origins.hash(origin, reading)

    def origin_of(self, reading: int) -> str | None:
        """The origin hash of a released reading, or None if it was not released."""
        with self._mutex, as_ledger_errors(self.path, "read it"):
            found = self._usable().find(reading)
        return None if found is None else found.origin

    def has_origin(self, origin: str) -> bool:
        """Whether a reading with this origin hash was released."""
        with self._mutex, as_ledger_errors(self.path, "read it"):
            return self._usable().find_origin(origin) is not None

    def _existing(self, reading: int, origin: str) -> Released | None:
        """The release there is, by the reading's number or by its origin."""
        with as_ledger_errors(self.path, "read it"):
            store = self._usable()
            found, same = store.find(reading), store.find_origin(origin)
        if same is not None:
            return same.released
        if found is not None and origin and found.origin:
            raise LedgerError(
                f"ledger {self.path} holds the release of another reading under number {reading}: "
                "the source was rewritten; nothing was released; give the agent the readings it had"
            )
        return None if found is None else found.released

    def charge(
        self, reading: int, round: int, cost: PrivacyEvent | None, draw: Draw, origin: str = ""
    ) -> Released:
        """Return the release of a reading: the stored one, or a new one that is charged and on disk.

        If the ledger cannot be written, what was drawn is discarded and nothing can be released
        until the ledger is opened again.

        Parameters
        ----------
        reading : int
            Number of the reading, from 1.
        round : int
            Round in which it enters.
        cost : PrivacyEvent or None
            What the release costs; None where nothing is guaranteed.
        draw : callable
            Draws the release; called only if there is none yet and the budget suffices.
        origin : str
            Hash of the reading's origin (`hash_origin`): a release with the same origin is
            returned whatever its number.

        Returns
        -------
        Released
            The noised statistic, committed.

        Raises
        ------
        BudgetExceeded
            If the budget does not suffice; `draw` is not called.
        LedgerError
            If the ledger cannot be read or written.
        """
        _validate.at_least(LedgerError, 1, reading=reading)
        _validate.at_least(LedgerError, 0, round=round)
        with self._mutex:
            existing = self._existing(reading, origin)
            if existing is not None:
                return existing
            after = self._budget.admit(
                reading, cost, lambda width: self._usable().within(reading, width)
            )
            self._probe("checked")
            sums = tuple(int(number) for number in draw())
            self._probe("drawn")
            paid = (math.inf, 0.0) if cost is None else (float(cost.epsilon), float(cost.delta))
            fields = (self._count + 1, reading, round, *paid, sums, self._weight, origin)
            hashed = records.entry_hash(self._head, *fields)
            entry = LedgerEntry(*fields, self._head, hashed)
            self._write(entry)
            self._budget.add(entry, after)
            self._probe("committed")
            return entry.released

    def peers(self) -> dict[str, PeerStatus]:
        """The last known status of every neighbour, by name: of any incarnation and epoch."""
        with self._mutex, as_ledger_errors(self.path, "read it"):
            return self._usable().peers()

    def save_peers(self, peers: Mapping[str, PeerStatus]) -> None:
        """Store the status of neighbours, beyond this incarnation and epoch."""
        with self._mutex:
            store = self._usable()
            try:
                store.wait_for_disk(self._waits)
                store.save_peers(peers)
            except sqlite3.Error as problem:
                raise self._fail("save the status of its neighbours", problem) from problem

    def save(self, state: bytes, round: int = 0) -> None:
        """Replace the mixing state.

        An empty state declares that none is saved for now: unless another is saved before the
        ledger is next opened, that opening starts a new incarnation.
        """
        with self._mutex:
            store = self._usable()
            try:
                store.wait_for_disk(self._waits)
                store.save_state(state, round, records.state_checksum(self._key, state))
            except sqlite3.Error as problem:
                raise self._fail("save the state", problem) from problem

    def load(self) -> bytes | None:
        """The mixing state, or None if there is none to continue from."""
        with self._mutex, as_ledger_errors(self.path, "read it"):
            found = self._usable().state()
        return (found[0] or None) if found else None

    def resume(self) -> ResumePoint:
        """Where to continue; `open` started a new incarnation if the state was lost or doubtful."""
        return ResumePoint(self.load(), self._incarnation)

    def new_incarnation(self, state: bytes | None = None) -> int:
        """Begin a new incarnation with a mixing state or none, keep the releases, all at once.

        On the disk when this returns. An empty state is as for `save`.
        """
        with self._mutex:
            store = self._usable()
            try:
                store.wait_for_disk(True)
                store.begin()
                store.drop_state()
                if state is not None:
                    store.save_state(state, 0, records.state_checksum(self._key, state))
                spent, following = self._budget.total.rounded, self._incarnation + 1
                seal = records.seal(
                    self._key, self.identity, self._count, self._head, spent, following
                )
                store.put_meta(incarnation=following, seal=seal)
                store.commit()
            except sqlite3.Error as problem:
                raise self._fail("start a new incarnation", problem) from problem
            self._incarnation = following
            return following

    def close(self) -> None:
        """Mark it as closed and release it; may be called twice.

        After a failed write it is not marked, and the next opening starts a new incarnation.
        """
        with self._mutex:
            if self._broken == CLOSED:
                return
            healthy, self._broken = not self._broken, CLOSED
            try:
                if healthy and self._pid == os.getpid():
                    with as_ledger_errors(self.path, "close it"):
                        self._store.wait_for_disk(True)
                        self._store.put_meta(closed=1)
                        self._lock.record(self._count, self._head, pid=0)
            finally:
                self._store.close()
                self._lock.close()

    def __enter__(self) -> Ledger:
        """Use it in a `with`."""
        return self

    def __exit__(self, *problem: object) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        """The file, the agent and the number of releases; no value of a release."""
        return f"Ledger({str(self.path)!r}, {self.identity.agent!r}, {self._count} releases)"

    def _usable(self) -> Store:
        if self._broken:
            raise LedgerError(f"ledger {self.path}: {self._broken}; nothing was released")
        if self._pid != os.getpid():
            raise LedgerError(
                f"ledger {self.path} was opened by process {self._pid}, and this is its child "
                f"{os.getpid()}; nothing was released; open the ledger after forking"
            )
        return self._store

    def _write(self, entry: LedgerEntry) -> None:
        store, spent = self._usable(), self._budget.total.plus(entry.epsilon, entry.delta).rounded
        try:
            store.wait_for_disk(True)
            store.begin()
            store.append(entry)
            store.put_meta(
                count=entry.seq,
                head=entry.hash,
                spent_epsilon=spent.epsilon,
                spent_delta=spent.delta,
                seal=records.seal(
                    self._key, self.identity, entry.seq, entry.hash, spent, self._incarnation
                ),
            )
            self._probe("written")
            store.commit()
            self._lock.record(entry.seq, entry.hash)
        except (sqlite3.Error, OSError) as problem:
            raise self._fail(f"write the release of reading {entry.reading}", problem) from problem
        self._count, self._head = entry.seq, entry.hash

    def _fail(self, operation: str, problem: Exception) -> LedgerError:
        """After a failed write the contents of the disk are unknown until it is opened again."""
        self._broken = "an earlier write failed; open it again"
        try:
            self._store.rollback()
        except sqlite3.Error:
            self._broken = "an earlier write failed, and could not be undone; open it again"
        return failure(self.path, operation, problem)


def _open_store(
    path: Path,
    lock: Lock,
    identity: LedgerIdentity,
    manifest: Manifest,
    key: bytes | None,
    durability: str,
    device: bytes | None,
) -> Store:
    """Open or create the file, check it, and mark it as in use."""
    had_log = has_log(path)
    recorded = 0 if lock.earlier is None else lock.earlier.releases
    if recorded and not (path.exists() and path.stat().st_size):
        raise LedgerError(
            f"ledger {path} is missing or empty, and its lock file records {recorded} releases; "
            "nothing was released; restore the latest copy of the ledger"
        )
    store = Store(path)
    try:
        store.checkpoint()
        if store.empty and not recorded:
            _create(store, identity, manifest, key, durability, device)
        else:
            _resume(store, path, lock, identity, manifest, key, durability, had_log)
        store.checkpoint()  # the database is marked as in use; the log is not empty until `close`
        return store
    except BaseException:
        store.close()
        raise


def _create(
    store: Store,
    identity: LedgerIdentity,
    manifest: Manifest,
    key: bytes | None,
    durability: str,
    device: bytes | None,
) -> None:
    head = records.genesis_hash(identity)
    # With this secret an agent recognises what it sent, even after an older copy was restored;
    # derived from the device's key, even after the ledger was lost.
    secret = (
        secrets.token_bytes(SECRET_BYTES)
        if device is None
        else records.derive(device, "proofs of messages", identity.agent)
    )
    store.begin()
    store.create()
    store.put_meta(
        format=records.FORMAT,
        **identity._asdict(),
        **_manifest_meta(manifest),
        **_usage_meta(durability),
        secret=secret.hex(),
        origin_key=LEDGER_SECRET if device is None else DEVICE_KEY,
        origin_key_fingerprint=OriginHasher(device or secret, identity.agent).fingerprint,
        incarnation=1,
        starts=1,
        count=0,
        head=head,
        spent_epsilon=0.0,
        spent_delta=0.0,
        seal=records.seal(key, identity, 0, head, EpsilonDelta(0.0, 0.0), 1),
    )
    store.commit()


def _resume(
    store: Store,
    path: Path,
    lock: Lock,
    identity: LedgerIdentity,
    manifest: Manifest,
    key: bytes | None,
    durability: str,
    had_log: bool,
) -> None:
    contents = _verified(store, path, lock, key)
    _check_identity(path, contents.identity, identity)
    if contents.sealed and key is None:
        raise LedgerError(
            f"ledger {path} is sealed with a key; nothing was released; give the key that it was "
            "made with"
        )
    if not (contents.closed or had_log) and lock.earlier is None:
        raise LedgerError(
            f"ledger {path} was not closed, and its write-ahead log {log_path(path).name} is "
            "missing: releases may be missing too; nothing was released; restore the log, or the "
            "lock file if there is one"
        )
    renewed = _starts_incarnation(store, contents, manifest, had_log)
    incarnation = contents.incarnation + renewed
    seal = records.seal(
        key,
        identity,
        len(contents.entries),
        contents.meta["head"],
        recorded_spent(contents),
        incarnation,
    )
    store.begin()
    if renewed:
        store.drop_state()
    store.put_meta(
        **_manifest_meta(manifest),
        **_usage_meta(durability),
        incarnation=incarnation,
        starts=int(contents.meta["starts"]) + 1,
        seal=seal,
    )
    store.commit()


def _verified(store: Store, path: Path, lock: Lock, key: bytes | None) -> LedgerContents:
    """The contents of the ledger, provided that it passes its verification."""
    try:
        found, contents = check_store(store, key, lock.earlier)
    except (ValueError, KeyError, TypeError) as problem:
        raise LedgerError(
            f"ledger {path} does not have the contents of a ledger ({type(problem).__name__}); "
            "nothing was released; check the path, or restore the latest copy"
        ) from problem
    if not found.ok:
        raise LedgerError(
            f"ledger {path} cannot be trusted: {'; '.join(found.problems)}; nothing was "
            "released; restore the latest copy, or use a new ledger under a new name, because "
            "neighbours remember this one"
        )
    return contents


def _check_identity(path: Path, stored: LedgerIdentity, expected: LedgerIdentity) -> None:
    for name, was, now in zip(LedgerIdentity._fields, stored, expected, strict=True):
        if was != now:
            raise LedgerError(
                f"ledger {path} was made for {FIELD_NAMES[name]} {was}, and this agent has {now}; "
                "nothing was released; use the ledger that belongs to it, or a new file"
            )


def _starts_incarnation(
    store: Store, contents: LedgerContents, manifest: Manifest, had_log: bool
) -> bool:
    """Whether the epoch is new, no state was to be saved, or the saved one may be old.

    It may be old after a power failure if saving did not wait for the disk, or without the log.
    """
    if contents.manifest != manifest.digest.hex() or not (contents.closed or had_log):
        return True
    state = store.state()
    if state is not None and not state[0]:
        return True
    waited = contents.closed or contents.meta["durability"] == FULL
    same_boot = bool(boot_id()) and contents.meta["boot"] == boot_id()
    return not (waited or same_boot)


def _manifest_meta(manifest: Manifest) -> dict[str, str | int]:
    return {"manifest": manifest.digest.hex(), "name": manifest.name, "epoch": manifest.epoch}


def _usage_meta(durability: str) -> dict[str, str | int]:
    return {"durability": durability, "boot": boot_id(), "closed": 0}


def boot_id() -> str:
    """Identifies the machine's last boot; empty if unknown."""
    with suppress(OSError):
        return BOOT_ID.read_text().strip()
    return ""


def _origin_hasher(path: Path, meta: dict[str, str], device: bytes | None) -> OriginHasher:
    """The hasher with the key that the ledger was created with."""
    secret = bytes.fromhex(meta["secret"]) if meta["origin_key"] == LEDGER_SECRET else device
    found = None if secret is None else OriginHasher(secret, meta["agent"])
    if found is not None and found.fingerprint == meta["origin_key_fingerprint"]:
        return found
    raise LedgerError(
        f"ledger {path} identifies its readings with the private key of its device, and "
        f"{'none was given' if secret is None else 'this is another one'}: released rows could "
        "not be recognised; nothing was released; restore the device's key (renewing a "
        "certificate keeps it)"
    )
