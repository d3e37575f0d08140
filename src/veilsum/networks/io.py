"""Graphs from whatever the caller has: networkx graphs, matrices, links, CSV, .parquet and .npz.

.csv       two columns, `source,target`, one link per line, `#` for comments.
.npz       `links` (m, 2), or `source` and `target`, or what scipy.sparse.save_npz writes (an
           adjacency matrix); `size`, `directed`, `name`, `labels` and `positions` are optional.
.parquet   two columns of ends, named as in a CSV; whole numbers or text. `Graph.save` adds size,
           name, direction and the order of the labels to the file's metadata.
"""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from collections.abc import Hashable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum import _extras
from veilsum._types import GraphLike
from veilsum.errors import NetworkError
from veilsum.networks.graph import Graph, agent_name, self_loop
from veilsum.networks.rows import coordinates, is_scipy

HEADERS = {
    ("source", "target"),
    ("from", "to"),
    ("src", "dst"),
    ("tail", "head"),  # an arc runs from its tail to its head
    ("sender", "receiver"),
    ("node1", "node2"),
    ("u", "v"),
    ("i", "j"),
}
REVERSED = {
    ("target", "source"),
    ("to", "from"),
    ("dst", "src"),
    ("head", "tail"),
    ("receiver", "sender"),
}
INTEGER = re.compile(r"[+-]?\d+")
FORMATS = (".parquet", ".pq", ".npz")
METADATA = b"veilsum.graph"


def as_graph(source: GraphLike) -> Graph:
    """A Graph from a Graph, a networkx graph, an adjacency matrix, links, a name or a file.

    Parameters
    ----------
    source : Graph, networkx graph, array or sparse matrix, str or path
        - networkx Graph or DiGraph: nodes become labels in their order, `pos` becomes positions;
        - scipy sparse array or square numpy array: a link wherever the entry is positive,
          undirected if the pattern is symmetric (for the weights themselves, use `Mixing.of`);
        - numpy array of whole numbers of shape (m, 2), m other than 2: undirected links between
          the agents 0 .. largest (use Graph(size, links) for agents without links, or directed
          links);
        - str or path: what `load` accepts, such as "ring:20", "links.csv" or "links.parquet".

    Returns
    -------
    Graph

    Raises
    ------
    NetworkError
        For anything else, and for a graph that is not simple.

    Examples
    --------
    >>> import networkx
    >>> from veilsum import networks
    >>> networks.as_graph(networkx.path_graph(["a", "b", "c"])).labels
    ('a', 'b', 'c')
    """
    if isinstance(source, Graph):
        return source
    if isinstance(source, str | os.PathLike):
        from veilsum.networks.generators import load

        return load(source)
    networkx = sys.modules.get("networkx")  # without it no such graph can have been made
    if networkx is not None and isinstance(source, networkx.Graph):
        return _from_networkx(source)
    if isinstance(source, np.ndarray) and _are_links(source):
        return from_links(source)
    if is_scipy(source) or isinstance(source, np.ndarray):
        return from_matrix(source)
    raise NetworkError(
        f"a graph cannot be made from {type(source).__name__}: expected a Graph, a networkx graph, "
        "an adjacency matrix (numpy or scipy), links of shape (m, 2), a name such as 'ring:20' or "
        "a path"
    )


def _from_networkx(source: Any) -> Graph:
    if source.is_multigraph():
        raise NetworkError(
            "graph must not be a multigraph: parallel links have no meaning here; "
            "try networkx.Graph(graph)"
        )
    nodes = list(source.nodes)
    index = {node: i for i, node in enumerate(nodes)}
    ends = chain.from_iterable((index[u], index[v]) for u, v in source.edges())
    links = np.fromiter(ends, np.int64, 2 * source.number_of_edges()).reshape(-1, 2)
    labels = range(len(nodes)) if nodes == list(range(len(nodes))) else nodes
    name = source.name or type(source).__name__
    return Graph(len(nodes), links, labels, source.is_directed(), name, _positions(source, nodes))


