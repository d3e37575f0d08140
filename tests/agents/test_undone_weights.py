"""The weights of releases after mixing was undone, against every release followed over every link."""

import itertools
from typing import Any

import networkx
import numpy as np
import pytest

from veilsum import algorithms, networks
from veilsum.agents import Manifest, mixing
from veilsum.agents.mixing import release_weights
from veilsum.agents.results import interval
from veilsum.errors import AgentError
from veilsum.families import Normal
from veilsum.privacy import NoPrivacy, SignalDP
from veilsum.simulation import Problem, SyntheticSignals

FAMILY = Normal(sigma=1.0, bounds=(0.0, 100.0))
FREE = Normal(sigma=1.0)
BEFORE = 30  # rounds, each with a reading of every member
GRAPHS = {
    "path": networkx.path_graph(5),
    "star": networkx.star_graph(4),
    "ring": networkx.cycle_graph(6),
    "two hubs": networkx.Graph([(0, 1), (0, 2), (0, 3), (1, 2), (1, 4), (2, 3), (4, 5)]),
}


def terms(graph: Any, family: Any = FAMILY, privacy: Any = None) -> Any:
    network = networks.lazy_metropolis(graph)
    source = SyntheticSignals(family, {"mu": 50.0}, network.size, seed=3)
    learn = algorithms.get("learn", network)
    problem = Problem(network, learn, family, source, privacy or NoPrivacy(), rounds=10)
    return Manifest.of(problem, rounds=0)


class Followed:
    """Every release by itself: the parts of it at each agent, and what each link has carried."""

    def __init__(self, manifest: Any) -> None:
        size = len(manifest.members)
        place = {label: k for k, (label, _) in enumerate(manifest.members)}
        self.weights = np.zeros((size, size))
        for a, b, w in manifest.links:
            self.weights[place[a], place[b]] = w
        self.parts = np.zeros((0, size))
        self.own = np.zeros((0, size))
        self.carried = np.zeros((0, size, size))

    def round(self) -> None:
        size = len(self.weights)
        sent = self.parts[:, :, None] * self.weights[None]
        self.carried = self.carried + sent
        self.parts = self.parts - sent.sum(axis=2) + sent.sum(axis=1)
        self.parts = np.vstack([self.parts, np.eye(size)])
        self.own = np.vstack([self.own, np.eye(size)])
        self.carried = np.concatenate([self.carried, np.zeros((size, size, size))])

    def lose(self, *members: int) -> None:
        for lost in members:
            self.carried[:, lost, :] = self.carried[:, :, lost] = 0.0
        self.parts = self.own - self.carried.sum(axis=2) + self.carried.sum(axis=1)

    def of(self, agent: int) -> Any:
        """The weight of every reading in an agent's estimate."""
        return self.parts[:, agent] / self.parts[:, agent].sum()


CASES: dict[str, list[tuple[int, ...]]] = {
    "one": [(0,)],
    "a hub": [(1,)],
    "two at one time": [(0, 1)],
    "four at one time": [(0, 1, 2, 3)],
    "two one after the other": [(1,), (0,)],
    "one twice": [(1,), (1,)],
}


@pytest.mark.parametrize("losses", CASES)
@pytest.mark.parametrize("graph", GRAPHS)
def test_no_weight_is_further_off_than_is_said(graph: str, losses: str) -> None:
    manifest = terms(GRAPHS[graph])
    exact, t = Followed(manifest), 0
    for members in CASES[losses]:
        for _ in range(BEFORE):
            exact.round()
        exact.lose(*members)
        t += BEFORE
    known = False
    too_small = 0
    for m in range(60):
        total = len(exact.parts)
        for place, (label, _) in enumerate(manifest.members):
            counts = (t + m,) * len(manifest.members)
            found = release_weights(manifest, label, counts, t + m, mixed=m)
            if np.isinf(found.undone):
                continue
            known = True
            p = exact.of(place)
            uneven = np.abs(p - 1 / total).sum() / 2
            assert uneven <= found.unevenness + 1e-9
            assert ((p - 1 / total) ** 2).sum() <= found.deviation + 1e-9
            assert p.max() <= found.largest.max() + 1e-9
            assert (p**2).sum() <= found.squares + 1e-9
        for place, (label, _) in enumerate(manifest.members):  # the weakened variant: all rounds
            counts = (t + m,) * len(manifest.members)
            plain = release_weights(manifest, label, counts, t + m)
            uneven = np.abs(exact.of(place) - 1 / total).sum() / 2
            too_small += bool(uneven > plain.unevenness + 1e-9)
        exact.round()
    assert known
    assert too_small


