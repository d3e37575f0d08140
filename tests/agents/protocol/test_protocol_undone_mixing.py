"""A member of an open-ended run loses its state of mixing: no interval claims what was undone."""

import itertools
import json
from dataclasses import replace
from typing import Any

import networkx
import pytest

from veilsum import algorithms, networks
from veilsum.agents.events import Send
from veilsum.agents.manifest import Manifest
from veilsum.agents.messages import CumulativeMass, RangeReport
from veilsum.agents.protocol import Agent, Options
from veilsum.agents.protocol.flooding import Flooding
from veilsum.agents.protocol.memory import LOST
from veilsum.agents.results import AgentResult
from veilsum.families import Normal
from veilsum.privacy import NoPrivacy
from veilsum.simulation import Problem, SyntheticSignals
from veilsum.testing import SimulatedNetwork

from .cases import released

FAMILY = Normal(sigma=1.0, bounds=(0.0, 100.0))
ROUNDING = 1e-6  # of integers, and of rows that count as constant
GRAPHS = {
    "complete": networkx.complete_graph(3),
    "path": networkx.path_graph(5),
    "star": networkx.star_graph(4),
    "ring with a tail": networkx.Graph([(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 5)]),
}


def terms(graph: Any, **options: Any) -> Any:
    network = networks.lazy_metropolis(graph)
    source = SyntheticSignals(FAMILY, {"mu": 50.0}, network.size, seed=3)
    learn = algorithms.get("learn", network)
    problem = Problem(network, learn, FAMILY, source, NoPrivacy(), rounds=10)
    return Manifest.of(problem, rounds=0, **options)


def value(place: int, reading: int) -> float:
    """Readings as uneven as the bounds allow: the first agents' are 0, the others' 100."""
    return 0.0 if place < 2 else 100.0 - 0.01 * reading


class Stream(SimulatedNetwork):
    """Agents that are each given one reading for a round, and what they show of it."""

    def give(self, *numbers: int) -> None:
        for number, (place, label) in itertools.product(numbers, enumerate(self.agents)):
            self.release(label, [released(self.manifest, number, value(place, number))])

    def run_for(self, seconds: float) -> None:
        self.run(seconds, until_done=False)

    def shown(self, counts_all: bool = False) -> list[tuple[str, float, float]]:
        """By agent: how far its estimate is from the mean of what it covers, and its half width."""
        found = []
        for label, agent in self.running.items():
            agent.flooding.count(anew=True)
            result = AgentResult.of(
                self.manifest, FAMILY, label, agent.round, "running", agent.reported_estimate,
                replace(self.everything, mixed=None if counts_all else agent.coverage.mixed),
            )  # fmt: skip
            if result.estimate:
                error = abs(result.estimate[0] - self.mean)
                found.append((label, error, result.half_width[0]))
        return found

    def shown_of_own(self, counts_all: bool = False) -> list[tuple[str, float, float]]:
        """The same for the readings that each agent itself says are in its estimate."""
        found = []
        for label, agent in self.running.items():
            agent.flooding.count(anew=True)
            covered = agent.coverage
            if counts_all:
                covered = replace(covered, mixed=None)
            result = AgentResult.of(
                self.manifest,
                FAMILY,
                label,
                agent.round,
                "running",
                agent.reported_estimate,
                covered,
            )
            if result.estimate:
                hosts = zip(self.agents.values(), covered.readings, strict=True)
                sums = [r.sums[0] for host, count in hosts for r in host.released[:count]]
                mean = sum(sums) / len(sums) / 2**self.manifest.unit
                found.append((label, abs(result.estimate[0] - mean), result.half_width[0]))
        return found

    @property
    def everything(self) -> Any:
        """All readings that were released; all agents have entered them, or are about to."""
        some = next(iter(self.running.values()))
        counts = tuple(len(host.released) for host in self.agents.values())
        return replace(some.coverage, readings=counts, present=self.manifest.labels)

    @property
    def mean(self) -> float:
        all_sums = [r.sums[0] for host in self.agents.values() for r in host.released]
        return float(sum(all_sums) / len(all_sums) / 2**self.manifest.unit)


