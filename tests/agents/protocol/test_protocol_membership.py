"""Epochs that are adopted one agent after the other, and members that leave: what the results say."""

from typing import Any

import pytest

from tests.agents.protocol.cases import released, small
from veilsum import networks
from veilsum.agents.events import Leave, PeerDown, Started
from veilsum.agents.protocol import Agent, Options
from veilsum.agents.protocol.completion import Completion
from veilsum.agents.protocol.memory import BEHIND, LOST
from veilsum.agents.transport.memory import Faults
from veilsum.testing import SimulatedNetwork

KINDS: dict[str, dict[str, Any]] = {
    "offline": {"rounds": 200},
    "stream": {"algorithm": "learn", "rounds": 0},
    "asynchronous": {"rounds": 0, "asynchronous": True},
}
OPTIONS = Options(deadline=1.0, resend=0.2, tick=0.02, linger=10.0)
DELAYED = Faults(delay=(0.01, 0.02))


def rollout(kind: str, **more: Any) -> Any:
    """Four agents in epoch 1; a fifth is a member of epoch 2, which the network knows of."""
    second = small(net=networks.lazy_metropolis(networks.ring(5)), epoch=2, **KINDS[kind], **more)
    first = small(epoch=1, **KINDS[kind], **more)
    run = SimulatedNetwork(second, options=OPTIONS, faults=DELAYED)
    for label in "0123":
        run.agents[label].manifest = first
        run.release(label, [released(first, 1, float(label))])
        run.start(label)
    return run


def adopt(run: Any, label: str) -> None:
    """What a node does: the ledger is opened under the new terms, with the releases there are."""
    run.agents[label].manifest = None
    run.start(label)


def adopt_all(run: Any) -> None:
    for label in "0123":
        run.run(3, until_done=False)
        adopt(run, label)
    run.release("4", [released(run.manifest, 1, 9.0)])
    run.start("4")


def close_to(run: Any, mean: float, error: float) -> bool:
    found = [estimate for estimate in run.estimates().values() if estimate]
    return len(found) == len(run.running) and all(abs(e - mean) < error for (e,) in found)


def later_readings(run: Any, first: int, last: int) -> None:
    """A stream goes on only with readings; these are such that the mean stays."""
    for number in range(first, last):
        for label in run.running:
            value = 9.0 if label == "4" else float(label)
            run.release(label, [released(run.manifest, number, value)])
        run.run(1, until_done=False)


@pytest.mark.parametrize("kind", KINDS)
def test_agents_adopt_an_epoch_one_after_the_other(kind: str) -> None:
    run = rollout(kind)
    run.run(1, until_done=False)
    adopt_all(run)
    run.run(60, until_done=False)
    if kind == "stream":
        later_readings(run, 2, 60)
    run.run(60, until_done=False)
    error = 0.3 if kind == "stream" else 1e-6  # the last readings of a stream are not mixed yet
    assert close_to(run, 3.0, error), run.estimates()
    found = [run.running[label].coverage for label in "01234"]
    assert {c.contributing for c in found} == {("0", "1", "2", "3", "4")}
    assert [run.running[label].mass.readings for label in "0123"] == [
        58 + 1 if kind == "stream" else 1
    ] * 4


@pytest.mark.parametrize("kind", ["stream", "asynchronous"])
@pytest.mark.parametrize("first", [True, False])
def test_the_first_incarnation_of_an_epoch_has_lost_no_mixing(kind: str, first: bool) -> None:
    """Another one has, and states an interval as wide as the bounds until it has mixed again.

    With rounds in common, the first one may yet find that the others are ahead.
    """
    agent = Agent(small(epoch=2, **KINDS[kind]), "0", OPTIONS)
    agent.handle(Started(2, (released(agent.manifest, 1, 1.0),), first=first))
    begun = 0 if kind == "asynchronous" else BEHIND
    assert agent.state.mixed_since == (begun if first else LOST)


@pytest.mark.parametrize("kind", KINDS)
def test_both_ends_say_who_is_in_another_epoch(kind: str) -> None:
    run = rollout(kind)
    run.run(1, until_done=False)
    adopt(run, "0")
    run.run(1, until_done=False)
    said = {(who, r.peer) for who, r in run.reports if r.kind == "mismatch"}
    assert said == {("0", "1"), ("1", "0")}  # 4, its other neighbour, is not there yet
    assert all("differ first in epoch" in r.text for _, r in run.reports if r.kind == "mismatch")
    assert run.running["0"].links_status()["1"] == "mismatched"
    if kind == "offline":
        run.run(10, until_done=False)
        (text, *_) = [r.text for who, r in run.reports if (who, r.kind) == ("0", "gathering")]
        assert "1 (its manifest differs in epoch)" in text


