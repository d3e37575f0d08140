"""Results as one HTML page to read: answer, picture, guarantee, errors, and how to make them again.

The page fetches nothing and needs no script. What it holds is what the other outputs hold: of
synthetic signals everything, of measured ones what may be released, and what compares with the truth
only in a page of its own, on request, which is named secret and readable by its owner only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from veilsum import _extras
from veilsum._html import (
    STYLE,
    Markup,
    bullets,
    document,
    element,
    escape,
    facts,
    join,
    section,
    table,
)
from veilsum.privacy import Status
from veilsum.privacy.odds import believed, epsilon_cell, in_words
from veilsum.results import units
from veilsum.results.dataset import NOT_RELEASABLE, SECRET, describe_network
from veilsum.results.summary import combined_guarantee, final_errors, versions
from veilsum.results.targets import different_statistics, duration_of, target_of
from veilsum.results.writer import SECRET_SUFFIX, evaluated, private_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from veilsum.families.base import Interval
    from veilsum.results.result import Result

MORE = """
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: 1rem;
  align-items: end; } .all { grid-column: 1 / -1; } figure svg { width: 100%; }
@media screen and (max-width: 40rem) { .grid { grid-template-columns: 1fr; } }
@media print { .grid { grid-template-columns: 1fr 1fr; } }
"""
MOST_COMPONENTS = 8  # of a vector in the table of answers


def write_page(
    results: Mapping[str, Result],
    path: Path,
    title: str = "",
    *,
    evaluate: bool | Iterable[str] = False,
    figures: bool = True,
) -> list[Path]:
    """Write results as one page; on request a second, secret one that compares with the truth.

    Parameters
    ----------
    results
        Results by name.
    path
        The file; an existing one is replaced.
    title
        Of the page.
    evaluate
        Whether to write what compares measured signals with the truth: of all, or of those named.
        It goes to NAME.secret.html.
    figures
        Whether to draw figures.

    Returns
    -------
    list of Path
        The files that were written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(results, title, figures=figures), encoding="utf-8")
    written = [path]
    chosen = evaluated(results, evaluate)
    if chosen:
        secret = private_file(path.with_name(f"{path.stem}{SECRET_SUFFIX}{path.suffix}"))
        text = page(chosen, title, figures=figures, evaluation=True)
        secret.write_text(text, encoding="utf-8")
        written.append(secret)
    return written


def page(
    results: Mapping[str, Result],
    title: str = "",
    *,
    figures: bool = True,
    evaluation: bool = False,
) -> str:
    """The page as text.

    Parameters
    ----------
    results
        Results by name.
    title
        Of the page; the scenario's without one.
    figures
        Whether to draw figures.
    evaluation
        Whether to compare measured signals with the truth: the page is then as secret as they are.

    Returns
    -------
    str
        HTML.
    """
    origin = next((r.provenance for r in results.values() if r.provenance is not None), None)
    name = title or (origin.title if origin is not None else "") or ", ".join(results)
    secret = evaluation and any(result.measured for result in results.values())
    body: list[object] = [element("h1", name)]
    if secret:
        body.append(element("p", f"SECRET: {SECRET}.", class_="stop"))
    networks = dict.fromkeys(describe_network(r.problem.network) for r in results.values())
    body += [
        element("p", "; ".join(networks), class_="faint"),
        *_first(results),
        section("Answer", *_answers(results), name="answer"),
    ]
    drawn = list(_figures(results, evaluation)) if figures else []
    if drawn:
        body.append(section("Picture", *drawn, name="picture"))
    body.append(section("Guarantee", *_guarantees(results), name="guarantee"))
    compared = {n: r for n, r in results.items() if evaluation or not r.measured}
    body.append(section("Errors", *_errors(compared, results), name="errors"))
    notes = list(dict.fromkeys(note for r in results.values() for note in r.notes))
    if notes:
        body.append(section("Notes", bullets(notes), name="notes"))
    body.append(section("How to make it again", *_origin(results), name="again"))
    return document(f"SECRET {name}" if secret else name, body, STYLE + MORE)


def _first(results: Mapping[str, Result]) -> list[Markup]:
    """The answer of the first result that may be shown and is proved, in a sentence."""
    for name, result in results.items():
        if not result.releasable or result.guarantee.status is not Status.PROVED:
            continue
        values, bars = result.released()
        known = {k: v for k, v in values.items() if np.ndim(v) == 0 and k in bars}
        if not known:
            continue
        said = " and ".join(
            f"{key} = {units.behind(_number(value, bars[key]), units.of_parameter(result, key))} (95% "
            f"interval {_named(result, key)})"
            for key, value in known.items()
        )
        found, size = result.run_guarantee(), result.problem.network.size
        text = (
            f" {name}: {size:,} agents find {said}. Take "
            f"{units.in_sentence(str(found.unit), result.unit)}: whatever is seen is "
            f"{in_words(found.epsilon, found.delta)} before the move than after it, against "
            f"{found.adversary}. This {found.hides(result.unit)}."
        )
        made = [element("p", found.badge, text, class_="lead")]
        warned = NOT_RELEASABLE in result.notes  # at the top, too: "proved" is of ideal noise
        return [*made, element("p", NOT_RELEASABLE, class_="missing")] if warned else made
    return []


