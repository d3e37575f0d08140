"""Run a scenario by real agents on this machine: start the processes, watch them, collect results.

Workers exit when their standard input closes, so they cannot outlive the cluster even if it is
killed. Errors are measured against the noiseless run of the simulator on the same signals, which
`up` knows because it draws or reads them itself. A deployment on separate sites has no such report:
no one knows all of its signals.
"""

from __future__ import annotations

import json
import os
import queue
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import IO, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from veilsum._types import Network
from veilsum.agents.local_cluster.plan import (
    DeploymentPlan,
    assign,
    restrict,
    signing_key_file,
)
from veilsum.agents.manifest import Manifest
from veilsum.agents.pins import BYTES
from veilsum.agents.pki import Authority, SigningKey
from veilsum.agents.release import check_guarantee, guarantee
from veilsum.agents.scenario_terms import manifest_of, spec_of
from veilsum.errors import AgentError
from veilsum.privacy import Batches
from veilsum.results import Result
from veilsum.results.describe import EXACT
from veilsum.scenario import Scenario
from veilsum.simulation import Problem, Record, Trace, clipped_gossip, simulate

GRACE = 30.0  # seconds for a worker to save its results and exit
LAST_SECONDS = 3.0  # for all workers to exit where the run is given up
TAIL = 6  # last lines of a failed worker's standard error that are shown

Floats = NDArray[np.float64]
OnStatus = Callable[["LocalCluster"], None]


class ClusterObserver(Protocol):
    """Follows the agents of a local cluster one by one, for a page."""

    def planned(self, plan: DeploymentPlan, problem: Problem) -> None:
        """Called before anything starts; an error ends `up` there."""

    def heard(self, device: str, line: dict[str, Any]) -> None:
        """Called with each line of a process; "sites" and "trail" are as of `SiteReports.take`."""

    def exited(self, device: str) -> None:
        """Called when a process has ended."""


@dataclass(frozen=True)
class LaunchOptions:
    """Options of `up`.

    Parameters
    ----------
    agents : int, optional
        Run only so many agents; all by default.
    processes : int
        Processes that the agents are divided among.
    variant : str, optional
        Variant of the scenario; the first by default.
    seed : int, optional
        In place of the scenario's.
    insecure : bool
        No certificates.
    research : bool
        Allow guarantees that are not proved.
    every_round : bool
        Save the mixing state in every round instead of at the end.
    deadline, resend, tick : float
        Seconds, as in `Options`.
    budget : float
        Epsilon for the whole stream; 0 for the scenario's epsilon per reading.
    timeout : float, optional
        Seconds after which to give up.
    folder : Path, optional
        Keeps ledgers, keys and logs; a temporary folder by default.
    log_level : str
        As in `Log`.

    Examples
    --------
    >>> LaunchOptions(processes=2, insecure=True).deadline
    5.0
    """

    agents: int | None = None
    processes: int = 4
    variant: str | None = None
    seed: int | None = None
    insecure: bool = False
    research: bool = False
    every_round: bool = False
    deadline: float = 5.0
    resend: float = 0.25
    tick: float = 0.02
    budget: float = 0.0
    timeout: float | None = None
    folder: Path | None = None
    log_level: str = "warning"


@dataclass(frozen=True)
class UpResult:
    """The outcome of `up`.

    Attributes
    ----------
    result : Result
        As of a simulation.
    seconds : float
        From the start of the processes to their end.
    status : dict
        Last status of each process.
    """

    result: Result
    seconds: float
    status: dict[str, dict[str, Any]]


