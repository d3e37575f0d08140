"""What agents compute, as JSON with every digit: the same with scipy and numba and without them."""

import json
from fractions import Fraction
from typing import Any

import numpy as np

from veilsum import families, networks
from veilsum.agents.derived_terms import hops_of
from veilsum.agents.mixing import release_weights
from veilsum.agents.release import guarantee
from veilsum.agents.scenario_terms import manifest_of
from veilsum.networks import kernels
from veilsum.privacy import DiscreteLaplace, LaplaceMechanism
from veilsum.privacy.noise_quantile import noise_quantile
from veilsum.scenario import Scenario

SCENARIO = """
name = "facts"
network = {{graph = "{graph}", weights = "lazy-metropolis"}}
family = {{name = "log-normal-1p", sigma = 1.0, bounds = [0.0, 100.0]}}
signals = {{draw = {{mu = 2.0}}}}
privacy = {{{privacy}}}
algorithm = {{name = "{algorithm}", rounds = 12}}
"""
CASES = (
    ("torus:4x5", 'protect = "signal", epsilon = 1.0', "average"),
    ("random-geometric:30,0.4,1", 'protect = "signal", epsilon = 0.5', "learn"),
    ("complete:4", 'protect = "network", epsilon = 1.0, radius = 2.0', "average"),
    ("ring:5", 'protect = "signal", mode = "masked", epsilon = 1.0, colluders = 1', "masked-sum"),
)
BETAS = (0.25, 0.5, 0.9, 0.999)
GRAPHS = ("power-law:40,2,1", "random-geometric:60,0.25,3", "watts-strogatz:30,4,0.2,1", "path:9")


def terms(graph: str, privacy: str, algorithm: str) -> list[Any]:
    text = SCENARIO.format(graph=graph, privacy=privacy, algorithm=algorithm)
    scenario = Scenario.parse(text)
    problem = scenario.build().problem
    manifest = manifest_of(problem, scenario.variants[0], "facts")
    found: list[Any] = [manifest.digest.hex(), hops_of(problem.network), manifest.links]
    found.append(str(guarantee(problem)))
    if algorithm != "masked-sum":
        label = manifest.members[0][0]
        weights = release_weights(manifest, label, [1] * len(manifest.members), 12)
        found.append([np.asarray(column).tolist() for column in weights])
    return found


def network(name: str) -> list[Any]:
    made = networks.lazy_metropolis(networks.join(networks.load(name)))
    assert made.graph is not None
    x = np.sqrt(np.arange(made.size, dtype=np.float64))
    return [
        made.rows.indptr.tolist(), made.rows.indices.tolist(), made.rows.data.tolist(),
        made.diameter, made.beta_star, kernels.depths(made.rows).tolist(), made.graph.is_bipartite,
        made.graph.components.tolist(), (made.rows @ x).tolist(),
    ]  # fmt: skip


def facts() -> dict[str, Any]:
    one = LaplaceMechanism(epsilon=1.0, sensitivity=1.0)
    noise = DiscreteLaplace(Fraction(2**12))
    means = np.linspace(0.05, 3.0, 40)[:, None]
    return {
        "terms": [terms(*case) for case in CASES],
        "networks": [network(name) for name in GRAPHS],
        "quantile": [noise_quantile(one, np.ones(k), np.ones(k), 0.95) for k in (1, 5)],
        "epsilon": [noise.part(Fraction(beta)).epsilon(2**12, 2.0**12) for beta in BETAS],
        "log-normal-1p": families.LogNormal1p(sigma=1.0).parameter(means)["mu"].tolist(),
        "gamma": families.GammaKnownRate(rate=1.0).parameter(means - 2.0)["shape"].tolist(),
    }


if __name__ == "__main__":
    print(json.dumps(facts()))
