"""From an address to its store.

A folder (`/srv/board`, `file:///srv/board`), `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`,
`https://host/path` (WebDAV), or `memory:NAME` in tests. Credentials are no part of it: see `credentials`.
"""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from veilsum.fleet.store.base import SECONDS, BoardStore
from veilsum.fleet.store.folder import FolderStore
from veilsum.fleet.store.memory import MemoryStore

_MEMORIES: dict[str, dict[str, bytes]] = {}


def open_store(address: str, *, create: bool = False, seconds: float = SECONDS) -> BoardStore:
    """The store at an address; no call takes longer than `seconds`, but for those of a folder."""
    kind, colon, rest = address.partition(":")
    if not colon or "/" in kind:
        return FolderStore(address, create=create)
    if kind == "memory":
        return MemoryStore(address, _MEMORIES.setdefault(rest, {}))
    if kind == "file":
        return FolderStore(unquote(urlsplit(address).path), create=create)
    from veilsum.fleet.store.remote import open_remote

    return open_remote(address, seconds)
