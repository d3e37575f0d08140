"""One process of `veilsum up`: python -m veilsum.agents.local_cluster.worker PLAN NUMBER

It prints a line of JSON on standard output twice a second, for a page with the status of each agent
that has changed, and exits when it reads a line from
standard input or that closes, so no worker outlives the command that started it. The estimates of
its agents go to estimates-NUMBER.npz in the plan's folder.
"""

from __future__ import annotations

import gc
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from veilsum.agents.events import AgentReport
from veilsum.agents.ledger import Ledger
from veilsum.agents.local_cluster.plan import (
    Assignment,
    DeploymentPlan,
    restrict,
    signing_key_file,
)
from veilsum.agents.local_cluster.site_reports import SiteReports
from veilsum.agents.manifest import Manifest
from veilsum.agents.pki import Authority, SigningKey
from veilsum.agents.protocol import Options
from veilsum.agents.release import make_mechanism
from veilsum.agents.runtime import IterableReadings, Log, Node
from veilsum.agents.transport.ending import leave
from veilsum.agents.transport.zenoh import ZenohTransport
from veilsum.privacy.accounting import Budget
from veilsum.scenario import Scenario
from veilsum.simulation import Problem

STATUS_SECONDS = 0.5  # between two lines of status
OPENING = 4  # ledgers that are opened at once
COLLECT = (50_000, 20, 100)  # thresholds of the garbage collector: almost nothing here is cyclic
MOST_NUMBERS = 5_000_000  # of estimates in memory: beyond this only the last of each agent


class Worker:
    """The agents of one process, their node, and their estimates by round."""

    _final = False

    def __init__(self, plan: DeploymentPlan, number: int) -> None:
        """Build everything; only the ledgers are opened."""
        self.plan, self.number, self.assignment = plan, number, plan.assignments[number]
        self.manifest = Manifest.from_json(plan.manifest)
        self.problem = problem_of(plan)
        agents, rounds = self.assignment.agents, self.manifest.rounds
        self.estimates: dict[str, dict[int, tuple[float, ...]]] = {a: {} for a in agents}
        numbers = len(agents) * max(rounds, 1) * self.manifest.dimension
        self.keeps_all = rounds > 0 and numbers <= MOST_NUMBERS
        self.node = self._node()
        self.sites = SiteReports(self.node, self.problem.family) if plan.watched else None
        self._printed = 0.0

    def _node(self) -> Node:
        plan = self.plan
        log = (Path(plan.folder) / f"log-{self.number}.jsonl").open("a", encoding="utf-8")
        node = Node(
            self.manifest,
            transport_of(plan, self.assignment),
            options=Options(deadline=plan.deadline, resend=plan.resend, tick=plan.tick),
            log=Log(log, plan.log_level),
            on_report=self._record,
            checkpoints=plan.checkpoints,
        )
        row = {str(label): i for i, label in enumerate(self.problem.network.labels)}
        unit = "stream" if plan.budget else "event"
        protected = self.manifest.adds_noise
        epsilon = plan.budget or self.manifest.epsilon
        budget = Budget(epsilon, self.manifest.delta) if protected else None

        def opened(agent: str) -> Ledger:
            path = Path(plan.folder) / "ledgers" / f"{row[agent]}.ledger"
            return Ledger.open(path, self.manifest, agent, budget, unit=unit, durability="process")

        agents = self.assignment.agents
        with ThreadPoolExecutor(min(OPENING, len(agents)), "veilsum-open") as threads:
            try:  # each new ledger waits for the disk several times: others are opened meanwhile
                for agent, ledger in zip(agents, threads.map(opened, agents), strict=True):
                    problem, signing_key = self.problem, self._signing_key(agent)
                    made = make_mechanism(self.manifest, problem, agent, research=plan.research)
                    readings = IterableReadings(_values(problem, row[agent]))
                    node.add(agent, ledger, made, readings, signing_key=signing_key)
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise
        return node

    def _signing_key(self, agent: str) -> Any:
        """The private half of the agent's pinned key, for a masked sum."""
        if not self.manifest.masked:
            return None
        number = self.manifest.labels.index(agent)
        return SigningKey.load(signing_key_file(self.plan.folder, number)).private

    def start(self) -> None:
        """Start the agents.

        The garbage collector leaves alone what is there by now, which lasts as long as the process:
        otherwise it would look at all agents again and again while messages come and go.
        """
        gc.collect()
        gc.freeze()
        gc.set_threshold(*COLLECT)
        self.node.start()

    def run(self) -> None:
        """Work until stopped, then write the estimates."""
        signal.signal(signal.SIGTERM, lambda *_: self.node.stop())
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the command that started it
        threading.Thread(target=self._await_stop, daemon=True).start()
        try:
            self.start()
            self.node.run(until=self._print_status)
            self._print_status(force=True)
            self._write()
        finally:
            self.node.close()

    def _await_stop(self) -> None:
        sys.stdin.readline()  # "stop", or the end of the process that would write it
        self.node.stop()

    def _record(self, agent: str, report: AgentReport) -> None:
        if report.kind != "round":
            return
        if self.sites is not None:
            self.sites.record(agent, report)
        by_round = self.estimates[agent]
        if not self.keeps_all:
            by_round.clear()
        by_round[report.round] = report.estimate

    def _print_status(self, force: bool = False) -> bool:
        """Print the status if it is due; returns False, so that `run` continues."""
        now, all_done = time.monotonic(), self.node.all_done
        pause = STATUS_SECONDS if self.sites is None else self.sites.pause
        if force or now - self._printed >= pause or (all_done and not self._final):
            self._printed, self._final = now, all_done
            line = self.status() | ({} if self.sites is None else self.sites.take(all_done))
            print(json.dumps(line), flush=True)
        return False

    def status(self) -> dict[str, Any]:
        """Rounds, estimates, budget and links of this process's agents."""
        agents = self.node.agents.values()
        last = [by_round[max(by_round)] for by_round in self.estimates.values() if by_round]
        estimates = np.array([e for e in last if e]) if last else np.empty((0, 1))
        rounds = [agent.protocol.round for agent in agents]
        return {
            "device": self.assignment.device,
            "agents": len(agents),
            "rounds": [min(rounds), max(rounds)],
            "done": sum(agent.done is not None for agent in agents),
            "estimates": [] if not len(estimates) else _summary(estimates),
            "spent": max((agent.ledger.spent.epsilon for agent in agents), default=0.0),
            "links": [
                sum(len(agent.reachable) for agent in agents),
                sum(len(self.manifest.link_weights(agent.label)) for agent in agents),
            ],
            "refused": self.node.observability.counts["refused"],
            "sent": self.node.observability.counts["sent"],
            "bytes": self.node.observability.counts["bytes"],
        }

    def _write(self) -> None:
        for hosted in self.node.agents.values():
            now = (hosted.protocol.round, hosted.protocol.estimate)
            t, estimate = now if hosted.done is None else (hosted.done.round, hosted.done.estimate)
            self.estimates[hosted.label][t] = estimate
        last = max((max(found) for found in self.estimates.values() if found), default=0)
        agents = self.assignment.agents
        table = np.full((len(agents), last + 1, self.manifest.dimension), np.nan)
        for k, agent in enumerate(agents):
            for t, estimate in self.estimates[agent].items():
                if estimate:
                    table[k, t] = estimate
            table[k, 0] = self._first(agent)
        done = [hosted.done for hosted in self.node.agents.values()]
        np.savez(
            Path(self.plan.folder) / f"estimates-{self.number}.npz",
            agents=np.array(agents),
            estimates=table,
            reasons=np.array([d.reason if d else "stopped" for d in done]),
        )

    def _first(self, agent: str) -> Any:
        """nu_0: the release for an offline algorithm, 0 for an online one and for masked sums."""
        if self.manifest.masked:
            return 0.0
        released = self.node.agents[agent].ledger.released()
        if self.manifest.made_algorithm.online or not released:
            return 0.0
        return [s / released[0].weight for s in released[0].sums]


