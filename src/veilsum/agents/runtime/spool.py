"""Where the readings of an open batch wait: in memory, or in an encrypted file beside the ledger."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple, Protocol

from veilsum.agents.ledger import Ledger
from veilsum.agents.release import ContributionMechanism, ReleaseMechanism
from veilsum.privacy import Batches

NO_SLOT = -1


class SpooledReading(NamedTuple):
    """A reading that waits for its batch; never logged or shown.

    Attributes
    ----------
    number : int
        The number under which it is released.
    position : int
        Its place among all readings of the source.
    slot : int
        Its slot of the schedule; `NO_SLOT` without one.
    origin : str
        Its origin hash in hexadecimal, or empty.
    value : tuple of float
        Its components.
    """

    number: int
    position: int
    slot: int
    origin: str
    value: tuple[float, ...]

    def __repr__(self) -> str:
        """The number, and nothing else."""
        return f"SpooledReading({self.number})"


class Spool(Protocol):
    """The open batch of one agent.

    Attributes
    ----------
    durable : bool
        Whether readings survive the process.
    lost : int
        Readings that were in it when it was removed.
    usable : bool
        Whether it can be written; a failed write that could not be undone ends that.
    records : list of SpooledReading
        The readings of the open batch, in order.
    origins : set of str
        Their origin hashes.
    """

    durable: bool
    lost: int
    records: list[SpooledReading]
    origins: set[str]

    @property
    def usable(self) -> bool:
        """Whether it can be written."""

    def append(self, reading: SpooledReading) -> None:
        """Add a reading; it is committed when this returns."""

    def clear(self, after: int) -> None:
        """Drop all readings: they were released, or passed over; `after` is the last release."""

    def close(self) -> None:
        """Close the files; may be called twice."""


class MemorySpool:
    """A spool without a device key: a restart loses it, so the source is not acknowledged before.

    Examples
    --------
    >>> spool = MemorySpool()
    >>> spool.append(SpooledReading(1, 1, NO_SLOT, "", (3.5,)))
    >>> spool.records, spool.durable
    ([SpooledReading(1)], False)
    """

    durable: bool

    def __init__(self) -> None:
        """Empty."""
        self.durable, self.usable, self.lost = False, True, 0
        self.records: list[SpooledReading] = []
        self.origins: set[str] = set()

    def append(self, reading: SpooledReading) -> None:
        """Keep it in memory."""
        self.records.append(reading)
        self.origins.add(reading.origin)

    def clear(self, after: int) -> None:  # noqa: ARG002 - nothing is stored
        """Forget all."""
        self.records.clear()
        self.origins.clear()

    def close(self) -> None:
        """Nothing to close."""


def open_spool(
    ledger: Ledger, device: bytes | None, mechanism: ReleaseMechanism | ContributionMechanism
) -> Spool:
    """The spool of an agent: a file where it has batches and a device key, else in memory.

    Parameters
    ----------
    ledger : Ledger
        Its open ledger, beside which the file lies.
    device : bytes or None
        The device's secret.
    mechanism : ReleaseMechanism or ContributionMechanism
        Its release mechanism, whose manifest says whether there are batches.

    Returns
    -------
    Spool
        With the readings that wait; a file that is there is continued in any case.

    Raises
    ------
    LedgerError
        As for `FileSpool`.
    """
    from veilsum.agents.runtime.spool_file import FileSpool

    manifest, path = mechanism.manifest, spool_path(ledger.path)
    alone = Batches(manifest.batch_growth, manifest.longest_batch).trivial
    if device is None or (alone and not path.exists()):
        return MemorySpool()
    last = _last_number(ledger, mechanism)
    agent, terms = ledger.identity.agent, ledger.identity.terms
    components = math.prod(mechanism.family.signal_shape)
    anew = manifest.masked and not last  # numbers begin with 1 in every run of masked sums
    return FileSpool(path, device, ledger, agent, terms, last, components, anew=anew)


def _last_number(ledger: Ledger, mechanism: ReleaseMechanism | ContributionMechanism) -> int:
    """The number of the last release, or the last one of the last query that is concluded."""
    manifest = mechanism.manifest
    if not manifest.masked:
        return max((release.reading for release in ledger.released()), default=0)
    from veilsum.agents.masked.terms import MaskedTerms

    batches, end = Batches(manifest.batch_growth, manifest.longest_batch), 0
    terms = MaskedTerms.of(manifest, mechanism.family)
    for _ in range(ledger.sessions(terms).last_query):
        end = batches.closing(end + 1)
    return end


def spool_path(ledger: Path) -> Path:
    """The spool of a ledger."""
    return ledger.with_name(ledger.name + ".spool")
