"""The API reference of the site: a page for each public package, and one for each public name.

What is public is what `docs/generate.py` lists in docs/api.md. A name that several packages export
has one page, under the shortest of them; all of them link to it.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Mapping
from functools import cache
from itertools import groupby
from typing import Any

from docs.generate import MARK, PACKAGES, first_line, public_names, table

RULE = re.compile(r"-{3,}")
NAMING = ("Parameters", "Attributes")  # sections with names at the margin,
INDENTING = (*NAMING, "Returns", "Yields", "Raises", "Warns")  # and all that indent descriptions


@cache
def homes() -> dict[tuple[str, str], str]:
    """The page of each public name of each package: the same one for the same thing."""
    first: dict[int, str] = {}
    found = {}
    for package in sorted(PACKAGES, key=lambda name: (name.count("."), PACKAGES.index(name))):
        module = importlib.import_module(package)
        for name in public_names(module):
            thing = getattr(module, name)
            if inspect.ismodule(thing):
                found[package, name] = thing.__name__
            elif inspect.isclass(thing) or inspect.isroutine(thing):
                found[package, name] = first.setdefault(id(thing), f"{package}.{name}")
            else:
                found[package, name] = f"{package}.{name}"
    return found


def pages() -> dict[str, str]:
    """Every page of the reference, by file."""
    made = {f"api/{package}.rst": package_page(package) for package in PACKAGES}
    for (package, name), home in homes().items():
        if home == f"{package}.{name}" and home not in PACKAGES:
            made[f"api/{home}.rst"] = name_page(package, name)
    return made


def package_page(package: str) -> str:
    """What a package is for, and a row for each of its names."""
    module = importlib.import_module(package)
    lines = [package, "=" * len(package), "", f".. automodule:: {package}", "   :no-members:"]
    lines += ["", ".. list-table::", "   :widths: 30 70", "   :class: names", ""]
    for name in public_names(module):
        home = homes()[package, name]
        lines.append(f"   * - :doc:`{name} <{home}>`")
        lines.append(f"     - {plain(first_line(getattr(module, name)))}")
    return "\n".join(lines) + "\n"


def name_page(package: str, name: str) -> str:
    """The documentation of one name, from its docstring."""
    thing = getattr(importlib.import_module(package), name)
    lines = [":orphan:", "", name, "=" * len(name), "", f":doc:`{package}`", ""]
    lines += [f".. currentmodule:: {package}", ""]
    if inspect.isclass(thing) and issubclass(thing, BaseException):
        lines.append(f".. autoexception:: {name}")
    elif inspect.isclass(thing):
        lines.append(f".. autoclass:: {name}")
    elif inspect.isroutine(thing):
        lines.append(f".. autofunction:: {name}")
    else:
        lines += [f".. py:data:: {name}", "", *(f"   {line}" for line in data(thing))]
    return "\n".join(lines) + "\n"


def data(thing: Any) -> list[str]:
    """What a constant or a type alias is: the names of a table, or the alias itself."""
    if isinstance(thing, Mapping):
        return [f"A table by name: {', '.join(f'``{key}``' for key in thing)}."]
    if isinstance(thing, int | float | str):
        return [f"A constant: ``{thing!r}``."]
    return [f"A type alias: ``{str(thing).replace('typing.', '')}``."]


def index(text: str) -> str:
    """The page of the API: a row for each package in place of the long tables."""
    rows = [
        [f"[`{package}`](api/{package}.rst)", first_line(importlib.import_module(package))]
        for package in PACKAGES
    ]
    tree = "\n".join(["```{toctree}", ":hidden:", ""] + [f"api/{p}" for p in PACKAGES] + ["```"])
    made = f"{table(['package', 'what it has'], rows)}\n\n{tree}\n"
    return MARK.sub(lambda part: made if part["name"] == "api" else part[0], text)


def escape(_app: Any, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    """Let a docstring be read as it is written: |x|, x_ and * are mathematics, `x` is code.

    An indented paragraph is code or a formula, outside the sections that indent descriptions.
    """
    section, made = "", list[str]()
    for blank, group in groupby(lines, lambda line: not line.strip()):
        part = list(group)
        if len(part) > 1 and RULE.fullmatch(part[1]):
            section = part[0]
            made += part[:2]
            del part[:2]
        if blank:
            made += part
        elif section not in INDENTING and all(line.startswith(" ") for line in part):
            made += ["::", "", *part]
        else:
            made += text_of(part, names=section in NAMING)
    lines[:] = made


def text_of(part: list[str], names: bool) -> list[str]:
    """A paragraph up to its examples, escaped but for the names at the margin."""
    end = next((k for k, x in enumerate(part) if x.lstrip().startswith(">>>")), len(part))
    text = [x if names and not x.startswith(" ") else plain(x) for x in part[:end]]
    return [*text, *part[end:]]


def plain(line: str) -> str:
    """Escape what reStructuredText would take for markup, except in `code` and ``literals``."""
    parts = re.split(r"(``.+?``|`[^`]+`)", line)
    return "".join(
        part
        if part.startswith("`") and len(part) > 1
        else re.sub(r"(?<!\\)([*|`_])", r"\\\1", part)
        for part in parts
    )


@cache
def public() -> dict[str, str]:
    """The public name of what is defined elsewhere: veilsum.networks.graph.Graph and the like."""
    found = {}
    for (package, name), home in homes().items():
        thing = getattr(importlib.import_module(package), name)
        if inspect.isclass(thing) or inspect.isroutine(thing):
            found[f"{thing.__module__}.{thing.__qualname__}"] = home
        found[f"{package}.{name}"] = home
    return found


def resolve(_app: Any, env: Any, node: Any, contents: Any) -> Any:
    """A reference to where something is defined leads to where it is documented."""
    if node.get("refdomain") != "py":
        return None
    wanted = node["reftarget"]
    module = node.get("py:module") or ""
    for name in (wanted, f"{module}.{wanted}", f"veilsum.{wanted}"):
        if name in public() and public()[name] != wanted:
            domain = env.get_domain("py")
            return domain.resolve_xref(
                env, node["refdoc"], env.app.builder, "obj", public()[name], node, contents
            )
    return None


def unlink_words(_app: Any, document: Any) -> None:
    """A word in the type of a parameter ("shape (agents, rounds)") is not an attribute's name."""
    from sphinx.addnodes import pending_xref

    for node in list(document.findall(pending_xref)):
        if node.get("refspecific") and not node["reftarget"].rpartition(".")[2][:1].isupper():
            node.replace_self(node.children)
