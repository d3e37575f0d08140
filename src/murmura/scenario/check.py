"""Checks that need the library: names, options, parameters and promises that do not fit.

Each yields faults on the field that is wrong, before a network is built or a signal is drawn.
Files are looked for when a scenario is built: one may be checked where its data is not.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from murmura.errors import MurmuraError
from murmura.scenario.faults import Fault, blamed, choose, shown, told, unknown
from murmura.scenario.model import Spec, is_number

if TYPE_CHECKING:
    from murmura.families import Family
    from murmura.laws import Law
    from murmura.privacy import Want

_SWITCHES = ("connect",)  # options that are true or false
_ALLOWED = "a number, or a list of numbers with rows of equal length; none beyond 1e308"
REFUSALS = (MurmuraError, TypeError, ValueError, ArithmeticError)


def faults(spec: Spec, folder: Path) -> Iterator[Fault]:
    """Everything that is wrong with one run, as far as can be seen without building it."""
    yield from _graph(spec, folder)
    yield from _family(spec)
    yield from _signals(spec)
    yield from _privacy(spec)
    yield from _law(spec)
    yield from _agents(spec)


def graph_source(spec: Spec, folder: Path) -> str | Path | None:
    """A known name as it is, a file relative to the scenario's folder, or None if neither fits."""
    graph = spec.network.graph
    if _plain_name(graph) in graph_names():
        return graph
    path = resolved(graph, folder)
    looks = Path(graph).suffix or len(Path(graph).parts) > 1 or path.is_file()
    return path if looks else None


def resolved(file: str, folder: Path) -> Path:
    """A file beside the scenario; ~ and $VARIABLES in its path stand for what they say."""
    return folder / os.path.expanduser(os.path.expandvars(file))


def graph_names() -> list[str]:
    """The graphs that have names."""
    from murmura import network

    return [known.name for known in network.names()]


def family_of(spec: Spec) -> Family:
    """Make the family; `faults` has seen that its name and options exist."""
    from murmura import families

    return families.get(spec.family.name, **spec.family.options)


def want_of(spec: Spec) -> Want:
    """Make the wanted protection, for the first of its epsilons."""
    from murmura.privacy import NetworkDP, NoPrivacy, SignalDP

    asked = spec.privacy
    if asked.protect == "nothing":
        return NoPrivacy()
    kind = NetworkDP if asked.protect == "network" else SignalDP
    return kind(asked.epsilon[0], asked.delta, asked.radius, asked.sensitivity)


def _graph(spec: Spec, folder: Path) -> Iterator[Fault]:
    source = graph_source(spec, folder)
    if source is not None:
        known = [] if isinstance(source, Path) else _graph_options(spec.network.graph)
        yield from _options("network", spec.network.options, known, "options")
        return
    name, _, rest = spec.network.graph.partition(":")
    text = choose(name if rest else spec.network.graph, graph_names())
    yield Fault(("network", "graph"), f"{text}, or the path of an edge list")


def _graph_options(graph: str) -> list[str]:
    """The options of a named graph, from its signature: "size, radius, seed=0"."""
    from murmura import network

    signature = {known.name: known.options for known in network.names()}[_plain_name(graph)]
    return [option.partition("=")[0] for option in signature.split(", ") if option]


def _plain_name(graph: str) -> str:
    return graph.partition(":")[0].strip().lower().replace("_", "-").replace(" ", "-")


def _family(spec: Spec) -> Iterator[Fault]:
    from murmura import families

    known = {row.name: row.options for row in families.describe()}
    if spec.family.name not in known:
        yield Fault(("family", "name"), choose(spec.family.name, known))
        return
    wrong = list(_options("family", spec.family.options, known[spec.family.name]))
    yield from wrong
    if not wrong:
        try:
            family_of(spec)
        except REFUSALS as problem:
            yield blamed("family", spec.family.options, problem)


