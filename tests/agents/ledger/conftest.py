"""A small network, its manifest, and ledgers that are closed after each test."""

from dataclasses import replace
from typing import Any

import pytest

from veilsum import algorithms, families, networks
from veilsum.agents.ledger import Ledger
from veilsum.agents.manifest import Manifest
from veilsum.privacy import Budget, PrivacyEvent, SignalDP
from veilsum.simulation import Problem, SyntheticSignals

COST = PrivacyEvent(0.25)


class Draw:
    """Counts how often it is asked; each answer differs from those before."""

    def __init__(self, first: Any = 2**200) -> None:
        self.next, self.calls = first, 0

    def __call__(self) -> Any:
        self.calls += 1
        return (self.next + self.calls, -self.next - 7 * self.calls)


def make_problem(
    algorithm: Any = "learn",
    privacy: Any = None,
    family: Any = None,
    rounds: Any = 50,
    graph: Any = "ring:6",
) -> Any:
    net = networks.weigh(networks.load(graph), "lazy-metropolis")
    family = family or families.Normal(1.0, bounds=(0.0, 1.0))
    source = SyntheticSignals(family, dict.fromkeys(family.parameters, 0.5), net.size, 1)
    made = algorithms.ALGORITHMS[algorithm].for_network(net)
    return Problem(net, made, family, source, privacy or SignalDP(0.25), rounds)


@pytest.fixture(scope="session")
def manifest() -> Any:
    return Manifest.of(make_problem(), "town")


@pytest.fixture(scope="session")
def next_epoch(manifest: Any) -> Any:
    return replace(manifest, epoch=2, diameter=manifest.diameter + 1)


@pytest.fixture
def open_ledger(tmp_path: Any, manifest: Any) -> Any:
    """Open `name` under tmp_path; what the test leaves open is closed."""
    opened = []

    def opener(name: Any = "a.ledger", **changes: Any) -> Any:
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
def draw() -> Any:
    return Draw()


@pytest.fixture
def cost() -> Any:
    return COST


@pytest.fixture
def problem_of() -> Any:
    return make_problem
