"""From a specification to a problem: network, family, signals, algorithm and record.

Variants with the same network, or the same file of readings, use one object. Parts that do not fit
together (an algorithm and its network, a privacy request and its family) raise a `ScenarioError`
with the line; errors in a graph, weights or data keep their type and get the line in front.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from veilsum import algorithms, networks
from veilsum._memory import check_rounds
from veilsum._toml import Issue, format_value
from veilsum._types import Family, Network
from veilsum._warn import warn
from veilsum.api import solve
from veilsum.errors import (
    DivergenceWarning,
    NetworkError,
    ScenarioError,
    SignalError,
    VeilsumError,
)
from veilsum.privacy import Plan
from veilsum.privacy.proofs import announce
from veilsum.results import Provenance, Result
from veilsum.scenario import check
from veilsum.scenario.errors import describe
from veilsum.scenario.parse import Scenario
from veilsum.scenario.schema import Spec
from veilsum.signals import Signals, as_signals
from veilsum.simulation import Problem, Record, RecordedSignals, SignalSource, SyntheticSignals
from veilsum.simulation.runner import Progress
from veilsum.simulation.seeds import seed_of

LARGEST_NOISE = 1e100
VARIABLE = re.compile(r"\$\{?(\w+)")  # of the environment, in a path


@dataclass(frozen=True, eq=False)
class Job:
    """One variant, ready to run.

    Attributes
    ----------
    name, title
        Of the variant.
    problem
        What to run; it is run as it is.
    record
        Which estimates to record.
    provenance
        The scenario that the result comes from.
    unit
        Of the signals.
    clipped
        Why no simulation of it is run: its agents run clipped rounds; empty if they do not.

    Examples
    --------
    >>> from veilsum.scenario import Scenario, template
    >>> job = Scenario.parse(template()).with_(replicas=2).build("average")
    >>> job.run().guarantee.status
    <Status.PROVED: 'proved'>
    """

    name: str
    title: str
    problem: Problem
    record: Record
    provenance: Provenance | None = None
    unit: str = ""
    clipped: str = ""

    def run(self, progress: Progress | None = None, strict: bool = False, **options: Any) -> Result:
        """Run the problem.

        Parameters
        ----------
        progress
            Called with the round and the number of rounds.
        strict
            Whether a guarantee that is not proved is an error; otherwise it is a warning.
        options
            `engine`, `checkpoint`, `every` and `resume`, as in `veilsum.api.solve`.

        Returns
        -------
        Result
            Errors, estimates and the guarantee.

        Raises
        ------
        PrivacyError
            With `strict`, if the guarantee is not proved.
        """
        self.announce(strict)
        return self.solve(progress, **options)

    def solve(self, progress: Progress | None = None, **options: Any) -> Result:
        """Run the problem without warnings: `run` after `announce`.

        Parameters
        ----------
        progress, options
            As in `run`.

        Returns
        -------
        Result
            Errors, estimates and the guarantee, with the provenance and the time it took.
        """
        self.check_plain()
        began = time.perf_counter()
        result = solve(self.problem, self.record, progress, self.name, **options)
        seconds = time.perf_counter() - began
        return replace(result, provenance=self.provenance, seconds=seconds, unit=self.unit)

    def announce(self, strict: bool = False) -> None:
        """Warn of an algorithm that diverges and of a guarantee that is not proved.

        Parameters
        ----------
        strict
            Whether a guarantee that is not proved is an error.

        Raises
        ------
        PrivacyError
            With `strict`, if the guarantee is not proved.
        ScenarioError
            If agents would run clipped rounds.
        """
        self.check_plain()
        problem = self.problem
        if problem.diverges:
            text = f"algorithm {problem.algorithm.name} diverges: {problem.diverges}"
            warn(text, DivergenceWarning)
        announce(problem.guarantee, problem.privacy, strict)

    def check_plain(self) -> None:
        """Raise where agents run clipped rounds: what is computed of plain ones would be wrong.

        Raises
        ------
        ScenarioError
            It names the line, and what to use instead.
        """
        if self.clipped:
            raise ScenarioError(self.clipped)


@dataclass(frozen=True, eq=False)
class Builder:
    """Builds the variants of one scenario; `shared` holds what several of them use."""

    scenario: Scenario
    shared: dict[Hashable, Any] = field(default_factory=dict)

    def job(self, index: int, signals: bool = True) -> Job:
        """Build one variant and check that its parts fit together.

        Without `signals` no file of readings is opened: each agent reads its own.
        """
        spec = self.scenario.variants[index]
        net, family = self._network(spec, index), spec.family.family
        with self._at(index, "algorithm"):
            algorithm = algorithms.get(spec.algorithm.name, net, **spec.algorithm.options)
        with self._at(index, "algorithm", "rounds"):
            if algorithm.session is not None:
                algorithm.session.check_rounds(spec.algorithm.rounds)
            if signals:
                check_rounds(spec.algorithm.rounds)
        source = (
            self._source(spec, index, family, net)
            if signals
            else SyntheticSignals(family, {}, net.size, spec.seed or 0)
        )
        with self._at(index, "privacy"):
            request = spec.privacy.request.over(family, drawn=spec.signals.draw is not None)
        with self._at(index, "signals", keep=SignalError):
            problem = Problem(
                net, algorithm, family, source, request, spec.algorithm.rounds,
                spec.privacy.epsilon, spec.replicas, seed_of(spec.seed, source.measured),
            )  # fmt: skip
        with self._at(index, "privacy"):
            plan = problem.plan
        with self._at(index, "privacy", "epsilon"):
            _check_noise(plan, spec)
        with self._at(index, "record", "agents"):
            record = _record(spec, net.labels)
        return Job(
            spec.name, spec.title or spec.name, problem, record,
            self.scenario.provenance, spec.family.unit, self._clipped(spec, index),
        )  # fmt: skip

    def _clipped(self, spec: Spec, index: int) -> str:
        if not spec.agents.clip:
            return ""
        text = (
            f"found {spec.agents.clip:g}; agents clip their rounds, and `veilsum run` and `veilsum plan` "
            "compute plain ones, whose errors are others; use `veilsum up`, or "
            "veilsum.simulation.clipped_gossip, or leave clip out"
        )
        place = index if self.scenario.source_map.variants else None
        return self.scenario.source_map.message(Issue(("agents", "clip"), text), place)

    def _network(self, spec: Spec, index: int) -> Network:
        section = spec.network
        seed = (spec.seed or 0) if section.dynamic else None
        key = ("network", seed, section.model_dump_json())
        if key not in self.shared:
            graph = self._graph(spec, index)
            with self._at(index, "network", "weights", keep=NetworkError):
                self.shared[key] = _weighted(graph, spec)
        return self.shared[key]  # type: ignore[no-any-return]

    def _graph(self, spec: Spec, index: int) -> networks.Graph:
        section = spec.network
        key = ("graph", section.model_dump_json(include={"graph", "directed", "options"}))
        if key not in self.shared:
            source = check.graph_source(spec, self.scenario.folder)
            part = "options" if section.options else "graph"
            kind = NetworkError if isinstance(source, Path) else None
            with self._at(index, "network", part, keep=kind):
                _check_file(source, section.graph)
                self.shared[key] = _load_graph(source, spec)
        return self.shared[key]  # type: ignore[no-any-return]

    def _source(self, spec: Spec, index: int, family: Family, net: Network) -> SignalSource:
        if spec.signals.draw is not None:
            return SyntheticSignals(family, spec.signals.draw, net.size, spec.seed or 0)
        key = ("signals", spec.signals.model_dump_json(), tuple(net.labels))
        if key not in self.shared:
            with self._at(index, "signals", "file", keep=SignalError):
                path = check.resolve(spec.signals.file or "", self.scenario.folder)
                _check_file(path, spec.signals.file or "")
                self.shared[key] = _readings(spec, path, net.labels)
        return RecordedSignals(self.shared[key])

    @contextmanager
    def _at(self, index: int, *path: str, keep: type[VeilsumError] | None = None) -> Iterator[None]:
        """Put the line in front of an error; it becomes a `ScenarioError` unless it is a `keep`."""
        try:
            yield
        except check.REFUSALS as error:
            source_map = self.scenario.source_map
            variant = index if source_map.variants else None
            text = source_map.message(Issue(path, _in_scenario_terms(error)), variant)
            unchanged = isinstance(error, ImportError) or (keep and isinstance(error, keep))
            raise (type(error) if unchanged else ScenarioError)(text) from error


def _in_scenario_terms(error: Exception) -> str:
    """The library's advice as a scenario writes it: weights = "lazy-metropolis"."""

    def key(call: re.Match[str]) -> str:
        if call[1] == "join":
            return f"connect = true in options{call[2] or ''}, for graphs that are drawn"
        return f'weights = "{call[1].replace("_", "-")}"{call[2] or ""}'

    text = re.sub(r"networks\.(\w+)\(graph\)( does)?", key, describe(error))
    text = re.sub(r"signals\.clip\(([^)]*)\)", r"clip = [\1] under [signals]", text)
    text = re.sub(r", or frame\.rename_axis\('\w+'\) if the index does", "", text)
    text = re.sub(r"\bmissing='([\w-]+)'", r'missing = "\1"', text)
    text = re.sub(r"\b(agent|time|value)=\.\.\.", r"\1 = ...", text)
    text = text.replace("missing=0.0", "missing = 0.0")
    return re.sub(r"\bpass (\w+ = )", r"under [signals], say \1", text)


