"""Intervals of a pool cover 95% at every coverage, whatever the noise; and the answer is of the set.

2,000 releases of 50 sites, of which the first n have arrived. A count of hits below the 1e-8 quantile of
Binomial(2000, 0.95) comes by chance in less than one of 5,000,000 runs of all 21 cases.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from tests.fleet.fleets import mean
from tests.fleet.pool.boards import board_of, members_of, register
from veilsum.fleet.board import Board
from veilsum.fleet.draws import DerivedEntropy
from veilsum.fleet.encoding import decode, encode
from veilsum.fleet.pool import pooled
from veilsum.fleet.post import Post, pack

RELEASES, RECORDS, SITES = 2000, 50, 50
FEWEST = int(binom.ppf(1e-8, RELEASES, 0.95))
KINDS = {
    "laplace": mean("pool", noise="laplace"),
    "gaussian": mean("pool", noise="gaussian", delta=1e-6),
    "skellam": mean("pool", noise="skellam", delta=1e-6),
}
VALUES = np.random.default_rng(7).uniform(5.0, 35.0, RECORDS)


@cache
def draws(kind: str, sites: int) -> list[int]:
    """The noise of so many sites in each release: their draws, or one of the law of their sum."""
    (law,) = KINDS[kind].laws
    entropy = DerivedEntropy(bytes(32), kind.encode(), sites.to_bytes(2, "big"))
    if kind == "skellam" and sites > 3:  # a sum of Skellam draws is one of their variances together
        return [int(x) for x in law.summed(Fraction(sites)).draw(RELEASES, entropy)]
    drawn = [int(x) for x in law.draw(RELEASES * sites, entropy)]
    return [sum(drawn[k : k + sites]) for k in range(0, len(drawn), sites)]


def hits(kind: str, sites: int, given: int) -> int:
    """How many intervals hold the mean, if the decoder is given of so many draws."""
    question = KINDS[kind]
    (own,) = encode(question, {"kwh": VALUES}).steps
    records = RECORDS * sites
    truth = float(decode(question, [own * sites], records, sites)[0][0].value)
    found = 0
    for noise in draws(kind, sites):
        (answer,) = decode(question, [own * sites + noise], records, given)[0]
        found += answer.low <= truth <= answer.high
    return found


@pytest.mark.parametrize("sites", [3, 5, 10, 25, 40, 47, 50])
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_cover_at_every_coverage(kind: str, sites: int) -> None:
    found = hits(kind, sites, given=sites)
    assert found >= FEWEST
    assert found <= binom.ppf(1 - 1e-8, RELEASES, 0.97), "nor are they wider than they say"


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_of_another_coverage_do_not(kind: str) -> None:
    """A decoder that takes 47 sites for 25 covers too little: the test above would see it."""
    assert hits(kind, 47, given=25) < FEWEST


# ---- a function of the set

STREAM = mean("pool", schedule={"every": "1 h"})


@cache
def posts() -> tuple[Post, ...]:
    """Two numbers of each of six sites, a fork, a liar, a foreign register, a re-keyed site."""
    random, found = Random(1), []
    for name in ("s0.1", "s0", "s1", "s2", "s3", "s4"):
        first = 604 if name == "s0" else 600
        for number in (1, 2):
            total = random.randrange(10**10)
            found.append(
                register(
                    STREAM, name, [total], 50 * number, number=number, first=first + number,
                    last=first + number, newest_records=50,
                )
            )  # fmt: skip
    found.append(register(STREAM, "s4", [5], 50, first=601, last=601))
    found.append(register(STREAM, "s5", [1 << 61], 50, first=601, last=601))
    found.append(register(replace(STREAM, label="another", settles=""), "s1", [9], 50))
    return tuple(found)


@given(st.permutations(range(len(posts()))), st.integers(0, len(posts())))
def test_an_answer_is_a_function_of_the_set(order: list[int], cut: int) -> None:
    expected = answer_of(board_of(members_of(6, 2), posts()))
    halves = []
    for half in (order[:cut], order[cut:]):
        board = Board(members_of(6, 2))
        for place in half:
            board.take(pack((posts()[place].data,)))
        halves.append(board)
    for one, other in (halves, reversed(halves)):
        merged = Board()
        for board in (one, other, one):
            merged.merge(board)
        assert answer_of(merged) == expected
    assert "'s5'" in expected
    assert "draws=Fraction(12, 1)" in expected


@given(st.sets(st.integers(0, len(posts()) - 1)))
def test_an_answer_on_the_way_says_what_it_covers(held: set[int]) -> None:
    board = board_of(members_of(6, 2), [posts()[place] for place in sorted(held)])
    found = pooled(board, STREAM)
    newest: dict[bytes, Post] = {}
    for place in held:
        one = posts()[place]
        honest = one.header.terms == STREAM.digest and one.header.key != posts()[-2].header.key
        rank = newest[one.header.key].header.rank if one.header.key in newest else (0, b"")
        if honest and one.header.rank > rank:
            newest[one.header.key] = one
    keys = members_of(6, 2).keys
    names = {keys[key].name for key in newest}
    if found is None:
        assert not newest
        return
    assert set(found.sites) == names
    assert set(found.missing) == {f"s{k}" for k in range(6)} - names
    assert found.draws == sum(one.header.draws for one in newest.values())
    assert found.records == sum(one.header.readings for one in newest.values())
    last = max(one.header.last for one in newest.values())
    having = {keys[key].name for key, one in newest.items() if one.header.last == last}
    assert found.latest == (last, len(having))


def answer_of(board: Board) -> str:
    return repr(pooled(board, STREAM))
