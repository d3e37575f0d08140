"""What a site that lies can do to an answer: move it by its own bounded part, or be left out by name.

L(r, m) = r b + t(m)      b the largest step of a record, t(m) the tail of m draws at 2^-60
the mean moves by at most  (L(r, m) + r |T / N|) / (N + r)      N, T records and sum of the honest sites
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from tests.fleet.fleets import mean
from tests.fleet.pool.boards import answered, register
from veilsum.fleet.encoding import far_limit
from veilsum.fleet.question import FleetQuestion, Worded

TABLE = mean("pool", most_records=1000)
STREAM = mean("pool", most_records=1000, schedule={"every": "1 h"})
PRIVATE = FleetQuestion(
    asks=(Worded("count", ()),), epsilon=1.0, protocol="pool", most_records=1000, rows_public=False
)
HONEST = [register(TABLE, f"s{k}", [20 * 10**9 + k], 50) for k in (1, 2)]
DEEP = b"[" * 200_000


def left_out(posts: list[Any], question: FleetQuestion = TABLE, keys: int = 1) -> str:
    found = answered(question, posts, keys=keys)
    return "" if found is None else dict(found.left_out).get("s0", "")


@pytest.mark.parametrize("records", [1, 50, 1000])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_liar_moves_the_mean_by_its_own_part_and_no_more(records: int, sign: int) -> None:
    honest = answered(TABLE, HONEST)
    assert honest is not None
    before = Fraction(honest.steps[0], honest.records)
    (limit,) = far_limit(TABLE, records, 1)
    moved = []
    for total in (sign * limit, sign * (limit + 1)):
        found = answered(TABLE, [*HONEST, register(TABLE, "s0", [total], records)])
        assert found is not None
        moved.append(Fraction(found.steps[0], found.records) - before)
    exact = (sign * limit - records * before) / (honest.records + records)
    assert moved == [exact, 0], "attained, and not exceeded"
    assert abs(exact) <= (limit + records * abs(before)) / (honest.records + records)


def test_the_bound_is_the_records_and_the_noise() -> None:
    (low, high), (law,) = TABLE.ends[0], TABLE.laws
    assert far_limit(TABLE, 50, 1) == [50 * max(-low, high) + law.tail(2.0**-60)]


def test_a_liar_is_named_and_the_others_are_answered() -> None:
    (limit,) = far_limit(TABLE, 50, 1)
    found = answered(TABLE, [*HONEST, register(TABLE, "s0", [limit + 1], 50)])
    assert found is not None
    assert found.sites == ("s1", "s2")
    assert found.missing == ("s0",)
    assert "farther out" in found.left_out["s0"]
    assert found.covers == "2 of 3 sites"


@pytest.mark.parametrize(
    ("lie", "named"),
    [
        ({"records": 1001}, "1,001 records"),
        ({"records": 0}, "0 records"),
        ({"draws": 2}, "2 draws in 1 releases"),
        ({"draws": 0}, "0 draws"),
        ({"number": 2}, "more than once"),
        ({"first": 2, "last": 2}, "more than once"),
        ({"last": 5}, "more than once"),
        ({"newest": [7]}, "not its sum"),
        ({"newest_records": 3}, "not its sum"),
        ({"newest_records": 51}, "51 records"),
        ({"newest": [1 << 60]}, "its last release"),
        ({"total": [5, 5]}, "whole numbers, twice"),
        ({"total": [1 << 63]}, "whole numbers"),
    ],
)
def test_a_lie_about_a_table_is_left_out_by_name(lie: dict[str, Any], named: str) -> None:
    said: dict[str, Any] = {"total": [10**9], "records": 50} | lie
    assert named in left_out([*HONEST, register(TABLE, "s0", **said)])


@pytest.mark.parametrize(
    "body",
    [
        b"", b"5", b"null", b"[1,2,3]", b"[[1],null,3]", b"[null,[],3]", b'{"a":1,"b":2,"c":3}', DEEP,
        b"[[1.0],[],50]", b"[[true],[],50]", b"[[1e400],[],50]", b"[[NaN],[],50]", b"[[1],[],50] ",
        b"[[1],[1],50]", b"[[" + b"9" * 5000 + b"],[],50]", b"[[1],[],50,0]", b"[[],[],50]",
    ],
)  # fmt: skip
def test_a_body_that_is_no_register_is_left_out_by_name(body: bytes) -> None:
    assert "register" in left_out([*HONEST, register(TABLE, "s0", [1], 50, body=body)])


def test_a_private_count_is_not_said() -> None:
    honest = [register(PRIVATE, f"s{k}", [50], 0) for k in (1, 2)]
    assert "private" in left_out([*honest, register(PRIVATE, "s0", [50], 5)], PRIVATE)
    assert not left_out([*honest, register(PRIVATE, "s0", [50], 0)], PRIVATE)


def test_a_private_count_of_many_releases_is_plausible() -> None:
    """1,000 records at most in each of 100 releases are 100,000, not 1,000."""
    stream = FleetQuestion(
        asks=(Worded("count", ()),), epsilon=1.0, protocol="pool", most_records=1000,
        rows_public=False, schedule={"every": "1 h"},
    )  # fmt: skip
    whole: dict[str, Any] = {
        "number": 100,
        "first": 600,
        "last": 600,
        "newest": [900],
        "newest_records": 0,
    }
    others = [register(stream, f"s{k}", [50], 0, first=600, last=600) for k in (1, 2)]
    assert not left_out([*others, register(stream, "s0", [90_000], 0, **whole)], stream)
    assert left_out([*others, register(stream, "s0", [101_000], 0, **whole)], stream)


@pytest.mark.parametrize(
    ("lie", "named"),
    [
        ({"number": 2, "draws": 9}, "9 draws in 2 releases"),
        ({"number": 700}, "700 releases up to slot 600"),
        ({"first": 1, "last": 4_000_000_000}, "up to slot 4,000,000,000"),
        ({"number": 2, "records": 2001}, "2,001 records in 2 releases"),
    ],
)
def test_a_lie_about_slots_and_draws_of_a_stream(lie: dict[str, Any], named: str) -> None:
    said: dict[str, Any] = {"total": [10**9], "records": 50, "first": 600, "last": 600} | lie
    others = [register(STREAM, f"s{k}", [10**9], 50, first=600, last=600) for k in (1, 2)]
    assert named in left_out([*others, register(STREAM, "s0", **said)], STREAM)


class TestSeveralKeys:
    """A site that was given other keys has a register under each: never of the same slots."""

    def test_a_table_counts_under_one_key(self) -> None:
        posts = [register(TABLE, name, [10**9], 50) for name in ("s0", "s0.1", "s0.2")]
        assert "two of its keys" in left_out([*HONEST, *posts], keys=3)
        one = answered(TABLE, [*HONEST, posts[1]], keys=3)
        assert one is not None
        assert one.sites == ("s0", "s1", "s2")

    def test_slots_of_a_later_key_are_later(self) -> None:
        others = [register(STREAM, f"s{k}", [10**9], 50, first=600, last=600) for k in (1, 2)]
        old = register(STREAM, "s0.1", [10**9], 50, first=600, last=601)
        for first, named in ((600, True), (601, True), (602, False)):
            new = register(STREAM, "s0", [10**9], 50, first=first, last=700)
            found = answered(STREAM, [*others, old, new], keys=2)
            assert found is not None
            assert ("s0" in found.left_out) is named
            assert found.draws == (2 if named else 4)

    def test_its_part_is_that_of_all_its_keys(self) -> None:
        others = [register(STREAM, f"s{k}", [10**9], 50, first=600, last=600) for k in (1, 2)]
        (limit,) = far_limit(STREAM, 1000, 1)
        for more in (0, 1):
            posts = [
                register(STREAM, "s0.1", [limit], 1000, first=600, last=600),
                register(STREAM, "s0", [limit + more], 1000, first=601, last=601),
            ]
            found = answered(STREAM, [*others, *posts], keys=2)
            assert found is not None
            assert found.steps == ((2 * 10**9) + (0 if more else 2 * limit),)
