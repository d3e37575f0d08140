"""What a codebook says, and what a question takes from it; `codebook` has the file."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from veilsum._registry import did_you_mean
from veilsum.errors import QuestionError
from veilsum.questions import QUESTIONS, By, Category, Decoded, Number, Question
from veilsum.questions.columns import text_of

NUMBER, CATEGORY, TEXT = "number", "category", "text"
KINDS = (NUMBER, CATEGORY, TEXT)
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class CodebookColumn:
    """What is public about a column.

    Parameters
    ----------
    name : str
        In the table.
    kind : str
        "number", "category", or "text", of which nothing is asked but whose row it is.
    unit : str
        Of numbers.
    between : tuple of float, optional
        Public bounds of numbers.
    values : tuple of str, optional
        Public categories.
    missing : tuple of str
        Codes that stand for no value.
    """

    name: str
    kind: str
    unit: str = ""
    between: tuple[float, float] | None = None
    values: tuple[str, ...] | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Codebook:
    """What is public about a table; see the module.

    Parameters
    ----------
    columns : mapping
        By name.
    id : str, optional
        The column that says whose a row is.
    budget : tuple of float, optional
        epsilon, delta.
    file : str
        Where it was read, for errors.

    Examples
    --------
    >>> from veilsum.asking.codebook import parsed
    >>> found = parsed('[columns.kwh]\\nkind = "number"\\nbetween = [0, 40]')
    >>> found.columns["kwh"].between
    (0.0, 40.0)
    >>> found.question("mean", "kwh").terms()["column"]["high"]
    40.0
    """

    columns: Mapping[str, CodebookColumn]
    id: str | None = None
    budget: tuple[float, float] | None = None
    file: str = "the codebook"

    def digest(self, columns: Iterable[str] | None = None) -> str:
        """SHA-256 of what it says of some columns, or of all; comments, layout and order do not matter.

        The budget is left out: it shapes no answer, and what was answered stays answered when it changes.
        """
        names = set(self.columns if columns is None else columns)
        plain = {
            "id": self.id,
            "columns": {
                name: [c.kind, c.unit, c.between, c.values, sorted(c.missing)]
                for name, c in self.columns.items()
                if name in names
            },
        }
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()

    def column(self, name: str) -> CodebookColumn:
        """The column of that name, or an error that says which is near."""
        if name not in self.columns:
            raise QuestionError(
                f"{self.file} has no column {name!r}; {did_you_mean(name, self.columns)}add "
                f"[columns.{key(name)}]"
            )
        return self.columns[name]

    def number(self, name: str) -> Number:
        """The column with its bounds; an error if it has none."""
        found = self.column(name)
        if found.between is None:
            raise QuestionError(
                f"{self.file} has no bounds of {name}: add between = [low, high] to "
                f"[columns.{key(name)}], or give them with the question"
            )
        return Number(name, *found.between)

    def category(self, name: str, values: Sequence[Any] | None = None) -> Category:
        """The column with its categories, or with some of them; an error for others."""
        found = self.column(name)
        if found.values is None:
            raise QuestionError(
                f"{self.file} has no categories of {name}: add values = [...] to "
                f"[columns.{key(name)}], or give them with the question"
            )
        if values is None:
            return Category(name, found.values)
        for value in map(text_of, values):
            if value not in found.values:
                raise QuestionError(
                    f"column {name} has no category {value!r} in {self.file}; "
                    f"{did_you_mean(value, found.values)}it has {', '.join(found.values)}"
                )
        return Category(name, tuple(values))

    def with_units(self, question: Question, decoded: Sequence[Decoded]) -> tuple[Decoded, ...]:
        """The answers of a question with the unit of its column, where its numbers have that."""
        asked = question.question if isinstance(question, By) else question
        described = self.columns.get(asked.columns[0].name) if asked.measured else None
        if described is None or not described.unit:
            return tuple(decoded)
        return tuple(
            one if one.quantity.startswith("records") else replace(one, unit=described.unit)
            for one in decoded
        )

    def question(self, name: str, *columns: str, **options: Any) -> Any:
        """The question of that name, of these columns: what `options` leave out is taken from here."""
        return QUESTIONS[name].make(*columns, **self.filled(name, columns, options))

    def filled(
        self, question: str, columns: Sequence[str], options: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Options of a question with bounds and categories where it needs them and they are not given.

        Those of one column as they are, of several as a mapping by column. Bounds of which
        a question has no need (a proportion has a threshold) are left alone.
        """
        takes = inspect.signature(QUESTIONS[question].make).parameters
        found = dict(options)
        if found.keys() & {"between", "categories", "candidates"}:
            return found
        needed = {name for name, one in takes.items() if one.default is one.empty}
        binned = {"between", "categories"} if "bins" in takes and "between" not in needed else set()
        named = {"categories"} if "values" in options else set()
        for entry in sorted((needed | binned | named) & set(takes)):
            if entry in ("between", "categories", "candidates"):
                kind = NUMBER if entry == "between" else CATEGORY
                found.update(self._filled(entry, kind, columns, entry in needed))
        return found

    def _filled(
        self, entry: str, kind: str, columns: Sequence[str], needed: bool
    ) -> dict[str, Any]:
        """The option for columns of a kind; for all of them if the question needs it."""
        of = [name for name in columns if needed or self.column(name).kind == kind]
        known = {n: self._ends(n) if kind == NUMBER else tuple(self.category(n).values) for n in of}
        if not known:
            return {}
        return {entry: next(iter(known.values())) if len(columns) == 1 else known}

    def _ends(self, name: str) -> tuple[float, float]:
        bounds = self.number(name)
        return bounds.low, bounds.high


def key(name: str) -> str:
    """A name as a key of TOML: in quotes unless it is a plain word."""
    if _BARE.fullmatch(name):
        return name
    return json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")
