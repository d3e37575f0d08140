"""Which readings a ledger knows: released or passed over, by the hashes of their origins."""

from __future__ import annotations

from collections.abc import Sequence

from veilsum.agents.events import Released
from veilsum.agents.ledger import records
from veilsum.agents.ledger.meters import Charge
from veilsum.agents.ledger.opening import origin_hasher
from veilsum.agents.ledger.writer import LedgerWriter
from veilsum.errors import LedgerError


class KnownReadings:
    """The readings of one ledger.

    Parameters
    ----------
    writer : LedgerWriter
        The open file.
    device : bytes, optional
        The secret of the device, as for `Ledger.open`.
    """

    def __init__(self, writer: LedgerWriter, device: bytes | None) -> None:
        """Raise if the hashes were made with another key."""
        self._writer = writer
        self.hasher = origin_hasher(writer.path, writer.meta, device)

    def set_naming(self, naming: str) -> None:
        """As `Ledger.set_naming`."""
        writer = self._writer
        with writer.mutex:
            writer.usable()
            stored = writer.meta["naming"]
            if stored == naming:
                return
            if stored and (writer.count or int(writer.meta["queries"])):
                raise LedgerError(
                    f"ledger {writer.path} identifies readings by {stored}, and the source now "
                    f"identifies them by {naming}: released readings could not be distinguished from "
                    "new ones; nothing was released; restore the former [readings] key, or use a new "
                    "ledger with readings that were never released"
                )
            with writer.transaction():
                writer.put(naming=naming)

    def origin_of(self, reading: int) -> str | None:
        """As `Ledger.origin_of`."""
        with self._writer.reading() as store:
            found = store.covering(reading)
        if found is None or not found.origins:
            return None if found is None else ""
        return found.origins[reading - found.first] or None

    def existing(self, asked: Charge, reading: int, origins: tuple[str, ...]) -> Released | None:
        """The release there is, by its number or by the origins of its readings."""
        path = self._writer.path
        with self._writer.reading() as store:
            named = [name for name in origins if name]
            known = [found for name in named if (found := store.find_origin(name)) is not None]
            passed = sum(map(store.was_passed_over, named))
            numbered = store.find(reading)
            overlapping = store.between(asked.first, asked.last)
        if known and len(known) == len(named) and len({found.seq for found in known}) == 1:
            return known[0].released
        if known:
            raise LedgerError(
                f"ledger {path} holds releases of {len(known)} of the {len(named)} readings in "
                f"batch {reading}: they would be released twice; nothing was released; leave them "
                "out of the batch"
            )
        if passed:
            raise LedgerError(
                f"ledger {path} has passed over {passed} of the readings in release {reading}, "
                "and such a reading is never released; nothing was released; leave it out"
            )
        if numbered is not None and not (named and any(numbered.origins)):
            return numbered.released
        if numbered is not None or overlapping:
            raise LedgerError(
                f"ledger {path} holds the release of another reading under number "
                f"{reading if numbered is not None else asked.last}: "
                "the source was rewritten; nothing was released; give the agent the readings it had"
            )
        return None

    def pass_over(self, reading: int, origins: Sequence[str]) -> None:
        """As `Ledger.pass_over`."""
        with self._writer.mutex:
            with self._writer.reading() as store:
                new = [n for n in dict.fromkeys(origins) if n and not store.was_passed_over(n)]
            if new or reading > int(self._writer.meta["passed"]):
                with self._writer.transaction():
                    self.write_passed(reading, new)

    def write_passed(self, reading: int, new: Sequence[str]) -> None:
        """Add origins that are not known yet, in a transaction."""
        writer = self._writer
        count, head = int(writer.meta["passed_count"]), writer.meta["passed_head"]
        rows = list(enumerate(new, count + 1))
        for number, origin in rows:
            head = records.passed_hash(head, number, origin)
        writer.store.pass_over(rows)
        passed = max(reading, int(writer.meta["passed"]))
        writer.put(passed=passed, passed_count=count + len(rows), passed_head=head)
