"""Under Network DP nobody pushes more weight in a round than the noise of that round is made for.

Agent i's noise covers a_ij for a neighbour's estimate that moves by 1. That moves its sum by its
weight w_j, of which a_ij/(t-1) is pushed: the weight that crosses a link in a round, over a_ij, is
what the round costs in units of epsilon. It used to reach 1.12 after an honest silence, and as many
times epsilon as a member that sends weight it never had cared to claim.
"""

from typing import Any

import pytest

from tests.agents.protocol.cases import problem, releases, whole
from veilsum import networks
from veilsum.agents.events import Send
from veilsum.agents.manifest import Manifest
from veilsum.agents.messages import CumulativeMass
from veilsum.agents.protocol import Agent, Options
from veilsum.privacy import NetworkDP
from veilsum.testing import SimulatedNetwork

ROUNDS = 200
PROBLEM = problem(
    "learn-network", networks.lazy_metropolis(networks.ring(6)), NetworkDP(1.0), ROUNDS
)
TERMS = Manifest.of(PROBLEM, rounds=0)  # a stream, whose rounds do not wait for a silent neighbour


class Weighed(SimulatedNetwork):
    """Notes the dearest push over each link: weight pushed in a round, over the link's weight."""

    liar = ""  # a member that from round 10 on claims to have pushed this much more weight
    claim = 0.0

    def __init__(self, terms: Any = TERMS, **options: Any) -> None:
        super().__init__(terms, options=Options(deadline=0.2, resend=0.1), **options)
        self.last: dict[Any, Any] = {}
        self.dearest: dict[Any, float] = {}
        for label, own in releases(PROBLEM, TERMS).items():
            self.release(label, own)
        self.start()

    def finish(self) -> None:
        """Run to the last release: without one no round ends."""
        while min(agent.mass.entered for agent in self.running.values()) < ROUNDS:
            assert self.network.now < 2000
            self.step()
        self.run(1.0)

    def perform(self, host: Any, action: Any) -> None:
        message = getattr(action, "message", None)
        if isinstance(action, Send) and isinstance(message, CumulativeMass):
            if host.label == self.liar and message.round >= 10:
                more = whole(TERMS, self.claim)
                action = Send(message._replace(weight=message.weight + more))
            else:
                self._note(message)
        super().perform(host, action)

    def _note(self, message: Any) -> None:
        link = message.sender, message.receiver
        number, before = self.last.get(link, (0, 0))
        if message.round > number:
            weight = TERMS.link_weights(message.sender)[message.receiver] / 2**53
            pushed = (message.weight - before) / 2**TERMS.unit
            cost = pushed / weight / (message.round - number)
            self.dearest[link] = max(cost, self.dearest.get(link, 0.0))
            self.last[link] = message.round, message.weight


def silenced(agent: Any = Agent) -> Any:
    """Agent 0 is not heard for a while, and then all it said at once."""
    run = Weighed(agent=agent)
    while run.running["0"].round < 10:
        run.step()
    run.network.cut([("0", "1"), ("0", "5")])
    while run.running["3"].round < 30:
        run.step()
    run.network.heal()
    run.finish()
    return run


def inflated(agent: Any = Agent) -> Any:
    """Agent 0 claims a weight of 300 that it never had."""
    kind = type("Inflated", (Weighed,), {"liar": "0", "claim": 300.0})
    run = kind(agent=agent)
    run.finish()
    return run


class Unbounded(Agent):
    """A variant that takes all that arrives into its estimate at once, as agents did."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.mass.bounded = False


@pytest.mark.parametrize("story", [silenced, inflated])
def test_no_round_costs_more_than_epsilon(story: Any) -> None:
    run = story()
    assert 0.99 < max(run.dearest.values()) <= 1.0
    for agent in run.running.values():
        assert agent.mass.weight <= whole(TERMS, agent.round)


@pytest.mark.parametrize(("story", "cost"), [(silenced, 1.1), (inflated, 10.0)])
def test_a_variant_without_the_bound_is_caught(story: Any, cost: Any) -> None:
    assert max(story(Unbounded).dearest.values()) > cost


def test_what_waits_aside_is_not_lost_and_the_estimates_agree() -> None:
    run = silenced()
    totals = run.totals()
    for held, coming, undone, put in zip(*totals.values(), strict=True):
        assert held + coming + undone == put
    mean = totals["released"][0] / totals["released"][1]
    assert all(abs(agent.estimate[0] - mean) < 0.5 for agent in run.running.values())


def test_while_all_messages_come_next_to_nothing_waits_aside() -> None:
    run = Weighed(Manifest.of(PROBLEM))
    assert run.run(100)
    for agent in run.running.values():
        assert 0 <= agent.mass.aside_weight <= whole(TERMS, 1e-10)
        assert abs(agent.mass.weight - whole(TERMS, ROUNDS)) <= whole(TERMS, 1e-10)


def test_a_restart_remembers_what_waits_aside() -> None:
    kind = type("Inflated", (Weighed,), {"liar": "0", "claim": 300.0})
    run = kind()
    while run.running["1"].round < 20:
        run.step()
    aside = run.running["1"].mass.aside_weight
    assert aside > whole(TERMS, 200)
    run.crash("1")
    run.restart("1")
    agent = run.running["1"]
    assert agent.mass.aside_weight == pytest.approx(aside, rel=0.05)
    held = list(agent.mass.sums), agent.mass.weight
    agent.mass.recount()
    assert (agent.mass.sums, agent.mass.weight) == held


def behind(agent: Any = Agent) -> Any:
    """An agent in round 2 whose neighbours are in round 9: what it takes in, by their round."""
    todo = problem("learn", networks.lazy_metropolis(networks.ring(4)), NetworkDP(1.0), 20)
    terms = Manifest.of(todo, rounds=0)
    run = SimulatedNetwork(terms, agent=agent, options=Options(deadline=0.2, resend=0.1))
    for label, own in releases(todo, terms).items():
        run.release(label, own)
    run.start()
    taken = []
    me = run.running["0"]
    usual = me.mass.receive

    def noted(link: Any, message: Any) -> None:
        if not me.reason:
            taken.append((me.round, message.round))
        usual(link, message)

    me.mass.receive = noted  # type: ignore[method-assign]
    while me.round < 2:
        run.step()
    run.network.cut([("1", "0"), ("3", "0")])
    while run.running["2"].round < 12 and run.network.now < 60:
        run.step()
    run.network.heal()
    run.run(100)
    assert me.mass.entered == 20
    return taken


def test_who_is_behind_takes_in_nothing_of_later_rounds() -> None:
    """The noise of `learn` is made for the own round: a later push costs more than epsilon."""
    taken = behind()
    assert len(taken) > 10
    assert all(theirs <= own for own, theirs in taken)


def test_a_variant_that_receives_later_rounds_is_caught() -> None:
    assert any(theirs > own for own, theirs in behind(Unbounded))
