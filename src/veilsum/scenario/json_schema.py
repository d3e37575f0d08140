"""JSON Schemas of scenario.toml and agent.toml, for editors: made from the models that check them.

An editor completes keys and marks mistakes while one types; `veilsum run` and `veilsum agent` check
more, with the same models. A schema allows what TOML can express, so there is no null, and it names
the options of every family, graph and algorithm, so that a misspelt one is marked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from veilsum.scenario.check import graph_names
from veilsum.scenario.schema import Spec

Schema = dict[str, Any]

DIALECT = "http://json-schema.org/draft-07/schema#"  # what editors of TOML support
NUMBERS: Schema = {"type": ["number", "array"]}
DURATION: Schema = {
    "anyOf": [
        {"type": "number", "minimum": 0},
        {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?[smhdw]$"},
    ],
    "description": 'A time such as "90s", "10m", "1h", "1d" or "2w", or a number of seconds.',
}
POSITIVE: Schema = {"type": "number", "exclusiveMinimum": 0}
INPUTS = {  # by the name of a validator that converts: what a file may contain in its place
    "_epsilons": {"anyOf": [POSITIVE, {"type": "array", "items": POSITIVE, "minItems": 1}]},
    "_duration": DURATION,
}
NAMES = ("properties", "$defs")
RULE = "check"  # the name of a validator that only refuses


class FileSchema(GenerateJsonSchema):
    """What a file may contain, where a validator converts it into something else."""

    def function_before_schema(self, schema: Any) -> Schema:
        """The input of a validator that runs before the type is checked."""
        name = schema["function"]["function"].__name__
        if name == RULE:
            return super().function_before_schema(schema)
        if name not in INPUTS:
            raise TypeError(f"what {name} accepts is not known; add it to json_schema.INPUTS")
        return dict(INPUTS[name])


def schema_of(model: type[BaseModel], title: str) -> Schema:
    """The schema of a file that has the keys of a model.

    Parameters
    ----------
    model
        The model that checks the file.
    title
        What the file is called.

    Returns
    -------
    dict
        A JSON Schema, in draft 7.
    """
    made: Schema = _tidy(model.model_json_schema(schema_generator=FileSchema))
    return {"$schema": DIALECT} | made | {"title": title}


def scenario_schema() -> Schema:
    """The schema of scenario.toml.

    Returns
    -------
    dict
        A JSON Schema, in draft 7.

    Examples
    --------
    >>> made = scenario_schema()
    >>> made["$defs"]["PrivacySection"]["properties"]["protect"]["enum"]
    ['signal', 'network', 'nothing']
    """
    made = schema_of(Spec, "veilsum scenario")
    _name_options(made["$defs"])
    sections = {name: section for name in Spec.model_fields if (section := _section(made, name))}
    needs = {name: section.pop("required", []) for name, section in sections.items()}
    required = [name for name in made.pop("required") if name != "name"]  # a file has a name
    alone = {
        "required": required,
        "properties": {name: {"required": keys} for name, keys in needs.items() if keys},
    }
    variant = {
        "type": "object",
        "description": "The scenario with a few keys changed.",
        "additionalProperties": False,
        "properties": dict(made["properties"]),
        "required": ["name"],
    }
    made["properties"]["variant"] = {"type": "array", "items": variant}
    made["description"] = "What to run: network, family, signals, privacy request and algorithm."
    return made | {"if": {"not": {"required": ["variant"]}}, "then": alone}


def _section(made: Schema, name: str) -> Schema | None:
    reference = made["properties"][name].get("$ref")
    section: Schema | None = made["$defs"][reference.rpartition("/")[2]] if reference else None
    return section


def _name_options(sections: Schema) -> None:
    """Name what the library knows: families, algorithms, graphs, and their options."""
    from veilsum import families
    from veilsum.algorithms import ALGORITHMS
    from veilsum.privacy.mechanisms import names as mechanism_names

    kinds = families.describe()
    of_families = [key for kind in kinds for key in families.options(kind.name)]
    of_algorithms = [
        field.name for made in ALGORITHMS.values() for field in dataclasses.fields(made)
    ]
    _close(sections["FamilySection"], of_families, families.names())
    _close(sections["AlgorithmSection"], of_algorithms, ALGORITHMS)
    _close(
        sections["SignalsSection"]["properties"]["draw"], [p for k in kinds for p in k.parameters]
    )
    sections["PrivacySection"]["properties"]["mechanism"]["enum"] = list(mechanism_names())
    network = sections["NetworkSection"]["properties"]
    _close(network["options"], _graph_options())
    network["graph"]["description"] = f"{', '.join(graph_names())}, or the path of an edge list."


def _graph_options() -> list[str]:
    from veilsum import networks

    signatures = [option for known in networks.names() for option in known.options.split(", ")]
    return [signature.partition("=")[0] for signature in signatures if signature]


def _close(section: Schema, options: Iterable[str], names: Iterable[str] = ()) -> None:
    """Allow these options in a section and no others."""
    known: Schema = dict.fromkeys(sorted(set(options)), NUMBERS)
    known |= {option: {"type": "boolean"} for option in ("connect",) if option in known}
    section["properties"] = known | section.get("properties", {})
    section["additionalProperties"] = False
    if names:
        section["properties"]["name"] = {"enum": list(names)}


def _tidy(part: Any) -> Any:
    """Without null, which TOML lacks, without titles of keys, with the first line of a description."""
    if isinstance(part, list):
        return [_tidy(each) for each in part]
    if not isinstance(part, dict):
        return part
    kept = {key: value for key, value in part.items() if not _dropped(key, value)}
    if "description" in kept:
        kept["description"] = kept["description"].split("\n\n")[0].replace("\n", " ")
    if "anyOf" in kept:
        some = [each for each in kept.pop("anyOf") if each != {"type": "null"}]
        kept = {**kept, **some[0]} if len(some) == 1 else {**kept, "anyOf": some}
    return {key: _named(value) if key in NAMES else _tidy(value) for key, value in kept.items()}


def _named(parts: Schema) -> Schema:
    """A table whose keys are names, not words of JSON Schema: one of them may be `title`."""
    return {name: _tidy(part) for name, part in parts.items()}


def _dropped(key: str, value: Any) -> bool:
    """A title that pydantic made from a key, and a default that a file cannot contain."""
    empty = value is None or isinstance(value, dict | list)
    return key == "title" or (key == "default" and empty)
