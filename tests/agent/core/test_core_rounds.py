"""Deadlines, readings that are late or never come, and what happens after the end."""

import pytest
from core_cases import problem, released, small, whole

from murmura import network
from murmura.agent.core import Core, Options
from murmura.agent.core.rehearsal import Rehearsal
from murmura.agent.events import Leave, NoMoreReadings, Reading
from murmura.agent.manifest import Manifest
from murmura.agent.transport.memory import Faults
from murmura.privacy import NetworkDP

LOSSY = Faults(drop=0.3, duplicate=0.2, reorder=0.2, delay=(0.001, 0.05))


def everyone(run, readings=1):
    for label in run.players:
        run.release(label, [released(run.manifest, k + 1, float(label)) for k in range(readings)])


def balanced(run):
    totals = run.totals()
    return all(h + c + u == p for h, c, u, p in zip(*totals.values(), strict=True))


def test_a_dead_neighbour_is_not_waited_for_for_ever():
    run = Rehearsal(small(rounds=40))
    everyone(run)
    run.start("0", "1", "3")
    run.run(100, until_done=False)
    assert {p.done.round for k, p in run.players.items() if k != "2"} == {40}
    assert "goes on without 2" in " ".join(r.text for _, r in run.reports)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["rounds", "ticks"])
@pytest.mark.parametrize("announced", [False, True])
def test_who_hears_nobody_waits_for_ever_and_then_goes_on(asynchronous, announced):
    options = Options(patience=4)
    run = Rehearsal(small(rounds=400, asynchronous=asynchronous), options=options)
    everyone(run)
    run.start()
    while run.cores["0"].round < 5:
        run.step()
    for label in "123":
        run.crash(label, announced=announced)
    run.run(600, until_done=False)
    assert run.cores["0"].round <= 5 + 1 + options.patience
    alone = [r for who, r in run.reports if (who, r.kind) == ("0", "alone")]
    assert 0 < len(alone) <= 300  # one for each deadline
    for label in "123":
        run.restart(label)
    assert run.run(300)
    assert all(abs(p.done.estimate[0] - 1.5) < 1e-6 for p in run.players.values())


@pytest.mark.parametrize("asynchronous", [False, True], ids=["rounds", "ticks"])
def test_who_starts_first_has_not_run_to_the_end_when_the_others_come(asynchronous):
    run = Rehearsal(small(rounds=300, asynchronous=asynchronous))
    everyone(run)
    run.start("0")
    run.run(3600, until_done=False)
    assert (run.cores["0"].round, run.players["0"].done) == (0, None)
    run.start("2")  # no neighbour of 0
    run.run(3600, until_done=False)
    run.start("1", "3")
    assert run.run(600)
    assert all(abs(p.done.estimate[0] - 1.5) < 1e-6 for p in run.players.values())


def test_who_was_left_by_all_goes_on_to_the_end():
    run = Rehearsal(small(rounds=60))
    everyone(run)
    run.start()
    while run.cores["0"].round < 5:
        run.step()
    for label in "123":
        run.feed(label, Leave())
    assert run.run(60)
    assert run.players["0"].done[::2] == (60, "rounds")
    assert abs(run.players["0"].done.estimate[0] - 1.5) < 0.1


@pytest.mark.parametrize("law", ["average", "learn"])
def test_loss_and_a_partition_cost_time_but_no_mass(law):
    run = Rehearsal(small(law, rounds=600), faults=LOSSY, seed=4)
    everyone(run, 1 if law == "average" else 60)
    run.start()
    for label in run.players:
        run.feed(label, NoMoreReadings())
    run.run(4, until_done=False)
    run.network.partition({"0", "1"}, {"2", "3"})
    run.run(10, until_done=False)
    assert balanced(run)
    run.network.heal()
    run.network.faults = Faults(delay=(0.01, 0.02))
    assert run.run(1000)
    run.run(60, until_done=False)
    assert balanced(run)
    assert run.totals()["coming"] == (0, 0)
    for (estimate,) in run.estimates().values():
        assert abs(estimate - 1.5) <= 1e-9


def test_one_sided_delivery_pushes_little_into_the_void():
    run = Rehearsal(small(rounds=0), options=Options(patience=4, deadline=0.2))
    everyone(run)
    run.start()
    run.network.cut([("0", "1")])
    while run.network.now < 30:
        run.step()
        if run.cores["0"].round > 300:
            break
    assert balanced(run)
    assert run.cores["0"].by_peer["1"].out_weight < whole(run.manifest, 3)
    run.network.heal()
    goal = run.cores["0"].round + 200
    while min(core.round for core in run.cores.values()) < goal:
        run.step()
    for (estimate,) in run.estimates().values():
        assert abs(estimate - 1.5) <= 1e-9


