"""The spool: encrypted, bound to its ledger, and never lost, cut or replayed unnoticed."""

import errno
import itertools
import os
import shutil
import signal
import struct
from pathlib import Path
from typing import Any

import pytest

from veilsum.agents.runtime.spool import NO_SLOT, MemorySpool, SpooledReading
from veilsum.agents.runtime.spool_file import HEADER, NONCE, FileSpool
from veilsum.errors import LedgerError

SECRET = b"s" * 32
VALUE = 1234.5678


def reading(number: int, value: float = VALUE) -> SpooledReading:
    return SpooledReading(number, number + 10, NO_SLOT, f"{number:032x}", (value,))


class Marks:
    """A ledger as far as a spool needs it: the mark, in a file of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path.with_name("mark")

    @property
    def spool_mark(self) -> str:
        return self.path.read_text() if self.path.exists() else ""

    def mark_spool(self, mark: str) -> None:
        self.path.write_text(mark)


def opened(path: Path, last: int = 0, secret: bytes = SECRET, **more: Any) -> FileSpool:
    identity: dict[str, Any] = {"ledger": Marks(path), "agent": "north", "terms": "terms"} | more
    return FileSpool(path, secret, last=last, **identity)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "north.ledger.spool"


def filled(path: Path, count: int = 3) -> None:
    spool = opened(path)
    for k in range(1, count + 1):
        spool.append(reading(k))
    spool.close()


def numbers(path: Path, last: int = 0, **more: Any) -> list[int]:
    spool = opened(path, last, **more)
    found = [record.number for record in spool.records]
    spool.close()
    return found


def test_readings_come_back_as_they_were(path: Path) -> None:
    filled(path)
    again = opened(path)
    assert again.records == [reading(k) for k in (1, 2, 3)]
    again.append(reading(4))
    again.close()
    assert numbers(path) == [1, 2, 3, 4]
    with pytest.raises(LedgerError, match="it is closed"):
        again.append(reading(5))


def test_no_reading_can_be_found_in_any_file_or_name(path: Path) -> None:
    spool = opened(path)
    values = [VALUE, 1e300, -0.1, 5.0]
    for k, value in enumerate(values, 1):
        spool.append(reading(k, value))
    written = b"".join(file.read_bytes() for file in path.parent.iterdir())
    spool.close()
    for value in values:
        for kind in ("<d", ">d", "<f", ">f"):
            raw = struct.pack(kind, min(value, 3e38))
            assert raw not in written
        assert repr(value).encode() not in written
    assert bytes.fromhex(f"{1:032x}") not in written, "an origin hash is not in the open either"
    assert str(VALUE) not in repr(reading(1))
    assert path.stat().st_mode & 0o077 == 0
    lengths = {len(path.read_bytes())}
    path.with_name("mark").unlink()
    other = path.with_name("other")
    for values in ([0.0] * 4, [1e-300] * 4):
        spool = opened(other)
        for k, value in enumerate(values, 1):
            spool.append(reading(k, value))
        spool.close()
        lengths.add(len(other.read_bytes()))
        other.unlink()
        other.with_name("mark").unlink()
    assert len(lengths) == 1, "the length tells nothing of a reading"


def test_the_search_finds_what_is_not_encrypted(path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(
        FileSpool, "_encrypt", lambda *args: bytes(NONCE) + struct.pack("<d", args[1].value[0])
    )
    with pytest.raises(AssertionError):
        test_no_reading_can_be_found_in_any_file_or_name(path)


def pairs_of_key_and_nonce(path: Path, monkeypatch: Any) -> list[tuple[bytes, bytes]]:
    """Every pair that was ever used, over openings, batches, and copies put back."""
    from cryptography.hazmat.primitives.ciphers import aead

    used: list[tuple[bytes, bytes]] = []

    class Recording:
        def __init__(self, key: bytes) -> None:
            self.key = key

        def encrypt(self, nonce: bytes, data: bytes, more: bytes | None) -> bytes:
            used.append((self.key, nonce))
            return aead_usual(self.key).encrypt(nonce, data, more)

        def decrypt(self, nonce: bytes, data: bytes, more: bytes | None) -> bytes:
            return aead_usual(self.key).decrypt(nonce, data, more)

    aead_usual = aead.ChaCha20Poly1305
    monkeypatch.setattr(aead, "ChaCha20Poly1305", Recording)
    kept = path.parent / "kept"
    kept.mkdir()
    for round_ in range(6):
        spool = opened(path)
        for k in range(3):
            spool.append(reading(3 * round_ + k + 1))
        if round_ % 3 == 2:
            spool.clear(0)
        spool.close()
        for file in (path, path.with_name("mark")):
            if round_ == 0:
                shutil.copy(file, kept / file.name)
            elif round_ == 3:
                shutil.copy(kept / file.name, file)
    return used


def test_no_pair_of_key_and_nonce_is_used_twice(path: Path, monkeypatch: Any) -> None:
    used = pairs_of_key_and_nonce(path, monkeypatch)
    assert len(used) == 18
    assert len(set(used)) == len(used)


def test_the_nonce_test_sees_a_counter(path: Path, monkeypatch: Any) -> None:
    """A counter that starts anew with the process repeats itself once a copy is put back."""
    counters: dict[Any, Any] = {}

    def counter(size: int) -> bytes:
        number: int = next(counters.setdefault(size, itertools.count()))
        return number.to_bytes(size)

    usual = FileSpool.__init__

    def restart(self: Any, *args: Any, **more: Any) -> None:
        counters.clear()
        usual(self, *args, **more)

    monkeypatch.setattr("secrets.token_bytes", counter)
    monkeypatch.setattr(FileSpool, "__init__", restart)
    used = pairs_of_key_and_nonce(path, monkeypatch)
    assert len(set(used)) < len(used)


@pytest.mark.parametrize(
    "other", [{"secret": b"t" * 32}, {"agent": "south"}, {"terms": "other"}], ids=str
)
def test_a_spool_under_another_key_agent_or_terms_is_refused(path: Path, other: Any) -> None:
    filled(path)
    with pytest.raises(LedgerError, match="record 1 of 3 is damaged"):
        opened(path, **other)
    assert numbers(path) == [1, 2, 3], "nothing was changed by the attempt"


@pytest.mark.parametrize("own", [0, 2])
def test_the_spool_of_another_agent_is_refused(path: Path, own: int) -> None:
    other = path.parent / "other"
    other.mkdir()
    filled(other / path.name)
    if own:
        filled(path, own)
    else:
        numbers(path)
    path.write_bytes((other / path.name).read_bytes())
    with pytest.raises(LedgerError, match="or of another agent"):
        opened(path)
    path.with_name("mark").unlink()
    with pytest.raises(LedgerError, match="it is of another agent"):
        opened(path)


def test_every_flipped_bit_and_every_cut_is_detected(path: Path) -> None:
    filled(path)
    whole = path.read_bytes()
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(LedgerError, match="cannot be trusted"):
            opened(path)
    for length in range(0, len(whole), 5):
        path.write_bytes(whole[:length])
        with pytest.raises(LedgerError, match="it was cut, or is an older copy"):
            opened(path)
    path.write_bytes(whole)
    assert numbers(path) == [1, 2, 3]


def test_a_file_that_was_removed_is_begun_anew_and_counted(path: Path) -> None:
    filled(path)
    path.unlink()
    spool = opened(path)
    assert (spool.lost, spool.records) == (3, [])
    spool.append(reading(4))
    spool.close()
    again = opened(path)
    assert (again.lost, [record.number for record in again.records]) == (0, [4])
    again.close()


def test_records_that_change_places_are_detected(path: Path) -> None:
    filled(path)
    whole = path.read_bytes()
    size = (len(whole) - HEADER.size) // 3
    first, rest = whole[: HEADER.size], whole[HEADER.size :]
    path.write_bytes(first + rest[size : 2 * size] + rest[:size] + rest[2 * size :])
    with pytest.raises(LedgerError, match="record 1 of 3 is damaged"):
        opened(path)


def test_an_older_copy_is_detected(path: Path) -> None:
    filled(path, 2)
    older = path.read_bytes()
    spool = opened(path)
    spool.append(reading(3))
    spool.close()
    now = path.read_bytes()
    path.write_bytes(older)
    with pytest.raises(LedgerError, match="it has 2 readings and had 3"):
        opened(path)
    path.write_bytes(now)
    spool = opened(path)
    spool.clear(3)
    spool.append(reading(4))
    spool.close()
    for copy in (older, now):
        path.write_bytes(copy)
        with pytest.raises(LedgerError, match="an older copy"):
            opened(path, 3)


def test_a_ledger_older_than_the_spool_is_detected(path: Path) -> None:
    filled(path, 1)
    spool = opened(path)
    spool.clear(1)
    spool.append(reading(2))
    spool.close()
    with pytest.raises(LedgerError, match="it follows release 1, and the ledger ends with 0"):
        opened(path)
    assert numbers(path, 1) == [2]


def test_a_batch_that_the_ledger_released_is_dropped(path: Path) -> None:
    filled(path, 3)
    assert numbers(path, 3) == []
    assert path.stat().st_size == 0


STEPS = ("written", "marked", "renewed", "emptied")


def killed_at(path: Path, step: str) -> None:
    """Two readings are there; a child appends a third and empties the spool, killed at a step."""
    child = os.fork()
    if child == 0:
        try:

            def at(here: str) -> None:
                if here == step:
                    os.kill(os.getpid(), signal.SIGKILL)

            spool = opened(path, probe=at)
            spool.append(reading(3))
            spool.clear(3)
        finally:
            os._exit(3)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_every_step_loses_nothing(path: Path, step: str) -> None:
    filled(path, 2)
    killed_at(path, step)
    last = 0 if step in STEPS[:2] else 3  # the ledger commits before the spool is emptied
    assert numbers(path, last) == ([] if last else [1, 2, 3])
    spool = opened(path, last)
    spool.append(reading(4))
    spool.close()
    assert numbers(path, last)[-1] == 4


def test_the_kill_test_sees_a_spool_that_does_not_write(path: Path, monkeypatch: Any) -> None:
    def late(self: Any, one: Any) -> None:
        self.records.append(one)
        self._probe("written")

    filled(path, 2)
    monkeypatch.setattr(FileSpool, "append", late)
    killed_at(path, "written")
    assert numbers(path) == [1, 2]


@pytest.mark.parametrize("torn", [1, 50, 84])
def test_a_record_that_was_not_written_to_its_end_is_dropped(path: Path, torn: int) -> None:
    """Its source was never acknowledged, and still has it."""
    filled(path, 2)
    with path.open("ab") as file:
        file.write(os.urandom(torn))
    assert numbers(path) == [1, 2]
    filled_size = path.stat().st_size
    assert numbers(path) == [1, 2]
    assert path.stat().st_size == filled_size


def test_a_full_disk_loses_nothing_and_leaves_nothing(path: Path, monkeypatch: Any) -> None:
    filled(path, 2)
    spool = opened(path)
    usual, budget = os.pwrite, [40]

    def short(handle: int, data: bytes, at: int) -> int:
        if handle != spool._file:
            return usual(handle, data, at)
        some = data[: budget[0]]
        budget[0] -= len(some)
        if not some:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return usual(handle, some, at)

    before = path.read_bytes()
    monkeypatch.setattr(os, "pwrite", short)
    with pytest.raises(LedgerError, match=r"the disk is full .* stays with its source"):
        spool.append(reading(3))
    assert spool.usable
    assert path.read_bytes() == before
    monkeypatch.setattr(os, "pwrite", usual)
    spool.append(reading(3))
    spool.close()
    assert numbers(path) == [1, 2, 3]


def test_a_ledger_that_cannot_be_written_ends_the_use_and_loses_nothing(
    path: Path, monkeypatch: Any
) -> None:
    filled(path, 2)
    spool = opened(path)

    def fail(*_: Any) -> None:
        raise LedgerError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Marks, "mark_spool", fail)
        with pytest.raises(LedgerError, match="the disk is full"):
            spool.append(reading(3))
    assert not spool.usable
    spool.close()
    assert numbers(path) == [1, 2, 3], "it was written, and its source not acknowledged"


def test_without_a_device_key_it_is_in_memory_and_says_so() -> None:
    spool = MemorySpool()
    spool.append(reading(1))
    assert not spool.durable
    spool.clear(1)
    assert not spool.records


def test_vectors(path: Path) -> None:
    spool = opened(path, components=3)
    spool.append(SpooledReading(1, 1, 7, "", (1.0, 2.0, 3.0)))
    spool.close()
    again = opened(path, components=3)
    assert again.records == [SpooledReading(1, 1, 7, "", (1.0, 2.0, 3.0))]
    again.close()


class StoppedError(Exception):
    """A crash at a step."""


def renumbered(path: Path, stop: str = "", last: int = 0) -> list[int]:
    """Open a spool whose numbers begin anew, or crash at a step of that."""

    def probe(step: str) -> None:
        if step == stop:
            raise StoppedError

    spool = opened(path, last, anew=True, probe=probe)
    found = [record.number for record in spool.records]
    spool.close()
    return found


def carried(path: Path) -> None:
    """A batch of three readings after release 7, of a run that has ended."""
    spool = opened(path)
    spool.clear(7)
    for k in (8, 9, 10):
        spool.append(reading(k))
    spool.close()


def test_where_numbers_begin_anew_the_open_batch_is_the_first(path: Path) -> None:
    carried(path)
    with pytest.raises(LedgerError, match="it follows release 7, and the ledger ends with 0"):
        numbers(path)
    spool = opened(path, anew=True)
    assert spool.records == [reading(k)._replace(number=1) for k in (8, 9, 10)]
    spool.append(reading(2))
    spool.close()
    assert numbers(path) == [1, 1, 1, 2]
    assert renumbered(path) == [1, 1, 1, 2]


@pytest.mark.parametrize("step", ["renumbered", "renumbering marked"])
def test_a_crash_while_numbers_begin_anew_loses_nothing(path: Path, step: str) -> None:
    carried(path)
    with pytest.raises(StoppedError):
        renumbered(path, step)
    assert renumbered(path) == [1, 1, 1]
    assert numbers(path) == [1, 1, 1]
    assert not path.with_name(f"{path.name}.next").exists()


def test_an_empty_batch_and_a_removed_one_begin_anew(path: Path) -> None:
    spool = opened(path)
    spool.clear(7)
    spool.close()
    assert renumbered(path) == []
    assert numbers(path) == []
    carried(path)
    path.unlink()
    spool = opened(path, anew=True)
    assert (spool.records, spool.lost) == ([], 3)
    spool.close()
