from pathlib import Path
from time import sleep

import pytest

from tests.fleet.store.contract import StoreContract, written_while_read
from veilsum.fleet.store import (
    BoardStore,
    FolderStore,
    MemoryStore,
    OverwritingMemoryStore,
    PlainMemoryStore,
    open_store,
    probe_witness,
)


class TestMemory(StoreContract):
    @pytest.fixture
    def store(self) -> BoardStore:
        return MemoryStore()


class TestOverwritingMemory(StoreContract):
    grants_twice = True

    @pytest.fixture
    def store(self) -> BoardStore:
        return OverwritingMemoryStore()


class TestPlainMemory(StoreContract):
    puts_if_absent = False

    @pytest.fixture
    def store(self) -> BoardStore:
        return PlainMemoryStore()


class TestFolder(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> BoardStore:
        return open_store(str(tmp_path))


class InPlace(FolderStore):
    """Weakened: no temporary file, and it looks before it writes."""

    def put(self, name: str, data: bytes, new: bool = False) -> bool:
        path = Path(self._path(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        if new and path.exists():
            return False
        path.write_bytes(data)
        return True


def test_writing_in_place_is_seen(tmp_path: Path) -> None:
    assert written_while_read(InPlace(tmp_path), rounds=2000)


class Slow(MemoryStore):
    """Weakened: two puts at once both find the name absent."""

    def _create(self, name: str, data: bytes) -> bool:
        absent = name not in self.objects
        sleep(0.01)
        if absent:
            self.objects[name] = data
        return absent


def test_looking_before_writing_is_no_witness() -> None:
    found = probe_witness(Slow())
    assert not found.able
    assert "at once" in found.reason


def test_a_folder_is_a_witness_only_if_said_so(tmp_path: Path) -> None:
    found = probe_witness(FolderStore(tmp_path))
    assert not found.able
    assert "file system" in found.reason
