"""Global and network sensitivities, and their status."""

import math
from typing import Any, cast

import numpy as np
import pytest

from veilsum import families
from veilsum.errors import PrivacyError
from veilsum.privacy import sensitivity as sens
from veilsum.privacy.guarantee import Status


def test_global_is_the_modulus_of_the_family() -> None:
    bound = sens.from_family(families.LogNormal(1.0, bounds=(0.5, None)), radius=2.0)
    assert (bound.kind, bound.status) == ("global", "proved")
    assert bound.largest == pytest.approx(math.log(5))
    assert bound.at([1.0, 7.0]) == pytest.approx(np.full(2, math.log(5)))
    assert not bound.reads_signals
    assert bound.smoothing == 0
    assert "1.609437912 for moves of up to 2 (global, proved): log s is steepest" in str(bound)
    assert not sens.from_family(families.LogNormal(1.0)).finite
    vouched = families.Custom(np.sin, families.Support(), 1.0)
    assert sens.from_family(vouched).status == "claimed"


def test_network_is_the_larger_of_weight_and_signal() -> None:
    signal = sens.from_family(families.LogNormal1p(1.0), radius=0.5)
    bound = sens.network([0.1, 0.5], signal)
    assert bound.largest == pytest.approx([math.log(1.5), 0.5])
    assert bound.at(np.ones((2, 3))) == pytest.approx(np.array([[math.log(1.5)] * 3, [0.5] * 3]))
    assert (bound.kind, bound.status, bound.reads_signals) == ("network", "proved", False)
    with pytest.raises(PrivacyError, match="each of 2 agents"):
        bound.at(np.ones(3))
    with pytest.raises(PrivacyError, match="at least 0"):
        sens.network([-1.0], signal)


def test_network_keeps_a_smooth_sensitivity_smooth() -> None:
    signal = sens.smooth_log(0.1, 50.0, smoothing=0.3)
    bound = sens.network([0.2, 0.9], signal)
    s = np.array([[0.1, 9.0, 40.0], [0.1, 9.0, 40.0]])
    assert bound.at(s) == pytest.approx(np.maximum([[0.2], [0.9]], signal.at(s)))
    near = bound.at(np.clip(s + 1, 0.1, 50))
    assert (np.abs(np.log(bound.at(s) / near)) <= 0.3 + 1e-12).all()
    assert bound.smoothing == 0.3
    assert sens.network(0.1, sens.as_published(1.0, 0.1)).status == "refuted"


def test_a_bound_is_valid_once_constructed() -> None:
    for wrong in ({"largest": -1.0}, {"largest": math.nan}, {"radius": 0.0}, {"smoothing": -1.0}):
        options: Any = {"largest": 1.0, "radius": 1.0} | wrong
        with pytest.raises(PrivacyError):
            sens.SensitivityBound(sens.SensitivityOrigin.GLOBAL, Status.PROVED, "why", **options)
    with pytest.raises(PrivacyError, match="spread"):
        sens.SensitivityBound(sens.SensitivityOrigin.ESTIMATED, Status.ESTIMATED, "why", 1.0, 1.0)
    with pytest.raises(PrivacyError, match="kind must be one of"):
        sens.SensitivityBound(cast(Any, "local"), Status.PROVED, "why", 1.0, 1.0)
    by_name = cast(Any, "estimated")  # a string cannot evade the check of an enum
    with pytest.raises(PrivacyError, match="spread"):
        sens.SensitivityBound(by_name, Status.ESTIMATED, "why", 1.0, 1.0)