@pytest.mark.parametrize("rounds", [1, 3, 20])
@pytest.mark.parametrize("graph", GRAPHS)
def test_a_series_of_losses_leaves_negative_parts_below_one(graph: str, rounds: int) -> None:
    exact, rng = Followed(terms(GRAPHS[graph])), np.random.default_rng(1)
    for _ in range(25):
        for _ in range(rounds):
            exact.round()
        exact.lose(int(rng.integers(len(exact.weights))))
        assert -np.minimum(exact.parts, 0).sum(axis=1).min() < 1 < mixing.UNDONE


def test_without_the_negative_parts_weights_would_be_further_off_than_said() -> None:
    """The weakened variant: rounds since count, as if every release had entered anew."""
    manifest = terms(GRAPHS["two hubs"])
    exact, too_small = Followed(manifest), 0
    for _ in range(BEFORE):
        exact.round()
    exact.lose(1)
    assert exact.parts.min() < 0
    for m in range(20):
        for place, (label, _) in enumerate(manifest.members):
            found = release_weights(manifest, label, (BEFORE + m,) * 6, BEFORE + m, mixed=m)
            uneven = np.abs(exact.of(place) - 1 / len(exact.parts)).sum() / 2
            too_small += bool(uneven > found._replace(undone=0.0).unevenness)
            assert uneven <= found.unevenness + 1e-9
        exact.round()
    assert too_small


def test_what_was_undone_is_forgotten_as_the_rounds_go_on() -> None:
    manifest = terms(GRAPHS["ring"])
    widths = [
        interval(manifest, FAMILY, (400,) * 6, label="0", round=400, mixed=m).half_width[0]
        for m in range(120)
    ]
    assert widths[0] == 100.0
    assert all(later <= earlier + 1e-9 for earlier, later in itertools.pairwise(widths))
    never = interval(manifest, FAMILY, (400,) * 6, label="0", round=400).half_width[0]
    assert widths[-1] == pytest.approx(never, abs=1e-4)


def test_rounds_beyond_those_followed_one_by_one_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a large network, too, what was undone is forgotten."""
    manifest = terms(GRAPHS["ring"])
    monkeypatch.setattr(mixing, "MOST_NUMBERS", 30)
    for cached in (mixing._powers, mixing._late_row):
        cached.cache_clear()
    found = [
        release_weights(manifest, "0", (400,) * 6, 400, mixed=m).undone
        for m in (5, 40, 64, 100, 128)
    ]
    for cached in (mixing._powers, mixing._late_row):
        cached.cache_clear()
    assert np.isinf(found[0])
    assert found[1] > found[2] == found[3] > 0
    assert found[3] >= found[4] < 1e-5


def test_noise_and_unbounded_readings_count_what_was_undone() -> None:
    noisy = terms(GRAPHS["ring"], privacy=SignalDP(1.0))
    plain = interval(noisy, FAMILY, (400,) * 6, label="0", round=400)
    some = interval(noisy, FAMILY, (400,) * 6, label="0", round=400, mixed=25)
    assert some.noise[0] > plain.noise[0]
    assert some.mixing[0] > plain.mixing[0]
    free = terms(GRAPHS["ring"], FREE)
    assert interval(free, FREE, (400,) * 6, label="0", round=400, mixed=0).half_width == (np.inf,)
    some = interval(free, FREE, (400,) * 6, label="0", round=400, mixed=25)
    plain = interval(free, FREE, (400,) * 6, label="0", round=400)
    assert plain.half_width[0] < some.half_width[0] < np.inf


def test_a_number_of_rounds_is_no_less_than_0() -> None:
    with pytest.raises(AgentError, match="mixed"):
        interval(terms(GRAPHS["ring"]), FAMILY, (4,) * 6, round=4, mixed=-1)


def test_alone_nothing_is_undone() -> None:
    assert mixing._undone(np.array([1.0]), 3.0, 3.0) == 0.0
