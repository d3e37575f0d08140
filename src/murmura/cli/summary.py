"""summary.json: what ran, what came out and what is promised, as plain data."""

from __future__ import annotations

import dataclasses
import math
import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from murmura import __version__
from murmura.report.dataset import describe_network

if TYPE_CHECKING:
    from murmura.report import Result
    from murmura.scenario import Scenario


def summary(
    scenario: Scenario, results: Mapping[str, Result], seconds: Mapping[str, float]
) -> dict[str, Any]:
    """Everything about a run but the arrays; numbers that are not finite become null."""
    written: dict[str, Any] = plain(
        {
            "name": scenario.name,
            "title": scenario.title,
            "scenario": scenario.places.where,
            "scenario_sha256": scenario.digest,
            "seed": scenario.variants[0].seed,
            "versions": versions(),
            "variants": {name: variant(r, seconds[name]) for name, r in results.items()},
        }
    )
    return written


def versions() -> dict[str, str]:
    """What computed the numbers."""
    used = {name: version(name) for name in ("numpy", "scipy", "numba")}
    return {"murmura": __version__, "python": platform.python_version(), **used}


def variant(result: Result, seconds: float) -> dict[str, Any]:
    """One variant: its law, network and family, the promise, and a row for each epsilon."""
    problem = result.problem
    return {
        "law": {
            "name": problem.law.name,
            "formula": problem.law.formula,
            "rounds": problem.rounds,
            "options": dataclasses.asdict(problem.law),
        },
        "network": describe_network(problem.network),
        "family": problem.family.name,
        "protects": problem.want.protects,
        "seed": None if result.interval_is_private else problem.seed,
        "replicas": problem.replicas,
        "results": [row(result, k) for k in range(max(len(problem.budgets), 1))],
        "guarantee": result.guarantee.to_dict() | {"sentence": str(result.guarantee)},
        "notes": result.notes,
        "seconds": round(seconds, 3),
    }


def row(result: Result, k: int) -> dict[str, Any]:
    """Errors and estimates at one epsilon, which is null without protection."""
    budgets = result.problem.budgets
    epsilon = budgets[k] if budgets else None
    intervals = result.intervals(epsilon)
    return {
        "epsilon": epsilon,
        "errors": None if result.interval_is_private else errors(result, k),
        "estimate": {name: i.value for name, i in intervals.items()},
        "interval": None
        if result.interval_is_private
        else {name: [i.low, i.high] for name, i in intervals.items()},
    }


def errors(result: Result, k: int) -> dict[str, float]:
    """The errors at the last round for one epsilon, by name: norms over agents."""
    return {
        name: float(np.atleast_1d(values)[k if np.ndim(values) else 0])
        for name, values in result.errors._asdict().items()
    }


def plain(value: Any) -> Any:
    """Data that JSON can hold: arrays as lists, one number as a number, inf and NaN as null."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.item() if value.size == 1 else value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
