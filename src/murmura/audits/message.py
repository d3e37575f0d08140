"""One message under attack: what it tells of a neighbour's estimate (Network DP).

The adversary sees one message of an agent and knows everything but the estimate of one neighbour,
which may be moved by 1. The message is computed as an agent computes it: its row, the law's own
round, the calibrated noise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from murmura import laws
from murmura.audits.transcript import Transcript
from murmura.engine import Problem, noise
from murmura.errors import PrivacyError
from murmura.privacy import NoPrivacy, calibrate

Floats = NDArray[np.float64]


def message(problem: Problem, agent: int, t: int, background: float) -> Transcript:
    """Make a mechanism: a neighbour's estimate -> the agent's message of round t, run after run.

    The neighbour is the one that weighs most; all other estimates are 0.
    """
    if isinstance(problem.want, NoPrivacy):
        raise PrivacyError("nothing is promised without protection, so there is nothing to audit")
    made = calibrate(problem.want, problem.law, problem.family, problem.network, problem.rounds)
    assert made is not None
    row = problem.network.at(t)[[agent]].toarray().ravel()
    row[agent] = 0.0
    weight, signals = row.max(), np.full((problem.network.size, 1), background)
    xi = float(problem.family.columns(signals)[agent].ravel()[0])
    b = (
        float(made.scale(signals, problem.want.epsilon, t)[agent, 0])
        if problem.law.at(t).noise
        else 0.0
    )

    def mechanism(estimate: float, trials: int, rng: np.random.Generator) -> Floats:
        draws = noise.laplace(int(rng.integers(2**63)), t, agent, np.arange(trials))
        state = laws.State(np.zeros(trials), np.zeros(trials))
        mixed, statistic = np.full(trials, weight * estimate), np.full(trials, xi)
        return np.asarray(laws.advance(problem.law, t, state, mixed, statistic, b * draws).nu)

    return mechanism
