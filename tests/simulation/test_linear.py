"""A sweep by linearity has the numbers of one run for each epsilon, to rounding."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numba
import numpy as np
import pytest

from veilsum import algorithms, networks, simulation
from veilsum.families import LogNormal, Normal
from veilsum.paper import heterogeneous
from veilsum.privacy import NetworkDP, NoPrivacy, SignalDP
from veilsum.signals import as_signals
from veilsum.simulation import (
    Problem,
    Record,
    RecordedSignals,
    SyntheticSignals,
    linear,
    linear_kernel,
    run,
)
from veilsum.simulation.backend import LocalBackend
from veilsum.simulation.kernel import BLOCK
from veilsum.simulation.run import Run
from veilsum.simulation.workers import Workers, use_threads

pytestmark = pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")

simulate: Any = simulation.simulate  # whose arrays may be None
GRAPH = networks.join(networks.random_geometric(300, mean_degree=6, seed=3))
MIXING = networks.metropolis(GRAPH)
EPSILONS = (0.125, 0.5, 1.0, 4.0)
NORMAL, LOG = Normal(sigma=1.0), LogNormal(sigma=1.0)
PUBLISHED: dict[str, Any] = {"epsilon": 1.0, "delta": 0.01, "sensitivity": "smooth-as-published"}
CLOSE = 1e-12  # of the size of what is compared


def problem(algorithm: str = "learn-network", **changes: Any) -> Problem:
    network = changes.pop("network", MIXING)
    family = changes.pop("family", LOG)
    mu = changes.pop("mu", 7.0)
    base: dict[str, Any] = {
        "network": network, "algorithm": algorithms.get(algorithm, network), "family": family,
        "source": SyntheticSignals(family, {"mu": mu}, network.size, seed=1),
        "privacy": NetworkDP(**PUBLISHED), "rounds": 40, "seed": 4, "epsilons": EPSILONS,
        "replicas": 10,
    }  # fmt: skip
    return Problem(**{**base, **changes})


CASES: dict[str, Callable[[], Problem]] = {
    "average": lambda: problem("average", privacy=SignalDP(**PUBLISHED)),
    "average, switches": lambda: problem("average"),
    "learn": lambda: problem("learn", privacy=SignalDP(**PUBLISHED)),
    "learn-network, switches": problem,
    "learn-network, all switch": lambda: problem(mu=1.0),
    "momentum": lambda: problem("chebyshev"),
    "global": lambda: problem(family=NORMAL, privacy=NetworkDP(1.0)),
    "jacobi": lambda: problem("jacobi", family=NORMAL, privacy=NetworkDP(1.0)),
    "links": lambda: problem("first-order-edges", family=NORMAL, privacy=NetworkDP(1.0)),
    "messages": lambda: problem("graph-homomorphic", family=NORMAL, privacy=SignalDP(1.0)),
    "ratio": lambda: problem(
        "push-sum", network=networks.column_stochastic(GRAPH), family=NORMAL, privacy=SignalDP(1.0)
    ),
    "failures": lambda: problem(
        "learn-dynamic", network=networks.link_failures(GRAPH, 0.3), privacy=NetworkDP(**PUBLISHED)
    ),
    "fractions": lambda: problem(
        "learn",
        privacy=SignalDP(**PUBLISHED, budget_fractions=tuple(1.0 + k % 3 for k in range(300))),
    ),
    "few replicas": lambda: problem(replicas=2),
}


def both(todo: Problem, record: Record, monkeypatch: Any) -> tuple[Any, Any]:
    """The trace by linearity, and that of a run with columns for every epsilon."""
    swept = simulate(todo, record)
    with monkeypatch.context() as patch:
        patch.setattr(linear, "LEAST", len(todo.epsilons) + 1)
        return swept, simulate(todo, record)


def furthest(one: Any, other: Any) -> float:
    """The largest difference over all that a trace has, relative to the size of what is compared."""
    n = other.private.shape[1]
    size = max(np.abs(other.private).max(), np.abs(other.noiseless).max())
    sizes = {
        "private": size, "noiseless": size, "final": size, "mean": size, "disagreement": size**2,
        "total": size * np.sqrt(n), "privacy": size * np.sqrt(n),
        "decentralisation": size * np.sqrt(n), "noise_variance": other.noise_variance,
    }  # fmt: skip
    gaps = [
        np.abs((getattr(one, name) - getattr(other, name)) / by).max() for name, by in sizes.items()
    ]
    return float(max(gaps))


@pytest.mark.parametrize("name", CASES)
def test_a_sweep_has_the_numbers_of_one_run_for_each_epsilon(name: str, monkeypatch: Any) -> None:
    swept, apart = both(CASES[name](), Record(every=7), monkeypatch)
    assert furthest(swept, apart) < CLOSE
    assert swept.total == pytest.approx(apart.total, rel=CLOSE)


def captured(todo: Problem, monkeypatch: Any) -> linear.LinearRun:
    """The run that a simulation makes."""
    made: list[Any] = []
    usual = linear.run_of

    def kept(*arguments: Any) -> Any:
        made.append(usual(*arguments))
        return made[-1]

    with monkeypatch.context() as patch:
        patch.setattr(linear, "run_of", kept)
        simulate(todo)
    assert isinstance(made[0], linear.LinearRun)
    return made[0]


def test_some_epsilons_have_columns_of_their_own_from_different_rounds_on(monkeypatch: Any) -> None:
    """The cases above reach every branch: shared, own from the start, and own from later on."""
    since = captured(problem(), monkeypatch).since
    assert (since[0] == 1).any()
    assert ((since > 1) & (since < linear_kernel.NEVER)).any()
    assert (since[-1] == linear_kernel.NEVER).all()
    assert (np.diff(since, axis=0) >= 0).all()  # the smaller epsilon, the larger 1/eps^2 over 1/eps
    assert (captured(problem(mu=1.0), monkeypatch).since == 1).all()
    assert (captured(CASES["learn"](), monkeypatch).since == linear_kernel.NEVER).all()


def test_an_ignored_switch_is_noticed(monkeypatch: Any) -> None:
    """The weakened variant: every epsilon stays proportional, whatever a signal asks for."""
    _, apart = both(problem(), Record(every=7), monkeypatch)
    monkeypatch.setattr(linear.LinearRun, "_end_proportions", lambda *_: None)
    assert furthest(simulate(problem(), Record(every=7)), apart) > 1e-6


def test_a_switch_that_comes_late_is_noticed(monkeypatch: Any) -> None:
    """The weakened variant: the column begins one round after its noise is larger."""
    _, apart = both(problem(), Record(every=7), monkeypatch)
    usual = linear.LinearRun._end_proportions

    def late(self: Any, first: int) -> None:
        usual(self, first + 1)

    monkeypatch.setattr(linear.LinearRun, "_end_proportions", late)
    assert furthest(simulate(problem(), Record(every=7)), apart) > 1e-6


def test_a_wrong_ratio_is_noticed(monkeypatch: Any) -> None:
    """The weakened variant: noise as published goes with 1/eps instead of 1/eps^2."""
    todo = CASES["learn"]()
    _, apart = both(todo, Record(every=7), monkeypatch)
    monkeypatch.setattr(linear, "proportions", lambda *_: (1 / np.array(EPSILONS), False))
    assert furthest(simulate(todo, Record(every=7)), apart) > 1e-6


@pytest.mark.parametrize("name", ["learn-network, switches", "global", "ratio"])
def test_norms_have_their_cross_term(name: str) -> None:
    """||nu - m|| is not what ||mu - m|| and ||nu - mu|| give if e and p were orthogonal."""
    trace = simulate(CASES[name](), Record(every=1))
    total = np.linalg.norm(trace.private[..., 0] - trace.target[:, 0], axis=1)
    assert trace.total == pytest.approx(total, rel=CLOSE)
    without = np.hypot(trace.decentralisation[:, None], trace.privacy)
    assert np.abs(without / total - 1).max() > 1e-3


@numba.njit
def _sums(like: Any, found: Any, ratios: Any, out: Any, target: Any, squares: Any) -> None:
    zero = np.uint64(0)
    linear_kernel._fill_sums(
        like,
        found,
        ratios,
        out,
        np.empty(0),
        target,
        zero,
        np.uint64(len(out)),
        zero,
        zero,
        squares,
    )


@pytest.mark.parametrize("apart", [0.0, 1e-9, 1e-6, 1e-3, 0.3])
def test_norms_keep_their_digits_where_error_and_noise_cancel(apart: float) -> None:
    """p is -e, but for a part `apart` of it: the sum of the three terms alone would be noise."""
    rng, rows = np.random.default_rng(1), BLOCK
    e = rng.normal(size=(rows, 2))
    p = -e * (1 + apart * rng.uniform(-1, 1, e.shape))
    found = np.array([(e * e).sum(0), (e * p).sum(0), (p * p).sum(0), np.ones(2)])
    squares = np.empty((3, 6))
    ratios = np.array([1.0, 0.25])
    _sums((0.0, 0.0), found, ratios, np.hstack([e, p]), np.zeros((1, 2)), squares)
    exact = [((e + ratio * p).astype(np.longdouble) ** 2).sum(0) for ratio in ratios]
    assert np.sqrt(squares[0, 2:]) == pytest.approx(
        np.sqrt(np.ravel(exact).astype(float)), rel=CLOSE
    )
    if 0 < apart <= 1e-6:  # the weakened variant, without the guard
        plain = found[0] + 2 * found[1] + found[2]
        assert np.abs(np.sqrt(np.abs(plain) / exact[0].astype(float)) - 1).max() > 1e-6


@pytest.mark.parametrize("name", ["learn-network, switches", "momentum", "links", "failures"])
def test_threads_records_and_cuts_change_no_bit(name: str, monkeypatch: Any) -> None:
    todo = CASES[name]()
    with use_threads(1):
        one = simulate(todo)
    with use_threads(3):
        many = simulate(todo, Record(every=3))
    with monkeypatch.context() as patch:
        patch.setattr(linear, "LONG", 0)  # two lanes for the last two of ten replicas
        narrow = captured(todo, patch)
        assert narrow.layout.padded == 10
        narrower = simulate(todo)
    monkeypatch.setattr(run, "CACHED", 0)
    with use_threads(2):
        by_rows = simulate(todo)
    for other in (many, narrower, by_rows):
        assert np.array_equal(one.total, other.total)
        assert np.array_equal(one.privacy, other.privacy)
        assert np.array_equal(one.final, other.final)
        assert np.array_equal(one.noise_variance, other.noise_variance)


@pytest.mark.parametrize("replicas", [1, 3, 8])
def test_other_replicas_and_epsilons_change_no_bit(replicas: int) -> None:
    crowd = simulate(problem(replicas=17))
    few = simulate(problem(replicas=replicas, epsilons=EPSILONS[:3]))
    assert np.array_equal(few.total, crowd.total[:, :3, :replicas])
    assert np.array_equal(few.private, crowd.private[:, :, :3, :replicas])


@pytest.mark.parametrize("name", ["learn", "learn-network, all switch", "few replicas", "ratio"])
def test_nothing_is_read_of_memory_that_was_not_written(name: str, monkeypatch: Any) -> None:
    """Lanes that are discarded once had sums of whatever the memory contained, rarely too large."""
    usual, empty = simulate(CASES[name]()), np.empty

    def poisoned(shape: Any, dtype: Any = float, **options: Any) -> Any:
        made = empty(shape, dtype, **options)
        if made.dtype == float:
            made.fill(1.7e308)
        return made

    monkeypatch.setattr(np, "empty", poisoned)
    again = simulate(CASES[name]())
    assert np.array_equal(again.total, usual.total)
    assert np.array_equal(again.private, usual.private)


def kind(todo: Problem) -> type[Run]:
    return type(linear.run_of(LocalBackend(todo), Workers(1), None))


def test_scales_that_are_not_proportional_have_a_run_for_each_epsilon() -> None:
    bounded = LogNormal(sigma=1.0, bounds=(0.1, None))
    measured = RecordedSignals(as_signals(np.full((300, 2), 3.0)))
    smooth = NetworkDP(epsilon=1.0, delta=0.01, sensitivity="smooth", radius=1.0)
    assert kind(problem()) is linear.LinearRun
    assert kind(problem(epsilons=EPSILONS[:2])) is Run
    assert kind(problem(family=bounded, privacy=smooth)) is Run
    assert (
        kind(
            problem(
                "learn", family=NORMAL, privacy=SignalDP(1.0, mechanism="staircase", radius=1.0)
            )
        )
        is Run
    )
    assert kind(problem("average", family=NORMAL, privacy=NoPrivacy(), epsilons=())) is Run
    todo = problem("average", family=NORMAL, privacy=SignalDP(1.0, radius=1.0), source=measured)
    assert [kind(part) for part in todo.independent_runs] == [Run] * len(EPSILONS)
    plain = problem().plan
    same = {one.name: getattr(plain, one.name) for one in fields(plain)}
    allocated = heterogeneous.AllocatedPlan(
        **same, equal=plain, weights=plain.network,
        allocate=heterogeneous.allocator(heterogeneous.CENTRAL, None),
    )  # fmt: skip
    assert linear.proportions(problem(), allocated) is None
    assert linear.proportions(problem(), plain) is not None
