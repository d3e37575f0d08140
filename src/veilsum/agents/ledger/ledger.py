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
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from veilsum import _validate
from veilsum.agents.events import Released
from veilsum.agents.ledger import budget as budgets
from veilsum.agents.ledger import records
from veilsum.agents.ledger.budget import BudgetStatus, BudgetTracker
from veilsum.agents.ledger.clock import MACHINE, SystemClock
from veilsum.agents.ledger.contents import identity_of
from veilsum.agents.ledger.lock import Lock
from veilsum.agents.ledger.meters import Charge
from veilsum.agents.ledger.migration import migrate
from veilsum.agents.ledger.opening import (
    FULL,
    OpenedStore,
    Opening,
    check_arguments,
    open_store,
)
from veilsum.agents.ledger.origins import KnownReadings
from veilsum.agents.ledger.periods import ROLLING, Period
from veilsum.agents.ledger.records import (
    EpsilonDelta,
    LedgerEntry,
    LedgerIdentity,
    ReadingOrigin,
)
from veilsum.agents.ledger.sessions import DiskSessionLedger
from veilsum.agents.ledger.state import StateKeeper
from veilsum.agents.ledger.store import as_ledger_errors
from veilsum.agents.ledger.writer import LedgerWriter, Probe
from veilsum.agents.manifest import Manifest
from veilsum.agents.messages import PeerStatus
from veilsum.errors import LedgerError
from veilsum.privacy.accounting import AccountTotals, Budget, PrivacyEvent

if TYPE_CHECKING:
    from veilsum.agents.masked.terms import MaskedTerms

