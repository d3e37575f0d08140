"""Results as text and as plain data: summary.json, and the paragraph that `print(result)` shows.

Several runs over the same measured signals compose: every run is a release, so replicas, epsilons
and variants add up. By basic composition, runs with (eps_l, delta_l) are together

    (sum eps_l, sum delta_l)-DP

for what may change in all of them, against an adversary who sees them all.
"""

from __future__ import annotations

import dataclasses
import json
import math
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from veilsum import __version__
from veilsum.privacy import Guarantee, Status
from veilsum.results import units
from veilsum.results.dataset import SECRET, describe_network, mechanisms_of
from veilsum.simulation.limits import clipping, spread

if TYPE_CHECKING:
    from veilsum.families.base import Interval
    from veilsum.results.intervals import NamedIntervals
    from veilsum.results.result import Result

Runs = Sequence[tuple[Guarantee, int]]  # the guarantee of a run, and how many such runs


@dataclass(frozen=True)
class Provenance:
    """Where a result comes from: the scenario and its seed.

    Attributes
    ----------
    name, title
        Of the scenario.
    scenario
        The file.
    scenario_sha256
        The digest of its text.
    seed
        Of the first variant.

    Examples
    --------
    >>> Provenance("first", "A ring", "first.toml", "0" * 64, 1).name
    'first'
    """

    name: str
    title: str
    scenario: str
    scenario_sha256: str
    seed: int


def protects_signals(guarantee: Guarantee) -> bool:
    """Whether anything is guaranteed for the signals."""
    if guarantee.status in (Status.PROVED, Status.CLAIMED, Status.ESTIMATED):
        return True
    return guarantee.signals is not None and protects_signals(guarantee.signals)


def compose(runs: Runs) -> Guarantee:
    """The guarantee of all runs together; they protect the same unit (`Guarantee.for_runs`)."""
    first, *others = [guarantee for guarantee, times in runs for _ in range(times)]
    return first.for_runs(others)


def combined_guarantee(results: Mapping[str, Result]) -> Guarantee | None:
    """What all results on measured signals guarantee together; None if none can be released.

    Where they protect different units, the common part counts: the signals alone, moving by the
    smallest radius.
    """
    runs: Runs = [
        (result.run_guarantee(epsilon), result.problem.replicas)
        for result in results.values()
        if result.measured and result.releasable
        for epsilon in result.problem.run_epsilons
    ]
    if not runs:
        return None
    if len({(guarantee.unit, guarantee.adversary) for guarantee, _ in runs}) > 1:
        runs = _in_common(runs)
    if len({guarantee.unit for guarantee, _ in runs}) > 1:
        reason = "the variants measure moves of a signal in different ways, which do not add up"
        return replace(runs[0][0], status=Status.NONE, reason=reason, runs=())
    return compose(runs)


def _in_common(runs: Runs) -> Runs:
    alone = [(guarantee.signals or guarantee, times) for guarantee, times in runs]
    radius = min(guarantee.unit.radius for guarantee, _ in alone)
    online = any(guarantee.unit.online for guarantee, _ in alone)
    return [
        (replace(guarantee, unit=replace(guarantee.unit, radius=radius, online=online)), times)
        for guarantee, times in alone
    ]


def summary(results: Mapping[str, Result]) -> dict[str, Any]:
    """The content of summary.json.

    Parameters
    ----------
    results
        Results by name.

    Returns
    -------
    dict
        Everything about the runs except the arrays; numbers that are not finite are null. The seed,
        and the digest of a text that contains it, are left out if a signal was measured.
        `guarantee` is what all runs on measured signals guarantee together.

    Examples
    --------
    >>> import veilsum
    >>> scenario = veilsum.Scenario.parse(veilsum.scenario.template()).with_(replicas=1)
    >>> summary(veilsum.run(scenario))["variants"]["average"]["algorithm"]["rounds"]
    60
    """
    provenance = next((r.provenance for r in results.values() if r.provenance is not None), None)
    origin = {} if provenance is None else dataclasses.asdict(provenance)
    if any(result.measured and result.problem.seed_is_known for result in results.values()):
        origin.pop("scenario_sha256", None)
    if any(result.measured for result in results.values()):
        origin.pop("seed", None)
    combined = combined_guarantee(results)
    return _dictionary(
        {
            **origin,
            "versions": versions(),
            "guarantee": None if combined is None else _with_sentence(combined),
            "variants": {name: variant_summary(result) for name, result in results.items()},
        }
    )


