"""The ledger of one agent: a release is on disk before it is sent, and is never drawn twice.

    ledger = Ledger.open("north.ledger", manifest, "north", Budget(1.0))
    resumed = ledger.resume()                       # the state to continue from, the incarnation
    released = ledger.charge(1, 1, cost, draw)      # check the budget, draw, commit, then return
    ledger.save(state)                              # before anything is sent that relies on it
    ledger.close()

Charges always wait for the disk. With durability "process" the mixing state does not: it survives
`kill -9`, but after a power failure it may be old. `open` detects that by the machine's boot id and
starts a new incarnation: the neighbours roll back what they exchanged with the old one.
"""

from __future__ import annotations

import math
import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from murmura import _validate
from murmura.agents.events import Released
from murmura.agents.ledger import budget as budgets
from murmura.agents.ledger import records
from murmura.agents.ledger.budget import BudgetStatus, BudgetTracker
from murmura.agents.ledger.clock import MACHINE, SystemClock
from murmura.agents.ledger.meters import Charge
from murmura.agents.ledger.opening import (
    FULL,
    OpenedStore,
    Opening,
    check_arguments,
    open_store,
    origin_hasher,
    write_meta,
)
from murmura.agents.ledger.periods import ROLLING, Period
from murmura.agents.ledger.records import (
    EpsilonDelta,
    LedgerEntry,
    LedgerIdentity,
    ReadingOrigin,
)
from murmura.agents.ledger.store import Lock, Store, as_ledger_errors, failure
from murmura.agents.manifest import Manifest
from murmura.agents.messages import PeerStatus
from murmura.errors import LedgerError
from murmura.privacy.accounting import AccountTotals, Budget, PrivacyEvent

