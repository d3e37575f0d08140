"""What a rank has so far of a run: its state, its sums of squares, the estimates it keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura.cluster.collect import gathered
from murmura.cluster.comm import total
from murmura.cluster.run import Run

Floats = NDArray[np.float64]


class Held:
    """What a rank has so far: its run, its sums of squares and the estimates it keeps."""

    def __init__(self, run: Run, rows: list[int] | slice, kept: list[int]) -> None:
        """Keep the estimates of `rows` in the rounds `kept`."""
        self.run, self.kept = run, kept
        self.count, self.slots, self.local = _mine(run, rows)
        self.sums: list[Floats] = []
        self.before: list[Floats] = []  # sums over all ranks of the rounds before a checkpoint
        self.stored: list[Floats] = []

    def take(self, t: int) -> None:
        """Take round t."""
        self.sums.append(self.run.advance(t))
        if t in self.kept:
            self.stored.append(self.run.estimates(self.local).copy())

    def reduced(self) -> Floats:
        """(rounds so far, 3, columns): the sums over all agents, one reduction for all rounds."""
        fresh = [total(self.run.comm, np.array(self.sums))] if self.sums else []
        return np.concatenate([*self.before, *fresh])

    def gathered(self) -> list[Floats | None]:
        """The kept estimates of all agents, on rank 0."""
        return [gathered(self.run.comm, self.slots, s, self.count) for s in self.stored]


def _mine(run: Run, rows: list[int] | slice) -> tuple[int, NDArray[Any], Any]:
    """How many agents are kept, which of them are here, and in which of this rank's rows."""
    agents = run.part.agents[: run.part.own].astype(np.int64)
    if isinstance(rows, slice):
        return run.problem.network.size, agents, slice(None)
    by_agent = np.argsort(agents)
    spot = np.searchsorted(agents[by_agent], rows).clip(max=len(agents) - 1)
    here = np.flatnonzero(agents[by_agent[spot]] == np.array(rows))
    return len(rows), here, by_agent[spot[here]]
