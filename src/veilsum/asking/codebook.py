"""A codebook: what is public about a table, in a file beside it, so that a question need not say it again.

    readings.csv ── readings.codebook.toml

    id = "person"                 # all rows of one person are one record

    [budget]                      # of the data, spent by all questions together
    epsilon = 3.0
    delta = 0.0

    [columns.kwh]
    kind = "number"
    unit = "kWh"
    between = [0, 40]             # known beforehand, never read off the rows
    missing = [-9, "NA"]          # codes that stand for no value

    [columns.region]
    kind = "category"
    values = ["north", "south"]

What an argument says wins over the codebook. The hash of what it says of a question's columns is for
the terms of sites that ask together; of one table it does not matter where bounds were said.

A draft has names and kinds alone. Kinds are read off the rows: a column is a number if all of its values
are. That is one public bit a column, as a table's schema is, and whoever drafts reads it before anybody
else does. A file without a line of names would give values for names: such a draft is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from veilsum._toml import (
    MISSING,
    Issue,
    SourceMap,
    choose,
    format_value,
    lines,
    raise_,
    read_text,
    read_toml,
    unknown,
)
from veilsum.asking.codebook_contents import (
    CATEGORY,
    KINDS,
    NUMBER,
    TEXT,
    Codebook,
    CodebookColumn,
    key,
)
from veilsum.asking.tables import Batch, Table
from veilsum.errors import QuestionError
from veilsum.questions.columns import UnreadableValueError, distinct, numbers, text_of

SUFFIX = ".codebook.toml"
KEYS = ("id", "budget", "columns")


@dataclass(frozen=True)
class Settings:
    """What a question takes from a codebook besides its columns.

    Parameters
    ----------
    id : str, optional
        The column that says whose a row is.
    limit : tuple of float, optional
        Of the data's budget, as given with the question: epsilon, delta.
    budget : tuple of float, optional
        As the codebook says: the limit of a budget that has none yet.
    digest : str
        Of what the codebook says of the question's columns, on which sites that ask together must agree.
    terms : mapping
        What the answer of one table depends on, besides the question: codes of missing values. Asking
        again without the codebook, or with a later one that says the same, is the same question.
    """

    id: str | None = None
    limit: tuple[float, float] | None = None
    budget: tuple[float, float] | None = None
    digest: str = ""
    terms: Mapping[str, Any] = field(default_factory=dict)


def resolve(
    codebook: Codebook | None,
    columns: Iterable[str] | None = None,
    *,
    id: str | None = None,
    limit: Any = None,
) -> Settings:
    """The settings of a question: what is given, else what the codebook says, else none.

    Parameters
    ----------
    codebook : Codebook or None
        If there is one.
    columns
        Which the question reads, filters and groups included: the hash is of these.
    id
        As given with the question.
    limit
        As given with the question: epsilon, or epsilon and delta.
    """
    given = None if limit is None else pair(limit)
    if codebook is None:
        return Settings(id, given)
    names = sorted(set(codebook.columns if columns is None else columns) & set(codebook.columns))
    codes = {n: sorted(found) for n in names if (found := codebook.columns[n].missing)}
    return Settings(
        codebook.id if id is None else id,
        given,
        codebook.budget,
        codebook.digest(columns),
        {"codes": codes} if codes else {},
    )


def pair(limit: Any) -> tuple[float, float]:
    """(epsilon, delta) of a limit that is a number or both."""
    epsilon, delta = limit if isinstance(limit, Sequence) else (limit, 0.0)
    return float(epsilon), float(delta)


def codebook_of(data: Any, given: Any = None) -> Codebook | None:
    """The codebook that is given, as one or as a path; else the one beside a file; else None."""
    if isinstance(given, Codebook):
        return given
    if given is not None:
        return read_codebook(given)
    if isinstance(data, str | Path):
        beside = place(Path(data))
        return read_codebook(beside) if beside.is_file() else None
    return None


def place(data: Path) -> Path:
    """Where the codebook of a file is: readings.codebook.toml for readings.csv."""
    return data.with_name(data.stem + SUFFIX)


def read_codebook(path: Any) -> Codebook:
    """Read and check a codebook; errors name the line and the key."""
    return parsed(read_text(path, "codebook", QuestionError), str(path))


def parsed(text: str, file: str = "the codebook") -> Codebook:
    """A codebook from its text."""
    table = read_toml(text, file, "codebook", QuestionError)
    reader = _CodebookReader(SourceMap(file, lines(text)))
    found = reader.codebook(table, file)
    raise_(map(reader.where.message, reader.issues), QuestionError)
    return found


@dataclass
class _CodebookReader:
    """Checks values one by one and collects everything that is wrong."""

    where: SourceMap
    issues: list[Issue] = field(default_factory=list)

    def codebook(self, table: Mapping[str, Any], file: str) -> Codebook:
        self.known((), table, KEYS)
        described = self.value(table, ("columns",), dict, "sections [columns.NAME]", {})
        if "columns" not in table:
            self.wrong(("columns",), f"{MISSING[2:]}a section [columns.NAME] for each column")
        columns = {name: self.column(name, one) for name, one in described.items()}
        id = self.value(table, ("id",), str, "the name of a column, in quotes", None)
        if id is not None and id not in columns:
            self.wrong(("id",), choose(id, columns))
        return Codebook(columns, id, self.budget(table), file)

    def budget(self, table: Mapping[str, Any]) -> tuple[float, float] | None:
        if "budget" not in table:
            return None
        section = self.value(table, ("budget",), dict, "a section [budget]", {})
        self.known(("budget",), section, ("epsilon", "delta"))
        epsilon = self.number(section, ("budget", "epsilon"), None)
        delta = self.number(section, ("budget", "delta"), 0.0)
        if "epsilon" not in section:
            self.wrong(("budget", "epsilon"), f"{MISSING[2:]}epsilon = ... to [budget]")
        elif epsilon is not None and not 0 < epsilon < math.inf:
            self.wrong(("budget", "epsilon"), f"found {epsilon}; allowed: a finite number above 0")
        if delta is not None and not 0 <= delta < 1:
            self.wrong(("budget", "delta"), f"found {delta}; allowed: a probability in [0, 1)")
        return None if epsilon is None or delta is None else (epsilon, delta)

    def column(self, name: str, section: Any) -> CodebookColumn:
        path = ("columns", name)
        if not isinstance(section, dict):
            self.wrong(
                path, f"found {format_value(section)}; allowed: a section [columns.{key(name)}]"
            )
            return CodebookColumn(name, TEXT)
        self.known(path, section, ("kind", "unit", "between", "values", "missing"))
        kind = section.get("kind")
        if "kind" not in section:
            self.wrong((*path, "kind"), f"{MISSING[2:]}kind = ... to [columns.{key(name)}]")
        elif kind not in KINDS:
            self.wrong((*path, "kind"), choose(kind, KINDS))
        for entry, only in (("between", NUMBER), ("unit", NUMBER), ("values", CATEGORY)):
            if entry in section and kind in KINDS and kind != only:
                self.wrong((*path, entry), f'is of a {only}, and {name} has kind = "{kind}"')
        return CodebookColumn(
            name,
            kind if kind in KINDS else TEXT,
            self.value(section, (*path, "unit"), str, "text in quotes", ""),
            self.bounds(section, (*path, "between")),
            self.texts(section, (*path, "values")) if "values" in section else None,
            self.texts(section, (*path, "missing")),
        )

    def bounds(
        self, section: Mapping[str, Any], path: tuple[str, ...]
    ) -> tuple[float, float] | None:
        if path[-1] not in section:
            return None
        ends = section[path[-1]]
        numeric = isinstance(ends, list) and len(ends) == 2 and all(map(_is_number, ends))
        if not (numeric and math.isfinite(ends[1] - ends[0]) and ends[0] < ends[1]):
            self.wrong(
                path, f"found {format_value(ends)}; allowed: [low, high], two finite numbers"
            )
            return None
        return float(ends[0]), float(ends[1])

    def texts(self, section: Mapping[str, Any], path: tuple[str, ...]) -> tuple[str, ...]:
        """A list of different texts; numbers are read by their shortest text."""
        if path[-1] not in section:
            return ()
        given = section[path[-1]]
        listed = given if isinstance(given, list) else []
        texts = tuple(text_of(one) for one in listed if isinstance(one, str) or _is_number(one))
        if not texts or len(texts) < len(listed) or len(set(texts)) < len(texts):
            self.wrong(
                path,
                f"found {format_value(given)}; allowed: a list of different texts or numbers that is "
                "not empty",
            )
        return texts

    def number(
        self, section: Mapping[str, Any], path: tuple[str, ...], default: float | None
    ) -> float | None:
        found = section.get(path[-1], default)
        if found is not None and not _is_number(found):
            self.wrong(path, f"found {format_value(found)}; allowed: a number")
            return None
        return None if found is None else float(found)

    def value(
        self,
        section: Mapping[str, Any],
        path: tuple[str, ...],
        kind: type,
        allowed: str,
        default: Any,
    ) -> Any:
        if path[-1] not in section:
            return default
        found = section[path[-1]]
        if not isinstance(found, kind):
            self.wrong(path, f"found {format_value(found)}; allowed: {allowed}")
            return default
        return found

    def known(
        self, path: tuple[str, ...], section: Mapping[str, Any], allowed: Sequence[str]
    ) -> None:
        for name in section:
            if name not in allowed:
                self.wrong((*path, name), unknown(name, allowed))

    def wrong(self, path: tuple[str, ...], text: str) -> None:
        self.issues.append(Issue(path, text))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class Coded(Table):
    """A table whose codes of missing values are no values."""

    def __init__(self, table: Table, codebook: Codebook) -> None:
        """Read through to it."""
        self._table, self._codebook = table, codebook
        self.name, self.path, self.columns = table.name, table.path, table.columns

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """As the table's, None in place of a code."""
        for batch in self._table.batches(columns):
            yield {name: self._decoded(name, values) for name, values in batch.items()}

    @property
    def stored(self) -> tuple[Table, ...]:
        """Those of the table, codes and all."""
        return self._table.stored

    def rows(self) -> int:
        """Of the table."""
        return self._table.rows()

    def where(self, row: int) -> str:
        """In the table."""
        return self._table.where(row)

    def _decoded(self, name: str, values: Any) -> Any:
        described = self._codebook.columns.get(name)
        if described is None or not described.missing:
            return values
        known, inverse = distinct(values)
        absent = np.array([text_of(one) in described.missing for one in known], dtype=np.bool_)
        if not absent.any():
            return values
        found = values.astype(object)
        found[absent[inverse]] = None
        return found


