"""load: a graph by name ("us-power-grid", "ring:20", "torus:30x40") or from a file of links."""

from __future__ import annotations

import difflib
import inspect
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from murmura._validate import found
from murmura.errors import NetworkError
from murmura.network import feeders, generators, geometric, random_graphs
from murmura.network.convert import as_graph
from murmura.network.edges import read_edges
from murmura.network.files import FORMATS, read
from murmura.network.graph import Graph


@dataclass(frozen=True)
class Named:
    """A graph that `load` knows: its name, its options as in a signature, and what it is."""

    name: str
    options: str
    description: str


def us_power_grid() -> Graph:
    """The Western US power grid (Watts and Strogatz 1998): 4,941 agents, 6,594 links."""
    with resources.as_file(resources.files("murmura.network") / "data") as folder:
        grid = read_edges(folder / "us_power_grid_edges.csv")
    return Graph(grid.size, grid.links, grid.labels, name="us-power-grid")


def florentine_families() -> Graph:
    """Marriages among 15 families of Renaissance Florence (Padgett and Ansell 1993): 20 links."""
    import networkx

    graph = networkx.florentine_families_graph()
    graph.name = "florentine-families"
    return as_graph(graph)


BUILDERS: dict[str, Callable[..., Graph]] = {
    "us-power-grid": us_power_grid,
    "florentine-families": florentine_families,
    "ieee-13": feeders.ieee_13,
    "ieee-34": feeders.ieee_34,
    "feeder": feeders.feeder,
    "ring": generators.ring,
    "path": generators.path,
    "star": generators.star,
    "complete": generators.complete,
    "torus": generators.torus,
    "grid": generators.grid,
    "hypercube": generators.hypercube,
    "random-geometric": geometric.random_geometric,
    "erdos-renyi": random_graphs.erdos_renyi,
    "watts-strogatz": random_graphs.watts_strogatz,
    "power-law": random_graphs.power_law,
    "random-regular": random_graphs.random_regular,
}


def names() -> tuple[Named, ...]:
    """Every name that `load` knows, with its options and one line about it."""
    return tuple(Named(name, _options(build), _summary(build)) for name, build in BUILDERS.items())


def load(source: str | os.PathLike[str], **options: Any) -> Graph:
    """The graph of that name, or of that file: a CSV, .parquet or .npz, told by its ending.

    load("us-power-grid"), load("ring", size=20), load("ring:20"), load("torus:30x40"),
    load("random-geometric:969,0.1,0"), load("links.csv", directed=True), load("links.parquet")
    """
    if not isinstance(source, str | os.PathLike):
        raise NetworkError(
            f"a graph's name or the path of a file is needed; found {found(source)}; try "
            "load('ring:20'), or as_graph(...) for a networkx graph or a matrix"
        )
    text = os.fspath(source)
    name, _, rest = text.partition(":")
    key = name.strip().lower().replace("_", "-").replace(" ", "-")
    if isinstance(source, str) and key in BUILDERS:
        return _build(key, rest, options)
    if _looks_like_file(source, text):
        return _read(text, options)
    raise NetworkError(_unknown(text, key))


def _build(name: str, rest: str, options: dict[str, Any]) -> Graph:
    build = BUILDERS[name]
    words = [word.strip() for word in re.split(r"[,x]", rest)] if rest.strip() else []
    values = [_number(word, name, rest) for word in words]
    try:
        bound = inspect.signature(build).bind(*values, **options)
    except TypeError as error:
        raise NetworkError(f"{name} takes the options ({_options(build)}): {error}") from error
    return build(*bound.args, **bound.kwargs)


def _number(word: str, name: str, rest: str) -> int | float:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    options = _options(BUILDERS[name])
    raise NetworkError(
        f"{name} takes numbers ({options}) after the colon; found {rest!r}; write "
        f"{name}:{'30x40' if 'columns' in options else '20'}"
    )


def _looks_like_file(source: str | os.PathLike[str], text: str) -> bool:
    path = Path(text)
    return not isinstance(source, str) or path.is_file() or len(path.parts) > 1 or path.suffix != ""


def _read(path: str, options: dict[str, Any]) -> Graph:
    unknown = options.keys() - {"directed"}
    if unknown:
        raise NetworkError(f"a file takes the option (directed); found {sorted(unknown)[0]!r}")
    known = Path(path).suffix.lower() in FORMATS
    return read(path, **options) if known else read_edges(path, **options)


def _unknown(text: str, key: str) -> str:
    close = difflib.get_close_matches(key, BUILDERS, n=1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return (
        f"no graph is named {text!r}: {hint}known names: {', '.join(BUILDERS)}; or a path "
        "to a CSV, Parquet or .npz file"
    )


def _options(build: Callable[..., Graph]) -> str:
    return ", ".join(
        name if p.default is p.empty else f"{name}={p.default}"
        for name, p in inspect.signature(build).parameters.items()
    )


def _summary(build: Callable[..., Graph]) -> str:
    return (build.__doc__ or "").strip().split("\n")[0]
