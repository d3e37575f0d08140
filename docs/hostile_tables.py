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


def claimed_terms(graph: str, rounds: int = ROUNDS, clip: float = 0.0) -> Any:
    """The manifest of a fleet with readings in [0, 100] and epsilon 1."""
    from veilsum.agents import Manifest
    from veilsum.scenario import Scenario

    scenario = Scenario.parse(f"""
        network = {{graph = "{graph}", weights = "lazy-metropolis"}}
        family = {{name = "normal", sigma = 1.0, bounds = [0.0, 100.0]}}
        signals = {{draw = {{mu = 50.0}}}}
        privacy = {{protect = "signal", epsilon = 1.0, radius = 1.0}}
        algorithm = {{name = "average", rounds = {rounds}}}
    """)
    return Manifest.of(scenario.build().problem, clip=clip)


def claims_influence() -> str:
    """By how much one lying member can move the mean of the others, in largest releases."""
    rows = []
    for name, graph, label in PLACES:
        found = [claimed_terms(graph.format(n=n)).flows.influence(label) for n in (8, 50)]
        rows.append([name, *(f"{x:.2f}" for x in found)])
    rows.append(["a release that is as wrong as can be", "0.25", "0.04"])
    return table(["one lying member", "of 8", "of 50"], rows)


GEOMETRIC = "random-geometric:50,0.3,1"
RADII = (np.inf, 30.0, 10.0, 3.0, 1.0)


def values_within() -> tuple[Any, Any]:
    """A network, and a value in [0, 100] of each member."""
    from veilsum import networks

    net = networks.lazy_metropolis(GEOMETRIC)
    return net, np.random.default_rng(1).uniform(0.0, 100.0, net.size)


def rounds_needed(radius: float) -> int:
    """Until all members are within 1."""
    from veilsum.simulation import clipped_gossip

    return int(np.argmax(np.ptp(clipped_gossip(*values_within(), radius, 5000), axis=1) < 1.0))


def clipped_cost() -> str:
    """What clipping costs and what it prevents, on one network."""
    from veilsum.simulation import clipped_gossip, clipping_bound

    net, values = values_within()
    others, rows = np.arange(net.size) != 0, []
    for radius in RADII:
        needed = rounds_needed(radius)
        lied = clipped_gossip(net, values, radius, needed, liars={0: 1e6})[-1, others]
        moved = lied.mean() - values[others].mean()
        bound = clipping_bound(net, radius, needed, liars=[0])
        shown = "none" if math.isinf(bound) else f"{bound:.1f}"
        name = "none" if math.isinf(radius) else f"{radius:g}"
        rows.append([name, f"{needed}", f"{moved:,.1f}", shown])
    heads = ["radius", "rounds until all are within 1", "a liar moves the mean by", "bound"]
    return table(heads, rows)


def clipped_agents() -> str:
    """What a lying agent can move with the limits of plain rounds, and with a radius."""
    rows = []
    for radius in RADII:
        plain = math.isinf(radius)
        terms = claimed_terms(GEOMETRIC, rounds_needed(radius), 0.0 if plain else radius)
        most = max(terms.flows.influence(label) for label in terms.labels) * terms.largest
        name = "none" if plain else f"{radius:g}"
        rows.append([name, f"{terms.rounds}", f"{most:.1f}"])
    heads = [
        "`clip`",
        "rounds until all are within 1",
        "a liar moves the mean of the others by at most",
    ]
    return table(heads, rows)


PARTS: tuple[Callable[[], str], ...] = (claims_influence, clipped_cost, clipped_agents)
