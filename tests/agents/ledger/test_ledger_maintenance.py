"""A changed budget, a backup and its restoration: nothing is forgiven, nothing released twice."""

import shutil
from typing import Any

import pytest

from tests.agents.ledger.test_budget_calendar import DAY, FakeClock
from veilsum.agents.ledger import Ledger, read_ledger, verify
from veilsum.agents.ledger.lock import lock_path
from veilsum.agents.ledger.maintenance import amend, backup, restore
from veilsum.agents.ledger.periods import Period
from veilsum.agents.ledger.report import guarantee_words
from veilsum.errors import LedgerError
from veilsum.privacy import Budget, BudgetExceeded

KEY = b"k" * 32


@pytest.fixture
def path(open_ledger: Any, tmp_path: Any, draw: Any, cost: Any) -> Any:
    """A closed and sealed ledger of three releases at 0.25, with a budget of 1."""
    with open_ledger(key=KEY) as ledger:
        for k in (1, 2, 3):
            ledger.charge(k, k, cost, draw, f"{k}" * 32)
        ledger.save(b"state")
    return tmp_path / "a.ledger"


def identity(path: Any, **changes: Any) -> Any:
    return read_ledger(path).identity._replace(**changes)


@pytest.mark.usefixtures("path")
def test_another_budget_is_refused_and_the_verb_is_named(open_ledger: Any) -> None:
    with pytest.raises(LedgerError, match=r"veilsum ledger amend agent\.toml"):
        open_ledger(key=KEY, budget=Budget(2.0))


def test_a_raised_budget_keeps_what_was_spent(
    path: Any, open_ledger: Any, draw: Any, cost: Any
) -> None:
    more = identity(path, epsilon=1.25)
    with pytest.raises(LedgerError, match=r"epsilon = 1\.25 per stream instead of epsilon = 1 per"):
        amend(path, more, KEY, by="ana")
    made = amend(path, more, KEY, by="ana", reason="agreed on 3 May", allow_raise=True)
    assert made is not None
    assert (made.by, made.reason, made.after, made.kind) == ("ana", "agreed on 3 May", 3, "budget")
    assert verify(path, KEY).ok
    ledger = open_ledger(key=KEY, budget=Budget(1.25))
    assert (ledger.spent.epsilon, ledger.remaining.epsilon) == (0.75, 0.5)
    assert ledger.resume() == (b"state", 1)
    ledger.charge(4, 4, cost, draw)
    ledger.charge(5, 5, cost, draw)
    with pytest.raises(BudgetExceeded):
        ledger.charge(6, 6, cost, draw)
    ledger.close()
    assert amend(path, more, KEY, by="ana") is None  # it is the same
    assert verify(path, KEY).ok
    (change,) = read_ledger(path).changes
    assert (change.before, change.now) == (
        '["stream", 0, 1.0, 0.0, "", "", ""]',
        '["stream", 0, 1.25, 0.0, "", "", ""]',
    )


def test_a_lowered_budget_needs_no_flag_and_may_be_spent_already(
    path: Any, open_ledger: Any, draw: Any, cost: Any
) -> None:
    amend(path, identity(path, epsilon=0.5), KEY, by="ana")
    ledger = open_ledger(key=KEY, budget=Budget(0.5))
    assert (ledger.spent.epsilon, ledger.remaining.epsilon) == (0.75, 0.0)
    with pytest.raises(BudgetExceeded):
        ledger.charge(4, 4, cost, draw)


@pytest.mark.parametrize(
    ("unit", "epsilon", "says"),
    [
        ("stream", 0.5, "They can never cost more than epsilon = 0.75."),  # which is spent already
        ("stream", 0.9, "They can never cost more than epsilon = 0.9."),
        ("event", 0.1, "No reading released since can ever cost more than epsilon = 0.1"),
    ],
)
def test_the_report_does_not_say_a_lowered_budget_of_earlier_releases(
    path: Any, unit: str, epsilon: float, says: str
) -> None:
    assert "They can never cost more than epsilon = 1." in guarantee_words(read_ledger(path))
    amend(path, identity(path, unit=unit, epsilon=epsilon), KEY, by="ana", allow_raise=True)
    said = " ".join(guarantee_words(read_ledger(path)))
    assert says in said
    assert ("kept to the budget of its time" in said) == (unit == "event")


def test_from_a_stream_to_a_day_forgives_nothing_of_today(
    open_ledger: Any, tmp_path: Any, draw: Any, cost: Any
) -> None:
    machine = FakeClock()
    with open_ledger(clock=machine.made()) as ledger:
        for k in range(1, 5):
            ledger.charge(k, k, cost, draw)
    path = tmp_path / "a.ledger"
    daily = identity(path, **dict(zip(("per", "refill", "zone"), Period.of("day"), strict=True)))
    with pytest.raises(LedgerError, match="--raise"):
        amend(path, daily, None, by="ana", clock=machine.made())
    amend(path, daily, None, by="ana", allow_raise=True, clock=machine.made())
    ledger = open_ledger(per="day", clock=machine.made())
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.charge(5, 5, cost, draw)
    assert not refusal.value.final
    machine.passes(DAY)
    ledger.charge(5, 5, cost, draw)
    assert ledger.totals().stream.epsilon == 1.25


