"""All agents of a component state one result: also after a restart at the end, or a late return."""

import random
from typing import Any

import pytest

from tests.agents.protocol.cases import released, small
from veilsum import networks
from veilsum.agents.protocol import Options
from veilsum.agents.transport.memory import Faults
from veilsum.testing import SimulatedNetwork

SLOW = Faults(delay=(0.001, 0.3))


def started(terms: Any, seed: int, readings: int = 1, **options: float) -> SimulatedNetwork:
    run = SimulatedNetwork(terms, options=Options(**options), seed=seed, faults=SLOW)  # type: ignore[arg-type]
    for label in run.agents:
        given = [released(terms, t, float(label) ** 2) for t in range(1, readings + 1)]
        run.release(label, given)
    run.start()
    return run


@pytest.mark.parametrize("seed", range(4))
def test_a_restart_of_who_is_done_first_leaves_one_coverage(seed: int) -> None:
    """Its register came back without the readings of the others: 2,000 and 1,921 were stated."""
    rounds = 100
    terms = small(
        "learn", net=networks.lazy_metropolis(networks.path(5)), rounds=rounds, quorum=5,
        gathering=30.0, lost_after=60.0,
    )  # fmt: skip
    run = started(terms, seed, readings=rounds)
    while not any(hosted.done for hosted in run.agents.values()):
        assert run.step()
    first = next(label for label, hosted in run.agents.items() if hosted.done)
    run.crash(first)
    run.run(0.5 + random.Random(seed).random(), until_done=False)
    run.restart(first)
    assert run.run(500)
    stated = {hosted.done.coverage.readings for hosted in run.agents.values() if hosted.done}
    assert stated == {(rounds,) * 5}


def late_return(seed: int) -> set[tuple[int, float]]:
    """What the others state if agent 0 concludes unheard, is lost, and returns as they end.

    Nothing if the timing of this seed does not lead there.
    """
    terms = small(
        net=networks.lazy_metropolis(networks.ring(5)), rounds=80, quorum=4, gathering=30.0,
        lost_after=20.0,
    )  # fmt: skip
    others = [str(k) for k in range(1, 5)]
    run = started(terms, seed, linger=4000.0)
    while not run.running["0"].state.completed:
        assert run.step()
    run.network.cut([("0", peer) for peer in others])  # 0 still hears, and is no longer heard
    while run.agents["0"].done is None:
        if not run.step() or run.network.now > 300:
            return set()
    if any(run.agents[label].done for label in others):
        return set()
    run.crash("0", announced=False)

    def completed(label: str) -> bool:
        agent = run.running[label]
        return agent.state.completed and bool(agent.gathering.view[1])

    while not any(map(completed, others)):
        if not run.step() or run.network.now > 900:
            return set()
    end = run.network.now + random.Random(seed).random()
    while run.network.now < end:
        run.step()
    run.network._cut.clear()
    run.restart("0")
    run.run(3000)
    found = [run.agents[label].done for label in others]
    assert all(found)
    return {(done.coverage.count, round(done.estimate[0], 2)) for done in found if done}


def test_who_completed_a_later_view_does_not_fall_back_to_an_earlier_one() -> None:
    """Two had the result of five members and two that of four, though their links never failed."""
    stated = [found for found in map(late_return, range(60)) if found]
    assert stated, "no seed led there"
    assert all(len(found) == 1 for found in stated)


def test_a_member_that_goes_away_before_the_rounds_is_waited_for() -> None:
    """It counted as present, and the others released readings."""
    terms = small(net=networks.lazy_metropolis(networks.ring(4)), rounds=30, quorum=4)
    run = SimulatedNetwork(terms, options=Options(), seed=3, faults=Faults())
    for label in run.agents:
        run.release(label, [released(terms, 1, float(label))])
    run.start("0", "1", "2")
    run.run(5.0, until_done=False)
    run.crash("1")
    run.run(5.0, until_done=False)
    run.start("3")
    run.run(60.0, until_done=False)
    assert not any(run.running[label].gathered for label in "023")
    run.restart("1")
    assert run.run(600)
    assert {hosted.done.coverage.count for hosted in run.agents.values() if hosted.done} == {4}
