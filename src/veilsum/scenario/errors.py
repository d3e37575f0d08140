"""Errors of a file in TOML: file, line, key, what was found and what is allowed.

    us.toml, line 12: algorithm.name: found "avarage"; allowed: average, learn; did you mean "average"?

`tomllib` gives values without their lines, so a scanner finds the line of every key:

    lines(text)[("variant", 0, "algorithm", "name")] == 31

The text must be one that `tomllib` has accepted: the scanner only finds positions and leaves syntax
and values to `tomllib`.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from veilsum.errors import ScenarioError, VeilsumError

KeyPath = tuple[str | int, ...]
MISSING = ": missing; add "
TEXTS = 'a list of texts, such as ["a", "b"]'

_ALLOWED = {
    "string_type": "text in quotes",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "a table, such as {{ key = value }}",
    "model_type": "a section of keys and values",
    "list_type": "a list, such as [1, 2]",
    "finite_number": "a finite number",
    "string_too_short": "text that is not empty",
    "too_short": "a list that is not empty",
    "string_pattern_mismatch": (
        "letters, digits, dots, hyphens and underscores, 64 at most: the name is part of file names"
    ),
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "less_than": "a number below {lt}",
    "less_than_equal": "a number of at most {le}",
}


@dataclass(frozen=True)
class Issue:
    """One thing that is wrong: the path of the field, and a description."""

    path: KeyPath
    text: str


@dataclass(frozen=True)
class SourceMap:
    """A file, the line of each key, and the names of a scenario's variants."""

    file: str
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    variants: Mapping[int, str] = field(default_factory=dict)

    def message(self, issue: Issue, variant: int | None = None) -> str:
        """file, line: field: what is wrong; names the variant if the variant sets the field."""
        prefix: KeyPath = () if variant is None else ("variant", variant)
        base = self._known_depth(issue.path)
        varied = self._known_depth((*prefix, *issue.path)) - len(prefix)
        in_variant = variant is not None and varied >= max(base, 1)
        known = (*prefix, *issue.path[:varied]) if in_variant else issue.path[:base]
        head = f"{self.file}, line {self.lines.get(known, 1)}" if self.lines else self.file
        name = f"variant {format_value(self.variants.get(variant or 0))}: " if in_variant else ""
        path = f"{'.'.join(map(str, issue.path))}: " if issue.path else ""
        return f"{head}: {name}{path}{issue.text}"

    def at(self, *path: str | int) -> str:
        """`agent.toml, line 12: budget.epsilon`."""
        return self.message(Issue(path, "")).rstrip(": ")

    @contextmanager
    def errors_at(self, *path: str | int) -> Iterator[None]:
        """Prefix errors of veilsum with the place of a key."""
        try:
            yield
        except VeilsumError as error:
            raise type(error)(self.message(Issue(path, str(error)))) from None

    def _known_depth(self, path: KeyPath) -> int:
        """The length of the longest prefix of a path that the text has."""
        return next((k for k in range(len(path), 0, -1) if path[:k] in self.lines), 0)


def raise_(messages: Iterable[str], error: type[VeilsumError] = ScenarioError) -> None:
    """Raise one error for all messages, each once, by line; nothing if there are none.

    A key that is missing comes last: a misspelt one, which stands for it, explains it.
    """
    found = list(dict.fromkeys(messages))
    if found:
        raise error("\n".join(sorted(found, key=lambda text: (MISSING in text, _line(text)))))


def choose(found: Any, allowed: Iterable[str]) -> str:
    """found "avarage"; allowed: average, learn; did you mean "average"?"""
    return f"found {format_value(found)}; {options(found, allowed)}"


def unknown(key: str, allowed: Iterable[str]) -> str:
    """no such key; allowed: graph, weights; did you mean "graph"?"""
    return f"there is no such key; {options(key, allowed)}"


def options(found: Any, allowed: Iterable[str]) -> str:
    """allowed: average, learn; did you mean "average"?"""
    words = list(allowed)
    near = difflib.get_close_matches(str(found).lower(), words, n=1, cutoff=0.5)
    hint = f"; did you mean {format_value(near[0])}?" if near else ""
    return f"allowed: {', '.join(words) or 'none'}{hint}"


def attribute(section: str, keys: Iterable[str], error: Exception) -> Issue:
    """An error of the library as an issue of the key that its message begins with, or the section."""
    text, present = describe(error), list(keys)
    key = next((key for key in present if re.match(rf"{re.escape(key)}\b", text)), None)
    if len(present) == 1 and not isinstance(error, VeilsumError):
        key = present[0]
    return Issue((section,) if key is None else (section, key), text)


