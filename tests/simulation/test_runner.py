"""The runner: what is computed once, what a trace says of noise, where statistics enter."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import veilsum as vs
from veilsum import algorithms, networks, simulation
from veilsum.algorithms.table import response
from veilsum.families import Normal
from veilsum.privacy import NetworkDP, NoPrivacy, SignalDP
from veilsum.simulation import Problem, Record, RecordedSignals, SyntheticSignals, problem, runner
from veilsum.simulation.backend import LocalBackend
from veilsum.simulation.inputs import BY_COLUMN, RoundInputs

pytestmark = pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")

simulate: Any = simulation.simulate  # whose arrays may be None
FAMILY = Normal(sigma=1.0)
RING = networks.metropolis("ring:9")


def made(algorithm: str = "average", **changes: Any) -> Problem:
    base: Any = {
        "network": RING,
        "algorithm": algorithms.get(algorithm, changes.get("network", RING)),
        "family": FAMILY,
        "source": SyntheticSignals(FAMILY, {"mu": 2.0}, 9, seed=1),
        "privacy": SignalDP(1.0),
        "rounds": 12,
        "seed": 4,
    }
    return Problem(**{**base, **changes})


def counted(monkeypatch: pytest.MonkeyPatch, name: str) -> list[int]:
    calls: list[int] = []
    usual: Callable[..., Any] = getattr(problem, name)

    def wrapped(*arguments: Any) -> Any:
        calls.append(1)
        return usual(*arguments)

    monkeypatch.setattr(problem, name, wrapped)
    return calls


@pytest.mark.parametrize("signals", [{"mu": 2.0}, np.arange(9.0)], ids=["drawn", "measured"])
def test_a_run_is_calibrated_and_its_guarantee_derived_once(
    signals: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured signals are run epsilon by epsilon, and still calibrated once."""
    calibrated, derived = counted(monkeypatch, "plan"), counted(monkeypatch, "guarantee_of")
    checked: list[int] = []
    usual = Problem.__post_init__

    def check(self: Problem) -> None:
        checked.append(1)
        usual(self)

    monkeypatch.setattr(Problem, "__post_init__", check)
    vs.sweep(
        signals,
        RING,
        FAMILY,
        SignalDP(1.0, radius=1.0),
        rounds=5,
        epsilons=[0.5, 1.0, 2.0],
        replicas=2,
    )
    assert (len(checked), len(calibrated), len(derived)) == (1, 1, 1)


def test_another_request_brings_its_own_epsilon() -> None:
    """What is run follows from the fields: nothing of an earlier request is left behind."""
    todo = made()
    assert todo.run_epsilons == (1.0,)
    assert todo.plan is todo.plan
    other = replace(todo, privacy=SignalDP(3.0))
    assert other.run_epsilons == (3.0,)
    assert other.guarantee.epsilon == 3.0
    assert replace(other, privacy=NoPrivacy()).run_epsilons == ()
    assert replace(other, privacy=NoPrivacy()).plan.mechanism(3.0, 0).name == "none"
    assert replace(other, epsilons=(0.5, 2.0)).run_epsilons == (0.5, 2.0)


def test_the_guarantee_is_of_the_largest_epsilon_that_is_run() -> None:
    """It was that of the request, which need not be run at all."""
    todo = made(privacy=SignalDP(0.1, radius=1.0), epsilons=(0.5, 4.0, 2.0))
    assert todo.guarantee.epsilon == 4.0
    assert vs.api.solve(todo).guarantee_at(0.5).epsilon == 0.5
    recorded = made(
        source=RecordedSignals(vs.signals.as_signals(np.arange(9.0))),
        privacy=SignalDP(1.0, radius=1.0),
        epsilons=(0.5, 4.0),
    )
    assert recorded.guarantee.epsilon == 4.0
    assert [part.guarantee.epsilon for part in recorded.independent_runs] == [0.5, 4.0]


def mean_of_noise(trace: Any) -> Any:
    """(epsilon, replica): what noise adds to the mean estimate."""
    return (trace.private[-1] - trace.noiseless[-1][:, None]).mean(axis=0)[..., 0]


