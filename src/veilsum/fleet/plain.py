"""Plain values of TOML and JSON, checked against the types of what is made of them.

problems(meter, {"pth": "a.csv"}) == {"pth": "there is no such key; ...", "path": "missing; add ..."}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from inspect import Parameter, signature
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from veilsum import _validate
from veilsum._toml import MISSING, unknown
from veilsum.errors import FleetError

Section = Mapping[str, Any]
Sections = tuple[Section, ...]
Texts = tuple[str, ...]
Thing = TypeVar("Thing")
KINDS: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    str: ("text", lambda x: isinstance(x, str)),
    Path: ("a path", lambda x: isinstance(x, str)),
    bool: ("true or false", lambda x: isinstance(x, bool)),
    int: ("a whole number", lambda x: isinstance(x, int) and not isinstance(x, bool)),
    float: ("a number", lambda x: isinstance(x, int | float) and not isinstance(x, bool)),
    Texts: ("a list of texts", lambda x: isinstance(x, str) or is_texts(x)),
    Section: ("a section of keys and values", lambda x: isinstance(x, Mapping)),
    Sections: (
        "sections, each headed by its name in two brackets",
        lambda x: isinstance(x, list) and all(isinstance(one, dict) for one in x),
    ),
}


def is_texts(value: Any) -> bool:
    """Whether it is a list of texts."""
    return isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)


@lru_cache
def types_of(make: Callable[..., Any]) -> dict[str, Any]:
    """The type of each parameter."""
    hints = get_type_hints(make)
    return {name: hints[name] for name in signature(make).parameters}


def misfit(hint: Any, value: Any) -> str:
    """What a value must be, and what it is; empty where it is of that type, or the type is not plain."""
    union = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    kinds = [KINDS[kind] for kind in union if kind in KINDS]
    if not kinds or any(fits(value) for _, fits in kinds) or (value is None and len(union) > 1):
        return ""
    return f"must be {' or '.join(words for words, _ in kinds)}; found {_validate.found(value)}"


def problems(make: Callable[..., Any], table: Section, place: str = "") -> dict[str, str]:
    """What is wrong with each key of a table of which something is made."""
    types, found = types_of(make), {}
    usual = {name: one.default for name, one in signature(make).parameters.items()}
    for key, value in table.items():
        if key not in types:
            found[key] = unknown(key, types)
        elif text := misfit(types[key], value):
            found[key] = text
        elif (
            isinstance(value, str) and value != usual[key] and (not value.strip() or "\0" in value)
        ):
            found[key] = "must be text that is not empty"
    for name, default in usual.items():
        if default is Parameter.empty and name not in table:
            found[name] = f"{MISSING[2:]}{name} = ...{place and f' to {place}'}"
    return found


def made(make: Callable[..., Thing], table: Section, folder: Path = Path()) -> Thing:
    """What is made of a table that has no problems; paths are relative to the folder."""
    types = types_of(make)
    convert: dict[Any, Callable[[Any], Any]] = {Path: folder.joinpath, Texts: _texts}
    return make(**{key: convert.get(types[key], _same)(value) for key, value in table.items()})


def made_of(make: Callable[..., Thing], table: Section, what: str, folder: Path = Path()) -> Thing:
    """What is made of a table; an error names the first key that is wrong."""
    for key, text in problems(make, table).items():
        raise FleetError(f"{what}, key {key}: {text}")
    return made(make, table, folder)


def _texts(value: Any) -> Texts:
    return (value,) if isinstance(value, str) else tuple(value)


def _same(value: Any) -> Any:
    return value
