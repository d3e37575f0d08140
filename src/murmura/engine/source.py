"""Where signals come from, one round at a time.

A source gives the signals of round t as an array (agents, replicas[, signal dimension]). Drawing
them round by round keeps memory at one round however long the run; a round's draw is a pure
function of (seed, t), so a run can be repeated or resumed from anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from murmura.errors import SignalError

Floats = NDArray[np.float64]
DRAWN_TOGETHER = 65_536  # agents: those of other blocks need not be drawn for them


class Source(Protocol):
    """Signals by round."""

    @property
    def varies(self) -> bool:
        """Whether each replica has signals of its own."""

    @property
    def measured(self) -> bool:
        """Whether they are real: then what is computed of them without noise reaches no file."""

    def signals(self, t: int, replicas: int) -> Floats:
        """Give the signals of round t = 1, 2, ... as (agents, replicas or 1, ...)."""

    def expected(self, family: Any, rounds: int) -> Floats:
        """Give E xi, the target of the online laws."""

    def check(self, family: Any, rounds: int) -> None:
        """Raise unless there are signals for so many rounds, inside the family's support."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """Signals drawn from the family itself, anew for every replica."""

    family: Any
    parameters: Mapping[str, Any]
    agents: int
    seed: int
    varies: bool = True
    measured: bool = False

    def signals(self, t: int, replicas: int) -> Floats:
        """Draw round t: replica r's signals do not depend on how many replicas there are."""
        return self.signals_of(t, replicas, 0, self.agents)

    def signals_of(self, t: int, replicas: int, first: int, last: int) -> Floats:
        """Draw round t for agents first..last-1 alone: only the blocks that they are in."""
        blocks = range(first // DRAWN_TOGETHER, -(-last // DRAWN_TOGETHER))
        drawn = self._block(t, replicas, blocks.start)
        start = blocks.start * DRAWN_TOGETHER
        if len(blocks) == 1:
            return drawn[first - start : last - start]
        out = np.empty((last - first, *drawn.shape[1:]))
        for block in blocks:  # one at a time: all at once would be there twice
            begin = max(block * DRAWN_TOGETHER, first)
            end = min((block + 1) * DRAWN_TOGETHER, last)
            part = drawn if block == blocks.start else self._block(t, replicas, block)
            at = block * DRAWN_TOGETHER
            out[begin - first : end - first] = part[begin - at : end - at]
        return out

    def _block(self, t: int, replicas: int, block: int) -> Floats:
        """A block of agents is a pure function of (seed, t, block)."""
        seed = [self.seed, t, block] if block else [self.seed, t]
        rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed)))
        count = min(DRAWN_TOGETHER, self.agents - block * DRAWN_TOGETHER)
        drawn = self.family.sample(rng, (replicas, count), **self.parameters)
        drawn = np.asarray(drawn, dtype=np.float64).swapaxes(0, 1)
        return drawn if self.family.bounds is None else self.family.support.clip(drawn)

    def expected(self, family: Any, rounds: int) -> Floats:  # noqa: ARG002 - known exactly
        """E xi of the law that is drawn from."""
        return np.asarray(family.mean(**self.parameters), dtype=np.float64)

    def check(self, family: Any, rounds: int) -> None:
        """A sampler never runs out and stays inside its support."""


@dataclass(frozen=True, eq=False)
class Observed:
    """Signals that were measured: the same for every replica, whose noise alone differs."""

    data: Any  # murmura.signals.Signals
    varies: bool = False
    measured: bool = True

    def signals(self, t: int, replicas: int) -> Floats:  # noqa: ARG002 - one set for all
        """Give the readings of round t."""
        return np.asarray(self.data.values[:, t - 1 : t], dtype=np.float64)

    def expected(self, family: Any, rounds: int) -> Floats:
        """Mean of xi over all agents and the rounds that are used."""
        xi = family.columns(self.data.values[:, :rounds])
        return np.asarray(xi.mean(axis=(0, 1)), dtype=np.float64)

    def check(self, family: Any, rounds: int) -> None:
        """Raise unless the readings suffice and lie inside the support."""
        have = self.data.values.shape[1]
        if have < rounds:
            raise SignalError(
                f"the signals have {have} readings per agent and the run needs {rounds}; "
                f"ask for rounds = {have} or fewer, or bring more readings"
            )
        self.data.check(family)
