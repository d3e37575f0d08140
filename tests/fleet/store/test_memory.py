from dataclasses import fields, replace
from random import Random
from typing import Any

import pytest

from veilsum.errors import StoreBusyError, StoreDeniedError, StoreError, StoreFullError
from veilsum.fleet.store import MemoryStore, StoreFaults, open_store


def history(seed: int, faults: StoreFaults, calls: int = 400) -> tuple[list[str], MemoryStore]:
    """What each of many calls came to."""
    store = MemoryStore(faults=faults, random=Random(seed))
    came: list[str] = []
    for number in range(calls):
        name = f"post/{number % 7}"
        for call in (lambda: store.put(name, b"%d" % number), lambda: store.names("")):  # noqa: B023
            try:
                came.append(repr(call()))
            except StoreError as error:
                came.append(str(error))
    return came, store


CHANCES = [part.name for part in fields(StoreFaults) if part.name != "lag"]


def chances(given: dict[str, Any]) -> StoreFaults:
    return StoreFaults(**given)


def test_the_same_seed_has_the_same_faults() -> None:
    faults = chances(dict.fromkeys(CHANCES, 0.1))
    (first, one), (again, two), (other, _) = (history(seed, faults) for seed in (1, 1, 2))
    assert first == again != other
    assert one.objects == two.objects
    assert set(one.happened) == set(CHANCES)


@pytest.mark.parametrize("fault", CHANCES)
def test_each_fault_happens_as_often_as_it_should(fault: str) -> None:
    _, store = history(3, chances({fault: 0.3}), 1000)
    # 1,000 or 2,000 draws: 5.5 deviations and more, so that a false alarm has less than 1e-7
    expected = 600 if fault in ("before", "after") else 300
    assert store.happened.keys() == {fault}
    assert abs(store.happened[fault] - expected) < 130


def certain(**faults: float) -> MemoryStore:
    return MemoryStore(faults=replace(chances(faults), lag=3))


ALMOST_ONE = 1 - 1e-12


def test_a_call_fails_before_or_after_its_effect() -> None:
    for fault, left in (
        ("before", {}),
        ("after", {"post/a": b"data"}),
        ("half", {"post/a": b"da"}),
    ):
        store = certain(**{fault: ALMOST_ONE})
        with pytest.raises(StoreBusyError, match="post/a"):
            store.put("post/a", b"data")
        assert store.objects == left


def test_a_claim_that_fails_after_its_effect_is_refused_the_second_time() -> None:
    store = certain(after=ALMOST_ONE)
    data = b"claim"
    with pytest.raises(StoreBusyError):
        store.put("claim/a", data, new=True)
    store.faults = StoreFaults()
    assert store.put("claim/a", data, new=True) is False


def test_late_and_doubled_puts() -> None:
    late, doubled = certain(late=ALMOST_ONE), certain(again=ALMOST_ONE)
    late.put("post/a", b"1")
    assert [late.get("post/a") for _ in range(4)] == [None, None, b"1", b"1"]
    doubled.put("post/a", b"1")
    doubled.faults = StoreFaults()
    doubled.put("post/a", b"2")
    assert [doubled.get("post/a") for _ in range(3)] == [b"2", b"1", b"1"]
    late.put("post/b", b"1")
    late.settle()
    assert late.get("post/b") == b"1"


def test_a_stale_listing_names_what_was() -> None:
    store = MemoryStore()
    store.put("post/a", b"1")
    before = store.names("")
    store.faults = StoreFaults(stale=ALMOST_ONE)
    store.put("post/b", b"2")
    assert store.names("") == before
    assert store.get("post/b") == b"2"


@pytest.mark.parametrize("kind", [StoreDeniedError, StoreFullError, StoreBusyError])
def test_read_only_full_and_unreachable(kind: type[StoreError]) -> None:
    store = MemoryStore()
    store.put("post/a", b"1")
    store.refuses = kind
    for call in (lambda: store.put("post/a", b"2"), lambda: store.remove("post/a")):
        with pytest.raises(kind, match="post/a"):
            call()
    assert store.get("post/a") == b"1"
    store.fails = kind
    with pytest.raises(kind, match="listing"):
        store.names("")


def test_sites_see_one_network_each_through_faults_of_its_own() -> None:
    first = MemoryStore()
    second = MemoryStore(objects=first.objects)
    second.withheld = lambda name: name.startswith("post/a")
    first.put("post/a", b"1")
    first.put("post/b", b"2")
    before = first.snapshot()
    assert list(second.names("post/")) == ["post/b"]
    assert second.get("post/a") is None
    second.put("post/b", b"3")
    assert first.get("post/b") == b"3"
    first.restore(before)
    assert second.get("post/b") == b"2"


def test_stores_in_memory_have_names() -> None:
    open_store("memory:of-this-test").put("post/a", b"1")
    assert open_store("memory:of-this-test").get("post/a") == b"1"
    assert open_store("memory:another").get("post/a") is None


def test_what_was_read_before_a_failure_is_kept() -> None:
    store = MemoryStore(random=Random(5))
    for number in range(30):
        store.put(f"post/{number}", b"%d" % number)
    store.faults = StoreFaults(before=0.1)
    read = store.get_many(store.snapshot())
    assert 0 < len(read) < 30
    assert all(data == name.removeprefix("post/").encode() for name, data in read.items() if data)
    store.fails = StoreBusyError
    with pytest.raises(StoreBusyError):
        store.get_many(["post/1"])


def test_chances_are_checked() -> None:
    with pytest.raises(StoreError, match="late"):
        StoreFaults(late=1.5)
    with pytest.raises(StoreError, match="lag"):
        StoreFaults(lag=0)
