"""`kill -9` at every step of every call: the same bytes after it, and one charge."""

import json
import os
import signal
from contextlib import closing
from typing import Any

import pytest

from tests.agents.ledger.session_world import EPSILON, Steps, a_sum, made_terms
from veilsum.agents.ledger import Ledger, verify
from veilsum.agents.ledger.queries import QueryLog
from veilsum.agents.ledger.store import Store
from veilsum.agents.masked.entries import Stage
from veilsum.privacy import Budget

BUDGET = Budget(1.0)
ORIGIN = "a" * 32
SCRIPT: tuple[tuple[str, tuple[Any, ...], list[str]], ...] = (  # call, arguments, stages after it
    ("begin_query", (), []),
    ("open", (0, 0), ["opened"]),
    ("prepare", (), ["prepared"]),
    ("withdraw", (), ["withdrawn"]),
    ("open", (0, 1), ["withdrawn", "opened"]),
    ("prepare", (), ["withdrawn", "prepared"]),
    ("ready", (), ["withdrawn", "prepared"]),
    ("send", (), ["withdrawn", "sent"]),
    ("refund", (0,), ["withdrawn", "refunded"]),
    ("open", (1, 0), ["withdrawn", "refunded", "opened"]),
    ("prepare", (), ["withdrawn", "refunded", "prepared"]),
    ("ready", (), ["withdrawn", "refunded", "prepared"]),
    ("send", (), ["withdrawn", "refunded", "sent"]),
    ("reinstate", (0,), ["withdrawn", "sent", "sent"]),
    ("refund", (0,), ["withdrawn", "refunded", "sent"]),
    ("conclude_query", (), ["withdrawn", "refunded", "sent"]),
)


def take(steps: Any, call: str, given: Any, words: Any) -> None:
    if call == "begin_query":
        steps.begin(origins=(ORIGIN,))
    elif call == "conclude_query":
        steps.sessions.conclude_query(1, "sum", a_sum(1, 1))
    else:
        getattr(steps, call)(*(words if call == "prepare" else given))


def open_fast(path: Any, manifest: Any, **more: Any) -> Any:
    """Without waiting for the disk, which a kill of the process cannot tell from waiting."""
    ledger = Ledger.open(path, manifest, "0", BUDGET, **more)
    ledger._writer.store.db.execute("PRAGMA synchronous = OFF")
    vars(ledger._writer.store)["wait_for_disk"] = lambda _: None
    return ledger


def die(path: Any, manifest: Any, step: int, moment: str) -> tuple[int, ...]:
    """Take one step in a process of its own, killed at a moment of it; the words it had drawn."""
    call, given, _ = SCRIPT[step]
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        try:

            def at(here: str) -> None:
                if here == moment:
                    os.write(into, b'"waiting"\n')
                    signal.pause()

            terms = made_terms(manifest)
            steps = Steps(open_fast(path, manifest, probe=at).sessions(terms), terms)
            words = tuple(int.from_bytes(os.urandom(8)) for _ in range(3))
            os.write(into, (json.dumps(words) + "\n").encode())
            take(steps, call, given, words)
            at("returned")
        finally:
            os._exit(3)
    os.close(into)
    with os.fdopen(out) as reported:
        drawn = tuple(json.loads(reported.readline()))
        assert reported.readline() == '"waiting"\n', f"{call} never came to {moment}"
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    return drawn


def found(path: Any, manifest: Any) -> tuple[Any, ...]:
    """What the ledger has after a crash, in the terms of the rules."""
    sound = verify(path)
    assert sound.ok, sound.problems
    terms = made_terms(manifest)
    with open_fast(path, manifest) as ledger:
        sessions = ledger.sessions(terms)
        query = sessions.open_query()
        entries = sessions.entries(1) if query or sessions.last_query else ()
        charged = sum(entry.stage is Stage.SENT for entry in entries)
        assert ledger.spent.epsilon == EPSILON * charged
        assert ledger.releases == sum(entry.sent for entry in entries)
        used = sum(entry.sent for entry in entries)
        reserved = EPSILON * (2 - used) if query else 0.0
        assert ledger.budget_status().reserved.epsilon == reserved
        assert ledger.has_origin(ORIGIN) == bool(sessions.last_query)
        return query is not None, sessions.last_query, entries


