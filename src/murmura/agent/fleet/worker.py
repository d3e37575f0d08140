"""One process of `murmura up`: python -m murmura.agent.fleet.worker PLAN NUMBER

It prints a line of JSON on standard output twice a second and ends when standard input says stop or
closes, so no worker outlives the command that started it. What its agents estimated goes to
estimates-NUMBER.npz in the plan's folder.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from murmura.agent.core import Options
from murmura.agent.events import Report
from murmura.agent.fleet.plan import Plan, Share, restrict
from murmura.agent.keys import Authority
from murmura.agent.ledger import Ledger
from murmura.agent.manifest import Manifest
from murmura.agent.node import Given, Log, Node
from murmura.agent.release import Drawer
from murmura.agent.transport.zenoh import ZenohTransport
from murmura.engine import Problem
from murmura.privacy.accounting import Budget
from murmura.scenario import Scenario

STATUS = 0.5  # seconds between two lines of status
MOST_PATHS = 5_000_000  # numbers of estimates kept: beyond this only the last of each agent


class Worker:
    """The agents of one process, their node, and what they have said."""

    def __init__(self, plan: Plan, number: int) -> None:
        """Build everything; nothing is opened but the ledgers."""
        self.plan, self.number, self.share = plan, number, plan.shares[number]
        self.manifest = Manifest.from_json(plan.manifest)
        self.problem = problem_of(plan)
        self.paths: dict[str, dict[int, tuple[float, ...]]] = {a: {} for a in self.share.agents}
        numbers = len(self.share.agents) * max(self.manifest.rounds, 1) * self.manifest.dimension
        self.keeps_paths = self.manifest.rounds > 0 and numbers <= MOST_PATHS
        self.node = self._node()
        self._said = 0.0

    def _node(self) -> Node:
        plan = self.plan
        log = (Path(plan.folder) / f"log-{self.number}.jsonl").open("a", encoding="utf-8")
        node = Node(
            self.manifest,
            transport_of(plan, self.share),
            options=Options(deadline=plan.deadline, resend=plan.resend, tick=plan.tick),
            log=Log(log, plan.log_level),
            told=self._heard,
            checkpoints=plan.checkpoints,
        )
        place = {str(label): i for i, label in enumerate(self.problem.network.labels)}
        unit = "stream" if plan.budget else "event"
        protected = self.manifest.protect != "nothing"
        epsilon = plan.budget or self.manifest.epsilon
        budget = Budget(epsilon, self.manifest.delta) if protected else None
        for agent in self.share.agents:
            ledger = Ledger.open(
                Path(plan.folder) / "ledgers" / f"{place[agent]}.ledger",
                self.manifest,
                agent,
                budget,
                unit=unit,
                durability="process",
            )
            drawer = Drawer(self.manifest, self.problem, agent, research=plan.research)
            node.add(agent, ledger, drawer, Given(_values(self.problem, place[agent])))
        return node

    def run(self) -> None:
        """Work until told to stop, then write down what was estimated."""
        signal.signal(signal.SIGTERM, lambda *_: self.node.stop())
        threading.Thread(target=self._listen, daemon=True).start()
        try:
            self.node.start()
            self.node.run(until=self._tell)
            self._tell(force=True)
            self._write()
        finally:
            self.node.close()

    def _listen(self) -> None:
        sys.stdin.readline()  # "stop", or the end of the one who would say it
        self.node.stop()

    def _heard(self, agent: str, report: Report) -> None:
        if report.kind != "round":
            return
        path = self.paths[agent]
        if not self.keeps_paths:
            path.clear()
        path[report.round] = report.estimate

    def _tell(self, force: bool = False) -> bool:
        """Say how things stand, now and then; never asks to stop."""
        now = time.monotonic()
        if force or now - self._said >= STATUS or (self.node.all_done and not self._final):
            self._said, self._final = now, self.node.all_done
            print(json.dumps(self.status()), flush=True)
        return False

    _final = False

    def status(self) -> dict[str, Any]:
        """Rounds, estimates, budget and links of this process's agents."""
        sites = self.node.sites.values()
        held = [path[max(path)] for path in self.paths.values() if path]
        estimates = np.array([e for e in held if e]) if held else np.empty((0, 1))
        spent = [site.ledger.spent.epsilon for site in sites]
        return {
            "device": self.share.device,
            "agents": len(self.share.agents),
            "rounds": [min(s.core.round for s in sites), max(s.core.round for s in sites)],
            "done": sum(s.done is not None for s in sites),
            "held": [] if not len(estimates) else _spread(estimates),
            "spent": max(spent, default=0.0),
            "links": [
                sum(len(s.up) for s in sites),
                sum(len(self.manifest.shares(s.label)) for s in sites),
            ],
            "refused": self.node.voice.counts["refused"],
            "sent": self.node.voice.counts["sent"],
        }

    def _write(self) -> None:
        for site in self.node.sites.values():
            now = (site.core.round, site.core.estimate)
            t, estimate = now if site.done is None else (site.done.round, site.done.estimate)
            self.paths[site.label][t] = estimate
        last = max((max(path) for path in self.paths.values() if path), default=0)
        d = self.manifest.dimension
        table = np.full((len(self.share.agents), last + 1, d), np.nan)
        for k, agent in enumerate(self.share.agents):
            for t, estimate in self.paths[agent].items():
                if estimate:
                    table[k, t] = estimate
            table[k, 0] = self._first(agent)
        done = [site.done for site in self.node.sites.values()]
        np.savez(
            Path(self.plan.folder) / f"estimates-{self.number}.npz",
            agents=np.array(self.share.agents),
            estimates=table,
            reasons=np.array([d.reason if d else "stopped" for d in done]),
        )

    def _first(self, agent: str) -> Any:
        """nu_0: what was released for an offline law, nothing for an online one."""
        released = self.node.sites[agent].ledger.released()
        if self.manifest.made_law.online or not released:
            return 0.0
        return [s / released[0].weight for s in released[0].sums]


