"""Agents stop at the same round, and only when they agree."""

import networkx
import pytest
from core_cases import FLORENTINE, released, small

from murmura import network
from murmura.agent.core import Core, Options
from murmura.agent.core.rehearsal import Rehearsal
from murmura.agent.core.rounds import Rounds
from murmura.agent.events import Send
from murmura.agent.messages import Extremes, Totals
from murmura.agent.transport.memory import Faults

TOLERANCE = 1e-3
MOMENTS = [3.5 + k / 400 for k in range(20)]  # just before the decision has reached all


def stopped(rounds=400, **options):
    run = Rehearsal(small(net=FLORENTINE, rounds=rounds, tolerance=TOLERANCE), **options)
    for k, label in enumerate(run.players):
        run.release(label, [released(run.manifest, 1, float(k))])
    run.start()
    run.run(2000)
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
    assert run.all_done
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
    together = run.all_done and len({p.done.round for p in run.players.values()}) == 1
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


def cut_off(moment, core=Core):
    """Six in a row, the halves of which lose each other for a while as they agree."""
    terms = small(
        net=network.lazy_metropolis(networkx.path_graph(6)), rounds=1500, tolerance=TOLERANCE
    )
    run = Rehearsal(terms, faults=Faults(delay=(0.02, 0.03)), core=core)
    for k, label in enumerate(run.players):
        run.release(label, [released(terms, 1, float(k))])
    run.start()
    labels = list(run.players)
    run.run(moment)
    run.network.partition(labels[:3], labels[3:])
    run.run(10)
    run.network.heal()
    run.run(300)
    return run


def stop_together(run):
    if not run.all_done or {p.done.reason for p in run.players.values()} != {"tolerance"}:
        return False
    rounds = [p.done.round for p in run.players.values()]
    return max(rounds) - min(rounds) <= 2 * run.manifest.diameter and spread(run) <= TOLERANCE


def test_who_misses_the_decision_stops_soon_after_the_others():
    assert all(stop_together(cut_off(moment)) for moment in MOMENTS)


def test_a_decision_that_is_passed_on_changed_would_be_seen():
    """A twin that passes the round on, with another phase: the next one does not take it."""

    class Changed(Rounds):
        def __init__(self, *args):
            super().__init__(*args)
            self.phases.adopt = self.adopt

        def adopt(self, _, link):
            phases, said = self.phases, link.extremes
            if said.stop and not phases.said.stop and phases._claims(said):
                phases.said, phases.over = phases.said._replace(stop=said.stop), True
            return phases.said.stop > 0

    assert not all(stop_together(cut_off(moment, Changed)) for moment in MOMENTS)


def test_a_stop_beyond_the_own_estimate_is_refused_and_named():
    class Liar(Rehearsal):
        def perform(self, player, action):
            message = getattr(action, "message", None)
            if player.label == "5" and isinstance(message, Totals):
                deep = self.manifest.diameter
                lie = Extremes(1, deep, (0,), (0,), 2 * deep + 2)
                action = Send(message._replace(extremes=lie))
            super().perform(player, action)

    terms = small(net=network.lazy_metropolis(networkx.path_graph(6)), rounds=60, tolerance=1e-6)
    run = Liar(terms, options=Options(deadline=1.0))
    for label in run.players:
        run.release(label, [released(terms, 1, float(label) + 1)])
    run.start()
    run.run(3000)
    assert {run.players[label].done.reason for label in "01234"} == {"rounds"}
    rejected = [(who, r.peer, r.text) for who, r in run.reports if r.kind == "rejected"]
    assert [(who, peer) for who, peer, _ in rejected] == [("4", "5")]
    assert "range does not hold" in rejected[0][2]
