"""When noise is drawn: before anything is visible, and between queries, while nothing is sent."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from tests.agents.runtime.masked_sites import SUM, Sites, terms
from veilsum.agents.release import ContributionMechanism
from veilsum.agents.release.reserve import DEPTH, LOW, NoiseReserve
from veilsum.agents.runtime import noise

QUERIES = DEPTH - LOW + 2  # the reserve is low after the last but one of them
STREAM = f'name = "masked-learn", rounds = {QUERIES}'
READINGS = {label: [1.0 + k / 4 for k in range(QUERIES)] for label in "0123"}


class Watched:
    """A run in which the noise of agent 0 is watched: which query is open at each draw."""

    def __init__(self, folder: Any, made: Any = NoiseReserve, algorithm: str = STREAM) -> None:
        self.sites = Sites(folder, terms(algorithm=algorithm), READINGS)
        self.silent = self.started = False
        self.drawn: list[tuple[int, bool]] = []  # the open query, and whether nothing is sent
        node = self.sites.start("0", noise=made(self.source))
        self.started = True
        send = node.transport.send

        def noted(message: Any) -> None:
            assert not self.silent
            send(message)

        node.transport.send = noted
        for label in "123":
            self.sites.start(label)
        self.sites.finish()

    def source(self) -> tuple[int, ...]:
        if self.started:
            self.drawn.append((self.sites.agent("0").query, self.silent))
        return (0,)

    def in_silence(self, draw: Any, pause: float) -> None:
        assert pause > 0
        self.silent = True
        draw()
        self.silent = False


@pytest.fixture
def watched(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Watch a run; a silence of any agent takes no time."""

    def run(**more: Any) -> Watched:
        found: Any = object.__new__(Watched)
        monkeypatch.setattr(noise, "in_silence", found.in_silence)
        found.__init__(tmp_path, **more)
        assert found.sites.agent("0").done.reason == "sum"
        return found  # type: ignore[no-any-return]

    return run


def test_noise_is_drawn_between_queries_and_nothing_is_sent_meanwhile(watched: Any) -> None:
    assert watched().drawn == [(0, True)] * (DEPTH - LOW + 1)


class DrawnAtUse(NoiseReserve):
    """The weakened variant: refilled right after a use."""

    def draw(self) -> Any:
        found = super().draw()
        self.refill()
        return found


def test_the_weakened_variant_draws_beside_every_query(watched: Any) -> None:
    found = watched(made=DrawnAtUse).drawn
    assert found == [(query, False) for query in range(1, QUERIES + 1)]


def test_one_sum_needs_no_noise_afterwards(watched: Any) -> None:
    assert not watched(algorithm=SUM).drawn


def hosted(waiting: int, query: int, round: int) -> Any:
    mechanism = object.__new__(ContributionMechanism)
    mechanism.noise = NoiseReserve(lambda: (0,))
    for _ in range(DEPTH - waiting):
        mechanism.noise.draw()
    protocol = SimpleNamespace(round=round)
    return SimpleNamespace(query=query, done=None, protocol=protocol, release_mechanism=mechanism)


def test_agents_of_a_node_wait_for_one_another_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One has begun query 5, which needs the other; that one is low since query 4."""
    agents = {"ahead": hosted(DEPTH, 5, 4), "low": hosted(1, 0, 4)}
    refills = noise.NoiseRefills(agents, last=9)
    refills.pause = 0.001
    refills.concluded(agents["low"])
    refills.turn()
    assert len(agents["low"].release_mechanism.noise) == 1, "not beside an open query"
    assert refills.holds
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + noise.PATIENCE + 1)
    assert not refills.holds, "it goes on with what it has"
    monkeypatch.undo()
    agents["ahead"].query = 0
    assert refills.holds
    refills.turn()
    assert not refills.holds
    assert len(agents["low"].release_mechanism.noise) == DEPTH


def test_after_the_last_query_nothing_is_drawn() -> None:
    agents = {"low": hosted(1, 0, 9)}
    refills = noise.NoiseRefills(agents, last=9)
    refills.concluded(agents["low"])
    assert not refills.holds
