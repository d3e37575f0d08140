"""The ledger of one agent: a release is on disk before anyone sees it, and is never drawn twice.

    ledger = Ledger.open("north.ledger", manifest, "north", Budget(1.0))
    resumed = ledger.resume()                       # the state to go on from, and the life
    released = ledger.charge(1, 1, price, draw)     # budget, draw, commit, and only then return
    ledger.save(state)                              # before anything is sent that relies on it
    ledger.close()

Charges always wait for the disk. With durability "process" the state of mixing does not: it
survives `kill -9`, but after a power cut it may be old, which `open` sees by the machine's boot id
and answers with a new life: the neighbours undo what they exchanged with the old one.
"""

from __future__ import annotations

import math
import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from murmura import _validate
from murmura.agent.events import Released
from murmura.agent.ledger import account, chain
from murmura.agent.ledger.faults import failed, told
from murmura.agent.ledger.lock import Lock
from murmura.agent.ledger.origins import Origin
from murmura.agent.ledger.records import Entry, Identity, Spent
from murmura.agent.ledger.session import DURABILITIES, FULL, begin, finish, origins
from murmura.agent.ledger.store import Store
from murmura.agent.manifest import Manifest
from murmura.agent.messages import Standing
from murmura.errors import LedgerError
from murmura.privacy.accounting import Budget, Loss, Totals

Draw = Callable[[], tuple[int, ...]]
Probe = Callable[[str], None]  # told "checked", "drawn", "written" and "committed" during a charge
CLOSED = "it is closed"
RUN = 8  # bytes that tell one opening of a ledger from all others


class Resumed(NamedTuple):
    """Where an agent stands when its ledger is opened; without a state it begins anew."""

    state: bytes | None
    life: int


