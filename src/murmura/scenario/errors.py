"""Errors of a scenario: file, line, field, what was found and what is allowed.

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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from murmura.errors import MurmuraError, ScenarioError
from murmura.scenario.schema import Section, Spec

KeyPath = tuple[str | int, ...]

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
    """The file of a scenario, the line of each key and the names of its variants."""

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

    def _known_depth(self, path: KeyPath) -> int:
        """The length of the longest prefix of a path that the text has."""
        return next((k for k in range(len(path), 0, -1) if path[:k] in self.lines), 0)


def raise_(messages: Iterable[str]) -> None:
    """Raise one `ScenarioError` for all messages, each once, by line; nothing if there are none."""
    found = list(dict.fromkeys(messages))
    if found:
        raise ScenarioError("\n".join(sorted(found, key=_line)))


def choose(found: Any, allowed: Iterable[str]) -> str:
    """found "avarage"; allowed: average, learn; did you mean "average"?"""
    return f"found {format_value(found)}; {_options(found, allowed)}"


def unknown(key: str, allowed: Iterable[str]) -> str:
    """no such key; allowed: graph, weights; did you mean "graph"?"""
    return f"there is no such key; {_options(key, allowed)}"


def attribute(section: str, keys: Iterable[str], error: Exception) -> Issue:
    """An error of the library as an issue of the key that its message begins with, or the section."""
    text, present = describe(error), list(keys)
    key = next((key for key in present if re.match(rf"{re.escape(key)}\b", text)), None)
    if len(present) == 1 and not isinstance(error, MurmuraError):
        key = present[0]
    return Issue((section,) if key is None else (section, key), text)


def describe(problem: Exception) -> str:
    """The message of an error of the library; a description of Python's errors."""
    if isinstance(problem, MurmuraError):
        return str(problem)
    if isinstance(problem, ArithmeticError):
        return "a number is too large, or too small, to compute with; choose a moderate one"
    return (
        "a value has the wrong shape: a list where one number is needed, the other way round, or "
        "lists of lengths that do not go together"
    )


def from_pydantic(error: ValidationError) -> list[Issue]:
    """The issues that a model found."""
    return [_issue(detail) for detail in error.errors(include_url=False)]


def format_value(value: Any) -> str:
    """A value as TOML writes it, shortened."""
    if isinstance(value, bool):
        return str(value).lower()
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _issue(detail: ErrorDetails) -> Issue:
    path, kind = _key_path(detail["loc"]), detail["type"]
    if kind == "extra_forbidden":
        return Issue(path, unknown(str(path[-1]), _keys(path[:-1])))
    if kind == "missing":
        return Issue(path, _missing(path))
    found = detail["input"]
    if kind == "literal_error":
        words = re.findall(r"'([^']*)'", detail["ctx"]["expected"])
        return Issue(path, choose(found, words))
    if kind == "value_error":
        allowed = str(detail["ctx"]["error"])
    else:
        allowed = _ALLOWED.get(kind, detail["msg"]).format(**detail.get("ctx", {}))
    before = "" if isinstance(found, dict) and len(path) < 2 else f"found {format_value(found)}; "
    return Issue(path, f"{before}allowed: {allowed}")


def _key_path(loc: tuple[str | int, ...]) -> KeyPath:
    """The location without what pydantic adds for the members of a union."""
    if len(loc) > 2 and loc[0] in ("record", "signals") and loc[1] != "draw":
        return loc[:2]
    return loc


def _missing(path: KeyPath) -> str:
    if len(path) == 1:
        return f"missing; add a section [{path[0]}]"
    return f"missing; add {path[-1]} = ... to [{path[0]}]"


def _keys(section: KeyPath) -> list[str]:
    """The keys that a section may have."""
    if not section:
        return [*Spec.model_fields, "variant"]
    model: type[Section] = Spec
    for name in section:
        model = _model(model.model_fields[str(name)].annotation)
    return list(model.model_fields)


def _model(annotation: Any) -> type[Section]:
    """The model of a section, which may be optional."""
    found = [part for part in (annotation, *get_args(annotation)) if isinstance(part, type)]
    return next(part for part in found if issubclass(part, Section))


def _options(found: Any, allowed: Iterable[str]) -> str:
    words = list(allowed)
    near = difflib.get_close_matches(str(found).lower(), words, n=1, cutoff=0.5)
    hint = f"; did you mean {format_value(near[0])}?" if near else ""
    return f"allowed: {', '.join(words) or 'none'}{hint}"


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
