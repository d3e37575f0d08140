"""The mechanism as it is: what agents send, run after run, through the simulator itself.

A transcript is what an adversary sees of a run: the messages of one agent, or of all agents, over
a number of rounds. Auditing it attacks law, calibration and noise together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura.audits.ball import ball
from murmura.engine import Problem, Record, simulate
from murmura.errors import PrivacyError
from murmura.privacy import NoPrivacy, Want

Floats = NDArray[np.float64]
Transcript = Callable[[float, int, np.random.Generator], Floats]

MOST_NUMBERS = 20_000_000  # kept at once: estimates of all agents, rounds and runs of a batch


@dataclass(frozen=True, eq=False)
class Planted:
    """A background that is the same for all, with one agent's signal planted in it."""

    background: Floats  # (agents,)
    agent: int
    signal: float
    varies: bool = False
    measured: bool = False

    def signals(self, t: int, replicas: int) -> Floats:  # noqa: ARG002 - one set for all
        """Plant the signal in round 1; later rounds are background, for one reading changes."""
        signals = self.background.copy()
        if t == 1:
            signals[self.agent] = self.signal
        return signals[:, None]

    def expected(self, family: Any, rounds: int) -> Floats:  # noqa: ARG002 - nobody asks
        """Give a target that no transcript depends on."""
        return np.zeros(family.dimension)

    def check(self, family: Any, rounds: int) -> None:
        """Planted signals are chosen inside the support."""


def transcript(
    problem: Problem, agent: int, rounds: int, background: float, everyone: bool = False
) -> Transcript:
    """Make a mechanism: planted signal -> messages of rounds 0..rounds, one row per run."""
    if problem.family.signal_shape:
        raise PrivacyError("transcripts are audited for signals that are single numbers")
    if not everyone:
        inside = ball(problem.network, agent, rounds)
        want = among(problem.want, inside.members)
        problem, agent = replace(problem, network=inside, want=want), inside.centre
    labels = list(problem.network.labels)
    record = Record(every=1, agents=None if everyone else [labels[agent]])
    batch = max(1, MOST_NUMBERS // (len(labels) * (rounds + 2)))
    signals = np.full(len(labels), background)

    def mechanism(signal: float, trials: int, rng: np.random.Generator) -> Floats:
        parts = []
        for first in range(0, trials, batch):
            run = replace(
                problem,
                source=Planted(signals, agent, signal),
                rounds=max(rounds, 1),
                horizon=problem.rounds,
                epsilons=(),
                replicas=min(batch, trials - first),
                seed=int(rng.integers(2**63)),
            )
            parts.append(_sent(run, record)[:, : rounds + 1].reshape(run.replicas, -1))
        return np.concatenate(parts)

    return mechanism


def among(want: Want, members: NDArray[np.int64]) -> Want:
    """Ask for the same protection for some of the agents, whose budgets may be their own."""
    if isinstance(want, NoPrivacy) or want.shares is None:
        return want
    return replace(want, shares=tuple(want.shares[i] for i in members))


def _sent(run: Problem, record: Record) -> Floats:
    """What was sent, as (run, round, agent, component)."""
    sent = simulate(run, record).private
    assert sent is not None
    return np.moveaxis(sent[:, :, 0], 2, 0)
