"""The round written out plainly, twice: by the matrix, and agent by agent from its row alone."""

from typing import Any

import numpy as np

from veilsum import algorithms
from veilsum.simulation import noise
from veilsum.simulation.seeds import noise_seed


class Inputs:
    """Statistics and noise of one replica at one epsilon, drawn as the simulator draws them."""

    def __init__(self, problem: Any) -> None:
        self.problem = problem
        self.plan = problem.plan
        self.seed = noise_seed(problem.seed)
        self.agents = np.arange(problem.network.size)

    def xi(self, t: Any) -> Any:
        at = max(t, 1) if self.problem.algorithm.online else 1
        return self.problem.family.columns(self.problem.source.signals(at, 1))[:, 0, 0]

    def d(self, t: Any) -> Any:
        if self.problem.algorithm.at(t).noise == 0:
            return np.zeros(self.problem.network.size)
        at = max(t, 1) if self.problem.algorithm.online else 1
        signals = self.problem.source.signals(at, 1)
        scale = self.plan.scale(signals, self.problem.privacy.epsilon, t)[:, 0]
        return scale * noise.laplace(self.seed, t, self.agents, 0)

    def g(self, t: Any, i: Any, j: Any) -> Any:
        """Noise on the link from j to i, if the algorithm has any."""
        edge = self.problem.algorithm.at(t).link_noise
        scale = self.plan.per_edge(np.array([self.problem.privacy.epsilon]))[0]
        return edge * scale * noise.laplace(self.seed, t, i, 0, j + 1)


def by_matrix(problem: Any) -> Any:
    """nu_T with A as a dense matrix."""
    algorithm, inputs, n = problem.algorithm, Inputs(problem), problem.network.size
    state, weight = (
        algorithms.init(algorithm, inputs.xi(0), inputs.d(0)),
        algorithms.init(algorithm, np.ones(n), 0 * np.ones(n)),
    )
    for t in range(1, problem.rounds + 1):
        A = problem.network.at(t).toarray()
        links = np.zeros(n)
        if algorithm.at(t).link_noise:
            grid = inputs.g(t, inputs.agents[:, None], inputs.agents[None, :])
            links = (A * grid).sum(axis=1)
        if algorithm.perturbs_messages:
            links = A @ inputs.d(t)
        state = algorithms.step(
            algorithm, t, state, A @ state.nu + links, inputs.xi(t), inputs.d(t)
        )
        weight = algorithms.step(algorithm, t, weight, A @ weight.nu, np.ones(n), np.zeros(n))
    return state.nu / weight.nu if algorithm.ratio else state.nu


class Agent:
    """One agent: it knows its row and hears its neighbours, nothing else."""

    def __init__(self, algorithm: Any, xi: Any, d: Any) -> None:
        self.algorithm = algorithm
        self.state = algorithms.init(algorithm, float(xi), float(d))
        self.weight = algorithms.init(algorithm, 1.0, 0.0)

    def step(self, t: Any, row: Any, heard: Any, weights: Any, xi: Any, d: Any) -> None:
        mixed = sum(a * value for a, value in zip(row, heard, strict=True))
        shared = sum(a * value for a, value in zip(row, weights, strict=True))
        self.state = algorithms.step(self.algorithm, t, self.state, mixed, float(xi), float(d))
        self.weight = algorithms.step(self.algorithm, t, self.weight, shared, 1.0, 0.0)

    @property
    def estimate(self) -> Any:
        return self.state.nu / self.weight.nu if self.algorithm.ratio else self.state.nu


def by_agents(problem: Any) -> Any:
    """nu_T with one object per agent, which sees its own row of A only."""
    algorithm, inputs = problem.algorithm, Inputs(problem)
    agents = [Agent(algorithm, x, d) for x, d in zip(inputs.xi(0), inputs.d(0), strict=True)]
    for t in range(1, problem.rounds + 1):
        A = problem.network.at(t)
        said = [(a.state.nu, a.weight.nu) for a in agents]
        xi, d = inputs.xi(t), inputs.d(t)
        for i, agent in enumerate(agents):
            own = slice(A.indptr[i], A.indptr[i + 1])
            near, row = A.indices[own], A.data[own]
            heard = [
                said[j][0] + (inputs.g(t, i, j) if algorithm.at(t).link_noise else 0.0)
                for j in near
            ]
            if algorithm.perturbs_messages:
                heard = [value + d[j] for value, j in zip(heard, near, strict=True)]
            agent.step(t, row, heard, [said[j][1] for j in near], xi[i], d[i])
    return np.array([a.estimate for a in agents])
