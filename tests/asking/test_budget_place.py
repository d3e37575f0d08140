"""The budget follows the data: known rows, known places, moved and lost files."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.asking.test_budget import ROWS, ask, notes, spent
from veilsum.asking.budget import BudgetFile
from veilsum.asking.budget_acts import adopt, describe, mend
from veilsum.asking.budget_log import BudgetLog
from veilsum.asking.codebook import Coded, parsed
from veilsum.asking.fingerprint import Fingerprinter
from veilsum.asking.tables import Table, open_table
from veilsum.errors import QuestionError
from veilsum.privacy.accounting import PrivacyEvent

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes of files, links")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o755)
    path = folder / "a.csv"
    path.write_text(ROWS)
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Go to another machine, or to another user."""
    return lambda name: monkeypatch.setenv("VEILSUM_HOME", str(tmp_path / name))


def reordered(text: str = ROWS) -> str:
    first, *rest = text.splitlines()
    return "\n".join([first, *reversed(rest)]) + "\n"


# Rows that are known


def test_a_renamed_file_has_the_same_budget(data: Path) -> None:
    first, _ = ask(data)
    data = data.rename(data.with_name("b.csv"))
    assert ask(data) == (first, False)
    assert not data.with_suffix(".budget").exists()


def test_a_copied_file_has_the_same_budget(data: Path, tmp_path: Path) -> None:
    first, _ = ask(data)
    copy = tmp_path / "copy.csv"
    shutil.copy(data, copy)
    assert "known under another path" in notes(copy)
    assert ask(copy) == (first, False)
    ask(copy, "b")
    assert spent(data) == 2.0


def test_a_reordered_file_has_the_same_budget(data: Path, tmp_path: Path) -> None:
    first, _ = ask(data)
    other = tmp_path / "sorted.csv"
    other.write_text(reordered())
    assert ask(other) == (first, False)
    data.write_text(reordered())
    assert ask(data) == (first, False)


