"""Several rounds a pass, eight rows at a time: the same bits as rounds taken one by one."""

import threading
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, eye_array, random_array

from veilsum import algorithms, networks, simulation
from veilsum.families import LogNormal, Normal
from veilsum.networks.order import strips
from veilsum.privacy import NetworkDP, NoPrivacy, SignalDP
from veilsum.simulation import (
    Problem,
    Record,
    SyntheticSignals,
    backend,
    kernel,
    layout,
    noise,
    run,
    slices,
    tiles,
)
from veilsum.simulation.layout import aligned
from veilsum.simulation.workers import Workers, use_threads

pytestmark = pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")

simulate: Any = simulation.simulate  # whose arrays may be None
arranged: Any = layout.arranged  # which may be None
FIELDS = (
    "total", "privacy", "decentralisation", "private", "noiseless", "final", "mean",
    "disagreement", "noise_variance",
)  # fmt: skip


class Torn(Exception):  # noqa: N818
    """A block read what was not there."""


def band(size: int, wide: int, seed: int, directed: bool = False) -> Any:
    """A random pattern of rows that read others at most `wide` away, and themselves."""
    rng = np.random.default_rng(seed)
    near = random_array((size, size), density=min(1.0, 6 / wide), rng=rng).toarray()
    places = np.arange(size)
    near[np.abs(places[:, None] - places[None, :]) > wide] = 0.0
    return csr_array(near if directed else near + near.T) + eye_array(size, format="csr")


def walk(reads: Any, plan: tiles.Tiling, rounds: int, rng: Any) -> None:
    """Take a plan's steps in some order that threads might, and check what every block reads.

    Two states hold two versions of a block: round k finds version k where k or k + 1 are done.
    """
    done = np.zeros(reads.shape[0], dtype=int)
    neighbours = [reads.indices[reads.indptr[b] : reads.indptr[b + 1]] for b in range(len(done))]

    def blocks(steps: Any) -> Any:
        return [(k, b) for k, begin, end in steps.tolist() for b in range(begin, end)]

    waiting = [blocks(steps) for steps in plan.parts]
    unfinished = list(range(len(waiting)))
    wedges = {(p, p + 1): blocks(steps) for p, steps in enumerate(plan.wedges)}
    while any(waiting) or wedges:
        open_now = [w for w in wedges if not any(p in unfinished for p in w)]
        waiting.extend(wedges.pop(pair) for pair in open_now)
        ready = [q for q, todo in enumerate(waiting) if todo]
        if ready:
            q = int(rng.choice(ready))
            k, b = waiting[q].pop(0)
            seen = done[neighbours[b]]
            if done[b] != k or seen.min() < k or seen.max() > k + 1:
                raise Torn(k, b)
            done[b] += 1
        unfinished = [p for p in unfinished if waiting[p]]
    assert (done == rounds).all()


