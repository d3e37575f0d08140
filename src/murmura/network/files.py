"""Graphs as binary files, for sizes at which text is slow: .parquet and .npz.

.npz       `links` (m, 2), or `source` and `target`, or what scipy.sparse.save_npz writes (an
           adjacency matrix); `size`, `directed`, `name`, `labels` and `positions` are optional.
.parquet   two columns of ends, named as in a CSV; whole numbers or words. `Graph.save` adds size,
           name, direction and the order of the labels to the file's metadata.
"""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura.errors import NetworkError
from murmura.network.convert import from_links, from_matrix
from murmura.network.edges import HEADERS, REVERSED
from murmura.network.graph import Graph

FORMATS = (".parquet", ".pq", ".npz")
METADATA = b"murmura.graph"


def read(path: str | os.PathLike[str], *, directed: bool | None = None) -> Graph:
    """The graph of a .parquet or .npz file; `directed` overrides what the file says of itself."""
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
            "for text use network.read_edges(path)"
        )
    return ending


def _label_array(graph: Graph) -> NDArray[Any] | None:
    """The labels as an array of numbers or of words; None where they are 0 .. n-1."""
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
    from scipy.sparse import load_npz

    graph = from_matrix(load_npz(path))
    one_way = graph.directed if directed is None else directed
    return Graph(graph.size, graph.links, (), one_way, path.stem)


def _write_parquet(graph: Graph, path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    labels = _label_array(graph)
    ends = graph.links if labels is None else labels[graph.links]
    about = {"size": graph.size, "directed": graph.directed, "name": graph.name}
    about["labels"] = None if labels is None else labels.tolist()
    columns = {"source": pa.array(ends[:, 0].copy()), "target": pa.array(ends[:, 1].copy())}
    table = pa.table(columns).replace_schema_metadata({METADATA: json.dumps(about)})
    parquet.write_table(table, path)


def _read_parquet(path: Path, directed: bool | None) -> Graph:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with path.open("rb") as file:
            opened = parquet.ParquetFile(file)
            source, target = _columns(opened.schema_arrow.names)
            table = opened.read(columns=[source, target])
    except pa.ArrowInvalid as error:
        raise NetworkError(f"not a Parquet file: {error}") from error
    about = json.loads((table.schema.metadata or {}).get(METADATA, b"{}"))
    one_way = bool(about.get("directed", False)) if directed is None else directed
    name = about.get("name", path.stem)
    ends = [_column(table.column(end)) for end in (source, target)]
    if "size" in about and about["labels"] is None:
        return from_links(_stacked(ends), about["size"], (), one_way, name)
    labels, places = _numbered(ends, about.get("labels"))
    return from_links(places, len(labels), labels, one_way, name)


def _columns(names: list[str]) -> tuple[str, str]:
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
    """A column of ends, complete and of whole numbers or words."""
    from pyarrow import types

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


def _numbered(
    ends: list[Any], order: list[Hashable] | None
) -> tuple[Sequence[Hashable], NDArray[Any]]:
    """The labels, in the order given or as a CSV would have them, and the links as indices."""
    import pyarrow as pa
    from pyarrow import compute

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
