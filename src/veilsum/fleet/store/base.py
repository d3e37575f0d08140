"""What a fleet asks of a store: list names, get, put and remove objects.

A store is not trusted. It may show less than it holds, or an older state; posts are signed, so what it
makes up is nothing.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import lru_cache

from veilsum.errors import StoreBusyError, StoreDeniedError, StoreError, StoreFullError

LARGEST = 16 << 20  # bytes of an object; what is larger is passed over, as if it were not there
SECONDS = 30.0  # one call to a store takes no longer

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}(/[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}){0,7}")
_COPY = re.compile(  # of programs that write or keep a folder in step
    r"sync-conflict|conflicted|[._-]conflict[._-]|\.(tmp|temp|part|partial|filepart|crdownload|lock|bak|swp)$",
    re.IGNORECASE,
)


class NoPutIfAbsentError(StoreError):
    """A store that cannot write only what is absent, which is no fault of it."""


_REMEDIES = {
    StoreBusyError: "nothing is lost: the next step tries again",
    StoreDeniedError: "check the rights and the credentials of this site there",
    StoreFullError: "make room there: until then nothing of this site arrives",
    NoPutIfAbsentError: "name witnesses in the membership",
    StoreError: "check the address",
}


class BoardStore(ABC):
    """Objects by name in a folder, a bucket or on a server.

    A name is `post/<key>/<topic>` or the like: segments of letters, digits, `.`, `_` and `-` that do not
    begin with a dot. Other names, such as the copies of a program that keeps folders in step, are passed
    over and counted in `ignored`.

    Every call ends within `SECONDS`, and raises `StoreBusyError` (later), `StoreDeniedError` (no access),
    `StoreFullError` (no room) or `StoreError` (anything else; `NoPutIfAbsentError` for a `put` with `new`).
    """

    address: str
    ignored: int = 0  # names that the last call of `names` passed over
    may_be_a_copy = False  # True: each machine may see its own copy, as in a synced folder

    @abstractmethod
    def names(self, prefix: str) -> dict[str, str]:
        """Objects in the folder `prefix` ("" is all): name -> version, which changes with the content."""

    @abstractmethod
    def version(self, name: str) -> str | None:
        """That of one object, which the store looks up now, as a `get` does; None if it is absent."""

    @abstractmethod
    def get(self, name: str) -> bytes | None:
        """The content of an object; None if it is absent."""

    @abstractmethod
    def put(self, name: str, data: bytes, new: bool = False) -> bool:
        """Write an object. With `new` only if it is absent; False says that it was refused."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove an object, present or not."""

    def get_many(self, names: Iterable[str]) -> dict[str, bytes | None]:
        """The contents of several objects, at once where the store can.

        After a failure it reads no more, and returns what it has: names that are left out were not read.
        It raises if nothing was.
        """
        read: dict[str, bytes | None] = {}
        try:
            for name in names:
                read[name] = self.get(name)
        except StoreError:
            if not read:
                raise
        return read

    def close(self) -> None:  # noqa: B027
        """End its connections; without it they end with the object."""

    def _error(self, kind: type[StoreError], operation: str, reason: object) -> StoreError:
        """An error that says where, what, why and what to do."""
        return kind(f"{self.address}: {operation}: {reason}; {_REMEDIES[kind]}")


@lru_cache(1 << 16)  # the same names at each step
def is_name(name: str) -> bool:
    """Whether a name is one that a fleet gives, and no other program's copy."""
    return _NAME.fullmatch(name) is not None and _COPY.search(name) is None


def checked(name: str) -> str:
    """A name that a fleet may give to an object."""
    if not is_name(name):
        raise StoreError(f"no name for an object: {name!r}; expected segments of [A-Za-z0-9._-]")
    return name


def folder_of(prefix: str) -> str:
    """A prefix that ends with a slash, or is empty."""
    return f"{checked(prefix.rstrip('/'))}/" if prefix.strip("/") else ""
