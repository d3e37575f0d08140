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
from murmura.privacy import Guarantee
from murmura.report import totals
from murmura.report.dataset import SECRET, describe_network

if TYPE_CHECKING:
    from murmura.report.result import Result


def summary(
    results: Mapping[str, Result],
    about: Mapping[str, Any] | None = None,
    seconds: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Everything about runs but the arrays; numbers that are not finite become null.

    `about` says where they come from. A seed, and a hash of a text that has one, stand there only
    if no signal was measured. `guarantee` is what all runs on measured signals promise together.
    """
    took = seconds or {}
    told = {key: value for key, value in (about or {}).items() if value is not None}
    if any(result.measured and result.problem.seed_is_known for result in results.values()):
        told.pop("scenario_sha256", None)
    if any(result.measured for result in results.values()):
        told.pop("seed", None)
    together = totals.of_all(results)
    return _dictionary(
        {
            **told,
            "versions": versions(),
            "guarantee": None if together is None else _said(together),
            "variants": {name: variant(r, took.get(name)) for name, r in results.items()},
        }
    )


def evaluation(results: Mapping[str, Result]) -> dict[str, Any]:
    """What compares with the truth, by variant: errors, targets and estimates without noise."""
    return _dictionary(
        {
            "secret": SECRET,
            "variants": {
                name: {
                    "target": result.trace.target,
                    "results": [_compared(result, e) for e in result.problem.budgets or (None,)],
                }
                for name, result in results.items()
            },
        }
    )


def versions() -> dict[str, str]:
    """What computed the numbers."""
    used = {name: version(name) for name in ("numpy", "scipy", "numba")}
    return {"murmura": __version__, "python": platform.python_version(), **used}


def variant(result: Result, seconds: float | None = None) -> dict[str, Any]:
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
        **({} if result.measured else {"seed": problem.seed}),
        "replicas": problem.replicas,
        "results": [row(result, e) for e in problem.budgets or (None,)],
        "guarantee": _said(result.guarantee),
        "notes": result.notes,
        **({} if seconds is None else {"seconds": round(seconds, 3)}),
    }


def row(result: Result, epsilon: float | None) -> dict[str, Any]:
    """Estimates at one epsilon, which is null without protection; of drawn signals errors too.

    `promise` is that of the run whose estimate it is, the first replica; `all_replicas` what all of
    them cost, where each is a release. Errors are norms over agents, and per agent.
    """
    made, one = result.guarantee_at(epsilon), result.guarantee_of(epsilon)
    found: dict[str, Any] = {
        "epsilon": epsilon,
        "promise": {"status": one.status, "epsilon": one.epsilon, "delta": one.delta},
        "all_replicas": {"status": made.status, "epsilon": made.epsilon, "delta": made.delta},
    }
    if not result.measured:
        found["errors"] = errors(result, epsilon)
        root = math.sqrt(result.problem.network.size)
        found["errors_per_agent"] = {n: v / root for n, v in found["errors"].items()}
    values, bars = result.found(epsilon)
    wide = result.intervals(epsilon, of="agent") if bars else {}
    return found | {
        "estimate": values or None,
        "interval": bars or None,
        "agent_interval": {name: [i.low, i.high] for name, i in wide.items()} or None,
    }


def errors(result: Result, epsilon: float | None) -> dict[str, float]:
    """The errors at the last round for one epsilon, by name: norms over agents."""
    k = result.problem.budgets.index(epsilon) if epsilon is not None else 0
    return {
        name: float(np.atleast_1d(values)[k if np.ndim(values) else 0])
        for name, values in result.errors._asdict().items()
    }


def _compared(result: Result, epsilon: float | None) -> dict[str, Any]:
    intervals = result.intervals(epsilon)
    return {
        "epsilon": epsilon,
        "errors": errors(result, epsilon),
        "estimate": {name: i.value for name, i in intervals.items()},
        "interval": {name: [i.low, i.high] for name, i in intervals.items()},
    }


def _said(made: Guarantee) -> dict[str, Any]:
    return made.to_dict() | {"sentence": str(made)}


def _dictionary(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: plain(item) for key, item in value.items()}


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
