"""The mixing state: what survives what, and when a new incarnation starts."""

import os
import signal
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from veilsum.agents.ledger import Ledger, opening
from veilsum.agents.ledger import clock as module
from veilsum.agents.ledger.store import Store, has_log, log_path
from veilsum.agents.ledger.verification import check_store
from veilsum.errors import LedgerError
from veilsum.privacy import Budget, PrivacyEvent


def killed(
    manifest: Any, path: Any, durability: Any, state: Any = b"state 7", key: Any = None
) -> None:
    """Save a state in a process that dies at once."""
    child = os.fork()
    if child == 0:
        ledger = Ledger.open(path, manifest, "0", Budget(1.0), durability=durability, key=key)
        ledger.save(b"old")
        ledger.save(state, 7)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.fixture
def other_boot(monkeypatch: Any) -> Any:
    def reboot(name: Any = "another boot") -> None:
        monkeypatch.setattr(module, "boot_id", lambda: name)

    return reboot


def test_a_new_ledger_begins_its_first_incarnation(open_ledger: Any) -> None:
    ledger = open_ledger()
    assert ledger.resume() == (None, 1)
    assert ledger.load() is None


@pytest.mark.parametrize("durability", ["full", "process"])
def test_a_state_survives_kill_9(
    manifest: Any, tmp_path: Any, open_ledger: Any, durability: Any
) -> None:
    killed(manifest, tmp_path / "a.ledger", durability)
    ledger = open_ledger(durability=durability)
    assert ledger.resume() == (b"state 7", 1)
    assert ledger.resume() == (b"state 7", 1)


def killed_while_it_opens(manifest: Any, path: Any, step: str) -> None:
    """Open a ledger that was not closed, in a process that dies at a step."""
    child = os.fork()
    if child == 0:

        def die(now: str) -> None:
            if now == step:
                os.kill(os.getpid(), signal.SIGKILL)

        Ledger.open(path, manifest, "0", Budget(1.0), durability="process", probe=die)
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_a_state_survives_kill_9_and_another_one_while_it_is_opened(
    manifest: Any, tmp_path: Any, open_ledger: Any
) -> None:
    """The log was just emptied, which is no loss: all of it is in the database."""
    path = tmp_path / "a.ledger"
    killed(manifest, path, "process")
    for _ in range(3):
        killed_while_it_opens(manifest, path, "opened with an empty log")
        assert not has_log(path)
    ledger = open_ledger(durability="process")
    assert ledger.resume() == (b"state 7", 1)


