"""Variants: a base and what each variation says otherwise, merged key by key.

A choice brings its own options: when a variant takes another family or law, the options of the
base's go with it, for they would mean nothing there.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

Table = dict[str, Any]

_CHOICES = {"law": "name", "family": "name", "network": "graph"}
_KEPT = {"law": ("rounds",), "family": (), "network": ("weights", "link_failures", "asleep")}


def merged(base: Mapping[str, Any], variant: Mapping[str, Any]) -> Table:
    """The base with a variant over it: tables merge, anything else is replaced."""
    return _over(_without_options(deepcopy(dict(base)), variant), variant)


def _over(base: Table, variant: Mapping[str, Any]) -> Table:
    for key, value in variant.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        base[key] = _over(base[key], value) if both else deepcopy(value)
    return base


def _without_options(base: Table, variant: Mapping[str, Any]) -> Table:
    """The base less the options of every choice that the variant makes anew."""
    if _differs(base, variant, "family", "name"):
        _drop(base, "signals", "draw")
    if _differs(base, variant, "privacy", "sensitivity"):
        _drop(base, "privacy", "delta")
    if _section(variant, "privacy").get("protect") == "nothing":
        base["privacy"] = {}
    for section, choice in _CHOICES.items():
        if _differs(base, variant, section, choice):
            base[section] = {k: v for k, v in base[section].items() if k in _KEPT[section]}
    for source in {"draw", "file"} & set(_section(variant, "signals")):
        if source not in _section(base, "signals"):
            base["signals"] = {}
    return base


def _differs(base: Mapping[str, Any], variant: Mapping[str, Any], section: str, key: str) -> bool:
    """Whether both have the section, and the variant another choice."""
    new, old = _section(variant, section), _section(base, section)
    return bool(old) and key in new and new[key] != old.get(key)


def _section(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = table.get(name, {})
    return found if isinstance(found, dict) else {}


def _drop(base: Table, section: str, key: str) -> None:
    if isinstance(base.get(section), dict):
        base[section].pop(key, None)
