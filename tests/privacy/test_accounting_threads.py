"""A budget is kept whoever charges it, and how many at once."""

import contextlib
import copy
import pickle
import sys
import threading
from typing import Any, cast

import pytest

from veilsum.errors import PrivacyError
from veilsum.privacy import Accountant, Budget, BudgetExceeded, ReleaseEvent

THREADS, TRIES = 16, 40


@pytest.fixture(autouse=True)
def hurried() -> Any:
    """Threads change places as often as the interpreter allows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(work: Any) -> Any:
    """Run `work(k)` in many threads that begin at once; what each gave or raised."""
    barrier = threading.Barrier(THREADS)
    found: list[Any] = [None] * THREADS

    def begin(k: Any) -> None:
        barrier.wait()
        try:
            found[k] = work(k)
        except PrivacyError as problem:
            found[k] = problem

    threads = [threading.Thread(target=begin, args=(k,)) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


def race(accountant: Any) -> Any:
    """Sixteen threads ask for what five may have; how many were charged."""
    found = together(lambda k: accountant.charge(ReleaseEvent("a", k, "signal", 0.2)))
    refused = [f for f in found if isinstance(f, BudgetExceeded)]
    return THREADS - len(refused)


def most(kind: Any, **options: Any) -> Any:
    """The most releases that any of many races let through."""
    return max(race(kind(Budget(1.0), **options)) for _ in range(TRIES))


class Unlocked(Accountant):
    """A weakened twin whose lock locks nothing, as it was: up to 10 of 16 got through where 5 fit."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._lock = cast(Any, contextlib.nullcontext())


@pytest.mark.parametrize("unit", [{"unit": "stream"}, {"unit": "window", "window": 100}])
def test_threads_that_charge_at_once_never_overspend(unit: Any) -> None:
    assert most(Accountant, **unit) == 5


def test_a_weakened_twin_without_a_lock_is_caught() -> None:
    assert most(Unlocked) > 5


def test_the_same_reading_is_charged_to_one_thread_only() -> None:
    for _ in range(TRIES):
        accountant = Accountant(Budget(100.0))
        found = together(lambda _, a=accountant: a.charge(ReleaseEvent("a", 1, "signal", 0.2)))
        assert sum(not isinstance(f, Exception) for f in found) == 1
        assert accountant.totals().stream.epsilon == pytest.approx(0.2)


def test_readers_beside_writers_see_whole_charges_only() -> None:
    accountant = Accountant(Budget(1e6))

    def work(k: Any) -> Any:
        for n in range(20):
            if k % 2:
                accountant.charge(ReleaseEvent("a", 100 * k + n, "signal", 0.5))
            else:
                spent = accountant.totals().stream.epsilon
                assert spent == 0.5 * round(spent / 0.5)
                kept = accountant.to_dict()["releases"]
                assert len(kept) >= round(spent / 0.5)
                assert accountant.remaining("a") <= 1e6 - spent
                assert not accountant.would_exceed(ReleaseEvent("a", 10**6, "signal", 0.5))
        return True

    assert together(work) == [True] * THREADS
    assert accountant.totals().stream.count == 20 * THREADS // 2
    assert len(accountant.releases) == 20 * THREADS // 2


@pytest.mark.parametrize("way", [copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))])
def test_a_copy_has_the_charges_and_a_lock_of_its_own(way: Any) -> None:
    accountant = Accountant(Budget(1.0))
    accountant.charge(ReleaseEvent("a", 1, "signal", 0.5))
    made = way(accountant)
    made.charge(ReleaseEvent("a", 2, "signal", 0.5))
    assert (len(made.releases), len(accountant.releases)) == (2, 1)
    with pytest.raises(BudgetExceeded):
        made.charge(ReleaseEvent("a", 3, "signal", 0.5))
