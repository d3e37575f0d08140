"""How a trace of several ranks compares with one machine's."""

from typing import Any

import numpy as np

from tests.mpi.job import FIELDS

EXACT = ("private", "noiseless", "final")  # estimates are the same bits


def differences(trace: Any, path: Any) -> Any:
    """The largest relative difference of every field; estimates count if any bit differs."""
    found = {}
    with np.load(path) as other:
        for name in FIELDS:
            mine = getattr(trace, name)
            if mine is None:
                assert name not in other
                continue
            assert mine.shape == other[name].shape, name
            if name in EXACT:
                found[name] = 0.0 if np.array_equal(mine, other[name]) else np.inf
            elif mine.size:
                scale = max(np.abs(mine).max(), 1e-300)
                found[name] = float(np.abs(mine - other[name]).max() / scale)
        found["gain"] = abs(trace.statistic_gain - float(other["gain"])) / trace.statistic_gain
    return found


def assert_same(trace: Any, path: Any) -> None:
    off = {name: value for name, value in differences(trace, path).items() if value > 1e-12}
    assert not off, off
