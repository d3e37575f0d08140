"""Exact noise: draws per second with entropy of the operating system, against numpy's Laplace."""

from typing import Any

import numpy as np

from benchmarks.clock import best
from veilsum.privacy import LaplaceMechanism

COUNT = 200_000


def measure() -> Any:
    values, rng = np.zeros(COUNT), np.random.default_rng(1)
    exact = best(lambda: LaplaceMechanism(1.0, 1.0).release(values))
    floating = best(lambda: rng.laplace(size=COUNT))
    yield {
        "what": "exact Laplace, draws per second",
        "measured": COUNT / exact,
        "target": ">= 30000",
        "met": COUNT / exact >= 30_000,
        "detail": f"{exact / floating:.1f} times the time of numpy's floating-point Laplace",
    }
