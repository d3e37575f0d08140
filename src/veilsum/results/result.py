"""The outcome of a run: estimates, errors and the guarantee, under the agents' labels.

Errors are l2 norms over all agents and exist for every round (`trace`); estimates exist for the rounds
that were recorded. They come in two units: `errors` are norms over all agents, `errors_per_agent` root
mean squares,

    RMS error per agent = l2 norm over agents / sqrt(n)

Both are of the statistic xi, all components together; neither is an MSE. What people see of a run is
its sheet, `veilsum.front.of_runs`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from veilsum import _extras, _validate
from veilsum.errors import VeilsumError
from veilsum.families.base import Interval, quantile
from veilsum.privacy import Guarantee, guarantee_of
from veilsum.results import describe
from veilsum.results.combined import Provenance, compose, protects_signals
from veilsum.results.intervals import (
    AGENT,
    NETWORK,
    SIMULATED,
    Asked,
    NamedIntervals,
    check_run,
    default_of,
    interval_asked,
    name_of,
    reads_releases,
)
from veilsum.simulation import Problem, Trace
from veilsum.theory.noise import NAMES, POPULATION, READINGS

if TYPE_CHECKING:
    import pandas as pd


class Errors(NamedTuple):
    """Errors at the last round, mean over replicas.

    Attributes
    ----------
    total, privacy, decentralisation
        A number each, or an array along the epsilons of a sweep. Norms over all agents or, from
        `Result.errors_per_agent`, root mean squares; never an MSE.

    Examples
    --------
    >>> Errors(total=5.0, privacy=3.0, decentralisation=4.0).privacy
    3.0
    """

    total: Any
    privacy: Any
    decentralisation: Any


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The outcome of one algorithm on one network, for one or more epsilons and replicas.

    Parameters
    ----------
    problem
        What was run.
    trace
        What the simulator or the agents measured.
    name
        Names the result in tables and files.
    noise
        "simulated", or "exact": drawn by real agents and charged to their ledgers.
    stated
        A guarantee in place of the one that is derived for a simulation.
    provenance
        The scenario that it comes from.
    seconds
        How long the run took.
    unit
        Of the signals, such as "kWh": for axes, tables and pages.

    Examples
    --------
    >>> import veilsum
    >>> result = veilsum.sweep(
    ...     {"mu": 3.0}, "ring:9", veilsum.families.Normal(sigma=1.0),
    ...     veilsum.privacy.SignalDP(epsilon=1.0), "average", rounds=50, replicas=2, rng=1,
    ... ).result
    >>> result.guarantee.status
    <Status.PROVED: 'proved'>
    >>> sorted(result.estimate)
    ['mu']
    """

    problem: Problem
    trace: Trace
    name: str = "run"
    noise: str = SIMULATED
    stated: Guarantee | None = None
    provenance: Provenance | None = None
    seconds: float | None = None
    unit: str = ""

    @property
    def measured(self) -> bool:
        """Whether the signals are measured: what depends on them is written only on request."""
        return self.problem.source.measured

    @property
    def releasable(self) -> bool:
        """Whether estimates may be shown: signals are synthetic, or a guarantee protects them.

        A guarantee is about messages. Where these are not the estimates
        (`Algorithm.perturbs_messages`: agents send nu + q), nothing is guaranteed for the estimates
        themselves.
        """
        if not self.measured:
            return True
        protected = protects_signals(self.run_guarantee()) and protects_signals(self.guarantee)
        return protected and not self.problem.algorithm.perturbs_messages

    @cached_property
    def guarantee(self) -> Guarantee:
        """What is guaranteed for everything that the result contains.

        Of measured signals that is all epsilons and replicas together, each of which is a release.
        Synthetic signals belong to nobody: theirs is the guarantee of one run, at the largest
        epsilon.
        """
        epsilons = self.problem.run_epsilons
        if not (self.measured and epsilons):
            return self.run_guarantee(max(epsilons, default=None))
        return self.stated or compose(
            [(self.run_guarantee(epsilon), self.problem.replicas) for epsilon in epsilons]
        )

    def run_guarantee(self, epsilon: float | None = None, replicas: int = 1) -> Guarantee:
        """What is guaranteed for one run at an epsilon, or for several.

        Parameters
        ----------
        epsilon
            One that was run; the first without it.
        replicas
            How many runs.

        Returns
        -------
        Guarantee
            The guarantee of these runs together.

        Raises
        ------
        VeilsumError
            If the epsilon was not run.
        """
        if self.stated is not None:
            return self.stated
        return compose([(self._derived[self._epsilon_index(epsilon)], replicas)])

    @cached_property
    def _derived(self) -> list[Guarantee]:
        """The guarantee of one run at each epsilon; that of the largest is the problem's own."""
        problem = self.problem
        if not problem.privacy.adds_noise:
            return [problem.guarantee]
        requests = [problem.privacy.at(epsilon) for epsilon in problem.run_epsilons]
        return [
            problem.guarantee
            if request.epsilon == max(problem.run_epsilons)
            else guarantee_of(request, problem.algorithm, problem.rounds, problem.family)
            for request in requests
        ]

    def guarantee_at(self, epsilon: float | None = None) -> Guarantee:
        """What is guaranteed at an epsilon: for all replicas of measured signals, for one run else.

        Parameters
        ----------
        epsilon
            One that was run; the first without it.

        Returns
        -------
        Guarantee
            What a table shows beside the epsilon.
        """
        return self.run_guarantee(epsilon, self.problem.replicas if self.measured else 1)

    @property
    def errors(self) -> Errors:
        """Total error, cost of privacy and cost of decentralisation at the last round.

        Numbers for one epsilon, arrays along the epsilons of a sweep. Of measured signals they are
        an evaluation: they are printed and written only on request.
        """
        total = _plain(self.trace.total[-1].mean(axis=-1))
        privacy = _plain(self.trace.privacy[-1].mean(axis=-1))
        decentralisation = float(self.trace.decentralisation[-1].mean())
        if not self.problem.run_epsilons:
            return Errors(decentralisation, 0.0, decentralisation)
        return Errors(total, privacy, decentralisation)

    @property
    def errors_per_agent(self) -> Errors:
        """The same as root mean square errors of an agent: the norms over sqrt(n)."""
        root = math.sqrt(self.problem.network.size)
        return Errors(*(value / root for value in self.errors))

    @property
    def estimate(self) -> dict[str, Any]:
        """The parameters at the mean of all agents' estimates, in the first replica."""
        values = self.problem.family.parameter(self.trace.mean[0, 0])
        return {name: _plain(value) for name, value in values.items()}

    @property
    def interval(self) -> dict[str, tuple[Any, Any]]:
        """95% intervals for them, of the mean of all agents: `interval_of` says what they are of."""
        return {n: (_plain(i.low), _plain(i.high)) for n, i in self.intervals().items()}

    @property
    def interval_of(self) -> str:
        """What `interval` is of: the mean of the readings if they are measured, else the population's."""
        return name_of(self.problem, default_of(self.problem))

    @property
    def interval_is_private(self) -> bool:
        """Whether the scale of the noise depends on measured signals, as under smooth sensitivity.

        An interval made from it is as secret as the signals and is written to no file.
        """
        return self.problem.privacy.reads_signals and self.problem.source.measured

    def intervals(
        self,
        epsilon: float | None = None,
        replica: int = 0,
        confidence: float = 0.95,
        of: str | None = None,
        whose: str = "network",
        correlation: float | None = None,
        **unknown: Any,
    ) -> dict[str, Interval]:
        """Parameters with confidence intervals, privacy noise included.

        Parameters
        ----------
        epsilon
            One that was run; the first without it.
        replica
            Counted from 0.
        confidence
            The probability that an interval contains what it is of, such as 0.95.
        of
            "readings", the mean of these readings (in a sum over a roster, of those present): noise alone;
            "population", the mean that they are drawn from: sampling too. By default "readings" if
            they were measured, else "population".
        whose
            "network", around the mean of all agents' estimates; "agent", around the estimate of any
            one agent, which adds what agents still disagree by.
        correlation
            Of the population, with the family's variance as given: how many correlated readings of a
            stream are worth one independent reading, inf if all readings of an agent are worth one. By
            default nothing is assumed of measured readings: how far the agents' releases are apart
            decides (`veilsum.results.intervals`).

        Returns
        -------
        dict of str to Interval
            `value`, `low` and `high` of each parameter.

        Raises
        ------
        VeilsumError
            If an argument is wrong or unknown, or there is no such interval.

        Examples
        --------
        >>> import veilsum as vs
        >>> loads = [9.0, 11.0, 10.0, 12.0, 8.0, 10.5, 9.5, 10.0, 10.0]
        >>> family, privacy = vs.families.Normal(bounds=(0.0, 20.0)), vs.privacy.SignalDP(40.0, radius=20.0)
        >>> result = vs.estimate(loads, "ring:9", family, privacy, rng=1).result
        >>> for of in ("readings", "population"):
        ...     found = result.intervals(of=of)["mu"]
        ...     print(of, round(float(found.high - found.low), 1))
        readings 0.9
        population 1.7
        """
        if unknown:
            raise VeilsumError(
                f"intervals has no option {next(iter(unknown))!r}; its options are epsilon, "
                "replica, confidence, of, whose and correlation; try confidence=0.95"
            )
        asked = self._asked(epsilon, replica, confidence, of, whose, correlation)
        return interval_asked(self.problem, self.trace, asked)

    def _asked(
        self,
        epsilon: float | None,
        replica: int,
        confidence: float,
        of: str | None = None,
        whose: str = NETWORK,
        correlation: float | None = None,
    ) -> Asked:
        quantile(confidence)
        target = default_of(self.problem) if of is None else of
        _validate.one_of(VeilsumError, tuple(NAMES), of=target)
        _validate.one_of(VeilsumError, (NETWORK, AGENT), whose=whose)
        if correlation is not None and target == READINGS:
            raise VeilsumError(
                "correlation is of readings that are drawn from a population; the interval of these "
                'readings has none: leave it out, or ask for of="population"'
            )
        e = self._epsilon_index(epsilon)
        return Asked(e, replica, confidence, target, whose, correlation, self.noise)

    def named_intervals(self, epsilon: float | None = None) -> list[NamedIntervals]:
        """All 95% intervals that may be shown to anyone, with their names: what outputs show.

        Parameters
        ----------
        epsilon
            One that was run; the first without it.

        Returns
        -------
        list of NamedIntervals
            `of`, `name`, and intervals by parameter: `network` and `agent`, as in `intervals`. The
            default comes first. One that does not exist is left out, and so is one whose width
            depends on measured signals; without a guarantee for measured signals there is none.

        Examples
        --------
        >>> import veilsum as vs
        >>> result = vs.estimate([1.0, 2.0, 6.0], "complete:3", vs.families.Normal(),
        ...                      vs.privacy.SignalDP(epsilon=1.0, radius=1.0), rng=1).result
        >>> [found.name for found in result.named_intervals()]
        ['of the mean of these readings', 'of the population mean']
        """
        if not self.releasable:
            return []
        e = self._epsilon_index(epsilon)
        if e not in self._named:
            first = default_of(self.problem)
            both = sorted(NAMES, key=lambda of: of != first)
            self._named[e] = [found for of in both if (found := self._named_interval(epsilon, of))]
        return self._named[e]

    @cached_property
    def _named(self) -> dict[int, list[NamedIntervals]]:
        return {}

    def _named_interval(self, epsilon: float | None, of: str) -> NamedIntervals | None:
        released = of == POPULATION and reads_releases(self.problem, self.noise)
        if self.interval_is_private and not released:
            return None
        try:
            network, agent = (
                self.intervals(epsilon, of=of, whose=whose) for whose in (NETWORK, AGENT)
            )
        except VeilsumError:
            return None
        name = name_of(self.problem, of)
        return NamedIntervals(of, name, network, agent)

    def agents(
        self, epsilon: float | None = None, replica: int = 0, confidence: float = 0.95
    ) -> pd.DataFrame:
        """The estimate of every agent at the last round, with its interval.

        Parameters
        ----------
        epsilon, replica, confidence
            As in `intervals`.

        Returns
        -------
        pandas.DataFrame
            A row for each agent: `mu`, `mu_low`, `mu_high`; `attrs["interval"]` says what the interval
            is of. It is left out where its width depends on measured signals
            (`interval_is_private`).

        Raises
        ------
        VeilsumError
            If the run recorded no estimates.
        """
        pd = _extras.load("pandas")
        if self.trace.final is None:
            raise VeilsumError(
                "this run recorded error norms only; run it with Record(), which keeps estimates"
            )
        asked = self._asked(epsilon, replica, confidence, whose=AGENT)
        place = check_run(self.trace, asked.e, replica)
        own = self.trace.final[:, *place]
        found = interval_asked(self.problem, self.trace, asked, own)
        table: dict[str, Any] = {}
        for name, i in found.items():
            if np.ndim(i.value) > 1:
                table |= {f"{name}[{k}]": i.value[:, k] for k in range(i.value.shape[1])}
            elif self.interval_is_private and np.ndim(i.value) == 1:
                table |= {name: i.value}
            else:
                table |= {name: i.value, f"{name}_low": i.low, f"{name}_high": i.high}
        index = pd.Index(list(self.problem.network.labels), name="agent", tupleize_cols=False)
        frame = pd.DataFrame(table, index=index)
        frame.attrs["interval"] = f"{confidence:.0%} {self.interval_of}"
        return frame

    def released(self, epsilon: float | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Estimates and intervals that may be shown to anyone.

        Parameters
        ----------
        epsilon
            One that was run; the first without it.

        Returns
        -------
        tuple of dict
            Estimates by name, and (low, high) by name: the first of `named_intervals`. Both are empty
            where nothing protects measured signals.
        """
        if not self.releasable:
            return {}, {}
        mean = self.trace.mean[self._epsilon_index(epsilon), 0]
        parameters = self.problem.family.parameter(mean)
        values = {name: _plain(value) for name, value in parameters.items()}
        default = default_of(self.problem)
        found = next((i.network for i in self.named_intervals(epsilon) if i.of == default), {})
        return values, {name: (_plain(i.low), _plain(i.high)) for name, i in found.items()}

    def _epsilon_index(self, epsilon: float | None) -> int:
        if epsilon is None:
            return 0
        _validate.positive(VeilsumError, epsilon=epsilon)
        found = np.flatnonzero(np.isclose(self.problem.run_epsilons, epsilon))
        if not found.size:
            raise VeilsumError(
                f"epsilon {epsilon} was not run; there are {list(self.problem.run_epsilons)}"
            )
        return int(found[0])

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know before using a number. Computed once: it may take seconds."""
        return tuple(describe.warnings_of(self.problem, self.noise))

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What is worth knowing besides."""
        return tuple(describe.notes_of(self.problem, self.noise))

    def __repr__(self) -> str:
        """Algorithm, network and guarantee; no estimate, which may reveal a signal."""
        network = describe.describe_network(self.problem.network)
        name, status = self.problem.algorithm.name, self.guarantee.status
        return f"Result({self.name!r}, {name} on {network}, {status})"


def _plain(value: Any) -> Any:
    """A number if there is one, an array if there are several."""
    array = np.asarray(value)
    return array.reshape(-1)[0].item() if array.size == 1 else array