def describe(problem: Exception) -> str:
    """The message of an error of the library; a description of Python's errors."""
    if isinstance(problem, VeilsumError):
        return str(problem)
    if isinstance(problem, ArithmeticError):
        return "a number is too large, or too small, to compute with; choose a moderate one"
    return (
        "a value has the wrong shape: a list where one number is needed, the other way round, or "
        "lists of lengths that do not go together"
    )


def from_pydantic(
    error: ValidationError,
    model: type[BaseModel],
    table: Mapping[str, Any],
    *,
    show: bool = True,
    also: Iterable[str] = (),
) -> list[Issue]:
    """The issues that a model found in a table, one for each key.

    Without `show` no value of the table is in them. `also` are keys that are allowed at the top
    although the model does not have them.
    """
    refused: dict[KeyPath, list[ErrorDetails]] = {}  # several for a key that may have several types
    issues = []
    for detail in error.errors(include_url=False):
        path, kind = _key_path(detail, table), detail["type"]
        if kind == "extra_forbidden":
            allowed = [*keys(model, path[:-1]), *(also if len(path) == 1 else ())]
            issues.append(Issue(path, unknown(str(path[-1]), allowed)))
        elif kind == "missing":
            issues.append(Issue(path, _missing(model, path)))
        else:
            refused.setdefault(_of_key(path, detail), []).append(detail)
    return issues + [
        Issue(path, _refused(model, path, each, show)) for path, each in refused.items()
    ]


def format_value(value: Any) -> str:
    """A value as TOML writes it, shortened."""
    if isinstance(value, bool):
        return str(value).lower()
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def keys(model: type[BaseModel], path: KeyPath = ()) -> list[str]:
    """The keys that a table of a file may have."""
    inner = _tables(model, path)
    return list(dict.fromkeys(name for each in inner for name in each.model_fields))


def _tables(model: type[BaseModel], path: KeyPath) -> list[type[BaseModel]]:
    """The models of the table at a path."""
    inner = [model]
    for key in path:
        fields = [each.model_fields[str(key)] for each in inner if str(key) in each.model_fields]
        inner = [each for known in fields for each in _models(known.annotation)] or inner
    return inner


def _type_at(model: type[BaseModel], path: KeyPath) -> Any:
    """The type of the key at a path; None if it is not known."""
    known = [each.model_fields.get(str(path[-1])) for each in _tables(model, path[:-1])]
    return next((field.annotation for field in known if field is not None), None)


def _of_key(path: KeyPath, detail: ErrorDetails) -> KeyPath:
    """The path of the key that the message of a rule for a whole table begins with, if it has it."""
    table, text = detail["input"], _allowed(detail)
    if detail["type"] != "value_error" or not isinstance(table, dict):
        return path
    named = (key for key in table if re.match(rf"{re.escape(key)}\b", text))
    return next(((*path, key) for key in named), path)


def _lists_texts(annotation: Any) -> bool:
    """Whether a type mentions a list of nothing but texts."""
    parts = get_args(annotation)
    return (get_origin(annotation) is list and parts == (str,)) or any(map(_lists_texts, parts))


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The models that a type mentions: itself, the members of a union, the elements of a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def _key_path(detail: ErrorDetails, table: Mapping[str, Any]) -> KeyPath:
    """The location without what pydantic adds for the members of a union."""
    loc: KeyPath = detail["loc"]
    inside: Any = table
    for depth, key in enumerate(loc):
        try:
            inside = inside[key]
        except (KeyError, IndexError, TypeError):
            own = detail["type"] in ("missing", "extra_forbidden")  # of the key that is last
            return (*loc[:depth], loc[-1]) if own else loc[:depth]
    return loc


def _missing(model: type[BaseModel], path: KeyPath) -> str:
    name = path[-1]
    if len(path) > 1:
        return f"missing; add {name} = ... to [{'.'.join(map(str, path[:-1]))}]"
    annotation = model.model_fields[str(name)].annotation
    if _models(annotation) or get_origin(annotation) is dict:
        return f"missing; add a section [{name}]"
    return f"missing; add {name} = ... before the first section"


def _refused(model: type[BaseModel], path: KeyPath, details: list[ErrorDetails], show: bool) -> str:
    """found 5; allowed: text in quotes or true"""
    found = details[0]["input"]
    of_table = isinstance(found, dict) and (len(path) < 2 or path[-1] in found)
    before = "" if of_table else f"found {format_value(found)}; "
    words = [word for detail in details for word in _words(detail)]
    if all(detail["type"] == "literal_error" for detail in details):
        return f"{before if show else ''}{options(found, words)}"
    texts = [
        TEXTS if detail["type"] == "list_type" and _lists_texts(_type_at(model, path))
        else _allowed(detail)
        for detail in details if detail["type"] != "literal_error"
    ]  # fmt: skip
    either = " or ".join(dict.fromkeys([*texts, *map(format_value, words)]))
    return f"{before if show else ''}allowed: {either}"


