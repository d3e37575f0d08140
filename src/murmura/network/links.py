"""Links as an array: checked, sorted, each once, with 32 bits for an end."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from murmura.errors import NetworkError
from murmura.network import layout

T = TypeVar("T", bound=np.ndarray[Any, Any])
Links = NDArray[np.integer[Any]]  # of 32 bits once in a Graph


def agent_name(labels: Sequence[Hashable], i: int) -> str:
    """How a message names agent i: its index, with its label where that says more."""
    return f"agent {i}" if labels[i] == i else f"agent {labels[i]!r} (index {i})"


def self_loop(labels: Sequence[Hashable], i: int) -> NetworkError:
    """The error for a link from an agent to itself."""
    return NetworkError(
        f"graph has a self-loop at {agent_name(labels, i)}: an agent always hears itself (a_ii); "
        "remove the link, e.g. graph.remove_edges_from(list(networkx.selfloop_edges(graph)))"
    )


def canonical_links(
    links: Any, size: int, labels: Sequence[Hashable], directed: bool = False
) -> Links:
    """(m, 2), read-only: the links in order and each once, i < j if undirected; or an error."""
    pairs = _in_range(np.asarray(links), size)
    if pairs.dtype == np.int32:
        narrow = frozen(np.ascontiguousarray(pairs))
    else:
        narrow = freeze(pairs.astype(np.int32, order="C"))
    arranged = _arranged_fast if layout.is_large(len(narrow)) else _arranged
    return arranged(narrow, size, labels, directed)


def frozen(array: T) -> T:
    """The array itself if nobody can write to it, else a view through which nobody can."""
    if is_frozen(array):
        return array
    seen = array.view()
    seen.flags.writeable = False
    return seen


def is_frozen(array: NDArray[Any]) -> bool:
    """Whether the array owns its memory and cannot be written."""
    return array.flags.owndata and not array.flags.writeable


def freeze(array: T) -> T:
    """The same array, from now on read-only: for one that its maker gives away."""
    array.flags.writeable = False
    return array


def _in_range(pairs: NDArray[Any], size: int) -> NDArray[Any]:
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int32)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise NetworkError(
            f"links must be pairs of agent indices, shape (m, 2); found shape {pairs.shape} "
            f"of {pairs.dtype}"
        )
    if pairs.min() < 0 or pairs.max() >= size:
        outside = ((pairs < 0) | (pairs >= size)).any(axis=1)
        pair = tuple(pairs[outside.argmax()].tolist())
        raise NetworkError(f"link {pair} is out of range: agents are 0..{size - 1}")
    return pairs


def _arranged(pairs: Links, size: int, labels: Sequence[Hashable], directed: bool) -> Links:
    loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if len(loops):
        raise self_loop(labels, int(pairs[loops[0], 0]))
    ends = pairs if directed else np.sort(pairs, axis=1)
    keys = ends[:, 0].astype(np.int64) * size + ends[:, 1]
    if np.any(np.diff(keys) <= 0):
        keys = np.unique(keys)
    return freeze(np.stack([keys // size, keys % size], axis=1).astype(np.int32))


def _arranged_fast(pairs: Links, size: int, labels: Sequence[Hashable], directed: bool) -> Links:
    from murmura.network import compiled

    loop, ordered = compiled.survey_links(pairs, directed)
    if loop >= 0:
        raise self_loop(labels, int(pairs[loop, 0]))
    if not ordered:
        return freeze(compiled.sort_links(pairs, size, directed))
    return pairs if is_frozen(pairs) else freeze(pairs.copy())
