"""Checks of a scenario that need the library: names, options, parameters, privacy requests.

Each yields issues of the field that is wrong, before a network is built or a signal is drawn. Files
are not opened here: a scenario may be checked on a machine that does not have its data.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilsum._toml import Issue, choose, format_value, unknown
from veilsum.errors import MissingExtraError, VeilsumError
from veilsum.scenario.errors import attribute, describe
from veilsum.scenario.schema import Spec, is_number

if TYPE_CHECKING:
    from veilsum._types import Family
    from veilsum.algorithms import Algorithm

_SWITCHES = ("connect",)  # options that are true or false
_ALLOWED = "a number, or a list of numbers with rows of equal length; none beyond 1e308"
REFUSALS = (VeilsumError, TypeError, ValueError, ArithmeticError)


def issues(spec: Spec, folder: Path) -> Iterator[Issue]:
    """Everything that is wrong with one variant, as far as it shows without building it."""
    yield from _graph(spec, folder)
    yield from _family(spec)
    yield from _privacy(spec)
    yield from _algorithm(spec)
    yield from _batches(spec)
    yield from _agents(spec)


def graph_source(spec: Spec, folder: Path) -> str | Path | None:
    """A known name as it is, a file relative to the scenario's folder, or None if it is neither."""
    graph = spec.network.graph
    if _plain_name(graph) in graph_names():
        return graph
    path = resolve(graph, folder)
    looks = Path(graph).suffix or len(Path(graph).parts) > 1 or path.is_file()
    return path if looks else None


def resolve(file: str, folder: Path) -> Path:
    """A path relative to the scenario, with ~ and $VARIABLES expanded."""
    return folder / os.path.expanduser(os.path.expandvars(file))


def graph_names() -> list[str]:
    """The names of the graphs that `networks.load` knows."""
    from veilsum import networks

    return [known.name for known in networks.names()]


def _graph(spec: Spec, folder: Path) -> Iterator[Issue]:
    source = graph_source(spec, folder)
    if source is not None:
        known = [] if isinstance(source, Path) else _graph_options(spec.network.graph)
        yield from _options("network", spec.network.options, known, "options")
        return
    name, _, rest = spec.network.graph.partition(":")
    text = choose(name if rest else spec.network.graph, graph_names())
    yield Issue(("network", "graph"), f"{text}, or the path of an edge list")


def _graph_options(graph: str) -> list[str]:
    """The options of a named graph, from its signature: "size, radius, seed=0"."""
    from veilsum import networks

    signature = {known.name: known.options for known in networks.names()}[_plain_name(graph)]
    return [option.partition("=")[0] for option in signature.split(", ") if option]


def _plain_name(graph: str) -> str:
    return graph.partition(":")[0].strip().lower().replace("_", "-").replace(" ", "-")


def _family(spec: Spec) -> Iterator[Issue]:
    """The family, and the parameters to draw its signals from."""
    from veilsum.families import names, options

    asked = spec.family
    if asked.name not in names():
        yield Issue(("family", "name"), choose(asked.name, names()))
        return
    wrong = list(_options("family", asked.options, tuple(options(asked.name))))
    yield from wrong
    if wrong:
        return
    try:
        family = asked.family
    except REFUSALS as error:
        yield attribute("family", asked.options, error)
        return
    if spec.signals.draw is not None and getattr(family, "sigma", 0.0) is None:
        yield Issue(("family",), f"to draw signals, {family.name} needs sigma; add sigma = 1.0")
    elif spec.signals.draw is not None:
        yield from _draw(family, spec.signals.draw)


def _draw(family: Family, draw: Mapping[str, Any]) -> Iterator[Issue]:
    """Every parameter must be there, none unknown, and a draw must be finite."""
    wrong = list(_options("signals", draw, family.parameters, "draw"))
    missing = [name for name in family.parameters if name not in draw]
    if missing:
        needs = f"missing {', '.join(missing)}; {family.name} draws from {_list(family)}"
        wrong.append(Issue(("signals", "draw"), needs))
    yield from wrong
    if not wrong and (problem := _undrawable(family, draw)):
        yield Issue(("signals", "draw"), problem)