def _check_noise(plan: Plan, spec: Spec) -> None:
    """Raise if the noise is so large that sums over agents overflow.

    Where the scale depends on the signals, it is taken at a reading of 1: the check is public.
    """
    if not plan.privacy.adds_noise or plan.algorithm is None:
        return
    rounds = range(spec.algorithm.rounds + 1)
    first = next((t for t in rounds if plan.algorithm.at(t).noise), None)
    if first is None:
        return
    with np.errstate(all="ignore"):
        scale = plan.scale(np.ones((1, 1)), min(spec.privacy.epsilon), first).max()
    if not scale <= LARGEST_NOISE:
        raise ScenarioError(
            f"found {format_value(min(spec.privacy.epsilon))}; with radius = "
            f"{format_value(plan.privacy.radius)} it needs noise of a scale beyond "
            f"{LARGEST_NOISE:g}, the most that is computed with; choose a larger epsilon"
        )


def _check_file(source: str | Path | None, written: str) -> None:
    if isinstance(source, Path) and not source.is_file():
        unset = [name for name in VARIABLE.findall(written) if name not in os.environ]
        remedy = f"; set the environment variable {', '.join(unset)}" if unset else ""
        raise ScenarioError(f"found {format_value(written)}; there is no file {source}{remedy}")


def _load_graph(source: str | Path | None, spec: Spec) -> networks.Graph:
    assert source is not None, "the check has found the graph"
    options = dict(spec.network.options)
    if spec.network.directed and not isinstance(source, Path):
        raise NetworkError(
            f"directed = true is for files; {spec.network.graph} is undirected, and "
            "row- and column-stochastic weights do without it"
        )
    if spec.network.directed:
        options["directed"] = True
    return networks.load(source, **options)


