"""The headline: the paper's algorithm and murmura's best proved one, same epsilon, same T.

Beside the error stands the promise, and what an attack of the same size proves of each: a lower
bound of epsilon that exceeds the claim refutes it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from murmura.errors import SignalError
from murmura.paper import data
from murmura.paper.entry import Claim, Context, Entry, Finding, Measured, Verdict, judged
from murmura.paper.settings import DAILY, GLOBAL, HOURLY, HOUSEHOLDS, PLACES, US, Run, perform, want
from murmura.paper.tabulate import error_rows, frame, value
from murmura.report import style

PAPER, OURS = "paper", "murmura"
TRIALS, QUICK_TRIALS, MESSAGES = 20_000, 2_000, 1
EPSILONS = (0.125, 1.0)
NO_NOISE = "no finite noise"


def runs(place: str, tasks: dict[str, tuple[str, str]]) -> tuple[Run, ...]:
    """For each task the paper's law and ours; ours with a public floor, or log(1 + s)."""
    floor = PLACES[place].floor is not None
    ours = "log-normal" if floor else "log-normal-1p"
    made = []
    for task, (theirs, best) in tasks.items():
        name = f"{place} {task}"
        made += [
            Run(f"{PAPER}: {name}", place, theirs, epsilons=EPSILONS),
            Run(f"{OURS}: {name}", place, best, epsilons=EPSILONS, sensitivity=GLOBAL,
                family=ours, bounded=floor),
        ]  # fmt: skip
    return tuple(made)


def measure(entry: Entry, context: Context) -> Measured:
    """Errors, promise and audit of every run; one that the signals forbid says so."""
    rows = []
    for run in entry.runs:
        method, algorithm = run.name.split(": ")
        try:
            result = perform(run, context)
        except SignalError as refused:
            rows += _refused(run, method, algorithm, str(refused))
            continue
        found = audited(run, result, context)
        rows += [row | found for row in error_rows(result, method=method, algorithm=algorithm)]
    return Measured({"": frame(rows)})


def _refused(run: Run, method: str, algorithm: str, why: str) -> list[dict[str, Any]]:
    words = {"method": method, "algorithm": algorithm, "law": run.law, "promise": NO_NOISE}
    return [words | {"epsilon": e, "refusal": why} for e in run.epsilons]


def audited(run: Run, result: Any, context: Context) -> dict[str, Any]:
    """What an attack proves at epsilon = 1."""
    from murmura.audits import audit_problem

    problem = replace(result.problem, want=want(run).at(1.0), epsilons=(), replicas=1)
    trials = QUICK_TRIALS if context.quick else TRIALS
    report = audit_problem(problem, trials, MESSAGES, context.seed, run.name)
    return {
        "audit_epsilon": 1.0, "audit_at_least": report.lower_bound,
        "audit_delta_claimed": report.delta, "audit_delta_at_least": max(report.spent_delta, 0.0),
        "audit_refuted": report.refuted,
    }  # fmt: skip


def draw(measured: Measured) -> Figure:
    """Total errors as bars, a panel per epsilon; what is written on a bar is its promise."""
    table = measured.table
    tasks = list(dict.fromkeys(table.algorithm))
    figure = style.figure(1.9 * len(tasks) + 3.2, 4.4)
    grid = figure.subplots(1, 2, sharey=True)
    for ax, epsilon in zip(grid, EPSILONS, strict=True):
        part = table[table.epsilon == epsilon]
        for k, method in enumerate((PAPER, OURS)):
            _bars(ax, part[part.method == method].set_index("algorithm").reindex(tasks), k)
        ax.set_yscale("log")
        ax.set(title=f"ε = {epsilon:g}", xticks=range(len(tasks)))
        ax.set_xticklabels([task.replace(" ", "\n") for task in tasks], fontsize=8)
        ax.set_xlim(-0.5, len(tasks) - 0.5)
        ax.margins(y=0.25)
        style.tidy(ax)
        ax.grid(False, axis="x")
    grid[0].set_ylabel(f"total error, {style.NORM}")
    figure.supxlabel("promises were attacked at ε = 1", fontsize=7.5, color=style.MUTED)
    key = [
        Patch(color=style.VARIANTS[k], label=n) for k, n in enumerate(("the paper's", "murmura's"))
    ]
    style.legend_above(figure, key)
    return figure


