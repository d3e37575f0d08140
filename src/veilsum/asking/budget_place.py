"""Which budget a table has, and where its file is.

    known rows         the budget that these rows had before, under whatever name
    known place        the budget of what was at this path before: changed rows keep it
    neither            NAME.budget beside the file, or budget=PATH; made if it is not there

A file that is beside the data and names it is its budget also where nothing is known (another machine, a
lost index). a.csv and a.parquet share the stem a: whoever comes second, with other rows, has
a.parquet.budget; once a.csv is gone, a.budget is that of a.parquet, which is taken to be a.csv converted.

A table that is made of several files, or a SELECT of one, is charged to the budget of what it is made of.

A budget that is known is the file with its id that is at the path where it was last, or, if there is none,
the one that is given or lies beside the data: it was moved. So a copy never takes the place of the
original. Its entries must go on from the last one that is known; if the file is gone, or is an older one,
nothing is answered until it is put back, or `mend` charges what was lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from veilsum.asking.budget_log import DATA, ELSEWHERE, JOURNAL, BudgetLog, mending, undo
from veilsum.asking.local_index import KnownBudget, LocalIndex
from veilsum.errors import QuestionError

SUFFIX = ".budget"
SHARED = 0o022  # written by the group, or by all


class FoundBudget(NamedTuple):
    """The budget of a table, open, and what a reader must know of how it was found."""

    log: BudgetLog
    notes: tuple[str, ...] = ()


class StoredRows(NamedTuple):
    """A table that has rows: their fingerprint, and the real path of a file."""

    fingerprint: str
    at: Path | None
    name: str


def find(
    index: LocalIndex, name: str, rows: Sequence[StoredRows], key: str, given: Any = None
) -> FoundBudget:
    """The budget of a table, within a transaction of the index.

    Parameters
    ----------
    index : LocalIndex
        Of this user.
    name : str
        Of the table.
    rows : sequence of StoredRows
        Of what it is made of.
    key : str
        Of the secret of the fingerprints.
    given
        The path of the budget, if it was given.
    """
    path = real(given)
    beside = [] if len(rows) > 1 or rows[0].at is None else candidates(rows[0].at)
    id = _known(index, name, rows)
    if id is None:
        found = _of_unknown(index, name, rows, key, beside, path)
    else:
        log = opened(index, id, [path, *beside])
        if log is None:  # nothing was ever written to it
            log = _new(path or _free(name, beside), id)
        found = FoundBudget(log, tuple(_notes(index, rows, log)))
    if path is not None and found.log.path != path:
        found.log.close()
        raise QuestionError(
            f"{name} has a budget already, {found.log.path}: leave out --budget (budget=), or give "
            f"that path; {path.name} would be a second one for the same data"
        )
    return found


def _known(index: LocalIndex, name: str, rows: Sequence[StoredRows]) -> str | None:
    """The id of the one budget of all rows that are known, or whose path is."""
    by_rows = {index.of_rows(one.fingerprint) for one in rows} - {None}
    by_place = {index.of_place(one.at) for one in rows if one.at is not None} - {None}
    ids = sorted(str(id) for id in by_rows | by_place)
    if len(ids) < 2:
        return ids[0] if ids else None
    paths = " and ".join(str(known.path) for id in ids if (known := index.budget(id)))
    if len(rows) > 1:
        raise QuestionError(
            f"{name} have budgets of their own, {paths}, and a question of all of them has one: ask each by "
            "itself"
        )
    raise QuestionError(
        f"{name} has rows that are known under another path, and its path had other rows: budgets {paths}; "
        f"rename {name}, and ask again"
    )


def _notes(index: LocalIndex, rows: Sequence[StoredRows], log: BudgetLog) -> Iterator[str]:
    for one in rows:
        if index.of_rows(one.fingerprint) is None:
            yield f"The rows of {one.name} have changed; what was spent of {log.path.name} stays spent."
        elif one.at is not None and index.of_place(one.at) is None:
            yield f"The rows of {one.name} are known under another path; their budget is {log.path}."


def _of_unknown(
    index: LocalIndex,
    name: str,
    rows: Sequence[StoredRows],
    key: str,
    beside: Sequence[Path],
    path: Path | None,
) -> FoundBudget:
    """The budget of rows at a path of which nothing is known here."""
    for one in filter(is_there, beside):
        log = BudgetLog(one)
        log.close()
        if _is_of(log, rows[0]):
            return _original(index, name, log)
    if path is None or not is_there(path):
        return FoundBudget(_new(path or _free(name, beside)))
    log = BudgetLog(path)
    log.close()
    if _knows_other(log, key):
        raise QuestionError(
            f"{path} is the budget of other data than {name}: give another path; or, if these are the "
            f"same records, changed, `veilsum budget {path.name} --adopt FILE` says so"
        )
    return _original(index, name, log)


def _original(index: LocalIndex, name: str, log: BudgetLog) -> FoundBudget:
    """The budget that was found beside the data, or given: itself, or what it is a copy of."""
    found = opened(index, log.id, [log.path])
    assert found is not None, "its file is there"
    note = f"The rows of {name} are new to their budget, {found.path.name}."
    return FoundBudget(found, (note,) if found.entries else ())


def opened(index: LocalIndex, id: str, more: Iterable[Path | None] = ()) -> BudgetLog | None:
    """The budget of that id, checked against what is known of it; None if there was never anything in it."""
    known = index.budget(id)
    paths = [*([known.path] if known else []), *(one for one in more if one is not None)]
    for path in dict.fromkeys(paths):
        if not is_there(path):
            continue
        log = BudgetLog(path)
        if log.id == id:
            try:
                check(log, known)
            except BaseException:
                log.close()
                raise
            return log
        log.close()
    if known is None or not known.entries:
        return None
    raise QuestionError(
        f"the budget of these rows, {known.path}, is missing; epsilon {known.epsilon:g} of "
        f"{known.epsilon_limit:g} was spent of it, and nothing was released now; put it back (if it was "
        f"moved, say --budget PATH), or {mending(known.path)} makes a new one with that much spent"
    )


def check(log: BudgetLog, known: KnownBudget | None) -> None:
    """Raise for a budget that does not go on from where it was last seen."""
    if known is None or log.head_at(known.entries) == known.head:
        return
    fewer = len(log.entries) < known.entries
    why = (
        f"has {len(log.entries)} entries, and {known.entries} are known: it was put back from an older copy"
        if fewer
        else "has other entries than those that are known: a copy of it was used elsewhere"
    )
    raise QuestionError(
        f"{log.path} {why}; nothing was released; put the latest one back, or {mending(log.path)} "
        "goes on with this one and charges what it lacks"
    )


def candidates(at: Path) -> list[Path]:
    """Where the budget of a file may be, beside it: a.csv.budget, a.budget."""
    names = dict.fromkeys([at.name + SUFFIX, at.stem + SUFFIX])
    return [at.with_name(name) for name in names if name != at.name]


def is_there(path: Path) -> bool:
    """Whether a file is there that has something in it, once an interrupted change of it is undone."""
    try:
        if not path.is_file():
            return False
        if path.with_name(path.name + JOURNAL).exists():
            undo(path)
        return path.stat().st_size > 0
    except OSError:
        return False


def real(path: Any) -> Path | None:
    """A path without links, relative parts, or letter case where that does not matter."""
    return None if path is None else Path(os.path.normcase(os.path.realpath(path)))


def _is_of(log: BudgetLog, rows: StoredRows) -> bool:
    """Whether a budget beside a file is its own: it names it, or what it names is gone."""
    assert rows.at is not None, "a file"
    names = {entry.body["name"] for entry in log.of_kind(DATA)}
    there = [name for name in names if name and rows.at.with_name(name).exists()]
    return rows.at.name in names or not there


def _knows_other(log: BudgetLog, key: str) -> bool:
    """Whether a budget has rows that were known under this secret, and so are not these."""
    return any(entry.body["key"] == key for entry in log.of_kind(DATA))


def _free(name: str, beside: Sequence[Path]) -> Path:
    """Where a new budget goes, beside a file."""
    if not beside:
        raise QuestionError(
            f"say where the budget of {name} is kept, which is not one file: budget=PATH"
        )
    free = [one for one in reversed(beside) if not is_there(one)]
    if not free:
        raise QuestionError(f"budgets of other data are beside {name}; {ELSEWHERE}")
    return free[0]


def _new(path: Path, id: str | None = None) -> BudgetLog:
    """A new budget, in a folder where nobody else can replace it."""
    folder = path.parent
    if not folder.is_dir():
        raise QuestionError(
            f"there is no folder {folder} for the budget {path.name}; make it first"
        )
    if _is_shared(folder):
        raise QuestionError(
            f"others may write to {folder}, and could replace the budget {path.name} there; {ELSEWHERE}"
        )
    return BudgetLog(path, new=True, id=id)


def _is_shared(folder: Path) -> bool:
    """Whether others than the owner write to a folder; a group of the owner alone is nobody else."""
    if os.name != "posix":
        return False
    found = folder.stat()
    if found.st_mode & 0o002:
        return True
    return bool(found.st_mode & 0o020) and not _is_private(found.st_gid, found.st_uid)


def _is_private(group: int, owner: int) -> bool:
    try:
        import grp
        import pwd

        members, user = grp.getgrgid(group), pwd.getpwuid(owner)
    except (ImportError, KeyError):
        return False
    return members.gr_name == user.pw_name and set(members.gr_mem) <= {user.pw_name}
