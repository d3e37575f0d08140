"""How much of an estimate comes from each round.

Weights that conserve mass turn a law into a recursion of one number, the mean y_t of nu_t:

    y_t = (keep + mix) y_{t-1} + recall y_{t-2} + learn xi_t + noise d_t.

The share of round tau in y_T is learn_tau g_tau for the statistic and noise_tau g_tau for the
noise, where g runs backwards: g_T = 1, g_tau = (keep+mix)_{tau+1} g_{tau+1} + recall_{tau+2}
g_{tau+2}. The laws that learn the mean have shares of the statistic that add up to 1. Noise that
messages carry has `Law.noise_gain` at 1 in place of noise_tau: 0 where it cancels in the mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from murmura.laws.base import Law


@dataclass(frozen=True, eq=False)
class Response:
    """Shares of rounds 0..T in the mean estimate at round T."""

    statistic: NDArray[np.float64]
    noise: NDArray[np.float64]
    edge: NDArray[np.float64]


def response(law: Law, rounds: int) -> Response:
    """Work out the shares of every round in the mean estimate after `rounds` rounds."""
    steps = [law.at(t) for t in range(rounds + 1)]
    gain = np.zeros(rounds + 3)
    gain[rounds] = 1.0
    for tau in range(rounds - 1, -1, -1):
        gain[tau] = (steps[tau + 1].keep + steps[tau + 1].mix) * gain[tau + 1]
        if tau + 2 <= rounds:
            gain[tau] += steps[tau + 2].recall * gain[tau + 2]
    entering = np.array(steps)[:, 3:]
    entering[:, 1] = [law.noise_gain(t, 1.0) for t in range(rounds + 1)]
    shares = entering * gain[: rounds + 1, None]
    if law.ratio:
        shares = shares / shares[:, 0].sum()
    return Response(statistic=shares[:, 0], noise=shares[:, 1], edge=shares[:, 2])
