"""Tampering, truncation and exchange: what is seen, with a key and without."""

import os
import shutil
import sqlite3
import struct
from typing import Any

import pytest

from veilsum.agents.ledger import read_ledger, records, verify
from veilsum.agents.ledger.contents import first_identity, header_of
from veilsum.agents.ledger.lock import lock_path
from veilsum.agents.ledger.opening import write_meta
from veilsum.agents.ledger.store import Store
from veilsum.agents.manifest import Manifest
from veilsum.agents.release import ReleaseMechanism
from veilsum.errors import LedgerError
from veilsum.privacy import SignalDP
from veilsum.testing import PredictableEntropy

KEY = b"k" * 32


@pytest.fixture
def path(open_ledger: Any, tmp_path: Any, cost: Any) -> Any:
    """A closed and sealed ledger of four releases."""
    ledger = open_ledger(key=KEY)
    for reading in range(1, 5):
        ledger.charge(reading, reading + 10, cost, lambda k=reading: (1000 + k, -k))
    ledger.save(b"the mixing state")
    ledger.close()
    return tmp_path / "a.ledger"


def change(path: Any, *statements: Any) -> None:
    db = sqlite3.connect(path)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()


def forge(path: Any, **meta: Any) -> None:
    """Compute chain, head, count and seal again, as anybody can who has no key."""
    store = Store(path)
    header = header_of(store)
    before = records.genesis_hash(first_identity(header))
    rows = list(store.rows())
    for seq, row in enumerate(rows, 1):
        made = records.entry_hash(before, (seq, *row[1:12]))
        store.db.execute(
            "UPDATE releases SET seq = ?, previous = ?, hash = ? WHERE reading = ?",
            (seq, before, made, row[1]),
        )
        before = made
    found = store.meta()
    key = b"x" * 32 if meta.get("sealed", 1) else None  # some other one
    write_meta(store, found, key, head=before, count=len(rows), **meta)
    store.close()
    lock_path(path).unlink()


def test_a_sound_ledger(path: Any) -> None:
    found = verify(path, KEY)
    assert found.ok
    assert found.problems == ()
    assert (found.agent, found.releases) == ("0", 4)
    assert found.status is not None
    assert (found.status.spent.epsilon, found.status.remaining.epsilon) == (1.0, 0.0)
    assert found.head == read_ledger(path).entries[-1].hash
    assert len(found.limitations) == 1
    assert "neighbours" in found.limitations[0]


def test_it_says_what_it_cannot_see(path: Any, open_ledger: Any, tmp_path: Any) -> None:
    assert "without the key" in verify(path).limitations[0]
    open_ledger("open.ledger").close()
    assert "made without a key" in verify(tmp_path / "open.ledger").limitations[0]


def test_looking_changes_nothing(path: Any, tmp_path: Any) -> None:
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    verify(path)
    verify(path, KEY)
    read_ledger(path)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_a_ledger_in_use_can_be_looked_at(
    open_ledger: Any, tmp_path: Any, draw: Any, cost: Any
) -> None:
    ledger = open_ledger(key=KEY)
    ledger.charge(1, 1, cost, draw)
    ledger.save(b"state")
    assert verify(tmp_path / "a.ledger", KEY).ok
    assert read_ledger(tmp_path / "a.ledger").closed is False
    ledger.charge(2, 2, cost, draw)
    assert verify(tmp_path / "a.ledger", KEY).releases == 2


