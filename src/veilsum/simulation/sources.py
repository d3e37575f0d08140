"""Sources of signals: drawn from a family, or measured.

A source gives the signals of round t as an array (agents, replicas[, signal dimension]). Drawing
them round by round keeps memory at one round however long the run; a round's draw is a pure
function of (seed, t), so a run can be repeated or resumed from any round.
`veilsum._types.SignalSource` is the protocol that both classes satisfy.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from veilsum._types import Family, Floats
from veilsum.errors import SignalError

if TYPE_CHECKING:
    from veilsum.signals import Signals

FEW = 20_000  # signals up to which nothing is gained by compiled code
DRAWN_TOGETHER = 65_536  # agents: those of other blocks need not be drawn for them


@dataclass(frozen=True, eq=False)
class SyntheticSignals:
    """Signals drawn from a family, independently for every agent, round and replica.

    Parameters
    ----------
    family
        The family to draw from; its bounds, if any, clip what is drawn.
    parameters
        The family's parameters, such as {"mu": 10.0}.
    agents
        The number of agents.
    seed
        The seed: round t is a pure function of (seed, t).
    varies, measured
        As in `SignalSource`: each replica has its own signals, and they are no real data.

    Examples
    --------
    >>> import veilsum as vs
    >>> source = SyntheticSignals(vs.families.Bernoulli(), {"p": 0.25}, agents=4, seed=1)
    >>> source.signals(t=1, replicas=3).shape
    (4, 3)
    >>> source.expected(source.family, rounds=10)
    array([0.25])
    """

    family: Family
    parameters: Mapping[str, Any]
    agents: int
    seed: int
    varies: bool = True
    measured: bool = False

    def signals(self, t: int, replicas: int) -> Floats:
        """The signals of round t; those of replica r do not depend on how many replicas there are."""
        return self.signals_of(t, replicas, 0, self.agents)

    def signals_of(self, t: int, replicas: int, first: int, last: int) -> Floats:
        """The signals of round t of agents first..last-1: only the blocks that they are in are drawn."""
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
        count = min(DRAWN_TOGETHER, self.agents - block * DRAWN_TOGETHER)
        rng = _generator(seed, replicas * count)
        drawn = self.family.sample(rng, (replicas, count), **self.parameters)
        drawn = np.asarray(drawn, dtype=np.float64).swapaxes(0, 1)
        return drawn if self.family.bounds is None else self.family.support.clip(drawn)

    def expected(self, family: Family, rounds: int) -> Floats:  # noqa: ARG002 - known exactly
        """E xi of the distribution."""
        return np.asarray(family.mean(**self.parameters), dtype=np.float64)

    def check(self, family: Family, rounds: int) -> None:
        """Nothing can be missing: signals are drawn for any round, inside the support."""


def _generator(seed: list[int], count: int) -> np.random.Generator:
    """NumPy's generator SFC64, or for many signals the compiled one that draws the same bits."""
    seeded = np.random.SeedSequence(seed)
    if count > FEW and _compiles():
        from veilsum.simulation.normals import Normals

        return Normals(seeded)
    return np.random.Generator(np.random.SFC64(seeded))


def _compiles() -> bool:
    """Whether the compiler is loaded, as in a run: drawing alone is not worth loading it."""
    return "numba" in sys.modules


@dataclass(frozen=True, eq=False)
class RecordedSignals:
    """Measured signals, the same for every replica; replicas differ in their noise alone.

    Parameters
    ----------
    data
        Readings by agent and round, from `veilsum.signals.as_signals`.
    varies, measured
        As in `SignalSource`: the same readings in every replica, and real data.

    Examples
    --------
    >>> import veilsum as vs
    >>> source = RecordedSignals(vs.signals.as_signals([[1.0, 2.0], [3.0, 6.0]]))
    >>> source.expected(vs.families.Normal(sigma=1.0), rounds=2)
    array([3.])
    """

    data: Signals
    varies: bool = False
    measured: bool = True

    def signals(self, t: int, replicas: int) -> Floats:  # noqa: ARG002 - one set for all
        """The readings of round t."""
        return np.asarray(self.data.values[:, t - 1 : t], dtype=np.float64)

    def expected(self, family: Family, rounds: int) -> Floats:
        """Mean of xi over all agents and the rounds that are used."""
        xi = family.columns(self.data.values[:, :rounds])
        return np.asarray(xi.mean(axis=(0, 1)), dtype=np.float64)

    def check(self, family: Family, rounds: int) -> None:
        """Raise unless the readings suffice and lie inside the support."""
        have = self.data.values.shape[1]
        if have < rounds:
            raise SignalError(
                f"the signals have {have} readings per agent and the run needs {rounds}; "
                f"ask for rounds = {have} or fewer, or bring more readings"
            )
        self.data.check(family)
