"""Signals: shapes, alignment, checks, clipping; and never a value in a message."""

from __future__ import annotations

import numpy as np
import pytest

from veilsum import families as f
from veilsum.errors import SignalError
from veilsum.signals import Signals, as_signals

SECRET = 123.456789


def make(values: object = ((1.0, 2.0), (3.0, 4.0), (5.0, 6.0))) -> Signals:
    return Signals(np.array(values), ["a", "b", "c"], ["mon", "tue"])


def test_repr_shows_the_shape_and_never_a_value() -> None:
    signals = make(np.full((3, 2), SECRET))
    assert repr(signals) == str(signals) == "Signals(3 agents, 2 rounds)"
    vectors = Signals(np.full((3, 2, 4), SECRET), "abc", [0, 1])
    assert repr(vectors) == "Signals(3 agents, 2 rounds, 4 numbers)"
    assert (vectors.agents, vectors.rounds, vectors.width) == (3, 2, 4)


def test_values_are_a_frozen_copy() -> None:
    values = np.ones((3, 2))
    signals = make(values)
    values[0, 0] = 7
    assert signals.values[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        signals.values[0, 0] = 7


@pytest.mark.parametrize(
    ("values", "labels", "times", "message"),
    [
        (np.ones(3), "abc", [0], "values must have shape"),
        (np.ones((3, 0)), "abc", [], "none of them 0"),
        (np.ones((3, 1)), "ab", [0], "labels must have one entry for each of 3; found 2"),
        (np.ones((3, 1)), "aba", [0], "labels must be distinct; repeated: 'a'"),
        (np.ones((3, 2)), "abc", [0, 0], "times must be distinct"),
    ],
)
def test_signals_are_valid_once_constructed(
    values: np.ndarray, labels: str, times: list[int], message: str
) -> None:
    with pytest.raises(SignalError, match=message):
        Signals(values, labels, times)


def test_aligned_reorders() -> None:
    turned = make().aligned(["c", "a", "b"])
    assert turned.labels == ("c", "a", "b")
    np.testing.assert_array_equal(turned.values, [[5, 6], [1, 2], [3, 4]])
    same = make()
    assert same.aligned("abc") is same


def test_aligned_names_who_is_missing_and_who_is_unknown() -> None:
    with pytest.raises(SignalError, match=r"1 agent without signals: 'd'; 1 agent with .*: 'a'"):
        make().aligned("bcd")
    big = Signals(np.ones((20, 1)), range(20), [0])
    with pytest.raises(SignalError, match=r"17 agents with signals .*: 3, 4, 5, 6, 7 and 12 more"):
        big.aligned(range(3))
    with pytest.raises(SignalError, match="the network's are str, the signals' int"):
        big.aligned([str(k) for k in range(20)])
    with pytest.raises(SignalError, match="labels must be distinct"):
        big.aligned([0, 0])


def test_check_names_agent_time_and_remedy_but_no_value() -> None:
    signals = make([[1, 2], [3, -SECRET], [0, 5]])
    with pytest.raises(SignalError) as caught:
        signals.check(f.LogNormal(1.0))
    message = str(caught.value)
    assert "agent 'b' at time 'tue' is outside the support of log-normal" in message
    assert "expects s > 0 (1 other reading likewise)" in message
    assert "use LogNormal1p (log(1 + s)), or bounds=(floor, None)" in message
    assert "123" not in message
    assert signals.clip(0, None).check(f.LogNormal1p(1.0)).clipped == 1


def test_check_of_a_reading_that_is_not_finite() -> None:
    with pytest.raises(SignalError, match=r"agent 'a' at time 'tue' is not a finite .*missing="):
        make([[1, np.nan], [3, 4], [5, 6]]).check(f.Normal(1.0))
    with pytest.raises(SignalError, match="not a finite number"):
        make([[1, np.inf], [3, 4], [5, 6]]).clip(0, 10).check(f.Normal(1.0))


def test_check_of_shapes() -> None:
    vectors = as_signals(np.ones((3, 2, 2)))
    assert vectors.check(f.MultivariateNormal(np.eye(2))) is vectors
    with pytest.raises(SignalError, match=r"\(agents, rounds, 3\); found \(3, 2, 2\)"):
        vectors.check(f.MultivariateNormal(np.eye(3)))
    with pytest.raises(SignalError, match=r"normal takes signals of shape \(agents, rounds\)"):
        vectors.check(f.Normal(1.0))


def test_check_counts_readings_and_not_their_coordinates() -> None:
    values = np.ones((3, 2, 2))
    values[1, 1] = 9
    with pytest.raises(SignalError, match=r"agent 1 at time 1 .*expects 0 <= s <= 2; clip"):
        as_signals(values).check(f.MultivariateNormal(np.eye(2), bounds=(0, 2)))


def test_clip_counts_and_leaves_what_is_broken() -> None:
    signals = make([[-1, 2], [np.nan, 9], [np.inf, 3]]).clip(0, 5)
    np.testing.assert_array_equal(signals.values, [[0, 2], [np.nan, 5], [np.inf, 3]])
    assert signals.clipped == 2
    assert signals.clip(1, None).clipped == 3
    for low, high in ((None, None), (2, 1), (np.nan, 1)):
        with pytest.raises(SignalError, match="clip needs low < high"):
            signals.clip(low, high)