def test_a_ledger_that_does_not_note_why_its_log_is_empty_would_lose_the_state(
    manifest: Any, tmp_path: Any, open_ledger: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(opening, "_is_whole", lambda header, had_log: header.closed or had_log)
    killed(manifest, tmp_path / "a.ledger", "process")
    killed_while_it_opens(manifest, tmp_path / "a.ledger", "opened with an empty log")
    assert open_ledger(durability="process").resume() == (None, 2)


def test_a_log_that_is_removed_while_the_ledger_is_in_use_is_a_loss(
    manifest: Any, tmp_path: Any, open_ledger: Any
) -> None:
    path = tmp_path / "a.ledger"
    killed(manifest, path, "process")
    killed_while_it_opens(manifest, path, "opened with an empty log")
    killed(manifest, path, "process", b"state 8")
    log_path(path).unlink()
    assert open_ledger(durability="process").resume() == (None, 2)


def test_a_reader_that_comes_while_the_ledger_is_opened_does_not_hide_that_its_log_is_missing(
    manifest: Any, tmp_path: Any, open_ledger: Any
) -> None:
    """It keeps the mark of an emptied log in the database for as long as it reads, and no longer."""
    path = tmp_path / "a.ledger"
    killed(manifest, path, "process")
    child = os.fork()
    if child == 0:
        reader: list[sqlite3.Connection] = []

        def read(now: str) -> None:
            if now == "opened with an empty log":
                reader.append(sqlite3.connect(path, isolation_level=None))
                reader[0].execute("BEGIN")
                reader[0].execute("SELECT * FROM sqlite_master").fetchall()

        ledger = Ledger.open(path, manifest, "0", Budget(1.0), durability="process", probe=read)
        reader[0].execute("ROLLBACK")
        ledger.save(b"state 8", 8)
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    log_path(path).unlink()
    assert open_ledger(durability="process").resume() == (None, 2)


def begins_anew_after_a_power_cut(
    manifest: Any, tmp_path: Any, open_ledger: Any, reboot: Any
) -> None:
    killed(manifest, tmp_path / "a.ledger", "process")
    reboot()
    ledger = open_ledger(durability="process")
    assert ledger.resume() == (None, 2)
    ledger.close()
    assert open_ledger().resume() == (None, 2)


def test_after_a_power_cut_a_state_that_did_not_wait_is_not_trusted(
    manifest: Any, tmp_path: Any, open_ledger: Any, other_boot: Any
) -> None:
    begins_anew_after_a_power_cut(manifest, tmp_path, open_ledger, other_boot)


def test_a_ledger_that_looks_at_no_boot_id_would_go_on_from_an_old_state(
    manifest: Any, tmp_path: Any, open_ledger: Any
) -> None:
    with pytest.raises(AssertionError):
        begins_anew_after_a_power_cut(manifest, tmp_path, open_ledger, lambda: None)


def test_where_there_is_no_boot_id_a_crash_ends_the_incarnation(
    manifest: Any, tmp_path: Any, open_ledger: Any, other_boot: Any
) -> None:
    other_boot("")
    killed(manifest, tmp_path / "a.ledger", "process")
    assert open_ledger(durability="process").resume() == (None, 2)


def test_a_state_that_waited_for_the_disk_survives_a_power_cut(
    manifest: Any, tmp_path: Any, open_ledger: Any, other_boot: Any
) -> None:
    killed(manifest, tmp_path / "a.ledger", "full")
    other_boot()
    assert open_ledger().resume() == (b"state 7", 1)


def test_a_ledger_that_was_closed_survives_a_power_cut(open_ledger: Any, other_boot: Any) -> None:
    ledger = open_ledger(durability="process")
    ledger.save(b"last")
    ledger.close()
    other_boot()
    assert open_ledger(durability="process").resume() == (b"last", 1)


def test_saves_do_not_wait_and_charges_do(open_ledger: Any, draw: Any, cost: Any) -> None:
    ledger = open_ledger(durability="process")
    mode = ledger._writer.store.db.execute
    ledger.save(b"state")
    assert mode("PRAGMA synchronous").fetchone() == (1,)  # NORMAL
    ledger.charge(1, 1, cost, draw)
    assert mode("PRAGMA synchronous").fetchone() == (2,)  # FULL
    ledger.save(b"state")
    ledger.new_incarnation()
    assert mode("PRAGMA synchronous").fetchone() == (2,)
    careful = open_ledger("b.ledger")
    careful.save(b"state")
    assert careful._writer.store.db.execute("PRAGMA synchronous").fetchone() == (2,)
    assert careful._writer.store.db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_an_empty_state_ends_the_incarnation_at_the_next_opening(open_ledger: Any) -> None:
    ledger = open_ledger()
    ledger.save(b"")
    assert ledger.resume() == (None, 1)
    ledger.close()
    ledger = open_ledger()
    assert ledger.resume() == (None, 2)
    ledger.save(b"")
    ledger.save(b"whole")
    ledger.close()
    assert open_ledger().resume() == (b"whole", 2)


def test_a_new_incarnation_keeps_the_releases(open_ledger: Any, draw: Any, cost: Any) -> None:
    ledger = open_ledger(key=b"k" * 32)
    value = ledger.charge(1, 1, cost, draw)
    ledger.save(b"state")
    assert ledger.new_incarnation() == 2
    assert ledger.resume() == (None, 2)
    ledger.close()
    again = open_ledger(key=b"k" * 32)
    assert again.resume() == (None, 2)
    assert again.charge(1, 1, cost, draw) == value


def test_a_new_epoch_keeps_the_releases_and_starts_a_new_incarnation(
    open_ledger: Any, next_epoch: Any, draw: Any, cost: Any
) -> None:
    ledger = open_ledger(key=b"k" * 32)
    value = ledger.charge(1, 1, cost, draw)
    ledger.save(b"state")
    ledger.close()
    again = open_ledger(manifest=next_epoch, key=b"k" * 32)
    assert again.begins_epoch
    assert again.resume() == (None, 2)
    assert again.released() == (value,)
    assert again.charge(1, 1, cost, draw) == value
    assert draw.calls == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"agent": "3"}, "agent 0, and this agent has 3"),
        ({"budget": Budget(2.0)}, r"budget epsilon 1\.0, and this agent has 2\.0"),
        ({"budget": Budget(1.0, 0.1)}, r"budget delta 0\.0, and this agent has 0\.1"),
        ({"budget": None}, "this agent has inf"),
        ({"unit": "event"}, "unit of the budget stream, and this agent has event"),
        ({"unit": "window", "window": 3}, "stream, and this agent has window"),
    ],
)
def test_another_ones_ledger_is_refused_with_both_values(
    open_ledger: Any, change: Any, said: Any
) -> None:
    open_ledger().close()
    with pytest.raises(LedgerError, match=said):
        open_ledger(**change)
    assert open_ledger().incarnation == 1


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 2.0},
        {"family": "Bernoulli()"},
        {"algorithm": "average"},
        {"unit": 99},
        {"radius": 3.0},
    ],
)
def test_other_terms_of_release_are_refused(open_ledger: Any, manifest: Any, change: Any) -> None:
    open_ledger().close()
    (name,) = change
    with pytest.raises(LedgerError, match=f"made for the term {name} = .* this agent has") as e:
        open_ledger(manifest=replace(manifest, **change))
    assert "nothing of it was ever released, move a.ledger away" in str(e.value)
    ledger = open_ledger()
    ledger.charge(1, 1, PrivacyEvent(0.25), lambda: (1,) * manifest.dimension)
    ledger.close()
    with pytest.raises(LedgerError, match=f"made for the term {name} = .* this agent has") as e:
        open_ledger(manifest=replace(manifest, **change))
    assert "away" not in str(e.value)