def problem_of(plan: DeploymentPlan) -> Problem:
    """The plan's problem with its signals, one epsilon and one replica."""
    scenario = Scenario.parse(plan.scenario, plan.name, plan.scenario_folder, plan.name)
    scenario = scenario.with_(seed=plan.seed, replicas=1)
    return restrict(scenario.build(plan.variant).problem, plan.agents)


def transport_of(plan: DeploymentPlan, assignment: Assignment) -> ZenohTransport:
    """The transport of one process: it listens, and connects to those before it."""
    manifest = Manifest.from_json(plan.manifest)
    keys = None if plan.insecure else Authority.load(Path(plan.folder) / "keys")
    earlier = plan.assignments[: plan.assignments.index(assignment)]
    return ZenohTransport(
        manifest.name,
        assignment.device,
        listen=[assignment.endpoint],
        connect={other.device: other.endpoint for other in earlier},
        devices=manifest.certificates,
        credentials=keys.credentials(assignment.device) if keys else None,
        insecure=plan.insecure,
        batched=len(assignment.agents) > 1,
    )


def _values(problem: Problem, row: int) -> Iterator[Any]:
    """The signals of one agent, reading by reading."""
    rounds = problem.rounds if problem.algorithm.online else 1
    table = _table(problem)
    for t in range(1, rounds + 1):
        signal = table(t)[row, 0]
        yield float(signal) if np.ndim(signal) == 0 else tuple(map(float, signal))


@lru_cache(maxsize=1)
def _table(problem: Problem) -> Any:
    """Signals by round, drawn once for all agents of the process."""
    return lru_cache(maxsize=64)(lambda t: problem.source.signals(t, 1))


def _summary(estimates: Any) -> list[Any]:
    """Number, sum, least and largest of the estimates: what a summary of all processes needs."""
    first = estimates[:, 0]
    return [len(first), float(first.sum()), float(first.min()), float(first.max())]


if __name__ == "__main__":
    Worker(DeploymentPlan.load(sys.argv[1]), int(sys.argv[2])).run()
    leave(0)
