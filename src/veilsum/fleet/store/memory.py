"""A store in memory with the faults of real ones, drawn from a seed: the test network of a fleet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import blake2b
from random import Random
from threading import Lock

from veilsum import _validate
from veilsum.errors import StoreBusyError, StoreDeniedError, StoreError, StoreFullError
from veilsum.fleet.store.base import BoardStore, NoPutIfAbsentError, checked, folder_of, is_name

_ONE_AT_A_TIME = Lock()
_REASONS = {
    StoreBusyError: ("429 Too Many Requests", "500 Internal Server Error", "no answer in time"),
    StoreDeniedError: ("403 Forbidden",),
    StoreFullError: ("507 Insufficient Storage",),
}


@dataclass(frozen=True)
class StoreFaults:
    """Chances of each fault, per call.

    `before`: fails and does nothing; `after`: does its work and fails all the same; `denied`, `full`: a
    put or remove is refused so; `half`: a put leaves the first half and fails; `late`: a put is seen
    `lag` calls later; `again`: a put is done at once, and once more `lag` calls later, over what was
    written since; `stale`: the listing is an earlier one.
    """

    before: float = 0.0
    after: float = 0.0
    denied: float = 0.0
    full: float = 0.0
    half: float = 0.0
    late: float = 0.0
    again: float = 0.0
    stale: float = 0.0
    lag: int = 10

    def __post_init__(self) -> None:
        """Check the chances."""
        chances = asdict(self)
        _validate.at_least(StoreError, 1, lag=chances.pop("lag"))
        _validate.probability(StoreError, **chances)


class MemoryStore(BoardStore):
    """A dict of objects, seen through faults.

    Several stores may share `objects`: each is then the view that one site has, with faults of its own.
    `happened` counts the faults.
    """

    def __init__(
        self,
        address: str = "memory:",
        objects: dict[str, bytes] | None = None,
        faults: StoreFaults | None = None,
        random: Random | None = None,
    ) -> None:
        """Without `faults` it does what it is asked."""
        self.address = address
        self.objects = {} if objects is None else objects
        self.faults = faults or StoreFaults()
        self.random = random or Random(0)
        self.refuses: type[StoreError] | None = None  # every put and remove: read-only, or full
        self.fails: type[StoreError] | None = (
            None  # every call: unreachable, or closed to this site
        )
        self.withheld: Callable[[str], bool] = lambda _name: False
        self.happened: Counter[str] = Counter()
        self._calls = 0
        self._later: list[tuple[int, str, bytes]] = []
        self._listing: dict[str, bytes] = {}

    def snapshot(self) -> dict[str, bytes]:
        """What it holds, to roll it back to."""
        return dict(self.objects)

    def restore(self, snapshot: dict[str, bytes]) -> None:
        """Back to what it was: for every site that shares the objects."""
        self.objects.clear()
        self.objects.update(snapshot)

    def settle(self) -> None:
        """Do the puts that are late."""
        for _, name, data in self._later:
            self.objects[name] = data
        self._later.clear()

    def names(self, prefix: str) -> dict[str, str]:
        """Objects in a folder: name -> version."""
        folder = folder_of(prefix)
        self._begin("listing")
        if not self._strikes("stale"):
            self._listing = dict(self.objects)
        self._end("listing")
        found = [name for name in self._listing if name.startswith(folder)]
        shown = [name for name in found if is_name(name) and not self.withheld(name)]
        self.ignored = sum(not is_name(name) for name in found)
        return {name: _version(self._listing[name]) for name in shown}

    def version(self, name: str) -> str | None:
        """That of one object; None if it is absent."""
        data = self.get(name)
        return None if data is None else _version(data)

    def get(self, name: str) -> bytes | None:
        """The content of an object; None if it is absent."""
        self._begin(f"reading {checked(name)}")
        data = None if self.withheld(name) else self.objects.get(name)
        self._end(f"reading {name}")
        return data

    def put(self, name: str, data: bytes, new: bool = False) -> bool:
        """Write an object; with `new` only if it is absent."""
        operation = f"writing {checked(name)}"
        self._begin_change(operation)
        if new:
            done = self._create(name, data)
        else:
            done = True
            self._write(name, data, operation)
        self._end(operation)
        return done

    def _create(self, name: str, data: bytes) -> bool:
        with _ONE_AT_A_TIME:
            absent = name not in self.objects
            if absent:
                self.objects[name] = data
            return absent

    def _write(self, name: str, data: bytes, operation: str) -> None:
        if self._strikes("half"):
            self.objects[name] = data[: len(data) // 2]
            raise self._fault(StoreBusyError, operation)
        late = self._strikes("late")
        if late or self._strikes("again"):
            self._later.append((self._calls + self.faults.lag, name, data))
        if not late:
            self.objects[name] = data

    def remove(self, name: str) -> None:
        """Remove an object, present or not."""
        self._begin_change(f"removing {checked(name)}")
        self.objects.pop(name, None)
        self._end(f"removing {name}")

    def _begin(self, operation: str) -> None:
        self._calls += 1
        while self._later and self._later[0][0] <= self._calls:
            _, name, data = self._later.pop(0)
            self.objects[name] = data
        if self.fails is not None:
            raise self._fault(self.fails, operation)
        if self._strikes("before"):
            raise self._fault(StoreBusyError, operation)

    def _begin_change(self, operation: str) -> None:
        self._begin(operation)
        if self.refuses is not None:
            raise self._fault(self.refuses, operation)
        if self._strikes("denied"):
            raise self._fault(StoreDeniedError, operation)
        if self._strikes("full"):
            raise self._fault(StoreFullError, operation)

    def _end(self, operation: str) -> None:
        if self._strikes("after"):
            raise self._fault(StoreBusyError, operation)

    def _strikes(self, fault: str) -> bool:
        chance: float = getattr(self.faults, fault)
        struck = chance > 0 and self.random.random() < chance
        if struck:
            self.happened[fault] += 1
        return struck

    def _fault(self, kind: type[StoreError], operation: str) -> StoreError:
        return self._error(kind, operation, self.random.choice(_REASONS.get(kind, ("refused",))))


class OverwritingMemoryStore(MemoryStore):
    """It takes every put with `new`, as rclone's S3 server does: it is no witness."""

    def _create(self, name: str, data: bytes) -> bool:
        self.objects[name] = data
        return True


class PlainMemoryStore(MemoryStore):
    """It has no put-if-absent, as WebDAV: it is no witness."""

    def _create(self, name: str, data: bytes) -> bool:  # noqa: ARG002
        raise self._error(NoPutIfAbsentError, f"writing {name}", "it has no put-if-absent")


def _version(data: bytes) -> str:
    return blake2b(data, digest_size=12).hexdigest()
