"""Under Network DP nobody pushes more weight in a round than the noise of that round is made for.

Agent i's noise covers a_ij for a neighbour's estimate that moves by 1. That moves its sum by its
weight w_j, of which a_ij/(t-1) is pushed: the weight that crosses a link in a round, over a_ij, is
what the round costs in units of epsilon. It used to reach 1.12 after an honest silence, and as many
times epsilon as a member that sends weight it never had cared to claim.
"""

import pytest
from core_cases import problem, releases, whole

from murmura import network
from murmura.agent.core import Core, Options
from murmura.agent.core.rehearsal import Rehearsal
from murmura.agent.core.rounds import Rounds
from murmura.agent.events import Send
from murmura.agent.manifest import Manifest
from murmura.agent.messages import Totals
from murmura.privacy import NetworkDP

ROUNDS = 200
TODO = problem("learn-network", network.lazy_metropolis(network.ring(6)), NetworkDP(1.0), ROUNDS)
TERMS = Manifest.of(TODO)


class Weighed(Rehearsal):
    """Notes the dearest push over each link: weight pushed in a round, over the share."""

    liar = ""  # a member that from round 10 on claims to have pushed this much more weight
    claim = 0.0

    def __init__(self, **options):
        super().__init__(TERMS, options=Options(deadline=0.2, resend=0.1), **options)
        self.last, self.dearest = {}, {}
        for label, own in releases(TODO, TERMS).items():
            self.release(label, own)
        self.start()

    def perform(self, player, action):
        message = getattr(action, "message", None)
        if isinstance(action, Send) and isinstance(message, Totals):
            if player.label == self.liar and message.round >= 10:
                more = whole(TERMS, self.claim)
                action = Send(message._replace(weight=message.weight + more))
            else:
                self._note(message)
        super().perform(player, action)

    def _note(self, message):
        link = message.sender, message.receiver
        number, weight = self.last.get(link, (0, 0))
        if message.round > number:
            share = TERMS.shares(message.sender)[message.receiver] / 2**53
            pushed = (message.weight - weight) / 2**TERMS.unit
            cost = pushed / share / (message.round - number)
            self.dearest[link] = max(cost, self.dearest.get(link, 0.0))
            self.last[link] = message.round, message.weight


def silenced(core=Core):
    """Agent 0 is not heard for a while, and then all it said at once."""
    run = Weighed(core=core)
    while run.cores["0"].round < 10:
        run.step()
    run.network.cut([("0", "1"), ("0", "5")])
    while run.cores["3"].round < 30:
        run.step()
    run.network.heal()
    assert run.run(2000)
    return run


def inflated(core=Core):
    """Agent 0 claims a weight of 300 that it never had."""
    kind = type("Inflated", (Weighed,), {"liar": "0", "claim": 300.0})
    run = kind(core=core)
    assert run.run(2000)
    return run


class Unbounded(Rounds):
    """A twin that takes all that comes into its estimate at once, as agents did."""

    def __init__(self, *args):
        super().__init__(*args)
        self.bounded = False


@pytest.mark.parametrize("story", [silenced, inflated])
def test_no_round_costs_more_than_epsilon(story):
    run = story()
    assert 0.99 < max(run.dearest.values()) <= 1.0
    for core in run.cores.values():
        assert core.weight <= whole(TERMS, core.round)


@pytest.mark.parametrize(("story", "cost"), [(silenced, 1.1), (inflated, 10.0)])
def test_a_twin_without_the_bound_is_caught(story, cost):
    assert max(story(Unbounded).dearest.values()) > cost


def test_what_waits_aside_is_not_lost_and_the_estimates_agree():
    run = silenced()
    totals = run.totals()
    for held, coming, undone, put in zip(*totals.values(), strict=True):
        assert held + coming + undone == put
    mean = totals["released"][0] / totals["released"][1]
    assert all(abs(core.estimate[0] - mean) < 0.5 for core in run.cores.values())


def test_while_all_messages_come_next_to_nothing_waits_aside():
    run = Weighed()
    assert run.run(2000)
    for core in run.cores.values():
        assert 0 <= core.aside_weight <= whole(TERMS, 1e-10)
        assert abs(core.weight - whole(TERMS, ROUNDS)) <= whole(TERMS, 1e-10)


def test_a_restart_remembers_what_waits_aside():
    kind = type("Inflated", (Weighed,), {"liar": "0", "claim": 300.0})
    run = kind()
    while run.cores["1"].round < 20:
        run.step()
    aside = run.cores["1"].aside_weight
    assert aside > whole(TERMS, 200)
    run.crash("1")
    run.restart("1")
    core = run.cores["1"]
    assert core.aside_weight == pytest.approx(aside, rel=0.05)
    held = list(core.sums), core.weight
    core.recount()
    assert (core.sums, core.weight) == held


def behind(core=Core):
    """An agent in round 2 whose neighbours are in round 9: what it takes in, by their round."""
    todo = problem("learn", network.lazy_metropolis(network.ring(4)), NetworkDP(1.0), 20)
    terms = Manifest.of(todo)
    run = Rehearsal(terms, core=core, options=Options(deadline=0.2, resend=0.1))
    for label, own in releases(todo, terms).items():
        run.release(label, own)
    run.start()
    taken = []
    me = run.cores["0"]
    usual = me.absorb

    def noted(link, message):
        if not me.reason:
            taken.append((me.round, message.round))
        usual(link, message)

    me.absorb = noted
    while me.round < 2:
        run.step()
    run.network.cut([("1", "0"), ("3", "0")])
    while run.cores["2"].round < 12 and run.network.now < 60:
        run.step()
    run.network.heal()
    assert run.run(2000)
    return taken


def test_who_is_behind_takes_in_nothing_of_later_rounds():
    """The noise of `learn` is made for the own round: a later push costs more than epsilon."""
    taken = behind()
    assert len(taken) > 10
    assert all(theirs <= own for own, theirs in taken)


def test_a_twin_that_takes_later_rounds_is_caught():
    assert any(theirs > own for own, theirs in behind(Unbounded))
