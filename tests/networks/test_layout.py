"""Where agents are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import veilsum as vs
from veilsum.networks import Graph, layout

LINE = np.array([(0, 1), (1, 2)])


def spread(graph: Any, places: Any) -> Any:
    """Mean length of a link, relative to the mean distance of agents: small for a good layout."""
    links = np.linalg.norm(np.diff(places[graph.links], axis=1)[:, 0], axis=1).mean()
    rng = np.random.default_rng(0)
    pairs = places[rng.integers(graph.size, size=(2000, 2))]
    return links / np.linalg.norm(pairs[:, 0] - pairs[:, 1], axis=1).mean()


def test_own_positions_come_first() -> None:
    places = np.array([[0.0, 0.0], [1.0, 2.0], [3.0, 1.0]])
    graph = Graph(3, LINE, name="us-power-grid", positions=places)
    np.testing.assert_array_equal(layout.positions(graph), places)


def test_the_us_power_grid_has_a_stored_layout() -> None:
    graph = vs.networks.load("us-power-grid")
    places = layout.positions(graph)
    assert places.shape == (4941, 2)
    assert places.min() >= 0
    assert places.max() <= 1
    assert spread(graph, places) < 0.06


def test_the_stored_layout_follows_labels() -> None:
    part = Graph(3, LINE, labels=[386, 0, 395], name="us-power-grid")
    whole = layout.positions(vs.networks.load("us-power-grid"))
    np.testing.assert_array_equal(layout.positions(part), whole[[386, 0, 395]])


@pytest.mark.parametrize("labels", [["a", "b", "c"], [0, 1, 4941], [-1, 0, 1]])
def test_other_labels_under_its_name_get_a_computed_layout(labels: Any) -> None:
    graph = Graph(3, LINE, labels=labels, name="us-power-grid")
    np.testing.assert_array_equal(layout.positions(graph), layout.spring(graph))


def test_computed_layouts_are_the_same_every_time() -> None:
    graph = Graph(30, np.array([(i, (i + 1) % 30) for i in range(30)]))
    np.testing.assert_array_equal(layout.positions(graph), layout.positions(graph))
    np.testing.assert_array_equal(layout.pivots(graph), layout.pivots(graph))


@pytest.mark.parametrize("place", [layout.spring, layout.pivots])
def test_layouts_put_neighbours_near_one_another(place: Any) -> None:
    graph = vs.networks.load("torus:8x8")
    assert spread(graph, place(graph)) < 0.6


def test_pivots_recover_a_path() -> None:
    graph = vs.networks.load("path:50")
    order = np.argsort(layout.pivots(graph)[:, 0])
    assert order.tolist() in (list(range(50)), list(range(49, -1, -1)))


def test_pivots_place_thousands_of_agents() -> None:
    graph = vs.networks.load("us-power-grid")
    bare = Graph(graph.size, graph.links, name="another")
    places = layout.positions(bare)
    assert np.isfinite(places).all()


def test_pivots_place_separate_components() -> None:
    graph = Graph(6, np.array([(0, 1), (1, 2), (3, 4), (4, 5)]))
    assert np.isfinite(layout.pivots(graph)).all()


class Bare:
    """Weights without a graph."""

    size = 3
    graph = None

    def at(self, t: Any) -> Any:  # noqa: ARG002 - the same in every round
        return csr_array(np.array([[0.5, 0.5, 0.0], [0.5, 0.25, 0.25], [0.0, 0.25, 0.75]]))


def test_a_network_without_a_graph_is_drawn_from_its_weights() -> None:
    assert layout.links(Bare()).tolist() == [[0, 1], [1, 2]]
    assert layout.of_network(Bare()).shape == (3, 2)
