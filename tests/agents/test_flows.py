"""What can have crossed a link, net: against brute force, closed forms and random schedules."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.agents.protocol.cases import FLORENTINE, bounded, problem
from veilsum.agents import flows
from veilsum.agents.flows import ANYWHERE, MARGIN, LinkFlow
from veilsum.agents.manifest import Manifest
from veilsum.privacy import NetworkDP

ROUNDS = 80
GRAPHS = ["complete:5", "path:6", "star:6", "random-geometric:12,0.6,1"]


def laplacian(manifest: Any) -> Any:
    size, index = len(manifest.members), manifest.graph.index
    found = np.zeros((size, size))
    for a, b, weight in manifest.links:
        found[index[b], index[a]] -= weight
        found[index[a], index[a]] += weight
    return found


def crossed(manifest: Any, fractions: Any) -> Any:
    """f_k(s) of every link, followed round by round: {(from, to): (rounds, n)}."""
    size, index, rounds = len(manifest.members), manifest.graph.index, len(fractions)
    lap, now = laplacian(manifest), np.eye(size)  # column k: where the mass of k is
    net = {(a, b): np.zeros((rounds, size)) for a, b, _ in manifest.links}
    weights = {(a, b): weight for a, b, weight in manifest.links}
    for t, p in enumerate(fractions):
        for (a, b), found in net.items():
            before = found[t - 1] if t else 0.0
            found[t] = before + weights[a, b] * p * (now[index[a]] - now[index[b]])
        now = now - p * (lap @ now)
    return net


@pytest.mark.parametrize("graph", GRAPHS)
def test_flows_of_all_rounds_are_those_of_brute_force(graph: Any) -> None:
    manifest = bounded(graph=graph, rounds=ROUNDS, lazy=True)
    for link, found in crossed(manifest, [1.0] * ROUNDS).items():
        flow = manifest.flows.of(0)[link]
        plus = found.max(axis=0).clip(0).sum()
        minus = (-found.min(axis=0)).clip(0).sum()
        assert flow.plus == pytest.approx(plus + MARGIN, abs=1e-9)
        assert flow.minus == pytest.approx(minus + MARGIN, abs=1e-9)


@pytest.mark.parametrize("graph", GRAPHS)
def test_potentials_bound_every_sequence_of_fractions(graph: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(flows, "LARGEST_EXACT", 0)
    manifest, rng = bounded(graph=graph, rounds=ROUNDS, lazy=True), np.random.default_rng(5)
    for fractions in (rng.random(ROUNDS), 1 / np.arange(1, ROUNDS + 1), [1.0] * ROUNDS):
        for link, found in crossed(manifest, fractions).items():
            flow = manifest.flows.of(0)[link]
            assert found.max(axis=0).clip(0).sum() <= flow.plus
            assert (-found.min(axis=0)).clip(0).sum() <= flow.minus


def test_bounds_that_are_too_small_would_be_caught() -> None:
    manifest = bounded(graph="path:6", rounds=ROUNDS, lazy=True)
    found = crossed(manifest, [1.0] * ROUNDS)["0", "1"]
    assert found.max(axis=0).clip(0).sum() > 0.9 * manifest.flows.of(0)["0", "1"].plus


def test_a_fraction_that_falls_uses_potentials() -> None:
    todo = problem("learn-network", FLORENTINE, NetworkDP(0.5), rounds=30)
    manifest = Manifest.of(todo)
    assert manifest.flows._fraction() is None
    assert bounded("learn", rounds=30).flows._fraction() == 1.0
    size = len(manifest.members)
    for flow in manifest.flows.of(0).values():
        assert 0 < flow.plus <= size
        assert 0 < flow.minus <= size


def test_a_complete_graph_carries_one_nth_of_the_senders_reading() -> None:
    manifest = bounded(graph="complete:10", rounds=ROUNDS, lazy=True)
    for flow in manifest.flows.of(0).values():
        assert flow.plus == pytest.approx(0.1, abs=1e-5)
        assert flow.minus == pytest.approx(0.1, abs=1e-5)


def test_a_dropped_link_carries_nothing_and_the_others_more() -> None:
    manifest = bounded(graph="ring:6", rounds=ROUNDS, lazy=True)
    view = manifest.graph.link("0", "1")
    found = manifest.flows.of(view)
    assert ("0", "1") not in found
    assert found["2", "3"].plus > manifest.flows.of(0)["2", "3"].plus


def test_what_a_liar_can_do_shrinks_with_the_fleet_and_has_no_limit_without_a_last_round() -> None:
    few, many = (bounded(graph=f"complete:{n}", rounds=ROUNDS, lazy=True) for n in (10, 40))
    assert many.flows.influence("0") < few.flows.influence("0") / 3
    assert replace(few, rounds=0).flows.influence("0") == ANYWHERE
    assert replace(few, asynchronous=True).flows.influence("0") == ANYWHERE
    star = bounded(graph="star:8", rounds=ROUNDS)
    assert star.flows.influence("1") < 0.6  # a leaf
    assert star.flows.influence("0") == ANYWHERE  # all others meet only through the hub


def test_large_networks_have_the_plain_bound(monkeypatch: Any) -> None:
    monkeypatch.setattr(flows, "LARGEST", 4)
    flow = bounded(graph="complete:5", rounds=9).flows.of(0)["0", "1"]
    assert flow == LinkFlow(5.0, 5.0, 0.25)


def test_weights_that_differ_by_direction_have_no_limit() -> None:
    right = bounded(graph="complete:4", rounds=9)
    links = tuple((a, b, 0.2 if a < b else w) for a, b, w in right.links)
    manifest = replace(right, links=links)
    assert not manifest.flows.symmetric
    assert manifest.flows.of(0)["0", "1"].plus == 4.0
    assert manifest.flows.influence("0") == ANYWHERE
