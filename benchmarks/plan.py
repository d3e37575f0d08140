"""A plan on the US power grid, against all eigenvalues of its weights, which it once computed."""

import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.clock import row
from veilsum import networks, theory
from veilsum.scenario import Scenario
from veilsum.simulation import Problem

EXAMPLE = Path(__file__).parents[1] / "examples" / "us-power-grid.toml"


def seconds(problem: Problem) -> float:
    """Processor time of one plan."""
    began = time.process_time()
    theory.plan(problem)
    return time.process_time() - began


def measure() -> Any:
    example = Scenario.load(EXAMPLE)
    planned = max(
        seconds(example.build(variant).problem) for variant in ("local", "offline-network")
    )
    matrix = networks.metropolis("us-power-grid").weights.toarray()
    began = time.process_time()
    np.linalg.eigvalsh(matrix)
    whole = time.process_time() - began
    yield row(
        "a plan on the US power grid, times all eigenvalues of one of its weights",
        planned / whole, "< 0.5", planned < 0.5 * whole,
        f"{planned:.1f} s of processor time for all candidates, the slower of two kinds of noise; "
        f"{whole:.1f} s for one spectrum",
    )  # fmt: skip
