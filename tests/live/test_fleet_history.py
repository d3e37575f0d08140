"""Estimates by round: summaries, gaps, rounds that begin anew, and a bounded number of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilsum.live.fleet import fold
from veilsum.live.fleet_history import MOST_LINES, MOST_ROUNDS, RoundHistory

LABELS = ("a", "b", "c")


def counts(history: RoundHistory) -> dict[int, int]:
    return {row["round"]: row["count"] for row in history.rows()}


def test_a_row_summarises_the_sites_of_its_round() -> None:
    history = RoundHistory(LABELS)
    history.record(4, {"a": 1.0, "b": 2.0, "c": 6.0}, {"a": 0.5, "b": 0.7})
    (row,) = history.rows()
    assert (row["least"], row["most"], row["mean"], row["count"]) == (1.0, 6.0, 3.0, 3)
    assert row["half_width"] == pytest.approx(0.6)
    assert row["bands"] == pytest.approx(
        list(np.quantile([1.0, 2.0, 6.0], (0.1, 0.25, 0.5, 0.75, 0.9)))
    )


def test_a_site_counts_in_the_rounds_that_it_went_past_and_in_none_ahead() -> None:
    history = RoundHistory(LABELS)
    history.record(1, {"a": 1.0, "b": 2.0})
    history.record(2, {"a": 1.5})
    history.record(3, {"a": 1.7})
    assert counts(history) == {1: 2, 2: 1, 3: 1}  # b is not there yet
    history.record(3, {"b": 2.5})
    assert counts(history) == {1: 2, 2: 2, 3: 2}
    assert history.rows()[1]["most"] == 2.0  # b's estimate before


def test_rounds_that_begin_anew_replace_those_before() -> None:
    history = RoundHistory(LABELS)
    for t in (1, 2, 3):
        history.record(t, dict.fromkeys(LABELS, float(t)))
    history.record(1, dict.fromkeys(LABELS, 9.0))
    assert counts(history) == {1: 3}
    assert history.rows()[0]["mean"] == 9.0


def test_rows_are_bounded_and_the_last_round_is_among_them() -> None:
    history = RoundHistory(LABELS)
    for t in range(1, 5001):
        history.record(t, {"a": 1.0 / t})
        assert len(history.rounds) <= MOST_ROUNDS
    assert history.rounds[-1] == 5000
    assert history.stride == 16
    assert all(t % 16 == 0 for t in history.rounds[:-1] if t >= 16 * history.detail)
    # The fan opens in the first rounds: a page that is opened late has every one of them.
    assert history.rounds[:32] == list(range(1, 33))


def test_rounds_that_no_run_has_are_bounded_too() -> None:
    """A site may report whatever round it likes; 16 rows for each doubling of it would be too many."""
    history = RoundHistory(LABELS)
    for power in range(1, 58):
        for k in range(16, 32):
            history.record(k << power, {"a": 1.0})
            assert len(history.rounds) <= MOST_ROUNDS
    assert history.rounds[-1] == 31 << 57


Reports = st.lists(
    st.tuples(st.integers(1, 40), st.sampled_from(LABELS), st.floats(-5, 5), st.booleans()),
    max_size=60,
)


@given(Reports)
def test_events_give_the_same_as_the_whole(reports: list[tuple[int, str, float, bool]]) -> None:
    """What a page has that took every event is what one has that was opened at the end."""
    page: dict[str, Any] = {}
    history = RoundHistory(LABELS, most=8)
    history.detail = 1  # so that early rounds are kept apart
    for t, label, value, publish in reports:
        history.record(t, {label: value})
        if publish:
            fold(page, "rounds", history.changes())
    fold(page, "rounds", history.changes())
    whole: dict[str, Any] = {}
    fold(whole, "rounds", history.snapshot())
    assert page == whole


def test_many_sites_have_bands_and_no_lines() -> None:
    few, many = (RoundHistory([str(k) for k in range(n)]) for n in (MOST_LINES, MOST_LINES + 1))
    for history in (few, many):
        history.record(1, {"3": 1.0})
    assert few.snapshot()["fan"]["1"][3] == 1.0
    assert many.snapshot()["fan"] is None
