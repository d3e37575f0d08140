"""Queries on disk: their readings, their ends, copies, and what a thief of the disk finds."""

import shutil
import sqlite3
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from tests.agents.ledger.session_world import EPS, Steps, a_sum, entry, made_terms, withdraws
from tests.agents.masked import world
from veilsum.agents.ledger import OpenQuery, backup, read_ledger, restore, verify
from veilsum.agents.ledger.lock import lock_path
from veilsum.agents.ledger.report import export, report
from veilsum.agents.ledger.store import Store
from veilsum.agents.masked import masks, rules
from veilsum.agents.masked.entries import Stage
from veilsum.errors import LedgerError
from veilsum.privacy import Budget, PrivacyEvent

NAMES = tuple(letter * 32 for letter in "abcdef")
SECRETS = tuple(0xC0FFEE00_00000001 + 0x01010101 * k for k in range(600))


@pytest.fixture
def terms(manifest: Any) -> Any:
    return made_terms(manifest)


def files(folder: Any) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in folder.iterdir()}


def holding(folder: Any, words: Any = SECRETS) -> set[str]:
    """The files that contain one of the words, as bytes or as hexadecimal text."""
    marks = [w.to_bytes(8, "big") for w in words] + [f"{w:x}".encode() for w in words]
    return {name for name, data in files(folder).items() if any(mark in data for mark in marks)}


def test_readings_of_an_open_query_are_its_own_until_it_is_concluded(
    open_ledger: Any, terms: Any
) -> None:
    ledger = open_ledger()
    steps = Steps(ledger.sessions(terms), terms)
    steps.begin(last=3, readings=2, origins=(NAMES[0], "", NAMES[1]))
    for again in (False, True):
        asked = steps.sessions.open_query()
        assert asked == OpenQuery(1, 2, 3, (NAMES[0], "", NAMES[1]), 2)
        assert ledger.last_reading == 0
        assert not any(map(ledger.has_origin, NAMES))
        if again:
            break
        steps.sent()  # a value was sent, and the query is still open
        ledger.close()
        ledger = open_ledger()
        steps = Steps(ledger.sessions(terms), terms)
    with pytest.raises(LedgerError, match=r"with other origins; nothing was drawn"):
        steps.begin(last=3, readings=2, origins=(NAMES[0], "", NAMES[2]))
    steps.sessions.conclude_query(1, "sum", a_sum(1))
    for again in (False, True):
        assert steps.sessions.open_query() is None
        assert ledger.last_reading == 3
        assert [ledger.has_origin(name) for name in NAMES[:3]] == [True, True, False]
        assert not ledger.was_passed_over(NAMES[0])
        assert ledger.origin_of(3) == NAMES[1]
        assert steps.sessions.last_query == 1
        assert steps.sessions.concluded() == (a_sum(1),)
        if not again:
            ledger.close()
            ledger = open_ledger()
            steps = Steps(ledger.sessions(terms), terms)
    for last, names in ((4, (NAMES[0],)), (3, (NAMES[4],))):
        with pytest.raises(
            LedgerError, match="released or passed over, and are not released again"
        ):
            Steps(steps.sessions, terms, 2).begin(last=last, origins=names)
    assert ledger.released() == ()


def test_a_query_without_a_value_costs_nothing_and_its_readings_are_passed_over(
    open_ledger: Any, terms: Any
) -> None:
    ledger = open_ledger()
    steps = Steps(ledger.sessions(terms), terms).begin(last=1, origins=NAMES[:1])
    steps.open().prepare().withdraw().open(0, 1)
    steps.sessions.conclude_query(1, "views", None)
    ledger.close()
    ledger = open_ledger()
    assert (ledger.spent.epsilon, ledger.remaining.epsilon) == (0, 1)
    assert ledger.was_passed_over(NAMES[0])
    assert ledger.last_reading == 1
    sessions = ledger.sessions(terms)
    assert (sessions.last_query, sessions.concluded()) == (1, ())
    with pytest.raises(LedgerError, match="are not released again"):
        Steps(sessions, terms, 2).begin(last=2, origins=NAMES[:1])
    Steps(sessions, terms, 2).begin(last=2, origins=NAMES[1:2])


