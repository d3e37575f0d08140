"""What is wrong with a scenario, and where: file, line, field, what was found, what is allowed.

us.toml, line 12: law.name: found "avarage"; allowed: average, learn; did you mean "average"?
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from murmura.errors import MurmuraError, ScenarioError
from murmura.scenario.locate import Path
from murmura.scenario.model import Section, Spec

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
class Fault:
    """One mistake: the path of the field, and what is wrong with it."""

    path: Path
    text: str


@dataclass(frozen=True)
class Places:
    """The lines of a scenario's text."""

    where: str
    lines: Mapping[Path, int] = field(default_factory=dict)
    names: Mapping[int, str] = field(default_factory=dict)  # of the variants

    def message(self, fault: Fault, variant: int | None = None) -> str:
        """file, line: field: what is wrong; a field that a variant sets is named as its own."""
        prefix: Path = () if variant is None else ("variant", variant)
        base, own = self._depth(fault.path), self._depth((*prefix, *fault.path)) - len(prefix)
        in_variant = variant is not None and own >= max(base, 1)
        known = (*prefix, *fault.path[:own]) if in_variant else fault.path[:base]
        head = f"{self.where}, line {self.lines.get(known, 1)}" if self.lines else self.where
        whose = f"variant {shown(self.names.get(variant or 0))}: " if in_variant else ""
        return f"{head}: {whose}{dotted(fault.path)}{fault.text}"

    def _depth(self, path: Path) -> int:
        """The length of the longest part of a path that the text has."""
        return next((k for k in range(len(path), 0, -1) if path[:k] in self.lines), 0)


def dotted(path: Path) -> str:
    """The path as one writes it: "law.name: "."""
    return f"{'.'.join(map(str, path))}: " if path else ""


def refuse(messages: Iterable[str]) -> None:
    """Raise one error for all mistakes, each once, in order; nothing if there are none."""
    found = list(dict.fromkeys(messages))
    if found:
        raise ScenarioError("\n".join(sorted(found, key=_line)))


def choose(found: Any, allowed: Iterable[str]) -> str:
    """found "avarage"; allowed: average, learn; did you mean "average"?"""
    return f"found {shown(found)}; {_options(found, allowed)}"


def unknown(key: str, allowed: Iterable[str]) -> str:
    """no such key; allowed: graph, weights; did you mean "graph"?"""
    return f"there is no such key; {_options(key, allowed)}"


def blamed(section: str, keys: Iterable[str], problem: Exception) -> Fault:
    """A mistake that the library found: on the key that its message begins with, or the section."""
    text, given = told(problem), list(keys)
    named = next((key for key in given if re.match(rf"{re.escape(key)}\b", text)), None)
    if len(given) == 1 and not isinstance(problem, MurmuraError):
        named = given[0]
    return Fault((section,) if named is None else (section, named), text)


def told(problem: Exception) -> str:
    """What went wrong in words: the library's own, or words for what Python says."""
    if isinstance(problem, MurmuraError):
        return str(problem)
    if isinstance(problem, ArithmeticError):
        return "a number is too large, or too small, to compute with; choose a moderate one"
    return (
        "a value has the wrong shape: a list where one number is needed, the other way round, or "
        "lists of lengths that do not go together"
    )


def from_pydantic(error: ValidationError) -> list[Fault]:
    """The mistakes that a model found, in words."""
    return [_fault(detail) for detail in error.errors(include_url=False)]


def shown(value: Any) -> str:
    """A value as TOML writes it, shortened."""
    if isinstance(value, bool):
        return str(value).lower()
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _fault(detail: ErrorDetails) -> Fault:
    path, kind = _path(detail["loc"]), detail["type"]
    if kind == "extra_forbidden":
        return Fault(path, unknown(str(path[-1]), _keys(path[:-1])))
    if kind == "missing":
        return Fault(path, _lacking(path))
    found = detail["input"]
    if kind == "literal_error":
        words = re.findall(r"'([^']*)'", detail["ctx"]["expected"])
        return Fault(path, choose(found, words))
    if kind == "value_error":
        allowed = str(detail["ctx"]["error"])
    else:
        allowed = _ALLOWED.get(kind, detail["msg"]).format(**detail.get("ctx", {}))
    before = "" if isinstance(found, dict) and len(path) < 2 else f"found {shown(found)}; "
    return Fault(path, f"{before}allowed: {allowed}")


def _path(loc: tuple[str | int, ...]) -> Path:
    """Without what pydantic adds for the members of a union."""
    if len(loc) > 2 and loc[0] in ("record", "signals") and loc[1] != "draw":
        return loc[:2]
    return loc


def _lacking(path: Path) -> str:
    if len(path) == 1:
        return f"missing; add a section [{path[0]}]"
    return f"missing; add {path[-1]} = ... to [{path[0]}]"


def _keys(section: Path) -> list[str]:
    """The keys that a section may have."""
    if not section:
        return [*Spec.model_fields, "variant"]
    model = Spec.model_fields[str(section[0])].annotation
    assert isinstance(model, type), "every section is a model"
    assert issubclass(model, Section), "every section is a model"
    return list(model.model_fields)


def _options(found: Any, allowed: Iterable[str]) -> str:
    words = list(allowed)
    near = difflib.get_close_matches(str(found).lower(), words, n=1, cutoff=0.5)
    hint = f"; did you mean {shown(near[0])}?" if near else ""
    return f"allowed: {', '.join(words) or 'none'}{hint}"


def _line(message: str) -> int:
    found = re.search(r", line (\d+): ", message)
    return int(found[1]) if found else 0
