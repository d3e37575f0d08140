"""The computed tables of what lying members can do: docs/threat-model.md and docs/algorithms.md."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from docs.masked_tables import table

ROUNDS = 200
PLACES = (
    ("a member of a complete graph", "complete:{n}", "0"),
    ("a leaf of a star", "star:{n}", "1"),
    ("a member of a ring", "ring:{n}", "0"),
    ("the end of a path", "path:{n}", "0"),
    ("the hub of a star", "star:{n}", "0"),
)


def claimed_terms(graph: str, rounds: int = ROUNDS) -> Any:
    """The manifest of a fleet with readings in [0, 100] and epsilon 1."""
    from murmura.agents import Manifest
    from murmura.scenario import Scenario

    scenario = Scenario.parse(f"""
        network = {{graph = "{graph}", weights = "lazy-metropolis"}}
        family = {{name = "normal", sigma = 1.0, bounds = [0.0, 100.0]}}
        signals = {{draw = {{mu = 50.0}}}}
        privacy = {{protect = "signal", epsilon = 1.0}}
        algorithm = {{name = "average", rounds = {rounds}}}
    """)
    return Manifest.of(scenario.build().problem)


def claims_influence() -> str:
    """By how much one lying member can move the mean of the others, in largest releases."""
    rows = []
    for name, graph, label in PLACES:
        found = [claimed_terms(graph.format(n=n)).flows.influence(label) for n in (8, 50)]
        rows.append([name, *(f"{x:.2f}" for x in found)])
    rows.append(["a release that is as wrong as can be", "0.25", "0.04"])
    return table(["one lying member", "of 8", "of 50"], rows)


def clipped_cost() -> str:
    """What clipping costs and what it prevents, on one network."""
    from murmura import networks
    from murmura.simulation import clipped_gossip, clipping_bound

    net = networks.lazy_metropolis("random-geometric:50,0.3,1")
    values = np.random.default_rng(1).uniform(0.0, 100.0, net.size)
    others, rows = np.arange(net.size) != 0, []
    for radius in (np.inf, 30.0, 10.0, 3.0, 1.0):
        spread = np.ptp(clipped_gossip(net, values, radius, 5000), axis=1)
        needed = int(np.argmax(spread < 1.0))
        lied = clipped_gossip(net, values, radius, needed, liars={0: 1e6})[-1, others]
        moved = lied.mean() - values[others].mean()
        bound = clipping_bound(net, radius, needed, liars=[0])
        shown = "none" if math.isinf(bound) else f"{bound:.1f}"
        name = "none" if math.isinf(radius) else f"{radius:g}"
        rows.append([name, f"{needed}", f"{moved:,.1f}", shown])
    heads = ["radius", "rounds until all are within 1", "a liar moves the mean by", "bound"]
    return table(heads, rows)


PARTS: tuple[Callable[[], str], ...] = (claims_influence, clipped_cost)
