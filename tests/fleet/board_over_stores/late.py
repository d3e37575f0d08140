"""An honest store that shows what is written later, to each reader at another time, and never goes back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

from veilsum.fleet.store import BoardStore
from veilsum.fleet.store.base import folder_of


@dataclass
class LateObjects:
    """All versions of all objects: when each was written, and by whom."""

    clock: Callable[[], int]
    most: int  # seconds until everyone is shown it
    versions: dict[str, list[tuple[int, str, bytes]]] = field(default_factory=dict)


class LateView(BoardStore):
    """What one reader is shown: its own writes at once, those of others when they have arrived."""

    def __init__(self, objects: LateObjects, who: str) -> None:
        self.address, self.objects, self.who = "memory", objects, who

    def _shown(self, name: str) -> bytes | None:
        """The newest version that has arrived, or an own one."""
        now, found = self.objects.clock(), None
        for place, (at, by, data) in enumerate(self.objects.versions.get(name, ())):
            mark = sha256(f"{self.who} {name} {place} {at}".encode()).digest()
            late = 0 if by == self.who else int.from_bytes(mark[:4]) % (self.objects.most + 1)
            if at + late <= now:
                found = data
        return found

    def names(self, prefix: str) -> dict[str, str]:
        folder, found = folder_of(prefix), {}
        for name in self.objects.versions:
            data = self._shown(name) if name.startswith(folder) else None
            if data is not None:
                found[name] = sha256(data).hexdigest()
        return found

    def version(self, name: str) -> str | None:
        data = self._shown(name)
        return None if data is None else sha256(data).hexdigest()

    def get(self, name: str) -> bytes | None:
        return self._shown(name)

    def put(self, name: str, data: bytes, new: bool = False) -> bool:
        held = self.objects.versions.setdefault(name, [])
        if new and held:
            return False
        held.append((self.objects.clock(), self.who, data))
        return True

    def remove(self, name: str) -> None:
        self.objects.versions.pop(name, None)