def survives(path: Any, manifest: Any, steps: range) -> None:
    """Kill at each moment of each step: before the commit nothing happened, after it everything."""
    known: dict[bytes, Any] = {}  # what was ever committed to, by session
    before = found(path, manifest) if path.exists() else (False, 0, ())
    for step in steps:
        call, _, expected = SCRIPT[step]
        for moment in ("checked", "written"):
            die(path, manifest, step, f"{call} {moment}")
            assert found(path, manifest) == before, f"{call} was half done at {moment}"
        drawn = die(path, manifest, step, f"{call} committed")
        before = open_one, _, entries = found(path, manifest)
        assert open_one == (call != "conclude_query")
        assert [entry.stage.value for entry in entries] == expected
        for entry in entries:
            if entry.prepared is not None:
                assert known.setdefault(entry.sid, entry.prepared) == entry.prepared
        if call == "prepare":
            assert entries[-1].prepared.words == drawn


def test_a_kill_at_every_step_of_every_call(tmp_path: Any, manifest: Any) -> None:
    survives(tmp_path / "a.ledger", manifest, range(len(SCRIPT)))
    open_one, last, entries = found(tmp_path / "a.ledger", manifest)
    assert (open_one, last) == (False, 1)
    assert [entry.stage for entry in entries] == [Stage.WITHDRAWN, Stage.REFUNDED, Stage.SENT]


@pytest.mark.parametrize("moment", ["returned", "log emptied"])
def test_a_kill_after_a_withdrawal_leaves_nothing_of_the_value(
    tmp_path: Any, manifest: Any, moment: str
) -> None:
    path = tmp_path / "a.ledger"
    terms = made_terms(manifest)
    words = tuple(int.from_bytes(os.urandom(8)) for _ in range(3))
    with open_fast(path, manifest) as ledger:
        Steps(ledger.sessions(terms), terms).begin(origins=(ORIGIN,)).open().prepare(*words)
    die(path, manifest, 3, moment)
    for word in words:
        assert not any(word.to_bytes(8, "big") in one.read_bytes() for one in tmp_path.iterdir())


def test_a_kill_before_the_log_is_emptied_is_made_good_at_the_next_start(
    tmp_path: Any, manifest: Any
) -> None:
    path = tmp_path / "a.ledger"
    terms = made_terms(manifest)
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        try:

            def at(here: str) -> None:
                if here == "withdraw committed":
                    os.write(into, b"1")
                    signal.pause()

            steps = Steps(open_fast(path, manifest, probe=at).sessions(terms), terms)
            steps.begin().open().prepare(0x1234567890ABCDEF).withdraw()
        finally:
            os._exit(3)
    assert os.read(out, 1) == b"1"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(out)
    os.close(into)
    secret = 0x1234567890ABCDEF.to_bytes(8, "big")
    assert any(secret in one.read_bytes() for one in tmp_path.iterdir())
    with open_fast(path, manifest):
        assert not any(secret in one.read_bytes() for one in tmp_path.iterdir())


class Later(QueryLog):
    """A weakened variant: says that a step is done before it is."""

    def write(self, call: str, work: Any, chained: Any = ()) -> None:
        self._writer.probe(f"{call} checked")
        self._writer.probe(f"{call} committed")
        super().write(call, work, chained)


@pytest.mark.parametrize("step", [0, 1, 2])
def test_the_test_sees_a_ledger_that_writes_later(
    tmp_path: Any, manifest: Any, monkeypatch: Any, step: int
) -> None:
    path = tmp_path / "a.ledger"
    survives(path, manifest, range(step))
    monkeypatch.setattr("veilsum.agents.ledger.sessions.QueryLog", Later)
    with pytest.raises((AssertionError, IndexError)):
        survives(path, manifest, range(step, step + 1))


def test_one_sync_for_each_step(open_ledger: Any, manifest: Any, tmp_path: Any) -> None:
    """A commit under FULL is one, and nothing else in a step waits for the disk."""
    terms = made_terms(manifest)
    ledger = open_ledger()
    commits: list[str] = []
    ledger._writer.store.db.set_trace_callback(lambda text: commits.append(text.split()[0]))
    steps = Steps(ledger.sessions(terms), terms).begin()
    for call in (steps.open, steps.prepare, steps.ready, steps.send):
        commits.clear()
        call()
        assert commits.count("COMMIT") == 1
        assert "PRAGMA" not in commits
    with closing(Store(tmp_path / "b.ledger")) as store:
        assert store.db.execute("PRAGMA secure_delete").fetchone() == (1,)