def test_what_amend_refuses(path: Any, open_ledger: Any, tmp_path: Any) -> None:
    with pytest.raises(LedgerError, match="belongs to it"):
        amend(path, identity(path, agent="3"), KEY, by="ana")
    with pytest.raises(LedgerError, match="sealed with a key"):
        amend(path, identity(path, epsilon=0.5), None, by="ana")
    with pytest.raises(LedgerError, match="has a budget"):
        amend(path, identity(path, epsilon=float("inf")), KEY, by="ana", allow_raise=True)
    with pytest.raises(LedgerError, match="there is no ledger"):
        amend(tmp_path / "none", identity(path), KEY, by="ana")
    with open_ledger(key=KEY), pytest.raises(LedgerError, match="is open in process"):
        amend(path, identity(path, epsilon=0.5), KEY, by="ana")


def test_a_backup_of_a_live_ledger_is_whole_and_cannot_be_opened(
    open_ledger: Any, tmp_path: Any, draw: Any, cost: Any
) -> None:
    ledger = open_ledger(key=KEY)
    ledger.charge(1, 1, cost, draw)
    ledger.save(b"state")
    report = backup(ledger.path, tmp_path / "copy", KEY)
    assert (report.agent, report.releases) == ("0", 1)
    assert ledger.charge(2, 2, cost, draw)  # the live one is not disturbed
    assert verify(tmp_path / "copy", KEY).ok
    assert {p.name for p in tmp_path.glob("copy*")} == {"copy"}
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o600
    with pytest.raises(LedgerError, match="is a backup made at"):
        open_ledger("copy", key=KEY)
    with pytest.raises(LedgerError, match="exists"):
        backup(ledger.path, tmp_path / "copy", KEY)
    with pytest.raises(LedgerError, match="sealed with a key"):
        backup(ledger.path, tmp_path / "other")
    with pytest.raises(LedgerError, match="is a backup"):
        backup(tmp_path / "copy", tmp_path / "other", KEY)


def test_a_restored_ledger_releases_nothing_before_it_is_confirmed(
    path: Any, open_ledger: Any, tmp_path: Any, draw: Any, cost: Any
) -> None:
    backup(path, tmp_path / "copy", KEY)
    for name in (path, lock_path(path)):
        name.unlink()
    restore(tmp_path / "copy", path, KEY, by="ana")
    assert verify(path, KEY).ok
    for _ in range(2):  # a restart does not help
        ledger = open_ledger(key=KEY)
        assert ledger.restored
        with pytest.raises(LedgerError, match="restored from a backup"):
            ledger.charge(4, 4, cost, draw)
        assert ledger.charge(3, 3, cost, draw, "3" * 32) == ledger.released()[2]
        assert ledger.load() is None
        assert ledger.incarnation > 1000
        assert ledger.start > 1000
        ledger.close()
    ledger = open_ledger(key=KEY)
    ledger.confirm_restored()
    ledger.charge(4, 4, cost, draw)
    ledger.close()
    assert not open_ledger(key=KEY).restored
    assert [change.kind for change in read_ledger(path).changes] == ["restored"]
    assert verify(path, KEY).ok


def test_a_backup_that_the_lock_file_contradicts_is_not_restored(
    path: Any, open_ledger: Any, tmp_path: Any, draw: Any, cost: Any
) -> None:
    backup(path, tmp_path / "copy", KEY)
    with open_ledger(key=KEY) as ledger:
        ledger.charge(4, 4, cost, draw)
    with pytest.raises(LedgerError, match="exists"):
        restore(tmp_path / "copy", path, KEY, by="ana")
    path.unlink()
    with pytest.raises(LedgerError, match=r"records 4 releases and the backup .* has 3") as e:
        restore(tmp_path / "copy", path, KEY, by="ana")
    assert "under a new name with `veilsum keys request`" in str(e.value)
    assert not path.exists()


def test_only_a_backup_is_restored(path: Any, tmp_path: Any) -> None:
    shutil.copy(path, tmp_path / "plain")
    with pytest.raises(LedgerError, match="is a ledger and no backup"):
        restore(tmp_path / "plain", tmp_path / "new", KEY, by="ana")


def test_a_ledger_without_the_mark_is_caught(
    path: Any, open_ledger: Any, tmp_path: Any, draw: Any, cost: Any
) -> None:
    """A weakened twin that takes a restored ledger for any other releases at once."""

    class Trusting(Ledger):
        def charge(self, *given: Any, **more: Any) -> Any:
            self.confirm_restored()
            return super().charge(*given, **more)

    with pytest.raises(pytest.fail.Exception):
        test_a_restored_ledger_releases_nothing_before_it_is_confirmed(
            path, lambda **more: open_ledger(kind=Trusting, **more), tmp_path, draw, cost
        )