def _bars(ax: Any, part: Any, k: int) -> None:
    for x, (_, row) in enumerate(part.iterrows()):
        at = x + 0.4 * k - 0.2
        if row.promise == NO_NOISE:
            ax.text(at, 0.5, NO_NOISE, rotation=90, fontsize=7.5, ha="center", va="center",
                    transform=ax.get_xaxis_transform(), color=style.VARIANTS[k])  # fmt: skip
            continue
        ax.bar(at, row.te, 0.36, color=style.VARIANTS[k])
        refuted = ",\nrefuted" if row.audit_refuted is True else ""
        ax.text(at, row.te, f"{row.te:.3g}\n{row.promise}{refuted}", fontsize=6.5, ha="center",
                va="bottom", linespacing=0.95)  # fmt: skip


def improves(measured: Measured) -> Finding:
    """By how much, everywhere, at both epsilons, and with which promise."""
    table, words, better = measured.table, [], True
    for task in dict.fromkeys(table.algorithm):
        pairs = [[value(table, "te", m, task, e) for m in (PAPER, OURS)] for e in EPSILONS]
        if any(paper != paper for paper, _ in pairs):
            at = ", ".join(f"{ours:.3g}" for _, ours in pairs)
            words.append(f"{task} impossible to {at}")
            continue
        better = better and all(ours <= 1.02 * paper for paper, ours in pairs)
        at = ", ".join(f"{paper:.3g} to {ours:.3g}" for paper, ours in pairs)
        words.append(f"{task} {at}")
    listed = " and ".join(f"{e:g}" for e in EPSILONS)
    return judged(better, f"TE at epsilon {listed}: {'; '.join(words)}.", Verdict.CORRECTED)


def holds(measured: Measured) -> Finding:
    """Whether the promises survive the attack."""
    table = measured.table[measured.table.epsilon == 1.0]
    words, fell, kept = [], True, True
    for method in (PAPER, OURS):
        part = table[(table.method == method) & table.audit_at_least.notna()]
        if part.empty:
            continue
        most, delta = part.audit_at_least.max(), part.audit_delta_at_least.max()
        refuted = part.audit_refuted.astype(bool)
        words.append(
            f"{method} ({', '.join(dict.fromkeys(part.promise))}): epsilon at least {most:.3g}, "
            f"delta at that claim at least {delta:.3g}"
        )
        if method == PAPER:
            fell = bool(refuted.any())
        else:
            kept = not refuted.any() and set(part.promise) == {"proved"}
    verdict = Verdict.REFUTED if fell else Verdict.CONFIRMED
    sentence = f"Claimed epsilon = 1; an attack proves for {'; for '.join(words)}."
    return Finding(verdict if kept else Verdict.CORRECTED, sentence)


def zeros(measured: Measured) -> Finding:
    """What real meters send, and what the logarithm makes of it."""
    readings = data.raw(DAILY).values
    said = [why for why in measured.table.get("refusal", []) if isinstance(why, str)]
    sentence = (
        f"{int((readings == 0).sum())} of {readings.size:,} daily readings are exactly 0, where "
        f"log s and the printed noise 1/s are infinite; murmura refuses: "
        f"“{said[0].split(';')[0]}”. "
        "With log(1 + s) the noise is Lap(log 2/eps)."
        if said
        else "The readings hold no zeros."
    )
    return Finding(Verdict.REFUTED if said else Verdict.CONFIRMED, sentence)


OFFLINE_ONLINE = {"offline": ("average", "jacobi"), "online": ("learn", "learn")}
DONE = {"offline": ("average", "chebyshev"), "online": ("learn", "learn")}
IMPROVES = Claim("The same epsilon and T buy a smaller error.", improves)
HOLDS = Claim("The printed mechanism is (1, 0.01)-differentially private.", holds)

ENTRIES = (
    Entry(
        id="headline",
        title="The paper's algorithm and murmura's best proved one",
        reference="beyond the paper; erratum 2",
        runs=runs(US, OFFLINE_ONLINE) + runs(HOUSEHOLDS, DONE),
        measure=measure,
        draw=draw,
        claims=(IMPROVES, HOLDS),
    ),
    Entry(
        id="headline-real",
        title="The same on real Swiss households",
        reference="beyond the paper; erratum 2",
        runs=runs(DAILY, OFFLINE_ONLINE) + runs(HOURLY, {"online": ("learn", "learn")}),
        measure=measure,
        draw=draw,
        claims=(IMPROVES, Claim("The printed noise is finite on real meters.", zeros)),
        needs_data=True,
    ),
)
