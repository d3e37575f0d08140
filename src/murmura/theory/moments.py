"""Second moments of a law, eigenvalue by eigenvalue.

Along an eigenvector of A with eigenvalue lambda a law is a recursion of one number y_t, and what
enters in different rounds is independent. With v_t = Var y_t, c_t = Cov(y_t, y_{t-1}) and u_t the
variance that enters in round t, the law itself gives, applied to covariances,

    c_t = law(v_{t-1}, c_{t-1}),   f_t = Cov(y_t, y_{t-2}) = law(c_{t-1}, v_{t-2}),
    v_t = law(c_t, f_t) + u_t.

What enters at the start is followed by y_t itself and squared, which loses no digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura.laws import Law, State, advance, begin

Floats = NDArray[np.float64]
Inputs = Callable[[int], Floats]  # round -> (eigenvalues or 1, columns): variance that enters


def _step(law: Law, t: int, now: Any, before: Any, values: Floats) -> Floats:
    """law(now, before), nothing entering: now stands for y_{t-1}, before for y_{t-2}."""
    return np.asarray(advance(law, t, State(now, before), values * now, 0 * now, 0 * now).nu)


def impulse(law: Law, values: Floats, rounds: int) -> Iterator[Floats]:
    """y_t for y_0 = 1 and nothing after, t = 0 .. rounds."""
    state = State(np.ones_like(values), np.zeros_like(values))
    yield state.nu
    for t in range(1, rounds + 1):
        state = State(_step(law, t, state.nu, state.before, values), state.nu)
        yield state.nu


def statistic(law: Law, values: Floats, rounds: int) -> Iterator[Floats]:
    """y_t for xi = 1 in every round and no noise: P_t(lambda)."""
    one, zero = np.ones_like(values), np.zeros_like(values)
    state = begin(law, one, zero)
    yield state.nu
    for t in range(1, rounds + 1):
        state = advance(law, t, state, values * state.nu, one, zero)
        yield state.nu


def fresh(law: Law, values: Floats, rounds: int, inputs: Inputs) -> Iterator[Floats]:
    """Var y_t for independent inputs of the given variances in rounds 1, 2, ..."""
    v = c = before = np.zeros_like(values * inputs(1))
    yield v
    for t in range(1, rounds + 1):
        far = _step(law, t, c, before, values)
        c, before = _step(law, t, v, c, values), v
        v = np.maximum(_step(law, t, c, far, values), 0.0) + inputs(t)
        yield v


def spread(law: Law, values: Floats, weights: Floats, rounds: int, inputs: Inputs) -> Floats:
    """(rounds + 1, columns): sum_i weight_i Var y_t(lambda_i), inputs at the start included."""
    column, weight = values[:, None], weights[:, None]
    start = inputs(0)
    total = np.zeros((rounds + 1, start.shape[1]))
    if np.any(start):
        for t, y in enumerate(impulse(law, column, rounds)):
            total[t] += (weight * y**2 * start).sum(axis=0)
    if any(np.any(inputs(t)) for t in range(1, rounds + 1)):
        for t, v in enumerate(fresh(law, column, rounds, inputs)):
            total[t] += (weight * v).sum(axis=0)
    return total / scale(law, rounds)[:, None] ** 2


def scale(law: Law, rounds: int) -> Floats:
    """(rounds + 1,): what a ratio law divides by on doubly stochastic weights; 1 for the others."""
    if not law.ratio:
        return np.ones(rounds + 1)
    weight = np.concatenate(list(statistic(law, np.ones(1), rounds)))
    return np.where(weight == 0, 1.0, weight)
