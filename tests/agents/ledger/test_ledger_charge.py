"""A reading is drawn once, charged once and given again for nothing."""

import os
import stat
import threading
from typing import Any

import pytest

from veilsum.agents.ledger import EpsilonDelta, Ledger
from veilsum.errors import LedgerError, PrivacyError, SignalError, VeilsumError
from veilsum.privacy import Budget, BudgetExceeded, PrivacyEvent


def releases_once(open_ledger: Any, draw: Any, cost: Any, kind: Any = Ledger) -> None:
    """The guarantee: the same value within an incarnation and after a restart, for one charge."""
    first = open_ledger(kind=kind)
    value = first.charge(1, 1, cost, draw)
    assert first.charge(1, 9, cost, draw) == value
    first.close()
    again = open_ledger(kind=kind)
    assert again.charge(1, 1, cost, draw) == value
    assert draw.calls == 1
    assert again.spent == EpsilonDelta(0.25, 0.0)


def test_a_reading_is_drawn_once(open_ledger: Any, draw: Any, cost: Any) -> None:
    releases_once(open_ledger, draw, cost)


def test_a_ledger_that_redraws_after_a_restart_is_caught(
    open_ledger: Any, draw: Any, cost: Any
) -> None:
    class Redraws(Ledger):
        def charge(self, reading: Any, round: Any, cost: Any, draw: Any, *more: Any) -> Any:
            return super().charge(reading, round, cost, draw, *more)._replace(sums=draw())

    with pytest.raises(AssertionError):
        releases_once(open_ledger, draw, cost, Redraws)


def test_values_of_any_size_and_sign_come_back(open_ledger: Any, manifest: Any, cost: Any) -> None:
    sums = (2**4000, -(3**900), 0)
    released = open_ledger().charge(3, 3, cost, lambda: sums)
    assert (released.reading, released.sums) == (3, sums)
    assert released.weight == 2**manifest.unit
    assert open_ledger("b.ledger").find(3) is None


def test_releases_come_back_in_order(open_ledger: Any, draw: Any, cost: Any) -> None:
    ledger = open_ledger()
    made = [ledger.charge(reading, reading, cost, draw) for reading in (2, 1, 4)]
    assert list(ledger.released()) == made
    assert ledger.find(4) == made[2]
    assert ledger.releases == 3


def test_over_budget_is_refused_before_drawing(open_ledger: Any, draw: Any, cost: Any) -> None:
    ledger = open_ledger()
    for reading in range(1, 5):
        ledger.charge(reading, reading, cost, draw)
    assert ledger.remaining == EpsilonDelta(0.0, 0.0)
    with pytest.raises(BudgetExceeded, match="nothing was released"):
        ledger.charge(5, 5, cost, draw)
    assert draw.calls == 4
    ledger.close()
    again = open_ledger()
    with pytest.raises(BudgetExceeded):
        again.charge(5, 5, cost, draw)
    assert again.charge(2, 2, cost, draw)  # what was released stays free
    assert draw.calls == 4


def test_a_budget_per_event_has_no_end(open_ledger: Any, draw: Any, cost: Any) -> None:
    ledger = open_ledger(unit="event", budget=Budget(0.25))
    for reading in range(1, 20):
        ledger.charge(reading, reading, cost, draw)
    assert ledger.spent == EpsilonDelta(0.25, 0.0)
    with pytest.raises(BudgetExceeded):
        ledger.charge(20, 20, PrivacyEvent(0.26), draw)


def test_a_budget_per_window_counts_readings_near_by(
    open_ledger: Any, draw: Any, cost: Any
) -> None:
    ledger = open_ledger(unit="window", window=3, budget=Budget(0.5))
    for reading in (1, 2, 4, 5):
        ledger.charge(reading, reading, cost, draw)
    with pytest.raises(BudgetExceeded, match="window of 3"):
        ledger.charge(3, 3, cost, draw)
    ledger.close()
    again = open_ledger(unit="window", window=3, budget=Budget(0.5))
    assert again.spent == EpsilonDelta(0.5, 0.0)
    with pytest.raises(BudgetExceeded):
        again.charge(6, 6, cost, draw)
    again.charge(7, 7, cost, draw)
    assert draw.calls == 5


def test_deltas_are_charged_too(open_ledger: Any, draw: Any) -> None:
    ledger = open_ledger(budget=Budget(10.0, 0.02))
    cost = PrivacyEvent(0.1, 0.01, "approximate")
    ledger.charge(1, 1, cost, draw)
    ledger.charge(2, 2, cost, draw)
    with pytest.raises(BudgetExceeded):
        ledger.charge(3, 3, cost, draw)
    assert ledger.totals().stream.delta == pytest.approx(0.02)


