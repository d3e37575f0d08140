"""What every store must do, whatever it is."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from veilsum.errors import StoreBusyError, StoreError
from veilsum.fleet.store import BoardStore, NoPutIfAbsentError, probe_witness

KEYS = [f"{number:064x}" for number in range(3)]


def written_while_read(store: BoardStore, rounds: int = 40) -> set[bytes | None]:
    """What a reader sees of one object while somebody writes it."""
    sizes = [b"a" * 60_000, b"b" * 90_000]
    store.put("post/torn", sizes[0])

    def write() -> None:
        for number in range(rounds):
            store.put("post/torn", sizes[number % 2])

    with ThreadPoolExecutor(1) as thread:
        writing = thread.submit(write)
        seen: set[bytes | None] = set()
        while not writing.done():
            try:
                seen.add(store.get("post/torn"))
            except StoreBusyError:  # a server that breaks off in the middle
                seen.add(None)
        writing.result()
    return seen - set(sizes)


class StoreContract:
    """Subclass it with a fixture `store`."""

    puts_if_absent = True  # there is such a call
    grants_twice = False  # and it is no good
    replaces_at_once = True  # a reader sees the old object or the new one

    def test_an_object_is_what_was_written_last(self, store: BoardStore) -> None:
        assert store.get("post/a") is None
        for data in (b"one", bytes(range(256)), b"x" * 1_000_000, b""):
            assert store.put("post/a", data) is True
            assert store.get("post/a") == data

    def test_names_are_those_of_a_folder(self, store: BoardStore) -> None:
        assert store.names("") == {}
        written = [f"post/{key}/topic.1" for key in KEYS] + ["poster/x", "seen/site_1"]
        for name in written:
            store.put(name, name.encode())
        assert sorted(store.names("")) == sorted(written)
        assert sorted(store.names("post")) == sorted(store.names("post/")) == written[:3]
        assert list(store.names(f"post/{KEYS[1]}/")) == [written[1]]
        assert list(store.names("seen/")) == ["seen/site_1"]
        assert store.names("claim/") == {}
        assert store.ignored == 0

    def test_a_version_changes_with_the_content_and_not_without(self, store: BoardStore) -> None:
        store.put("post/other", b"0")
        versions = []
        for number in range(5):
            store.put("post/a", b"%d" % number)
            versions.append(store.names("post/")["post/a"])
            time.sleep(0.01)
        assert len(set(versions)) == 5
        assert store.names("post/")["post/a"] == store.names("")["post/a"] == versions[-1]

    def test_what_is_removed_is_gone(self, store: BoardStore) -> None:
        store.put("claim/a/t/1", b"1")
        store.put("claim/a/t/2", b"2")
        for _ in range(2):  # present, then absent
            store.remove("claim/a/t/1")
            assert store.get("claim/a/t/1") is None
            assert list(store.names("claim/")) == ["claim/a/t/2"]
        store.remove("claim/a/t/2")
        assert store.names("") == {}
        store.put("claim/a/t/3", b"3")
        assert store.get("claim/a/t/3") == b"3"

    def test_many_are_read_at_once(self, store: BoardStore) -> None:
        written = {f"post/{number}/t": b"%d" % number for number in range(40)}
        for name, data in written.items():
            store.put(name, data)
        assert store.get_many([*store.names("post/"), "post/none"]) == written | {"post/none": None}
        assert store.get_many([]) == {}

    @pytest.mark.parametrize(
        "name",
        ["", "../a", "a/../b", "/a", "a//b", "a/", "a/.b", "a b", "a\\b", "ä", "a\n", "a" * 201,
         "post/a.tmp", "post/a.sync-conflict-20260101-120000-ABCDEFG"],
    )  # fmt: skip
    def test_other_names_are_refused(self, store: BoardStore, name: str) -> None:
        for call in (store.get, store.remove, lambda name: store.put(name, b"")):
            with pytest.raises(StoreError, match="no name"):
                call(name)

    def test_put_if_absent(self, store: BoardStore) -> None:
        if not self.puts_if_absent:
            with pytest.raises(NoPutIfAbsentError):
                store.put("claim/a", b"1", new=True)
            return
        assert store.put("claim/a", b"1", new=True) is True
        assert store.put("claim/a", b"2", new=True) is self.grants_twice
        assert store.get("claim/a") == (b"2" if self.grants_twice else b"1")

    def test_the_probe_tells_whether_it_can_be_a_witness(self, store: BoardStore) -> None:
        found = probe_witness(store, one_file_system=True)
        assert found.able is (self.puts_if_absent and not self.grants_twice), found
        assert store.names("") == {}

    def test_half_an_object_is_never_seen(self, store: BoardStore) -> None:
        torn = written_while_read(store)
        assert not torn or not self.replaces_at_once
