"""Graphs by name: regular ones by formula, power grids and feeders, and files of links.

`load` takes a name ("us-power-grid", "ring:20", "torus:30x40") or the path of a file. Regular
graphs of a million agents take about a second. The IEEE test feeders are the public topologies of
the Distribution System Analysis Subcommittee (Kersting, "Radial distribution test feeders", 2001);
regulators, switches and transformers between two nodes count as links.
"""

from __future__ import annotations

import difflib
import inspect
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum._types import Floats
from veilsum._validate import at_least, at_most, found
from veilsum.errors import NetworkError
from veilsum.networks import random_graphs
from veilsum.networks.graph import Graph, sized
from veilsum.networks.io import FORMATS, as_graph, read, read_edges

LARGEST_COMPLETE = 20_000
LARGEST_HYPERCUBE = 24  # 2^24 agents, 2 * 10^8 links: as many as the largest complete graph
# Each line is a chain of nodes down the tree; it begins at a node of an earlier line.
IEEE_13 = """
650 632 671 692 675
632 633 634
632 645 646
671 680
671 684 611
684 652
"""
IEEE_34 = """
800 802 806 808 812 814 850 816 824 828 830 854 852 832 858 834 860 836 862 838
808 810
816 818 820 822
824 826
854 856
832 888 890
858 864
834 842 844 846 848
836 840
"""


def ring(size: int) -> Graph:
    """Agent i linked to i + 1 mod n.

    Parameters
    ----------
    size : int
        The number of agents, at least 3.

    Returns
    -------
    Graph

    Examples
    --------
    >>> from veilsum import networks
    >>> networks.ring(5)
    Graph('ring', 5 agents, 5 links)
    """
    sized(3, size=size)
    i = np.arange(size, dtype=np.int32)
    return Graph(size, np.stack([i, np.roll(i, -1)], axis=1), name="ring", positions=_circle(size))


def path(size: int) -> Graph:
    """Agent i linked to i + 1.

    Parameters
    ----------
    size : int
        The number of agents, at least 2.

    Returns
    -------
    Graph

    Examples
    --------
    >>> from veilsum import networks
    >>> networks.path(5)
    Graph('path', 5 agents, 4 links)
    """
    sized(2, size=size)
    i = np.arange(size, dtype=np.int32)
    places = np.stack([i.astype(np.float64), np.zeros(size)], axis=1)
    return Graph(size, np.stack([i[:-1], i[1:]], axis=1), name="path", positions=places)


def star(size: int) -> Graph:
    """Agent 0 linked to every other.

    Parameters
    ----------
    size : int
        The number of agents, at least 2.

    Returns
    -------
    Graph

    Examples
    --------
    >>> from veilsum import networks
    >>> networks.star(5).degrees
    array([4, 1, 1, 1, 1])
    """
    sized(2, size=size)
    leaves = np.arange(1, size)
    places = np.concatenate([np.zeros((1, 2)), _circle(size - 1)])
    links = np.stack([np.zeros_like(leaves), leaves], axis=1)
    return Graph(size, links, name="star", positions=places)


def complete(size: int) -> Graph:
    """Every agent linked to every other: n(n-1)/2 links.

    Parameters
    ----------
    size : int
        The number of agents, 2 to 20,000.

    Returns
    -------
    Graph

    Examples
    --------
    >>> from veilsum import networks
    >>> networks.complete(5)
    Graph('complete', 5 agents, 10 links)
    """
    sized(2, size=size)
    if size > LARGEST_COMPLETE:
        raise NetworkError(
            f"a complete graph of {size} agents has {size * (size - 1) // 2} links, too many to "
            f"store; at most {LARGEST_COMPLETE} agents"
        )
    links = np.stack(np.triu_indices(size, 1), axis=1)
    return Graph(size, links, name="complete", positions=_circle(size))