def up(
    scenario: Scenario,
    options: LaunchOptions | None = None,
    on_status: OnStatus | None = None,
    observer: ClusterObserver | None = None,
) -> UpResult:
    """Run one variant of a scenario by real agents, and report as a simulation would.

    Parameters
    ----------
    scenario : Scenario
        What to run.
    options : LaunchOptions, optional
        How to run it.
    on_status : callable, optional
        Called with the `LocalCluster` about five times a second.
    observer : ClusterObserver, optional
        Follows the agents one by one; without one they report nothing that it would need.

    Returns
    -------
    UpResult
        Errors, guarantee, and how long it took.

    Raises
    ------
    AgentError
        If the options do not fit the scenario, a process fails or the time is up.

    Examples
    --------
    >>> from veilsum.agents import LaunchOptions, up
    >>> from veilsum.scenario import Scenario
    >>> scenario = Scenario.parse('''
    ... network = {graph = "ring:4", weights = "lazy-metropolis"}
    ... family = {name = "normal", sigma = 1.0, bounds = [0.0, 1.0]}
    ... signals = {draw = {mu = 0.5}}
    ... privacy = {protect = "signal", epsilon = 1.0}
    ... algorithm = {name = "average", rounds = 20}
    ... ''')

    `up(scenario, LaunchOptions(processes=2))` starts two processes of two agents each. Options that
    do not fit the scenario are refused before anything starts:

    >>> up(scenario, LaunchOptions(processes=5))
    Traceback (most recent call last):
    ...
    veilsum.errors.AgentError: --processes must be 1 to the number of agents, 4; found 5
    """
    options = options or LaunchOptions()
    folder: AbstractContextManager[Any] = (
        TemporaryDirectory(prefix="veilsum-")
        if options.folder is None
        else nullcontext(options.folder)
    )
    with folder as home:
        plan, problem, name = prepare(scenario, options, Path(home))
        if observer is not None:
            plan = replace(plan, watched=True)
            observer.planned(plan, problem)
        began = time.monotonic()
        with LocalCluster(plan, options.folder is None, observer) as cluster:
            notify = None if on_status is None else lambda: on_status(cluster)
            cluster.wait(options.timeout, notify)
            cluster.stop()
        seconds = time.monotonic() - began
        manifest = Manifest.from_json(plan.manifest)
        found = result_of(problem, collect_estimates(plan, problem), name, manifest.clip)
        stated = guarantee(manifest, problem.family)
        origin = scenario.provenance
        if options.seed is not None:
            origin = replace(origin, seed=options.seed)
        spec = spec_of(scenario, options.variant)
        found = replace(
            found, stated=stated, seconds=seconds, provenance=origin, unit=spec.family.unit
        )
        return UpResult(found, seconds, dict(cluster.status))


def prepare(
    scenario: Scenario, options: LaunchOptions, home: Path
) -> tuple[DeploymentPlan, Problem, str]:
    """Build and check everything, issue certificates, and plan; nothing runs yet.

    Returns the plan, the problem and the name of the variant.
    """
    chosen = scenario.with_(seed=options.seed, replicas=1)
    job = chosen.build(options.variant)
    spec = next(spec for spec in chosen.variants if spec.name == job.name)
    problem = restrict(job.problem, options.agents)
    assignments = assign(problem, options.processes, options.insecure)
    devices = {agent: each.device for each in assignments for agent in each.agents}
    manifest = manifest_of(problem, spec, scenario.name)
    members = tuple((label, devices[label]) for label, _ in manifest.members)
    manifest = replace(manifest, members=members)
    if manifest.rounds == 0:
        raise AgentError("veilsum up needs a last round: leave open_ended out of [agents]")
    if not options.research:
        check_guarantee(manifest, problem.family, problem.privacy.budget_fractions)
    if (home / "ledgers").exists():
        raise AgentError(
            f"{home} holds the ledgers of another run, whose releases would be used again; "
            "choose a new folder"
        )
    home.mkdir(mode=0o700, parents=True, exist_ok=True)  # ledgers, keys and a plan with its text
    (home / "ledgers").mkdir(parents=True)
    if not options.insecure:
        authority = Authority.create(home / "keys")
        for each in assignments:
            authority.issue(each.device, ["127.0.0.1", "localhost"], days=1)
    if manifest.masked:
        manifest = _pinned(manifest, home)
    plan = DeploymentPlan(
        folder=str(home),
        scenario=scenario.text,
        scenario_folder=str(scenario.folder),
        name=scenario.name,
        variant=job.name,
        seed=options.seed,
        agents=options.agents,
        manifest=manifest.to_json(),
        assignments=assignments,
        insecure=options.insecure,
        research=options.research,
        checkpoints=not (options.every_round or manifest.hides_neighbours),
        deadline=options.deadline,
        resend=options.resend,
        tick=options.tick,
        budget=options.budget,
        log_level=options.log_level,
    )
    return plan, problem, job.name


def _pinned(manifest: Manifest, home: Path) -> Manifest:
    """The manifest of a masked sum with a new nonce, and a new signing key for every agent."""
    (home / "keys").mkdir(mode=0o700, exist_ok=True)
    files = [signing_key_file(home, number) for number in range(len(manifest.members))]
    keys = tuple(SigningKey.create(file).public for file in files)
    return replace(manifest, nonce=secrets.token_hex(BYTES), signing_keys=keys)


