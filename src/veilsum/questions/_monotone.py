"""The nearest nondecreasing numbers, by pooling adjacent violators.

    argmin_g sum_i w_i (y_i - g_i)^2   with   g_1 <= g_2 <= ... <= g_m

Blocks that go down are merged to their mean until none does. What is known to be nondecreasing, as a
cumulative count, is never further from the result than from what was released.
"""

from __future__ import annotations

import numpy as np

from veilsum.questions.columns import Floats


def isotonic(values: Floats, weights: Floats | None = None) -> Floats:
    """Pool adjacent violators.

    Parameters
    ----------
    values : array
        (m,).
    weights : array, optional
        (m,), above 0; 1 without them.
    """
    ones = np.ones(len(values)) if weights is None else weights
    mean: list[float] = []
    mass: list[float] = []
    count: list[int] = []
    for value, weight in zip(values.tolist(), ones.tolist(), strict=True):
        one, size = 1, weight
        while mean and mean[-1] >= value:
            before = mass.pop()
            value = (mean.pop() * before + value * size) / (before + size)
            size += before
            one += count.pop()
        mean.append(value)
        mass.append(size)
        count.append(one)
    return np.repeat(np.array(mean), np.array(count, dtype=np.int64))
