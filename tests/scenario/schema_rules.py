"""The part of JSON Schema (draft 7) that our schemas use; any other word is an error.

`jsonschema` is not among the dependencies. What is here was compared with it once: both accept and
refuse the cases of test_scenario_json_schema.py alike.
"""

import re
from typing import Any

ANNOTATIONS = {"$schema", "$defs", "title", "description", "default"}
TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}


def problems(schema: dict[str, Any], value: Any, root: dict[str, Any] | None = None) -> list[str]:
    """What a schema refuses in a value."""
    root = schema if root is None else root
    found = []
    for word, rule in schema.items():
        if word not in ANNOTATIONS:
            found += _broken(word, rule, value, schema, root)
    return found


def _broken(
    word: str, rule: Any, value: Any, schema: dict[str, Any], root: dict[str, Any]
) -> list[str]:
    if word == "$ref":
        return problems(root["$defs"][rule.removeprefix("#/$defs/")], value, root)
    if word == "anyOf":
        return [] if any(not problems(each, value, root) for each in rule) else ["anyOf"]
    if word == "not":
        return [] if problems(rule, value, root) else ["not"]
    if word == "if":
        return [] if problems(rule, value, root) else problems(schema["then"], value, root)
    if word == "then":
        return []
    if word == "type":
        several = rule if isinstance(rule, list) else [rule]
        return [] if any(_is(kind, value) for kind in several) else [f"type {rule}"]
    if word in ("enum", "const"):
        return [] if value in (rule if word == "enum" else [rule]) else [word]
    if isinstance(value, dict) and word in ("properties", "required", "additionalProperties"):
        return _table(word, rule, value, schema, root)
    if isinstance(value, list) and word in ("items", "minItems", "maxItems"):
        return _list(word, rule, value, root)
    if isinstance(value, str) and word in ("pattern", "minLength"):
        return _text(word, rule, value)
    if _is("number", value) and word in LIMITS:
        return [] if LIMITS[word](value, rule) else [word]
    known = {"properties", "required", "additionalProperties", "items", "minItems", "maxItems"}
    assert word in known | {"pattern", "minLength"} | set(LIMITS), f"what is {word}?"
    return []


LIMITS: dict[str, Any] = {
    "minimum": lambda value, limit: value >= limit,
    "maximum": lambda value, limit: value <= limit,
    "exclusiveMinimum": lambda value, limit: value > limit,
    "exclusiveMaximum": lambda value, limit: value < limit,
}


def _is(kind: str, value: Any) -> bool:
    return isinstance(value, TYPES[kind]) and (isinstance(value, bool) == (kind == "boolean"))


def _table(
    word: str, rule: Any, value: dict[str, Any], schema: dict[str, Any], root: dict[str, Any]
) -> list[str]:
    if word == "required":
        return [f"missing {key}" for key in rule if key not in value]
    if word == "properties":
        inside = [(key, rule[key]) for key in value if key in rule]
    else:
        others = [key for key in value if key not in schema.get("properties", {})]
        if rule is False:
            return [f"no such key {key}" for key in others]
        inside = [(key, {} if rule is True else rule) for key in others]
    return [f"{key}: {text}" for key, inner in inside for text in problems(inner, value[key], root)]


def _list(word: str, rule: Any, value: list[Any], root: dict[str, Any]) -> list[str]:
    if word == "items":
        return [text for each in value for text in problems(rule, each, root)]
    return [word] if (len(value) < rule if word == "minItems" else len(value) > rule) else []


def _text(word: str, rule: Any, value: str) -> list[str]:
    holds = re.search(rule, value) if word == "pattern" else len(value) >= rule
    return [] if holds else [word]
