"""Where sites are drawn: always the same, apart from each other, and without scipy."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from veilsum.live.fleet_layout import place

RING = [(k, (k + 1) % 12) for k in range(12)]
SHAPES = {
    "pair": (2, [(0, 1)]),
    "ring": (12, RING),
    "complete": (7, [(a, b) for a in range(7) for b in range(a)]),
    "two parts": (5, [(0, 1), (1, 2), (3, 4)]),
    "no links": (4, []),
    "large ring": (350, [(k, (k + 1) % 350) for k in range(350)]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_sites_are_apart_and_on_the_page(shape: str) -> None:
    size, links = SHAPES[shape]
    placed = np.array(place(size, links))
    assert placed.shape == (size, 2)
    assert np.isfinite(placed).all()
    assert placed.min() >= 0
    assert placed.max() <= 1
    assert len({tuple(point) for point in placed.tolist()}) == size
    assert placed.tolist() == place(size, links)


def test_neighbours_are_nearer_than_others() -> None:
    placed = np.array(place(12, RING))
    apart = np.linalg.norm(placed[:, None] - placed[None], axis=2)
    near = np.mean([apart[a, b] for a, b in RING])
    assert near < apart[np.triu_indices(12, 1)].mean() / 1.5


def test_given_positions_keep_their_proportions() -> None:
    placed = np.array(place(3, [], [(0.0, 0.0), (40.0, 0.0), (0.0, 10.0)]))
    assert placed[1, 0] - placed[0, 0] == pytest.approx(4 * (placed[2, 1] - placed[0, 1]), abs=1e-3)


def test_it_needs_no_scipy() -> None:
    code = (
        "import sys; from veilsum.live.fleet_layout import place; place(9, [(0, 1)]); "
        "print({'scipy', 'networkx', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