Draw = Callable[[], tuple[int, ...]]
Probe = Callable[[str], None]  # called with "checked", "drawn", "written", "committed" in a charge
CLOSED = "it is closed"
RUN_BYTES = 8  # random bytes that distinguish one opening of a ledger from all others


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
    lock, opened : Lock, OpenedStore
        The open file, locked for this process.
    opening : Opening
        How it was opened.
    weight : int
        Weight of one reading, in units of the manifest.
    probe : callable
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
        self, lock: Lock, opened: OpenedStore, opening: Opening, weight: int, probe: Probe
    ) -> None:
        """Use `open`."""
        self.path, self.identity = opening.path, opening.identity
        self._lock, self._weight, self._key = lock, weight, opening.key
        self._store, self._meta, self._budget, self._clock, self._last = opened
        self._waits, self._probe, self._pid = opening.durability == FULL, probe, os.getpid()
        self._mutex = threading.RLock()
        self._broken = ""
        meta = opened.meta
        self._count, self._head = int(meta["count"]), meta["head"]
        self.secret = bytes.fromhex(meta["secret"])
        self.start, self.run = int(meta["starts"]), secrets.token_bytes(RUN_BYTES)
        self._origins = origin_hasher(opening.path, meta, opening.device)
        self._members = set(opened.store.peers())

    @classmethod
    def open(
        cls,
        path: str | Path,
        manifest: Manifest,
        agent: str,
        budget: Budget | None,
        *,
        unit: str = records.STREAM,
        window: int | None = None,
        per: str | float | None = None,
        refill: str = ROLLING,
        zone: str = "UTC",
        key: bytes | None = None,
        durability: str = FULL,
        probe: Probe = lambda _: None,
        device: bytes | None = None,
        clock: SystemClock = MACHINE,
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
            Label of the agent, a member of the manifest.
        budget : Budget or None
            What may be spent; None where nothing is guaranteed.
        unit : str
            What the budget applies to: "stream", "window" or "event".
        window : int, optional
            Readings per window, with unit "window".
        per : str or float, optional
            The period that the budget is for, with unit "stream": "day", "week", "month", a
            duration such as "12h", or a number of seconds.
        refill : str
            "rolling": any two releases less than a period apart count together. "fixed": releases
            of the same period of the calendar do.
        zone : str
            Time zone of the calendar.
        key : bytes, optional
            Seals the ledger (`key_of`).
        durability : str
            "full": saving the mixing state waits for the disk. "process": it does not.
        probe : callable
            Called with the name of each step of a charge; for tests of crashes.
        device : bytes, optional
            A secret of the device (`Credentials.secret`), which outlives the ledger: it identifies
            readings, and lets the agent recognise what it sent even if the ledger is lost.
        clock : SystemClock
            The clocks of the machine; for tests.

        Returns
        -------
        Ledger
            Open and locked until `close`.

        Raises
        ------
        LedgerError
            If an argument means nothing; if the ledger is open elsewhere, fails its verification,
            cannot be written, or was created for another agent, other release terms, another unit
            or another budget.
        """
        check_arguments(
            path, manifest, agent, budget, unit=unit, per=per, refill=refill, zone=zone, key=key,
            durability=durability, device=device,
        )  # fmt: skip
        file = Path(path)
        period = None if per is None else Period.of(per, refill, zone)
        identity = LedgerIdentity.of(agent, manifest, budget, unit, window, period)
        BudgetTracker(identity)  # raises if the unit or window is invalid
        opening = Opening(file, identity, manifest, key, durability, device, clock)
        with ExitStack() as undo, as_ledger_errors(file, "open it"):
            lock = Lock(file)
            undo.callback(lock.close)
            opened = open_store(opening, lock)
            undo.callback(opened.store.close)
            made = cls(lock, opened, opening, 1 << manifest.unit, probe)
            lock.record(made._count, made._head)
            undo.pop_all()
            return made

    @property
    def incarnation(self) -> int:
        """How many times the agent started without its mixing state."""
        return int(self._meta["incarnation"])

    @property
    def spent(self) -> EpsilonDelta:
        """Spent in total or in this period; in the most expensive window, on the dearest reading."""
        with self._mutex:
            return self._budget.spent(self._clock.now())

    @property
    def remaining(self) -> EpsilonDelta:
        """What remains of the budget."""
        with self._mutex:
            return self._budget.spending(self._clock.now()).remaining

    def budget_status(self) -> BudgetStatus:
        """What is left for the next reading, and when the budget is refilled."""
        with self._mutex:
            return self._budget.status(self._clock.now())

    @property
    def now(self) -> float:
        """The ledger's time: seconds since 1970, never decreasing, not moved by setting the clock."""
        return self._clock.now()

    @property
    def clock_report(self) -> str:
        """What a difference between the machine's clock and the ledger's time means; mostly empty."""
        return self._clock.report()

    @property
    def restored(self) -> bool:
        """Whether it continues a backup and nothing was released since: see `confirm_restored`."""
        return self._meta["restored"] == "1"

    @property
    def last_reading(self) -> int:
        """Number of the last reading that was released or passed over; 0 if there is none."""
        return max(self._last, int(self._meta["passed"]))

    def last_release_time(self) -> float | None:
        """When the last release was made, in seconds since 1970; None if there is none."""
        with self._mutex, as_ledger_errors(self.path, "read it"):
            return self._usable().last_time()

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
            store, stored = self._usable(), self._meta["naming"]
            if stored == naming:
                return
            if not stored or not self._count:
                self._transact(store, naming=naming)
            else:
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
        """The origin hash of a released reading, by its number; None if it was not released."""
        with self._mutex, as_ledger_errors(self.path, "read it"):
            found = self._usable().covering(reading)
        if found is None or not found.origins:
            return None if found is None else ""
        return found.origins[reading - found.first] or None

    def has_origin(self, origin: str) -> bool:
        """Whether a reading with this origin hash was released or passed over."""
        with self._mutex, as_ledger_errors(self.path, "read it"):
            return self._usable().has_origin(origin)

    def was_passed_over(self, origin: str) -> bool:
        """Whether a reading with this origin hash was passed over."""
        with self._mutex, as_ledger_errors(self.path, "read it"):
            return self._usable().was_passed_over(origin)

    def _existing(self, asked: Charge, reading: int, origins: tuple[str, ...]) -> Released | None:
        """The release there is, by its number or by the origins of its readings."""
        with as_ledger_errors(self.path, "read it"):
            store = self._usable()
            named = [name for name in origins if name]
            known = [found for name in named if (found := store.find_origin(name)) is not None]
            passed = sum(map(store.was_passed_over, named))
            numbered = store.find(reading)
            overlapping = store.between(asked.first, asked.last)
        if known and len(known) == len(named) and len({found.seq for found in known}) == 1:
            return known[0].released
        if known:
            raise LedgerError(
                f"ledger {self.path} holds releases of {len(known)} of the {len(named)} readings in "
                f"batch {reading}: they would be released twice; nothing was released; leave them "
                "out of the batch"
            )
        if passed:
            raise LedgerError(
                f"ledger {self.path} has passed over {passed} of the readings in release {reading}, "
                "and such a reading is never released; nothing was released; leave it out"
            )
        if numbered is not None and not (named and any(numbered.origins)):
            return numbered.released
        if numbered is not None or overlapping:
            raise LedgerError(
                f"ledger {self.path} holds the release of another reading under number "
                f"{reading if numbered is not None else asked.last}: "
                "the source was rewritten; nothing was released; give the agent the readings it had"
            )
        return None

    def charge(
        self,
        reading: int,
        round: int,
        cost: PrivacyEvent | None,
        draw: Draw,
        origins: str | Sequence[str] = (),
        readings: int = 1,
        last: int | None = None,
    ) -> Released:
        """Return a release: the stored one, or a new one that is charged and on disk.

        If the ledger cannot be written, what was drawn is discarded and nothing can be released
        until the ledger is opened again.

        Parameters
        ----------
        reading : int
            Number of the release, from 1: that of the reading, where each is released by itself.
        round : int
            Round in which it enters.
        cost : PrivacyEvent or None
            What the release costs each reading in it; None where nothing is guaranteed.
        draw : callable
            Draws the release; called only if there is none yet and the budget suffices.
        origins : str or sequence of str
            Hashes of the readings' origins (`hash_origin`), in order of their numbers up to
            `last`, empty for a number that is not in it: a release of the same origins is returned
            whatever its number.
        readings : int
            How many readings are in it: more than 1 in a batch.
        last : int, optional
            Number of the last reading in it; a batch states it, and for one reading it is
            `reading` by default.

        Returns
        -------
        Released
            The noised statistic, committed.

        Raises
        ------
        BudgetExceeded
            If the budget does not suffice; `draw` is not called.
        LedgerError
            If the ledger cannot be read or written, or only a part of a batch was released before.
        """
        names = (origins,) if isinstance(origins, str) and origins else tuple(origins)
        _validate.at_least(LedgerError, 1, reading=reading, readings=readings)
        _validate.at_least(LedgerError, 0, round=round)
        if last is None:
            if readings > 1:
                raise LedgerError(
                    f"release {reading} is a batch of {readings} readings; give `last`, the number "
                    "of the last one; nothing was released"
                )
            last = reading
        _validate.at_least(LedgerError, max(readings, len(names)), last=last)
        if names and len(names) < readings:
            raise LedgerError(
                f"release {reading} is a batch of {readings} readings with {len(names)} origins; "
                "give one for each; nothing was released"
            )
        paid = (math.inf, 0.0) if cost is None else (float(cost.epsilon), float(cost.delta))
        first = last - max(readings, len(names)) + 1
        with self._mutex:
            asked = Charge(first, last, readings, self._clock.now(), *paid)
            existing = self._existing(asked, reading, names)
            if existing is not None:
                return existing
            if self.restored:
                raise LedgerError(
                    f"ledger {self.path} was restored from a backup, and not all neighbours have "
                    "sent what they remember of it: this reading may have been released since; "
                    "nothing was released; wait for them"
                )
            self._budget.admit(asked, cost is not None)
            self._probe("checked")
            sums = tuple(int(number) for number in draw())
            self._probe("drawn")
            entry = LedgerEntry(
                self._count + 1, reading, last, readings, round, asked.time, *paid, sums,
                readings * self._weight, names, self._head, "",
            )  # fmt: skip
            entry = entry._replace(hash=records.entry_hash(self._head, entry.row))
            self._write(entry)
            self._last = max(self._last, last)
            self._budget.add(asked)
            self._probe("committed")
            return entry.released

    @property
    def spool_mark(self) -> str:
        """What the spool beside it holds, as `mark_spool` stored it; empty without a spool."""
        return self._meta["spool"]

    def mark_spool(self, mark: str) -> None:
        """Store what the spool holds; on the disk when this returns."""
        with self._mutex:
            self._transact(self._usable(), spool=mark)

    def pass_over(self, reading: int, origins: Sequence[str] = ()) -> None:
        """Record readings that will never be released; on the disk when this returns.

        Parameters
        ----------
        reading : int
            Later readings have higher numbers than this, after a restart too.
        origins : sequence of str
            Origin hashes of the readings: `has_origin` recognises them, and `charge` refuses them.
        """
        _validate.at_least(LedgerError, 0, reading=reading)
        with self._mutex:
            with as_ledger_errors(self.path, "read it"):
                store = self._usable()
                known = store.was_passed_over
                new = [name for name in dict.fromkeys(origins) if name and not known(name)]
            count, head = int(self._meta["passed_count"]), self._meta["passed_head"]
            rows = list(enumerate(new, count + 1))
            for number, origin in rows:
                head = records.passed_hash(head, number, origin)
            changed = {"passed": max(reading, int(self._meta["passed"]))}
            if not rows and str(changed["passed"]) == self._meta["passed"]:
                return
            self._transact(store, rows, **changed, passed_count=count + len(rows), passed_head=head)

    def confirm_restored(self) -> None:
        """Allow releases again: all neighbours have confirmed that this ledger is complete.

        Until then a ledger restored from a backup releases nothing, since a reading may have been
        released after the backup was made.
        """
        with self._mutex:
            store = self._usable()
            if self.restored:
                self._transact(store, restored=0)

    def peers(self) -> dict[str, PeerStatus]:
        """The last known status of every neighbour, by name: of any incarnation and epoch."""
        with self._mutex, as_ledger_errors(self.path, "read it"):
            return {name: status for name, (status, _) in self._usable().peers().items()}

    def save_peers(self, peers: Mapping[str, PeerStatus]) -> None:
        """Store the status of neighbours, beyond this incarnation and epoch."""
        with self._mutex:
            store, key = self._usable(), self._key
            rows = {
                name: (status, records.peer_checksum(key, name, status))
                for name, status in peers.items()
            }
            try:
                store.wait_for_disk(self._waits)
                if self._members.issuperset(rows):
                    store.save_peers(rows)
                    return
                members = self._members.union(rows)
                store.begin()
                store.save_peers(rows)
                write_meta(store, self._meta, key, peers=len(members))
                store.commit()
            except sqlite3.Error as problem:
                raise self._fail("save the status of its neighbours", problem) from problem
            self._members = members

    def save(self, state: bytes, round: int = 0) -> None:
        """Replace the mixing state.

        An empty state declares that none is saved for now: unless another is saved before the
        ledger is next opened, that opening starts a new incarnation.
        """
        with self._mutex:
            store = self._usable()
            checksum = records.state_checksum(self._key, self.incarnation, round, state)
            try:
                store.wait_for_disk(self._waits)
                if self._meta["state"] == "1":
                    store.save_state(state, round, checksum)
                    return
                store.begin()
                store.save_state(state, round, checksum)
                write_meta(store, self._meta, self._key, state=1)
                store.commit()
            except sqlite3.Error as problem:
                raise self._fail("save the state", problem) from problem

    def load(self) -> bytes | None:
        """The mixing state, or None if there is none to continue from."""
        with self._mutex, as_ledger_errors(self.path, "read it"):
            found = self._usable().state()
        return (found[0] or None) if found else None

    def resume(self) -> ResumePoint:
        """Where to continue; `open` started a new incarnation if the state was lost or doubtful."""
        return ResumePoint(self.load(), self.incarnation)

    def new_incarnation(self, state: bytes | None = None) -> int:
        """Begin a new incarnation with a mixing state or none, keep the releases, all at once.

        On the disk when this returns. An empty state is as for `save`.
        """
        with self._mutex:
            store, following = self._usable(), self.incarnation + 1
            try:
                store.wait_for_disk(True)
                store.begin()
                store.drop_state()
                if state is not None:
                    checksum = records.state_checksum(self._key, following, 0, state)
                    store.save_state(state, 0, checksum)
                there = int(state is not None)
                write_meta(store, self._meta, self._key, incarnation=following, state=there)
                store.commit()
            except sqlite3.Error as problem:
                raise self._fail("start a new incarnation", problem) from problem
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
                        self._store.begin()
                        now = self._clock.now()
                        write_meta(self._store, self._meta, self._key, closed=1, time=now)
                        self._store.commit()
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

    def _transact(
        self, store: Store, passed: Sequence[tuple[int, str]] = (), /, **changed: str | int
    ) -> None:
        """Change metadata, add what is passed over; on the disk when this returns."""
        try:
            store.wait_for_disk(True)
            store.begin()
            store.pass_over(passed)
            write_meta(store, self._meta, self._key, **changed)
            store.commit()
        except sqlite3.Error as problem:
            raise self._fail("write it", problem) from problem

    def _write(self, entry: LedgerEntry) -> None:
        store = self._usable()
        try:
            store.wait_for_disk(True)
            store.begin()
            store.append(entry)
            write_meta(
                store, self._meta, self._key, count=entry.seq, head=entry.hash, time=entry.time
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
