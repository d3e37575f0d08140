"""Whether a store can be the witness of a fleet: put-if-absent that everybody sees (FLEET.md, section 3)."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from threading import Barrier

from veilsum.errors import StoreError
from veilsum.fleet.store.base import BoardStore, NoPutIfAbsentError

ROUNDS = 8  # of two threads that write one name at once


@dataclass(frozen=True)
class WitnessProbe:
    """What `probe_witness` found, in words to be recorded in the membership."""

    able: bool
    reason: str


def probe_witness(store: BoardStore, *, one_file_system: bool = False) -> WitnessProbe:
    """Write new names twice, one after the other and at once: is exactly one put of each granted?

    `one_file_system`: somebody says of this folder that all sites mount one file system. A folder that a
    program keeps in step is a copy on each machine, which grants the same name to each.
    """
    if store.may_be_a_copy and not one_file_system:
        return WitnessProbe(False, "a folder, and nobody says that all sites mount one file system")
    try:
        return _tried(store)
    except NoPutIfAbsentError:
        return WitnessProbe(False, "it has no put-if-absent")


def _tried(store: BoardStore) -> WitnessProbe:
    tried = [f"probe/{secrets.token_hex(16)}" for _ in range(1 + ROUNDS)]
    try:
        if not store.put(tried[0], b"first", new=True):
            return WitnessProbe(False, "a put of a name that nobody has written was refused")
        if store.put(tried[0], b"second", new=True) or store.get(tried[0]) != b"first":
            return WitnessProbe(False, "a second put of one name was granted")
        if any(_granted_at_once(store, name) != 1 for name in tried[1:]):
            return WitnessProbe(
                False, "of two puts of one name at once, not exactly one was granted"
            )
        return WitnessProbe(True, "of two puts of one name, exactly one was granted")
    finally:
        for name in tried:
            with suppress(StoreError):
                store.remove(name)


def _granted_at_once(store: BoardStore, name: str) -> int:
    start = Barrier(2)

    def put(data: bytes) -> bool:
        start.wait()
        return store.put(name, data, new=True)

    with ThreadPoolExecutor(2) as threads:
        return sum(threads.map(put, (b"first", b"second")))
