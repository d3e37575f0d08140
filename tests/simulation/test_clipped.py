"""Clipped gossip: the mean is kept, a liar is held to a pace, and what it costs is time."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilsum import networks
from veilsum.errors import AlgorithmError
from veilsum.simulation import clipped, clipped_gossip, clipping_bound

NET = networks.lazy_metropolis("random-geometric:20,0.4,1")
RNG = np.random.default_rng(7)
VALUES = RNG.uniform(0.0, 10.0, NET.size)


def test_a_radius_beyond_all_differences_is_the_average() -> None:
    plain = VALUES
    for _ in range(40):
        plain = NET.at(1) @ plain
    assert np.allclose(clipped_gossip(NET, VALUES, 10.0, 40)[-1], plain, atol=1e-12)
    assert np.array_equal(
        clipped_gossip(NET, VALUES, np.inf, 40), clipped_gossip(NET, VALUES, 1e9, 40)
    )


@pytest.mark.parametrize("radius", [0.05, 0.5, 5.0])
def test_the_mean_is_kept_and_all_agree_in_the_end(radius: float) -> None:
    ran = clipped_gossip(NET, VALUES, radius, 3000)
    assert np.allclose(ran.mean(axis=1), VALUES.mean(), atol=1e-9)
    assert np.ptp(ran[-1]) < 1e-6


def test_radii_of_their_own_do_not_keep_the_mean(monkeypatch: Any) -> None:
    """A variant in which every agent clips as it likes."""
    own = np.where(VALUES.mean() < VALUES, 0.01, 10.0)  # who is high listens to nobody
    rows = clipped._links(NET)[0]
    usual = np.clip
    monkeypatch.setattr(np, "clip", lambda z, *_: usual(z, -own[rows], own[rows]))
    moved = clipped_gossip(NET, VALUES, 1.0, 300)[-1].mean() - VALUES.mean()
    assert moved > 0.1


@given(
    liar=st.integers(0, 19),
    value=st.sampled_from([-1e12, 0.0, 1e12]),
    radius=st.floats(0.01, 5.0),
    rounds=st.integers(0, 60),
)
@settings(max_examples=40, deadline=None)
def test_a_liar_moves_the_mean_of_the_others_by_no_more_than_the_bound(
    liar: int, value: float, radius: float, rounds: int
) -> None:
    others = np.arange(NET.size) != liar
    ended = clipped_gossip(NET, VALUES, radius, rounds, liars={liar: value})[-1, others].mean()
    bound = clipping_bound(NET, radius, rounds, liars=[liar])
    assert abs(ended - VALUES[others].mean()) <= bound + 1e-9


def test_without_clipping_the_liar_wins_and_the_bound_is_reached() -> None:
    others = np.arange(NET.size) != 3
    free = clipped_gossip(NET, VALUES, np.inf, 2000, liars={3: 1e6})[-1, others]
    assert free.min() > 9e5
    ended = clipped_gossip(NET, VALUES, 0.1, 60, liars={3: 1e6})[-1, others].mean()
    bound = clipping_bound(NET, 0.1, 60, liars=[3])
    assert ended - VALUES[others].mean() == pytest.approx(bound)


def test_a_small_radius_costs_rounds() -> None:
    def rounds(radius: float) -> int:
        spread = np.ptp(clipped_gossip(NET, VALUES, radius, 3000), axis=1)
        return int(np.argmax(spread < 0.1))

    assert rounds(0.1) > 2 * rounds(1.0) >= 2 * rounds(np.inf)


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(AlgorithmError, match="radius"):
        clipped_gossip(NET, VALUES, 0.0, 5)
    with pytest.raises(AlgorithmError, match="20 agents"):
        clipped_gossip(NET, VALUES[:5], 1.0, 5)
    with pytest.raises(AlgorithmError, match="does not change"):
        clipped_gossip(networks.link_failures("complete:20", 0.1, seed=1), VALUES, 1.0, 5)
