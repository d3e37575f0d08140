"""Folders of several machines that a program keeps in step, as Syncthing or Nextcloud do."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random

from veilsum.fleet.store import FolderStore


class SyncedFolders:
    """One folder for each member; `copy` carries some of what one has and another one has not.

    The newer file wins. Where both changed since they were equal, the loser stays under another name, and is
    carried, too. Files that are being written (`.tmp`) travel at times.
    """

    def __init__(self, root: Path, names: Sequence[str], random: Random) -> None:
        self.folders = {name: root / name for name in names}
        for folder in self.folders.values():
            folder.mkdir(parents=True)
        self.random, self.conflicts = random, 0

    def store(self, name: str) -> FolderStore:
        return FolderStore(self.folders[name])

    def copy(self, chance: float) -> None:
        """Every pair, one after the other in any order, each file with a chance."""
        folders = list(self.folders.values())
        for one in self.random.sample(folders, len(folders)):
            for other in self.random.sample(folders, len(folders)):
                if one != other:
                    self._carry(one, other, chance)

    def _carry(self, one: Path, other: Path, chance: float) -> None:
        for path in sorted(one.rglob("*")):
            if not path.is_file() or self.random.random() >= chance:
                continue
            there = other / path.relative_to(one)
            if there.exists() and there.stat().st_mtime_ns >= path.stat().st_mtime_ns:
                continue
            there.parent.mkdir(parents=True, exist_ok=True)
            arriving = there.with_name(f".syncthing.{there.name}.tmp")
            shutil.copy2(path, arriving)
            arriving.replace(there)

    def disturb(self) -> None:
        """Conflicting copies, and a half-written file, appear beside what is there."""
        folder = self.random.choice(list(self.folders.values()))
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        for path in self.random.sample(files, min(3, len(files))):
            found = path.with_name(
                f"{path.name}.sync-conflict-20270115-{self.random.randrange(10**6)}"
            )
            found.write_bytes(path.read_bytes())
            path.with_name(f"~{path.name}.tmp").write_bytes(path.read_bytes()[:40])
            self.conflicts += 1
