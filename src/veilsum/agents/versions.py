"""Which version of each format is written, and which are read: the one place that decides.

Every format carries its version, and the previous one is read. What an older version needs to become
the present one is registered where the format is read, by the version that it starts from:

    wire      `wire`: both are written, whichever the neighbour reads (`transport.negotiation`)
    ledger    `ledger.migration`: migrated when its agent starts; read as it is by everything else
    state     `protocol.memory`: read as it is, and replaced by the next snapshot
    archive   `masked.archive`: likewise
    spool     `runtime.spool_file`
    manifest  `manifest`: JSON; its digest is the same in both

A later version than the newest is refused everywhere: it may state what this one would not obey.
"""

from __future__ import annotations

from typing import NamedTuple


class Format(NamedTuple):
    """The versions of one format.

    Attributes
    ----------
    name : str
        What it is called in errors.
    oldest, newest : int
        The first version that is read, and the one that is written.

    Examples
    --------
    >>> WIRE.reads(WIRE.newest), WIRE.reads(WIRE.newest + 1)
    (True, False)
    >>> Format("spool", 1, 2).refusal(3)
    'version 3 of the spool, written by a later veilsum: this one reads versions 1 and 2'
    """

    name: str
    oldest: int
    newest: int

    def reads(self, version: int) -> bool:
        """Whether a version is read."""
        return self.oldest <= version <= self.newest

    def refusal(self, version: int) -> str:
        """Why a version is not read."""
        which = "a later" if version > self.newest else "an earlier"
        read = f"version {self.newest}"
        if self.oldest < self.newest:
            joint = "and" if self.newest == self.oldest + 1 else "to"
            read = f"versions {self.oldest} {joint} {self.newest}"
        return f"version {version} of the {self.name}, written by {which} veilsum: this one reads {read}"


WIRE = Format("wire", 5, 6)
LEDGER = Format("ledger", 6, 7)
STATE = Format("state", 5, 6)
ARCHIVE = Format("archive", 1, 2)
SPOOL = Format("spool", 1, 1)
MANIFEST = Format("manifest", 1, 2)
FORMATS = (WIRE, LEDGER, STATE, ARCHIVE, SPOOL, MANIFEST)
