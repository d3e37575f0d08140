"""What a run found: estimates, errors and the promise, under the agents' own labels.

`result.data` is an xarray dataset; everything else here reads it.

    private (agent, recorded, replica, epsilon)    the estimates that agents hold
    clean   (agent, recorded, replica)             the same without noise
    target  (replica)                              what they should be
    total_error, cost_of_privacy (round, replica, epsilon)
    cost_of_decentralisation     (round, replica)

Errors are l2 norms over all agents and exist for every round; estimates exist for the rounds that
were recorded. A statistic of several components adds the axis `component`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from murmura import _validate
from murmura.engine import Problem, Trace
from murmura.errors import MurmuraError
from murmura.privacy import Guarantee, promise
from murmura.report import dataset, intervals
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
        """Everything measured, as one labelled dataset."""
        return dataset.build(self.problem, self.trace, str(self.guarantee), self.notes, self.noise)

    @property
    def guarantee(self) -> Guarantee:
        """What is promised at the (largest) epsilon of the run."""
        if self.stated is not None:
            return self.stated
        want = self.problem.want
        if self.problem.budgets and hasattr(want, "at"):
            want = want.at(max(self.problem.budgets))
        return promise(want, self.problem.law, self.problem.rounds, self.problem.family)

    @property
    def errors(self) -> Errors:
        """Total error, cost of privacy and cost of decentralisation at the last round.

        Numbers for one epsilon, arrays along the epsilons of a sweep.
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
        """Every agent's own parameter estimate at the last round, with its error bar."""
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
            if np.ndim(i.value) > 1:
                for k in range(i.value.shape[1]):
                    table |= {f"{name}[{k}]": i.value[:, k]}
                continue
            table |= {name: i.value, f"{name}_low": i.low, f"{name}_high": i.high}
        index = pd.Index(list(self.problem.network.labels), name="agent", tupleize_cols=False)
        return pd.DataFrame(table, index=index)

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

    def to_netcdf(self, path: str | PathLike[str]) -> None:
        """Write the dataset as netCDF, readable by xarray, R, Julia and MATLAB.

        Of measured signals, estimates without noise stay behind: a round or two old, they are the
        signals themselves.
        """
        dataset.writable(self.data, self.problem).to_netcdf(path, engine="scipy")

    def to_pandas(self) -> pd.DataFrame:
        """Errors in long form: one row per round, replica and epsilon."""
        return dataset.errors_frame(self.data)

    def plot_paths(self, ax: Axes | None = None, agents: int = 10) -> Axes:
        """Draw estimates over rounds, with and without noise, and the target."""
        from murmura.report import figures

        return figures.paths(self, ax, agents)

    def plot_errors(self, ax: Axes | None = None) -> Axes:
        """Draw the errors over rounds; over epsilon, for a sweep."""
        from murmura.report import figures

        return figures.errors(self, ax)

    def plot_network(self, ax: Axes | None = None) -> Axes:
        """Draw the network, each agent coloured by how far its estimate is from the target."""
        from murmura.report import figures

        return figures.network(self, ax)

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
