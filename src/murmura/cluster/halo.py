"""The exchange of a round: what neighbouring ranks hold of the agents that are heard here.

`begin` posts all messages and returns at once; the rows that need none of them are computed in the
meantime; `finish` waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura.cluster.part import Part

Floats = NDArray[np.float64]
TAG = 7


@dataclass(eq=False)
class Exchange:
    """Messages between one rank and its neighbours; buffers are kept from round to round."""

    comm: Any
    part: Part
    _buffers: dict[tuple[int, int], Floats] = field(init=False, default_factory=dict)
    _pending: list[Any] = field(init=False, default_factory=list)

    def begin(self, nu: Floats) -> None:
        """Post the sends of own rows and the receipt of the halo into the rows after them."""
        width = nu.shape[1]
        for q, first, last in self.part.receives:
            self._pending.append(self.comm.Irecv(nu[first:last], source=q, tag=TAG))
        for q, rows in self.part.sends:
            buffer = self._buffers.get((q, width))
            if buffer is None:
                buffer = self._buffers[q, width] = np.empty((len(rows), width))
            np.take(nu, rows, axis=0, out=buffer)
            self._pending.append(self.comm.Isend(buffer, dest=q, tag=TAG))

    def finish(self) -> None:
        """Wait until the halo is here and the sent rows may change."""
        from mpi4py import MPI

        MPI.Request.Waitall(self._pending)
        self._pending.clear()

    def share(self, values: Floats) -> Floats:
        """(own + halo, width): values (own, width) of the own agents with those of the halo."""
        whole = np.empty((len(self.part.places), values.shape[1]))
        whole[: self.part.own] = values
        self.begin(whole)
        self.finish()
        return whole
