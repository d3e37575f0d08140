"""Threads and processes that use a ledger at once: no budget overspent, no reading drawn twice."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from typing import Any

import pytest

from veilsum.agents.ledger import Ledger, read_ledger, verify
from veilsum.errors import LedgerError
from veilsum.privacy import Budget, BudgetExceeded

THREADS, READINGS = 16, 12  # a budget of 1 covers four at 0.25

CHILD = """
import json, os, sys
from veilsum.agents.ledger import Ledger
from veilsum.agents.manifest import Manifest
from veilsum.errors import VeilsumError
from veilsum.privacy import Budget, PrivacyEvent

path, manifest = sys.argv[1], Manifest.from_json(open(sys.argv[2]).read())
print("ready", flush=True)
sys.stdin.readline()
made, refused = [], []
for _ in range(200):
    try:
        with Ledger.open(path, manifest, "0", Budget(1.0)) as ledger:
            for reading in range(1, 13):
                draw = lambda: (int.from_bytes(os.urandom(8)),)
                made.append([reading, *ledger.charge(reading, reading, PrivacyEvent(0.25), draw).sums])
    except VeilsumError as problem:
        refused.append(type(problem).__name__)
        if refused[-1] == "BudgetExceeded":
            break
print(json.dumps([made, refused]), flush=True)
"""


@pytest.fixture(autouse=True)
def hurried() -> Any:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Slow:
    """A draw that lets others go first, and differs every time."""

    def __init__(self) -> None:
        self.calls, self._lock = 0, threading.Lock()

    def __call__(self) -> Any:
        with self._lock:
            self.calls += 1
        threading.Event().wait(0.0005)
        return (int.from_bytes(os.urandom(16)),)


def race(ledger: Any, cost: Any) -> Any:
    """Every thread asks for every reading; what each was given, by reading."""
    barrier, draw = threading.Barrier(THREADS), Slow()
    given: list[dict[Any, Any]] = [{} for _ in range(THREADS)]

    def work(k: Any) -> None:
        barrier.wait()
        for step in range(READINGS):
            reading = 1 + (step + k) % READINGS
            with contextlib.suppress(BudgetExceeded, LedgerError):
                given[k][reading] = ledger.charge(reading, reading, cost, draw).sums

    threads = [threading.Thread(target=work, args=(k,)) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return given, draw.calls


def holds(ledger: Any, cost: Any) -> None:
    given, calls = race(ledger, cost)
    values: dict[Any, Any] = {}
    for own in given:
        for reading, sums in own.items():
            values.setdefault(reading, set()).add(sums)
    assert all(len(found) == 1 for found in values.values()), "a reading with two noises"
    assert len(values) == calls == ledger.releases == 4
    assert ledger.spent.epsilon == 1.0


def test_threads_neither_overspend_nor_draw_twice(
    open_ledger: Any, cost: Any, tmp_path: Any
) -> None:
    for k in range(3):
        ledger = open_ledger(f"{k}.ledger")
        holds(ledger, cost)
        ledger.close()
        assert verify(tmp_path / f"{k}.ledger").ok


def test_a_weakened_twin_without_its_lock_is_caught(open_ledger: Any, cost: Any) -> None:
    class Unlocked(Ledger):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            vars(self._writer)["mutex"] = contextlib.nullcontext()

    with pytest.raises(AssertionError):
        holds(open_ledger(kind=Unlocked), cost)


@pytest.mark.thorough
def test_processes_take_turns_and_find_the_same_releases(tmp_path: Any, manifest: Any) -> None:
    path, terms = tmp_path / "a.ledger", tmp_path / "manifest.json"
    terms.write_text(manifest.to_json())
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, str(path), str(terms)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    found = [json.loads(child.communicate(timeout=120)[0]) for child in children]
    assert all(child.returncode == 0 for child in children)
    given = {tuple(one) for made, _ in found for one in made}
    assert len(given) == 4, "a reading was drawn in two processes, or the budget was overspent"
    assert {name for _, refused in found for name in refused} <= {"BudgetExceeded", "LedgerError"}
    assert verify(path).ok
    assert read_ledger(path).status.spent.epsilon == 1.0
    with Ledger.open(path, manifest, "0", Budget(1.0)) as ledger:
        assert {(r.reading, *r.sums) for r in ledger.released()} == given
