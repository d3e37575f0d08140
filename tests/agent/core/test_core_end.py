"""What is final once an agent is done, who comes too late, and who may not come again."""

import pytest
from core_cases import problem, released, releases, small, whole

from murmura import network
from murmura.agent.core import Core, Options
from murmura.agent.core.base import Core as Base
from murmura.agent.core.rehearsal import Rehearsal
from murmura.agent.core.rounds import Rounds
from murmura.agent.events import Done, Leave, PeerDown, Report, Restarted, Send
from murmura.agent.manifest import Manifest
from murmura.agent.messages import Totals
from murmura.agent.transport.memory import Faults
from murmura.privacy import NetworkDP

KINDS = pytest.mark.parametrize("asynchronous", [False, True], ids=["rounds", "ticks"])


def everyone(run):
    for label in run.players:
        run.release(label, [released(run.manifest, 1, float(label))])


def network_dp():
    net = network.lazy_metropolis(network.ring(4))
    todo = problem("learn-network", net, NetworkDP(0.5), rounds=10)
    return todo, Manifest.of(todo)


class Overheard(Rehearsal):
    """Notes what agent 1 says in its second life."""

    def perform(self, player, action):
        if player.label == "1" and player.life == 2 and isinstance(action, Send | Report | Done):
            self.__dict__.setdefault("said", []).append(action)
        super().perform(player, action)


class Again(Rounds):
    """A twin that runs a second life with the noise of the first."""

    def _stay_away(self):
        self._resume(self.given)

    def _started(self, event):
        self.given = event.released
        super()._started(event)


def second_life(core):
    todo, terms = network_dp()
    run = Overheard(terms, core=core)
    for label, own in releases(todo, terms).items():
        run.release(label, own)
    run.start()
    while run.cores["1"].round < 6:
        run.step()
    run.start("1")
    run.run(300)
    return run


def test_where_neighbours_are_hidden_there_is_no_second_life():
    run = second_life(Core)
    report, done = run.said
    assert (report.kind, done.reason, done.estimate) == ("readings", "readings", ())
    assert "new ledger" in report.text
    assert run.cores["1"].settled
    assert {run.players[label].done.reason for label in "023"} == {"rounds"}


def test_a_second_life_would_be_heard():
    said = [a.message for a in second_life(Again).said if isinstance(a, Send)]
    assert any(isinstance(message, Totals) and any(message.sums) for message in said)


@KINDS
def test_a_result_is_final_and_a_late_life_has_none(asynchronous):
    options = Options(tick=0.01)
    run = Rehearsal(small(rounds=150, asynchronous=asynchronous), options=options)
    everyone(run)
    run.start()
    assert run.run(100)
    run.run(1, until_done=False)
    before = run.estimates()
    held = run.cores["0"].weight
    run.start("1")
    run.run(400, until_done=False)
    assert run.cores["0"].weight != held  # the flow was undone
    assert {label: run.cores[label].estimate for label in "023"} == {
        label: before[label] for label in "023"
    }
    assert run.players["1"].done[1:] == ((), "late")
    assert run.cores["1"].settled


def test_a_twin_that_does_not_know_who_is_done_gives_its_own_release(monkeypatch):
    monkeypatch.setattr(Base, "late", False)
    run = Rehearsal(small(rounds=60))
    everyone(run)
    run.start()
    assert run.run(100)
    run.start("1")
    run.run(400, until_done=False)
    assert run.players["1"].done[1:] == ((1.0,), "rounds")


def test_a_result_survives_a_restart():
    run = Rehearsal(small(rounds=60))
    everyone(run)
    run.start()
    assert run.run(100)
    run.run(1, until_done=False)
    core = run.cores["1"]
    again = Core(run.manifest, "1")
    actions = again.handle(Restarted(1, core.to_bytes(), (), run.players["1"].secret))
    assert [a for a in actions if isinstance(a, Done)] == [run.players["1"].done]
    assert again.estimate == core.estimate


@KINDS
@pytest.mark.parametrize("announced", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_leaving_ends_in_time_though_a_neighbour_is_down(asynchronous, announced, restarts):
    terms = small(net=network.lazy_metropolis(network.complete(4)), asynchronous=asynchronous)
    run = Rehearsal(terms, options=Options(linger=10.0), faults=Faults(delay=(0.05, 0.06)))
    everyone(run)
    run.start()
    while run.network.now < 2 and run.cores["2"].round < 10:
        run.step()
    run.crash("0", announced=announced)
    run.feed("2", Leave())
    if restarts:
        run.crash("2", announced=False)
        run.restart("2")
    start = run.network.now
    while run.players["2"].done is None and run.network.now < start + 60:
        run.step()
    assert run.players["2"].done.reason == "left"
    assert run.network.now <= start + 10.0
    left = [r.text for who, r in run.reports if (who, r.kind) == ("2", "left")]
    assert ["what 0 did not hear of" in text for text in left] == [True]


def test_who_leaves_alone_says_what_is_lost():
    run = Rehearsal(small(), options=Options(linger=10.0), faults=Faults(delay=(0.05, 0.06)))
    everyone(run)
    run.start()
    while run.cores["2"].round < 10:
        run.step()
    for label in "013":
        run.crash(label, announced=False)
    run.run(1, until_done=False)
    for label in "13":
        run.feed("2", PeerDown(label))
    held = run.cores["2"].weight
    run.feed("2", Leave())
    run.run(11, until_done=False)
    assert run.players["2"].done.reason == "left"
    (text,) = [r.text for who, r in run.reports if (who, r.kind) == ("2", "left")]
    assert f"{held / whole(run.manifest, 1):.6g} of weight" in text
