"""Who runs where: the agents of a scenario spread over processes of this machine.

Neighbours are kept together: agents are dealt out in the order of a breadth-first walk.
"""

from __future__ import annotations

import json
import random
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from murmura import network
from murmura.engine import Drawn, Problem
from murmura.errors import AgentError


@dataclass(frozen=True)
class Share:
    """One process: its name (which is on its certificate), where it listens and its agents."""

    device: str
    endpoint: str
    agents: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """Everything a worker must know but the signals, which it draws or reads by itself."""

    folder: str
    scenario: str  # the text
    scenario_folder: str
    name: str
    variant: str
    seed: int | None
    agents: int | None
    manifest: str
    shares: tuple[Share, ...]
    insecure: bool
    research: bool
    checkpoints: bool
    deadline: float
    resend: float
    tick: float
    budget: float
    log_level: str = "warning"

    def save(self) -> Path:
        """Write the plan into its folder."""
        path = Path(self.folder) / "plan.json"
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return path

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read what `save` wrote."""
        data: dict[str, Any] = json.loads(Path(path).read_text("utf-8"))
        shares = tuple(
            Share(share["device"], share["endpoint"], tuple(share["agents"]))
            for share in data.pop("shares")
        )
        return cls(**data, shares=shares)


def restrict(problem: Problem, agents: int | None) -> Problem:
    """The problem on the first so many agents of a walk from the first one; weights made anew."""
    net = problem.network
    if agents is None or agents == net.size:
        return problem
    if not 2 <= agents <= net.size:
        raise AgentError(
            f"--agents {agents} does not fit: the scenario's network has {net.size:,} agents; "
            f"ask for 2 to {net.size:,}"
        )
    if not isinstance(problem.source, Drawn):
        raise AgentError(
            "--agents cuts a network down, and the scenario's readings belong to all of its "
            f"{net.size:,} agents; leave --agents out"
        )
    if net.kind != "doubly-stochastic" or net.graph is None or net.scheme == "given":
        raise AgentError(f"--agents cannot cut a network with {net.scheme} weights; leave it out")
    kept = walk(net)[:agents]
    place = {int(old): new for new, old in enumerate(kept)}
    links = [(place[i], place[j]) for i, j in net.graph.links.tolist() if i in place and j in place]
    labels = [net.labels[i] for i in kept]
    smaller = network.Graph(agents, np.array(links), labels, name=f"{net.graph.name}, cut")
    weighed = network.weigh(smaller, net.scheme)
    return replace(problem, network=weighed, source=replace(problem.source, agents=agents))


def walk(net: Any) -> list[int]:
    """The agents in breadth-first order from the first."""
    from scipy.sparse.csgraph import breadth_first_order

    order = breadth_first_order(net.at(1), 0, directed=False, return_predecessors=False)
    return [int(i) for i in order]


def deal(problem: Problem, processes: int, insecure: bool) -> tuple[Share, ...]:
    """Cut the walk into as many runs of neighbours as there are processes."""
    size = problem.network.size
    if not 1 <= processes <= size:
        raise AgentError(
            f"--processes must be 1 to the number of agents, {size}; found {processes}"
        )
    order = walk(problem.network)
    ports = free_ports(processes)
    scheme = "tcp" if insecure else "tls"
    parts = np.array_split(np.array(order), processes)
    return tuple(
        Share(
            f"process-{k + 1}",
            f"{scheme}/127.0.0.1:{ports[k]}",
            tuple(str(problem.network.labels[i]) for i in part),
        )
        for k, part in enumerate(parts)
    )


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that are free now, below those that outgoing connections take."""
    found: set[int] = set()
    while len(found) < count:
        port = random.SystemRandom().randrange(12_000, 32_000)
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            found.add(port)
    return sorted(found)
