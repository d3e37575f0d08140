"""The schedule of growing batches: every reading in one batch, lengths, freshness, noise."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilsum.errors import PrivacyError
from veilsum.privacy import Batches
from veilsum.privacy.batches import window_starts

GROWTHS = st.one_of(st.sampled_from([1.0, 1.2, 1.25, 2.0, 3.0]), st.floats(1.01, 5.0))
SCHEDULES = st.builds(Batches, growth=GROWTHS, longest=st.sampled_from([0, 1, 2, 7, 24]))


@given(SCHEDULES, st.integers(1, 300))
def test_every_reading_is_in_one_batch(batches: Batches, rounds: int) -> None:
    owner: dict[int, int] = {}  # reading -> round in which its batch closes
    for t in range(1, rounds + 1):
        for reading in range(t - batches.closes(t) + 1, t + 1):
            assert reading not in owner, "a reading in two batches would cost 2 epsilon"
            owner[reading] = t
    assert sorted(owner) == list(range(1, batches.released(rounds) + 1))
    assert all(batches.closing(reading) == t for reading, t in owner.items())


@given(SCHEDULES, st.integers(1, 400))
def test_lengths_follow_the_definition(batches: Batches, rounds: int) -> None:
    lengths = batches.lengths(rounds)
    assert sum(lengths) == rounds
    assert len(lengths) == batches.count(rounds)
    more, before = Fraction(repr(batches.growth)) - 1, 0
    for k, length in enumerate(lengths):
        whole = max(1, int(more * before))
        expected = min(whole, batches.longest or whole)
        last = k + 1 == len(lengths)  # may be open
        assert length <= expected if last else length == expected
        before += length


@given(SCHEDULES, st.integers(1, 300))
def test_freshness_is_the_worst_over_all_rounds(batches: Batches, rounds: int) -> None:
    lacking = [t - batches.released(t) for t in range(1, rounds + 1)]
    assert batches.stalest(rounds) == max(lacking)
    if batches.longest:
        assert max(lacking) < batches.longest


@given(SCHEDULES, st.integers(1, 200), st.integers(1, 60))
def test_parts_count_the_readings_of_each_batch(batches: Batches, first: int, count: int) -> None:
    closing = [batches.closing(reading) for reading in range(first, first + count)]
    assert batches.parts(first, count) == tuple(closing.count(t) for t in sorted(set(closing)))


def test_far_ahead_is_computed_at_once() -> None:
    hourly = Batches(growth=2.0, longest=24)
    assert hourly.count(10**12) == pytest.approx(10**12 / 24, rel=1e-6)
    assert hourly.closes(hourly.closing(10**12)) == 24
    assert Batches(growth=1.0).released(10**12) == 10**12


@pytest.mark.parametrize(
    ("growth", "expected"),
    [(1.0, (14.1, 44.7, 141.4)), (2.0, (4.0, 4.7, 5.5)), (1.25, (6.5, 7.9, 9.1))],
)
def test_noise_of_the_running_sum(growth: float, expected: tuple[float, ...]) -> None:
    found = tuple(round(Batches(growth).deviation(T), 1) for T in (100, 1_000, 10_000))
    assert found == expected


def test_a_decimal_growth_is_taken_as_written() -> None:
    assert Batches(1.2).parts(11, 2) == (2,)  # floor(0.2 * 10) = 2, where floats have 1.9999...


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"growth": 0.5}, "growth of batches must be a number from 1"),
        ({"growth": float("nan")}, "growth"),
        ({"growth": 2000.0}, "to 1000"),
        ({"growth": 1.0000001}, "or 1.01 to 1000"),  # a search for its batches would not end
        ({"longest": -1}, "longest must be a whole number of at least 0"),
        ({"longest": 2.5}, "longest"),
    ],
)
def test_wrong_schedules_are_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(PrivacyError, match=words):
        Batches(**wrong)


METHODS = (
    "closes", "released", "count", "lengths", "most_together", "closing",
    "first_of_several", "stalest", "deviation",
)  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "wrong",
    [None, "\u00e9", [1], 1.5, float("nan"), float("inf"), 1e300, True, -1, 10**400],
    ids=repr,
)
def test_only_whole_numbers_are_rounds_and_readings(method: str, wrong: Any) -> None:
    for batches in (Batches(2.0), Batches(1.0), Batches(2.0, 4)):
        with pytest.raises(PrivacyError, match=r"whole number of at least|at most"):
            getattr(batches, method)(wrong)


def test_the_least_growth_is_fast_and_a_stream_without_batches_needs_no_search() -> None:
    assert Batches(1.01).released(10**15) > 0
    assert Batches(1.0).first_of_several(10**12) == 10**12


@pytest.mark.parametrize("bad", [None, 1.5, 0, 10**16])
def test_windows_have_whole_numbers_of_readings(bad: Any) -> None:
    with pytest.raises(PrivacyError, match="readings"):
        window_starts([Batches(2.0, 4)], bad)