class Ledger:
    """See the module; made by `Ledger.open`, and for one process."""

    def __init__(
        self,
        path: Path,
        lock: Lock,
        store: Store,
        identity: Identity,
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
        held = store.meta()
        self._life, self._count, self._head = int(held["life"]), int(held["count"]), held["head"]
        self.secret = bytes.fromhex(held["secret"])  # in every copy of it; for `core.tokens` only
        self.start, self.run = int(held["starts"]), secrets.token_bytes(RUN)
        self._origins = origins(path, held, device)
        self._account = account.Account.of(identity, store.entries())

    @classmethod
    def open(
        cls,
        path: str | Path,
        manifest: Manifest,
        agent: str,
        budget: Budget | None,
        *,
        unit: str = account.STREAM,
        window: int | None = None,
        key: bytes | None = None,
        durability: str = FULL,
        probe: Probe = lambda _: None,
        device: bytes | None = None,
    ) -> Ledger:
        """Open an agent's ledger, or make it where there is none.

        `device` is a secret of the device (`Credentials.secret`), which outlives the ledger: by it
        readings are named, and what the agent said is recognised even if the ledger is lost.

        Refused, with a `LedgerError` that says why: a ledger that is open elsewhere, fails its
        verification, or was made for another agent, other terms of release, another unit or
        budget. Under a manifest that differs in anything else (a new epoch) the releases are kept,
        the state is dropped and a new life begins. A `budget` of None promises nothing.
        """
        _validate.one_of(LedgerError, DURABILITIES, durability=durability)
        place = Path(path)
        identity = Identity.of(agent, manifest, budget, unit, window)
        account.Account(identity)  # refuses a unit or window that makes no sense
        with ExitStack() as undo, told(place, "open it"):
            lock = Lock(place)
            undo.callback(lock.close)
            store = begin(place, lock, identity, manifest, key, durability, device)
            undo.callback(store.close)
            made = cls(
                place,
                lock,
                store,
                identity,
                weight=1 << manifest.unit,
                key=key,
                durability=durability,
                probe=probe,
                device=device,
            )
            lock.note(made._count, made._head)
            undo.pop_all()
            return made

    @property
    def life(self) -> int:
        """How many times the agent began without its state of mixing."""
        return self._life

    @property
    def spent(self) -> Spent:
        """What was spent in all, or in the dearest window, or on the dearest reading."""
        return self._account.spent

    @property
    def remaining(self) -> Spent:
        """What is left of the budget."""
        return self._account.remaining

    @property
    def releases(self) -> int:
        """How many releases there are."""
        return self._count

    def totals(self) -> Totals:
        """What was spent per reading, per window and in all; reads the whole ledger."""
        if self.identity.budget is None:
            raise LedgerError(f"ledger {self.path} promises nothing, so there is nothing to total")
        with self._mutex, told(self.path, "read it"):
            return account.totals(self.identity, self._open().entries())

    def released(self) -> tuple[Released, ...]:
        """Every release, in order."""
        with self._mutex, told(self.path, "read it"):
            return tuple(entry.released for entry in self._open().entries())

    def find(self, reading: int) -> Released | None:
        """The release of a reading, if there is one."""
        with self._mutex, told(self.path, "read it"):
            found = self._open().find(reading)
        return None if found is None else found.released

    def name_by(self, naming: str) -> None:
        """Note what the source knows a reading by; raise if releases were named otherwise.

        Under other names every reading would be new, and be released a second time.
        """
        with self._mutex, told(self.path, "read it"):
            held = self._open().meta().get("naming")
            if held is None or not self._count:
                self._open().put(naming=naming)
            elif held != naming:
                raise LedgerError(
                    f"ledger {self.path} knows its readings by {held}, and the source now names "
                    f"them by {naming}: released readings could not be told from new ones; nothing "
                    "was released; go back to the [readings] key it had, or begin a new ledger "
                    "with readings that were never released"
                )

    def origin(self, origin: Origin | None, reading: int) -> str:
        """The name by which a reading is written down: a keyed hash of what its source knows."""
        return self._origins.name(origin, reading)

    def origin_of(self, reading: int) -> str | None:
        """The name by which a released reading is known, or None where it was not released."""
        with self._mutex, told(self.path, "read it"):
            found = self._open().find(reading)
        return None if found is None else found.origin

    def knows(self, origin: str) -> bool:
        """Whether what goes by this name was released."""
        with self._mutex, told(self.path, "read it"):
            return self._open().find_origin(origin) is not None

    def _known(self, reading: int, origin: str) -> Released | None:
        """The release there is, by the reading's number or by what it is known by."""
        with told(self.path, "read it"):
            store = self._open()
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
        self, reading: int, round: int, price: Loss | None, draw: Draw, origin: str = ""
    ) -> Released:
        """The release of a reading: the one there is, or a new one, charged and on the disk.

        `origin` is what the reading is known by (`origin`): what was released under that name is
        given again, whatever its number is now.

        Over budget `BudgetExceeded` is raised and `draw` is not called; if the ledger cannot be
        written, what was drawn is forgotten and nothing can be released until it is opened again.
        `price` is None where nothing is promised.
        """
        _validate.at_least(LedgerError, 1, reading=reading)
        _validate.at_least(LedgerError, 0, round=round)
        with self._mutex:
            known = self._known(reading, origin)
            if known is not None:
                return known
            after = self._account.admit(
                reading, price, lambda width: self._open().near(reading, width)
            )
            self._probe("checked")
            sums = tuple(int(number) for number in draw())
            self._probe("drawn")
            cost = (math.inf, 0.0) if price is None else (float(price.epsilon), float(price.delta))
            entry = chain.follow(
                self._head, self._count + 1, reading, round, *cost, sums, self._weight, origin
            )
            self._write(entry)
            self._account.add(entry, after)
            self._probe("committed")
            return entry.released

    def remembered(self) -> dict[str, Standing]:
        """Where every neighbour stood when last heard, by its name: in any life and epoch."""
        with self._mutex, told(self.path, "read it"):
            return self._open().remembered()

    def remember(self, seen: Mapping[str, Standing]) -> None:
        """Keep where neighbours stand, beyond this life and epoch."""
        with self._mutex:
            store = self._open()
            try:
                store.durable(self._waits)
                store.remember(seen)
            except sqlite3.Error as problem:
                raise self._fail("remember its neighbours", problem) from problem

    def save(self, state: bytes, round: int = 0) -> None:
        """Replace the state of mixing.

        An empty state says that none will be kept for now: unless another is saved before the
        ledger is next opened, that opening begins a new life.
        """
        with self._mutex:
            store = self._open()
            try:
                store.durable(self._waits)
                store.save(state, round, chain.mark(self._key, state))
            except sqlite3.Error as problem:
                raise self._fail("save the state", problem) from problem

    def load(self) -> bytes | None:
        """The state of mixing, or None where there is none to go on from."""
        with self._mutex, told(self.path, "read it"):
            found = self._open().state()
        return (found[0] or None) if found else None

    def resume(self) -> Resumed:
        """Where to go on: `open` has begun a new life already if the state was lost or doubtful."""
        return Resumed(self.load(), self._life)

    def new_life(self) -> int:
        """Begin anew, on the disk when this returns: the state is dropped, the releases stay."""
        with self._mutex:
            store = self._open()
            try:
                store.durable(True)
                store.begin()
                store.drop_state()
                seal = self._seal(self._count, self._head, self._account.total.rounded, 1)
                store.put(life=self._life + 1, seal=seal)
                store.commit()
            except sqlite3.Error as problem:
                raise self._fail("begin a new life", problem) from problem
            self._life += 1
            return self._life

    def close(self) -> None:
        """Mark it as closed in good order and let go; may be called twice.

        After a failed write there is no good order, and the next opening begins a new life.
        """
        with self._mutex:
            if self._broken == CLOSED:
                return
            healthy, self._broken = not self._broken, CLOSED
            try:
                if healthy and self._pid == os.getpid():
                    with told(self.path, "close it"):
                        finish(self._store)
                        self._lock.note(self._count, self._head, pid=0)
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
        """Whose it is and how far, no value of a release."""
        return f"Ledger({str(self.path)!r}, {self.identity.agent!r}, {self._count} releases)"

    def _open(self) -> Store:
        if self._broken:
            raise LedgerError(f"ledger {self.path}: {self._broken}; nothing was released")
        if self._pid != os.getpid():
            raise LedgerError(
                f"ledger {self.path} was opened by process {self._pid}, and this is its child "
                f"{os.getpid()}; nothing was released; open the ledger after forking"
            )
        return self._store

    def _write(self, entry: Entry) -> None:
        store, spent = self._open(), self._account.total.plus(entry.epsilon, entry.delta).rounded
        try:
            store.durable(True)
            store.begin()
            store.append(entry)
            store.put(
                count=entry.seq,
                head=entry.hash,
                spent_epsilon=spent.epsilon,
                spent_delta=spent.delta,
                seal=self._seal(entry.seq, entry.hash, spent),
            )
            self._probe("written")
            store.commit()
            self._lock.note(entry.seq, entry.hash)
        except (sqlite3.Error, OSError) as problem:
            raise self._fail(f"write the release of reading {entry.reading}", problem) from problem
        self._count, self._head = entry.seq, entry.hash

    def _seal(self, count: int, head: str, spent: Spent, lives: int = 0) -> str:
        return chain.seal(self._key, self.identity, count, head, spent, self._life + lives)

    def _fail(self, doing: str, problem: Exception) -> LedgerError:
        """After a failed write nobody knows what is on the disk: only opening it again tells."""
        self._broken = "an earlier write failed; open it again"
        try:
            self._store.rollback()
        except sqlite3.Error:
            self._broken = "an earlier write failed, and could not be undone; open it again"
        return failed(self.path, doing, problem)
