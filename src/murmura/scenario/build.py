"""From a specification to something that runs: network, family, signals, law and record.

Variants that name the same network, or the same file of readings, share it. What does not fit
together (a law and its network, a promise and its family) is a `ScenarioError` at its line; a
graph, weights or data that fail keep the library's error, with the line in front.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from murmura import laws, network
from murmura._memory import check_rounds
from murmura.api import sweep
from murmura.engine import Drawn, Observed, Problem, Record, Source
from murmura.engine.seeds import seed_of
from murmura.engine.simulate import Progress
from murmura.errors import MurmuraError, NetworkError, ScenarioError, SignalError
from murmura.privacy import Calibration, announce, calibrate, promise
from murmura.report import Result
from murmura.scenario import check
from murmura.scenario.faults import Fault, shown, told
from murmura.scenario.load import Scenario
from murmura.scenario.model import Spec
from murmura.signals import Signals, as_signals

LARGEST_NOISE = 1e100


@dataclass(frozen=True, eq=False)
class Job:
    """One variant, built: `run` gives its result."""

    name: str
    title: str
    problem: Problem
    record: Record
    evaluate: bool = False  # whether the scenario asks for an evaluation of measured signals

    def run(self, progress: Progress | None = None, strict: bool = False, **engine: Any) -> Result:
        """Simulate; `progress` is told the round and the number of rounds.

        With `strict`, a promise that is not proved is an error. `engine`, `checkpoint`, `every`
        and `resume` are as in `murmura.sweep`.
        """
        problem = self.problem
        return sweep(
            problem.source,
            problem.network,
            problem.family,
            problem.want,
            problem.law,
            problem.rounds,
            epsilons=problem.epsilons,
            replicas=problem.replicas,
            rng=problem.seed,
            record=self.record,
            progress=progress,
            name=self.name,
            strict=strict,
            **engine,
        )

    def announce(self, strict: bool = False) -> None:
        """Warn, or with `strict` refuse, if the promise is not proved: what `run` does first."""
        problem = self.problem
        announce(
            promise(problem.want, problem.law, problem.rounds, problem.family), problem.want, strict
        )


@dataclass(frozen=True, eq=False)
class Builder:
    """Builds the variants of one scenario, and keeps what they share."""

    scenario: Scenario
    kept: dict[Hashable, Any] = field(default_factory=dict)

    def job(self, index: int, signals: bool = True) -> Job:
        """Build one variant and check that its parts fit together.

        Without `signals` no file of readings is opened: real agents bring their own.
        """
        spec = self.scenario.variants[index]
        net, family = self._network(spec, index), check.family_of(spec)
        with self._at(index, "law"):
            law = laws.get(spec.law.name, net, **spec.law.options)
        want = check.want_of(spec)
        if signals:
            with self._at(index, "law", "rounds"):
                check_rounds(spec.law.rounds)
        with self._at(index, "privacy"):
            noise = calibrate(want, law, family, net, spec.law.rounds)
        with self._at(index, "privacy", "epsilon"):
            _check_noise(noise, spec)
        source = (
            self._source(spec, index, family, net)
            if signals
            else Drawn(family, {}, net.size, spec.seed or 0)
        )
        with self._at(index, "signals", keep=SignalError):
            problem = Problem(
                net, law, family, source, want, spec.law.rounds, spec.privacy.epsilon,
                spec.replicas, seed_of(spec.seed, source.measured),
            )  # fmt: skip
        with self._at(index, "record", "agents"):
            record = _record(spec, net.labels)
        return Job(spec.name, spec.title or spec.name, problem, record, spec.record.evaluate)

    def _network(self, spec: Spec, index: int) -> Any:
        asked = spec.network
        seed = (spec.seed or 0) if asked.dynamic else None
        key = ("network", seed, asked.model_dump_json())
        if key not in self.kept:
            graph = self._graph(spec, index)
            with self._at(index, "network", "weights", keep=NetworkError):
                self.kept[key] = _weighed(graph, spec)
        return self.kept[key]

    def _graph(self, spec: Spec, index: int) -> network.Graph:
        asked = spec.network
        key = ("graph", asked.model_dump_json(include={"graph", "directed", "options"}))
        if key not in self.kept:
            source = check.graph_source(spec, self.scenario.folder)
            part = "options" if asked.options else "graph"
            kind = NetworkError if isinstance(source, Path) else None
            with self._at(index, "network", part, keep=kind):
                _check_file(source, asked.graph)
                self.kept[key] = _loaded(source, spec)
        return self.kept[key]  # type: ignore[no-any-return]

    def _source(self, spec: Spec, index: int, family: Any, net: Any) -> Source:
        if spec.signals.draw is not None:
            return Drawn(family, spec.signals.draw, net.size, spec.seed or 0)
        key = ("signals", spec.signals.model_dump_json(), tuple(net.labels))
        if key not in self.kept:
            with self._at(index, "signals", "file", keep=SignalError):
                path = check.resolved(spec.signals.file or "", self.scenario.folder)
                _check_file(path, spec.signals.file or "")
                self.kept[key] = _readings(spec, path, net.labels)
        return Observed(self.kept[key])

    @contextmanager
    def _at(self, index: int, *path: str, keep: type[MurmuraError] | None = None) -> Iterator[None]:
        """Put the line in front of an error; its type stays if it is `keep`, or an extra's."""
        try:
            yield
        except check.REFUSALS as problem:
            varied = index if self.scenario.places.names else None
            text = self.scenario.places.message(Fault(path, _as_written(problem)), varied)
            stays = isinstance(problem, ImportError) or (keep and isinstance(problem, keep))
            raise (type(problem) if stays else ScenarioError)(text) from problem


