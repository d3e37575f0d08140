"""Pattern: the sparsity of a graph's weights, laid out once and filled many times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from murmura.network.graph import Graph, Links, undirected

Floats = NDArray[np.float64]
DUST = 1e-12  # a self weight below this is rounding: on regular graphs 1 - d * (1/d) is 0


@dataclass(frozen=True, eq=False)
class Pattern:
    """Where the weights of n agents and m links stand: data = [w, w, diagonal][order]."""

    links: Links
    indices: NDArray[np.int32]
    indptr: NDArray[np.int32]
    order: NDArray[np.int64]

    @classmethod
    def of(cls, graph: Graph) -> Pattern:
        """The pattern of an undirected graph, diagonal included."""
        i, j = undirected(graph).links.T
        own = np.arange(graph.size, dtype=np.int32)
        rows, columns = np.concatenate([i, j, own]), np.concatenate([j, i, own])
        entries = (np.arange(len(rows)), (rows, columns))
        laid = coo_array(entries, shape=(graph.size, graph.size)).tocsr()
        laid.sort_indices()
        return cls(graph.links, laid.indices, laid.indptr, laid.data)

    @property
    def size(self) -> int:
        """The number of agents."""
        return len(self.indptr) - 1

    def fill(self, w: Floats) -> csr_array:
        """a_ij = a_ji = w of the link, a_ii = 1 - sum of the agent's w."""
        i, j = self.links.T
        taken = np.bincount(i, w, self.size) + np.bincount(j, w, self.size)
        own = 1.0 - taken
        own[np.abs(own) < DUST] = 0.0
        data = np.concatenate([w, w, own])[self.order]
        return csr_array((data, self.indices, self.indptr), shape=(self.size, self.size))

    def lazy_metropolis(self, up: NDArray[np.bool_]) -> csr_array:
        """a_ij = 1/(2 max(d_i, d_j)) over the links that are up, d their degrees; 0 elsewhere."""
        degrees = np.bincount(self.links[up].ravel(), minlength=self.size)
        larger = np.maximum(degrees[self.links[:, 0]], degrees[self.links[:, 1]])
        return self.fill(np.where(up, 0.5 / np.maximum(larger, 1), 0.0))
