"""The round written out plainly, twice: by the matrix, and agent by agent from its row alone."""

import numpy as np

from murmura import laws
from murmura.engine import noise
from murmura.engine.seeds import noise_seed
from murmura.privacy import calibrate


class Inputs:
    """Statistics and noise of one replica at one epsilon, drawn as the simulator draws them."""

    def __init__(self, problem):
        self.problem = problem
        self.calibration = calibrate(
            problem.want, problem.law, problem.family, problem.network, problem.rounds
        )
        self.seed = noise_seed(problem.seed)
        self.agents = np.arange(problem.network.size)

    def xi(self, t):
        at = max(t, 1) if self.problem.law.online else 1
        return self.problem.family.columns(self.problem.source.signals(at, 1))[:, 0, 0]

    def d(self, t):
        if self.problem.law.at(t).noise == 0:
            return np.zeros(self.problem.network.size)
        at = max(t, 1) if self.problem.law.online else 1
        signals = self.problem.source.signals(at, 1)
        scale = self.calibration.scale(signals, self.problem.want.epsilon, t)[:, 0]
        return scale * noise.laplace(self.seed, t, self.agents, 0)

    def g(self, t, i, j):
        """Noise on the link from j to i, if the law has any."""
        edge = self.problem.law.at(t).edge
        scale = self.calibration.per_edge(np.array([self.problem.want.epsilon]))[0]
        return edge * scale * noise.laplace(self.seed, t, i, 0, j + 1)


def by_matrix(problem):
    """nu_T with A as a dense matrix."""
    law, inputs, n = problem.law, Inputs(problem), problem.network.size
    state, weight = (
        laws.begin(law, inputs.xi(0), inputs.d(0)),
        laws.begin(law, np.ones(n), 0 * np.ones(n)),
    )
    for t in range(1, problem.rounds + 1):
        A = problem.network.at(t).toarray()
        links = np.zeros(n)
        if law.at(t).edge:
            grid = inputs.g(t, inputs.agents[:, None], inputs.agents[None, :])
            links = (A * grid).sum(axis=1)
        if law.noises_messages:
            links = A @ inputs.d(t)
        state = laws.advance(law, t, state, A @ state.nu + links, inputs.xi(t), inputs.d(t))
        weight = laws.advance(law, t, weight, A @ weight.nu, np.ones(n), np.zeros(n))
    return state.nu / weight.nu if law.ratio else state.nu


class Agent:
    """One agent: it knows its row and hears its neighbours, nothing else."""

    def __init__(self, law, xi, d):
        self.law = law
        self.state = laws.begin(law, float(xi), float(d))
        self.weight = laws.begin(law, 1.0, 0.0)

    def step(self, t, row, heard, weights, xi, d):
        mixed = sum(a * value for a, value in zip(row, heard, strict=True))
        shared = sum(a * value for a, value in zip(row, weights, strict=True))
        self.state = laws.advance(self.law, t, self.state, mixed, float(xi), float(d))
        self.weight = laws.advance(self.law, t, self.weight, shared, 1.0, 0.0)

    @property
    def estimate(self):
        return self.state.nu / self.weight.nu if self.law.ratio else self.state.nu


def by_agents(problem):
    """nu_T with one object per agent, which sees its own row of A only."""
    law, inputs = problem.law, Inputs(problem)
    agents = [Agent(law, x, d) for x, d in zip(inputs.xi(0), inputs.d(0), strict=True)]
    for t in range(1, problem.rounds + 1):
        A = problem.network.at(t)
        said = [(a.state.nu, a.weight.nu) for a in agents]
        xi, d = inputs.xi(t), inputs.d(t)
        for i, agent in enumerate(agents):
            own = slice(A.indptr[i], A.indptr[i + 1])
            near, row = A.indices[own], A.data[own]
            heard = [said[j][0] + (inputs.g(t, i, j) if law.at(t).edge else 0.0) for j in near]
            if law.noises_messages:
                heard = [value + d[j] for value, j in zip(heard, near, strict=True)]
            agent.step(t, row, heard, [said[j][1] for j in near], xi[i], d[i])
    return np.array([a.estimate for a in agents])
