"""The deployment plan: which process of this machine runs which agents.

Agents are assigned in breadth-first order, so that neighbours tend to share a process.
"""

from __future__ import annotations

import json
import random
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from veilsum import _extras, networks
from veilsum._types import Network
from veilsum.agents.pki.signing import SUFFIX
from veilsum.algorithms.base import Algorithm
from veilsum.algorithms.batched import batched
from veilsum.errors import AgentError
from veilsum.simulation import Problem, SyntheticSignals


@dataclass(frozen=True)
class Assignment:
    """The agents of one process.

    Parameters
    ----------
    device : str
        Name of the process, which is on its certificate.
    endpoint : str
        Where it listens.
    agents : tuple of str
        Labels of its agents.
    """

    device: str
    endpoint: str
    agents: tuple[str, ...]


@dataclass(frozen=True)
class DeploymentPlan:
    """Everything that a worker process needs except the signals, which it draws or reads itself.

    Parameters
    ----------
    folder : str
        Holds the plan, ledgers, keys, logs and estimates.
    scenario, scenario_folder : str
        Text of the scenario, and the folder that its paths are relative to.
    name, variant : str
        Name of the scenario and of the variant.
    seed, agents : int, optional
        Seed and number of agents, if they differ from the scenario's.
    manifest : str
        The manifest as JSON.
    assignments : tuple of Assignment
        One for each process.
    insecure : bool
        No certificates.
    research : bool
        Allow guarantees that are not proved.
    checkpoints : bool
        Save the mixing state at the end instead of in every round.
    deadline, resend, tick : float
        Seconds, as in `Options`.
    budget : float
        Epsilon for the whole stream; 0 for the manifest's epsilon per reading.
    log_level : str
        As in `Log`.
    watched : bool
        Whether workers report the status of each agent, for a page.
    """

    folder: str
    scenario: str
    scenario_folder: str
    name: str
    variant: str
    seed: int | None
    agents: int | None
    manifest: str
    assignments: tuple[Assignment, ...]
    insecure: bool
    research: bool
    checkpoints: bool
    deadline: float
    resend: float
    tick: float
    budget: float
    log_level: str = "warning"
    watched: bool = False

    def save(self) -> Path:
        """Write the plan into its folder; returns the file."""
        path = Path(self.folder) / "plan.json"
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return path

    @classmethod
    def load(cls, path: str | Path) -> DeploymentPlan:
        """Read what `save` wrote."""
        data: dict[str, Any] = json.loads(Path(path).read_text("utf-8"))
        assignments = tuple(
            Assignment(each["device"], each["endpoint"], tuple(each["agents"]))
            for each in data.pop("assignments")
        )
        return cls(**data, assignments=assignments)


def restrict(problem: Problem, agents: int | None) -> Problem:
    """The problem on the first so many agents in breadth-first order; weights are recomputed."""
    net = problem.network
    if agents is None or agents == net.size:
        return problem
    if not 2 <= agents <= net.size:
        raise AgentError(
            f"--agents {agents} does not fit: the scenario's network has {net.size:,} agents; "
            f"ask for 2 to {net.size:,}"
        )
    if not isinstance(problem.source, SyntheticSignals):
        raise AgentError(
            "--agents reduces the network, and the scenario's readings belong to all of its "
            f"{net.size:,} agents; leave --agents out"
        )
    if net.kind != "doubly-stochastic" or net.graph is None or net.scheme not in networks.SCHEMES:
        raise AgentError(
            f"--agents cannot reduce a network with {net.scheme} weights; leave it out"
        )
    chosen = breadth_first_order(net)[:agents]
    index = {old: new for new, old in enumerate(chosen)}
    links = [(index[i], index[j]) for i, j in net.graph.links.tolist() if i in index and j in index]
    labels = [net.labels[i] for i in chosen]
    smaller = networks.Graph(agents, np.array(links), labels, name=f"{net.graph.name}, cut")
    weighted = networks.weigh(smaller, net.scheme)
    source = replace(problem.source, agents=agents)
    return replace(
        problem, network=weighted, source=source, algorithm=_refitted(problem.algorithm, weighted)
    )


def _refitted(algorithm: Algorithm, network: Network) -> Algorithm:
    """The algorithm on another network: a masked sum counts its members and hops anew."""
    plain = batched(algorithm, None)
    if not plain.masked:
        return algorithm
    kept = {field.name: getattr(plain, field.name) for field in fields(plain)}
    for name in ("members", "hops"):
        kept.pop(name, None)
    return type(plain).for_network(network, **kept)


def signing_key_file(folder: str | Path, number: int) -> Path:
    """The file of the signing key of a member of a masked sum, by its place in the manifest."""
    return Path(folder) / "keys" / f"{number}{SUFFIX}"


def breadth_first_order(net: Any) -> list[int]:
    """The agents in breadth-first order from the first."""
    search = _extras.load("scipy.sparse.csgraph").breadth_first_order
    order = search(net.at(1), 0, directed=False, return_predecessors=False)
    return [int(i) for i in order]


def assign(problem: Problem, processes: int, insecure: bool) -> tuple[Assignment, ...]:
    """Divide the breadth-first order into as many consecutive parts as there are processes."""
    size = problem.network.size
    if not 1 <= processes <= size:
        raise AgentError(
            f"--processes must be 1 to the number of agents, {size}; found {processes}"
        )
    parts = np.array_split(np.array(breadth_first_order(problem.network)), processes)
    scheme = "tcp" if insecure else "tls"
    return tuple(
        Assignment(
            f"process-{k + 1}",
            f"{scheme}/127.0.0.1:{port}",
            tuple(str(problem.network.labels[i]) for i in part),
        )
        for k, (part, port) in enumerate(zip(parts, free_ports(processes), strict=True))
    )


def free_ports(count: int) -> list[int]:
    """Loopback ports that are free now, below those that outgoing connections take."""
    found: set[int] = set()
    while len(found) < count:
        port = random.SystemRandom().randrange(12_000, 32_000)
        with socket.socket() as attempt, suppress(OSError):
            attempt.bind(("127.0.0.1", port))
            found.add(port)
    return sorted(found)