def evaluation_summary(results: Mapping[str, Result]) -> dict[str, Any]:
    """The content of evaluation.secret.json, by variant: errors, targets, noiseless estimates."""
    return _dictionary(
        {
            "secret": SECRET,
            "variants": {
                name: {
                    "target": result.trace.target,
                    "results": [
                        _compared(result, e) for e in result.problem.run_epsilons or (None,)
                    ],
                }
                for name, result in results.items()
            },
        }
    )


def versions() -> dict[str, str]:
    """The versions of the software that computed the numbers; what is not installed did not."""
    used = {}
    for name in ("numpy", "scipy", "numba"):
        with suppress(PackageNotFoundError):
            used[name] = version(name)
    return {"veilsum": __version__, "python": platform.python_version(), **used}


def variant_summary(result: Result) -> dict[str, Any]:
    """One variant: its algorithm, network and family, the guarantee, and a row for each epsilon."""
    problem = result.problem
    return {
        "algorithm": {
            "name": problem.algorithm.name,
            "formula": problem.algorithm.formula,
            "rounds": problem.rounds,
            "options": dataclasses.asdict(problem.algorithm),
        },
        "network": describe_network(problem.network),
        "family": problem.family.name,
        **({"unit": result.unit} if result.unit else {}),
        "protects": problem.privacy.protects.value,
        "mechanism": mechanisms_of(problem),
        **({} if result.measured else {"seed": problem.seed}),
        "replicas": problem.replicas,
        "results": [epsilon_summary(result, e) for e in problem.run_epsilons or (None,)],
        "guarantee": _with_sentence(result.guarantee),
        "notes": result.notes,
        **({} if result.seconds is None else {"seconds": round(result.seconds, 3)}),
    }


def epsilon_summary(result: Result, epsilon: float | None) -> dict[str, Any]:
    """Estimates at one epsilon, which is null without protection; of synthetic signals errors too.

    `intervals` are 95% intervals, by what they are of; the default comes first.

    `guarantee` is that of the first replica, whose estimate it is; `all_replicas` that of all
    replicas, each of which is a release of measured signals. Errors are norms over agents, and per
    agent.
    """
    all_replicas, one = result.guarantee_at(epsilon), result.run_guarantee(epsilon)
    row: dict[str, Any] = {
        "epsilon": epsilon,
        "guarantee": {"status": one.status, "epsilon": one.epsilon, "delta": one.delta},
        "all_replicas": {
            "status": all_replicas.status,
            "epsilon": all_replicas.epsilon,
            "delta": all_replicas.delta,
        },
    }
    if not result.measured:
        row["errors"] = final_errors(result, epsilon)
        root = math.sqrt(result.problem.network.size)
        row["errors_per_agent"] = {n: v / root for n, v in row["errors"].items()}
    values, _ = result.released(epsilon)
    return row | {
        "estimate": values or None,
        "intervals": {
            found.of: {
                "name": found.name,
                "network": _ends(found.network),
                "any_one_agent": _ends(found.agent),
            }
            for found in result.named_intervals(epsilon)
        }
        or None,
    }


def _ends(found: Mapping[str, Interval]) -> dict[str, list[Any]]:
    return {name: [i.low, i.high] for name, i in found.items()}


def final_errors(result: Result, epsilon: float | None) -> dict[str, float]:
    """The errors at the last round for one epsilon, by name: norms over agents."""
    k = result.problem.run_epsilons.index(epsilon) if epsilon is not None else 0
    return {
        name: float(np.atleast_1d(values)[k if np.ndim(values) else 0])
        for name, values in result.errors._asdict().items()
    }


