"""Where a board is kept: a folder, a bucket, a WebDAV server, memory in tests."""

from veilsum.fleet.store.base import BoardStore, NoPutIfAbsentError
from veilsum.fleet.store.folder import FolderStore
from veilsum.fleet.store.memory import (
    MemoryStore,
    OverwritingMemoryStore,
    PlainMemoryStore,
    StoreFaults,
)
from veilsum.fleet.store.opening import open_store
from veilsum.fleet.store.witness import WitnessProbe, probe_witness

Store = BoardStore  # the name of the class itself is taken while veilsum.agents is there

__all__ = [
    "BoardStore",
    "FolderStore",
    "MemoryStore",
    "NoPutIfAbsentError",
    "OverwritingMemoryStore",
    "PlainMemoryStore",
    "Store",
    "StoreFaults",
    "WitnessProbe",
    "open_store",
    "probe_witness",
]