def test_a_reading_that_is_late_enters_in_the_round_then_current():
    run = Rehearsal(small("learn", rounds=20))
    for label in "123":
        run.release(label, [released(run.manifest, k, 1.0) for k in range(1, 21)])
    run.release("0", [released(run.manifest, k, 1.0) for k in range(1, 6)])
    run.start()
    run.run(5, until_done=False)
    core = run.cores["0"]
    assert core.round > 6
    assert core.entered == 5
    assert core.put_weight == whole(run.manifest, 5)
    run.release("0", [released(run.manifest, 6, 1.0)])
    run.run(5, until_done=False)
    assert core.entered == 6
    run.feed("0", NoMoreReadings())
    assert run.run(100)
    assert all(abs(e - 1) < 1e-12 for (e,) in run.estimates().values())


def network_dp(rounds=20):
    net = network.lazy_metropolis(network.ring(4))
    return Manifest.of(problem("learn-network", net, NetworkDP(1.0), rounds))


def test_where_neighbours_are_hidden_no_round_ends_without_noise():
    manifest = network_dp()
    run = Rehearsal(manifest)
    everyone(run, 20)
    run.players["0"].released = run.players["0"].released[:5]
    run.start()
    run.run(200, until_done=False)
    core = run.cores["0"]
    assert (core.round, core.entered, core.reason) == (6, 5, "")
    run.feed("0", NoMoreReadings())
    assert run.players["0"].done.reason == "readings"
    assert run.run(200)
    assert {run.players[k].done.round for k in "123"} == {20}


def test_the_first_release_is_waited_for_where_neighbours_are_hidden():
    net = network.lazy_metropolis(network.ring(4))
    run = Rehearsal(Manifest.of(problem("average", net, NetworkDP(1.0), 10)))
    for label in "123":
        run.release(label, [released(run.manifest, 1, 1.0)])
    run.start()
    run.run(50, until_done=False)
    assert run.cores["0"].round == 0
    run.release("0", [released(run.manifest, 1, 1.0)])
    assert run.run(50)


def test_a_repeated_reading_enters_once():
    core = Core(small(asynchronous=True), "0")
    core.life = 1
    for _ in range(3):
        core.handle(Reading(released(core.manifest, 1, 2.0)))
    core.handle(Reading(released(core.manifest, 3, 2.0)))
    assert core.skipped == {2}
    core.handle(Reading(released(core.manifest, 2, 2.0)))
    assert (core.put_weight, core.skipped) == (whole(core.manifest, 3), set())


def test_after_the_end_the_last_word_is_repeated_until_heard():
    run = Rehearsal(small(rounds=10), faults=Faults(drop=0.6), seed=2)
    everyone(run)
    run.start()
    assert run.run(400)
    run.run(60, until_done=False)
    assert all(core.settled for core in run.cores.values())
    assert run.totals()["coming"] == (0, 0)
    assert balanced(run)
    assert {core.round for core in run.cores.values()} == {10}


def test_leaving_hands_over_all_that_is_held():
    run = Rehearsal(small(rounds=100), faults=LOSSY, seed=8)
    everyone(run)
    run.start()
    while run.cores["2"].round < 5:
        run.step()
    run.feed("2", Leave())
    assert run.run(500)
    assert run.players["2"].done.reason == "left"
    assert (run.cores["2"].weight, run.cores["2"].sums) == (0, [0])
    run.network.heal()
    run.run(60, until_done=False)
    assert balanced(run)
    held = [run.cores[k] for k in "013"]
    assert sum(core.weight for core in held) == whole(run.manifest, 4)
    assert all(abs(core.estimate[0] - 1.5) < 1e-6 for core in held)


def test_membership_changes_by_a_new_epoch():
    """Who joins an offline estimate joins the next epoch, with the releases there are."""
    first = Rehearsal(small(rounds=60))
    everyone(first)
    first.start()
    assert first.run(10)
    second = Rehearsal(small(net=network.lazy_metropolis(network.ring(5)), rounds=120, epoch=2))
    for label in first.players:
        second.release(label, first.players[label].released)
    second.release("4", [released(second.manifest, 1, 9.0)])
    for label, player in first.players.items():
        second.players[label].life = player.life
    second.start()
    assert second.run(10)
    assert all(abs(e - 3.0) < 1e-6 for (e,) in second.estimates().values())
    assert first.manifest.digest != second.manifest.digest