@pytest.mark.parametrize("kind", ["offline", "asynchronous"])
@pytest.mark.parametrize("remembers", [True, False])
def test_who_releases_again_in_a_new_epoch_is_found_out(kind: str, remembers: bool) -> None:
    """Weakened: neighbours forget with the epoch, and the second draw of a reading is mixed in."""
    run = rollout(kind)
    run.run(5, until_done=False)
    for label in "0123":
        run.agents[label].manifest = None
        if not remembers:
            run.agents[label].memory.clear()
    run.agents["2"].released[:] = [released(run.manifest, 1, 77.0)]  # drawn anew
    run.release("4", [released(run.manifest, 1, 9.0)])
    run.start()
    run.run(60, until_done=False)
    if remembers:
        assert run.agents["2"].outcome.reason == "conflicting-releases"
        assert all(abs(e[0]) < 20 for k, e in run.estimates().items() if k != "2" and e)
    else:
        assert run.agents["2"].done is None or run.agents["2"].outcome.reason == "rounds"
        assert any(e and e[0] > 15 for e in run.estimates().values())


def left_run(kind: str, agent: Any = Agent) -> Any:
    terms = small(net=networks.lazy_metropolis(networks.ring(5)), **KINDS[kind], quorum=4)
    run = SimulatedNetwork(terms, options=OPTIONS, faults=DELAYED, agent=agent)
    count = 6 if kind == "stream" else 1
    for label in run.agents:
        run.release(label, [released(terms, k, float(label)) for k in range(1, count + 1)])
    run.start()
    assert run.running["2"].round < 5
    while run.running["2"].round < 5:
        assert run.step()
        assert run.network.now < 60
    return run


@pytest.mark.parametrize("kind", KINDS)
def test_who_leaves_hands_over_and_every_result_says_so(kind: str) -> None:
    run = left_run(kind)
    run.feed("2", Leave())
    run.run(30, until_done=kind == "offline")
    assert run.agents["2"].outcome.reason == "left"
    assert run.agents["2"].outcome.estimate == ()
    departure = run.running["2"].departure
    assert departure is not None
    assert departure.lost == ()
    assert {peer for peer, _ in departure.handed_over} == {"1", "3"}
    others = [run.running[label].coverage for label in "0134"]
    assert {c.left for c in others} == {("2",)}  # 0 and 4 are no neighbours of it
    assert {c.lost for c in others} == {()}
    assert all("2" in c.contributing for c in others)
    assert "left and handed over: 2" in others[0].sentence()
    assert run.running["2"].settled


def lose(run: Any, kind: str) -> None:
    """A neighbour of the leaver is down: what belongs to it cannot be handed over."""
    run.kill("1")
    run.feed("2", PeerDown("1"))
    run.feed("2", Leave())
    run.run(40, until_done=kind == "offline")


@pytest.mark.parametrize("kind", ["stream", "asynchronous"])
def test_a_loss_is_known_to_everyone(kind: str) -> None:
    run = left_run(kind)
    lose(run, kind)
    departure = run.running["2"].departure
    assert departure is not None
    assert departure.lost == ("what 1 did not acknowledge",)
    for label in "034":
        found = run.running[label].coverage
        assert (found.left, found.lost) == ((), ("2",))
        assert "gone with a part that is lost: 2" in found.sentence()


class Optimistic(Completion):
    """The weakened variant: whoever leaves has handed everything over."""

    def _end(self, reason: str) -> None:
        self.departure = None
        super()._end(reason)


class OptimisticAgent(Agent):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.completion.__class__ = Optimistic


def test_a_loss_that_is_not_passed_on_would_be_caught() -> None:
    run = left_run("asynchronous", OptimisticAgent)
    lose(run, "asynchronous")
    assert run.running["0"].coverage.lost == ()


def test_with_a_last_round_a_loss_means_to_begin_anew_without_the_leaver() -> None:
    terms = small(
        net=networks.lazy_metropolis(networks.complete(4)), rounds=60, quorum=2, lost_after=20.0
    )
    run = SimulatedNetwork(terms, options=OPTIONS, faults=DELAYED)
    for label in run.agents:
        run.release(label, [released(terms, 1, float(label))])
    run.start()
    while run.running["2"].round < 5:
        run.step()
    lose(run, "offline")
    assert run.run(200)
    for label in "03":
        done = run.agents[label].outcome
        assert done.coverage.missing == ("1", "2")
        assert done.coverage.left == ()
        assert abs(done.estimate[0] - 1.5) < 1e-6  # of 0 and 3, and of nothing else


def test_under_network_dp_the_mass_of_a_leaver_is_named_as_lost() -> None:
    from tests.agents.protocol.cases import problem, releases
    from veilsum.agents.manifest import Manifest
    from veilsum.privacy import NetworkDP

    net = networks.lazy_metropolis(networks.ring(4))
    todo = problem("learn-network", net, NetworkDP(0.5), rounds=10)
    run = SimulatedNetwork(Manifest.of(todo), options=OPTIONS, faults=DELAYED)
    for label, own in releases(todo, run.manifest).items():
        run.release(label, own)
    run.start()
    while run.running["2"].round < 5:
        run.step()
    run.feed("2", Leave())
    run.run(30)
    departure = run.running["2"].departure
    assert departure is not None
    assert departure.handed_over == ()
    assert "without fresh noise" in departure.lost[0]
    for label in "013":
        done = run.agents[label].outcome
        assert (done.reason, done.coverage.left, done.coverage.lost) == ("rounds", (), ("2",))
