"""The sparse overlay of docs/scaling.md: the bound, the lemma, the simulation, the stored numbers."""

import json
import math
from collections.abc import Iterator
from itertools import chain, combinations, product
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from benchmarks import overlay
from tests.agents.masked.test_lemma import Enumerated, holds
from veilsum import networks

REPORT = json.loads((Path(overlay.__file__).parent / "overlay.json").read_text())


def parts(size: int, links: list[tuple[int, int]]) -> int:
    """Components of a graph."""
    rows, columns = np.array(links, dtype=int).reshape(-1, 2).T
    graph = coo_array((np.ones(len(rows)), (rows, columns)), shape=(size, size))
    return int(connected_components(graph, directed=False)[0])


def test_stored_numbers_are_the_bounds() -> None:
    """`python -m benchmarks.overlay` renews them; k is the least that the bound allows."""
    assert [(r["members"], r["fraction"]) for r in REPORT["needed"]] == [
        (n, f) for n in overlay.SIZES for f in overlay.FRACTIONS
    ]
    for row in REPORT["needed"]:
        n, colluders = row["members"], round(row["fraction"] * row["members"])
        for k, bits in (
            (row["neighbours"], overlay.BITS),
            (row["redrawn"], overlay.redrawn_bits(n)),
        ):
            assert overlay.log2_disconnected(n, colluders, k) <= -bits
            assert overlay.log2_disconnected(n, colluders, k - 1) > -bits
    million = [row["neighbours"] for row in REPORT["needed"] if row["members"] == 10**6]
    assert million == [18, 29, 46]


def test_one_isolated_member_is_nearly_all_of_the_bound() -> None:
    for fraction in overlay.FRACTIONS:
        honest = round((1 - fraction) * 10**6)
        k = overlay.neighbours_for(10**6, fraction)
        alone = math.log2(honest) + k * (math.log2(fraction) - (1 - fraction) / math.log(2))
        assert overlay.log2_disconnected(10**6, 10**6 - honest, k) == pytest.approx(alone, abs=0.01)


@pytest.mark.parametrize(
    ("members", "colluders", "k"), [(5, 1, 1), (5, 2, 2), (6, 2, 1), (5, 1, 2)]
)
def test_the_bound_holds_where_all_draws_can_be_enumerated(
    members: int, colluders: int, k: int
) -> None:
    honest = members - colluders
    others = [list(combinations([j for j in range(members) if j != i], k)) for i in range(honest)]
    bad = total = alone = 0
    for drawn in product(*others):
        links = [(i, j) for i, chosen in enumerate(drawn) for j in chosen if j < honest]
        bad += parts(honest, links) > 1
        alone += sum(all(i not in link for link in links) for i in range(honest))
        total += 1
    assert 0 < bad / total <= 2 ** overlay.log2_disconnected(members, colluders, k)
    assert alone / total == pytest.approx(overlay.expected_isolated(members, colluders, k))


def test_isolated_members_are_as_many_as_the_formula_says() -> None:
    """About 1,900 of them: 6 standard deviations of a Poisson count, false alarm below 1e-8."""
    rng = np.random.default_rng(5)
    members, runs = 20_000, 50
    expected = runs * overlay.expected_isolated(members, 10_000, 5)
    found = sum(overlay.simulate(members, 10_000, 5, rng)["isolated"] for _ in range(runs))
    assert abs(found - expected) < 6 * math.sqrt(expected)
    weaker = runs * overlay.expected_isolated(members, 10_500, 5)
    assert abs(found - weaker) > 6 * math.sqrt(weaker), "2.5% more colluders would be noticed"


def test_members_draw_different_others_and_never_themselves() -> None:
    source, target = overlay.draw(12, 8, 5, np.random.default_rng(1))
    assert (source != target).all()
    assert len({*zip(source.tolist(), target.tolist(), strict=True)}) == 8 * 5
    assert set(target.tolist()) == set(range(12))


def test_stored_simulation_agrees_with_the_formula() -> None:
    """6 standard deviations in each row, false alarm below 1e-7; connected wherever k is the bound's."""
    assert REPORT["members"] == overlay.MEMBERS
    for row in REPORT["isolated"]:
        colluders = round(row["fraction"] * overlay.MEMBERS)
        expected = row["runs"] * overlay.expected_isolated(
            overlay.MEMBERS, colluders, row["neighbours"]
        )
        assert row["expected"] == pytest.approx(expected)
        assert abs(row["isolated"] - expected) <= 6 * math.sqrt(expected) + 1e-6
        if row["neighbours"] == overlay.neighbours_for(overlay.MEMBERS, row["fraction"]):
            assert row["connected"] == row["runs"]


def test_colluders_chosen_after_the_draw_isolate_whom_they_like() -> None:
    """Weakened variant: the bound is for colluders that are chosen before."""
    members, k = 20_000, overlay.neighbours_for(10**5, 0.1)
    source, target = overlay.draw(members, members, k, np.random.default_rng(2))
    victim = 17
    bought = {*target[source == victim].tolist(), *source[target == victim].tolist()}
    assert len(bought) < 0.01 * members
    left = [j for j in range(members) if j not in bought]
    assert victim in left
    touching = [
        (i, j)
        for i, j in zip(source.tolist(), target.tolist(), strict=True)
        if victim in (i, j) and i not in bought and j not in bought
    ]
    assert not touching


def test_masks_along_the_links_alone_leave_small_components() -> None:
    """Weakened variant: the US grid with 30% random colluders; most honest agents are exposed."""
    graph = networks.load("us-power-grid")
    rng = np.random.default_rng(3)
    honest = rng.random(graph.size) >= 0.3
    links = graph.links[honest[graph.links].all(axis=1)]
    ones = np.ones(len(links))
    joined = coo_array((ones, tuple(links.T)), shape=(graph.size, graph.size))
    label = connected_components(joined, directed=False)[1]
    sizes = np.bincount(label[honest])
    largest = sizes.max()
    assert largest < honest.sum() / 2
    assert (sizes == 1).sum() > 0.05 * honest.sum()


def graphs(labels: str) -> Iterator[list[tuple[str, str]]]:
    pairs = list(combinations(labels, 2))
    return map(
        list, chain.from_iterable(combinations(pairs, size) for size in range(len(pairs) + 1))
    )


def test_a_connected_graph_of_pairs_hides_all_but_the_closed_sum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every graph of four honest members: the lemma holds if and only if it is connected.

    Also if not all of them publish: then every part of those who do borders on one who does not.
    """
    honest, roster = "abcd", ("a", "b", "c", "d", "x")
    seen = {True: 0, False: 0}
    for kept in graphs(honest):
        missing = [pair for pair in combinations(honest, 2) if pair not in kept]
        world = Enumerated(monkeypatch, 2, missing=["".join(pair) for pair in missing])
        numbers = [(honest.index(i), honest.index(j)) for i, j in kept]
        connected = parts(4, numbers) == 1
        seen[connected] += 1
        publishers = [tuple(honest)]
        publishers += [("a", "b"), ("a", "c", "d")] if connected else []
        for some in publishers:
            found = world.distribution(roster, honest, some)
            assert holds(found, world.claimed(roster, honest, some)) == connected, (kept, some)
    assert seen == {True: 38, False: 26}