CASES = {
    "links": ("first-order-edges", RING),
    "failing links": ("naive-network", networks.link_failures(networks.load("ring:9"), 0.3, 2)),
    "agents": ("learn-network", RING),
}


@pytest.mark.filterwarnings("ignore::veilsum.errors.DivergenceWarning")
@pytest.mark.parametrize("name", CASES)
def test_the_variance_of_the_mean_is_the_one_that_was_seen(name: str) -> None:
    """20,000 replicas: the sd of a variance is sqrt((kurtosis - 1)/N) <= sqrt(5/N) = 0.016 of it.

    At 6.5 of them the false alarm rate is below 1e-10 for each of the two comparisons. A trace that
    leaves the links out fails: for `first-order-edges` they are all the noise there is.
    """
    algorithm, net = CASES[name]
    todo = made(
        algorithm, network=net, privacy=NetworkDP(1.0), replicas=20_000, epsilons=(1.0, 2.0)
    )
    trace = simulate(todo, Record())
    seen = mean_of_noise(trace).var(axis=1)
    assert (trace.noise_variance[:, 0, 0] > 0).all()
    assert seen == pytest.approx(trace.noise_variance[:, 0, 0], rel=0.1)


def test_noise_on_links_is_counted_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """The formula with dense matrices, and a weakened twin that leaves the links out."""
    net = networks.row_stochastic(networks.load("florentine-families"))
    mixing = networks.metropolis(networks.load("florentine-families"))
    source = SyntheticSignals(FAMILY, {"mu": 2.0}, mixing.size, seed=1)
    todo = made("first-order-edges", network=mixing, source=source, privacy=NetworkDP(0.5))
    gains = response(todo.algorithm, todo.rounds).link_noise
    dense = mixing.weights.toarray()
    mass = np.full(mixing.size, 1 / mixing.size)
    expected = (gains**2).sum() * ((mass[:, None] * dense) ** 2).sum()
    backend = LocalBackend(todo)
    assert expected > 0
    assert runner._link_gain(backend, gains) == pytest.approx(expected, rel=1e-12)
    usual = simulate(todo).noise_variance
    scale = 2 * todo.plan.per_edge(np.array([0.5]))[0] ** 2 if todo.plan else 0.0
    with_links = usual[0, 0, 0]
    monkeypatch.setattr(runner, "_link_gain", lambda *_: 0.0)
    without = simulate(todo).noise_variance[0, 0, 0]
    assert with_links - without == pytest.approx(scale * expected, rel=1e-9)
    uneven = LocalBackend(made("average", network=net, source=source))
    squares = uneven.squared_weights(1)
    assert squares == pytest.approx((net.weights.toarray() ** 2).sum(axis=1))


class Shifted(RoundInputs):
    """A mechanism that moves every statistic of a private run by its epsilon: input perturbation."""

    @property
    def statistics_by(self) -> int:
        return BY_COLUMN

    def fill(self, xi: Any, t: int, out: Any) -> None:
        del t
        layout, rows = self.layout, xi if self.order is None else xi[self.order]
        stream = np.arange(layout.private) % layout.streams
        out[:, layout.columns[: layout.noiseless]] = rows
        out[:, layout.columns[layout.noiseless :]] = rows[:, stream] + layout.epsilons


@pytest.mark.parametrize("algorithm", ["average", "learn"])
def test_statistics_enter_in_one_place(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Private columns can get a release of xi in place of xi; noiseless ones keep xi."""
    todo = made(algorithm, epsilons=(0.5, 2.0), replicas=3, rounds=40)
    usual = simulate(todo, Record(every=10))
    monkeypatch.setattr("veilsum.simulation.run.RoundInputs", Shifted)
    moved = simulate(todo, Record(every=10))
    assert np.array_equal(moved.noiseless, usual.noiseless)
    shift = (moved.private - usual.private)[..., 0]
    for k, epsilon in enumerate((0.5, 2.0)):
        assert shift[1:, :, k] == pytest.approx(np.full_like(shift[1:, :, k], epsilon))