def _signals(spec: Spec) -> Iterator[Fault]:
    if spec.signals.draw is None:
        return
    try:
        family = family_of(spec)
    except REFUSALS:
        return  # `_family` has said so
    yield from _draw(family, spec.signals.draw)


def _draw(family: Any, draw: Mapping[str, Any]) -> Iterator[Fault]:
    """Every parameter there, none unknown, and all of them fit to draw from."""
    wrong = list(_options("signals", draw, family.parameters, "draw"))
    lacking = [name for name in family.parameters if name not in draw]
    if lacking:
        needs = f"missing {', '.join(lacking)}; {family.name} draws from {_list(family)}"
        wrong.append(Fault(("signals", "draw"), needs))
    yield from wrong
    if not wrong and (problem := _undrawable(family, draw)):
        yield Fault(("signals", "draw"), problem)


def _undrawable(family: Any, draw: Mapping[str, Any]) -> str | None:
    import numpy as np

    try:
        with np.errstate(all="ignore"):
            one = family.sample(np.random.default_rng(0), (1,), **draw)
            mean = family.mean(**draw)
    except REFUSALS as problem:
        return f"found {shown(dict(draw))}; {told(problem)}"
    if np.isfinite(one).all() and np.isfinite(mean).all():
        return None
    return f"found {shown(dict(draw))}; {family.name} has no finite signals there"


def _privacy(spec: Spec) -> Iterator[Fault]:
    try:
        want_of(spec)
    except REFUSALS as problem:
        keys = ("delta", "epsilon", "radius", "sensitivity")
        given = [key for key in keys if key in spec.privacy.model_fields_set]
        yield blamed("privacy", given, problem)


def _agents(spec: Spec) -> Iterator[Fault]:
    """What real agents would have to refuse."""
    from murmura.privacy import stopping_conflict

    conflict = stopping_conflict(spec.privacy.protect, spec.agents.tolerance)
    if conflict:
        found = shown(spec.agents.tolerance)
        yield Fault(("agents", "tolerance"), f'found {found} with protect = "network"; {conflict}')


def _law(spec: Spec) -> Iterator[Fault]:
    from murmura.laws import LAWS

    law = LAWS.get(spec.law.name)
    if law is None:
        yield Fault(("law", "name"), choose(spec.law.name, LAWS))
        return
    known = {f.name: f.default is not dataclasses.MISSING for f in dataclasses.fields(law)}
    wrong = list(_options("law", spec.law.options, known))
    yield from wrong
    if not wrong and all(known[key] or key in spec.law.options for key in known):
        try:
            _check_numbers(law(**spec.law.options), spec.law.rounds)
        except REFUSALS as problem:
            yield blamed("law", spec.law.options, problem)


def _check_numbers(law: Law, rounds: int) -> None:
    """Raise unless the numbers of the first and the last round are finite."""
    for t in {1, rounds}:
        if not all(map(math.isfinite, law.coefficients(t))):
            raise OverflowError


def _options(section: str, given: Mapping[str, Any], known: Any, *inside: str) -> Iterator[Fault]:
    """Keys that the thing does not have, and values that are not numbers."""
    own = {"law": ("rounds",)}.get(section, ())
    for key, value in given.items():
        path = (section, *inside, key)
        if key not in known:
            yield Fault(path, unknown(key, [*own, *known]))
        elif key in _SWITCHES and isinstance(value, bool):
            continue
        elif not _numeric(value):
            yield Fault(path, f"found {shown(value)}; allowed: {_ALLOWED}")


def _numeric(value: Any) -> bool:
    """Numbers that a float can hold, and lists of them whose rows are of equal length."""
    if isinstance(value, list):
        lengths = {len(x) if isinstance(x, list) else -1 for x in value}
        return len(lengths) == 1 and all(map(_numeric, value))
    return is_number(value)


def _list(family: Any) -> str:
    return "{ " + ", ".join(f"{name} = ..." for name in family.parameters) + " }"
