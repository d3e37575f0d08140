"""The budget of a table: what is charged, what is stored, and what is refused."""

from __future__ import annotations

import itertools
import os
import sqlite3
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from veilsum.asking import budget_log
from veilsum.asking.budget import BudgetFile
from veilsum.asking.budget_acts import describe, raise_limit
from veilsum.asking.budget_log import BudgetLog
from veilsum.asking.fingerprint import Fingerprinter
from veilsum.asking.local_index import LocalIndex, index_path
from veilsum.asking.tables import open_table
from veilsum.errors import QuestionError
from veilsum.privacy.accounting import PrivacyEvent

ROWS = "kwh,region\n1.5,north\n2,south\n2,south\n"
posix = pytest.mark.skipif(sys.platform == "win32", reason="modes of files")
draws = itertools.count(1)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "a.csv"
    path.write_text(ROWS)
    return path


def ask(
    data: Any, question: str = "mean", epsilon: float = 1.0, delta: float = 0.0, **more: Any
) -> tuple[int, bool]:
    """The number of the draw that is answered, and whether it was drawn now."""
    now: list[int] = []
    path = more.pop("budget", None)
    with BudgetFile.of(open_table(data), path) as file:
        found = file.once(
            question,
            PrivacyEvent.of(epsilon, delta),
            lambda: {"x": now.append(next(draws)) or now[-1]},  # type: ignore[func-returns-value]
            **({"limit": 3.0} | more),
        )
    return found["x"], bool(now)


def spent(data: Any, path: Any = None) -> float:
    with BudgetFile.of(open_table(data), path) as file:
        return file.spent()


def notes(data: Any) -> str:
    with BudgetFile.of(open_table(data)) as file:
        return " ".join(file.notes)


def test_asking_again_returns_the_stored_answer_and_costs_nothing(data: Path) -> None:
    first, drawn = ask(data)
    assert drawn
    assert ask(data) == (first, False)
    assert spent(data) == 1.0


def test_another_question_is_drawn_and_added(data: Path) -> None:
    assert ask(data)[0] != ask(data, "variance", 0.5)[0]
    assert spent(data) == 1.5


def test_a_fresh_draw_is_paid_for_and_is_the_answer_from_then_on(data: Path) -> None:
    old, _ = ask(data)
    new, drawn = ask(data, fresh=True)
    assert drawn
    assert new != old
    assert ask(data) == (new, False)
    assert spent(data) == 2.0


def test_a_spent_budget_answers_what_it_has_and_refuses_the_rest(data: Path) -> None:
    first, _ = ask(data, epsilon=3)
    with pytest.raises(QuestionError, match=r"epsilon 3, of which epsilon 3 is spent.*0\.1 more"):
        ask(data, "variance", 0.1)
    assert ask(data, epsilon=3) == (first, False)


def test_the_first_question_is_the_limit_if_none_is_given(data: Path) -> None:
    ask(data, epsilon=1, limit=None)
    with pytest.raises(QuestionError, match=r"the budget a\.budget is epsilon 1,"):
        ask(data, "variance", 0.1, limit=None)


def test_a_codebook_limits_a_budget_that_has_no_limit_yet(data: Path) -> None:
    ask(data, epsilon=1, limit=None, first=(2.0, 0.0))
    ask(data, "variance", 1.0, limit=None, first=(9.0, 0.0))
    with pytest.raises(QuestionError, match="is epsilon 2"):
        ask(data, "sum", 0.1, limit=None, first=(9.0, 0.0))


def test_a_first_question_beyond_its_limit_sets_none(data: Path) -> None:
    with pytest.raises(QuestionError, match="is epsilon 1,"):
        ask(data, epsilon=2, limit=1)
    ask(data, epsilon=2, limit=5)


