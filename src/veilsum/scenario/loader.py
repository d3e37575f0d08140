"""A TOML file as a checked model: what scenario.toml and agent.toml have in common.

Every error names the file, the line and the key, says what is allowed, and suggests the nearest key
or value where one is misspelt. Numbers and text are never converted into each other. A file that
may contain secrets is read with `show=False`: its errors show no value of it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from veilsum.errors import ScenarioError, VeilsumError
from veilsum.scenario.errors import Issue, SourceMap, from_pydantic, lines, raise_
from veilsum.scenario.schema import Section

Table = dict[str, Any]
Model = TypeVar("Model", bound=Section)
_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def load_model(
    path: str | PathLike[str], model: type[Model], what: str, error: type[VeilsumError]
) -> tuple[Model, SourceMap]:
    """Read a file as a model, and where its keys are; errors show no value of the file."""
    text = read_text(path, what, error)
    table = read_toml(text, str(path), what, error)
    source_map = SourceMap(str(path), lines(text))
    made, issues = validate(model, table, show=False)
    raise_(map(source_map.message, issues), error)
    assert made is not None, "there were no issues"
    return made, source_map


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
) -> Table:
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


def validate(
    model: type[Model], table: Mapping[str, Any], *, show: bool = True, also: tuple[str, ...] = ()
) -> tuple[Model | None, list[Issue]]:
    """A table as a model, or what is wrong with it; `also` are allowed keys that it does not have."""
    try:
        return model.model_validate(table), []
    except ValidationError as error:
        return None, from_pydantic(error, model, table, show=show, also=also)