def stream(graph: Any, agent: Any = Agent, late: str = "", **options: Any) -> Stream:
    options_of = Options(deadline=0.5, resend=0.1)
    made = Stream(terms(graph, **options), options=options_of, seed=1, agent=agent)
    made.start(*(label for label in made.agents if label != late))
    made.run_for(0.5)
    return made


def uncovered(run: Stream, counts_all: bool = False) -> list[tuple[str, float, float]]:
    return [one for one in run.shown(counts_all) if one[1] > one[2] + ROUNDING]


def lose(run: Stream, label: str) -> None:
    """Its ledger was restored from a backup that has all releases, and no state of mixing."""
    run.crash(label)
    run.agents[label].state = b""
    run.restart(label)


def steps_covered(run: Stream, seconds: float, counts_all: list[Any]) -> None:
    """Every moment of some seconds: an interval covers the mean, whatever it did before."""
    end, before = run.network.now + seconds, None
    while run.network.now < end and run.step():
        now = [(a.round, a.reported_estimate, a.coverage.mixed) for a in run.running.values()]
        if now != before:
            before = now
            assert not uncovered(run)
            counts_all += uncovered(run, counts_all=True)


@pytest.mark.parametrize("lost", [("0",), ("1",), ("0", "2"), ("1", "1")])
@pytest.mark.parametrize("graph", GRAPHS)
def test_every_interval_covers_the_mean_after_mixing_was_undone(
    graph: str, lost: tuple[str, ...]
) -> None:
    run = stream(GRAPHS[graph])
    run.give(*range(1, 41))
    run.run_for(3.0)
    assert not uncovered(run)
    before = max(width for _, _, width in run.shown())
    assert before < 25
    false: list[Any] = []
    for label in lost:
        lose(run, label)
        steps_covered(run, 1.0, false)
    for number in range(41, 121):
        run.give(number)
        steps_covered(run, 0.2, false)
    assert false  # the weakened variant: all rounds since the start count
    assert max(width for _, _, width in run.shown()) < before  # and it becomes narrow again