def test_a_refunded_value_is_still_released(open_ledger: Any, terms: Any) -> None:
    ledger = open_ledger()
    steps = Steps(ledger.sessions(terms), terms).begin(origins=NAMES[:1])
    steps.sent()
    steps.refund()
    steps.sessions.conclude_query(1, "attempts", None)
    assert (ledger.spent.epsilon, ledger.last_reading) == (0, 1)
    assert ledger.has_origin(NAMES[0])
    assert not ledger.was_passed_over(NAMES[0])


def test_a_query_that_the_agent_contributes_nothing_to(open_ledger: Any, terms: Any) -> None:
    ledger = open_ledger()
    sessions = ledger.sessions(terms)
    sessions.conclude_query(3, "sum", a_sum(3))
    assert (sessions.last_query, sessions.concluded()) == (3, (a_sum(3),))
    assert (ledger.spent.epsilon, ledger.last_reading) == (0, 0)
    with pytest.raises(LedgerError, match="query 2 comes after query 3"):
        Steps(sessions, terms, 2).begin()
    steps = Steps(sessions, terms, 4).begin()
    with pytest.raises(LedgerError, match="another one is open"):
        sessions.conclude_query(5, "sum", a_sum(5))  # another one is open
    steps.sent()
    sessions.conclude_query(4, "sum", a_sum(4))
    ledger.close()
    assert open_ledger().sessions(terms).concluded() == (a_sum(3), a_sum(4))


def test_a_query_is_concluded_once_or_better(open_ledger: Any, terms: Any, tmp_path: Any) -> None:
    ledger = open_ledger()
    sessions = ledger.sessions(terms)
    Steps(sessions, terms).begin().sent()
    sessions.conclude_query(1, "attempts", None)
    sessions.conclude_query(1, "attempts", None)
    with pytest.raises(LedgerError, match="concluded otherwise"):
        sessions.conclude_query(1, "views", None)
    Steps(sessions, terms, 2).begin(last=2).open().prepare()
    sessions.conclude_query(1, "sum", a_sum(1, 1))
    sessions.conclude_query(1, "sum", a_sum(1, 0))
    with pytest.raises(LedgerError, match="concluded otherwise"):
        sessions.conclude_query(1, "sum", a_sum(1, 1))
    for wrong in (("", None), ("sum", a_sum(2))):
        with pytest.raises(LedgerError, match="needs a reason"):
            sessions.conclude_query(1, *wrong)
    Steps(sessions, terms, 2).ready().send()
    sessions.conclude_query(2, "sum", a_sum(2))
    ledger.close()
    assert verify(tmp_path / "a.ledger").ok
    again = open_ledger().sessions(terms)
    assert again.concluded() == (a_sum(1, 0), a_sum(2))
    with pytest.raises(LedgerError, match="query 1 is not open"):
        again.send(1)
    assert again.entries(1)[-1].prepared is not None  # it is sent again for ever


@pytest.mark.parametrize("sent", [False, True])
def test_other_terms_end_an_open_query(
    open_ledger: Any, terms: Any, manifest: Any, tmp_path: Any, sent: bool
) -> None:
    ledger = open_ledger()
    steps = Steps(ledger.sessions(terms), terms).begin(origins=NAMES[:1]).open()
    steps.prepare(*SECRETS)
    if sent:
        steps.ready().send()
    other = made_terms(manifest, nonce=bytes([1]) * 16)
    new = ledger.sessions(other)
    assert new.open_query() is None
    assert ledger.budget_status().reserved.epsilon == 0
    assert ledger.spent.epsilon == (0.125 if sent else 0)
    with pytest.raises(LedgerError, match="query 1 is not open"):
        steps.withdraw()
    assert ledger.has_origin(NAMES[0]) is sent
    asked = Steps(new, other)
    if sent:
        with pytest.raises(LedgerError, match="not released again"):
            asked.begin(origins=NAMES[:1])
        asked.begin(last=2, origins=NAMES[1:2]).sent()
    else:
        assert not holding(tmp_path)
        asked.begin(origins=NAMES[:1]).sent()  # nothing of it had been sent: it is free
    new.conclude_query(1, "sum", a_sum(1))
    ledger.close()
    assert verify(tmp_path / "a.ledger").ok
    assert open_ledger().sessions(terms).last_query == 1  # the run before cannot ask again