def test_a_limit_is_lowered_freely_and_raised_only_on_purpose(data: Path) -> None:
    ask(data)
    ask(data, limit=2)  # stored, and lowered
    with pytest.raises(QuestionError, match=r"raise it.*--raise 2\.5"):
        ask(data, limit=2.5)
    with pytest.raises(QuestionError, match="is epsilon 2,"):
        ask(data, "variance", 1.5, limit=None)
    said = raise_limit(data.with_suffix(".budget"), 2.5)
    assert "was epsilon 2 and is epsilon 2.5 now" in said
    assert "e^2.5 times" in said
    ask(data, "variance", 1.5, limit=None)
    acts = [
        e["why"] for e in describe(data.with_suffix(".budget"))["entries"] if e["kind"] == "limit"
    ]
    assert acts == ["first", "lowered", "raised"]
    with pytest.raises(QuestionError, match="is lower"):
        raise_limit(data.with_suffix(".budget"), 1)


def test_deltas_add_up_as_epsilons_do(data: Path) -> None:
    ask(data, "a", 1.0, 1e-6, limit=(3.0, 2e-6))
    ask(data, "b", 1.0, 1e-6, limit=None)
    with pytest.raises(QuestionError, match="delta 2e-06"):
        ask(data, "c", 0.5, 1e-6, limit=None)
    ask(data, "d", 1.0, limit=None)


def test_a_budget_without_a_delta_answers_no_question_with_one(data: Path) -> None:
    ask(data)
    with pytest.raises(QuestionError, match=r"costs epsilon 1 and delta 1e-06 more"):
        ask(data, "b", 1.0, 1e-6)


def test_a_question_that_fails_costs_nothing(data: Path) -> None:
    def fail() -> Any:
        raise KeyError("column")

    ask(data)
    with BudgetFile.of(open_table(data)) as file, pytest.raises(KeyError):
        file.once("b", PrivacyEvent.of(1.0), fail)
    assert spent(data) == 1.0


def test_a_file_that_changes_while_it_is_read_is_not_answered(data: Path) -> None:
    def change() -> Any:
        data.write_text(ROWS + "7,north\n")
        return {"x": 0}

    with (
        BudgetFile.of(open_table(data)) as file,
        pytest.raises(QuestionError, match="changed while"),
    ):
        file.once("a", PrivacyEvent.of(1.0), change, limit=3)
    assert spent(data) == 0


def test_draws_happen_while_the_file_is_held_and_after_the_charge_is_checked(data: Path) -> None:
    """Another process cannot write in the meantime."""
    ask(data)

    def draw() -> Any:
        other = sqlite3.connect(data.with_suffix(".budget"), timeout=0, isolation_level=None)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("begin immediate")
        other.close()
        return {"x": 0}

    with BudgetFile.of(open_table(data)) as file:
        file.once("b", PrivacyEvent.of(1.0), draw)


def test_every_write_waits_for_the_disk(data: Path) -> None:
    ask(data)
    with BudgetFile.of(open_table(data)) as file:
        for db, least in ((file._log._db, 3), (file._index._db, 2)):  # extra, full
            assert db.execute("pragma synchronous").fetchone() == (least,)
            assert db.execute("pragma journal_mode").fetchone() == ("delete",)