Draw = Callable[[], tuple[int, ...]]
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
    migrated_from : int
        The format that it had before this opening; 0 if it had the present one.
    begins_epoch : bool
        Whether this opening is the first under its manifest.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from veilsum.agents import Ledger, Manifest
    >>> from veilsum.privacy import Budget
    >>> from veilsum.scenario import Scenario
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
        self._writer = writer = LedgerWriter(lock, opened, opening, probe)
        self._readings = KnownReadings(writer, opening.device)
        self._state = StateKeeper(writer, opening.durability == FULL)
        self._weight, self.migrated_from = weight, 0
        self._sessions: DiskSessionLedger | None = None
        self.secret = bytes.fromhex(writer.meta["secret"])
        self.begins_epoch = opened.begins_epoch
        self.start, self.run = int(writer.meta["starts"]), secrets.token_bytes(RUN_BYTES)

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
            had: list[int] = []
            opened = open_store(
                opening, lock, lambda store: had.append(migrate(store, opening, lock, probe)), probe
            )
            undo.callback(opened.store.close)
            stored = opening._replace(identity=identity_of(opened.meta))
            made = cls(lock, opened, stored, 1 << manifest.unit, probe)
            made.migrated_from = had[0]
            undo.pop_all()
            return made

    @property
    def incarnation(self) -> int:
        """How many times the agent started without its mixing state."""
        return self._state.incarnation

    @property
    def spent(self) -> EpsilonDelta:
        """Spent in total or in this period; in the most expensive window, on the dearest reading."""
        return self.budget_status().spent

    @property
    def remaining(self) -> EpsilonDelta:
        """What remains of the budget; what an open query reserves does not."""
        return self.budget_status().remaining

    def budget_status(self) -> BudgetStatus:
        """What was spent, is reserved and is left for the next reading, and when more is."""
        with self._writer.mutex:
            return self._writer.budget.status(self.now, self.last_reading)

    @property
    def now(self) -> float:
        """The ledger's time: seconds since 1970, never decreasing, not moved by setting the clock."""
        return self._writer.clock.now()

    @property
    def clock_report(self) -> str:
        """What a difference between the machine's clock and the ledger's time means; mostly empty."""
        return self._writer.clock.report()

    @property
    def restored(self) -> bool:
        """Whether it continues a backup and nothing was released since: see `confirm_restored`."""
        return self._writer.restored

    @property
    def last_reading(self) -> int:
        """Number of the last reading that was released or passed over; 0 if there is none.

        Readings of an open query are neither yet.
        """
        return max(self._writer.last_number, int(self._writer.meta["passed"]))

    def last_release_time(self) -> float | None:
        """When the last release was made, in seconds since 1970; None if there is none."""
        with self._writer.reading() as store:
            return store.last_time()

    def last_slot(self) -> tuple[int, int] | None:
        """The number and the slot of the last release that was made for a slot; None if none was."""
        number, _, slot = self._writer.meta.get("slot", "").partition(" ")
        return (int(number), int(slot)) if slot else None

    @property
    def releases(self) -> int:
        """The number of releases; each sent value of a session is one."""
        return self._writer.count

    def totals(self) -> AccountTotals:
        """What was spent per reading, per window and in total; reads the whole ledger."""
        if self.identity.budget is None:
            raise LedgerError(
                f"ledger {self.path} guarantees nothing, so there is nothing to total"
            )
        with self._writer.reading() as store:
            return budgets.totals(self.identity, store.charged())

    def released(self) -> tuple[Released, ...]:
        """Every release with local noise, in order; a masked value of a session is none."""
        with self._writer.reading() as store:
            return tuple(entry.released for entry in store.entries() if not entry.attempt)

    def sent(self) -> tuple[Released, ...]:
        """Every masked value that was sent, in order, numbered by its place in the chain."""
        with self._writer.reading() as store:
            sums = (entry.sums for entry in store.entries() if entry.attempt)
            return tuple(Released(k, words, 0) for k, words in enumerate(sums, 1))

    def find(self, reading: int) -> Released | None:
        """The release of a reading, if there is one."""
        with self._writer.reading() as store:
            found = store.find(reading)
        return None if found is None else found.released

    def sessions(self, terms: MaskedTerms) -> DiskSessionLedger:
        """The sessions of a masked sum under these terms.

        A query that other terms left open is withdrawn and concluded: what it has sent stays
        charged; otherwise its readings are free again.

        Parameters
        ----------
        terms : MaskedTerms
            What all members agree on; its digest of the manifest is that of this ledger.

        Returns
        -------
        DiskSessionLedger
            Writes to this ledger; every call is durable when it returns.

        Raises
        ------
        LedgerError
            If the terms are of another manifest or lack this agent.
        """
        with self._writer.mutex:
            if self._sessions is None or self._sessions.terms != terms:
                self._sessions = DiskSessionLedger(self._writer, self._readings, terms)
            return self._sessions

    def wait_within(self, waiting: Callable[[], AbstractContextManager[None]]) -> None:
        """Have something hold while a commit waits for the disk, and at no other time.

        Parameters
        ----------
        waiting : callable
            Gives the context that each commit is within.
        """
        self._writer.waiting = waiting

    def set_naming(self, naming: str) -> None:
        """Store what identifies a reading in its source; raise if releases were named otherwise.

        Under other names every reading would look new and be released a second time.
        """
        self._readings.set_naming(naming)

    @property
    def beginning(self) -> str:
        """Where the readings of its agent begin, as its source found it; empty before a first start."""
        return self._writer.meta.get("beginning", "")

    def set_beginning(self, beginning: str) -> None:
        """Store where the readings begin: origin hashes, and nothing else of a reading."""
        with self._writer.transaction():
            self._writer.put(beginning=beginning)

    def hash_origin(self, origin: ReadingOrigin | None, reading: int) -> str:
        """The keyed hash under which the origin of a reading is stored."""
        return self._readings.hasher.hash(origin, reading)

    def origin_of(self, reading: int) -> str | None:
        """The origin hash of a released reading, by its number; None if it was not released."""
        return self._readings.origin_of(reading)

    def has_origin(self, origin: str) -> bool:
        """Whether a reading with this origin hash was released or passed over.

        Readings of an open query are neither yet.
        """
        with self._writer.reading() as store:
            return store.has_origin(origin, self._writer.open_query)

    def was_passed_over(self, origin: str) -> bool:
        """Whether a reading with this origin hash was passed over."""
        with self._writer.reading() as store:
            return store.was_passed_over(origin)

    def charge(
        self,
        reading: int,
        round: int,
        cost: PrivacyEvent | None,
        draw: Draw,
        origins: str | Sequence[str] = (),
        readings: int = 1,
        last: int | None = None,
        slot: int | None = None,
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
        slot : int, optional
            The slot of the schedule that the number of the release belongs to: `last_slot`.

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
        writer = self._writer
        with writer.mutex:
            if int(writer.meta["queries"]):
                raise LedgerError(
                    f"ledger {self.path} is that of a masked sum, whose readings are never released "
                    "with local noise; nothing was released; use a new ledger"
                )
            asked = Charge(first, last, readings, self.now, *paid)
            existing = self._readings.existing(asked, reading, names)
            if existing is not None:
                return existing
            writer.check_confirmed("this reading")
            writer.budget.admit(asked, cost is not None)
            writer.probe("checked")
            sums = tuple(int(number) for number in draw())
            writer.probe("drawn")
            entry = LedgerEntry(
                0, reading, 0, last, readings, round, asked.time, *paid, sums,
                readings * self._weight, names, "", "",
            )  # fmt: skip
            entry = self._write(entry, slot)
            writer.last_number = max(writer.last_number, last)
            writer.budget.add(asked)
            writer.probe("committed")
            return entry.released

    def _write(self, entry: LedgerEntry, slot: int | None) -> LedgerEntry:
        where = {} if slot is None else {"slot": f"{entry.reading} {slot}"}
        with self._writer.transaction(f"write the release of reading {entry.reading}"):
            entry = self._writer.append(entry, **where)
            self._writer.probe("written")
        self._writer.linked(entry)
        return entry

    @property
    def spool_mark(self) -> str:
        """What the spool beside it holds, as `mark_spool` stored it; empty without a spool."""
        return self._writer.meta["spool"]

    def mark_spool(self, mark: str) -> None:
        """Store what the spool holds; on the disk when this returns."""
        with self._writer.transaction():
            self._writer.put(spool=mark)

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
        self._readings.pass_over(reading, origins)

    def confirm_restored(self) -> None:
        """Allow releases again: all neighbours have confirmed that this ledger is complete.

        Until then a ledger restored from a backup releases nothing, since a reading may have been
        released after the backup was made.
        """
        with self._writer.mutex:
            self._writer.usable()
            if self.restored:
                with self._writer.transaction():
                    self._writer.put(restored=0)

    def peers(self) -> dict[str, PeerStatus]:
        """The last known status of every neighbour, by name: of any incarnation and epoch."""
        return self._state.peers()

    def save_peers(self, peers: Mapping[str, PeerStatus]) -> None:
        """Store the status of neighbours, beyond this incarnation and epoch."""
        self._state.save_peers(peers)

    def save(self, state: bytes, round: int = 0) -> None:
        """Replace the mixing state.

        An empty state declares that none is saved for now: unless another is saved before the
        ledger is next opened, that opening starts a new incarnation.
        """
        self._state.save(state, round)

    def load(self) -> bytes | None:
        """The mixing state, or None if there is none to continue from."""
        return self._state.load()

    def resume(self) -> ResumePoint:
        """Where to continue; `open` started a new incarnation if the state was lost or doubtful."""
        return ResumePoint(self.load(), self.incarnation)

    def new_incarnation(self, state: bytes | None = None) -> int:
        """Begin a new incarnation with a mixing state or none, keep the releases, all at once.

        On the disk when this returns. An empty state is as for `save`.
        """
        return self._state.new_incarnation(state)

    def close(self) -> None:
        """Mark it as closed and release it; may be called twice.

        After a failed write it is not marked, and the next opening starts a new incarnation.
        """
        self._writer.close()

    def __enter__(self) -> Ledger:
        """Use it in a `with`."""
        return self

    def __exit__(self, *problem: object) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        """The file, the agent and the number of releases; no value of a release."""
        return f"Ledger({str(self.path)!r}, {self.identity.agent!r}, {self.releases} releases)"