def test_local_noise_and_a_masked_sum_have_each_their_ledger(
    open_ledger: Any, terms: Any, draw: Any, cost: Any
) -> None:
    local = open_ledger("local.ledger")
    local.charge(1, 1, cost, draw)
    with pytest.raises(LedgerError, match="has releases with local noise"):
        Steps(local.sessions(terms), terms).begin(last=2)
    masked = open_ledger("masked.ledger")
    Steps(masked.sessions(terms), terms).begin()
    with pytest.raises(LedgerError, match="is that of a masked sum"):
        masked.charge(2, 1, cost, draw)
    assert draw.calls == 1


def test_withdrawn_means_gone_from_every_file(open_ledger: Any, terms: Any, tmp_path: Any) -> None:
    steps = Steps(open_ledger().sessions(terms), terms).begin().open()
    for words in (SECRETS[:1], SECRETS):  # in a page, and on pages of its own
        steps.prepare(*words).ready()
        assert holding(tmp_path, words)
        steps.withdraw()
        assert not holding(tmp_path)
        steps.open(0, steps.last.view + 1)
    steps.prepare(*SECRETS)
    steps.sessions.conclude_query(1, "cloned", None)
    assert not holding(tmp_path)
    assert steps.last.stage is Stage.WITHDRAWN


