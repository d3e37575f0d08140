"""How a trace of several ranks compares with one machine's."""

import numpy as np
from job import FIELDS

EXACT = ("private", "clean", "final")  # estimates are the same bits


def differences(trace, path):
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
        found["share"] = abs(trace.statistic_share - float(other["share"])) / trace.statistic_share
    return found


def assert_same(trace, path):
    off = {name: value for name, value in differences(trace, path).items() if value > 1e-12}
    assert not off, off