def _compared(result: Result, epsilon: float | None) -> dict[str, Any]:
    intervals = result.intervals(epsilon)
    return {
        "epsilon": epsilon,
        "errors": final_errors(result, epsilon),
        "estimate": {name: i.value for name, i in intervals.items()},
        "interval": _ends(intervals),
        "interval_of": result.interval_of,
    }


def _with_sentence(guarantee: Guarantee) -> dict[str, Any]:
    return guarantee.to_dict() | {"sentence": str(guarantee)}


def as_json(value: Any) -> str:
    """The text of a JSON file."""
    return f"{json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False)}\n"


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


def paragraph(result: Result) -> str:
    """What was run, the estimates, the errors, the guarantee and the notes, as one paragraph."""
    guarantee = result.guarantee if result.measured else result.run_guarantee()
    parts = [_setting(result), _estimates(result), _error_sentence(result), str(guarantee)]
    parts += result.notes
    return " ".join(part for part in parts if part)


def evaluated_limits(results: Mapping[str, Result]) -> Iterator[str]:
    """What measured signals show of clipping and spread: as secret as the signals."""
    for name, result in results.items():
        clipped, deviation = clipping(result.problem), spread(result.problem)
        if clipped is not None and clipped.fraction:
            yield f"{name}: the bounds moved {100 * clipped.fraction:.3g}% of the signals."
        if deviation is not None:
            yield (
                f"{name}: the statistic's standard deviation is {deviation.seen:.4g}, and the family "
                f"assumes {deviation.assumed:.4g} (ratio {deviation.ratio:.3g})."
            )


def _setting(result: Result) -> str:
    problem = result.problem
    runs = f", {problem.replicas} replicas" if problem.replicas > 1 else ""
    return (
        f"Algorithm {problem.algorithm.name} ran {problem.rounds} rounds on "
        f"{describe_network(problem.network)} for family {problem.family.name}{runs}."
    )


def _estimates(result: Result) -> str:
    if not result.releasable:
        return "Nothing protects the signals: estimates belong to the evaluation."
    if result.problem.family.dimension > 1:
        return ""
    values, _ = result.released()
    stated = result.named_intervals()
    terms = [
        units.behind(f"{name} = {_number(value)}", units.of_parameter(result, name))
        + _bars(stated, name)
        for name, value in values.items()
    ]
    at = (
        f"At epsilon = {epsilons[0]:g} the"
        if len(epsilons := result.problem.run_epsilons) > 1
        else "The"
    )
    return f"{at} average agent estimates {', '.join(terms)}."


def _bars(stated: Sequence[NamedIntervals], parameter: str) -> str:
    """The intervals of a parameter with their names, and those of any one agent."""
    said = [
        f"95% interval {found.name} {_between(found.network[parameter])}, any one agent's "
        f"{_between(found.agent[parameter])}"
        for found in stated
    ]
    return f" ({'; '.join(said)})" if said else ""


def _between(bar: Interval) -> str:
    return f"{_number(bar.low)} to {_number(bar.high)}"


def _error_sentence(result: Result) -> str:
    if result.measured:
        return ""
    errors = result.errors
    epsilons = result.problem.run_epsilons
    if len(epsilons) > 1:
        first, last = np.asarray(errors.total)[[0, -1]]
        return (
            f"The total error goes from {_number(first)} at epsilon {epsilons[0]:g} to "
            f"{_number(last)} at epsilon {epsilons[-1]:g}."
        )
    own = result.errors_per_agent
    mine = units.behind(_number(own.total), units.of_statistic(result))
    return (
        f"An agent's error is {mine}, of which privacy {_number(own.privacy)} and "
        f"decentralisation {_number(own.decentralisation)} (root mean square); over all agents "
        f"TE {_number(errors.total)}, CoP {_number(errors.privacy)}, CoD "
        f"{_number(errors.decentralisation)} (l2 norms)."
    )


def _number(value: Any) -> str:
    return f"{float(value):.4g}"
