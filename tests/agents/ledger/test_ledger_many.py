"""Many ledgers in one process: few handles, little memory, saves in microseconds."""

import gc
import os
import time
import tracemalloc
from typing import Any

import pytest

from veilsum.agents.ledger import Ledger
from veilsum.agents.ledger.lock import HANDLES
from veilsum.privacy import Budget, PrivacyEvent


def handles() -> Any:
    return len(os.listdir("/proc/self/fd"))


def resident() -> Any:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.thorough
@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_many_at_once(tmp_path: Any, manifest: Any, count: Any) -> None:
    files, memory = handles(), resident()
    ledgers = [
        Ledger.open(tmp_path / f"{k}.ledger", manifest, "0", Budget(1.0), durability="process")
        for k in range(count)
    ]
    try:
        for ledger in ledgers:
            ledger.charge(1, 1, PrivacyEvent(0.5), lambda: (2**60,))
        begin = time.perf_counter()
        for _ in range(10):
            for ledger in ledgers:
                ledger.save(b"s" * 1500)
        each = (time.perf_counter() - begin) / (10 * count)
        assert handles() - files <= HANDLES * count + 5
        assert (resident() - memory) / count < 300_000
        assert each < 1e-3  # some 30 microseconds on an idle machine
    finally:
        for ledger in ledgers:
            ledger.close()
    assert handles() <= files + 5


@pytest.mark.thorough
def test_a_long_stream_takes_no_more_memory_than_a_short_one(tmp_path: Any, manifest: Any) -> None:
    with Ledger.open(tmp_path / "a.ledger", manifest, "0", Budget(1e6)) as ledger:
        vars(ledger._writer.store)["wait_for_disk"] = lambda _: (
            None
        )  # waiting for the disk is not the point
        ledger._writer.store.db.execute("PRAGMA synchronous = OFF")
        tracemalloc.start()
        sizes = []
        for reading in range(1, 1201):
            ledger.charge(reading, reading, PrivacyEvent(0.1), lambda: (2**60,))
            if reading in (200, 1200):
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        assert sizes[1] - sizes[0] < 20_000
        ledger._writer.store.db.execute("PRAGMA synchronous = FULL")
