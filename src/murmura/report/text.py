"""A result in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from murmura.engine.limits import clipping, spread
from murmura.privacy import Guarantee
from murmura.report.dataset import describe_network

if TYPE_CHECKING:
    from murmura.report.result import Result


def paragraph(result: Result) -> str:
    """What was run, what came out and what is promised."""
    parts = [_what(result), _found(result), _errors(result), str(_stated(result)), *result.notes]
    return " ".join(part for part in parts if part)


def _stated(result: Result) -> Guarantee:
    """The promise that goes with the estimate: its own epsilon's, or all runs' if measured."""
    return result.guarantee if result.measured else result.guarantee_of()


def evaluated_limits(results: Mapping[str, Result]) -> Iterator[str]:
    """What measured signals show of clipping and spread: secrets, for whoever has the signals."""
    for name, result in results.items():
        clipped, found = clipping(result.problem), spread(result.problem)
        if clipped is not None and clipped.share:
            yield f"{name}: the bounds moved {100 * clipped.share:.3g}% of the signals."
        if found is not None:
            yield (
                f"{name}: the statistic's standard deviation is {found.seen:.4g}, and the family "
                f"assumes {found.assumed:.4g} (ratio {found.ratio:.3g})."
            )


def _what(result: Result) -> str:
    problem = result.problem
    runs = f", {problem.replicas} replicas" if problem.replicas > 1 else ""
    return (
        f"Law {problem.law.name} ran {problem.rounds} rounds on "
        f"{describe_network(problem.network)} for family {problem.family.name}{runs}."
    )


def _found(result: Result) -> str:
    if not result.releases:
        return "Nothing protects the signals: estimates belong to the evaluation."
    if result.problem.family.dimension > 1:
        return ""
    values, bars = result.found()
    words = [f"{name} = {_number(value)}{_bar(bars.get(name))}" for name, value in values.items()]
    anyone = _anyone(result) if bars else ""
    at = f"At epsilon = {budgets[0]:g} the" if len(budgets := result.problem.budgets) > 1 else "The"
    return f"{at} average agent estimates {', '.join(words)}{anyone}."


def _anyone(result: Result) -> str:
    """The interval of any one agent's estimate, where agents do not agree yet."""
    bars = result.intervals(of="agent")
    words = [f"{_number(i.low)} to {_number(i.high)}" for i in bars.values()]
    return f"; any one agent's interval is {', '.join(words)}"


def _bar(ends: tuple[Any, Any] | None) -> str:
    """The interval, where there is one to show."""
    if ends is None:
        return ""
    return f" (95% interval {_number(ends[0])} to {_number(ends[1])})"


def _errors(result: Result) -> str:
    if result.measured:
        return ""
    errors = result.errors
    budgets = result.problem.budgets
    if len(budgets) > 1:
        first, last = np.asarray(errors.total)[[0, -1]]
        return (
            f"The total error goes from {_number(first)} at epsilon {budgets[0]:g} to "
            f"{_number(last)} at epsilon {budgets[-1]:g}."
        )
    own = result.errors_per_agent
    return (
        f"An agent's error is {_number(own.total)}, of which privacy {_number(own.privacy)} and "
        f"decentralisation {_number(own.decentralisation)} (root mean square); over all agents "
        f"TE {_number(errors.total)}, CoP {_number(errors.privacy)}, CoD "
        f"{_number(errors.decentralisation)} (l2 norms)."
    )


def _number(value: Any) -> str:
    return f"{float(value):.4g}"
