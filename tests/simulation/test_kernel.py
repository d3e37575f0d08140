"""The compiled round: parts of a network, widths of lanes, pointers of 64 bits, order of agents."""

from typing import Any

import numpy as np
import pytest

from veilsum import algorithms, networks, simulation
from veilsum.errors import VeilsumError
from veilsum.families import LogNormal, Normal
from veilsum.privacy import NetworkDP
from veilsum.simulation import (
    Problem,
    Record,
    SyntheticSignals,
    kernel,
    layout,
    noise,
    run,
)
from veilsum.simulation.layout import ColumnLayout, aligned
from veilsum.simulation.workers import VARIABLE, Workers, threads, use_threads

pytestmark = pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")

simulate: Any = simulation.simulate  # whose arrays may be None
MIXING = networks.metropolis(networks.random_geometric(300, 0.12, seed=3, connect=True))
ROUND = (0.1, 0.5, 0.0, 0.2, 0.3, 0.0)  # own, mixing, momentum, innovation, noise, edge
GROUPS, LANES = 3, 2


def call(matrix: Any, nu: Any, xi: Any, agents: Any, first: Any, last: Any) -> Any:
    """Rows first..last of one round for two streams and three groups, and their sums."""
    rows = len(matrix.indptr) - 1
    out = aligned(rows, nu.shape[1])
    squares = np.empty((1, -(-(last - first) // kernel.BLOCK), 3, nu.shape[1]))
    per = np.array([[0.0, 1.0, 2.0]])
    kernel.advance(
        (0.0,) * LANES, matrix, kernel.KernelState(nu, out, nu),
        kernel.Inputs(
            np.array([ROUND]), xi[None], np.full((1, LANES), 0.5), np.zeros((1, 0, 0)),
            np.zeros((1, 0)), agents, noise.key_of(7),
        ),
        kernel.Scales(
            np.full(rows, 0.2), np.full(rows, 1.0), np.ones((1, rows, 1)), per, per, per[0]
        ),
        kernel.RowRange(
            first, last, 0, squares.shape[1], 0, GROUPS, 5, kernel.SHARED,
            kernel.BY_COLUMN if xi.shape[1] > LANES else kernel.BY_STREAM, momentum=False
        ),
        squares,
    )  # fmt: skip
    return out, squares[0].sum(axis=0)


@pytest.fixture
def whole() -> Any:
    """A network's matrix, estimates, statistics and agents."""
    rng = np.random.default_rng(1)
    nu = rng.normal(size=(MIXING.size, GROUPS * LANES))
    return MIXING.weights, nu, rng.normal(size=(MIXING.size, LANES))


def plainly(weights: Any, nu: Any, xi: Any, agents: Any) -> Any:
    """The same round with numpy."""
    own, mixing, _, innovation, scale, _ = ROUND
    streams, groups = np.tile(np.arange(LANES), GROUPS), np.repeat(np.arange(GROUPS), LANES)
    drawn = noise.laplace(7, 5, agents[:, None], streams[None, :])
    b = np.maximum(0.2 * groups, 1.0 * groups)
    columns = xi[:, streams] if xi.shape[1] == LANES else xi
    return own * nu[: len(xi)] + mixing * (weights @ nu) + innovation * columns + scale * b * drawn


def test_a_round_is_what_it_says(whole: Any) -> None:
    weights, nu, xi = whole
    agents = np.arange(MIXING.size, dtype=np.uint32)
    out, sums = call(kernel.matrix_of(weights), nu, xi, agents, 0, MIXING.size)
    privacy = plainly(weights, nu, xi, agents)
    noiseless = np.tile(privacy[:, :LANES], GROUPS)
    groups = np.repeat(np.arange(GROUPS), LANES)
    assert out == pytest.approx(privacy, rel=1e-13, abs=1e-14)
    assert sums[0] == pytest.approx(((privacy - 0.5) ** 2).sum(axis=0), rel=1e-12)
    assert sums[1] == pytest.approx(((privacy - noiseless) ** 2).sum(axis=0), rel=1e-12, abs=1e-20)
    assert sums[2] == pytest.approx(MIXING.size * groups**2, rel=1e-12)


def test_private_columns_may_have_statistics_of_their_own(whole: Any) -> None:
    """One statistic per column, repeated over the groups, is one per stream; others are used too."""
    weights, nu, xi = whole
    agents = np.arange(MIXING.size, dtype=np.uint32)
    matrix = kernel.matrix_of(weights)
    out, sums = call(matrix, nu, xi, agents, 0, MIXING.size)
    repeated = call(matrix, nu, np.tile(xi, GROUPS), agents, 0, MIXING.size)
    assert np.array_equal(out, repeated[0])
    assert np.array_equal(sums, repeated[1])
    perturbed = np.tile(xi, GROUPS)
    perturbed[:, LANES:] += np.arange(1.0, 5.0)
    got, _ = call(matrix, nu, perturbed, agents, 0, MIXING.size)
    assert got == pytest.approx(plainly(weights, nu, perturbed, agents), rel=1e-13, abs=1e-14)
    assert np.array_equal(got[:, :LANES], out[:, :LANES])
    assert not np.any(got[:, LANES:] == out[:, LANES:])


def test_a_part_of_the_network_gives_the_same_rows_bit_for_bit(whole: Any) -> None:
    """Rows of another order, neighbours' rows after the agent's, two calls: as another process."""
    weights, nu, xi = whole
    all_agents = np.arange(MIXING.size, dtype=np.uint32)
    privacy, _ = call(kernel.matrix_of(weights), nu, xi, all_agents, 0, MIXING.size)
    mine = np.arange(100, 260)
    halo = np.setdiff1d(np.unique(weights[mine].indices), mine)
    held = np.concatenate([mine, halo])
    place = np.full(MIXING.size, -1)
    place[held] = np.arange(held.size)
    part = weights[mine]
    matrix = kernel.Matrix(
        part.indptr.astype(np.uint32), place[part.indices].astype(np.uint32), part.data
    )
    agents = held.astype(np.uint32)
    for first, last in ((0, 97), (97, 160)):
        out, sums = call(matrix, nu[held].copy(), xi[mine].copy(), agents, first, last)
        assert np.array_equal(out[first:last], privacy[mine[first:last]])
        assert not out[:first].any()
        assert not out[last:].any()
        assert sums[0] == pytest.approx(((privacy[mine[first:last]] - 0.5) ** 2).sum(axis=0))


@pytest.mark.thorough
def test_row_pointers_of_64_bits_change_nothing(whole: Any) -> None:
    weights, nu, xi = whole
    agents = np.arange(MIXING.size, dtype=np.uint32)
    wide = weights.copy()
    wide.indptr = wide.indptr.astype(np.int64)
    narrow_view, wide_view = kernel.matrix_of(weights), kernel.matrix_of(wide)
    assert narrow_view.indptr.dtype == np.uint32
    assert wide_view.indptr.dtype == np.uint64
    assert wide_view.indices.dtype == np.uint32
    one = call(narrow_view, nu, xi, agents, 0, MIXING.size)
    two = call(wide_view, nu, xi, agents, 0, MIXING.size)
    assert np.array_equal(one[0], two[0])
    assert np.array_equal(one[1], two[1])


def problem(algorithm: Any = "learn", family: Any = None, **changes: Any) -> Any:
    family = family or Normal(sigma=1.0)
    base = {
        "network": MIXING, "algorithm": algorithms.get(algorithm, changes.get("network", MIXING)),
        "family": family,
        "source": SyntheticSignals(family, {"mu": 2.0}, MIXING.size, seed=1), "privacy": NetworkDP(1.0),
        "rounds": 12, "seed": 4, "epsilons": (0.5, 2.0), "replicas": 10,
    }  # fmt: skip
    return Problem(**{**base, **changes})


PUBLISHED = NetworkDP(epsilon=1.0, delta=0.01, sensitivity="smooth-as-published")
SMOOTH = NetworkDP(epsilon=1.0, delta=0.01, sensitivity="smooth")


def compared(todo: Any, monkeypatch: Any, **constants: Any) -> Any:
    """The same run as it is, and with constants of the engine changed."""
    usual = simulate(todo, Record(every=5))
    for name, (module, value) in constants.items():
        monkeypatch.setattr(module, name, value)
    return usual, simulate(todo, Record(every=5))


@pytest.mark.parametrize(
    ("algorithm", "family", "privacy"),
    [
        ("average", None, NetworkDP(1.0)),
        ("jacobi", None, NetworkDP(1.0)),
        ("first-order-edges", None, NetworkDP(1.0)),
        ("learn", LogNormal(sigma=1.0), PUBLISHED),
        ("learn", LogNormal(sigma=1.0, bounds=(0.1, None)), SMOOTH),
    ],
    ids=["offline", "recalls", "links", "scales by stream", "scales by column"],
)
def test_rows_or_streams_are_cut_and_the_numbers_are_the_same(
    algorithm: Any, family: Any, privacy: Any, monkeypatch: Any
) -> None:
    todo = problem(algorithm, family, privacy=privacy)
    usual, by_rows = compared(todo, monkeypatch, CACHED=(run, 0))
    assert np.array_equal(usual.total, by_rows.total)
    assert np.array_equal(usual.privacy, by_rows.privacy)
    assert np.array_equal(usual.private, by_rows.private)
    assert np.array_equal(usual.noise_variance, by_rows.noise_variance)


@pytest.mark.thorough
@pytest.mark.parametrize("algorithm", ["average", "learn-network", "push-sum", "first-order-edges"])
@pytest.mark.parametrize("record", [Record(every=4), Record(agents=[7, 299, 0]), Record()])
def test_the_order_of_the_agents_is_invisible(
    algorithm: Any, record: Any, monkeypatch: Any
) -> None:
    net: Any = MIXING
    if algorithm == "push-sum":
        assert MIXING.graph is not None
        net = networks.column_stochastic(MIXING.graph)
    todo = problem(algorithm, network=net)
    usual = simulate(todo, record)
    monkeypatch.setattr(layout, "ARRANGED", 10)
    found = layout.arranged(net)
    assert found is not None
    order = found.order
    assert not np.array_equal(order, np.arange(net.size))
    ordered = simulate(todo, record)
    assert ordered.private == pytest.approx(usual.private, rel=1e-11, abs=1e-11)
    assert ordered.total == pytest.approx(usual.total, rel=1e-11)
    assert ordered.noise_variance == pytest.approx(usual.noise_variance, rel=1e-11)


def test_an_order_is_worked_out_once_for_a_network(monkeypatch: Any) -> None:
    monkeypatch.setattr(layout, "ARRANGED", 10)
    assert layout.arranged(MIXING) is layout.arranged(MIXING)
    assert MIXING.graph is not None
    assert layout.arranged(networks.link_failures(MIXING.graph, 0.2, seed=1)) is None


@pytest.mark.parametrize("algorithm", ["average", "learn", "jacobi", "first-order-edges"])
def test_every_width_of_lanes_gives_the_same_numbers(algorithm: Any) -> None:
    """1, 2, 3, 5, 8 and 17 replicas use 1, 2, 4 and 8 lanes, in up to three blocks."""
    crowd = simulate(problem(algorithm, replicas=17))
    for replicas in (1, 2, 3, 5, 8):
        few = simulate(problem(algorithm, replicas=replicas))
        assert np.array_equal(few.total, crowd.total[..., :replicas])
        assert np.array_equal(few.private, crowd.private[..., :replicas, :])


@pytest.mark.parametrize(("replicas", "lanes", "stacks"), [(1, 1, 1), (3, 4, 1), (10, 8, 2)])
def test_the_layout_holds_every_column_once(replicas: Any, lanes: Any, stacks: Any) -> None:
    todo = problem(replicas=replicas)
    made = ColumnLayout.of(todo)
    assert (made.lanes, made.stacks, made.groups) == (lanes, stacks, 3)
    assert len(set(made.columns.tolist())) == made.columns.size == replicas * 3
    assert made.columns.max() < made.stacks * made.stack_width


def test_buffers_start_on_a_line_of_the_cache() -> None:
    assert aligned(3, 5).ctypes.data % 64 == 0
    assert aligned(3, 5).shape == (3, 5)


def test_threads_are_counted_and_their_errors_reach_the_caller(monkeypatch: Any) -> None:
    monkeypatch.setenv(VARIABLE, "3")
    assert threads() == 3
    with use_threads(2):
        assert threads() == 2
    monkeypatch.setenv(VARIABLE, "none")
    with pytest.raises(VeilsumError, match="VEILSUM_THREADS must be a whole number"):
        threads()
    for count in (1, 2):
        with Workers(count) as workers, pytest.raises(ZeroDivisionError):
            workers.each(lambda n: 1 // n, [1, 0])
