"""A small network, its manifest, and ledgers that are closed after each test."""

from dataclasses import replace

import pytest

from murmura import families, laws, network
from murmura.agent.ledger import Ledger
from murmura.agent.manifest import Manifest
from murmura.engine import Problem
from murmura.engine.source import Drawn
from murmura.privacy import Budget, Loss, SignalDP

PRICE = Loss(0.25)


class Draw:
    """Counts how often it is asked; each answer differs from those before."""

    def __init__(self, first=2**200):
        self.next, self.calls = first, 0

    def __call__(self):
        self.calls += 1
        return (self.next + self.calls, -self.next - 7 * self.calls)


def make_problem(law="learn", want=None, family=None, rounds=50, graph="ring:6"):
    net = network.weigh(network.load(graph), "lazy-metropolis")
    family = family or families.Normal(1.0, bounds=(0.0, 1.0))
    source = Drawn(family, dict.fromkeys(family.parameters, 0.5), net.size, 1)
    made = laws.LAWS[law].for_network(net)
    return Problem(net, made, family, source, want or SignalDP(0.25), rounds)


@pytest.fixture(scope="session")
def manifest():
    return Manifest.of(make_problem(), "town")


@pytest.fixture(scope="session")
def next_epoch(manifest):
    return replace(manifest, epoch=2, diameter=manifest.diameter + 1)


@pytest.fixture
def open_ledger(tmp_path, manifest):
    """Open `name` under tmp_path; what the test leaves open is closed."""
    opened = []

    def opener(name="a.ledger", **changes):
        asked = {"manifest": manifest, "agent": "0", "budget": Budget(1.0), **changes}
        kind = asked.pop("kind", Ledger)
        first = (asked.pop("manifest"), asked.pop("agent"), asked.pop("budget"))
        made = kind.open(tmp_path / name, *first, **asked)
        opened.append(made)
        return made

    yield opener
    for ledger in opened:
        ledger.close()


@pytest.fixture
def draw():
    return Draw()


@pytest.fixture
def price():
    return PRICE


@pytest.fixture
def problem_of():
    return make_problem
