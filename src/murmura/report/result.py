"""What a run found: estimates, errors and the promise, under the agents' own labels.

`result.data` is an xarray dataset; everything else here reads it.

    private (agent, recorded, replica, epsilon)    the estimates that agents hold
    clean   (agent, recorded, replica)             the same without noise
    target  (replica)                              what they should be
    total_error, cost_of_privacy (round, replica, epsilon)
    cost_of_decentralisation     (round, replica)

Errors are l2 norms over all agents and exist for every round; estimates exist for the rounds that
were recorded. A statistic of several components adds the axis `component`.

Of measured signals `data` holds what the agents would know: `private`, and its `mean` over agents.
The rest compares with the truth: it is in `evaluation()`, and in a file on request only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from murmura import _validate
from murmura.engine import Problem, Trace
from murmura.errors import FamilyError, MurmuraError
from murmura.privacy import Guarantee, promise
from murmura.report import dataset, intervals, totals
from murmura.report.units import Errors, per_agent

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The outcome of one law on one network, for one or more epsilons and replicas."""

    problem: Problem
    trace: Trace
    name: str = "run"
    noise: str = dataset.SIMULATED  # or EXACT: drawn by real agents, charged to their ledgers
    stated: Guarantee | None = None  # in place of the one that the law promises in a simulation

    @cached_property
    def data(self) -> xr.Dataset:
        """What a reader may see, as one labelled dataset: of drawn signals, everything."""
        return dataset.build(
            self.problem, self.trace, str(self.guarantee), self.notes, self.noise, self.releases
        )

    def evaluation(self) -> xr.Dataset:
        """What compares with the truth: targets, errors, and estimates without noise.

        Of measured signals it is as secret as they are: its attribute `secret` says so.
        """
        return dataset.evaluation(self.problem, self.trace)

    @property
    def measured(self) -> bool:
        """Whether the signals are real, so that what tells of them reaches no file unasked."""
        return self.problem.source.measured

    @property
    def releases(self) -> bool:
        """Whether estimates may be shown: the signals were drawn, or something protects them.

        A promise is about messages. Where these are not the estimates (`Law.noises_messages`: what
        travels is nu + q), nothing is promised for the estimates themselves.
        """
        if not self.measured:
            return True
        return totals.protects(self.guarantee_of()) and not self.problem.law.noises_messages

    @property
    def guarantee(self) -> Guarantee:
        """What is promised for everything that the result holds.

        Of measured signals that is all epsilons and replicas together, each of which is a release
        of its own. Signals that were drawn are nobody's: theirs is the promise of one run, at the
        largest epsilon.
        """
        budgets = self.problem.budgets
        if self.stated is not None:
            return self.stated
        if not (self.measured and budgets):
            return self.guarantee_of(max(budgets, default=None))
        return totals.total([(self.guarantee_of(e), self.problem.replicas) for e in budgets])

    def guarantee_of(self, epsilon: float | None = None, replicas: int = 1) -> Guarantee:
        """What is promised for one run at an epsilon (the first, if not said), or several."""
        if self.stated is not None:
            return self.stated
        want, budgets = self.problem.want, self.problem.budgets
        if budgets and hasattr(want, "at"):
            want = want.at(budgets[self._epsilon_index(epsilon)])
        one = promise(want, self.problem.law, self.problem.rounds, self.problem.family)
        return totals.total([(one, replicas)])

    def guarantee_at(self, epsilon: float | None = None) -> Guarantee:
        """What is promised for all that the result holds at an epsilon: its replicas, if measured.

        It is what stands beside that epsilon's row in a table.
        """
        return self.guarantee_of(epsilon, self.problem.replicas if self.measured else 1)

    @property
    def errors(self) -> Errors:
        """Total error, cost of privacy and cost of decentralisation at the last round.

        Numbers for one epsilon, arrays along the epsilons of a sweep. Of measured signals they are
        an evaluation: nothing prints or writes them unasked.
        """
        total = _plain(self.trace.total[-1].mean(axis=-1))
        privacy = _plain(self.trace.privacy[-1].mean(axis=-1))
        apart = float(self.trace.decentralisation[-1].mean())
        if not self.problem.budgets:
            return Errors(apart, 0.0, apart)
        return Errors(total, privacy, apart)

    @property
    def errors_per_agent(self) -> Errors:
        """The same as root mean square errors of an agent: the norms over sqrt(n)."""
        return per_agent(self.errors, self.problem.network.size)

    @property
    def estimate(self) -> dict[str, Any]:
        """The parameters that the average agent of the first replica would report."""
        found = self.problem.family.parameter(self.trace.mean[0, 0])
        return {name: _plain(value) for name, value in found.items()}

    @property
    def interval(self) -> dict[str, tuple[Any, Any]]:
        """95% intervals for them: sampling and privacy noise, of the mean of all agents."""
        return {n: (_plain(i.low), _plain(i.high)) for n, i in self.intervals().items()}

    @property
    def interval_is_private(self) -> bool:
        """Whether the width of an interval betrays signals: scales were read off measured ones.

        Such an interval may be looked at where the signals are, and goes into no file.
        """
        return getattr(self.problem.want, "reads_signals", False) and self.problem.source.measured

    def intervals(
        self,
        epsilon: float | None = None,
        replica: int = 0,
        confidence: float = 0.95,
        of: str = "network",
        correlation: float = 1.0,
    ) -> dict[str, Any]:
        """Parameters with error bars at one epsilon and replica.

        `of` says whose: "network", the mean of all agents' estimates; "agent", any one agent's,
        which adds the variance between agents; "batches", the network's again, its variance read
        off batches of a stream. `correlation` says how many times fewer readings of a stream are
        worth than independent ones (`murmura.report.intervals`).
        """
        e = self._epsilon_index(epsilon)
        _validate.one_of(MurmuraError, ("network", "agent", "batches"), of=of)
        if of == "batches":
            return intervals.batch_interval(self.problem, self.trace, e, replica, confidence)
        made = intervals.network_interval if of == "network" else intervals.agent_interval
        return made(self.problem, self.trace, e, replica, confidence, correlation)

    def agents(
        self, epsilon: float | None = None, replica: int = 0, confidence: float = 0.95
    ) -> pd.DataFrame:
        """Every agent's own parameter estimate at the last round, with its error bar.

        The bar is left out where its width would betray signals (`interval_is_private`).
        """
        import pandas as pd

        if self.trace.final is None:
            raise MurmuraError(
                "this run recorded error norms only; run it with Record(), which keeps estimates"
            )
        e = self._epsilon_index(epsilon)
        intervals.check_run(self.trace, e, replica)
        bars = intervals.agent_interval(
            self.problem, self.trace, e, replica, confidence,
            estimates=self.trace.final[:, e, replica],
        )  # fmt: skip
        table: dict[str, Any] = {}
        for name, i in bars.items():
            if self.interval_is_private and np.ndim(i.value) == 1:
                table |= {name: i.value}
                continue
            if np.ndim(i.value) > 1:
                for k in range(i.value.shape[1]):
                    table |= {f"{name}[{k}]": i.value[:, k]}
                continue
            table |= {name: i.value, f"{name}_low": i.low, f"{name}_high": i.high}
        index = pd.Index(list(self.problem.network.labels), name="agent", tupleize_cols=False)
        return pd.DataFrame(table, index=index)

    def found(self, epsilon: float | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Estimates by name, and their intervals, as far as they may be shown to anyone.

        Nothing of measured signals that no noise protects; no interval whose width betrays signals,
        or whose family does not know its covariance.
        """
        if not self.releases:
            return {}, {}
        mean = self.trace.mean[self._epsilon_index(epsilon), 0]
        values = {
            name: _plain(value) for name, value in self.problem.family.parameter(mean).items()
        }
        try:
            bars = {} if self.interval_is_private else self.intervals(epsilon)
        except FamilyError:
            bars = {}
        return values, {name: (_plain(i.low), _plain(i.high)) for name, i in bars.items()}

    def _epsilon_index(self, epsilon: float | None) -> int:
        if epsilon is None:
            return 0
        _validate.positive(MurmuraError, epsilon=epsilon)
        found = np.flatnonzero(np.isclose(self.problem.budgets, epsilon))
        if not found.size:
            raise MurmuraError(
                f"epsilon {epsilon} was not run; there are {list(self.problem.budgets)}"
            )
        return int(found[0])

    @property
    def notes(self) -> list[str]:
        """What a reader must know beside the numbers."""
        return dataset.notes(self.problem, self.noise)

    def write(
        self, directory: str | PathLike[str], evaluation: bool = False, figures: bool = True
    ) -> list[Path]:
        """Write summary.json, results.nc and figures into a folder; give the paths of all files.

        Of measured signals these hold what may be released. With `evaluation` what compares with
        the truth is written too, into files of its own that say `secret` in their names and that
        their owner alone can read.
        """
        from murmura.report.files import write

        return write({self.name: self}, directory, evaluation=evaluation, figures=figures)

    def to_netcdf(self, path: str | PathLike[str]) -> None:
        """Write `data` as netCDF, readable by xarray, R, Julia and MATLAB."""
        self.data.to_netcdf(path, engine="scipy")

    def to_pandas(self, evaluation: bool = False) -> pd.DataFrame:
        """Errors in long form: one row per round, replica and epsilon.

        They compare with the truth: of measured signals, only with `evaluation`.
        """
        self.check_evaluation("errors", evaluation)
        return dataset.errors_frame(self.evaluation())

    def plot_paths(
        self, ax: Axes | None = None, agents: int = 10, evaluation: bool = False
    ) -> Axes:
        """Draw estimates over rounds, with and without noise, and the target.

        Of measured signals, the estimates alone unless `evaluation` is asked for.
        """
        from murmura.report import figures

        return figures.paths(self, ax, agents, evaluation)

    def plot_errors(self, ax: Axes | None = None, evaluation: bool = False) -> Axes:
        """Draw the errors over rounds; over epsilon, for a sweep."""
        from murmura.report import figures

        return figures.errors(self, ax, evaluation)

    def plot_network(self, ax: Axes | None = None, evaluation: bool = False) -> Axes:
        """Draw the network, each agent coloured by how far its estimate is from the target.

        Of measured signals, from the mean of all estimates unless `evaluation` is asked for.
        """
        from murmura.report import figures

        return figures.network(self, ax, evaluation)

    def check_evaluation(self, what: str, asked: bool) -> None:
        """Refuse what compares with the truth, unless it is asked for or the signals are drawn."""
        if self.measured and not asked:
            raise MurmuraError(
                f"{what} of measured signals compare with the truth and are as secret as the "
                "signals; ask for them with evaluation=True, and show them to nobody else"
            )

    def __repr__(self) -> str:
        """Law, network and promise: never an estimate, which may be a signal."""
        where = dataset.describe_network(self.problem.network)
        return f"Result({self.name!r}, {self.problem.law.name} on {where}, {self.guarantee.status})"

    def __str__(self) -> str:
        """Say what was run, what came out and what is promised, in a paragraph."""
        from murmura.report import text

        return text.paragraph(self)


def _plain(value: Any) -> Any:
    """A number if there is one, an array if there are several."""
    array = np.asarray(value)
    return array.reshape(-1)[0].item() if array.size == 1 else array
