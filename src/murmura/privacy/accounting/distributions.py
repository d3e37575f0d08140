"""Tight composition through privacy loss distributions (dp_accounting; extra `accounting`).

The loss log(dP/dQ) of independent releases adds up, so its distribution is a convolution, and
delta(eps') = E_P[(1 - e^{eps' - loss})_+]. dp_accounting rounds losses pessimistically onto a grid:
what it returns is an upper bound.

The exact sampler's discrete Laplace has a sensitivity of some 2^40 steps, too many to tabulate. A
coarser grid is an upper bound. With q = e^{-a} on the fine grid and Q = q^c on every c-th point,

    DL(q) = DL(Q) + U - U',    U, U' independent on 0..c-1 with P(u) ~ q^u,

because the characteristic functions (1-q)^2/|1 - q e^{it}|^2 and (1-Q)^2/|1 - Q e^{ict}|^2 differ
by the factor |sum_u q^u e^{iut}|^2 up to its value at 0. So the fine mechanism is a post-processing
of the coarse one, and rounding the sensitivity up to whole coarse steps only adds to the loss (the
noise is log-concave: the best test is a half-line, and a larger shift is told apart more easily).
"""

from __future__ import annotations

import math
from collections import Counter
from importlib import import_module
from typing import Any

from murmura.errors import MissingExtraError
from murmura.privacy.accounting.losses import DISCRETE_LAPLACE, LAPLACE, Loss

INTERVAL = 1e-4  # of the grid of losses; finer where epsilons are small
POINTS = 1_000_000  # and never more than this many of them
STEPS = 1024  # of a discrete Laplace, before it is made coarser


def tight(counts: Counter[Loss], delta: float) -> float:
    """The least epsilon at `delta` of all the releases together, as an upper bound."""
    module = _dp_accounting()
    interval = _interval(counts)
    together: Any = None
    for loss, count in sorted(counts.items(), key=lambda item: repr(item[0])):
        alone = _distribution(module, loss, interval)
        repeated = alone.self_compose(count) if count > 1 else alone
        together = repeated if together is None else together.compose(repeated)
    return float(together.get_epsilon_for_delta(delta))


def available() -> bool:
    """Whether dp_accounting can be imported."""
    try:
        _dp_accounting()
    except MissingExtraError:
        return False
    return True


def _dp_accounting() -> Any:
    try:
        return import_module("dp_accounting.pld.privacy_loss_distribution")
    except ImportError as error:
        raise MissingExtraError(
            "tight composition needs dp_accounting: pip install 'murmura[accounting]'; "
            "method='optimal' needs nothing"
        ) from error


def _interval(counts: Counter[Loss]) -> float:
    total = math.fsum(loss.epsilon * count for loss, count in counts.items())
    least = min(loss.epsilon for loss in counts)
    return max(total / POINTS, min(INTERVAL, least / 100))


def _distribution(module: Any, loss: Loss, interval: float) -> Any:
    grid = {"value_discretization_interval": interval}
    if loss.mechanism == LAPLACE:
        return module.from_laplace_mechanism(loss.parameter, **grid)
    if loss.mechanism == DISCRETE_LAPLACE:
        decay, steps = coarse(loss)
        return module.from_discrete_laplace_mechanism(
            decay, sensitivity=steps, use_connect_dots=True, **grid
        )
    common = import_module("dp_accounting.pld.common")
    price = common.DifferentialPrivacyParameters(loss.epsilon, loss.delta)
    return module.from_privacy_parameters(price, **grid)


def coarse(loss: Loss) -> tuple[float, int]:
    """(a c, ceil(m / c)): decay per coarse step and steps, for m fine steps of decay a = eps/m."""
    m = int(loss.parameter or 1)
    c = -(-m // STEPS)
    return loss.epsilon / m * c, -(-m // c)