def test_the_search_sees_a_log_that_is_not_emptied(
    open_ledger: Any, terms: Any, tmp_path: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(Store, "empty_log", lambda _: True)
    Steps(open_ledger().sessions(terms), terms).begin().open().prepare(*SECRETS).withdraw()
    assert "a.ledger-wal" in holding(tmp_path)


def test_the_search_sees_a_database_that_is_not_overwritten(
    open_ledger: Any, terms: Any, tmp_path: Any, monkeypatch: Any
) -> None:
    def careless(self: Any, row: Any) -> None:
        columns = ", ".join(f"{name} = ?" for name in row._fields)
        self.db.execute(f"UPDATE sessions SET {columns} WHERE number = ?", (*row, row.number))

    ledger = open_ledger()
    ledger._writer.store.db.execute("PRAGMA secure_delete = OFF")
    monkeypatch.setattr(Store, "change_session", careless)
    Steps(ledger.sessions(terms), terms).begin().open().prepare(*SECRETS).withdraw()
    assert "a.ledger" in holding(tmp_path)


def test_a_reader_delays_the_emptying_of_the_log_and_no_longer(
    open_ledger: Any, terms: Any, tmp_path: Any
) -> None:
    ledger = open_ledger()
    steps = Steps(ledger.sessions(terms), terms).begin().open().prepare(*SECRETS)
    reader = Store(tmp_path / "a.ledger", read_only=True)
    reader.db.execute("BEGIN")
    assert len(reader.sessions()) == 1
    steps.withdraw()
    assert steps.last.stage is Stage.WITHDRAWN
    assert holding(tmp_path)
    reader.close()
    steps.open(0, 1)
    assert not holding(tmp_path)


def test_a_reader_at_the_start_delays_it_likewise(
    open_ledger: Any, terms: Any, tmp_path: Any
) -> None:
    """The value was withdrawn before the restart, and a reader kept the log from then on."""
    ledger = open_ledger()
    steps = Steps(ledger.sessions(terms), terms).begin().open().prepare(*SECRETS)
    reader = Store(tmp_path / "a.ledger", read_only=True)
    reader.db.execute("BEGIN")
    assert len(reader.sessions()) == 1
    steps.withdraw()
    ledger.close()
    again = open_ledger()
    assert holding(tmp_path)
    reader.close()
    Steps(again.sessions(terms), terms).open(0, 1)
    assert not holding(tmp_path)


def test_a_backup_has_no_value_that_may_be_withdrawn(
    open_ledger: Any, terms: Any, tmp_path: Any
) -> None:
    ledger = open_ledger()
    steps = Steps(ledger.sessions(terms), terms).begin().open().prepare(*SECRETS).ready()
    folder = tmp_path / "copies"
    folder.mkdir()
    backup(tmp_path / "a.ledger", folder / "copy")
    assert not holding(folder)
    assert verify(folder / "copy").ok
    kept = read_ledger(folder / "copy").sessions[-1]
    assert (kept.stage, kept.commitment) == ("opened", steps.last.commitment)
    assert steps.send().words == SECRETS  # the ledger itself is not disturbed
    backup(tmp_path / "a.ledger", folder / "public")
    assert holding(folder) == {"public"}


def test_a_restored_ledger_begins_and_sends_nothing_before_it_is_confirmed(
    open_ledger: Any, terms: Any, tmp_path: Any
) -> None:
    ledger = open_ledger()
    steps = Steps(ledger.sessions(terms), terms).begin().open().prepare()
    backup(tmp_path / "a.ledger", tmp_path / "copy")
    ledger.close()
    restore(tmp_path / "copy", tmp_path / "b.ledger", by="ana")
    again = open_ledger("b.ledger")
    assert again.restored
    steps = Steps(again.sessions(terms), terms)
    assert steps.begin().last.stage is Stage.OPENED  # the open one is known; nothing is written
    for call in (steps.prepare, steps.ready, steps.send, lambda: steps.open(0, 1)):
        with pytest.raises(LedgerError, match="not all neighbours have sent what they remember"):
            call()
    steps.sessions.conclude_query(1, "views", None)
    with pytest.raises(LedgerError, match="not all neighbours have sent what they remember"):
        Steps(steps.sessions, terms, 2).begin(last=2)
    again.confirm_restored()
    Steps(steps.sessions, terms, 2).begin(last=2).sent()


def test_a_value_that_a_backup_lacks_is_not_prepared_again(
    open_ledger: Any, terms: Any, tmp_path: Any
) -> None:
    ledger = open_ledger()
    Steps(ledger.sessions(terms), terms).begin().open().prepare()
    backup(tmp_path / "a.ledger", tmp_path / "copy")
    ledger.close()
    restore(tmp_path / "copy", tmp_path / "b.ledger", by="ana")
    again = open_ledger("b.ledger")
    again.confirm_restored()
    steps = Steps(again.sessions(terms), terms)
    with pytest.raises(LedgerError, match="committed to a value that is lost"):  # R6
        steps.prepare(1)
    steps.open(0, 1).prepare().ready().send()


def test_an_older_copy_is_seen_by_the_lock_file(
    open_ledger: Any, terms: Any, tmp_path: Any
) -> None:
    """Restored to before PREPARED: no release is missing, and the steps tell."""
    path = tmp_path / "a.ledger"
    ledger = open_ledger()
    Steps(ledger.sessions(terms), terms).begin().open()
    ledger.close()
    older = path.read_bytes()
    backup(path, tmp_path / "copy")
    ledger = open_ledger()
    Steps(ledger.sessions(terms), terms).prepare()
    ledger.close()
    path.write_bytes(older)
    with pytest.raises(LedgerError, match="records 3 steps of sessions and the ledger has 2"):
        open_ledger()
    path.unlink()
    with pytest.raises(LedgerError, match=r"records 3 steps and the backup .* has 2") as e:
        restore(tmp_path / "copy", path, by="ana")
    assert "`veilsum keys request` on the site, have the others pin its signing key" in str(e.value)
    assert "keys issue" not in str(e.value)


def test_a_copied_directory_is_another_process_with_the_same_key(
    open_ledger: Any, terms: Any, tmp_path: Any
) -> None:
    """The lock is of the machine: a copy opens, and only the records of both convict it."""
    ledger = open_ledger()
    Steps(ledger.sessions(terms), terms).begin().open().prepare(*SECRETS)
    with pytest.raises(LedgerError, match="is open in process"):
        open_ledger()
    (tmp_path / "copy").mkdir()
    for name in ("a.ledger", "a.ledger-wal", "a.ledger.lock"):
        shutil.copy(tmp_path / name, tmp_path / "copy" / name)
    cloned = open_ledger("copy/a.ledger")
    other = Steps(cloned.sessions(terms), terms)
    assert other.last == Steps(ledger.sessions(terms), terms).last  # the same bytes, never others
    assert cloned.run != ledger.run
    assert cloned.secret == ledger.secret


def test_a_log_that_was_deleted_is_seen(open_ledger: Any, terms: Any, tmp_path: Any) -> None:
    path = tmp_path / "a.ledger"
    ledger = open_ledger()
    Steps(ledger.sessions(terms), terms).begin().open().prepare()
    (tmp_path / "copy").mkdir()
    shutil.copy(path, tmp_path / "copy" / "a.ledger")
    shutil.copy(lock_path(path), tmp_path / "copy" / "a.ledger.lock")
    with pytest.raises(LedgerError, match="steps of sessions"):
        open_ledger("copy/a.ledger")


def test_a_full_disk_stops_a_step_and_changes_nothing(
    open_ledger: Any, terms: Any, tmp_path: Any
) -> None:
    ledger = open_ledger()
    steps = Steps(ledger.sessions(terms), terms).begin().open()
    pages = ledger._writer.store.db.execute("PRAGMA page_count").fetchone()[0]
    ledger._writer.store.db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(LedgerError, match=r"step of a session \(prepare\): the disk is full"):
        steps.prepare(*SECRETS)
    for call in (steps.ready, steps.withdraw, lambda: steps.prepare(1)):
        with pytest.raises(LedgerError, match="an earlier write failed; open it again"):
            call()
    ledger.close()
    again = open_ledger()
    steps = Steps(again.sessions(terms), terms)
    assert steps.last.stage is Stage.OPENED
    assert not holding(tmp_path)
    steps.prepare(*SECRETS).ready().send()
    assert verify(tmp_path / "a.ledger").ok


def test_what_is_said_of_the_sessions_has_no_value(
    open_ledger: Any, terms: Any, tmp_path: Any
) -> None:
    ledger = open_ledger()
    steps = Steps(ledger.sessions(terms), terms).begin(last=2, readings=2)
    steps.open().prepare(*SECRETS).ready().send()
    steps.refund()
    steps.open(1).prepare(*SECRETS[:2]).ready().send()
    path = tmp_path / "a.ledger"
    contents = read_ledger(path)
    rows = export(contents, "csv").splitlines()
    assert rows[0].endswith(",query,attempt,members,refunded")
    assert [row.split(",")[-4:] for row in rows[1:]] == [
        ["1", "1", "4", "True"],
        ["1", "2", "4", "False"],
    ]
    text = report(contents, verify(path))
    assert "Queries of a masked sum: 1 (1 open)" in text
    assert "2 sessions: 2 sent, 0 withdrawn, 1 refunded" in text
    assert "contributed to one query, at a cost of at most epsilon = 0.125" in text
    assert "2 releases of 2 readings" in text
    assert "refund by 0 (3 members withdrew)" in text
    steps.reinstate()
    after = read_ledger(path)
    assert [row.split(",")[-1] for row in export(after, "csv").splitlines()[1:]] == ["False"] * 2
    again = report(after, verify(path))
    assert "2 sent, 0 withdrawn, 0 refunded, 1 refunded and taken again" in again
    assert "reinstated by 0 (the refund was false), after 2 releases" in again
    assert "at a cost of at most epsilon = 0.25" in again
    for shown in (text, export(contents, "csv"), export(contents, "json"), repr(ledger)):
        assert not any(f"{w:x}" in shown or str(w) in shown for w in SECRETS[:50])


@pytest.mark.parametrize(
    ("labels", "proved"),
    [("234", True), ("23", False), ("233", False), ("023", False), ("", False)],
)
def test_verify_counts_the_withdrawals_of_a_refund(
    open_ledger: Any, terms: Any, tmp_path: Any, labels: str, proved: bool, monkeypatch: Any
) -> None:
    """Written by an agent that does not ask for enough of them."""
    usual = rules.count_withdrawals
    monkeypatch.setattr(rules, "count_withdrawals", lambda *_: 99)
    steps = Steps(open_ledger().sessions(terms), terms).begin()
    steps.sent()
    found = withdraws(steps.last, *labels) if labels else withdraws(entry(terms, 1, 0, 1))
    steps.sessions.refund(1, 0, found)
    monkeypatch.setattr(rules, "count_withdrawals", usual)
    problems = verify(tmp_path / "a.ledger").problems
    assert problems == (() if proved else ("change 1 is a refund without enough withdrawals",))


class DiskLedger:
    """A ledger on disk in the shoes of the one in memory."""

    def __init__(self, ledger: Any, terms: Any) -> None:
        self.ledger, self.fuse = ledger, None
        self._sessions = ledger.sessions(terms)

    def begin(self, query: int, epsilon: Fraction, attempts: int) -> None:
        self._sessions.begin_query(query, PrivacyEvent(float(epsilon)), attempts, last=1)
        self._sessions.begin(query, epsilon, attempts)

    @property
    def charged(self) -> Fraction:
        return Fraction(self.ledger.spent.epsilon)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sessions, name)


