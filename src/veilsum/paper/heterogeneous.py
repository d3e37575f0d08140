"""Heterogeneous budgets (App. C.3): central and decentralised, caps of 10 eps, on the households.

Central budgets are the exact optimum, the published rule beside it; decentralised ones come from
messages between neighbours. Every agent has its own scale,

    b_i = D_i / eps_i,    D_i = max(max_j a_ij, S_i)    (App. C.3)

for algorithms whose noise covers a neighbour's weight and a statistic alike in every round
(average, learn-network; learn with Signal DP). S_i is the published smooth sensitivity at the mean
budget eps, as in the authors' code. (It should be taken at eps_i, since its smoothing is the
budget's: then b_i grows like 1/eps_i^2.) An allocation from these sensitivities reads the signals
and is for simulations only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from veilsum import simulation
from veilsum.front import style
from veilsum.front.paths import draw_errors as draw_run_errors
from veilsum.front.paths import draw_paths as draw_run_paths
from veilsum.paper import allocation
from veilsum.paper.allocation import AgentSensitivities, Allocation
from veilsum.paper.experiment import (
    Claim,
    Context,
    Experiment,
    Finding,
    Measurement,
    Verdict,
    judged,
    shipped,
)
from veilsum.paper.sample_paths import early, zoom
from veilsum.paper.sweeps import TASKS, key, panel
from veilsum.paper.tabulate import error_rows, frame, path_rows, round_rows, value
from veilsum.privacy import Mechanism, Plan
from veilsum.results import Result
from veilsum.simulation import Problem, Record, Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from veilsum.scenario import Job

Floats = NDArray[np.float64]
Allocate = Callable[[AgentSensitivities, float], Allocation]
CAP = 10.0  # times the mean budget
TOLERANCE = 0.1  # of the decentralised allocation: proved, in every round
CENTRAL, DECENTRALISED, PUBLISHED, HOMOGENEOUS = (
    "central",
    "decentralised",
    "published rule",
    "homogeneous",
)
SPELLING = {CENTRAL: "centralized", DECENTRALISED: "decentralized"}  # in the paper


@dataclass(frozen=True, eq=False, kw_only=True)
class AllocatedPlan(Plan):
    """The scales of another plan with a budget for each agent, allocated in every round."""

    equal: Plan
    weights: Floats  # max_j a_ij, or zeros
    allocate: Allocate
    overheads: list[dict[str, float]] = field(default_factory=list)

    by_signals_alone: ClassVar[bool] = False  # allocations are recorded round by round

    def mechanism(
        self,
        epsilon: float | None = None,
        t: int | None = None,
        agent: int = 0,
        released: bool = False,
    ) -> Mechanism:
        """That of the other plan."""
        return self.equal.mechanism(epsilon, t, agent, released)

    def per_signal(self, epsilons: Floats, t: int) -> Floats:
        """As of the other plan."""
        return self.equal.per_signal(epsilons, t)

    def signal(self, signals: Floats, epsilons: Floats) -> Floats:
        """What `per_signal` must be multiplied by to give b_i = D_i / eps_i: (agents, columns)."""
        each = list(dict.fromkeys(epsilons.tolist()))
        if (
            not self.weights.any()
        ):  # D is proportional to 1/eps, so the fractions do not depend on it
            return np.tile(self._part(signals, each[0]), len(each))
        return np.concatenate([self._part(signals, epsilon) for epsilon in each], axis=1)

    def _part(self, signals: Floats, epsilon: float) -> Floats:
        one = np.array([epsilon])
        per = float(self.per_signal(one, 1)[0])
        own = self.equal.signal(signals, one)
        D = np.maximum(self.weights[:, None], epsilon * per * own)
        return self._scales(D, epsilon) / per

    def _scales(self, D: Floats, epsilon: float) -> Floats:
        """D_i / eps_i of every replica; the overheads are recorded."""
        made = np.empty_like(D)
        for r in range(D.shape[1]):
            sensitivities = AgentSensitivities(D[:, r], data_dependent=True)
            allocated = self.allocate(sensitivities, epsilon)
            made[:, r] = D[:, r] / allocated.epsilons
            self.overheads.append(
                {"epsilon": epsilon, "replica": r, "overhead": made[:, r].sum(),
                 "equal": D[:, r].sum() / epsilon, "spent": allocated.total / len(D) / epsilon}
            )  # fmt: skip
        return made


def simulate(
    problem: Problem, allocate: Allocate, record: Record
) -> tuple[Trace, list[dict[str, float]]]:
    """As `simulation.simulate` with budgets from `allocate`, and the overhead of each allocation."""
    plain = problem.plan
    same: dict[str, Any] = {f.name: getattr(plain, f.name) for f in fields(Plan)}
    same["network"] = np.zeros(problem.network.size)
    made = AllocatedPlan(**same, equal=plain, weights=plain.network, allocate=allocate)
    return simulation.simulate(problem, record, plan=made), made.overheads


def allocator(method: str, network: Any) -> Allocate:
    """Sensitivities and a mean budget -> budgets, by one of the methods."""
    if method == DECENTRALISED:
        return lambda D, e: allocation.decentralised(
            D, e, network, CAP * e, tolerance=TOLERANCE, simulation_only=True
        )
    rule = {
        CENTRAL: allocation.optimal,
        PUBLISHED: allocation.as_published,
        HOMOGENEOUS: allocation.homogeneous,
    }[method]
    return lambda D, e: rule(D, e, CAP * e, simulation_only=True)


def allocated(job: Job, context: Context) -> tuple[Result, list[dict[str, float]]]:
    """The result of a job with allocated budgets, and the overhead of every allocation."""
    context.progress(job.name)
    allocate = allocator(job.name.split(".")[0], job.problem.network)
    trace, overheads = simulate(job.problem, allocate, job.record)
    return Result(job.problem, trace, job.name), overheads


def sweep(experiment: Experiment, context: Context) -> Measurement:
    """Final errors of the four algorithms under each allocation."""
    rows = []
    for job in experiment.jobs(context):
        method, task = job.name.split(".")
        result, _ = allocated(job, context)
        made = error_rows(result, method=method, task=task)
        spread = np.sqrt(result.trace.noise_variance[:, :, 0].mean(axis=1))
        rows += [row | {"deviation": d} for row, d in zip(made, spread.tolist(), strict=True)]
    return Measurement({"": frame(rows)})


def draw_sweep(measured: Measurement) -> Figure:
    """Homogeneous, central, decentralised, on one scale."""
    figure = style.figure(9.6, 4.4)
    grid = figure.subplots(1, 3, sharey=True)
    for ax, method in zip(grid, (HOMOGENEOUS, CENTRAL, DECENTRALISED), strict=True):
        panel(ax, measured.table[measured.table.method == method], method)
        ax.set_xlabel("mean privacy budget ε")
    grid[0].set_ylabel(style.NORM)
    style.legend_above(figure, key(TASKS))
    return figure


def noise_ratio(table: Any, method: str, name: str) -> float:
    """Deviation of the noise in the mean over that of equal budgets, geometric mean over epsilon.

    Both are computed from the scales of the same signals, so no draw of noise has an effect.
    """
    every = sorted(set(table.epsilon))
    own, equal = (
        [value(table, "deviation", which, name, e) for e in every]
        for which in (method, HOMOGENEOUS)
    )
    return float(np.exp(np.mean(np.log(own) - np.log(equal))))


def reduces(measured: Measurement, claim: Claim) -> Finding:
    """The noise that allocated budgets leave against that of equal ones."""
    words, less = [], True
    for method in (CENTRAL, DECENTRALISED):
        ratios = {name: noise_ratio(measured.table, method, name) for name in TASKS}
        less = less and max(ratios.values()) < claim.threshold
        words.append(f"{method}: " + ", ".join(f"{n} {r:.2f}" for n, r in ratios.items()))
    sentence = (
        "Deviation of the noise in the mean of all agents over that of equal budgets, for the same "
        f"signals, geometric mean over epsilon, {'; '.join(words)}."
    )
    return judged(less, sentence, Verdict.CORRECTED)


def paths(experiment: Experiment, context: Context) -> Measurement:
    """Offline and online Network DP: paths, errors, and the overhead of every round."""
    results, estimates, errors, overheads = {}, [], [], []
    for job in experiment.jobs(context):
        result, spent = allocated(job, context)
        results[job.name] = result
        estimates += path_rows(result, variant=job.name)
        errors += round_rows(result, variant=job.name)
        overheads += [
            {"variant": job.name, "round": t, "lower": row["equal"] / CAP, **row}
            for t, row in enumerate((row for row in spent if row["replica"] == 0), start=1)
        ]
    tables = {"": frame(overheads), "errors": frame(errors), "paths": frame(estimates)}
    tables["rules"] = rules()
    return Measurement(tables, results)


def draw_paths(measured: Measurement) -> Figure:
    """Paths above, errors below; the overhead with its bounds on the right."""
    figure = style.figure(11.0, 5.4)
    grid, paths = figure.subplots(2, 3), measured.tables["paths"]
    for column, (name, result) in zip(grid.T, measured.results.items(), strict=False):
        draw_run_paths(result, column[0])
        draw_run_errors(result, column[1])
        column[0].set_title(f"{name.split('.')[1]}, ε = {result.problem.run_epsilons[0]:g}")
        zoom([column[0]], paths[paths.variant == name])
        early(column, result)
    online = measured.table[measured.table.variant.str.contains("online")]
    _overhead(grid[0, 2], online)
    ratio = online.overhead / online.equal
    grid[1, 2].plot(online["round"], ratio, color=style.VARIANTS[0], linewidth=0.8)
    grid[1, 2].set(xlabel="round t", ylabel="ratio to equal budgets")
    for ax in grid.ravel():
        style.tidy(ax)
    handles = style.key_of_paths(True) + style.key_of_errors(True, band=True)
    style.legend_above(figure, handles)
    return figure


def _overhead(ax: Axes, table: Any) -> None:
    bounds = {"equal": "all at ε: upper bound", "lower": "all at the cap: lower bound"}
    ax.plot(table["round"], table.overhead, color=style.VARIANTS[0], linewidth=0.8,
            label="allocated")  # fmt: skip
    for colour, (name, label) in zip(style.VARIANTS[1:], bounds.items(), strict=False):
        ax.plot(table["round"], table[name], color=colour, linewidth=0.8, label=label)
    style.scale(ax, y="log")
    ax.set(title="overhead Σ Δ/ε, online", xlabel="round t")
    ax.legend(fontsize=7, frameon=False)


def bounded(measured: Measurement, _claim: Claim) -> Finding:
    """Whether sum D/eps is below the overhead and sum D/eps_max above, or the other way round."""
    table = measured.table
    published = bool(
        (table.overhead >= table.equal).all() and (table.overhead <= table.lower).all()
    )
    swapped = bool(
        (table.overhead <= 1.0001 * table.equal).all() and (table.overhead >= table.lower).all()
    )
    ratio = (table.overhead / table.equal).groupby(table.variant, sort=False).mean()
    ratios = ", ".join(f"{name.split('.')[1]} {r:.3f}" for name, r in ratio.items())
    sentence = (
        f"The overhead is on average {ratios} of sum D/eps. It is never more than that and never "
        "less than sum D/eps_max, a tenth of it: the caption has the bounds the wrong way round."
        if swapped
        else f"The overhead is on average {ratios} of sum D/eps."
    )
    return judged(published, sentence, Verdict.CORRECTED if swapped else Verdict.REFUTED)


def rules() -> Any:
    """Overheads of the published rule and of the optimum: the households, and caps that bind."""
    rng = np.random.default_rng(0)
    cases = {
        "households, cap 10": (np.exp(-rng.normal(1.67, 1.04, 969)), 10.0),
        "(1, 1, 1, 100), cap 1.5": (np.array([1.0, 1.0, 1.0, 100.0]), 1.5),
    }
    return frame(
        [
            {
                "case": name,
                "published": allocation.as_published(D, 1.0, cap).overhead,
                "optimal": allocation.optimal(D, 1.0, cap).overhead,
            }
            for name, (D, cap) in cases.items()
        ]
    )


def clipped(measured: Measurement, _claim: Claim) -> Finding:
    """What the published rule leaves unspent where a cap binds (erratum 3)."""
    table = measured.tables["rules"]
    lost = bool((table.published > table.optimal * (1 + 1e-9)).any())
    words = [f"{r.case}: {r.published:.5g} against {r.optimal:.5g}" for r in table.itertuples()]
    sentence = f"Overhead of the published rule and of the optimum, {'; '.join(words)} (erratum 3)."
    return Finding(Verdict.CORRECTED if lost else Verdict.CONFIRMED, sentence)


def _paths_experiment(method: str) -> Experiment:
    return Experiment(
        id=f"fig-budgets-{method}",
        title=f"Heterogeneous budgets, {method}: paths and overhead",
        reference=f"Supplementary Figure distribute_budget-{SPELLING[method]}",
        scenarios=shipped(f"fig-budgets-{method}"),
        measure=paths,
        draw=draw_paths,
    )


EXPERIMENTS = (
    _paths_experiment(CENTRAL),
    _paths_experiment(DECENTRALISED),
    Experiment(
        id="fig-mse-budgets",
        title="Heterogeneous budgets: error against epsilon",
        reference="Supplementary Figure mse_plot_heterogeneous (3 panels)",
        scenarios=shipped("fig-mse-budgets"),
        measure=sweep,
        draw=draw_sweep,
    ),
)
