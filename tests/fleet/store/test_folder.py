import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import pytest

from veilsum.errors import StoreBusyError, StoreDeniedError, StoreError, StoreFullError
from veilsum.fleet.store import FolderStore, NoPutIfAbsentError, open_store, probe_witness
from veilsum.fleet.store.base import LARGEST


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path)


def test_copies_and_unfinished_files_of_other_programs_are_passed_over(
    tmp_path: Path, store: FolderStore
) -> None:
    store.put("post/aa/topic", b"1")
    others = (
        "topic.sync-conflict-20260101-120000-ABCDEFG",
        "topic (conflicted copy 2026-01-01).x",
        "topic_conflict-20260101-120000",
        "topic-conflict-1",
        "topic.tmp",
        "topic.part",
        ".topic.Xy12",
        ".syncthing.topic.tmp",
        "topic~",
        "topic (1)",
        ".DS_Store",
    )
    for other in others:
        (tmp_path / "post/aa" / other).write_bytes(b"2")
    (tmp_path / ".stfolder").mkdir()
    assert list(store.names("")) == ["post/aa/topic"]
    assert store.ignored == len(others) + 1


def test_links_pipes_folders_and_large_files_are_no_objects(
    tmp_path: Path, store: FolderStore
) -> None:
    secret = tmp_path.parent / "secret"
    secret.write_bytes(b"not for the board")
    (tmp_path / "post").mkdir()
    (tmp_path / "post/link").symlink_to(secret)
    (tmp_path / "post/folder").symlink_to(tmp_path.parent)
    os.mkfifo(tmp_path / "post/pipe")
    with (tmp_path / "post/large").open("wb") as large:
        large.truncate(LARGEST + 1)
    (tmp_path / "post/inner").mkdir()
    assert store.names("post/") == {}
    assert store.ignored == 4
    for name in ("pipe", "large", "inner", "link/below"):
        assert store.get(f"post/{name}") is None
    with pytest.raises(StoreError):
        store.get("post/link")


KILLED = """
import sys, veilsum.fleet.store.folder as folder
def stop(file):
    print("written", flush=True)
    sys.stdin.read()
folder.os.fsync = stop
folder.FolderStore(sys.argv[1]).put("post/a", b"new" * 100)
"""


@pytest.mark.thorough
def test_a_writer_that_is_killed_leaves_the_old_object_and_nothing_for_long(
    tmp_path: Path, store: FolderStore
) -> None:
    store.put("post/a", b"old")
    before = store.names("post/")
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        writer.send_signal(signal.SIGKILL)
    assert store.names("post/") == before
    assert store.get("post/a") == b"old"
    (left,) = (tmp_path / "post").glob(".veilsum-*.tmp")
    os.utime(left, (time.time() - 7200,) * 2)
    store.names("")
    assert not left.exists()


def test_a_folder_that_is_not_there_is_never_made_by_a_put(tmp_path: Path) -> None:
    stick = tmp_path / "stick"
    store = open_store(str(stick))
    for call in (lambda: store.names(""), lambda: store.put("post/a", b"1")):
        with pytest.raises(StoreBusyError, match="stick"):
            call()
    assert not stick.exists()
    assert open_store(stick.as_uri(), create=True).put("post/a", b"1")
    assert store.get("post/a") == b"1"


def test_nothing_stays_where_all_was_removed(tmp_path: Path, store: FolderStore) -> None:
    store.put("claim/a/t/1", b"1")
    store.remove("claim/a/t/1")
    assert list(tmp_path.iterdir()) == []


def failing(number: int) -> Any:
    def fail(*_: Any, **__: Any) -> NoReturn:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.EACCES, StoreDeniedError), (errno.EROFS, StoreDeniedError), (errno.ENOSPC, StoreFullError),
     (errno.EDQUOT, StoreFullError), (errno.EIO, StoreBusyError), (errno.ESTALE, StoreBusyError),
     (errno.ENAMETOOLONG, StoreError)],
)  # fmt: skip
def test_what_the_system_says_is_said_with_where_and_what_to_do(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[StoreError]
) -> None:
    monkeypatch.setattr(os, "open", failing(number))
    for call in (lambda: store.put("post/a", b"1"), lambda: store.get("post/a")):
        with pytest.raises(StoreError) as caught:
            call()
        assert type(caught.value) is kind
        for part in (store.address, "post/a", os.strerror(number), ";"):
            assert part in str(caught.value)


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_full_folder_keeps_the_old_object_and_no_half_of_the_new(
    tmp_path: Path, store: FolderStore, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    store.put("post/a", b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing(errno.ENOSPC))
        with pytest.raises(StoreFullError):
            store.put("post/a", b"new")
    assert [path.read_bytes() for path in (tmp_path / "post").iterdir()] == [b"old"]


def test_a_file_system_without_hard_links_is_no_witness(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", failing(errno.EPERM))
    with pytest.raises(NoPutIfAbsentError, match="hard links"):
        store.put("claim/a", b"1", new=True)
    assert not probe_witness(store, one_file_system=True).able
    assert store.names("") == {}


def test_a_young_file_of_a_coarse_clock_has_a_new_version_at_each_listing(
    tmp_path: Path, store: FolderStore
) -> None:
    store.put("post/a", b"1")
    file = tmp_path / "post/a"
    young, old = (int(time.time()) - age for age in (0, 60))
    os.utime(file, (young, young))
    assert store.names("") != store.names("")
    os.utime(file, (old, old))
    assert store.names("") == store.names("")


@pytest.mark.parametrize("partly", [1, 7])
def test_short_reads_and_writes_are_gone_on_with(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch, partly: int
) -> None:
    read, write = os.read, os.write
    monkeypatch.setattr(os, "read", lambda file, size: read(file, min(size, partly)))
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:partly]))
    store.put("post/a", b"a longer text")
    assert store.get("post/a") == b"a longer text"
