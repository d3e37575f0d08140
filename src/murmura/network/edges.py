"""Edge lists on disk: two columns, `source,target`, one link per line, `#` for comments."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from murmura.errors import NetworkError
from murmura.network.graph import Graph, agent_name

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


def read_edges(path: str | os.PathLike[str], *, directed: bool = False) -> Graph:
    """The graph of an edge-list CSV, with or without a header line.

    A header of `target,source` (or `to,from`, or `head,tail`) says that the columns are swapped.
    Labels that are all whole numbers become sorted integers; others stay strings, in order of
    first appearance. A link given twice counts once, in either direction if undirected.
    """
    lines, sources, targets = _columns(Path(path))
    if not lines:
        raise NetworkError(f"{path} has no links: expected lines of source,target")
    ends, labels = _numbered(sources + targets)
    links = ends.reshape(2, -1).T
    loops = np.flatnonzero(links[:, 0] == links[:, 1])
    if len(loops):
        name = agent_name(labels, int(links[loops[0], 0]))
        raise NetworkError(f"{path}, line {lines[loops[0]]}: self-loop at {name}; remove the line")
    return Graph(len(labels), links, labels, directed, Path(path).stem)


def _columns(path: Path) -> tuple[list[int], list[str], list[str]]:
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


def _numbered(names: list[str]) -> tuple[NDArray[np.int64], Sequence[Hashable]]:
    """The index of every name, and the labels that the indices stand for."""
    if all(map(INTEGER.fullmatch, names)):
        values, ends = np.unique(np.array(list(map(int, names))), return_inverse=True)
        whole = values[0] == 0 and values[-1] == len(values) - 1
        labels: Sequence[Hashable] = range(len(values)) if whole else values.tolist()
        return ends.astype(np.int64), labels
    index = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return np.fromiter(map(index.__getitem__, names), np.int64, len(names)), list(index)