def torus(rows: int, columns: int | None = None) -> Graph:
    """Agent (r, c), index r * columns + c, linked to (r+1, c) and (r, c+1), both mod the sides.

    Parameters
    ----------
    rows : int
        At least 2.
    columns : int, optional
        As many as rows if left out.

    Returns
    -------
    Graph

    Examples
    --------
    >>> from veilsum import networks
    >>> networks.torus(3, 4)
    Graph('torus', 12 agents, 24 links)
    """
    agents = _numbered(rows, columns, least=2)
    rows, columns = agents.shape
    links = np.empty((rows, columns, 2, 2), dtype=np.int32)
    links[..., 0] = agents[..., None]
    links[:, :, 0, 1], links[:, :, 1, 1] = np.roll(agents, -1, axis=1), np.roll(agents, -1, axis=0)
    pairs, places = links.reshape(-1, 2), _lattice(rows, columns)
    return Graph(rows * columns, pairs, name="torus", positions=places)


def grid(rows: int, columns: int | None = None) -> Graph:
    """Agent (r, c), index r * columns + c, linked to (r+1, c) and (r, c+1) where they exist.

    Parameters
    ----------
    rows : int
        At least 1.
    columns : int, optional
        As many as rows if left out.

    Returns
    -------
    Graph

    Examples
    --------
    >>> from veilsum import networks
    >>> networks.grid(3, 4)
    Graph('grid', 12 agents, 17 links)
    """
    agents = _numbered(rows, columns, least=1)
    rows, columns = agents.shape
    ends = [(agents[:-1], agents[1:]), (agents[:, :-1], agents[:, 1:])]
    pairs = np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in ends])
    return Graph(rows * columns, pairs, name="grid", positions=_lattice(rows, columns))


def hypercube(dimension: int) -> Graph:
    """2^dimension agents, linked where their indices differ in one bit.

    Parameters
    ----------
    dimension : int
        1 to 24.

    Returns
    -------
    Graph

    Examples
    --------
    >>> from veilsum import networks
    >>> networks.hypercube(3)
    Graph('hypercube', 8 agents, 12 links)
    """
    at_least(NetworkError, 1, dimension=dimension)
    at_most(NetworkError, LARGEST_HYPERCUBE, dimension=dimension)
    agents = np.arange(2**dimension)
    bits = 1 << np.arange(dimension)
    low = [agents[agents & bit == 0] for bit in bits]
    links = np.concatenate(
        [np.stack([i, i | bit], axis=1) for i, bit in zip(low, bits, strict=True)]
    )
    return Graph(len(agents), links, name="hypercube")


def _numbered(rows: int, columns: int | None, least: int) -> NDArray[np.int32]:
    """The agents of a rectangle, row by row, with sides of at least `least` and two agents or more."""
    columns = rows if columns is None else columns
    sized(least, rows=rows, columns=columns)
    sized(2, size=rows * columns)
    return np.arange(rows * columns, dtype=np.int32).reshape(rows, columns)


def _lattice(rows: int, columns: int) -> Floats:
    """(rows * columns, 2): x = c, y = r, row by row."""
    places = np.empty((rows, columns, 2))
    places[..., 0], places[..., 1] = np.arange(columns), np.arange(rows)[:, None]
    return places.reshape(-1, 2)


def _circle(size: int) -> Floats:
    angle = 2 * np.pi * np.arange(size) / size
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def ieee_13() -> Graph:
    """The IEEE 13-node test feeder: 13 nodes, 12 links, labelled 650, 632, ..."""
    return _from_chains(IEEE_13, "ieee-13")


def ieee_34() -> Graph:
    """The IEEE 34-node test feeder: 34 nodes, 33 links, labelled 800, 802, ..."""
    return _from_chains(IEEE_34, "ieee-34")