class LocalCluster:
    """The worker processes of a deployment plan; a context manager that starts and ends them.

    Parameters
    ----------
    plan : DeploymentPlan
        Saved into its folder, where the workers read it.
    temporary : bool
        Whether the folder is removed at the end, so that no error points to it.
    observer : ClusterObserver, optional
        Follows the agents.

    Attributes
    ----------
    status : dict
        Last status of each process, by its name.
    """

    def __init__(
        self,
        plan: DeploymentPlan,
        temporary: bool = False,
        observer: ClusterObserver | None = None,
    ) -> None:
        """Save the plan; nothing is started yet."""
        self.plan, self.path, self.temporary = plan, plan.save(), temporary
        self._observer = observer
        self.status: dict[str, dict[str, Any]] = {}
        self._processes: list[subprocess.Popen[str]] = []
        self._lines: queue.SimpleQueue[tuple[int, str | None]] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        """Start every worker."""
        for number in range(len(self.plan.assignments)):
            self._processes.append(self._spawn(number))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every worker that still runs, by its id: all are asked to, then waited for."""
        running = [process for process in self._processes if process.poll() is None]
        for process in running:
            self._send_stop(process)
        end = time.monotonic() + LAST_SECONDS
        for process in running:
            try:
                process.wait(max(end - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def wait(self, seconds: float | None, notify: Callable[[], None] | None = None) -> None:
        """Wait until every agent is done; raises `AgentError` if a worker fails or time is up."""
        end = None if seconds is None else time.monotonic() + seconds
        while not self.done:
            if end is not None and time.monotonic() > end:
                raise AgentError(
                    f"{self._finished} of {self._agents} agents were done after {seconds:g} s "
                    f"(rounds: {self._rounds}); give more time with --timeout, or {self._advice}"
                )
            self.read_status(0.2)
            if notify is not None:
                notify()

    def stop(self) -> None:
        """Make every worker save its results and exit."""
        for process in self._processes:
            self._send_stop(process)
        for number, process in enumerate(self._processes):
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                device = self.plan.assignments[number].device
                raise AgentError(f"{device} does not exit") from None
        self.read_status(0.0)

    @property
    def done(self) -> bool:
        """Whether every agent of every worker has its estimate."""
        return self._finished == self._agents

    def read_status(self, seconds: float) -> None:
        """Read lines of status until the time is up or there are no more."""
        try:
            number, line = self._lines.get(timeout=seconds)
            while True:
                device = self.plan.assignments[number].device
                if line is not None:
                    self.status[device] = self._heard(device, json.loads(line))
                else:
                    if self._observer is not None:
                        self._observer.exited(device)
                    self._check_exit(number)
                number, line = self._lines.get_nowait()
        except queue.Empty:
            return

    def _heard(self, device: str, line: dict[str, Any]) -> dict[str, Any]:
        """The status of a process, once the observer has seen the line it came in."""
        if self._observer is not None:
            self._observer.heard(device, line)
        return {name: value for name, value in line.items() if name not in ("sites", "trail")}

    @property
    def _agents(self) -> int:
        return sum(len(each.agents) for each in self.plan.assignments)

    @property
    def _finished(self) -> int:
        return sum(status["done"] for status in self.status.values())

    @property
    def _rounds(self) -> str:
        """How far the processes are."""
        parts = [f"{each} {low} to {high}" for each, (low, high) in self._progress()]
        return ", ".join(parts) or "no process has reported yet"

    def _progress(self) -> list[tuple[str, tuple[int, int]]]:
        return [(each, tuple(self.status[each]["rounds"])) for each in sorted(self.status)]

    @property
    def _advice(self) -> str:
        """Where the logs are, or how to keep them: a temporary folder goes with the command."""
        if self.temporary:
            return "run it again with --keep FOLDER, which keeps logs and ledgers to look into"
        return f"look into {self.plan.folder}"

    def _stderr(self, number: int) -> Path:
        return Path(self.plan.folder) / f"stderr-{number}.txt"

    def _spawn(self, number: int) -> subprocess.Popen[str]:
        module = "veilsum.agents.local_cluster.worker"
        with self._stderr(number).open("w", encoding="utf-8") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", module, str(self.path), str(number)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )
        assert process.stdout is not None
        threading.Thread(target=self._read, args=(number, process.stdout), daemon=True).start()
        return process

    def _read(self, number: int, lines: IO[str]) -> None:
        with lines:
            for line in lines:
                self._lines.put((number, line))
        self._lines.put((number, None))

    def _check_exit(self, number: int) -> None:
        """Raise with the last lines of its standard error if a worker failed."""
        code = self._processes[number].wait()
        if code == 0:
            return
        text = self._stderr(number).read_text("utf-8", "replace")
        last = " | ".join(line for line in text.splitlines()[-TAIL:] if line.strip())
        device = self.plan.assignments[number].device
        raise AgentError(f"{device} exited with code {code}: {last or 'it printed nothing'}")

    def _send_stop(self, process: subprocess.Popen[str]) -> None:
        if process.stdin is not None and not process.stdin.closed:
            try:
                process.stdin.write("stop\n")
                process.stdin.close()
            except BrokenPipeError:
                pass


def collect_estimates(plan: DeploymentPlan, problem: Problem) -> Floats:
    """The estimates after every round, (agent, round, component), in the network's order.

    A round that an agent missed, or skipped while catching up, has its estimate of the round before.
    """
    row = {str(label): i for i, label in enumerate(problem.network.labels)}
    found: dict[str, Floats] = {}
    for number, each in enumerate(plan.assignments):
        path = Path(plan.folder) / f"estimates-{number}.npz"
        if not path.is_file():
            raise AgentError(f"{each.device} wrote no estimates to {path.name}; run it with --keep")
        with np.load(path) as part:
            found |= dict(zip(part["agents"].tolist(), part["estimates"], strict=True))
    rounds = max(len(table) for table in found.values())
    out = np.full((len(row), rounds, problem.family.dimension), np.nan)
    for agent, table in found.items():
        out[row[agent], : len(table)] = table
    manifest = Manifest.from_json(plan.manifest)
    if manifest.masked:
        return in_rounds(manifest, problem, _agreed(out))
    for t in range(1, rounds):
        missing = np.isnan(out[:, t])
        out[:, t][missing] = out[:, t - 1][missing]
    return out


def _agreed(by_query: Floats) -> Floats:
    """The estimates after every query, provided that all agents have the same, to the bit."""
    missing = int(np.isnan(by_query[:, -1]).any(axis=1).sum())
    if missing or by_query.shape[1] < 2:
        raise AgentError(
            f"{missing or len(by_query)} of {len(by_query)} agents have no sum; run it again with "
            "--keep, and look into the logs for the members that were missing"
        )
    for t in range(1, by_query.shape[1]):
        known = by_query[:, t][~np.isnan(by_query[:, t]).any(axis=1)]
        if len({row.tobytes() for row in known}) > 1:
            raise AgentError(
                f"agents have different sums of query {t}, which must be the same to the bit; "
                "run it again with --keep, and report this"
            )
        by_query[:, t] = known[0] if len(known) else by_query[:, t - 1]
    return by_query


def in_rounds(manifest: Manifest, problem: Problem, by_query: Floats) -> Floats:
    """Estimates after every query in the simulator's rounds: 0 before the first result.

    An offline sum is there in the round of its arrival, that of a batch when the batch closes.

    Parameters
    ----------
    manifest : Manifest
        With the batches.
    problem : Problem
        With the algorithm and its rounds.
    by_query : ndarray
        (agent, query, component), query 0 being before the first.

    Returns
    -------
    ndarray
        (agent, round, component).
    """
    agents, queries, size = by_query.shape
    out: Floats = np.zeros((agents, problem.rounds + 1, size))
    algorithm: Any = problem.algorithm
    batches, end = Batches(manifest.batch_growth, manifest.longest_batch), 0
    for query in range(1, queries):
        end = batches.closing(end + 1)
        session = algorithm.session
        assert session is not None, "a masked sum"
        first = algorithm.enters(end) if algorithm.online else session.arrival
        out[:, min(first, problem.rounds) :] = by_query[:, query : query + 1]
    return out


def result_of(problem: Problem, estimates: Floats, name: str, clip: float = 0.0) -> Result:
    """The result of a run by agents: errors against the same target as the simulator's.

    Where agents clipped their rounds, so does the noiseless run.
    """
    rounds = estimates.shape[1] - 1
    shorter = replace(problem, rounds=rounds, horizon=problem.rounds, replicas=1)
    simulated = simulate(shorter, Record(every=1))
    if clip:
        simulated = _clipped(simulated, problem.network, clip)
    return Result(shorter, _with_estimates(simulated, estimates), name, EXACT)


def _clipped(simulated: Trace, network: Network, clip: float) -> Trace:
    """The trace with the noiseless run in clipped rounds; each component by itself."""
    assert simulated.noiseless is not None
    start = simulated.noiseless[0, :, 0]  # (agent, component)
    rounds = len(simulated.noiseless) - 1
    runs = [clipped_gossip(network, column, clip, rounds) for column in start.T]
    noiseless: Floats = np.stack(runs, axis=-1)
    errors = np.sqrt(((noiseless - simulated.target[0]) ** 2).sum(axis=(1, 2)))
    return replace(simulated, noiseless=noiseless[:, :, None], decentralisation=errors[:, None])


def _with_estimates(simulated: Trace, estimates: Floats) -> Trace:
    """The simulator's trace with the agents' estimates in place of the simulated private ones."""
    assert simulated.noiseless is not None
    noiseless = simulated.noiseless[:, :, 0]  # (round, agent, component)
    private = estimates.swapaxes(0, 1)
    final = private[-1]

    def norms(difference: Any) -> Floats:
        return np.asarray(np.sqrt((difference**2).sum(axis=(1, 2)))[:, None, None])

    return replace(
        simulated,
        total=norms(private - simulated.target[0]),
        privacy=norms(private - noiseless),
        private=private[:, :, None, None],
        final=final[:, None, None],
        mean=final.mean(axis=0)[None, None],
        disagreement=final.var(axis=0)[None, None],
    )
