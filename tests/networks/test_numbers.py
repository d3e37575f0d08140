"""Numbers at the edge of the API: what is refused, with the error class of the caller."""

import math
from typing import Any

import numpy as np
import pytest

from veilsum import _validate
from veilsum.errors import NetworkError
from veilsum.networks import Graph, load, metropolis

HUGE = 10**400
NOT_NUMBERS = ["1", True, np.True_, None, [1], np.ones(1), 1j]


@pytest.mark.parametrize("value", [5, np.int32(5), np.uint8(5), HUGE])
def test_whole_numbers(value: Any) -> None:
    _validate.at_least(NetworkError, 5, n=value)


@pytest.mark.parametrize("value", [4, 5.5, math.nan, math.inf, -math.inf, *NOT_NUMBERS])
def test_what_is_not_a_whole_number(value: Any) -> None:
    with pytest.raises(NetworkError, match="n must be a whole number of at least 5; found "):
        _validate.at_least(NetworkError, 5, n=value)


@pytest.mark.parametrize("value", [5.0, np.float64(5)])
def test_the_remedy_for_a_float_is_shown(value: Any) -> None:
    with pytest.raises(NetworkError, match=r"found 5\.0; write 5$"):
        _validate.at_least(NetworkError, 5, n=value)


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, HUGE, -HUGE, *NOT_NUMBERS])
def test_what_is_not_positive(value: Any) -> None:
    with pytest.raises(NetworkError, match="x must be a finite number above 0; found "):
        _validate.positive(NetworkError, x=value)


@pytest.mark.parametrize("value", [1, -0.1, math.nan, math.inf, HUGE, *NOT_NUMBERS])
def test_what_is_not_a_probability(value: Any) -> None:
    with pytest.raises(NetworkError, match=r"p must be a probability in \[0, 1\); found "):
        _validate.probability(NetworkError, p=value)


def test_numbers_of_numpy_are_numbers() -> None:
    _validate.positive(NetworkError, a=np.float32(1), b=np.int64(2), c=np.array(0.5))  # type: ignore[arg-type]
    _validate.probability(NetworkError, a=np.float64(0), b=np.array(0.5))  # type: ignore[arg-type]


def test_a_message_shows_no_long_value() -> None:
    with pytest.raises(NetworkError, match=r"found a whole number of more than 40 digits$"):
        _validate.positive(NetworkError, x=10**5000)
    with pytest.raises(NetworkError, match=r"found a value of type list$"):
        _validate.positive(NetworkError, x=[3.14159])  # type: ignore[arg-type]
    with pytest.raises(NetworkError) as caught:
        _validate.positive(NetworkError, x="long" * 100)  # type: ignore[arg-type]
    assert len(str(caught.value)) < 100


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ring:5.0", r"size must be a whole number of at least 3; found 5\.0; write 5"),
        ("ring:1e400", "size must be a whole number of at least 3; found inf"),
        ("path:nan", "size must be a whole number of at least 2; found nan"),
        (f"star:{HUGE}", "size must be at most 2147483647; found a whole number of more than 40"),
        ("torus:100000x100000", "size must be at most 2147483647"),
        ("feeder:5,100000,100000", "size must be at most 2147483647"),
        ("hypercube:100", "dimension must be at most 24; found 100"),
        ("hypercube:63", "dimension must be at most 24; found 63"),
        ("random-regular:4,2.0", r"degree must be a whole number of at least 1; found 2\.0"),
        ("random-geometric:10,0.3,1.5", r"seed must be a whole number of at least 0; found 1\.5"),
        ("erdos-renyi:10,0.3,-1", "seed must be a whole number of at least 0; found -1"),
        ("erdos-renyi:10,nan", r"probability must lie in \(0, 1\]; found nan"),
    ],
)
def test_names_with_wrong_numbers(name: Any, message: Any) -> None:
    with pytest.raises(NetworkError, match=message):
        load(name)


@pytest.mark.parametrize("builder", ["erdos-renyi", "watts-strogatz"])
def test_options_that_are_not_numbers(builder: Any) -> None:
    options = {"neighbours": 2} if builder == "watts-strogatz" else {}
    with pytest.raises(NetworkError, match=r"probability must lie in .*found a value of type list"):
        load(builder, size=5, probability=[0.1], **options)


def test_sizes_and_accuracies_are_checked_everywhere() -> None:
    with pytest.raises(NetworkError, match=r"size must be a whole number .*found 3\.0"):
        Graph(3.0, [(0, 1), (1, 2)])  # type: ignore[arg-type]
    with pytest.raises(NetworkError, match=r"accuracy must lie in .*found 'x'"):
        metropolis("ring:5").rounds_to("x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("90s", 90), ("10m", 600), ("1h", 3600), ("1d", 86400), ("2w", 1209600), ("1.5h", 5400),
     (90, 90), (0.25, 0.25), (0, 0), ("0s", 0)],
)  # fmt: skip
def test_a_duration_is_text_with_a_unit_or_a_number_of_seconds(
    written: Any, seconds: float
) -> None:
    assert _validate.duration(NetworkError, every=written) == seconds


@pytest.mark.parametrize(
    "written",
    ["", "90", "1 h", "1H", "h", "-1h", "1h30m", "1e3s", "9" * 400 + "w", "\u0661s", "1s\n",
     -1, math.inf, math.nan, True, None, [1]],
)  # fmt: skip
def test_what_is_no_duration_is_refused(written: Any) -> None:
    with pytest.raises(NetworkError, match=r'^every must be a time such as "90s"'):
        _validate.duration(NetworkError, every=written)