def _words(detail: ErrorDetails) -> list[str]:
    """The words that a choice allows."""
    if detail["type"] != "literal_error":
        return []
    return re.findall(r"'([^']*)'", detail["ctx"]["expected"])


def _allowed(detail: ErrorDetails) -> str:
    """What is allowed in place of a value."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    whole = {k: int(v) if isinstance(v, float) and v % 1 == 0 else v for k, v in context.items()}
    return _ALLOWED.get(kind, detail["msg"]).format(**whole)


def _line(message: str) -> int:
    found = re.search(r", line (\d+): ", message)
    return int(found[1]) if found else 0


_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}\n#]+")
_STRINGS = (
    re.compile(r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}', re.DOTALL),
    re.compile(r"'''(?:[^']|'(?!''))*'{3,5}", re.DOTALL),
    re.compile(r'"(?:[^"\\\n]|\\.)*"'),
    re.compile(r"'[^'\n]*'"),
)


def lines(text: str) -> dict[KeyPath, int]:
    """The first line, from 1, of every key, table and element of an array."""
    return _Scanner(text.replace("\r\n", "\n")).scan()


@dataclass
class _Scanner:
    text: str
    at: int = 0
    found: dict[KeyPath, int] = field(default_factory=dict)
    counts: dict[KeyPath, int] = field(default_factory=dict)
    ends: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.ends = [match.start() for match in re.finditer("\n", self.text)]

    def scan(self) -> dict[KeyPath, int]:
        """Read headers and key-value pairs until the text ends."""
        table: KeyPath = ()
        self._skip()
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip()
        return self.found

    def _header(self) -> KeyPath:
        """[a.b] or [[a.b]]: the path of the table that follows."""
        line, brackets = self._line(), 2 if self.text.startswith("[[", self.at) else 1
        self.at += brackets
        keys = self._keys()
        self.at += brackets
        table = self._resolve(keys[:-1])
        for length in range(1, len(table) + 1):
            self.found.setdefault(table[:length], line)
        table = (*table, keys[-1])
        if brackets == 1:
            self.found[table] = line  # its own header, even if [table.part] came before
            return table
        self.found.setdefault(table, line)
        self.counts[table] = self.counts.get(table, -1) + 1
        return self._note((*table, self.counts[table]), line)

    def _resolve(self, keys: list[str]) -> KeyPath:
        """A header's leading keys go to the last element of an array of tables."""
        table: KeyPath = ()
        for key in keys:
            table = (*table, key)
            if table in self.counts:
                table = (*table, self.counts[table])
        return table

    def _pair(self, table: KeyPath) -> None:
        """key = value, dots in the key included."""
        line = self._line()
        for key in self._keys():
            table = self._note((*table, key), line)
        self._skip()
        self.at += 1  # the equals sign
        self._skip()
        self._value(table)

    def _value(self, path: KeyPath) -> None:
        if self.text[self.at] == "[":
            self._items(path)
        elif self.text[self.at] == "{":
            self._members(path)
        elif self.text[self.at] in "\"'":
            self._string()
        else:
            self._take(_SCALAR)

    def _items(self, path: KeyPath) -> None:
        index = 0
        while not self._closes("]"):
            self._value(self._note((*path, index), self._line()))
            index += 1

    def _members(self, path: KeyPath) -> None:
        while not self._closes("}"):
            self._pair(path)

    def _closes(self, bracket: str) -> bool:
        """Step over an opening bracket or a comma, and over the closing bracket if it is next."""
        self._skip()
        if self.text[self.at] != bracket:
            self.at += 1
            self._skip()
        if self.text[self.at] != bracket:
            return False
        self.at += 1
        return True

    def _keys(self) -> list[str]:
        keys = []
        while True:
            self._skip()
            keys.append(self._key())
            self._skip()
            if self.text[self.at] != ".":
                return keys
            self.at += 1

    def _key(self) -> str:
        if self.text[self.at] not in "\"'":
            return self._take(_BARE)
        return str(tomllib.loads(f"key = {self._string()}")["key"])

    def _string(self) -> str:
        return next(self._take(kind) for kind in _STRINGS if kind.match(self.text, self.at))

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        assert match is not None, "tomllib has accepted the text"
        self.at = match.end()
        return match[0]

    def _skip(self) -> None:
        self._take(_BLANK)

    def _line(self) -> int:
        return bisect_left(self.ends, self.at) + 1

    def _note(self, path: KeyPath, line: int) -> KeyPath:
        self.found.setdefault(path, line)
        return path
