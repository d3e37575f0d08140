"""The short way of ordinary messages changes nothing but the time they take."""

import pytest
from core_cases import FLORENTINE, problem, releases

from murmura.agent.core.link import Link
from murmura.agent.core.options import Limits
from murmura.agent.core.rehearsal import Rehearsal
from murmura.agent.core.rounds import Rounds
from murmura.agent.manifest import Manifest
from murmura.agent.messages import Extremes, Totals
from murmura.agent.transport.memory import Faults

HARD = Faults(drop=0.1, duplicate=0.2, reorder=0.2, delay=(0.001, 0.05))
LIMITS = Limits(weight=100, sums=1000, rounds=50)


class Long(Rounds):
    """A twin that takes no short way and looks at every link each time."""

    def _received(self, event):
        self._lacks = None
        super()._received(event)


def story(law, core):
    """Every action of every agent, in order."""
    told = []

    class Heard(Rehearsal):
        def perform(self, player, action):
            told.append((player.label, type(action).__name__, getattr(action, "message", action)))
            if told[-1][1] == "Persist":
                told[-1] = (player.label, "Persist", action.state.to_bytes())
            super().perform(player, action)

    todo = problem(law, FLORENTINE, rounds=25)
    manifest = Manifest.of(todo)
    rehearsal = Heard(manifest, seed=7, faults=HARD, core=core)
    for label, own in releases(todo, manifest).items():
        rehearsal.release(label, own)
    rehearsal.start()
    rehearsal.run(60)
    return told


@pytest.mark.parametrize("law", ["average", "learn"])
def test_the_short_way_leads_where_the_long_one_does(law, monkeypatch):
    short = story(law, Rounds)
    monkeypatch.setattr(Link, "expects", lambda *_: False)
    assert story(law, Long) == short


def test_a_short_way_for_everything_would_be_seen(monkeypatch):
    right = story("average", Rounds)
    monkeypatch.setattr(Link, "expects", lambda *_: True)
    assert story("average", Rounds) != right


def link(**known):
    made = Link("b", 1, 1)
    made.reset(1, 0, 1)
    made.open, made.newest, made.in_round, made.in_sums, made.in_weight = True, 4, 4, (20,), 10
    for name, value in known.items():
        setattr(made, name, value)
    return made


def said(**other):
    return Totals("b", "a", 1, 1, 5, 4, (30,), 15)._replace(**other)


def test_the_next_round_is_expected():
    assert link().expects(said(), LIMITS)
    assert link(in_round=3, buffer=[said(round=4, sums=(25,))]).expects(said(), LIMITS)


@pytest.mark.parametrize(
    "other",
    [
        {"round": 4}, {"round": 6}, {"heard": -1}, {"bye": True}, {"done": True},
        {"extremes": Extremes(1)},
        {"sums": (1021,)}, {"sums": (-981,)}, {"sums": (1, 2)}, {"sums": ()}, {"weight": 9},
        {"weight": 111},
    ],
    ids=str,
)  # fmt: skip
def test_anything_else_is_looked_at_closer(other):
    assert not link().expects(said(**other), LIMITS)


@pytest.mark.parametrize("state", ["open", "silent", "down"])
def test_so_is_a_link_that_is_not_in_order(state):
    assert not link(**{state: state != "open"}).expects(said(), LIMITS)


def test_so_is_a_round_after_the_last():
    assert not link(newest=50).expects(said(round=51), LIMITS)
    assert link(newest=50).expects(said(round=51), Limits(100, 1000, rounds=0))