@pytest.mark.parametrize("rounds", [4, 40])
@pytest.mark.parametrize("late", ["1", "2"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_every_interval_covers_the_mean_when_a_member_starts_late(
    graph: str, late: str, rounds: int
) -> None:
    """With all its readings, or with the next one: nothing of it was mixed before it was there."""
    run = stream(GRAPHS[graph], late=late)
    run.give(*range(1, rounds + 1))
    run.run_for(60.0)  # the others go on without it
    run.start(late)
    false: list[Any] = []
    for number in range(rounds + 1, rounds + 81):
        end, before = run.network.now + (1.0 if number == rounds + 1 else 0.2), None
        while run.network.now < end and run.step():
            now = [(a.round, a.reported_estimate, a.coverage) for a in run.running.values()]
            if now != before:
                before = now
                assert not [one for one in run.shown_of_own() if one[1] > one[2] + ROUNDING]
                false += [one for one in run.shown_of_own(True) if one[1] > one[2] + ROUNDING]
        run.give(number)
    assert false  # the weakened variant: all rounds count
    assert max(width for _, _, width in run.shown()) < 60  # and it becomes narrow


def test_while_nothing_is_mixed_again_intervals_are_as_wide_as_the_bounds() -> None:
    run = stream(GRAPHS["complete"])
    run.give(*range(1, 41))
    run.run_for(3.0)
    lose(run, "0")
    run.run_for(5.0)
    assert {width for _, _, width in run.shown()} == {100.0}


def test_members_that_are_no_neighbours_learn_of_it_with_the_mass() -> None:
    """Two variants without the number in the messages: agents two hops away claim too much."""

    class Silent(Agent):
        """Says nothing of what was undone."""

        def handle(self, event: Any) -> Any:
            return [
                Send(action.message._replace(range_report=RangeReport()))
                if isinstance(action, Send) and isinstance(action.message, CumulativeMass)
                else action
                for action in super().handle(event)
            ]

    found: dict[Any, list[Any]] = {}
    for kind in (Agent, Silent):
        run = stream(GRAPHS["path"], kind)
        run.give(*range(1, 41))
        run.run_for(3.0)
        lose(run, "0")
        found[kind] = []
        for number in range(41, 71):
            run.give(number)
            run.run_for(0.2)
            found[kind] += uncovered(run)
    assert not found[Agent]
    assert {label for label, _, _ in found[Silent]} & {"2", "3", "4"}


def test_a_restart_remembers_what_was_undone_and_older_snapshots_know_of_nothing() -> None:
    run = stream(GRAPHS["complete"])
    run.give(*range(1, 11))
    run.run_for(3.0)
    assert run.running["1"].state.mixed_since == 0
    assert run.running["1"].coverage.mixed is None
    lose(run, "0")
    assert run.running["0"].state.mixed_since == LOST
    assert run.running["0"].coverage.mixed == 0
    run.give(11, 12, 13)
    run.run_for(3.0)
    since = {label: agent.state.mixed_since for label, agent in run.running.items()}
    assert set(since.values()) > {0} or min(since.values()) >= 10
    run.crash("1")
    run.restart("1")
    assert run.running["1"].state.mixed_since == since["1"]
    host = run.agents["1"]
    before = host.state
    run.crash("1")
    read = json.loads(before)
    assert read[0] == 6
    host.state = json.dumps([5, *read[1:18]]).encode()
    run.restart("1")
    assert run.running["1"].state.mixed_since == 0


def test_a_first_session_and_a_restart_with_its_state_undo_nothing() -> None:
    run = stream(GRAPHS["path"])
    run.give(*range(1, 11))
    run.run_for(3.0)
    run.crash("2")
    run.run_for(1.0)
    run.restart("2")
    run.give(11, 12)
    run.run_for(3.0)
    assert {agent.coverage.mixed for agent in run.running.values()} == {None}


def test_asynchronous_agents_count_the_ticks_since() -> None:
    run = stream(GRAPHS["path"], asynchronous=True)
    run.give(*range(1, 11))
    run.run_for(30.0)
    assert {agent.coverage.mixed for agent in run.running.values()} == {None}
    lose(run, "0")
    run.run_for(0.5)
    assert run.running["1"].coverage.mixed is not None
    run.run_for(60.0)
    mixed = {label: agent.coverage.mixed for label, agent in run.running.items()}
    assert None not in mixed.values()
    assert not uncovered(run)


@pytest.mark.parametrize("weakened", [False, True])
@pytest.mark.parametrize(
    ("graph", "late"), [("ring with a tail", "0"), ("complete", "1"), ("complete", "")]
)
def test_a_member_that_starts_late_within_the_first_period_is_noticed(
    graph: str, late: str, weakened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds may be over in less than a period, or before one of those who started with it is heard."""
    if weakened:
        monkeypatch.setattr(Flooding, "begun", property(lambda flooding: flooding.settled))
    false = []
    for wait, rounds in itertools.product((0.3, 0.55, 0.7, 0.9), (4, 20)):
        made = terms(GRAPHS[graph])
        run = Stream(made, options=Options(deadline=0.5, resend=0.1), seed=1)
        run.start(*(label for label in run.agents if label != late))
        run.give(*range(1, rounds + 1))
        run.run_for(wait)
        if late:
            run.start(late)
        for number in range(rounds + 1, rounds + 12):
            run.run_for(0.3)  # until nothing is on its way
            false += [one for one in run.shown_of_own() if one[1] > one[2] + ROUNDING]
            run.give(number)
    assert bool(false) == weakened, false