def by_block(matrix: Any) -> Any:
    """Which blocks of rows read which."""
    rows, columns = matrix.nonzero()
    count = -(-matrix.shape[0] // tiles.BLOCK)
    pattern = csr_array(
        (np.ones(len(rows)), (rows // tiles.BLOCK, columns // tiles.BLOCK)), shape=(count, count)
    )
    pattern.sum_duplicates()
    return pattern


@pytest.mark.thorough
@given(
    size=st.integers(1, 40), wide=st.integers(1, 6), seed=st.integers(0, 10**6),
    rounds=st.integers(1, 9), parts=st.integers(1, 6), step=st.integers(1, 5),
    directed=st.booleans(),
)  # fmt: skip
def test_every_block_finds_what_it_reads_whatever_the_threads_do(
    size: Any, wide: Any, seed: Any, rounds: Any, parts: Any, step: Any, directed: Any
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "BLOCK", 1)
        reads = band(size, wide, seed, directed)
        reach = tiles.reach_of(reads.indptr, reads.indices)
        made = tiles.plan(reach, rounds, parts, step)
    walk(reads, made, rounds, np.random.default_rng(seed))


def test_a_reach_that_is_too_short_is_noticed() -> None:
    """The check above fails for steps that are planned one block too near, at either side."""
    reads, rng = band(40, 3, 1), np.random.default_rng(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "BLOCK", 1)
        right = tiles.reach_of(reads.indptr, reads.indices)
    own = np.arange(40)
    for wrong in (
        right._replace(last=np.maximum(right.last - 1, own)),
        right._replace(first=np.minimum(right.first + 1, own)),
    ):
        torn = 0
        for _ in range(20):
            try:
                walk(reads, tiles.plan(wrong, 4, 2, 1), 4, rng)
            except Torn:
                torn += 1
        assert torn


def test_the_reach_covers_those_who_read_a_block_and_those_it_reads() -> None:
    matrix = csr_array(([1.0, 1.0], ([700, 0], [5, 0])), shape=(1000, 1000))
    reach = tiles.reach_of(matrix.indptr, matrix.indices)
    assert reach.last.tolist() == [5, 5, 5, 5, 5, 5, 6, 7]
    assert reach.first.tolist() == [0, 0, 0, 0, 0, 0, 6, 7]


def test_parts_share_the_rows_and_a_wedge_waits_for_both_sides() -> None:
    reads = band(60, 2, 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "BLOCK", 1)
        made = tiles.plan(tiles.reach_of(reads.indptr, reads.indices), 3, 4)
    assert len(made.parts) == 4
    assert len(made.wedges) == 3
    order: list[Any] = []
    held: list[Any] = []

    def submit(work: Any, part: int) -> Future[Any]:
        held.append((work, part))
        return Future()

    tiles.start(made, lambda steps: order.append(id(steps)), submit)
    for work, part in [held[1], held[0], held[3], held[2]]:
        work(part)
    parts, wedges = [id(s) for s in made.parts], [id(s) for s in made.wedges]
    assert order == [
        parts[1], parts[0], wedges[0], parts[3], parts[2], wedges[1], wedges[2],
    ]  # fmt: skip


# -- eight rows at a time


def hubs(size: int) -> Any:
    """Rows of very different lengths, a few of them empty but for themselves."""
    weights = networks.lazy_metropolis(networks.power_law(size, 3, seed=2)).weights
    return networks.permuted(weights, networks.arrange(weights))


def lengths_equal(size: int) -> Any:
    return networks.lazy_metropolis(networks.ring(size)).weights


ROUNDS = {
    "bare": (0.0, 0.7, 0.0, 0.0, 0.0, 0.0),
    "no mixing": (0.5, 0.0, 0.0, 1.0, 1.0, 0.0),
    "momentum": (0.1, 0.8, -0.2, 0.3, 0.0, 0.0),
    "noise": (0.0, 0.9, 0.0, 0.1, 0.4, 0.0),
    "everything": (-0.1, 0.9, -0.3, 0.1, 0.4, 0.0),
}


def rounds_of(weights: Any, groups: int, algorithm: Any, by: Any, sliced: bool, count: int) -> Any:
    """All states and sums after `count` rounds of the kernel."""
    n, rng = weights.shape[0], np.random.default_rng(3)
    state = [aligned(n, groups) for _ in range(3)]
    for each in state:
        each[:] = rng.normal(size=(n, groups))
    widths = [groups if b == kernel.BY_COLUMN else 1 for b in by]
    inputs = kernel.Inputs(
        np.array([algorithm] * count), rng.normal(size=(count, n, widths[1])), np.full((1, 1), 0.3),
        noise.NO_LINKS, np.zeros((1, 0)), rng.permutation(n).astype(np.uint32), noise.key_of(11),
    )  # fmt: skip
    per = rng.random((2, count, groups))
    scales = kernel.Scales(
        rng.random(n), rng.random(n), rng.random((count, n, widths[0])), per[0], per[1], per[0, 0]
    )
    blocks = -(-n // kernel.BLOCK)
    squares = np.full((count, blocks, 3, groups), np.nan)
    rows = kernel.RowRange(0, n, 0, blocks, 0, groups, 4, by[0], by[1], algorithm[2] != 0.0)
    about = kernel.KernelState(*state), inputs, scales, rows, squares
    if sliced:
        moved = weights.copy()
        slices.slice_rows(moved)
        slices.advance(kernel.matrix_of(moved, True), *about)
    else:
        kernel.advance((0.0,), kernel.matrix_of(weights), *about)
    return [array.view(np.uint64) for array in (*state, squares)]


@pytest.mark.parametrize("kind", list(ROUNDS))
@pytest.mark.parametrize("groups", [1, 2, 3, 4])
def test_eight_rows_at_a_time_give_the_bits_of_one(kind: Any, groups: Any) -> None:
    for weights in (hubs(1003), lengths_equal(384), hubs(5)):
        for by in ((kernel.SHARED, kernel.BY_STREAM), (kernel.BY_COLUMN, kernel.BY_COLUMN)):
            plain = rounds_of(weights, groups, ROUNDS[kind], by, False, 3)
            eight = rounds_of(weights, groups, ROUNDS[kind], by, True, 3)
            assert all(map(np.array_equal, plain, eight))


@pytest.mark.thorough
def test_pointers_of_64_bits_are_sliced_alike() -> None:
    weights = hubs(700)
    wide = weights.copy()
    wide.indptr = wide.indptr.astype(np.int64)
    by = (kernel.SHARED, kernel.BY_STREAM)
    one, two = (rounds_of(w, 2, ROUNDS["noise"], by, True, 2) for w in (weights, wide))
    assert all(map(np.array_equal, one, two))


def test_an_estimate_that_is_infinite_stays_in_its_own_neighbourhood() -> None:
    """No row multiplies what it does not read: a padded one would turn 0 times infinity into NaN."""
    weights = hubs(64)
    moved = weights.copy()
    slices.slice_rows(moved)
    nu, out = aligned(64, 1), aligned(64, 1)
    nu[7] = np.inf
    inputs, scales = rounds_inputs(64)
    rows = kernel.RowRange(0, 64, 0, 1, 0, 1, 1, kernel.SHARED, kernel.BY_STREAM, False)
    state = kernel.KernelState(nu, out, nu)
    squares = np.empty((1, 1, 3, 1))
    slices.advance(kernel.matrix_of(moved, True), state, inputs, scales, rows, squares)
    reads = np.asarray(weights[:, [7]].todense()).ravel() != 0
    assert np.isinf(out[reads]).all()
    assert (out[~reads] == 0).all()


def rounds_inputs(n: int) -> Any:
    inputs = kernel.Inputs(
        np.array([ROUNDS["bare"]]), np.zeros((1, n, 1)), np.zeros((1, 1)), noise.NO_LINKS,
        np.zeros((1, 0)), np.arange(n, dtype=np.uint32), noise.key_of(1),
    )  # fmt: skip
    one = np.ones((1, 1))
    return inputs, kernel.Scales(np.zeros(n), np.ones(n), np.ones((1, n, 1)), one, one, one[0])


def test_slices_hold_the_entries_of_their_rows_in_order() -> None:
    weights = hubs(203)
    moved = weights.copy()
    slices.slice_rows(moved)
    assert np.array_equal(moved.indptr, weights.indptr)
    for first in range(0, 203, 8):
        lengths = np.diff(weights.indptr)[first : first + 8]
        start, stop = weights.indptr[first], weights.indptr[min(first + 8, 203)]
        part = [
            weights.indptr[first + r] + e
            for e in range(lengths.max())
            for r in range(len(lengths))
            if e < lengths[r]
        ]
        if first >= 200:  # no eight entries follow: left as it was
            part = list(range(start, stop))
        assert np.array_equal(moved.indices[start:stop], weights.indices[part])
        assert np.array_equal(moved.data[start:stop], weights.data[part])


def test_rows_that_are_not_sorted_are_refused() -> None:
    weights = networks.lazy_metropolis(networks.power_law(203, 3, seed=2)).weights
    with pytest.raises(ValueError, match="sorted by length"):
        slices.slice_rows(weights)


# -- whole runs


GRAPH = networks.random_geometric(12_000, mean_degree=6, seed=3, connect=True)
PUBLISHED = NetworkDP(epsilon=1.0, delta=0.01, sensitivity="smooth-as-published")
SMOOTH = NetworkDP(epsilon=1.0, delta=0.01, sensitivity="smooth")


def problem(
    algorithm: Any, privacy: Any, family: Any = None, graph: Any = GRAPH, **more: Any
) -> Any:
    family = family or Normal(sigma=1.0)
    make = networks.column_stochastic if algorithm == "push-sum" else networks.lazy_metropolis
    net = make(graph)
    base = {
        "network": net, "algorithm": algorithms.get(algorithm, net), "family": family,
        "source": SyntheticSignals(family, {"mu": 2.0}, net.size, seed=1), "privacy": privacy,
        "rounds": 11, "seed": 4, "epsilons": () if privacy == NoPrivacy() else (0.5, 2.0),
        "replicas": 1,
    }  # fmt: skip
    return Problem(**{**base, **more})


def plainly(todo: Any, record: Any, monkeypatch: Any) -> Any:
    """The run with compressed rows, one round after the other."""
    with monkeypatch.context() as patch:
        patch.setattr(tiles, "MOST", 1)
        patch.setattr(backend, "takes_slices", lambda _: False)
        return simulate(todo, record)


def same(one: Any, two: Any) -> None:
    for name in FIELDS:
        a, b = getattr(one, name), getattr(two, name)
        assert (a is None) == (b is None)
        assert a is None or np.array_equal(a, b), name


@pytest.fixture
def large(monkeypatch: Any) -> Any:
    """Small networks are treated as large ones; the calls of the tiled and the sliced path."""
    monkeypatch.setattr(layout, "ARRANGED", 10)
    monkeypatch.setattr(tiles, "MOST", 3)
    monkeypatch.setattr(run, "CACHED", 0)
    used: list[Any] = []
    start, advance = tiles.start, slices.advance

    def started(plan: Any, *rest: Any) -> Any:
        used.append(("start", len(plan.parts)))
        return start(plan, *rest)

    def advanced(*given: Any) -> None:
        used.append(("advance", 0))
        advance(*given)

    monkeypatch.setattr(tiles, "start", started)
    monkeypatch.setattr(slices, "advance", advanced)
    return used


CASES = {
    "plain": ("average", NoPrivacy(), None, {}),
    "noise at the start": ("average", SignalDP(1.0), None, {}),
    "noise in every round": ("learn", SignalDP(1.0), None, {}),
    "network": ("learn-network", NetworkDP(1.0), None, {}),
    "momentum": ("jacobi", NetworkDP(1.0), None, {}),
    "own weight": ("first-order", NetworkDP(1.0), None, {}),
    "scales by stream": ("learn", PUBLISHED, LogNormal(sigma=1.0), {}),
    "scales by column": ("learn", SMOOTH, LogNormal(sigma=1.0, bounds=(0.1, None)), {}),
    "two lanes": ("learn", SignalDP(1.0), None, {"replicas": 2}),
    "stacks": ("average", SignalDP(1.0), None, {"replicas": 10}),
}


@pytest.mark.parametrize("case", list(CASES))
def test_tiles_give_the_bits_of_rounds_taken_one_by_one(
    case: Any, large: Any, monkeypatch: Any
) -> None:
    algorithm, privacy, family, more = CASES[case]
    todo = problem(algorithm, privacy, family, **more)
    expected = plainly(todo, Record(), monkeypatch)
    assert not large
    for threads in (1, 2, 3):
        with use_threads(threads):
            same(simulate(todo, Record()), expected)
        parts = [count for name, count in large if name == "start"]
        assert parts
        assert (max(parts) > 1) == (threads > 1)
        assert any(name == "advance" for name, _ in large) == (not more)
        large.clear()


@pytest.mark.parametrize("algorithm", ["push-sum", "first-order-edges"])
def test_what_needs_every_round_on_its_own_gets_it(
    algorithm: Any, large: Any, monkeypatch: Any
) -> None:
    todo = problem(algorithm, NetworkDP(1.0))
    expected = plainly(todo, Record(), monkeypatch)
    same(simulate(todo, Record()), expected)
    assert not large


@pytest.mark.parametrize(
    "graph",
    [networks.power_law(6000, 3, seed=1), networks.watts_strogatz(6000, 6, 0.1, seed=1)],
    ids=["power law", "small world"],
)
def test_a_graph_of_long_links_takes_one_round_at_a_time(
    graph: Any, large: Any, monkeypatch: Any
) -> None:
    """Its reach is the whole network, so that nothing would stay in a cache of a thousandth."""
    monkeypatch.setattr(tiles, "CACHE", 100_000)
    todo = problem("learn", SignalDP(1.0), graph=graph)
    expected = plainly(todo, Record(), monkeypatch)
    same(simulate(todo, Record()), expected)
    assert not large  # neither tiles nor slices


@pytest.mark.parametrize("record", [Record(every=1), Record(every=2), Record(agents=[7, 0])])
def test_recorded_rounds_end_a_pass(record: Any, large: Any, monkeypatch: Any) -> None:
    todo = problem("learn", SignalDP(1.0))
    expected = plainly(todo, record, monkeypatch)
    found = simulate(todo, record)
    assert found.recorded_rounds == expected.recorded_rounds
    same(found, expected)
    assert any(name == "start" for name, _ in large) == (record.every != 1)


def test_progress_counts_every_round(large: Any) -> None:
    seen: list[Any] = []
    simulate(problem("average", NoPrivacy()), Record(), lambda *at: seen.append(at))
    assert seen == [(t, 11) for t in range(12)]
    assert large


def test_runs_that_fill_all_threads_stay_in_the_cache_instead(monkeypatch: Any) -> None:
    """Blocks of streams need no tiles where there are enough of them."""
    monkeypatch.setattr(layout, "ARRANGED", 10)
    few, many = (problem("average", SignalDP(1.0), replicas=r) for r in (2, 40))
    for todo, small in ((few, False), (many, True)):
        with Workers(2) as workers:
            assert run.Run(backend.LocalBackend(todo), workers).small == small


# -- the order of the agents


def test_places_give_strips_and_their_reach_is_short(monkeypatch: Any) -> None:
    monkeypatch.setattr(layout, "ARRANGED", 10)
    found = arranged(networks.lazy_metropolis(GRAPH))
    assert GRAPH.positions is not None
    assert np.array_equal(found.order, strips(GRAPH.adjacency, GRAPH.positions))
    assert found.reach.short
    assert found.reach.typical < 10


def test_without_short_links_places_give_squares(monkeypatch: Any) -> None:
    """Cuthill and McKee are tried before: a few links across the whole area leave them no order."""
    monkeypatch.setattr(layout, "ARRANGED", 10)
    monkeypatch.setattr(tiles, "CACHE", 400_000)
    rng = np.random.default_rng(1)
    far = rng.integers(0, GRAPH.size, (600, 2))
    links = np.concatenate([GRAPH.links, far[far[:, 0] != far[:, 1]]])
    graph = networks.Graph(GRAPH.size, links, positions=GRAPH.positions)
    found = arranged(networks.lazy_metropolis(graph))
    assert not found.reach.short
    assert np.array_equal(found.order, networks.arrange(found_weights(graph), graph.positions))


def found_weights(graph: Any) -> Any:
    return networks.lazy_metropolis(graph).weights


def test_both_forms_of_the_weights_have_one_order(monkeypatch: Any) -> None:
    monkeypatch.setattr(layout, "ARRANGED", 10)
    net = networks.lazy_metropolis(GRAPH)
    eight = arranged(net, sliced=True)
    plain = arranged(net)
    assert eight.order is plain.order
    assert arranged(net, sliced=True) is eight
    assert np.array_equal(eight.weights.indptr, plain.weights.indptr)
    assert not np.array_equal(eight.weights.indices, plain.weights.indices)
    slices.slice_rows(plain.weights)
    assert np.array_equal(eight.weights.indices, plain.weights.indices)
    assert np.array_equal(eight.weights.data, plain.weights.data)


def test_two_runs_at_once_do_not_disturb_each_other(large: Any) -> None:
    todo = problem("learn", SignalDP(1.0))
    expected, found = simulate(todo), []
    workers = [threading.Thread(target=lambda: found.append(simulate(todo))) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert large
    for one in found:
        same(one, expected)