def test_thirty_tenths_fit_a_budget_of_three(open_ledger: Any, draw: Any) -> None:
    ledger = open_ledger(budget=Budget(3.0))
    for reading in range(1, 31):
        ledger.charge(reading, reading, PrivacyEvent(0.1), draw)
    with pytest.raises(BudgetExceeded):
        ledger.charge(31, 31, PrivacyEvent(0.1), draw)
    assert ledger.spent.epsilon == pytest.approx(3.0, rel=1e-15)
    assert ledger.totals().stream.epsilon == ledger.spent.epsilon


def test_without_a_guarantee_there_is_no_budget_to_keep(
    open_ledger: Any, draw: Any, cost: Any
) -> None:
    ledger = open_ledger(budget=None)
    ledger.charge(1, 1, None, draw)
    assert ledger.spent.epsilon == float("inf")
    with pytest.raises(LedgerError, match="no budget"):
        ledger.charge(2, 2, cost, draw)
    with pytest.raises(LedgerError, match="guarantees nothing"):
        ledger.totals()
    ledger.close()
    assert open_ledger(budget=None).releases == 1
    with pytest.raises(LedgerError, match="no cost"):
        open_ledger("b.ledger").charge(1, 1, None, draw)
    assert draw.calls == 1


def test_a_draw_that_fails_charges_nothing(open_ledger: Any, draw: Any, cost: Any) -> None:
    def outside() -> None:
        raise SignalError("reading 1 lies outside")

    ledger = open_ledger()
    with pytest.raises(SignalError):
        ledger.charge(1, 1, cost, outside)
    assert ledger.spent.epsilon == 0
    ledger.charge(1, 1, cost, draw)
    assert ledger.releases == 1


def test_files_are_the_owners_alone(open_ledger: Any, draw: Any, cost: Any, tmp_path: Any) -> None:
    ledger = open_ledger()
    ledger.charge(1, 1, cost, draw)
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert {"a.ledger", "a.ledger.lock", "a.ledger-wal"} <= set(found)
    assert set(found.values()) == {0o600}


def test_threads_take_turns(open_ledger: Any, cost: Any) -> None:
    seen: list[Any] = []
    ledger = open_ledger(budget=Budget(5.0), unit="event")

    def work() -> None:
        seen.extend(
            ledger.charge(r, r, cost, lambda: (int.from_bytes(os.urandom(16)),))
            for r in range(1, 21)
        )

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 20
    assert len(seen) == 80


@pytest.mark.parametrize("bad", [{"reading": 0}, {"reading": 1.5}, {"round": -1}])
def test_numbers_that_make_no_sense_are_refused(
    open_ledger: Any, draw: Any, cost: Any, bad: Any
) -> None:
    with pytest.raises(LedgerError, match="whole number"):
        open_ledger().charge(**{"reading": 1, "round": 1, "cost": cost, "draw": draw} | bad)
    assert draw.calls == 0


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"unit": "month"}, "unit must be one of"),
        ({"unit": "window"}, "number of rounds"),
        ({"durability": "none"}, "durability must be one of"),
    ],
)
def test_terms_that_make_no_sense_make_no_ledger(
    open_ledger: Any, tmp_path: Any, bad: Any, said: Any
) -> None:
    with pytest.raises((PrivacyError, LedgerError), match=said):
        open_ledger(**bad)
    assert not list(tmp_path.iterdir())


def test_a_closed_ledger_releases_nothing(open_ledger: Any, draw: Any, cost: Any) -> None:
    ledger = open_ledger()
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerError, match="is closed"):
        ledger.charge(1, 1, cost, draw)
    assert draw.calls == 0
    assert "0 releases" in repr(ledger)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"agent": "nobody"}, "town has no member 'nobody'"),
        ({"agent": 0}, "town has no member 0"),
        ({"refill": "fixed"}, "there is no `per`"),
        ({"zone": "Europe/Madrid"}, "there is no `per`"),
        ({"zone": 5}, "there is no `per`"),
        ({"per": "day", "refill": "fixed", "zone": 5}, "zone must be a time zone"),
        ({"per": []}, "per must be day, week, month"),
        ({"key": b""}, "key must be bytes"),
        ({"key": "x"}, "key must be bytes"),
        ({"device": b""}, "device must be bytes"),
        ({"budget": 1.0}, "budget must be a Budget"),
        ({"manifest": "town"}, "manifest must be a Manifest"),
        ({"unit": "year", "budget": None}, "unit must be one of"),
        ({"unit": ["event"]}, "unit must be one of"),
        ({"name": "a\0b"}, "path must be the path of a file"),
    ],
    ids=str,
)
def test_arguments_that_mean_nothing_open_no_ledger(
    open_ledger: Any, tmp_path: Any, wrong: dict[str, Any], words: str
) -> None:
    with pytest.raises(VeilsumError, match=words):
        open_ledger(**wrong)
    assert not list(tmp_path.iterdir())