def draft(table: Table) -> str:
    """The text of a codebook with the names and the kinds of a table's columns, and no value of it.

    Parameters
    ----------
    table : Table
        As `open_table` returns it.
    """
    for name in table.columns:
        if not name or _numeric(np.array([name], dtype=object)):
            raise QuestionError(
                f"{table.name}: the first line must name the columns, and it has an empty name or a number, "
                "as a line of values would; add a line of names, or write the codebook by hand"
            )
    return "\n".join([_HEAD.format(name=table.name), *_sections(table)])


def _sections(table: Table) -> Iterator[str]:
    kinds = dict.fromkeys(table.columns, NUMBER)
    for batch in table.batches(table.columns):
        for name, values in batch.items():
            if kinds[name] == NUMBER and not _numeric(values):
                kinds[name] = CATEGORY
    for name, kind in kinds.items():
        yield f"[columns.{key(name)}]\n{_OF_KIND[kind]}"


def _numeric(values: Any) -> bool:
    try:
        numbers(values)
    except UnreadableValueError:
        return False
    return True


_HEAD = """\
# What is public about {name}: names and kinds so far, and no value.
# Say bounds and categories from what is known beforehand, never from the rows. A question takes from
# here what it does not say itself. This file may be passed on.

# id = "..."                    # the column that says whose a row is: all rows of a person are a record

# [budget]                      # of the data, spent by all questions together
# epsilon = ...
# delta = ...
"""
_OF_KIND = {
    NUMBER: """kind = "number"
# unit = "..."
# between = [low, high]
# missing = [...]               # codes that stand for no value
""",
    CATEGORY: """kind = "category"               # or "text", of which nothing is asked
# values = ["...", "..."]
# missing = ["..."]
""",
}
