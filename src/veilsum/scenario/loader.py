"""A TOML file as a checked model: what scenario.toml and agent.toml have in common.

Every error names the file, the line and the key, says what is allowed, and suggests the nearest key
or value where one is misspelt. Numbers and text are never converted into each other. A file that
may contain secrets is read with `show=False`: its errors show no value of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, TypeVar

from pydantic import ValidationError

from veilsum._toml import Issue, SourceMap, lines, raise_, read_text, read_toml
from veilsum.errors import VeilsumError
from veilsum.scenario.errors import from_pydantic
from veilsum.scenario.schema import Section

Table = dict[str, Any]
Model = TypeVar("Model", bound=Section)


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


def validate(
    model: type[Model], table: Mapping[str, Any], *, show: bool = True, also: tuple[str, ...] = ()
) -> tuple[Model | None, list[Issue]]:
    """A table as a model, or what is wrong with it; `also` are allowed keys that it does not have."""
    try:
        return model.model_validate(table), []
    except ValidationError as error:
        return None, from_pydantic(error, model, table, show=show, also=also)