CHANGES = {
    "reading": "UPDATE releases SET reading = 9 WHERE seq = 2",
    "round": "UPDATE releases SET round = 9 WHERE seq = 2",
    "epsilon": "UPDATE releases SET epsilon = 0.125 WHERE seq = 2",
    "delta": "UPDATE releases SET delta = 0.125 WHERE seq = 2",
    "sums": "UPDATE releases SET sums = '3e9 -2' WHERE seq = 2",
    "weight": "UPDATE releases SET weight = '2' WHERE seq = 2",
    "hash": "UPDATE releases SET hash = previous WHERE seq = 2",
    "order": "UPDATE releases SET seq = 9 WHERE seq = 2",
    "middle": "DELETE FROM releases WHERE seq = 2",
    "last": "DELETE FROM releases WHERE seq = 4",
    "all": "DELETE FROM releases",
    "count": "UPDATE meta SET value = '3' WHERE name = 'count'",
    "head": "UPDATE meta SET value = 'ab' WHERE name = 'head'",
    "budget": "UPDATE meta SET value = '9.0' WHERE name = 'epsilon'",
    "agent": "UPDATE meta SET value = '1' WHERE name = 'agent'",
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_seen_without_the_key(path: Any, open_ledger: Any, what: Any) -> None:
    change(path, CHANGES[what])
    found = verify(path)
    assert not found.ok
    with pytest.raises(LedgerError, match="cannot be trusted"):
        open_ledger(key=KEY)


@pytest.mark.parametrize("what", ["epsilon", "sums", "budget"])
def test_a_change_with_everything_computed_again_is_seen_with_the_key_alone(
    path: Any, what: Any
) -> None:
    change(path, CHANGES[what])
    forge(path)
    assert verify(path).ok  # as `unseen` says
    found = verify(path, KEY)
    assert not found.ok
    assert "seal does not match" in found.problems[0]


def test_an_incarnation_put_back_is_seen_with_the_key(path: Any) -> None:
    change(path, "UPDATE meta SET value = '0' WHERE name = 'incarnation'")
    assert not verify(path, KEY).ok


def test_a_seal_taken_off_is_seen_with_the_key(path: Any, open_ledger: Any) -> None:
    forge(path, sealed=0)
    assert verify(path).ok is False  # the state and the neighbours had keyed checksums
    assert "no seal" in verify(path, KEY).problems[0]
    with pytest.raises(LedgerError, match="no seal"):
        open_ledger(key=KEY)


def test_another_key_is_refused_and_so_is_none(path: Any, open_ledger: Any) -> None:
    assert not verify(path, b"x" * 32).ok
    with pytest.raises(LedgerError, match="another key"):
        open_ledger(key=b"x" * 32)
    with pytest.raises(LedgerError, match="sealed with a key"):
        open_ledger()


def test_a_changed_state_is_seen_with_the_key(path: Any, open_ledger: Any) -> None:
    change(path, "UPDATE state SET bytes = x'00'")
    assert "mixing state" in verify(path, KEY).problems[0]
    with pytest.raises(LedgerError, match="mixing state"):
        open_ledger(key=KEY)


def test_an_older_copy_beside_its_lock_is_seen(
    open_ledger: Any, tmp_path: Any, draw: Any, cost: Any
) -> None:
    path = tmp_path / "a.ledger"
    ledger = open_ledger()
    ledger.charge(1, 1, cost, draw)
    ledger.close()
    shutil.copy(path, tmp_path / "copy")
    ledger = open_ledger()
    ledger.charge(2, 2, cost, draw)
    ledger.close()
    shutil.copy(tmp_path / "copy", path)
    assert "older copy" in verify(path).problems[0]
    with pytest.raises(LedgerError, match="records 2 releases and the ledger has 1"):
        open_ledger()


def test_another_copy_with_as_many_releases_beside_the_lock_is_seen(
    open_ledger: Any, tmp_path: Any, draw: Any, cost: Any
) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    open_ledger("one/a.ledger").close()
    shutil.copy(tmp_path / "one" / "a.ledger", tmp_path / "two" / "a.ledger")
    for folder in ("one", "two"):
        with open_ledger(f"{folder}/a.ledger") as ledger:
            ledger.charge(1, 1, cost, draw)
    shutil.copy(tmp_path / "one" / "a.ledger", tmp_path / "two" / "a.ledger")
    with pytest.raises(LedgerError, match="records other releases than the first 1"):
        open_ledger("two/a.ledger")


def test_a_whole_older_copy_is_not_seen_here(
    open_ledger: Any, tmp_path: Any, draw: Any, cost: Any
) -> None:
    ledger = open_ledger()
    ledger.charge(1, 1, cost, draw)
    ledger.close()
    kept = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    ledger = open_ledger()
    ledger.charge(2, 2, cost, draw)
    ledger.close()
    for name, octets in kept.items():
        (tmp_path / name).write_bytes(octets)
    assert verify(tmp_path / "a.ledger").ok  # which is why `unseen` names the neighbours


def test_a_ledger_of_another_format_is_refused(path: Any, open_ledger: Any) -> None:
    change(path, "UPDATE meta SET value = '1' WHERE name = 'format'")
    with pytest.raises(LedgerError, match="format 1"):
        open_ledger(key=KEY)


def test_what_is_not_there_or_no_ledger(tmp_path: Any) -> None:
    with pytest.raises(LedgerError, match="there is no ledger at"):
        verify(tmp_path / "none")
    with pytest.raises(LedgerError, match="there is no ledger at"):
        read_ledger(tmp_path / "none")
    (tmp_path / "text").write_text("hello\n" * 1000)
    assert not verify(tmp_path / "text").ok
    with pytest.raises(LedgerError, match="not a ledger"):
        read_ledger(tmp_path / "text")
    sqlite3.connect(tmp_path / "empty").close()
    assert not verify(tmp_path / "empty").ok


def holds(folder: Any, *values: Any) -> Any:
    """Whether any file of the folder holds a number, as text or as a float of either order.

    The files hold times and random bytes, which contain every short number sooner or later.
    """
    assert all(len(repr(value)) >= 12 for value in values), values
    found = b"".join(p.read_bytes() for p in folder.iterdir())
    forms = [f(v) for v in values for f in (_text, _little, _big)]
    return any(form in found for form in forms)


def _text(value: Any) -> Any:
    return repr(value).encode()


def _little(value: Any) -> Any:
    return struct.pack("<d", value)


def _big(value: Any) -> Any:
    return struct.pack(">d", value)


def test_only_released_values_reach_the_file(
    open_ledger: Any, tmp_path: Any, problem_of: Any
) -> None:
    problem = problem_of(privacy=SignalDP(0.2718281828459045))
    manifest = Manifest.of(problem, "town")
    release_mechanism = ReleaseMechanism(manifest, problem, "0")
    signal = 0.43718281828459045
    ledger = open_ledger(manifest=manifest)
    entropy = PredictableEntropy(1, simulation_only=True)
    released = release_mechanism.release(ledger, 1, signal, entropy=entropy)
    noise = released.sums[0] / released.weight - signal
    scale = release_mechanism.mechanism(1).scale
    assert not holds(tmp_path, signal, noise, scale)
    assert format(released.sums[0], "x").encode() in (tmp_path / "a.ledger-wal").read_bytes()
    ledger.close()
    assert not holds(tmp_path, signal, noise, scale)


@pytest.mark.parametrize("form", [_text, _little, _big])
def test_the_search_would_find_a_signal(tmp_path: Any, form: Any) -> None:
    signal = 0.43718281828459045
    (tmp_path / "a.ledger").write_bytes(os.urandom(100) + form(signal) + os.urandom(100))
    assert holds(tmp_path, signal)


def test_a_ledger_of_an_old_format_is_named_and_left_alone(path: Any, open_ledger: Any) -> None:
    change(
        path,
        "UPDATE meta SET value = '2' WHERE name = 'format'",
        "UPDATE meta SET name = 'life' WHERE name = 'incarnation'",
        "UPDATE meta SET name = 'clean' WHERE name = 'closed'",
        "ALTER TABLE releases RENAME COLUMN previous TO before",
        "ALTER TABLE peers RENAME TO seen",
        "ALTER TABLE state RENAME COLUMN checksum TO mark",
    )
    before = path.read_bytes()
    expected = r"has format 2 and this version of veilsum reads 6 and 7; nothing was released"
    for reader in (read_ledger, verify, lambda _: open_ledger(key=KEY)):
        with pytest.raises(LedgerError, match=expected):
            reader(path)
    assert path.read_bytes() == before