def _weighted(graph: networks.Graph, spec: Spec) -> Network:
    section = spec.network
    if section.link_failures is not None:
        return networks.link_failures(graph, section.link_failures, seed=spec.seed or 0)
    if section.asleep is not None:
        return networks.asleep(graph, section.asleep, seed=spec.seed or 0)
    if section.weights == "row-stochastic":
        return networks.row_stochastic(graph)
    if section.weights == "column-stochastic":
        return networks.column_stochastic(graph)
    return networks.weigh(graph, section.weights)


def _readings(spec: Spec, path: Path, labels: Sequence[Hashable]) -> Signals:
    """The file's readings; matched by order, its agents take the network's places one by one."""
    section = spec.signals
    ordered = section.match == "order"
    columns: dict[str, Any] = {"agent": section.agent, "time": section.time, "value": section.value}
    signals = as_signals(path, None if ordered else labels, section.missing, **columns)
    if ordered and signals.agents != len(labels):
        raise SignalError(
            f"the file has {signals.agents} agents and the network {len(labels)}; "
            'match = "order" needs as many of each'
        )
    signals = replace(signals, labels=labels) if ordered else signals
    return signals if section.clip is None else signals.clip(*section.clip)


def _record(spec: Spec, labels: Sequence[Hashable]) -> Record:
    """A number of agents is spread evenly over the network."""
    section = spec.record
    agents: list[Hashable] | None = None
    if isinstance(section.agents, list):
        agents = list(section.agents)
    elif isinstance(section.agents, int):
        count = min(section.agents, len(labels))
        last = max(count - 1, 1)
        agents = [labels[round(k * (len(labels) - 1) / last)] for k in range(count)]
    record = Record(section.every, agents, section.estimates)
    record.rows(labels)
    return record
