"""A file in TOML: its text, its values, the line of every key, and errors that name all three.

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
from os import PathLike
from pathlib import Path
from typing import Any

from veilsum.errors import ScenarioError, VeilsumError

KeyPath = tuple[str | int, ...]
MISSING = ": missing; add "
_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


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


def format_value(value: Any) -> str:
    """A value as TOML writes it, shortened."""
    if isinstance(value, bool):
        return str(value).lower()
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def read_text(
    path: str | PathLike[str], what: str, error: type[VeilsumError] = ScenarioError
) -> str:
    """The text of a file, without a byte order mark."""
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise error(f"{path} is not UTF-8 text: {problem.reason}") from None
    except ValueError:
        raise error(
            f"cannot read the {what} {str(path)!r}: its path has a NUL character; check the path"
        ) from None
    except OSError as problem:
        remedy = "`veilsum init` writes one" if what == "scenario" else "check the path"
        raise error(f"cannot read the {what} {path}: {problem.strerror}; {remedy}") from None


def read_toml(
    text: str, where: str, what: str = "scenario", error: type[VeilsumError] = ScenarioError
) -> dict[str, Any]:
    """The text as a table; an error of syntax names its line."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        found = _PLACE.search(str(problem))
        line = int(found[1]) if found and found[1] else text.count("\n") + 1
        reason = str(problem)[: found.start()] if found else str(problem)
        raise error(f"{where}, line {line}: not valid TOML: {reason}") from None
    except ValueError:  # raised by int(), which limits the number of digits
        raise error(f"{where}: a whole number has too many digits; write 1e9") from None
    except RecursionError:
        raise error(f"{where}: not a {what}: its values are nested too deeply") from None


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