def test_the_secret_is_in_every_copy_and_nowhere_to_be_seen(
    tmp_path: Any, open_ledger: Any
) -> None:
    ledger = open_ledger()
    secret = ledger.secret
    assert len(secret) == 32
    assert open_ledger("b.ledger").secret != secret
    assert secret.hex() not in repr(ledger) + repr(vars(ledger.identity.__class__))
    ledger.new_incarnation()
    ledger.close()
    assert open_ledger().secret == secret
    with closing(Store(tmp_path / "a.ledger", read_only=True)) as store:
        _, held, _ = check_store(store, None, None)
    assert secret.hex() not in repr(held)


def test_a_ledger_without_its_secret_is_refused(tmp_path: Any, open_ledger: Any) -> None:
    open_ledger().close()
    store = Store(tmp_path / "a.ledger")
    store.db.execute("DELETE FROM meta WHERE name = 'secret'")
    store.close()
    with pytest.raises(LedgerError, match="does not have the contents of a ledger"):
        open_ledger()


def test_a_damaged_secret_is_refused(tmp_path: Any, open_ledger: Any) -> None:
    open_ledger().close()
    store = Store(tmp_path / "a.ledger")
    store.put_meta(secret="zz")
    store.close()
    with pytest.raises(LedgerError, match="does not have the contents of a ledger"):
        open_ledger()