def _undrawable(family: Family, draw: Mapping[str, Any]) -> str | None:
    import numpy as np

    try:
        with np.errstate(all="ignore"):
            mean = family.mean(**draw)
            one = family.sample(np.random.default_rng(0), (1,), **draw)
    except MissingExtraError:  # where nothing can be simulated, nothing is drawn
        one = np.zeros(1)
    except REFUSALS as error:
        return f"found {format_value(dict(draw))}; {describe(error)}"
    if np.isfinite(one).all() and np.isfinite(mean).all():
        return None
    return f"found {format_value(dict(draw))}; {family.name} has no finite signals there"


def _privacy(spec: Spec) -> Iterator[Issue]:
    try:
        _ = spec.privacy.request
    except REFUSALS as error:
        keys = (
            "delta", "epsilon", "radius", "sensitivity", "mechanism", "batches", "unit", "horizon",
        )  # fmt: skip
        yield attribute("privacy", [k for k in keys if k in spec.privacy.model_fields_set], error)


def _agents(spec: Spec) -> Iterator[Issue]:
    """What real agents would refuse."""
    from veilsum.privacy.proofs import stopping_conflict

    conflict = stopping_conflict(spec.privacy.protect, spec.agents.tolerance)
    if conflict:
        found = format_value(spec.agents.tolerance)
        yield Issue(("agents", "tolerance"), f'found {found} with protect = "network"; {conflict}')


def _algorithm(spec: Spec) -> Iterator[Issue]:
    from veilsum.algorithms import ALGORITHMS

    if spec.algorithm.name not in ALGORITHMS.names():  # scenarios spell it as the schema does
        yield Issue(("algorithm", "name"), choose(spec.algorithm.name, ALGORITHMS))
        return
    algorithm = ALGORITHMS[spec.algorithm.name]
    known = {f.name: f.default is not dataclasses.MISSING for f in dataclasses.fields(algorithm)}
    wrong = list(_options("algorithm", spec.algorithm.options, known))
    yield from wrong
    if not wrong and all(known[key] or key in spec.algorithm.options for key in known):
        try:
            _check_numbers(algorithm(**spec.algorithm.options), spec.algorithm.rounds)
        except REFUSALS as error:
            yield attribute("algorithm", spec.algorithm.options, error)


def _batches(spec: Spec) -> Iterator[Issue]:
    """Whether the readings of the algorithm can enter in batches."""
    from veilsum.algorithms import ALGORITHMS
    from veilsum.algorithms.batched import misfit

    asked = spec.privacy.batches
    if spec.algorithm.name not in ALGORITHMS or asked is None or 1 in (asked.growth, asked.longest):
        return
    algorithm = ALGORITHMS[spec.algorithm.name]
    try:
        made = algorithm(**spec.algorithm.options)
    except REFUSALS:  # an option is missing or wrong, which is reported where it is
        made = None
    problem = misfit(algorithm if made is None else made)
    if problem:
        yield Issue(("privacy", "batches"), problem)


def _check_numbers(algorithm: Algorithm, rounds: int) -> None:
    """Raise unless the numbers of the first and the last round are finite."""
    for t in {1, rounds}:
        if not all(map(math.isfinite, algorithm.coefficients(t))):
            raise OverflowError


def _options(section: str, options: Mapping[str, Any], known: Any, *inside: str) -> Iterator[Issue]:
    """Options that do not exist, and values that are not numbers."""
    own = {"algorithm": ("rounds",)}.get(section, ())
    for key, value in options.items():
        path = (section, *inside, key)
        if key not in known:
            yield Issue(path, unknown(key, [*own, *known]))
        elif key in _SWITCHES and isinstance(value, bool):
            continue
        elif not _numeric(value):
            yield Issue(path, f"found {format_value(value)}; allowed: {_ALLOWED}")


def _numeric(value: Any) -> bool:
    """Numbers that a float can hold, and lists of them whose rows are of equal length."""
    if isinstance(value, list):
        lengths = {len(x) if isinstance(x, list) else -1 for x in value}
        return len(lengths) == 1 and all(map(_numeric, value))
    return is_number(value)


def _list(family: Family) -> str:
    return "{ " + ", ".join(f"{name} = ..." for name in family.parameters) + " }"
