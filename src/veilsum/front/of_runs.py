"""The sheet of runs: `run`, `sweep` and `estimate`.

An answer is the estimate of all agents together in the first replica, with the interval that belongs to
it; errors are root mean squares of one agent's estimate, over all replicas, and exist where the signals
are drawn, or where the truth is asked for, which makes the sheet as secret as the signals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from veilsum.families.base import SIGNAL
from veilsum.front.screen import ANSWER
from veilsum.front.sheet import Answer, Answers, ordered
from veilsum.front.table import Row, rows_of
from veilsum.front.words import budget, few, listed, promises, sentences, small, with_bar
from veilsum.privacy import Status
from veilsum.results import units
from veilsum.results.combined import combined_guarantee
from veilsum.results.describe import (
    NOT_RELEASABLE,
    describe_network,
    duration_of,
    evaluated_limits,
    mechanisms_of,
    versions,
)

if TYPE_CHECKING:
    from veilsum.front.plot import Picture
    from veilsum.privacy import Guarantee
    from veilsum.results import Result

ONE_SIGNAL, STREAM = "one signal each", "a stream"
ERRORS = ("error", "noise", "disagreement")  # columns and quantities
ERROR = "error: rms of one agent; noise: privacy's part."
SECRET = "SECRET, as secret as the signals: this is compared with the truth."
WITHHELD = "withheld"


def of_runs(
    results: Mapping[str, Result],
    title: str = "",
    truth: bool = False,
    text: str = "",
    hide_seed: bool = False,
) -> Answers:
    """The sheet of runs.

    Parameters
    ----------
    results
        Runs by name.
    title
        Its first line; by default that of the study.
    truth
        Of measured signals: show errors against the truth. The sheet is as secret as the signals then.
    text
        The study file.
    hide_seed
        Whether the seed, and the digest of a text that has it, are left out in any case.

    Returns
    -------
    Answers
        One row for each run, epsilon and parameter.

    Examples
    --------
    >>> import veilsum as vs
    >>> ring, family = vs.networks.metropolis("ring:9"), vs.families.Normal(sigma=1.0)
    >>> source = vs.simulation.SyntheticSignals(family, {"mu": 2.0}, 9, seed=1)
    >>> problem = vs.simulation.Problem(
    ...     ring, vs.algorithms.Average(), family, source, vs.privacy.SignalDP(1.0), rounds=50
    ... )
    >>> of_runs({"ring": vs.api.solve(problem)}).best.name
    'ring'
    """
    compared = {n for n, r in results.items() if truth or not r.measured}
    checked = {name: results[name] for name in compared if results[name].measured}
    secret = bool(checked)
    origin = next((r.provenance for r in results.values() if r.provenance is not None), None)
    name = origin.name if origin is not None else "answers"
    found = [row for n, r in results.items() for row in _answers(n, r, n in compared, results)]
    rows = ordered(found, _ranks(found, results, compared))
    runs = max((r.problem.replicas for r in results.values()), default=1)
    networks = dict.fromkeys(describe_network(r.problem.network) for r in results.values())
    means = f", errors over {runs} runs" if runs > 1 and compared else ""
    about = "; ".join(networks) + means
    made = Answers(
        name=name,
        title=(f"{SECRET} " if secret else "") + (title or _title(results)),
        about=about,
        rows=rows,
        promises=tuple(_promised(dict.fromkeys(row.name for row in rows), results)),
        warnings=sentences(
            [*evaluated_limits(checked), *(w for r in results.values() for w in r.warnings)]
        ),
        legend=(" ".join([*_legend(rows, compared), *_statistics(results)]),),
        notes=sentences(n for r in results.values() for n in r.notes),
        text=text,
        origin=_origin(results, hide_seed),
        curves=lambda: [
            row for n, r in results.items() for row in _curves(n, r, n in compared, results)
        ],
        pictures=lambda: _pictures(made),
        results=results,
        remake=lambda names: of_runs({n: results[n] for n in names}, title, truth, text, hide_seed),
        secret=secret,
    )
    return made


def _title(results: Mapping[str, Result]) -> str:
    """That of the study, or what is estimated."""
    for result in results.values():
        if result.provenance is not None:
            return result.provenance.title
        return f"Estimate of {listed(list(result.problem.family.parameters))}"
    return "No runs"


def _pictures(answers: Answers) -> list[Picture]:
    from veilsum.front.plot import pictures

    return pictures(answers)


def _answers(
    name: str, result: Result, compared: bool, results: Mapping[str, Result]
) -> Iterator[Answer]:
    """A row for each epsilon and parameter; the parameter of most families is one."""
    for epsilon in result.problem.run_epsilons or (None,):
        shared = _shared(name, result, epsilon, results)
        errors = _errors(result, epsilon) if compared else {}
        values, _ = result.released(epsilon)
        if not values:
            known = (
                {ANSWER: WITHHELD} | _cells(errors, shared) | _how(result, shared, epsilon) | errors
            )
            yield Answer(**shared, cells=known)
            continue
        stated = result.named_intervals(epsilon)
        first = stated[0] if stated else None
        for key, value in values.items():
            low, high = (None, None)
            if first is not None and key in first.network:
                low, high = first.network[key].low, first.network[key].high
            unit = units.of_parameter(result, key)
            others = {
                f"± {found.of}": with_bar(
                    value, found.network[key].low, found.network[key].high, unit
                )
                for found in stated[1:]
                if np.size(value) == 1
            }
            yield Answer(
                **shared,
                quantity=key,
                value=value,
                low=_plain(low),
                high=_plain(high),
                unit=unit,
                of=first.name if first is not None else "",
                cells=_cells(errors, shared) | others | _how(result, shared, epsilon) | errors,
            )  # fmt: skip


def _cells(errors: Mapping[str, str], shared: Mapping[str, Any]) -> dict[str, str]:
    """What matters most: error and noise, epsilon."""
    first = {key: errors[key] for key in ERRORS[:2] if key in errors}
    return first | {"epsilon": budget(shared["epsilon"], shared["delta"])}


def _shared(
    name: str, result: Result, epsilon: float | None, results: Mapping[str, Result]
) -> dict[str, Any]:
    one, everything = result.run_guarantee(epsilon), result.guarantee_at(epsilon)
    return {
        "name": name,
        "method": result.problem.algorithm.name,
        "rounds": duration_of(result),
        "status": str(_worse(everything, result)),
        "kind": _kind(result, results),
        "guarantee": result.guarantee,
        "epsilon": math.inf if one.status is Status.NONE else one.epsilon,
        "delta": one.delta,
        "releasable": result.releasable and NOT_RELEASABLE not in result.warnings,
    }


def _worse(promise: Guarantee, result: Result) -> Status:
    """The verdict of a row: none where nothing holds for all that is released of measured signals."""
    nothing = result.measured and result.guarantee.status is Status.NONE
    return Status.NONE if nothing else promise.status


def _kind(result: Result, results: Mapping[str, Result]) -> str:
    """What errors are measured against, so that those of different targets are never in one group."""
    kind = STREAM if result.problem.algorithm.online else ONE_SIGNAL
    formulas = {r.problem.family.formula for r in results.values()}
    return f"{kind}, {result.problem.family.formula}" if len(formulas) > 1 else kind


def _errors(result: Result, epsilon: float | None) -> dict[str, str]:
    unit = units.of_statistic(result)
    total, noise, away = final_errors(result, epsilon)
    return {
        "error": units.behind(small(total), unit),
        "noise": small(noise),
        "disagreement": small(away),
    }


def final_errors(result: Result, epsilon: float | None = None) -> tuple[float, float, float]:
    """Error of one agent at the last round, its noise, and its disagreement: root mean squares."""
    epsilons = result.problem.run_epsilons
    k = epsilons.index(epsilon) if epsilon is not None else 0
    found = (np.atleast_1d(v) for v in result.errors_per_agent)
    total, noise, away = (float(v[k if v.size > 1 else 0]) for v in found)
    return total, noise, away


def _how(result: Result, shared: Mapping[str, Any], epsilon: float | None) -> dict[str, str]:
    replicas = result.problem.replicas
    every = {}
    if result.measured and replicas > 1:
        together = result.guarantee_at(epsilon)
        every = {f"epsilon of all {replicas}": budget(together.epsilon, together.delta)}
    return {**every, "rounds": shared["rounds"], "method": shared["method"]}


def _ranks(rows: Sequence[Answer], results: Mapping[str, Result], compared: set[str]) -> Any:
    """Runs by their error, or the width of their interval, at their first epsilon; then by epsilon."""
    first: dict[str, float] = {}
    for row in rows:
        if row.name in first:
            continue
        if row.name in compared:
            error = final_errors(results[row.name])[0]
            first[row.name] = math.inf if math.isnan(error) else error
        else:
            first[row.name] = math.inf if row.low is None else float(np.max(row.high - row.low))
    names = list(results)
    return lambda row: (first[row.name], names.index(row.name), row.epsilon or 0.0, row.quantity)


def _promised(order: Iterable[str], results: Mapping[str, Result]) -> Iterator[str]:
    """Of the best run first; of a sweep what holds for all of its epsilons."""
    unit = next((r.unit for r in results.values() if r.unit), "")
    together = [name for name, r in results.items() if r.measured and r.releasable]
    combined = combined_guarantee(results) if len(together) > 1 else None
    if combined is not None:
        (said,) = promises({"": combined}, unit)
        cost = (
            ""
            if combined.status is Status.NONE
            else f" ({budget(combined.epsilon, combined.delta)})"
        )
        yield f"All of {few(together)} together{cost}: {said}"
    several = any(len(r.problem.run_epsilons) > 1 for r in results.values())
    measured = any(r.measured for r in results.values())
    if several:
        yield f"Of {'all epsilons together' if measured else 'the largest epsilon'}:"
    yield from promises({name: results[name].guarantee for name in order}, unit)


def _legend(rows: Sequence[Answer], compared: set[str]) -> Iterator[str]:
    """What the bars and the errors are."""
    bars = list(dict.fromkeys(row.of for row in rows if row.of))
    if len(bars) == 1:
        yield f"±: 95% {bars[0]}."
    elif bars:
        yield f"±: 95% {'; '.join(f'{name} {_names(rows, name)}' for name in bars)}."
    if compared:
        yield ERROR


def _statistics(results: Mapping[str, Result]) -> Iterator[str]:
    """That a parameter of measured signals is not their mean, where it is not."""
    formulas = {r.problem.family.formula for r in results.values() if r.measured}
    for formula in sorted(formulas - set(SIGNAL)):
        yield f"Agents average {formula}: a parameter of it is not the mean of s."


def _names(rows: Sequence[Answer], of: str) -> str:
    return f"({few(list(dict.fromkeys(row.name for row in rows if row.of == of)))})"


def _curves(
    name: str, result: Result, compared: bool, results: Mapping[str, Result]
) -> Iterator[Row]:
    """Other intervals of the answers, then the errors of every round."""
    problem, unit = result.problem, units.of_statistic(result)
    for k, epsilon in enumerate(problem.run_epsilons or (None,)):
        shared = _shared(name, result, epsilon, results)
        values, _ = result.released(epsilon)
        for found in result.named_intervals(epsilon):
            for whose, ends in (("all agents", found.network), ("any one agent", found.agent)):
                if whose == "all agents" and found is result.named_intervals(epsilon)[0]:
                    continue  # the answer itself
                for key, i in ends.items():
                    answer = Answer(
                        **shared, quantity=key, value=values[key], low=_plain(i.low),
                        high=_plain(i.high), unit=units.of_parameter(result, key),
                        of=found.name if whose == "all agents" else f"{found.name}, {whose}'s",
                    )  # fmt: skip
                    yield from rows_of(answer)
        if compared:
            yield from _by_round(Answer(**shared, unit=unit), result, k)


def _by_round(answer: Answer, result: Result, k: int) -> Iterator[Row]:
    trace, root = result.trace, math.sqrt(result.problem.network.size)
    (empty,) = rows_of(answer)
    away = trace.decentralisation.mean(axis=-1) / root
    noisy = bool(result.problem.run_epsilons)
    total = trace.total[:, k].mean(axis=-1) / root if noisy else away
    noise = trace.privacy[:, k].mean(axis=-1) / root if noisy else np.zeros_like(away)
    for t in range(_arrival(result), len(away)):
        for quantity, values in zip(ERRORS, (total, noise, away), strict=True):
            yield empty._replace(round=t, quantity=quantity, value=float(values[t]))


def _arrival(result: Result) -> int:
    """The first round with an estimate: that of a stream is 1, of a sum the end of its floods."""
    algorithm = result.problem.algorithm
    first = algorithm.session.arrival if algorithm.session is not None else 0
    return max(first, int(algorithm.online))


def _origin(results: Mapping[str, Result], hide_seed: bool) -> dict[str, str]:
    """What the numbers follow from; the seed of drawn signals only."""
    origin = next((r.provenance for r in results.values() if r.provenance is not None), None)
    measured = any(r.measured for r in results.values())
    known = hide_seed or any(r.measured and r.problem.seed_is_known for r in results.values())
    found: dict[str, str] = {}
    if origin is not None:
        found["study"] = Path(origin.scenario).name
        if not known:
            found["sha256 of the study"] = origin.scenario_sha256
    if not (measured or hide_seed):
        found["seed"] = listed(sorted({str(r.problem.seed) for r in results.values()}) or ["0"])
    families = [r.problem.family for r in results.values()]
    named = dict.fromkeys(f"{family.name}, mean of {family.formula}" for family in families)
    found["family"] = "; ".join(named)
    found["noise"] = ", ".join(dict.fromkeys(r.noise for r in results.values()))
    used = dict.fromkeys(name for r in results.values() for name in mechanisms_of(r.problem))
    if used:
        found["mechanism"] = ", ".join(used)
    return found | versions()


def _plain(value: Any) -> Any:
    if value is None:
        return None
    array = np.asarray(value)
    return array.reshape(-1)[0].item() if array.size == 1 else array