def test_a_weakened_twin_that_depends_on_the_order_pays_twice(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_order(self: Fingerprinter, table: Any) -> str:
        rows = [list(map(str, b.values())) for b in table.batches(table.columns)]
        return str(self._of_text(repr(rows)))

    monkeypatch.setattr(Fingerprinter, "of", in_order)
    ask(data)
    other = tmp_path / "sorted.csv"
    other.write_text(reordered())
    assert ask(other)[1]
    assert other.with_suffix(".budget").exists()


def test_a_renamed_folder_and_a_moved_budget(data: Path) -> None:
    first, _ = ask(data)
    folder = data.parent.rename(data.parent.with_name("renamed"))
    assert ask(folder / "a.csv") == (first, False)
    (folder / "a.csv").rename(folder / "b.csv")
    (folder / "a.budget").rename(folder / "b.budget")
    assert ask(folder / "b.csv") == (first, False)
    (folder / "b.budget").rename(folder / "kept elsewhere")
    assert ask(folder / "b.csv", budget=folder / "kept elsewhere") == (first, False)
    assert ask(folder / "b.csv") == (first, False)


def test_a_folder_that_was_copied_with_its_budget_uses_the_original(
    data: Path, tmp_path: Path
) -> None:
    ask(data)
    shutil.copytree(data.parent, tmp_path / "copy")
    ask(tmp_path / "copy" / "a.csv", "b")
    assert spent(data) == 2.0
    changed = tmp_path / "copy" / "a.csv"
    changed.write_text(ROWS + "5,north\n")  # and so it does when the copy has changed
    ask(changed, "c")
    assert spent(data) == 3.0


@posix
def test_links_and_relative_paths(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = ask(data)
    link = data.with_name("link.csv")
    link.symlink_to(data)
    assert ask(link) == (first, False)
    monkeypatch.chdir(data.parent)
    assert ask("a.csv") == (first, False)
    data.write_text(ROWS + "5,north\n")
    ask(Path("..") / data.parent.name / "link.csv")
    assert spent(data) == 2.0


def test_rows_in_memory_are_known_as_those_of_a_file(data: Path) -> None:
    first, _ = ask(data)
    frame = {"region": np.array(["south", "north", "south"]), "kwh": np.array([2.0, 1.5, 2.0])}
    assert ask(frame) == (first, False)


def test_a_table_in_memory_says_where_its_budget_is(tmp_path: Path) -> None:
    frame = {"x": np.arange(5)}
    with pytest.raises(QuestionError, match="budget=PATH"):
        ask(frame)
    first, _ = ask(frame, budget=tmp_path / "x.budget")
    assert ask({"x": np.arange(5)[::-1]}) == (first, False)
    with pytest.raises(QuestionError, match="has a budget already"):
        ask(frame, budget=tmp_path / "y.budget")


# Places that are known


def test_a_changed_file_keeps_the_budget_of_its_path_and_pays_for_new_answers(data: Path) -> None:
    first, _ = ask(data)
    data.write_text(ROWS + "40,north\n")
    assert "have changed" in notes(data)
    second, drawn = ask(data)
    assert drawn
    assert spent(data) == 2.0
    assert ask(data) == (second, False)
    data.write_text(ROWS)  # as it was: the stored answer of those rows
    assert ask(data) == (first, False)
    assert spent(data) == 2.0


def test_a_changed_file_whose_copy_was_asked_before(data: Path, tmp_path: Path) -> None:
    """The new fingerprint is known from then on."""
    ask(data)
    data.write_text(ROWS + "40,north\n")
    second, _ = ask(data)
    copy = tmp_path / "copy.csv"
    shutil.copy(data, copy)
    assert ask(copy) == (second, False)


def test_a_changed_copy_elsewhere_cannot_be_known(data: Path, tmp_path: Path) -> None:
    ask(data)
    other = tmp_path / "other.csv"
    other.write_text(ROWS + "40,north\n")
    assert ask(other)[1]
    assert spent(data) == spent(other) == 1.0


def test_a_file_that_is_overwritten_by_another_known_one_is_refused(data: Path) -> None:
    other = data.with_name("b.csv")
    other.write_text("x\n1\n")
    ask(data)
    ask(other)
    shutil.copy(data, other)
    with pytest.raises(QuestionError, match=r"rename b\.csv"):
        ask(other)


def test_two_files_with_one_stem_have_two_budgets(data: Path) -> None:
    other = data.with_name("a.txt")
    other.write_text("x\n1\n")
    ask(data)
    ask(other)
    assert spent(data) == spent(other) == 1.0
    assert {p.name for p in data.parent.glob("*.budget")} == {"a.budget", "a.txt.budget"}
    other.write_text("x\n1\n2\n")
    ask(other)
    assert (spent(data), spent(other)) == (1.0, 2.0)


def test_two_files_with_one_stem_and_the_same_rows_have_one(data: Path) -> None:
    first, _ = ask(data)
    other = data.with_name("a.txt")
    other.write_text(reordered())
    assert ask(other) == (first, False)


def test_a_file_that_takes_the_place_of_one_that_is_gone(data: Path) -> None:
    """a.csv, converted with rounding to a.txt, and removed."""
    ask(data)
    other = data.with_name("a.txt")
    other.write_text("kwh,region\n1,north\n2,south\n2,south\n")
    data.unlink()
    ask(other, "b")
    assert spent(other) == 2.0


# Without an index


def test_on_another_machine_the_budget_beside_the_data_is_found(
    data: Path, home: Callable[[str], None]
) -> None:
    ask(data)
    home("other")
    assert "new to their budget" in notes(data)
    assert ask(data)[1]  # its rows cannot be compared
    assert spent(data) == 2.0


def test_another_file_beside_does_not_take_a_budget_it_is_not_named_in(
    data: Path, home: Callable[[str], None]
) -> None:
    ask(data)
    other = data.with_name("a.txt")
    other.write_text("x\n1\n")
    home("other")
    ask(other)
    assert spent(other) == 1.0


# A budget of other data, or in a place that is none


def test_a_budget_of_other_data_is_refused(data: Path, tmp_path: Path) -> None:
    ask(data)
    other = tmp_path / "other.csv"
    other.write_text("x\n1\n")
    with pytest.raises(QuestionError, match=r"the budget of other data than other\.csv.*--adopt"):
        ask(other, budget=data.with_suffix(".budget"))
    assert "charged to a.budget" in adopt(data.with_suffix(".budget"), other)
    ask(other)
    assert spent(data) == 2.0


def test_a_second_budget_for_known_data_is_refused(data: Path, tmp_path: Path) -> None:
    ask(data)
    with pytest.raises(QuestionError, match="has a budget already"):
        ask(data, budget=tmp_path / "new.budget")
    shutil.copy(data.with_suffix(".budget"), tmp_path / "copy.budget")
    with pytest.raises(QuestionError, match="has a budget already"):
        ask(data, budget=tmp_path / "copy.budget")


@posix
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o757])
def test_a_folder_where_others_write_holds_no_budget(data: Path, tmp_path: Path, mode: int) -> None:
    data.parent.chmod(mode)
    with pytest.raises(QuestionError, match=r"others may write to .*folder, .*--budget"):
        ask(data)
    first, _ = ask(data, budget=tmp_path / "mine.budget")
    assert ask(data) == (first, False)