def problem_of(plan: Plan) -> Problem:
    """The plan's problem with its signals, one epsilon and one replica."""
    scenario = Scenario.parse(plan.scenario, plan.name, plan.scenario_folder, plan.name)
    scenario = scenario.with_(seed=plan.seed, replicas=1)
    return restrict(scenario.build(plan.variant).problem, plan.agents)


def transport_of(plan: Plan, share: Share) -> ZenohTransport:
    """The session of one process: it listens, and connects to those before it."""
    manifest = Manifest.from_json(plan.manifest)
    keys = None if plan.insecure else Authority.load(Path(plan.folder) / "keys")
    earlier = plan.shares[: plan.shares.index(share)]
    return ZenohTransport(
        manifest.name,
        share.device,
        listen=[share.endpoint],
        connect={other.device: other.endpoint for other in earlier},
        devices=manifest.certificates,
        credentials=keys.credentials(share.device) if keys else None,
        insecure=plan.insecure,
        together=len(share.agents) > 1,
    )


def _values(problem: Problem, row: int) -> Iterator[Any]:
    """The signals of one agent, reading by reading."""
    rounds = problem.rounds if problem.law.online else 1
    table = _table(problem)
    for t in range(1, rounds + 1):
        signal = table(t)[row, 0]
        yield float(signal) if np.ndim(signal) == 0 else tuple(map(float, signal))


@lru_cache(maxsize=1)
def _table(problem: Problem) -> Any:
    """Signals by round, drawn once for all agents of the process."""
    return lru_cache(maxsize=64)(lambda t: problem.source.signals(t, 1))


def _spread(estimates: Any) -> list[Any]:
    """Number, sum, least and largest of the estimates: what a total over processes needs."""
    first = estimates[:, 0]
    return [len(first), float(first.sum()), float(first.min()), float(first.max())]


if __name__ == "__main__":
    Worker(Plan.load(sys.argv[1]), int(sys.argv[2])).run()
