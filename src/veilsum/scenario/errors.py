"""What pydantic finds wrong in a table, as issues: the key, what was found and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from veilsum._toml import Issue, KeyPath, format_value, options, unknown
from veilsum.errors import VeilsumError

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
