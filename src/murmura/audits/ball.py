"""The part of a network that one agent can have heard of.

After R rounds an agent's estimate depends on agents at most R hops away, so its first R messages
can be reproduced exactly on that ball: a few agents instead of thousands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Ball:
    """The rows and columns of a network's weights within some hops of an agent, or of several.

    Rows at the rim have lost weight: what is computed there is wrong, and reaches the centre only
    after the rounds the ball was cut for.
    """

    network: Any
    members: NDArray[np.int64]
    centre: int

    @property
    def size(self) -> int:
        """How many agents are inside."""
        return len(self.members)

    @property
    def labels(self) -> list[Any]:
        """Their labels."""
        return [self.network.labels[i] for i in self.members]

    @property
    def kind(self) -> str:
        """As the whole network."""
        return str(self.network.kind)

    @property
    def dynamic(self) -> bool:
        """As the whole network."""
        return bool(self.network.dynamic)

    @property
    def largest_neighbour_weight(self) -> NDArray[np.float64]:
        """Of the whole network, so that the noise is the same."""
        return np.asarray(self.network.largest_neighbour_weight)[self.members]

    @property
    def stationary(self) -> NDArray[np.float64]:
        """Nothing here depends on the limit."""
        return np.full(self.size, 1 / self.size)

    def at(self, t: int) -> Any:
        """The weights of round t between members."""
        inner = self.network.at(t)[self.members][:, self.members].tocsr()
        inner.indices, inner.indptr = inner.indices.astype(np.int32), inner.indptr.astype(np.int32)
        return inner


def ball(network: Any, agents: int | Sequence[int], hops: int) -> Ball:
    """Cut out what an agent, or several, can have heard of after `hops` rounds."""
    reached, inner = np.zeros(network.size), np.atleast_1d(agents)
    reached[inner] = 1.0
    rounds = range(1, hops + 1 if network.dynamic else 2)
    links = [abs(network.at(t)) for t in rounds]
    for _ in range(hops):
        if reached.all():
            break
        near = sum(A @ reached + A.T @ reached for A in links)
        reached = np.minimum(reached + near, 1.0)
    members = np.flatnonzero(reached)
    return Ball(network, members, int(np.searchsorted(members, inner[0])))