def a_world(open_ledger: Any, manifest: Any, labels: str = "0123456"[:6]) -> Any:
    found = world.made_terms(labels=labels)
    terms = replace(found, manifest=manifest.digest)
    made: Any = world.World(terms)
    made.ledgers = {
        label: DiskLedger(open_ledger(f"{label}.ledger", agent=label, budget=Budget(10.0)), terms)
        for label in labels
    }
    return made


def test_a_whole_sum_over_ledgers_on_disk_and_a_thief_of_all_of_them(
    open_ledger: Any, manifest: Any, tmp_path: Any, monkeypatch: Any
) -> None:
    """No ephemeral key, X25519 secret, x or x + eta in any file at the end, ledgers still open."""
    secrets: set[bytes] = set()
    drawn = masks.EphemeralKey.exchange

    def exchange(self: Any, theirs: bytes) -> bytes:
        found = drawn(self, theirs)
        secrets.update((found, self._private.private_bytes_raw()))
        return found

    monkeypatch.setattr(masks.EphemeralKey, "exchange", exchange)
    made = a_world(open_ledger, manifest)
    made.statistics = {
        label: (0x5EED0000_00000001 + 0x1000001 * k, k) for k, label in enumerate(made.terms.labels)
    }
    monkeypatch.setattr(world, "QUERY", 1)
    numbers = made.terms.parameters
    object.__setattr__(
        numbers, "largest_steps", 2**63
    )  # the words are to be found if they are there
    for label in made.terms.labels:
        made.start(label)
    made.run()
    for label in made.terms.labels:
        (entry,) = made.ledgers[label].entries(1)
        assert entry.stage is Stage.SENT
        assert made.ledgers[label].charged == Fraction(world.EPSILON)
        for x, eta in zip(made.statistics[label], made.noise[label, entry.sid], strict=True):
            for number in (x, x + eta) if x > 1000 else ():
                secrets |= {number.to_bytes(8, order) for order in ("big", "little")}
                secrets |= {f"{number:x}".encode(), str(number).encode()}
    assert len(secrets) > 30
    written = files(tmp_path)
    assert {f"0.ledger{end}" for end in ("", "-wal", "-shm", ".lock")} <= set(written)
    for name, data in written.items():
        assert not any(secret in data for secret in secrets), name
    sums = {made.sessions[label].result.totals for label in made.terms.labels}
    assert len(sums) == 1
    public = next(iter(made.sent("0").values()))
    assert holding(tmp_path, [w for words in public for w in words]) >= {"0.ledger-wal"}


def test_the_schema_admits_one_value_per_attempt(
    open_ledger: Any, terms: Any, tmp_path: Any
) -> None:
    """R1 once more, below the rules: the file itself refuses a second one."""
    ledger = open_ledger()
    steps = Steps(ledger.sessions(terms), terms).begin()
    steps.sent()
    entry = read_ledger(tmp_path / "a.ledger").entries[0]
    with pytest.raises(sqlite3.IntegrityError):
        ledger._writer.store.append(entry._replace(seq=2))
    with pytest.raises(sqlite3.IntegrityError):
        ledger._writer.store.add_session(read_ledger(tmp_path / "a.ledger").sessions[0])
    assert Fraction(ledger.spent.epsilon) == EPS
