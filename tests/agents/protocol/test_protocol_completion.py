"""What is final once an agent is done, who comes too late, and who may not come again."""

from typing import Any

import pytest

from tests.agents.protocol.cases import problem, released, releases, small, whole
from veilsum import networks
from veilsum.agents.events import AgentReport, Done, Leave, PeerDown, Restarted, Send
from veilsum.agents.manifest import Manifest
from veilsum.agents.messages import CumulativeMass
from veilsum.agents.protocol import Agent, Options
from veilsum.agents.protocol.states import ReachabilityEvent, SessionState
from veilsum.agents.transport.memory import Faults
from veilsum.privacy import NetworkDP
from veilsum.testing import SimulatedNetwork

KINDS = pytest.mark.parametrize("asynchronous", [False, True], ids=["synchronous", "asynchronous"])


def everyone(run: Any) -> None:
    for label in run.agents:
        run.release(label, [released(run.manifest, 1, float(label))])


def network_dp() -> Any:
    net = networks.lazy_metropolis(networks.ring(4))
    todo = problem("learn-network", net, NetworkDP(0.5), rounds=10)
    return todo, Manifest.of(todo)


class Recorded(SimulatedNetwork):
    """Records what agent 1 sends and reports in its second incarnation."""

    def perform(self, host: Any, action: Any) -> None:
        if (
            host.label == "1"
            and host.incarnation == 2
            and isinstance(action, Send | AgentReport | Done)
        ):
            self.__dict__.setdefault("recorded", []).append(action)
        super().perform(host, action)


class Again(Agent):
    """A variant that runs a second incarnation with the noise of the first."""

    def _stay_away(self) -> None:
        self._resume(self.given)

    def _started(self, event: Any) -> None:
        self.given = event.released
        super()._started(event)


def second_incarnation(agent: Any) -> Any:
    todo, terms = network_dp()
    run = Recorded(terms, agent=agent)
    for label, own in releases(todo, terms).items():
        run.release(label, own)
    run.start()
    while run.running["1"].round < 6:
        run.step()
    run.start("1")
    run.run(300)
    return run


def test_where_neighbours_are_hidden_there_is_no_second_incarnation() -> None:
    run = second_incarnation(Agent)
    report, done = run.recorded
    assert (report.kind, done.reason, done.estimate) == ("readings", "readings", ())
    assert "new ledger" in report.text
    run.run(8000)
    assert {run.agents[label].outcome[1:3] for label in "023"} == {((), "quorum")}


def test_a_second_incarnation_would_be_caught() -> None:
    said = [a.message for a in second_incarnation(Again).recorded if isinstance(a, Send)]
    assert any(isinstance(message, CumulativeMass) for message in said)


@KINDS
def test_a_result_is_final_and_a_late_incarnation_has_none(asynchronous: Any) -> None:
    options = Options(tick=0.01)
    run = SimulatedNetwork(small(rounds=150, asynchronous=asynchronous), options=options)
    everyone(run)
    run.start()
    assert run.run(100)
    run.run(1, until_done=False)
    before = run.estimates()
    sums = list(run.running["0"].mass.sums)
    run.start("1")
    run.run(400, until_done=False)
    assert run.running["0"].mass.sums != sums  # the mass was rolled back
    assert {label: run.running[label].estimate for label in "023"} == {
        label: before[label] for label in "023"
    }
    assert run.agents["1"].outcome[1:3] == ((), "late")
    assert run.running["1"].settled


def test_a_result_survives_a_restart() -> None:
    run = SimulatedNetwork(small(rounds=60))
    everyone(run)
    run.start()
    assert run.run(100)
    run.run(1, until_done=False)
    agent = run.running["1"]
    again = Agent(run.manifest, "1")
    actions = again.handle(Restarted(1, agent.to_bytes(), (), run.agents["1"].secret))
    assert [a for a in actions if isinstance(a, Done)] == [run.agents["1"].done]
    assert again.estimate == agent.estimate


@KINDS
@pytest.mark.parametrize("announced", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_leaving_ends_in_time_though_a_neighbour_is_down(
    asynchronous: Any, announced: Any, restarts: Any
) -> None:
    terms = small(net=networks.lazy_metropolis(networks.complete(4)), asynchronous=asynchronous)
    run = SimulatedNetwork(terms, options=Options(linger=10.0), faults=Faults(delay=(0.05, 0.06)))
    everyone(run)
    run.start()
    while run.network.now < 2 and run.running["2"].round < 10:
        run.step()
    run.crash("0", announced=announced)
    run.feed("2", Leave())
    if restarts:
        run.crash("2", announced=False)
        run.restart("2")
    start = run.network.now
    while run.agents["2"].done is None and run.network.now < start + 60:
        run.step()
    assert run.agents["2"].outcome.reason == "left"
    assert run.network.now <= start + 10.0
    left = [r.text for who, r in run.reports if (who, r.kind) == ("2", "left")]
    assert ["what 0 did not acknowledge" in text for text in left] == [True]


def test_who_leaves_alone_says_what_is_lost() -> None:
    run = SimulatedNetwork(small(), options=Options(linger=10.0), faults=Faults(delay=(0.05, 0.06)))
    everyone(run)
    run.start()
    while run.running["2"].round < 10:
        run.step()
    for label in "013":
        run.crash(label, announced=False)
    run.run(1, until_done=False)
    for label in "13":
        run.feed("2", PeerDown(label))
    weight = run.running["2"].mass.weight
    run.feed("2", Leave())
    run.run(11, until_done=False)
    assert run.agents["2"].outcome.reason == "left"
    (text,) = [r.text for who, r in run.reports if (who, r.kind) == ("2", "left")]
    assert f"{weight / whole(run.manifest, 1):.6g} of weight" in text
    # It still has mass, of which there would be an estimate: the exit code of an agent that leaves
    # does not depend on who was in reach.
    assert run.running["2"].mass.estimate
    assert run.agents["2"].outcome.estimate == run.running["2"].state.result == ()


LEFT, DONE, OPEN = SessionState.LEFT, SessionState.DONE, SessionState.OPEN


@pytest.mark.parametrize(
    ("sessions", "silent", "received", "late"),
    [
        ((DONE, DONE), False, False, True),  # they ended without this agent
        ((DONE, OPEN), True, False, True),  # one did, and its mass will never come
        ((DONE, OPEN), False, False, False),  # the other may still send some
        ((LEFT, LEFT), False, False, True),  # its own release would be all there is
        ((LEFT, LEFT), False, True, False),  # they handed their mass over
        ((LEFT, OPEN), True, False, False),  # the silent one may come back
        ((LEFT, DONE), False, True, True),
        ((DONE, DONE), False, True, True),
        ((OPEN, OPEN), False, False, False),
    ],
)
def test_an_agent_is_late_when_the_others_ended_without_it(
    sessions: Any, silent: bool, received: bool, late: bool
) -> None:
    agent = Agent(small(rounds=0), "0")  # with a last round, registers say how it ended
    for link, session in zip(agent.links.values(), sessions, strict=True):
        link.session, link.in_weight = session, int(received)
        link.on(ReachabilityEvent.PATIENCE_EXHAUSTED if silent else ReachabilityEvent.HELLO)
    assert agent.completion.late == late