def _named(result: Result, parameter: str) -> str:
    """Each interval of a parameter, with what it is of."""
    return "; ".join(
        f"{found.name} {_interval(found.network[parameter])}" for found in result.named_intervals()
    )


def fragment(result: Result) -> str:
    """One result as tables for a notebook: what may be released, nothing else.

    Parameters
    ----------
    result
        A run.

    Returns
    -------
    str
        HTML without a style sheet.
    """
    problem, some = result.problem, {result.name: result}
    rows: list[tuple[object, object]] = [
        ("network", describe_network(problem.network)),
        ("algorithm", f"{problem.algorithm.name}, {problem.rounds:,} rounds"),
        ("family", problem.family.name),
    ]
    parts = [facts(rows, f"Result {result.name}"), *_answers(some)]
    if not result.measured:
        parts.append(_error_table(some))
    unit = str(escape(result.unit))
    parts.append(Markup(units.in_sentence(result.guarantee._repr_html_(), unit)))
    return element("div", *parts, *(element("p", note) for note in result.notes))


def _answers(results: Mapping[str, Result]) -> list[Markup]:
    heads = ("variant", "algorithm", "epsilon", "estimate", "95% interval", "any one agent's", "of")
    rows = [row for name, result in results.items() for row in _answer_rows(name, result)]
    said = [table(heads, rows, stacked=True)]
    if any(result.problem.replicas > 1 for result in results.values()):
        text = "Estimates and intervals are those of the first replica."
        said.append(element("p", text, class_="faint"))
    about = dict.fromkeys(_statistic(result) for result in results.values())
    said += [element("p", sentence, class_="faint") for sentence in about]
    return said


def _statistic(result: Result) -> str:
    family = result.problem.family
    unit = f"; a signal s is in {result.unit}" if result.unit else ""
    return f"Family {family.name}: the agents average {family.formula}{unit}."


def _answer_rows(name: str, result: Result) -> Iterable[tuple[object, ...]]:
    problem = result.problem
    for epsilon in problem.run_epsilons or (None,):
        size = epsilon_cell(result.run_guarantee(epsilon).epsilon)
        if not result.releasable:
            withheld = "withheld: nothing protects the signals"
            yield name, problem.algorithm.name, size, withheld, "-", "-", "-"
            continue
        values, bars = result.released(epsilon)
        stated = result.named_intervals(epsilon)
        unit = {key: units.of_parameter(result, key) for key in values}
        yield (
            name,
            problem.algorithm.name,
            size,
            _lines(
                f"{k} = {units.behind(_number(v, bars.get(k)), unit[k])}" for k, v in values.items()
            ),
            _lines(_interval(i) for found in stated for i in found.network.values()),
            _lines(_interval(i) for found in stated for i in found.agent.values()),
            _lines(found.name.removeprefix("of ") for found in stated for _ in found.network),
        )


def _lines(texts: Iterable[str]) -> object:
    found = list(texts)
    return join(found, "; ") if found else "-"


def _interval(bar: Interval) -> str:
    """Both ends; of a number with as many digits as the interval supports."""
    if np.ndim(bar.low) == 0:
        return units.interval(float(bar.low), float(bar.high))
    return f"{_number(bar.low)} to {_number(bar.high)}"


def _number(value: Any, ends: tuple[Any, Any] | None = None) -> str:
    values = np.ravel(value)
    if np.ndim(value) == 0 and ends is not None:
        return units.rounded(float(value), float(ends[1] - ends[0]))
    shown = ", ".join(f"{v:.4g}" for v in values[:MOST_COMPONENTS])
    if values.size == 1:
        return shown
    more = f", ... ({values.size} in all)" if values.size > MOST_COMPONENTS else ""
    return f"({shown}{more})"