@posix
def test_files_are_for_their_owner_alone(data: Path) -> None:
    was = os.umask(0)
    try:
        ask(data)
    finally:
        os.umask(was)
    for path in (data.with_suffix(".budget"), index_path()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(index_path().parent.stat().st_mode) == 0o700


@posix
def test_a_budget_that_others_can_read_is_closed_to_them(data: Path) -> None:
    ask(data)
    data.with_suffix(".budget").chmod(0o644)
    ask(data)
    assert stat.S_IMODE(data.with_suffix(".budget").stat().st_mode) == 0o600


def test_a_budget_file_shows_neither_rows_nor_the_secret(data: Path) -> None:
    """Nor a fingerprint that can be made of a guess of the rows without the secret."""
    ask(data)
    index = LocalIndex()
    secret = index.secret
    index.close()
    kept = data.with_suffix(".budget").read_bytes()
    guess = open_table(data)
    assert Fingerprinter(secret).of(guess).encode() in kept
    assert secret not in kept
    assert secret.hex().encode() not in kept
    assert b"north" not in kept
    for known in (b"", bytes(32)):
        assert Fingerprinter(known).of(guess).encode() not in kept


def test_a_weakened_twin_without_a_key_confirms_a_guess_of_the_rows(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Fingerprinter.__init__
    monkeypatch.setattr(Fingerprinter, "__init__", lambda self, _: made(self, bytes(32)))
    ask(data)
    kept = data.with_suffix(".budget").read_bytes()
    assert Fingerprinter(b"any").of(open_table(data)).encode() in kept


def test_a_damaged_file_is_named_and_nothing_is_released(data: Path) -> None:
    ask(data)
    path = data.with_suffix(".budget")
    whole = path.read_bytes()
    for broken in (b"no database", whole[:4000] + b"\xff" * 500 + whole[4500:], whole[:5000]):
        path.write_bytes(broken)
        with pytest.raises(
            QuestionError, match=r"a\.budget is no budget of veilsum, or is damaged.*--mend"
        ):
            ask(data, "b")
    path.write_bytes(whole)
    ask(data)


@pytest.mark.parametrize(
    "change",
    [
        "update entries set body = replace(body, '1.0', '0.1') where kind = 'release'",
        "delete from entries where kind = 'limit'",
        "update answers set answer = '{\"x\": 5}'",
        "update entries set body = '{}', head = ''",
        "drop table entries",
        "delete from meta where key = 'id'",
    ],
)
def test_a_changed_entry_is_found(data: Path, change: str) -> None:
    ask(data)
    edit(data.with_suffix(".budget"), change)
    with pytest.raises(QuestionError, match="damaged"):
        ask(data)


def test_a_newer_format_is_refused_by_name(data: Path) -> None:
    ask(data)
    edit(data.with_suffix(".budget"), "update meta set value = '7' where key = 'format'")
    with pytest.raises(
        QuestionError, match=r"has format 7, and this veilsum knows format 1.*upgrade"
    ):
        ask(data)


def test_a_full_disk_keeps_nothing(data: Path) -> None:
    ask(data)
    with BudgetFile.of(open_table(data)) as file:
        pages = file._log._db.execute("pragma page_count").fetchone()[0]
        file._log._db.execute(f"pragma max_page_count = {pages}")
        with pytest.raises(QuestionError, match="full; nothing was released or charged"):
            file.once("b", PrivacyEvent.of(1.0), lambda: {"x": "long" * 5000})
    assert spent(data) == 1.0


def test_a_budget_in_use_says_so(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(data)
    monkeypatch.setattr(budget_log, "PATIENCE", 0.01)
    other = sqlite3.connect(data.with_suffix(".budget"), isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(QuestionError, match="in use by another process"):
        ask(data, "b")
    other.close()


def test_entries_are_a_chain(data: Path) -> None:
    ask(data)
    log = BudgetLog(data.with_suffix(".budget"))
    assert [entry.kind for entry in log.entries] == ["limit", "data", "release"]
    assert log.head_at(0) == log.id
    assert log.head_at(3) == log.head
    assert log.head_at(4) is None
    log.close()


@pytest.mark.parametrize("limit", [0, -1, float("nan"), (1.0, 1.5)])
def test_a_limit_is_a_number_above_0(data: Path, limit: Any) -> None:
    with pytest.raises(QuestionError, match=r"must be a"):
        ask(data, limit=limit)


def test_an_index_that_cannot_be_written_is_named(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VEILSUM_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(QuestionError, match="VEILSUM_HOME"):
        ask(data)


def edit(path: Path, statement: str) -> None:
    db = sqlite3.connect(path)
    with db:
        db.execute(statement)
    db.close()
