"""Where things stand in a TOML text: `tomllib` gives values without their lines.

    lines(text)[("variant", 0, "law", "name")] == 31

The text must be one that `tomllib` has accepted: the scanner here only finds places, and leaves
it to `tomllib` to say what is wrong and what a value is.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from dataclasses import dataclass, field

Path = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}\n#]+")
_STRINGS = (
    re.compile(r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}', re.DOTALL),
    re.compile(r"'''(?:[^']|'(?!''))*'{3,5}", re.DOTALL),
    re.compile(r'"(?:[^"\\\n]|\\.)*"'),
    re.compile(r"'[^'\n]*'"),
)


def lines(text: str) -> dict[Path, int]:
    """The first line, from 1, of every key, table and element of an array."""
    return _Scanner(text.replace("\r\n", "\n")).scan()


@dataclass
class _Scanner:
    text: str
    at: int = 0
    found: dict[Path, int] = field(default_factory=dict)
    counts: dict[Path, int] = field(default_factory=dict)
    ends: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.ends = [match.start() for match in re.finditer("\n", self.text)]

    def scan(self) -> dict[Path, int]:
        """Read headers and key-value pairs until the text ends."""
        table: Path = ()
        self._skip()
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip()
        return self.found

    def _header(self) -> Path:
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

    def _resolve(self, keys: list[str]) -> Path:
        """A header's leading keys go to the last element of an array of tables."""
        table: Path = ()
        for key in keys:
            table = (*table, key)
            if table in self.counts:
                table = (*table, self.counts[table])
        return table

    def _pair(self, table: Path) -> None:
        """key = value, dots in the key included."""
        line = self._line()
        for key in self._keys():
            table = self._note((*table, key), line)
        self._skip()
        self.at += 1  # the equals sign
        self._skip()
        self._value(table)

    def _value(self, path: Path) -> None:
        if self.text[self.at] == "[":
            self._items(path)
        elif self.text[self.at] == "{":
            self._members(path)
        elif self.text[self.at] in "\"'":
            self._string()
        else:
            self._take(_SCALAR)

    def _items(self, path: Path) -> None:
        index = 0
        while not self._closes("]"):
            self._value(self._note((*path, index), self._line()))
            index += 1

    def _members(self, path: Path) -> None:
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

    def _note(self, path: Path, line: int) -> Path:
        self.found.setdefault(path, line)
        return path