def feeder(trunk: int, laterals: int, length: int = 3) -> Graph:
    """A trunk of `trunk` agents and `laterals` side lines of `length` agents spread evenly on it.

    A radial distribution feeder is a tree, as the last mile of a power grid is.
    n = trunk + laterals * length; lateral k leaves agent floor((k + 1/2) trunk / laterals).

    Parameters
    ----------
    trunk : int
        Agents of the trunk, at least 2.
    laterals : int
        The number of side lines.
    length : int
        Agents of each side line.

    Returns
    -------
    Graph

    Examples
    --------
    >>> from veilsum import networks
    >>> networks.feeder(4, 2, length=3)
    Graph('feeder', 10 agents, 9 links)
    """
    sized(2, trunk=trunk)
    sized(1, laterals=laterals, length=length)
    sized(3, size=trunk + laterals * length)
    k = np.arange(laterals)
    side = trunk + np.arange(laterals * length).reshape(laterals, length)
    roots = (2 * k + 1) * trunk // (2 * laterals)
    chains = np.concatenate([roots[:, None], side], axis=1)
    main = np.arange(trunk)
    sources = np.concatenate([main[:-1], chains[:, :-1].ravel()])
    targets = np.concatenate([main[1:], chains[:, 1:].ravel()])
    size = trunk + laterals * length
    return Graph(size, np.stack([sources, targets], axis=1), name="feeder")


def _from_chains(text: str, name: str) -> Graph:
    chains = [list(map(int, line.split())) for line in text.split("\n") if line]
    labels = list(dict.fromkeys(node for chain in chains for node in chain))
    index = {label: i for i, label in enumerate(labels)}
    pairs = [(index[a], index[b]) for chain in chains for a, b in pairwise(chain)]
    return Graph(len(labels), np.array(pairs), labels, name=name)


def us_power_grid() -> Graph:
    """The Western US power grid (Watts and Strogatz 1998): 4,941 agents, 6,594 links."""
    with resources.as_file(resources.files("veilsum.networks") / "data") as folder:
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
    "ieee-13": ieee_13,
    "ieee-34": ieee_34,
    "feeder": feeder,
    "ring": ring,
    "path": path,
    "star": star,
    "complete": complete,
    "torus": torus,
    "grid": grid,
    "hypercube": hypercube,
    "random-geometric": random_graphs.random_geometric,
    "erdos-renyi": random_graphs.erdos_renyi,
    "watts-strogatz": random_graphs.watts_strogatz,
    "power-law": random_graphs.power_law,
    "random-regular": random_graphs.random_regular,
}


@dataclass(frozen=True)
class NamedGraph:
    """A graph that `load` builds by name.

    Attributes
    ----------
    name : str
        As in `load(name)`.
    options : str
        The options of its generator, as in a signature.
    description : str
        The first line of its generator's documentation.

    Examples
    --------
    >>> from veilsum import networks
    >>> networks.names()[5]
    NamedGraph(name='ring', options='size', description='Agent i linked to i + 1 mod n.')
    """

    name: str
    options: str
    description: str


def names() -> tuple[NamedGraph, ...]:
    """Every graph that `load` builds by name, with its options and a description.

    Returns
    -------
    tuple of NamedGraph

    Examples
    --------
    >>> from veilsum import networks
    >>> [named.name for named in networks.names()][:3]
    ['us-power-grid', 'florentine-families', 'ieee-13']
    """
    return tuple(
        NamedGraph(name, _options(build), _summary(build)) for name, build in BUILDERS.items()
    )


def load(source: str | os.PathLike[str], **options: Any) -> Graph:
    """The graph of that name, or of that file: a CSV, .parquet or .npz, by its ending.

    Parameters
    ----------
    source : str or path
        A name, with options behind a colon: "us-power-grid", "ring:20", "torus:30x40",
        "random-geometric:969,0.1,0"; or a path: "links.csv", "links.parquet".
    **options
        Options of the generator by name, or `directed` for a file.

    Returns
    -------
    Graph

    Raises
    ------
    NetworkError
        For an unknown name, options that do not fit, or a file that cannot be read.

    Examples
    --------
    >>> from veilsum import networks
    >>> networks.load("torus:30x40"), networks.load("ring", size=20)
    (Graph('torus', 1200 agents, 2400 links), Graph('ring', 20 agents, 20 links))
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
