"""Agents stop at the same round, and only when they agree."""

import pytest
from core_cases import FLORENTINE, released, small

from murmura.agent.core.rehearsal import Rehearsal
from murmura.agent.core.rounds import Rounds
from murmura.agent.transport.memory import Faults

TOLERANCE = 1e-3


def stopped(rounds=400, **options):
    run = Rehearsal(small(net=FLORENTINE, rounds=rounds, tolerance=TOLERANCE), **options)
    for k, label in enumerate(run.players):
        run.release(label, [released(run.manifest, 1, float(k))])
    run.start()
    assert run.run(2000)
    return run


def spread(run):
    held = [p.done.estimate[0] for p in run.players.values()]
    return max(held) - min(held)


@pytest.mark.parametrize(
    "faults",
    [
        Faults(),
        Faults(drop=0.3),
        Faults(drop=0.3, duplicate=0.2, reorder=0.3, delay=(0.001, 0.08)),
    ],
    ids=["no loss", "loss", "loss and reordering"],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_all_stop_at_the_same_round_and_agree(faults, seed):
    run = stopped(faults=faults, seed=seed)
    done = [p.done for p in run.players.values()]
    assert {d.reason for d in done} == {"tolerance"}
    assert len({d.round for d in done}) == 1
    assert done[0].round % (run.manifest.diameter + 1) == 0
    assert spread(run) <= TOLERANCE


def test_all_decide_on_the_same_extremes():
    run = stopped()
    said = {core.phases.said for core in run.cores.values()}
    assert len(said) == 1


def test_one_step_too_few_would_be_seen():
    """A twin that takes its neighbourhood for everyone stops too early or not together."""

    class Short(Rounds):
        def __init__(self, *args):
            super().__init__(*args)
            self.phases.depth = 1

    run = stopped(core=Short)
    together = len({p.done.round for p in run.players.values()}) == 1
    assert not (together and spread(run) <= TOLERANCE)


def test_who_restarts_within_a_phase_stops_with_the_others():
    run = Rehearsal(small(net=FLORENTINE, rounds=400, tolerance=TOLERANCE))
    for k, label in enumerate(run.players):
        run.release(label, [released(run.manifest, 1, float(k))])
    run.start()
    victim = next(iter(run.players))
    for goal in (10, 15, 20, 25):
        while run.cores[victim].round < goal:
            run.step()
        run.crash(victim)
        run.restart(victim)
    assert run.run(1000)
    assert len({p.done.round for p in run.players.values()}) == 1
    assert spread(run) <= TOLERANCE


def test_nobody_stops_while_somebody_cannot_be_heard():
    run = Rehearsal(small(net=FLORENTINE, rounds=60, tolerance=100.0))
    labels = list(run.players)
    for k, label in enumerate(labels):
        run.release(label, [released(run.manifest, 1, float(k))])
    run.start(*labels[1:])
    run.run(500, until_done=False)
    assert {run.players[k].done.reason for k in labels[1:]} == {"rounds"}