def _figures(results: Mapping[str, Result], evaluation: bool) -> Iterable[Markup]:
    _extras.require("drawing figures", "plot", otherwise="figures=False")
    from veilsum.results import figures, overview
    from veilsum.results.inline_svg import inline

    shown = {n: r for n, r in results.items() if evaluation or r.releasable}
    drawn: list[tuple[str, Figure, str]] = []
    if overview.drawable(shown, evaluation):
        text = "Total error over rounds, one curve for each variant."
        drawn.append(("overview", overview.draw(shown, evaluation), text))
    names = list(shown)
    swept = any(len(result.problem.run_epsilons) > 1 for result in shown.values())
    most = (
        figures.MOST_VARIANTS if swept else 1
    )  # several runs have a figure each, which can be read
    for first in range(0, len(names), most):
        some = {name: shown[name] for name in names[first : first + most]}
        text = f"Estimates and errors of {', '.join(some)}."
        drawn.append((f"compare{first}", figures.compare(some, evaluation), text))
    kept = [n for n, r in shown.items() if r.trace.final is not None]
    if kept and shown[kept[0]].problem.network.size <= figures.MOST_DRAWN:
        text = f"The network; colours show how far the estimates of {kept[0]} are off."
        drawn.append(("network", figures.network_figure(kept[0], shown[kept[0]], evaluation), text))
    parts = [
        element(
            "div",
            inline(figure, name, text),
            element("p", text, class_="faint"),
            class_="all" if name == "overview" else None,
        )
        for name, figure, text in drawn
    ]
    yield element("div", *parts, class_="grid" if len(parts) > 2 else None)


def _guarantees(results: Mapping[str, Result]) -> list[Markup]:
    said = []
    for name, result in results.items():
        found = result.guarantee
        odds = ""
        if found.status is Status.PROVED and math.isfinite(found.epsilon):
            odds = (
                f" Whatever is seen is {in_words(found.epsilon, found.delta)} before such a move "
                "than after it: who thinks that it is as likely as not to have happened is sure of it "
                f"with at most {believed(found.epsilon)} afterwards."
            )
        said.append(
            element(
                "p",
                element("b", name),
                " ",
                found.badge,
                f" {units.in_sentence(str(found), result.unit)}",
                odds,
            )
        )
    together = [name for name, r in results.items() if r.measured and r.releasable]
    combined = combined_guarantee(results) if len(together) > 1 else None
    if combined is not None:
        names = f"All of {', '.join(together)} together: {combined}"
        said.append(element("p", combined.badge, f" {names}"))
    return said


def _errors(compared: Mapping[str, Result], results: Mapping[str, Result]) -> list[Markup]:
    left_out = [name for name in results if name not in compared]
    said = [_error_table(compared)] if compared else []
    if compared:
        said.append(
            element(
                "p",
                "At the last round, mean over replicas, against the mean of the signals or, for a "
                "stream, E ξ. Total error, cost of privacy and cost of decentralisation are l2 norms "
                "over all agents; per agent is the total error over sqrt(agents).",
                class_="faint",
            )
        )
        said += [element("p", each, class_="faint") for each in different_statistics(compared)]
    if left_out:
        text = (
            f"The signals of {', '.join(left_out)} are measured: errors compare with the truth, are "
            "as secret as the signals, and are not on this page."
        )
        said.append(element("p", text))
    return said


def _error_table(results: Mapping[str, Result]) -> Markup:
    heads = (
        "variant", "epsilon", "rounds", "against", "per agent", "total", "privacy",
        "decentralisation",
    )  # fmt: skip
    rows = []
    for name, result in results.items():
        root, unit = math.sqrt(result.problem.network.size), units.of_statistic(result)
        for epsilon in result.problem.run_epsilons or (None,):
            total, privacy, away = final_errors(result, epsilon).values()
            size = epsilon_cell(result.run_guarantee(epsilon).epsilon)
            errors = (total / root, total, privacy, away)
            numbers = (units.behind(f"{value:.4g}", unit) for value in errors)
            rows.append((name, size, duration_of(result), target_of(result), *numbers))
    return table(heads, rows, stacked=True)


def _origin(results: Mapping[str, Result]) -> list[Markup]:
    """The command, and what the numbers follow from; the seed of synthetic signals only."""
    origin = next((r.provenance for r in results.values() if r.provenance is not None), None)
    measured = any(result.measured for result in results.values())
    known = any(r.measured and r.problem.seed_is_known for r in results.values())
    rows: list[tuple[object, object]] = []
    parts = []
    if origin is not None:
        file = Path(origin.scenario).name
        seeds = {result.problem.seed for result in results.values()}
        replicas = {result.problem.replicas for result in results.values()}
        command = f"veilsum run {file}"
        if not measured:
            command += "".join(f" --seed {seed}" for seed in seeds if len(seeds) == 1)
        command += "".join(f" --replicas {count}" for count in replicas if len(replicas) == 1)
        parts.append(element("pre", command))
        rows.append(("scenario", file))
        if not known:
            rows.append(
                ("sha256 of the scenario", element("span", origin.scenario_sha256, class_="hash"))
            )
    rows += versions().items()
    rows.append(("noise", ", ".join(dict.fromkeys(r.noise for r in results.values()))))
    if measured:
        text = (
            "The noise of measured signals is drawn anew in every run, and cannot be drawn again."
        )
        parts.append(element("p", text))
    return [*parts, facts(rows)]
