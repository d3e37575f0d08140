"""A disk that is full, a file that cannot be written or read, two processes: nothing released."""

import os
import resource
import signal
import sqlite3
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from veilsum.agents.ledger import Ledger, verify
from veilsum.agents.ledger import lock as locks
from veilsum.errors import LedgerError
from veilsum.privacy import Budget, PrivacyEvent

COST = PrivacyEvent(0.001)


def in_child(work: Any) -> Any:
    """Run it in a process of its own; what it returned, as text."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(into, work().encode())
        finally:
            os._exit(0)
    os.close(into)
    with os.fdopen(out) as reported:
        said = reported.read()
    os.waitpid(child, 0)
    return said


def refused(work: Any) -> Any:
    try:
        work()
    except LedgerError as problem:
        return str(problem)
    return ""


def test_two_processes_on_one_ledger(
    open_ledger: Any, manifest: Any, tmp_path: Any, draw: Any, cost: Any
) -> None:
    ledger = open_ledger()
    ledger.charge(1, 1, cost, draw)
    path = tmp_path / "a.ledger"
    said = in_child(lambda: refused(lambda: Ledger.open(path, manifest, "0", Budget(1.0))))
    assert f"{path} is open in process {os.getpid()}" in said
    assert "nothing was released" in said
    assert ledger.charge(1, 1, cost, draw)  # the first is not disturbed


def test_twice_in_one_process_is_refused_too(open_ledger: Any) -> None:
    open_ledger()
    with pytest.raises(LedgerError, match=f"open in process {os.getpid()}"):
        open_ledger()


def test_the_lock_ends_with_its_process(open_ledger: Any, manifest: Any, tmp_path: Any) -> None:
    path = tmp_path / "a.ledger"
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        Ledger.open(path, manifest, "0", Budget(1.0))
        os.write(into, b"1")
        signal.pause()
    assert os.read(out, 1) == b"1"
    with pytest.raises(LedgerError, match=f"process {child}"):
        open_ledger()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(out)
    os.close(into)
    assert open_ledger().releases == 0


def test_a_child_of_the_process_may_not_use_it(open_ledger: Any, draw: Any, cost: Any) -> None:
    ledger = open_ledger()
    said = in_child(lambda: refused(lambda: ledger.charge(1, 1, cost, draw)))
    assert "open the ledger after forking" in said
    assert ledger.releases == 0


def fill(ledger: Any) -> Any:
    """Charge until it is refused; how many were released, and the words of the refusal."""
    for reading in range(1, 2000):
        try:
            ledger.charge(reading, reading, COST, lambda: (7**500,))
        except LedgerError as problem:
            return reading - 1, str(problem)
    pytest.fail("it never became full")


def test_a_full_disk(open_ledger: Any) -> None:
    ledger = open_ledger()
    pages = ledger._writer.store.db.execute("PRAGMA page_count").fetchone()[0]
    ledger._writer.store.db.execute(f"PRAGMA max_page_count = {pages + 3}")
    count, said = fill(ledger)
    assert "a.ledger: cannot write the release" in said
    assert "the disk is full" in said
    assert "nothing was released; free some space" in said
    with pytest.raises(LedgerError, match="an earlier write failed; open it again"):
        ledger.charge(count + 2, 1, COST, lambda: pytest.fail("drawn"))
    with pytest.raises(LedgerError, match="open it again"):
        ledger.save(b"state")
    ledger.close()
    again = open_ledger()  # with space again
    assert again.releases == count
    again.charge(count + 1, 1, COST, lambda: (1,))
    assert again.releases == count + 1


def test_a_full_disk_stops_a_save(open_ledger: Any) -> None:
    ledger = open_ledger()
    ledger.save(b"early")
    pages = ledger._writer.store.db.execute("PRAGMA page_count").fetchone()[0]
    ledger._writer.store.db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(LedgerError, match="cannot save the state: the disk is full"):
        ledger.save(bytes(10**6))
    ledger.close()
    assert open_ledger().resume() == (None, 2)  # not in good order: better safe


def test_a_file_that_may_not_grow(manifest: Any, tmp_path: Any) -> None:
    """A real refusal by the kernel, in a process with a limit on the size of its files."""
    path = tmp_path / "a.ledger"

    def work() -> Any:
        ledger = Ledger.open(path, manifest, "0", Budget(1.0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
        count, said = fill(ledger)
        return f"{count} {said}"

    count, said = in_child(work).split(" ", 1)
    assert int(count) > 0
    assert "nothing was released" in said
    with Ledger.open(path, manifest, "0", Budget(1.0)) as ledger:
        assert ledger.releases == int(count)


@contextmanager
def small_disk(place: Any, size: Any = "256k") -> Any:
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.thorough
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk takes root")
def test_a_small_disk_that_fills_up(manifest: Any, tmp_path: Any) -> None:
    with small_disk(tmp_path):
        with Ledger.open(tmp_path / "a.ledger", manifest, "0", Budget(1.0)) as ledger:
            count, said = fill(ledger)
            assert count > 0
            assert "nothing was released" in said
        assert verify(tmp_path / "a.ledger").ok
        assert verify(tmp_path / "a.ledger").releases == count


@contextmanager
def as_nobody() -> Any:
    """Permissions mean nothing to root: step down for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Any:
    """A folder that others than its owner can enter."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        yield Path(folder)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_read_only(open_folder: Any, manifest: Any, what: Any) -> None:
    path = open_folder / "a.ledger"
    with as_nobody():
        Ledger.open(path, manifest, "0", Budget(1.0)).close()
        path.chmod(0o400 if what == "file" else 0o600)
    open_folder.chmod(0o555 if what == "folder" else 0o777)
    try:
        with as_nobody(), pytest.raises(LedgerError) as caught:
            Ledger.open(path, manifest, "0", Budget(1.0))
    finally:
        open_folder.chmod(0o777)
    assert str(path) in str(caught.value)
    assert "nothing was released" in str(caught.value)
    assert "check the folder" in str(caught.value) or "user write" in str(caught.value)


def test_a_folder_that_is_not_there(open_ledger: Any) -> None:
    with pytest.raises(LedgerError, match="check the folder"):
        open_ledger("nowhere/a.ledger")


def filled(open_ledger: Any, name: Any = "a.ledger", count: Any = 60) -> None:
    ledger = open_ledger(name)
    for reading in range(1, count + 1):
        ledger.charge(reading, reading, COST, lambda: (7**300,))
    ledger.save(b"state" * 100)
    ledger.close()


@pytest.mark.thorough
@pytest.mark.parametrize("place", [0.0, 0.3, 0.5, 0.7, 0.9])
def test_a_damaged_page(open_ledger: Any, tmp_path: Any, place: Any) -> None:
    filled(open_ledger)
    path = tmp_path / "a.ledger"
    at = int(path.stat().st_size * place) // 2048 * 2048
    with path.open("r+b") as file:
        file.seek(at)
        file.write(os.urandom(1500) if place else b"not a database")
    with pytest.raises(LedgerError, match=r"a\.ledger.*nothing was\s+released"):
        open_ledger()
    found = verify(path)
    assert not found.ok
    assert found.problems


@pytest.mark.parametrize("left", [0, 100, 2048, 20_000])
def test_a_truncated_file(open_ledger: Any, tmp_path: Any, left: Any) -> None:
    filled(open_ledger)
    os.truncate(tmp_path / "a.ledger", left)
    with pytest.raises(LedgerError, match=r"a\.ledger.*nothing was\s+released"):
        open_ledger()
    assert not verify(tmp_path / "a.ledger").ok


def test_a_deleted_file(open_ledger: Any, tmp_path: Any) -> None:
    filled(open_ledger)
    (tmp_path / "a.ledger").unlink()
    with pytest.raises(LedgerError, match="lock file records 60 releases"):
        open_ledger()


def abandoned(manifest: Any, path: Any, saves: Any = b"state") -> None:
    """A ledger whose process was killed, so that its log is still there."""
    child = os.fork()
    if child == 0:
        ledger = Ledger.open(path, manifest, "0", Budget(1.0))
        ledger.charge(1, 1, COST, lambda: (5,))
        ledger.save(saves)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_deleted_log(open_ledger: Any, manifest: Any, tmp_path: Any) -> None:
    path = tmp_path / "a.ledger"
    abandoned(manifest, path)
    (tmp_path / "a.ledger-wal").unlink()
    with pytest.raises(LedgerError, match="write-ahead log was deleted"):
        open_ledger()
    assert not verify(path).ok
    assert not (tmp_path / "a.ledger-wal").exists()
    (tmp_path / "a.ledger.lock").unlink()
    with pytest.raises(LedgerError, match=r"a\.ledger-wal is missing"):
        open_ledger()


def test_a_log_moved_in_by_another_program_is_no_loss_but_ends_the_incarnation(
    open_ledger: Any, manifest: Any, tmp_path: Any
) -> None:
    abandoned(manifest, tmp_path / "a.ledger")
    other = sqlite3.connect(tmp_path / "a.ledger")
    other.execute("SELECT count(*) FROM releases").fetchall()
    other.close()  # the last to close moves the log in and deletes it
    assert not (tmp_path / "a.ledger-wal").exists()
    ledger = open_ledger()
    assert ledger.releases == 1
    assert ledger.resume() == (None, 2)


def test_a_file_that_is_no_ledger(open_ledger: Any, tmp_path: Any) -> None:
    other = sqlite3.connect(tmp_path / "a.ledger")
    other.execute("CREATE TABLE meta (name, value)")
    other.commit()
    other.close()
    with pytest.raises(LedgerError, match="does not have the contents of a ledger"):
        open_ledger()


def test_a_crash_while_it_is_made_leaves_no_trouble(open_ledger: Any, tmp_path: Any) -> None:
    (tmp_path / "a.ledger").touch(mode=0o600)
    assert open_ledger().incarnation == 1


def test_too_few_open_files_is_said(monkeypatch: Any) -> None:
    monkeypatch.setattr(locks, "HANDLES", 10**9)
    with pytest.raises(LedgerError, match=r"open files and this process may have"):
        locks.raise_file_limit(10)


def test_the_soft_limit_is_raised() -> None:
    def work() -> Any:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (300, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        )
        locks.raise_file_limit(100)
        return str(resource.getrlimit(resource.RLIMIT_NOFILE)[0])

    assert int(in_child(work)) >= 656