def _positions(source: Any, nodes: list[Any]) -> NDArray[np.float64] | None:
    """The `pos` of every node; None unless all of them are two finite numbers."""
    places = [source.nodes[node].get("pos") for node in nodes]
    if any(place is None for place in places):
        return None
    try:
        positions = np.array(places, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    fits = positions.shape == (len(nodes), 2) and bool(np.isfinite(positions).all())
    return positions if fits else None


def _are_links(array: NDArray[Any]) -> bool:
    return array.ndim == 2 and array.shape[1] == 2 != array.shape[0] and array.dtype.kind in "iu"


def from_links(
    links: NDArray[Any],
    size: int | None = None,
    labels: Sequence[Hashable] = (),
    directed: bool = False,
    name: str = "links",
    positions: NDArray[Any] | None = None,
) -> Graph:
    """The Graph of an array of links; without a size, of the agents 0 .. largest."""
    if size is None:
        if links.size == 0:
            raise NetworkError("there are no links: expected pairs of agent indices, shape (m, 2)")
        size = int(links.max()) + 1
    return Graph(size, links, labels, directed, name, positions)


def from_matrix(source: Any) -> Graph:
    """The Graph of an adjacency matrix, undirected if its pattern is symmetric."""
    if source.ndim != 2 or source.shape[0] != source.shape[1]:
        raise NetworkError(
            f"adjacency must be square, or links whole numbers of shape (m, 2); found shape "
            f"{source.shape} of {source.dtype}"
        )
    if source.dtype.kind not in "biuf":
        raise NetworkError(f"adjacency must hold real numbers; found {source.dtype}")
    rows, columns, data = coordinates(source)
    _check_entries(rows, columns, data)
    kept, size = data != 0, source.shape[0]
    rows, columns = rows[kept], columns[kept]
    if np.any(rows == columns):
        raise self_loop(range(size), int(rows[rows == columns].min()))
    directed = not _is_symmetric(rows, columns, size)
    once = slice(None) if directed else rows < columns
    links = np.stack([rows[once], columns[once]], axis=1)
    return Graph(size, links, directed=directed, name="adjacency")


def _is_symmetric(rows: NDArray[Any], columns: NDArray[Any], size: int) -> bool:
    """Whether every (i, j) has its (j, i): the places of both are the same set."""
    i, j = rows.astype(np.int64), columns.astype(np.int64)
    return np.array_equal(np.unique(i * size + j), np.unique(j * size + i))


def _check_entries(rows: NDArray[Any], columns: NDArray[Any], data: NDArray[Any]) -> None:
    wrong = np.flatnonzero(~np.isfinite(data) | (data < 0))
    if len(wrong):
        k = wrong[0]
        raise NetworkError(
            f"adjacency must be finite and nonnegative: entry ({rows[k]}, {columns[k]}) is {data[k]}"
        )


def read_edges(path: str | os.PathLike[str], *, directed: bool = False) -> Graph:
    r"""The graph of an edge-list CSV, with or without a header line.

    A header of `target,source` (or `to,from`, or `head,tail`) says that the columns are swapped.
    Labels that are all whole numbers become sorted integers; others stay strings, in order of
    first appearance. A repeated link counts once, in either direction if undirected.

    Parameters
    ----------
    path : str or path
        The file.
    directed : bool
        Whether links are directed.

    Returns
    -------
    Graph

    Raises
    ------
    NetworkError
        With the line, for a file that is not a list of links.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from veilsum import networks
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "links.csv"
    ...     _ = path.write_text("source,target\na,b\nb,c\n")
    ...     networks.read_edges(path)
    Graph('links', 3 agents, 2 links)
    """
    lines, sources, targets = _csv_columns(Path(path))
    if not lines:
        raise NetworkError(f"{path} has no links: expected lines of source,target")
    ends, labels = _csv_numbered(sources + targets)
    links = ends.reshape(2, -1).T
    loops = np.flatnonzero(links[:, 0] == links[:, 1])
    if len(loops):
        name = agent_name(labels, int(links[loops[0], 0]))
        raise NetworkError(f"{path}, line {lines[loops[0]]}: self-loop at {name}; remove the line")
    return Graph(len(labels), links, labels, directed, Path(path).stem)


def _csv_columns(path: Path) -> tuple[list[int], list[str], list[str]]:
    rows = list(_rows(path))
    source, target = (2, 1) if rows and _pair(rows[0]) in REVERSED else (1, 2)
    if rows and _is_header(rows):
        rows = rows[1:]
    return [row[0] for row in rows], [row[source] for row in rows], [row[target] for row in rows]  # type: ignore[misc]


def _rows(path: Path) -> Iterator[tuple[int, str, str]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for number, cells in enumerate(csv.reader(file), start=1):
                if cells and not cells[0].lstrip().startswith("#") and any(map(str.strip, cells)):
                    yield number, *_two(cells, path, number)
    except OSError as error:
        raise NetworkError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise NetworkError(f"{path} is not a UTF-8 text file: expected source,target") from error


def _two(cells: list[str], path: Path, number: int) -> tuple[str, str]:
    if len(cells) != 2:
        raise NetworkError(f"{path}, line {number}: found {len(cells)} cells, expected 2")
    source, target = cells[0].strip(), cells[1].split("#")[0].strip()
    if not source or not target:
        raise NetworkError(f"{path}, line {number}: an end is missing, expected source,target")
    if not (source + target).isprintable():
        raise NetworkError(
            f"{path}, line {number}: a label has a character that cannot be printed, such as NUL; is "
            "the file damaged? Expected source,target"
        )
    return source, target


def _is_header(rows: Sequence[tuple[int, str, str]]) -> bool:
    """A known pair of column names, or words above nothing but numbers."""
    first = _pair(rows[0])
    if first in HEADERS | REVERSED:
        return True
    words = not any(map(INTEGER.fullmatch, first))
    return words and len(rows) > 1 and all(INTEGER.fullmatch(c) for r in rows[1:] for c in r[1:])


def _pair(row: tuple[int, str, str]) -> tuple[str, str]:
    return row[1].lower(), row[2].lower()


def _csv_numbered(names: list[str]) -> tuple[NDArray[np.int64], Sequence[Hashable]]:
    """The index of every name, and the labels that the indices stand for."""
    if all(map(INTEGER.fullmatch, names)):
        values, ends = np.unique(np.array(list(map(int, names))), return_inverse=True)
        whole = values[0] == 0 and values[-1] == len(values) - 1
        labels: Sequence[Hashable] = range(len(values)) if whole else values.tolist()
        return ends.astype(np.int64), labels
    index = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return np.fromiter(map(index.__getitem__, names), np.int64, len(names)), list(index)


def read(path: str | os.PathLike[str], *, directed: bool | None = None) -> Graph:
    """The graph of a .parquet or .npz file.

    Parameters
    ----------
    path : str or path
        The file, as `Graph.save` writes it, or any with two columns of ends.
    directed : bool, optional
        Overrides the direction that is stored in the file.

    Returns
    -------
    Graph

    Raises
    ------
    NetworkError
        If the file cannot be read, or does not contain a graph.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from veilsum import networks
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "ring.npz"
    ...     networks.ring(5).save(path)
    ...     networks.read(path)
    Graph('ring', 5 agents, 5 links)
    """
    place = Path(path)
    reader = _read_npz if _format(place) == ".npz" else _read_parquet
    try:
        return reader(place, directed)
    except OSError as error:
        raise NetworkError(f"{place} cannot be read: {error.strerror or error}") from error
    except NetworkError as error:
        raise NetworkError(f"{place}: {error}") from error


def write(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Save to .npz (everything) or .parquet (links, labels, name; no positions)."""
    place = Path(path)
    writer = _write_npz if _format(place) == ".npz" else _write_parquet
    try:
        writer(graph, place)
    except OSError as error:
        raise NetworkError(f"{place} cannot be written: {error.strerror or error}") from error


def _format(path: Path) -> str:
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise NetworkError(
            f"{path} must end in {', '.join(FORMATS)}; found {ending or 'no ending'!r}; "
            "for text use networks.read_edges(path)"
        )
    return ending


def _label_array(graph: Graph) -> NDArray[Any] | None:
    """The labels as an array of numbers or of text; None where they are 0 .. n-1."""
    if graph.labels == range(graph.size):
        return None
    for kind, type_ in ((int, np.int64), (str, np.str_)):
        if all(type(label) is kind for label in graph.labels):
            return np.array(graph.labels, dtype=type_)
    kinds = (type(label).__name__ for label in graph.labels if type(label) not in (int, str))
    strange = next(kinds, "both")
    raise NetworkError(
        f"labels must be all whole numbers or all words to be saved; found {strange}; "
        "give the graph other labels, e.g. [str(label) for label in graph.labels]"
    )


def _write_npz(graph: Graph, path: Path) -> None:
    parts: dict[str, Any] = {"links": graph.links, "size": graph.size, "directed": graph.directed}
    parts["name"] = graph.name
    labels = _label_array(graph)
    if labels is not None:
        parts["labels"] = labels
    if graph.positions is not None:
        parts["positions"] = graph.positions
    with path.open("wb") as file:
        np.savez(file, **parts)


def _read_npz(path: Path, directed: bool | None) -> Graph:
    try:
        with np.load(path, allow_pickle=False) as file:
            parts = {key: file[key] for key in file.files}
    except (ValueError, EOFError) as error:
        raise NetworkError(f"not an .npz file of plain arrays: {error}") from error
    if "format" in parts:
        return _of_scipy(path, directed)
    ends = _ends(parts)
    labels: Sequence[Hashable] = parts["labels"].tolist() if "labels" in parts else ()
    size = parts.get("size", len(labels) or None)
    one_way = bool(parts.get("directed", False)) if directed is None else directed
    return from_links(
        ends, None if size is None else int(size), labels, one_way,
        str(parts.get("name", path.stem)), parts.get("positions"),
    )  # fmt: skip


def _ends(parts: dict[str, NDArray[Any]]) -> NDArray[Any]:
    if "links" in parts:
        return parts["links"]
    for pair in sorted(HEADERS):
        if all(end in parts and parts[end].ndim == 1 for end in pair):
            return np.stack([parts[pair[0]], parts[pair[1]]], axis=1)
    raise NetworkError(
        f"found the arrays {', '.join(sorted(parts)) or '(none)'}; expected links of shape (m, 2), "
        "or source and target, or a matrix saved by scipy.sparse.save_npz"
    )


def _of_scipy(path: Path, directed: bool | None) -> Graph:
    graph = from_matrix(_extras.load("scipy.sparse").load_npz(path))
    one_way = graph.directed if directed is None else directed
    return Graph(graph.size, graph.links, (), one_way, path.stem)


def _write_parquet(graph: Graph, path: Path) -> None:
    pa, parquet = _extras.load("pyarrow"), _extras.load("pyarrow.parquet")
    labels = _label_array(graph)
    ends = graph.links if labels is None else labels[graph.links]
    about = {"size": graph.size, "directed": graph.directed, "name": graph.name}
    about["labels"] = None if labels is None else labels.tolist()
    columns = {"source": pa.array(ends[:, 0].copy()), "target": pa.array(ends[:, 1].copy())}
    table = pa.table(columns).replace_schema_metadata({METADATA: json.dumps(about)})
    parquet.write_table(table, path)


def _read_parquet(path: Path, directed: bool | None) -> Graph:
    pa, parquet = _extras.load("pyarrow"), _extras.load("pyarrow.parquet")
    try:
        with path.open("rb") as file:
            opened = parquet.ParquetFile(file)
            source, target = _parquet_columns(opened.schema_arrow.names)
            table = opened.read(columns=[source, target])
    except pa.ArrowInvalid as error:
        raise NetworkError(f"not a Parquet file: {error}") from error
    about = json.loads((table.schema.metadata or {}).get(METADATA, b"{}"))
    one_way = bool(about.get("directed", False)) if directed is None else directed
    name = about.get("name", path.stem)
    ends = [_column(table.column(end)) for end in (source, target)]
    if "size" in about and about["labels"] is None:
        return from_links(_stacked(ends), about["size"], (), one_way, name)
    labels, places = _parquet_numbered(ends, about.get("labels"))
    return from_links(places, len(labels), labels, one_way, name)


def _parquet_columns(names: list[str]) -> tuple[str, str]:
    """The columns of sources and targets: those with known names, or the only two."""
    lower = {name.lower(): name for name in names}
    for pairs, swapped in ((HEADERS, False), (REVERSED, True)):
        for a, b in sorted(pairs):
            if a in lower and b in lower and names.index(lower[a]) < names.index(lower[b]):
                return (lower[b], lower[a]) if swapped else (lower[a], lower[b])
    if len(names) == 2:
        return names[0], names[1]
    raise NetworkError(f"found the columns {', '.join(names)}; expected source and target")


def _column(end: Any) -> Any:
    """A column of ends, complete and of whole numbers or text."""
    types = _extras.load("pyarrow.types")
    if end.null_count:
        raise NetworkError(f"{end.null_count} links lack an end; remove or complete them")
    plain = end.cast(end.type.value_type) if types.is_dictionary(end.type) else end
    kinds = (types.is_integer, types.is_string, types.is_large_string)
    if not any(fits(plain.type) for fits in kinds):
        raise NetworkError(f"ends must be whole numbers or words; found {end.type}")
    return plain


def _stacked(ends: list[Any]) -> NDArray[Any]:
    kind = np.result_type(*(end.type.to_pandas_dtype() for end in ends))
    pairs = np.empty((len(ends[0]), 2), dtype=kind if kind.kind in "iu" else np.int64)
    for k, end in enumerate(ends):
        pairs[:, k] = end.to_numpy()
    return pairs


def _parquet_numbered(
    ends: list[Any], order: list[Hashable] | None
) -> tuple[Sequence[Hashable], NDArray[Any]]:
    """The labels, in the order given or as a CSV would have them, and the links as indices."""
    pa, compute = _extras.load("pyarrow"), _extras.load("pyarrow.compute")
    if order is None and all(pa.types.is_integer(end.type) for end in ends):
        return _whole(_stacked(ends))
    values = pa.chunked_array([chunk.cast(ends[0].type) for end in ends for chunk in end.chunks])
    distinct = compute.unique(values) if order is None else pa.array(order, type=ends[0].type)
    places = compute.index_in(values, value_set=distinct)
    if places.null_count:
        raise NetworkError("a link's end is not among the labels of the file; save it again")
    return distinct.to_pylist(), places.to_numpy().reshape(2, -1).T


def _whole(pairs: NDArray[Any]) -> tuple[Sequence[Hashable], NDArray[Any]]:
    """Whole numbers as labels, sorted: 0 .. n-1 where none is missing, as is usual when large."""
    if pairs.size and pairs.min() == 0 and pairs.max() < 4 * pairs.size:
        there = np.zeros(int(pairs.max()) + 1, dtype=np.bool_)
        there[pairs[:, 0]] = there[pairs[:, 1]] = True
        if there.all():
            return range(len(there)), pairs
    values, places = np.unique(pairs, return_inverse=True)
    return values.tolist(), places.reshape(-1, 2)