def run(
    scenario: Any,
    epsilons: Sequence[float] | None = None,
    progress: Any = None,
) -> dict[str, Result]:
    """Run every variant of a scenario (or of the scenario file at a path), by name.

    `epsilons` replaces those of the scenario; `progress` is told the variant, the round and the
    number of rounds. Everything is built and checked before the first variant runs.
    """
    made = scenario if isinstance(scenario, Scenario) else Scenario.load(scenario)
    made = made if epsilons is None else made.with_(epsilons=epsilons)
    return {job.name: job.run(_for(progress, job.name)) for job in made.jobs()}


def _for(progress: Any, name: str) -> Progress | None:
    if progress is None:
        return None

    def told(t: int, rounds: int) -> None:
        progress(name, t, rounds)

    return told


def _as_written(problem: Exception) -> str:
    """What the library advises, as a scenario says it: weights = "lazy-metropolis"."""

    def key(call: re.Match[str]) -> str:
        if call[1] == "join":
            return "connect = true in options, for graphs that are drawn"
        return f'weights = "{call[1].replace("_", "-")}"'

    text = re.sub(r"network\.(\w+)\(graph\)", key, told(problem))
    return re.sub(r"signals\.clip\(([^)]*)\)", r"clip = [\1] under [signals]", text)


def _check_noise(noise: Calibration | None, spec: Spec) -> None:
    """Refuse noise so large that sums over agents overflow and estimates are not numbers.

    A reading of 1 stands in where the scale is read off the signals: the check is public.
    """
    if noise is None:
        return
    with np.errstate(all="ignore"):
        scale = noise.scale(np.ones((1, 1)), min(spec.privacy.epsilon), 1).max()
    if not scale <= LARGEST_NOISE:
        raise ScenarioError(
            f"found {shown(min(spec.privacy.epsilon))}; with radius = "
            f"{shown(spec.privacy.radius)} it needs noise of a scale beyond "
            f"{LARGEST_NOISE:g}, the most that is computed with; choose a larger epsilon"
        )


def _check_file(source: str | Path | None, written: str) -> None:
    if isinstance(source, Path) and not source.is_file():
        raise ScenarioError(f"found {shown(written)}; there is no file {source}")


def _loaded(source: str | Path | None, spec: Spec) -> network.Graph:
    assert source is not None, "the check has found the graph"
    options = dict(spec.network.options)
    if spec.network.directed and not isinstance(source, Path):
        raise NetworkError(
            f"directed = true is for files; {spec.network.graph} is undirected, and "
            "row- and column-stochastic weights do without it"
        )
    if spec.network.directed:
        options["directed"] = True
    return network.load(source, **options)


def _weighed(graph: network.Graph, spec: Spec) -> Any:
    asked = spec.network
    if asked.link_failures is not None:
        return network.link_failures(graph, asked.link_failures, seed=spec.seed or 0)
    if asked.asleep is not None:
        return network.asleep(graph, asked.asleep, seed=spec.seed or 0)
    if asked.weights == "row-stochastic":
        return network.row_stochastic(graph)
    if asked.weights == "column-stochastic":
        return network.column_stochastic(graph)
    return network.weigh(graph, asked.weights or "metropolis")


def _readings(spec: Spec, path: Path, labels: Sequence[Hashable]) -> Signals:
    """The file's readings; matched by order, its agents take the network's places one by one."""
    asked = spec.signals
    ordered = asked.match == "order"
    columns: dict[str, Any] = {"agent": asked.agent, "time": asked.time, "value": asked.value}
    signals = as_signals(path, None if ordered else labels, asked.missing, **columns)
    if ordered and signals.agents != len(labels):
        raise SignalError(
            f"the file has {signals.agents} agents and the network {len(labels)}; "
            'match = "order" needs as many of each'
        )
    signals = replace(signals, labels=labels) if ordered else signals
    return signals if asked.clip is None else signals.clip(*asked.clip)


def _record(spec: Spec, labels: Sequence[Hashable]) -> Record:
    """A number of agents is spread evenly over the network."""
    asked = spec.record
    agents: list[Hashable] | None = None
    if isinstance(asked.agents, list):
        agents = list(asked.agents)
    elif isinstance(asked.agents, int):
        count = min(asked.agents, len(labels))
        last = max(count - 1, 1)
        agents = [labels[round(k * (len(labels) - 1) / last)] for k in range(count)]
    record = Record(asked.every, agents, asked.estimates)
    record.rows(labels)
    return record