@posix
def test_a_group_of_others_shares_a_folder_and_one_of_the_owner_alone_does_not(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import grp
    import pwd
    from types import SimpleNamespace as Found

    data.parent.chmod(0o775)
    owner = pwd.getpwuid(os.getuid()).pw_name
    group = Found(gr_name="everyone", gr_mem=[])
    monkeypatch.setattr(grp, "getgrgid", lambda _: group)
    with pytest.raises(QuestionError, match="others may write"):
        ask(data)
    group.gr_name, group.gr_mem = owner, ["somebody"]
    with pytest.raises(QuestionError, match="others may write"):
        ask(data)
    group.gr_mem = [owner]
    ask(data)


@posix
@pytest.mark.skipif(os.name == "posix" and os.getuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written(data: Path, tmp_path: Path) -> None:
    data.parent.chmod(0o555)
    with pytest.raises(QuestionError, match="--budget"):
        ask(data)
    ask(data, budget=tmp_path / "mine.budget")
    data.parent.chmod(0o755)


def test_a_file_that_cannot_be_made_names_the_option(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a read-only disk, where also root does not write."""
    made = os.open

    def read_only(path: Any, *more: Any, **others: Any) -> int:
        if str(path).endswith(".budget"):
            raise OSError(30, "Read-only file system")
        return made(path, *more, **others)

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(QuestionError, match=r"Read-only file system; say with --budget"):
        ask(data)


def test_a_folder_that_is_not_there(data: Path, tmp_path: Path) -> None:
    with pytest.raises(QuestionError, match="no folder"):
        ask(data, budget=tmp_path / "none" / "x.budget")


# A budget that is lost


def test_a_deleted_budget_is_missed_and_goes_on_with_what_was_spent(data: Path) -> None:
    path = data.with_suffix(".budget")
    ask(data)
    path.unlink()
    for _ in range(2):
        with pytest.raises(
            QuestionError, match=r"a\.budget, is missing; epsilon 1 of 3 was spent.*--mend"
        ):
            ask(data)
    assert not path.exists()
    assert "Epsilon 1" in mend(path)
    assert spent(data) == 1.0
    assert describe(path)["epsilon_limit"] == 3.0
    ask(data, epsilon=2)
    with pytest.raises(QuestionError, match="is epsilon 3"):
        ask(data, "b")


def test_a_deleted_budget_is_missed_by_a_renamed_and_by_a_changed_file(data: Path) -> None:
    ask(data)
    data.with_suffix(".budget").unlink()
    renamed = data.rename(data.with_name("b.csv"))
    with pytest.raises(QuestionError, match="is missing"):
        ask(renamed)
    data.write_text(ROWS + "5,north\n")
    with pytest.raises(QuestionError, match="is missing"):
        ask(data)


def test_a_budget_from_a_backup_is_found_out(data: Path) -> None:
    path, backup = data.with_suffix(".budget"), data.with_name("backup")
    ask(data)
    shutil.copy(path, backup)
    ask(data, "b", 1.5)
    latest = path.read_bytes()
    shutil.copy(backup, path)
    with pytest.raises(
        QuestionError, match=r"3 entries, and 4 are known: it was put back from an older"
    ):
        ask(data, "b", 1.5)
    path.write_bytes(latest)
    assert not ask(data, "b", 1.5)[1]
    shutil.copy(backup, path)
    assert "Epsilon 1.5" in mend(path)
    assert spent(data) == 2.5
    assert not ask(data)[1]  # what it still has is free
    path.write_bytes(latest)
    with pytest.raises(QuestionError, match="used elsewhere"):
        ask(data)


def test_a_budget_that_went_on_elsewhere_is_found_out(
    data: Path, tmp_path: Path, home: Callable[[str], None]
) -> None:
    path = data.with_suffix(".budget")
    ask(data)
    home("other")
    shutil.copytree(data.parent, tmp_path / "stick")
    ask(tmp_path / "stick" / "a.csv", "b", 0.25)
    ask(tmp_path / "stick" / "a.csv", "c", 0.25)
    home("third")
    ask(data, "d", 0.5)
    shutil.copy(tmp_path / "stick" / "a.budget", path)
    with pytest.raises(QuestionError, match="used elsewhere"):
        ask(data)
    mend(path)
    assert spent(data) == 1.0 + 0.5 + 0.5  # what both have, and what each has alone


def test_a_damaged_budget_is_moved_away_and_charged(data: Path) -> None:
    path = data.with_suffix(".budget")
    ask(data)
    path.write_bytes(b"no database")
    assert "Epsilon 1" in mend(path)
    assert spent(data) == 1.0
    assert path.with_name("a.budget.damaged").read_bytes() == b"no database"


def test_what_is_not_known_cannot_be_mended(data: Path) -> None:
    with pytest.raises(QuestionError, match="nothing is known here"):
        mend(data.with_suffix(".budget"))


def test_an_empty_file_is_no_budget_yet(data: Path) -> None:
    data.with_suffix(".budget").write_bytes(b"")
    ask(data)
    data.with_suffix(".budget").write_bytes(b"")
    with pytest.raises(QuestionError, match="is missing"):
        ask(data)


# Large files


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables whose fingerprints are made."""
    passes: list[str] = []
    of = Fingerprinter.of

    def counting(self: Fingerprinter, table: Table) -> str:
        passes.append(table.name)
        return of(self, table)

    monkeypatch.setattr(Fingerprinter, "of", counting)
    return passes


def test_a_large_file_is_not_read_again_to_know_it(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("veilsum.asking.budget.LARGE", 1)
    os.utime(data, (1e9, 1e9))
    passes = counted(monkeypatch)
    first, _ = ask(data)
    assert ask(data) == (first, False)
    assert len(passes) == 1
    data.write_text(ROWS + "5,north\n")
    os.utime(data, (1e9, 1e9))  # the time of a change of the file itself cannot be set
    assert ask(data)[1]
    assert len(passes) == 2


def test_a_large_file_that_has_just_changed_is_read_each_time(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its times may not tell two changes apart."""
    monkeypatch.setattr("veilsum.asking.budget.LARGE", 1)
    passes = counted(monkeypatch)
    ask(data)
    ask(data)
    assert len(passes) == 2


def test_the_table_is_left_as_it_is(data: Path) -> None:
    before = {p.name for p in data.parent.iterdir()}
    ask(data)
    assert {p.name for p in data.parent.iterdir()} - before == {"a.budget"}
    assert data.read_text() == ROWS
    log = BudgetLog(data.with_suffix(".budget"))
    assert [e.body["name"] for e in log.of_kind("data")] == ["a.csv"]
    log.close()


# Tables that are made of others


def test_a_select_is_charged_to_the_file_that_it_reads(data: Path) -> None:
    pytest.importorskip("duckdb")
    ask(data)
    for sql in ("select kwh from data", "select * from data where region = 'north'"):
        with BudgetFile.of(open_table(data, sql=sql)) as file:
            file.once(sql, PrivacyEvent.of(0.5), lambda: {"x": 1})
    assert spent(data) == 2.0
    data.rename(data.with_name("b.csv"))
    with BudgetFile.of(open_table(data.with_name("b.csv"), sql=sql)) as file:
        assert file.answer(sql) == {"x": 1}


def test_several_files_are_charged_to_the_budget_that_one_of_them_has(
    data: Path, tmp_path: Path
) -> None:
    other = data.with_name("b.csv")
    other.write_text("kwh,region\n7,north\n")
    with pytest.raises(QuestionError, match="budget=PATH"):
        ask([data, other])
    first, _ = ask([data, other], budget=tmp_path / "both.budget")
    assert ask([other, data]) == (first, False)
    assert ask(other)[1]
    assert spent(data) == 2.0
    third = data.with_name("c.csv")
    third.write_text("kwh,region\n8,north\n")
    ask([data, third])
    assert spent(third) == 3.0


def test_several_files_with_budgets_of_their_own_are_asked_one_by_one(data: Path) -> None:
    other = data.with_name("b.csv")
    other.write_text("kwh,region\n7,north\n")
    ask(data)
    ask(other)
    with pytest.raises(QuestionError, match="budgets of their own"):
        ask([data, other])


def test_codes_of_missing_values_do_not_make_other_rows(data: Path) -> None:
    first, _ = ask(data)
    book = parsed('[columns.kwh]\nkind = "number"\nmissing = [2]')
    assert ask(Coded(open_table(data), book)) == (first, False)


def test_columns_that_cannot_be_read_do_not_stand_in_the_way(data: Path) -> None:
    data.write_text("kwh,kwh,region\n1,2,north\n")
    first, _ = ask(data)
    assert ask(data) == (first, False)
    data.write_text("kwh,kwh,region\n1,2\n")
    with pytest.raises(QuestionError, match="line 2"):
        ask(data)
