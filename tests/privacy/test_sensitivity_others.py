"""Global and network sensitivities, and their status."""

import math
from typing import Any

import numpy as np
import pytest

from veilsum import families
from veilsum.errors import PrivacyError
from veilsum.privacy import ScaleRule, Statistic, Status
from veilsum.privacy import sensitivity as sens


def test_global_is_the_modulus_of_the_family() -> None:
    bound = families.LogNormal(1.0, bounds=(0.5, None)).moves(2.0)
    assert bound.status is Status.PROVED
    assert bound.l1 == pytest.approx(math.log(5))
    assert bound.at([1.0, 7.0]) == pytest.approx(np.full(2, math.log(5)))
    assert bound.scale is None  # it reads no signals
    assert bound.reason.startswith("log s is steepest")
    assert not families.LogNormal(1.0).moves(2.0).finite
    vouched = families.Custom(np.sin, families.Support(), 1.0)
    assert vouched.moves(1.0).status is Status.CLAIMED


def test_network_is_the_larger_of_weight_and_signal() -> None:
    signal = families.LogNormal1p(1.0).moves(0.5)
    bounds = [signal.at_least(weight) for weight in (0.1, 0.5)]
    assert [bound.l1 for bound in bounds] == pytest.approx([math.log(1.5), 0.5])
    found = np.stack([bound.at(np.ones(3)) for bound in bounds])
    assert found == pytest.approx(np.array([[math.log(1.5)] * 3, [0.5] * 3]))
    assert {(bound.status, bound.scale) for bound in bounds} == {(Status.PROVED, None)}


@pytest.mark.parametrize("weight", [-1.0, math.nan])
def test_a_weight_that_is_none_is_refused(weight: float) -> None:
    """An estimate of weight -1 moves a message by 1; of what is no number nothing is known."""
    with pytest.raises(PrivacyError):
        Statistic(0.5).at_least(weight)


def test_network_keeps_a_smooth_sensitivity_smooth() -> None:
    signal = sens.smooth_log(0.1, 50.0, smoothing=0.3)
    s = np.array([0.1, 9.0, 40.0])
    for weight in (0.2, 0.9):
        bound = signal.at_least(weight)
        assert bound.at(s) == pytest.approx(np.maximum(weight, signal.at(s)))
        near = bound.at(np.clip(s + 1, 0.1, 50))
        assert (np.abs(np.log(bound.at(s) / near)) <= 0.3 + 1e-12).all()
        assert bound.scale is not None
        assert bound.scale.smoothing == 0.3
    assert sens.as_published(1.0, 0.1).at_least(0.1).status is Status.REFUTED


def test_a_bound_is_valid_once_constructed() -> None:
    wrong: list[dict[str, Any]] = [
        {"l1": -1.0}, {"l1": math.nan}, {"l2": -1.0}, {"dimension": 0},
        {"dimension": 1.5}, {"low": 1.0, "high": 0.0}, {"low": math.nan}, {"step": 0.0},
        {"step": math.inf},
    ]  # fmt: skip
    for options in wrong:
        with pytest.raises(PrivacyError):
            Statistic(**{"l1": 1.0} | options)
    for numbers in ((0.1, 0.0), (-1.0, 1.0), (math.nan, 1.0), (math.inf, 1.0), (0.1, math.nan)):
        with pytest.raises(PrivacyError):
            ScaleRule(np.ones_like, np.sin, *numbers, families.Support())


def test_bounds_of_another_length_than_the_statistic_are_refused() -> None:
    for options in ({"low": (0.0, 0.0)}, {"high": (1.0, 1.0, 1.0), "dimension": 2}):
        with pytest.raises(PrivacyError):
            Statistic(**{"l1": 1.0} | options)


@pytest.mark.parametrize("error", [-0.1, math.nan])
def test_a_statistic_is_not_computed_within_less_than_nothing(error: float) -> None:
    """A negative error would take from the move that the noise must cover."""
    with pytest.raises(PrivacyError):
        Statistic(1.0, error=error)
